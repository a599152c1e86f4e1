/* SPDX-License-Identifier: Apache-2.0
 * cpu_linear.c: rows times one packed matrix. Contract: op_basic.h. The threads share the rows to make them ready, meet, and share the tiles.
 * Where the profile rounds and the result stays f32 nevertheless, it is a router's, and is summed in doubles: experts are chosen by it.
 * The invariant that breaks first: a thread reads the tiles that it packed.
 */
#include "backend/cpu/cpu_act.h"
#include "backend/cpu/cpu_kit.h"
#include "backend/cpu/vec/vec_wide.h"

typedef struct linear {
	const op_linear *a;
	cpu_pool *pool;
	const cpu_mat *m;
	const vec_row *row;
	cpu_rows rows;
	cpu_pick pick;
	cpu_space *space;
	const float *bias;
	double *work;         /* [threads, k] */
	const vec_wide *wide; /* sums in doubles: a router's; NULL: in f32 */
	mat_end end;
} linear;

static void put(void *user, int64_t tile, const int32_t *order, int64_t count, float *sums)
{
	const linear *l = user;
	const tensor *y = l->a->y;
	const int64_t first = tile * MAT_TILE, n = ref_min(MAT_TILE, l->m->n - first);
	float bias[MAT_TILE] = {0};
	if (l->bias) memcpy(bias, l->bias + first, (size_t)n * sizeof *bias);
	l->m->vec->end(&l->end, sums, count, l->bias ? bias : NULL, NULL);
	for (int64_t j = 0; j < count; j++) cpu_store(l->row, y->dtype, cpu_at(y, order[j], first), n, sums + j * MAT_TILE);
}

/* Rows [from, to) of the pick by one tile, its panel expanded once for all of them. */
static void wide_rows(linear *l, const cpu_space *space, int64_t tile, int64_t from, int64_t to)
{
	double *sums = (double *)(void *)space->sums; /* as large as the f32 sums of two tiles */
	memset(sums, 0, (size_t)((to - from) * MAT_TILE) * sizeof *sums);
	for (int64_t b = 0; b < l->rows.blocks; b++) {
		const int64_t count = ref_min(MAT_BLOCK, l->m->k - b * MAT_BLOCK);
		l->m->vec->expand[l->m->format](space->panel, cpu_mat_tile(l->m, tile), b * MAT_BLOCK, count);
		for (int64_t i = from; i < to; i++) l->wide->block(sums + (i - from) * MAT_TILE, cpu_rows_at(&l->rows, i, b), space->panel, count);
	}
	for (int64_t i = from; i < to; i++) {
		const int32_t row = (int32_t)i;
		float out[MAT_TILE];
		for (int r = 0; r < MAT_TILE; r++) out[r] = (float)sums[(i - from) * MAT_TILE + r];
		put(l, tile, &row, 1, out);
	}
}

static void job(void *user, int thread, int threads)
{
	linear *l = user;
	const op_linear *a = l->a;
	int64_t from, to;
	cpu_range(l->rows.n, 1, thread, threads, &from, &to);
	for (int64_t i = from; i < to; i++) {
		for (int64_t b = 0; b < l->rows.blocks; b++)
			cpu_load(l->row, a->x->dtype, cpu_at(a->x, i, b * MAT_BLOCK), ref_min(MAT_BLOCK, l->m->k - b * MAT_BLOCK),
			    cpu_rows_at(&l->rows, i, b));
		cpu_rows_pad(&l->rows, i);
		cpu_rows_ready(l->m, &l->rows, i, a->w->input_scale, i < a->decode_rows, l->work + thread * l->m->k);
	}
	if (threads > 1) cpu_pool_barrier(l->pool);
	cpu_range(l->m->tiles, 1, thread, threads, &from, &to);
	const cpu_space *space = &l->space[thread];
	for (int64_t tile = from; l->wide && tile < to; tile++)
		for (int64_t i = 0; i < l->rows.n; i += space->n) wide_rows(l, space, tile, i, ref_min(l->rows.n, i + space->n));
	if (!l->wide) cpu_multiply(l->m, &l->pick, from, to, space, put, l);
}

void cpu_linear(exec *x, const op_linear *a)
{
	exec_count(x, OP_linear, a);
	ref_begin(x);
	const cpu_mat *m = cpu_mat_of(x, OP_linear, a->w);
	const int64_t n = a->x->shape[0];
	if (!m || n == 0) return;
	linear l = {.a = a, .pool = cpu_self_of(x)->pool, .m = m, .row = cpu_row(x)};
	l.end = (mat_end){.unit = m->format == MAT_FP8 ? MAT_FP8_UNIT : 1.0f,
	    .first = a->w->scale,
	    .second = m->kernel->grid ? a->w->input_scale : 1.0f,
	    .round = a->y->dtype == NUM_BF16,
	    .relu2 = a->act == OP_ACT_RELU2};
	if (m->eager && a->y->dtype == NUM_F32 && (m->format == MAT_BF16 || m->format == MAT_F32))
		l.wide = vec_wide_of((int)cpu_self_of(x)->tier);
	int32_t *pick = ref_take(x, OP_linear, n, sizeof *pick);
	if (!pick || !cpu_rows_take(x, OP_linear, n, m, a->decode_rows > 0, &l.rows)) return;
	if (!(l.space = cpu_space_take(x, OP_linear, n))) return;
	if (!(l.work = ref_take(x, OP_linear, cpu_threads(x) * m->k, sizeof *l.work))) return;
	if (!tensor_absent(a->bias) && !(l.bias = cpu_vector(x, OP_linear, a->bias))) return;
	for (int64_t i = 0; i < n; i++) pick[i] = (int32_t)i;
	l.pick = (cpu_pick){.rows = &l.rows, .pick = pick, .n = n, .n_decode = ref_min(a->decode_rows, n)};
	cpu_go(x, n * m->k * (1 + m->n / 16), job, &l);
}
