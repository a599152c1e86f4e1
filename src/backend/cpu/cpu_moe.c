/* SPDX-License-Identifier: Apache-2.0
 * cpu_moe.c: the chosen experts' MLPs. Contract: op_moe.h. The (token, k) pairs are sorted by expert; the tiles of all chosen experts form
 * one list, which the threads share by work. One job: tokens ready, up, hidden rows ready, down, with the threads meeting in between.
 * The invariant that breaks first: a pair's result does not depend on which pairs share its expert, nor on where the list was cut.
 */
#include "backend/cpu/cpu_act.h"
#include "backend/cpu/cpu_kit.h"
#include "backend/ref/ref_math.h"

#define TOKENS_MAX 1024 /* of a pass: bounds the working memory */
#define TILE_COST 4     /* of reading a tile, in rows that it is multiplied with */

/* The pairs [from, to) are this expert's, the first n_decode of them in decode form. */
typedef struct chosen {
	int32_t e;
	int64_t from, to, n_decode;
} chosen;

typedef struct ffn {
	const op_expert_ffn *a;
	cpu_pool *pool;
	const vec_row *row;
	const cpu_mat *up, *down;     /* of any expert: shapes, kernels */
	int64_t t0, n, K;             /* tokens [t0, t0 + n) */
	int64_t *count;               /* [E + 1] */
	int32_t *pair, *token, *same; /* [n K] sorted: the pair; its token; its own place */
	float *factor;                /* [n K] sorted */
	chosen *chosen;
	int64_t experts; /* that are chosen */
	cpu_rows x, hidden;
	cpu_space *space;
	double *work; /* [threads, columns] */
	int64_t columns;
} ffn;

/* One expert's share of a thread. */
typedef struct share {
	const ffn *f;
	const chosen *c;
	const cpu_mat *m;
	mat_end end;
} share;

static mat_end end_of(const cpu_mat *m, const weight *w, float input, bool up)
{
	const bool both = m->kernel->grid != NULL, marlin = m->eager && m->format == MAT_FP4;
	mat_end end = {.unit = m->format == MAT_FP8 ? MAT_FP8_UNIT : 1.0f, .first = w->scale, .second = 1.0f, .relu2 = up};
	if (both) end.first = input, end.second = w->scale;
	if (marlin && !up) end.first = 1.0f; /* its scale is in the factor */
	end.round = m->eager && (up || marlin);
	return end;
}

static void put_up(void *user, int64_t tile, const int32_t *order, int64_t count, float *sums)
{
	const share *s = user;
	const int64_t first = tile * MAT_TILE, n = ref_min(MAT_TILE, s->m->n - first);
	s->m->vec->end(&s->end, sums, count, NULL, NULL);
	for (int64_t j = 0; j < count; j++)
		memcpy(cpu_rows_at(&s->f->hidden, s->c->from + order[j], first / MAT_BLOCK) + first % MAT_BLOCK, sums + j * MAT_TILE,
		    (size_t)n * sizeof *sums);
}

static void put_down(void *user, int64_t tile, const int32_t *order, int64_t count, float *sums)
{
	const share *s = user;
	const tensor *rows = s->f->a->rows;
	const int64_t first = tile * MAT_TILE, n = ref_min(MAT_TILE, s->m->n - first);
	for (int64_t j = 0; j < count; j++) {
		const int64_t at = s->c->from + order[j], pair = s->f->pair[at];
		s->m->vec->end(&s->end, sums + j * MAT_TILE, 1, NULL, &s->f->factor[at]);
		char *to = ref_at(rows, s->f->t0 + pair / s->f->K, pair % s->f->K, 0);
		cpu_store(s->f->row, rows->dtype, to + (size_t)first * num_bytes(rows->dtype), n, sums + j * MAT_TILE);
	}
}

static int64_t tile_cost(const chosen *c) { return TILE_COST + c->to - c->from; }

/* The first tile of an expert whose costs begin at `begin` that lies at or behind `bound`. */
static int64_t tile_at(const chosen *c, int64_t tiles, int64_t begin, int64_t bound)
{
	if (bound <= begin) return 0;
	return ref_min(tiles, (bound - begin + tile_cost(c) - 1) / tile_cost(c));
}

/* This thread's part of the list of tiles, of `up` or down matrices. */
static void multiply(const ffn *f, bool up, int thread, int threads)
{
	const weight_experts *all = f->a->experts;
	const int64_t tiles = up ? f->up->tiles : f->down->tiles;
	int64_t total = 0, begin = 0;
	for (int64_t i = 0; i < f->experts; i++) total += tiles * tile_cost(&f->chosen[i]);
	const int64_t low = total * thread / threads, high = total * (thread + 1) / threads;
	for (int64_t i = 0; i < f->experts && begin < high; i++) {
		const chosen *c = &f->chosen[i];
		const int64_t from = tile_at(c, tiles, begin, low), to = tile_at(c, tiles, begin, high);
		begin += tiles * tile_cost(c);
		if (from >= to) continue;
		const weight *w = up ? &all->up[c->e] : &all->down[c->e];
		share s = {.f = f, .c = c, .m = w->bound};
		s.end = end_of(s.m, w, up ? all->up_input : all->down_input, up);
		const cpu_pick pick = {
		    .rows = up ? &f->x : &f->hidden, .pick = (up ? f->token : f->same) + c->from, .n = c->to - c->from, .n_decode = c->n_decode};
		cpu_multiply(s.m, &pick, from, to, &f->space[thread], up ? put_up : put_down, &s);
	}
}

static void job(void *user, int thread, int threads)
{
	const ffn *f = user;
	const op_expert_ffn *a = f->a;
	double *work = f->work + thread * f->columns;
	int64_t from, to;
	cpu_range(f->n, 1, thread, threads, &from, &to);
	for (int64_t i = from; i < to; i++) {
		for (int64_t b = 0; b < f->x.blocks; b++)
			cpu_load(f->row, a->x->dtype, cpu_at(a->x, f->t0 + i, b * MAT_BLOCK), ref_min(MAT_BLOCK, f->x.k - b * MAT_BLOCK),
			    cpu_rows_at(&f->x, i, b));
		cpu_rows_pad(&f->x, i);
		cpu_rows_ready(f->up, &f->x, i, a->experts->up_input, f->t0 + i < a->decode_rows, work);
	}
	if (threads > 1) cpu_pool_barrier(f->pool);
	multiply(f, true, thread, threads);
	if (threads > 1) cpu_pool_barrier(f->pool);
	cpu_range(f->n * f->K, 1, thread, threads, &from, &to);
	for (int64_t i = from; i < to; i++) {
		cpu_rows_pad(&f->hidden, i);
		cpu_rows_ready(f->down, &f->hidden, i, a->experts->down_input, f->t0 + f->token[i] < a->decode_rows, work);
	}
	if (threads > 1) cpu_pool_barrier(f->pool);
	multiply(f, false, thread, threads);
}

static int32_t choice(const ffn *f, int64_t i) { return ((const int32_t *)tensor_row(f->a->idx, f->t0 + i / f->K))[i % f->K]; }

/* Pairs by expert: a counting sort, ascending within an expert, so that rows in decode form stand first. */
static void sort_pairs(ffn *f, bool wide_factor)
{
	const int64_t pairs = f->n * f->K, E = f->a->experts->E;
	memset(f->count, 0, (size_t)(E + 1) * sizeof *f->count);
	for (int64_t i = 0; i < pairs; i++) f->count[choice(f, i) + 1]++;
	f->experts = 0;
	for (int64_t e = 0; e < E; e++) {
		if (f->count[e + 1]) f->chosen[f->experts++] = (chosen){.e = (int32_t)e, .from = f->count[e], .to = f->count[e] + f->count[e + 1]};
		f->count[e + 1] += f->count[e];
	}
	for (int64_t i = 0; i < pairs; i++) {
		const int32_t e = choice(f, i);
		const int64_t at = f->count[e]++;
		double routed;
		ref_load(f->a->w, f->t0 + i / f->K, i % f->K, 1, &routed);
		f->pair[at] = (int32_t)i, f->token[at] = (int32_t)(i / f->K), f->same[at] = (int32_t)at;
		f->factor[at] = (float)(wide_factor ? routed : ref_bf16(routed * (double)f->a->experts->down[e].scale));
	}
	for (int64_t i = 0; i < f->experts; i++) {
		chosen *c = &f->chosen[i];
		while (c->from + c->n_decode < c->to && f->t0 + f->token[c->from + c->n_decode] < f->a->decode_rows) c->n_decode++;
	}
}

/* Experts in range and bound alike; counts them. False: the exec has failed. */
static bool choices_good(exec *x, ffn *f, bool *seen)
{
	const weight_experts *all = f->a->experts;
	const int64_t n = f->a->x->shape[0];
	memset(seen, 0, (size_t)all->E * sizeof *seen);
	for (int64_t t = 0; t < n; t++)
		for (int64_t k = 0; k < f->K; k++) {
			const int32_t e = ((const int32_t *)tensor_row(f->a->idx, t))[k];
			if (e < 0 || e >= all->E) {
				exec_fail(x, OP_expert_ffn, NH_ERR_ARG, "idx[%lld, %lld] = %d, expected 0 <= expert < %lld", (long long)t, (long long)k, e,
				    (long long)all->E);
				return false;
			}
			if (seen[e]) continue;
			seen[e] = true;
			const cpu_mat *up = all->up[e].bound, *down = all->down[e].bound;
			if (!up || !down || up->kernel != f->up->kernel || down->kernel != f->down->kernel || up->n != f->up->n || up->k != f->up->k ||
			    down->n != f->down->n || down->k != f->up->n) {
				exec_fail(x, OP_expert_ffn, NH_ERR_UNSUPPORTED, "%s: not imported, or in another format than the layer's first expert",
				    all->up[e].name);
				return false;
			}
			x->counters.experts_read++;
		}
	return true;
}

/* The memory of a pass of at most n tokens. */
static bool take(exec *x, ffn *f, int64_t n)
{
	const int64_t pairs = n * f->K, E = f->a->experts->E;
	const bool decode = f->a->decode_rows > 0;
	f->columns = ref_max(f->up->k, f->down->k);
	f->count = ref_take(x, OP_expert_ffn, E + 1, sizeof *f->count);
	f->pair = ref_take(x, OP_expert_ffn, pairs, sizeof *f->pair);
	f->token = ref_take(x, OP_expert_ffn, pairs, sizeof *f->token);
	f->same = ref_take(x, OP_expert_ffn, pairs, sizeof *f->same);
	f->factor = ref_take(x, OP_expert_ffn, pairs, sizeof *f->factor);
	f->chosen = ref_take(x, OP_expert_ffn, E, sizeof *f->chosen);
	f->work = ref_take(x, OP_expert_ffn, cpu_threads(x) * f->columns, sizeof *f->work);
	f->space = cpu_space_take(x, OP_expert_ffn, pairs);
	return f->count && f->pair && f->token && f->same && f->factor && f->chosen && f->work && f->space &&
	       cpu_rows_take(x, OP_expert_ffn, n, f->up, decode, &f->x) && cpu_rows_take(x, OP_expert_ffn, pairs, f->down, decode, &f->hidden);
}

void cpu_expert_ffn(exec *x, const op_expert_ffn *a)
{
	exec_count(x, OP_expert_ffn, a);
	ref_begin(x);
	const int64_t n = a->x->shape[0], K = a->idx->shape[1];
	ffn f = {.a = a, .pool = cpu_self_of(x)->pool, .row = cpu_row(x), .K = K};
	f.up = cpu_mat_of(x, OP_expert_ffn, &a->experts->up[0]);
	f.down = f.up ? cpu_mat_of(x, OP_expert_ffn, &a->experts->down[0]) : NULL;
	bool *seen = f.down ? ref_take(x, OP_expert_ffn, a->experts->E, sizeof *seen) : NULL;
	if (!seen || !choices_good(x, &f, seen) || n * K == 0) return;
	const int64_t passes = (n + TOKENS_MAX - 1) / TOKENS_MAX, step = (n + passes - 1) / passes;
	if (!take(x, &f, step)) return;
	for (f.t0 = 0; f.t0 < n; f.t0 += step) {
		f.n = ref_min(step, n - f.t0);
		f.x.n = f.n, f.hidden.n = f.n * K;
		sort_pairs(&f, !(f.down->eager && f.down->format == MAT_FP4));
		cpu_go(x, f.n * K * f.up->k * (1 + f.up->n / 8), job, &f);
	}
	x->counters.expert_rows += (uint64_t)(n * K);
}
