/* SPDX-License-Identifier: Apache-2.0
 * cpu_attn.c: keys and values into pages, and paged attention. Contracts: op_attn.h. Keys are cut into splits of SPLIT at absolute
 * positions. Within a split weights are relative to the split's largest score (and rounded so, in eager profiles); splits are merged in
 * ascending order. The decode form shares out (row, KV head, split), the prefill form (some rows of one sequence, KV head) with all their
 * splits; both run the same arithmetic, so their bits are equal. The invariant that breaks first: a position that a row may not see enters
 * none of its sums, not even times zero.
 */
#include <stdatomic.h>

#include "backend/cpu/cpu_kit.h"
#include "backend/cpu/vec/vec_attn.h"

#define SPLIT 512
#define AHEAD (2 * VEC_ATTN_KEYS) /* rows from the asking to the use: one block of products is too short for memory */
#define FETCH 6                   /* rows asked for between products, because many at once stall the processor */
#define LANES 64                  /* query columns that a tile of rows has at most, unless one row has more */

/* -- writing ----------------------------------------------------------------------------------------------------------------------- */

typedef struct kv_job {
	const op_kv_write *a;
	const vec_row *row;
	float *work; /* [threads, heads * hd] */
	bool eager;
} kv_job;

static void kv_row(const kv_job *m, const tensor *pool, const tensor *rows, float scale, int64_t t, int64_t slot, float *v)
{
	const int64_t tokens = pool->shape[1], heads = pool->shape[2], hd = pool->shape[3];
	cpu_load(m->row, rows->dtype, tensor_row(rows, t), heads * hd, v);
	for (int64_t h = 0; h < heads; h++) {
		void *to = ref_at(pool, slot / tokens, slot % tokens, h);
		if (pool->dtype != NUM_E4M3) {
			cpu_store(m->row, pool->dtype, to, hd, v + h * hd);
			continue;
		}
		for (int64_t d = 0; d < hd; d++) {
			const double q = (double)v[h * hd + d] / (double)scale;
			((uint8_t *)to)[d] = num_f64_to_e4m3(m->eager ? (double)(float)q : q);
		}
	}
}

static void kv_rows(void *user, int thread, int threads)
{
	const kv_job *m = user;
	const op_kv_write *a = m->a;
	float *v = m->work + thread * a->k->shape[1];
	int64_t from, to;
	cpu_range(a->k->shape[0], 1, thread, threads, &from, &to);
	for (int64_t t = from; t < to; t++) {
		const int64_t slot = ((const int64_t *)a->kv_slot->data)[t * a->kv_slot->stride[0]];
		if (slot == -1) continue;
		kv_row(m, &a->pages->k, a->k, a->pages->k_scale, t, slot, v);
		kv_row(m, &a->pages->v, a->v, a->pages->v_scale, t, slot, v);
	}
}

void cpu_kv_write(exec *x, const op_kv_write *a)
{
	exec_count(x, OP_kv_write, a);
	ref_begin(x);
	const int64_t n = a->k->shape[0], slots = a->pages->k.shape[0] * a->pages->k.shape[1];
	for (int64_t t = 0; t < n; t++) {
		const int64_t slot = ((const int64_t *)a->kv_slot->data)[t * a->kv_slot->stride[0]];
		if (slot >= -1 && slot < slots) continue;
		exec_fail(x, OP_kv_write, NH_ERR_ARG, "kv_slot[%lld] = %lld, expected -1 or 0 .. %lld", (long long)t, (long long)slot,
		    (long long)(slots - 1));
		return;
	}
	kv_job m = {.a = a, .row = cpu_row(x), .eager = ref_eager(x)};
	m.work = ref_take(x, OP_kv_write, cpu_threads(x) * a->k->shape[1], sizeof *m.work);
	if (m.work) cpu_go(x, n * a->k->shape[1] * (a->pages->k.dtype == NUM_E4M3 ? 16 : 2), kv_rows, &m);
}

/* -- reading ----------------------------------------------------------------------------------------------------------------------- */

typedef struct tile {
	int64_t row, n;     /* rows of one sequence with consecutive positions */
	int64_t first, end; /* keys that some row sees */
	int64_t part;       /* decode form: number of the row's first part, of KV head 0 */
} tile;

typedef struct attn {
	exec *x;
	op_id op;
	const op_attn_decode *a;
	const vec_row *row;
	const vec_attn *k;
	vec_kv kind;
	bool eager;
	int64_t n, R, L, hd; /* query heads a KV head, the same padded to lanes; head dim */
	int64_t wide, pitch; /* head dim padded; from row to row in memory, so that rows do not meet in the same sets of a cache */
	int64_t Q, most;     /* columns of a tile, of `most` rows */
	float scale;         /* of scores: the op's, and the codes' */
	tile *tile;
	int64_t tiles, parts; /* parts: of one KV head */
	int32_t *part_tile;   /* decode: [parts] */
	float *part;          /* decode: [parts, KV heads, part_room]: out, top, sum */
	int64_t part_room;
	float *work; /* [threads, room] */
	int64_t room;
	const void **key;  /* [threads, 2, SPLIT] */
	atomic_llong next; /* prefill: units are taken one by one, as they differ in length */
} attn;

/* One thread's arrays for a tile. */
typedef struct desk {
	float *q, *s, *kv;         /* panels of hd * Q, [SPLIT, Q], [VEC_ATTN_KEYS, pitch] */
	float *out, *top, *sum;    /* [most, R, pitch], [Q], [Q]: of one split */
	float *out1, *top1, *sum1; /* of the splits before it */
	const void **k, **v;       /* [SPLIT] */
} desk;

static int64_t desk_room(const attn *m)
{
	return m->hd * m->Q + SPLIT * m->Q + VEC_ATTN_KEYS * m->pitch + 2 * m->most * m->R * m->pitch + 4 * m->Q;
}

static desk desk_take(const attn *m, int thread)
{
	float *at = m->work + thread * m->room;
	const int64_t out = m->most * m->R * m->pitch;
	desk d = {.q = at, .k = m->key + (int64_t)thread * 2 * SPLIT};
	d.v = d.k + SPLIT;
	d.s = d.q + m->hd * m->Q;
	d.kv = d.s + SPLIT * m->Q;
	d.out = d.kv + VEC_ATTN_KEYS * m->pitch;
	d.out1 = d.out + out;
	d.top = d.out1 + out, d.sum = d.top + m->Q, d.top1 = d.sum + m->Q, d.sum1 = d.top1 + m->Q;
	return d;
}

static int64_t first_key(const op_attn_decode *a, int64_t pos) { return a->window > 0 ? ref_max(0, pos - a->window + 1) : 0; }

static int32_t page_of(const op_attn_decode *a, int32_t seq, int64_t pos)
{
	const int64_t slot = pos / a->page_tokens;
	if (seq < 0 || seq >= a->page_table->shape[0] || slot >= a->page_table->shape[1]) return -1;
	return ((const int32_t *)tensor_row(a->page_table, seq))[slot];
}

/* Queries of a tile's KV head as columns, in panels (vec_attn.h); padding is zeros. */
static void queries(const attn *m, const desk *d, const tile *t, int64_t g)
{
	memset(d->q, 0, sizeof(float) * (size_t)(m->hd * m->Q));
	float *row = d->s; /* free for now; R * hd <= SPLIT * Q is not given, so head by head */
	for (int64_t i = 0; i < t->n; i++)
		for (int64_t r = 0; r < m->R; r++)
			for (int64_t from = 0; from < m->hd; from += SPLIT) {
				const int64_t part = ref_min(SPLIT, m->hd - from);
				cpu_load(m->row, m->a->q->dtype, cpu_at(m->a->q, t->row + i, (g * m->R + r) * m->hd + from), part, row);
				const int64_t column = i * m->L + r, panel = column / m->k->panel * m->k->panel;
				const int64_t columns = ref_min(m->k->panel, m->Q - panel);
				float *to = d->q + panel * m->hd + column - panel;
				for (int64_t e = 0; e < part; e++) to[(from + e) * columns] = row[e];
			}
}

/* Addresses of the keys and values at positions [lo, hi) for KV head g. */
static void addresses(const attn *m, const desk *d, const tile *t, int64_t g, int64_t lo, int64_t hi)
{
	const op_attn_decode *a = m->a;
	const int32_t seq = ref_i32(a->row_seq, t->row);
	const tensor *k = &a->pages->k, *v = &a->pages->v;
	const size_t k_step = (size_t)k->stride[1] * num_bytes(k->dtype), v_step = (size_t)v->stride[1] * num_bytes(v->dtype);
	for (int64_t p = lo; p < hi;) {
		const int32_t page = page_of(a, seq, p);
		const int64_t end = ref_min(hi, (p / a->page_tokens + 1) * a->page_tokens);
		const char *kp = ref_at(k, page, p % a->page_tokens, g), *vp = ref_at(v, page, p % a->page_tokens, g);
		for (; p < end; p++, kp += k_step, vp += v_step) d->k[p - lo] = kp, d->v[p - lo] = vp;
	}
}

/* Asks for rows that come next: they are scattered over pages, which the processor's own prefetching does not follow. Inlined always: gcc
 * takes a function that only prefetches for one without effect, and drops its calls. */
static inline __attribute__((always_inline)) void fetch(const attn *m, const void *const *at, int64_t n)
{
	const int64_t bytes = m->hd * (m->kind == VEC_KV_E4M3 ? 1 : m->kind == VEC_KV_BF16 ? 2 : 4);
	for (int64_t j = 0; j < n; j++)
		for (int64_t b = 0; b < bytes; b += 64) __builtin_prefetch((const char *)at[j] + b);
}

/* One split of a tile: keys [lo, hi), all within it, some row seeing each. Fills out, top and sum of the rows that see any of them. */
static void one_split(const attn *m, const desk *d, const tile *t, int64_t g, int64_t lo, int64_t hi)
{
	const int64_t pos = ref_i32(m->a->pos, t->row), keys = hi - lo;
	int64_t from[LANES], to[LANES];
	addresses(m, d, t, g, lo, hi);
	for (int64_t j = 0; j < keys; j += VEC_ATTN_KEYS) {
		const int64_t n = ref_min(VEC_ATTN_KEYS, keys - j);
		m->k->rows(d->kv, m->pitch, d->k + j, n, m->hd, m->kind);
		for (int64_t i = 0; i < n; i += FETCH) {
			const int64_t few = ref_min(FETCH, n - i), next = j + AHEAD + i;
			if (next < keys) fetch(m, d->k + next, ref_min(FETCH, keys - next));
			else if (next < 2 * keys) fetch(m, d->v + next - keys, ref_min(FETCH, 2 * keys - next));
			m->k->scores(d->s + (j + i) * m->Q, d->kv + i * m->pitch, m->pitch, d->q, few, m->hd, m->Q);
		}
	}
	for (int64_t i = 0; i < t->n; i++) {
		from[i] = ref_max(lo, first_key(m->a, pos + i)) - lo;
		to[i] = ref_min(hi, pos + i + 1) - lo;
		if (from[i] >= to[i]) continue;
		m->k->weigh(
		    d->s + from[i] * m->Q + i * m->L, m->Q, m->L, to[i] - from[i], m->scale, m->eager, d->top + i * m->L, d->sum + i * m->L);
	}
	memset(d->out, 0, sizeof(float) * (size_t)(t->n * m->R * m->pitch));
	for (int64_t j = 0; j < keys; j += VEC_ATTN_KEYS) {
		const int64_t n = ref_min(VEC_ATTN_KEYS, keys - j);
		m->k->rows(d->kv, m->pitch, d->v + j, n, m->hd, m->kind);
		if (j + AHEAD < keys) fetch(m, d->v + j + AHEAD, ref_min(VEC_ATTN_KEYS, keys - j - AHEAD));
		for (int64_t i = 0; i < t->n; i++) {
			const int64_t b = ref_max(j, from[i]), e = ref_min(j + n, to[i]);
			if (b >= e) continue;
			m->k->values(
			    d->out + i * m->R * m->pitch, d->s + b * m->Q + i * m->L, m->Q, m->R, d->kv + (b - j) * m->pitch, m->pitch, m->wide, e - b);
		}
	}
}

/* One row of one KV head from its sums to y. */
static void result(const attn *m, int64_t row, int64_t g, float *out, const float *sum)
{
	const float by = m->kind == VEC_KV_E4M3 ? m->a->pages->v_scale : 1.0f;
	for (int64_t r = 0; r < m->R; r++) {
		float *o = out + r * m->pitch;
		for (int64_t e = 0; e < m->hd; e++) o[e] = o[e] / sum[r] * by;
		cpu_store(m->row, m->a->y->dtype, cpu_at(m->a->y, row, (g * m->R + r) * m->hd), m->hd, o);
	}
}

static int64_t split_of(int64_t pos) { return pos / SPLIT; }

/* -- the decode form: parts, then their merging ------------------------------------------------------------------------------------ */

static void parts_run(void *user, int thread, int threads)
{
	const attn *m = user;
	const int64_t heads = m->a->kv_heads;
	const desk d = desk_take(m, thread);
	int64_t from, to, ready = -1;
	cpu_range(m->parts * heads, 1, thread, threads, &from, &to);
	for (int64_t u = from; u < to; u++) { /* part by part, the KV heads of one side by side: their keys share cache lines' pages */
		const int64_t part = u / heads, g = u % heads;
		const tile *t = &m->tile[m->part_tile[part]];
		const int64_t b = (split_of(t->first) + part - t->part) * SPLIT;
		float *at = m->part + u * m->part_room;
		if (ready != m->part_tile[part] * heads + g) queries(m, &d, t, g);
		ready = m->part_tile[part] * heads + g;
		one_split(m, &d, t, g, ref_max(b, t->first), ref_min(b + SPLIT, t->end));
		memcpy(at, d.out, sizeof(float) * (size_t)(m->R * m->pitch));
		memcpy(at + m->R * m->pitch, d.top, sizeof(float) * (size_t)m->L);
		memcpy(at + m->R * m->pitch + m->L, d.sum, sizeof(float) * (size_t)m->L);
	}
}

static void parts_merge(void *user, int thread, int threads)
{
	const attn *m = user;
	const int64_t heads = m->a->kv_heads, out = m->R * m->pitch;
	int64_t from, to;
	cpu_range(m->tiles * heads, 1, thread, threads, &from, &to);
	for (int64_t u = from; u < to; u++) {
		const tile *t = &m->tile[u / heads];
		const int64_t g = u % heads, end = u / heads + 1 < m->tiles ? t[1].part : m->parts;
		float *at = m->part + (t->part * heads + g) * m->part_room;
		for (int64_t part = t->part + 1; part < end; part++) {
			const float *two = m->part + (part * heads + g) * m->part_room;
			m->k->merge(at, at + out, at + out + m->L, two, two + out, two + out + m->L, m->R, m->L, m->pitch);
		}
		result(m, t->row, g, at, at + out + m->L);
	}
}

static void decode(attn *m, int64_t work)
{
	int64_t at = 0;
	m->part_room = m->R * m->pitch + 2 * m->L;
	m->part_tile = ref_take(m->x, m->op, m->parts, sizeof *m->part_tile);
	m->part = ref_take(m->x, m->op, m->parts * m->a->kv_heads, sizeof *m->part * (size_t)m->part_room);
	if (!m->part_tile || !m->part) return;
	for (int64_t i = 0; i < m->tiles; i++)
		for (const int64_t end = i + 1 < m->tiles ? m->tile[i + 1].part : m->parts; at < end; at++) m->part_tile[at] = (int32_t)i;
	cpu_go(m->x, work, parts_run, m);
	cpu_go(m->x, m->parts * m->a->kv_heads * m->R * m->hd, parts_merge, m);
}

/* -- the prefill form -------------------------------------------------------------------------------------------------------------- */

static void one_tile(const attn *m, const desk *d, const tile *t, int64_t g)
{
	const int64_t pos = ref_i32(m->a->pos, t->row);
	bool begun[LANES] = {false};
	queries(m, d, t, g);
	for (int64_t b = split_of(t->first) * SPLIT; b < t->end; b += SPLIT) {
		const int64_t lo = ref_max(b, t->first), hi = ref_min(b + SPLIT, t->end);
		one_split(m, d, t, g, lo, hi);
		for (int64_t i = 0; i < t->n; i++) {
			const int64_t out = i * m->R * m->pitch, at = i * m->L;
			if (ref_max(lo, first_key(m->a, pos + i)) >= ref_min(hi, pos + i + 1)) continue;
			if (begun[i])
				m->k->merge(d->out1 + out, d->top1 + at, d->sum1 + at, d->out + out, d->top + at, d->sum + at, m->R, m->L, m->pitch);
			else {
				memcpy(d->out1 + out, d->out + out, sizeof(float) * (size_t)(m->R * m->pitch));
				memcpy(d->top1 + at, d->top + at, sizeof(float) * (size_t)m->L);
				memcpy(d->sum1 + at, d->sum + at, sizeof(float) * (size_t)m->L);
			}
			begun[i] = true;
		}
	}
	for (int64_t i = 0; i < t->n; i++) result(m, t->row + i, g, d->out1 + i * m->R * m->pitch, d->sum1 + i * m->L);
}

/* Later rows see more keys: the longest units first. */
static void tiles_run(void *user, int thread, int threads)
{
	attn *m = user;
	const desk d = desk_take(m, thread);
	const int64_t units = m->tiles * m->a->kv_heads;
	(void)threads;
	for (int64_t u; (u = units - 1 - atomic_fetch_add(&m->next, 1)) >= 0;)
		one_tile(m, &d, &m->tile[u / m->a->kv_heads], u % m->a->kv_heads);
}

/* Cuts the rows into tiles and looks at what they will touch. Returns the keys over all tiles; -1: the exec has failed. */
static int64_t tiles_cut(attn *m)
{
	const op_attn_decode *a = m->a;
	int64_t keys = 0;
	m->tile = ref_take(m->x, m->op, m->n, sizeof *m->tile);
	if (!m->tile) return -1;
	for (int64_t t = 0; t < m->n; t++)
		if (ref_i32(a->pos, t) < 0) {
			exec_fail(m->x, m->op, NH_ERR_ARG, "pos[%lld] = %d", (long long)t, ref_i32(a->pos, t));
			return -1;
		}
	for (int64_t row = 0, n; row < m->n; row += n) {
		const int64_t pos = ref_i32(a->pos, row);
		const int32_t seq = ref_i32(a->row_seq, row);
		for (n = 1; n < m->most && row + n < m->n; n++)
			if (ref_i32(a->row_seq, row + n) != seq || ref_i32(a->pos, row + n) != pos + n) break;
		tile *t = &m->tile[m->tiles++];
		*t = (tile){.row = row, .n = n, .first = first_key(a, pos), .end = pos + n, .part = m->parts};
		m->parts += split_of(t->end - 1) - split_of(t->first) + 1;
		keys += (t->end - t->first) * n;
		for (int64_t p = t->first; p < t->end; p = (p / a->page_tokens + 1) * a->page_tokens) {
			const int32_t page = page_of(a, seq, p);
			if (page >= 0 && page < a->pages->k.shape[0] && page < a->pages->v.shape[0]) continue;
			exec_fail(m->x, m->op, NH_ERR_ARG, "row %lld: sequence %d of %lld, position %lld: page %d, expected 0 <= page < %lld",
			    (long long)row, seq, (long long)a->page_table->shape[0], (long long)p, page, (long long)a->pages->k.shape[0]);
			return -1;
		}
	}
	return keys;
}

static void attend(exec *x, op_id op, const op_attn_decode *a)
{
	ref_begin(x);
	attn m = {.x = x, .op = op, .a = a, .row = cpu_row(x), .k = vec_attn_of((int)cpu_self_of(x)->tier), .eager = ref_eager(x)};
	if (a->kv_heads < 1 || a->head_dim < 1 || a->page_tokens < 1 || a->q->shape[1] % ((int64_t)a->kv_heads * a->head_dim)) {
		exec_fail(x, op, NH_ERR_ARG, "a query of %lld for %d KV heads of %d", (long long)a->q->shape[1], a->kv_heads, a->head_dim);
		return;
	}
	const num_dtype type = a->pages->k.dtype;
	m.kind = type == NUM_E4M3 ? VEC_KV_E4M3 : type == NUM_BF16 ? VEC_KV_BF16 : VEC_KV_F32;
	m.scale = (float)(m.kind == VEC_KV_E4M3 ? a->scale * (double)a->pages->k_scale : a->scale);
	m.n = a->q->shape[0], m.hd = a->head_dim, m.wide = ref_up(m.hd, VEC_ATTN_PAD), m.pitch = m.wide + VEC_ATTN_PAD;
	m.R = a->q->shape[1] / a->kv_heads / a->head_dim, m.L = ref_up(m.R, m.k->lanes);
	m.most = op == OP_attn_decode ? 1 : ref_max(1, LANES / m.L), m.Q = m.most * m.L;
	const int64_t keys = tiles_cut(&m), work = keys * m.R * a->kv_heads * m.hd / 8;
	if (keys < 0) return;
	m.room = ref_up(desk_room(&m), 16);
	m.work = ref_take(x, op, cpu_threads(x) * m.room, sizeof *m.work);
	m.key = ref_take(x, op, cpu_threads(x) * 2 * SPLIT, sizeof *m.key);
	if (!m.work || !m.key) return;
	if (op == OP_attn_decode) decode(&m, work);
	else cpu_go(x, work, tiles_run, &m);
}

/* Pages of another type than these: ref's op. */
static bool attn_types(const kv_pages *p)
{
	const num_dtype t = p->k.dtype;
	return t == p->v.dtype && (t == NUM_BF16 || t == NUM_F32 || t == NUM_E4M3);
}

void cpu_attn_decode(exec *x, const op_attn_decode *a)
{
	if (!attn_types(a->pages)) {
		CPU_REFERENCE(x, attn_decode, a);
		return;
	}
	exec_count(x, OP_attn_decode, a);
	attend(x, OP_attn_decode, a);
}

void cpu_attn_prefill(exec *x, const op_attn_prefill *a)
{
	if (!attn_types(a->pages)) {
		CPU_REFERENCE(x, attn_prefill, a);
		return;
	}
	exec_count(x, OP_attn_prefill, a);
	const op_attn_decode same = {
	    .y = a->y,
	    .q = a->q,
	    .pages = a->pages,
	    .pos = a->pos,
	    .row_seq = a->row_seq,
	    .page_table = a->page_table,
	    .page_tokens = a->page_tokens,
	    .kv_heads = a->kv_heads,
	    .head_dim = a->head_dim,
	    .window = a->window,
	    .scale = a->scale,
	};
	attend(x, OP_attn_prefill, &same);
}
