/* SPDX-License-Identifier: Apache-2.0
 * cpu_act.c: rows of activations and their products with tiles of packed weights. One or two rows are multiplied straight from the stream;
 * more of them meet a panel of a tile that is expanded once. The invariant that breaks first: which of these ways a row goes changes no bit
 * of it, and integers are used for rows in decode form only, whatever stands beside them.
 */
#include "backend/cpu/cpu_act.h"

#include <math.h>
#include <string.h>

#define TILES 8       /* expanded at a time: rows are read from afar once for all of them; their panels stay in the second cache */
#define ROWS_MAX 258  /* multiplied at a time: with their sums for all the tiles; a multiple of MAT_ROWS */
#define ROWS_STREAM 2 /* at most so many rows read the stream again instead of expanding it */

static int64_t chunks_of(int64_t k) { return (k + MAT_CHUNK - 1) / MAT_CHUNK; }

bool cpu_rows_take(exec *x, op_id op, int64_t n, int64_t k, bool ints, cpu_rows *rows)
{
	*rows = (cpu_rows){.n = n, .k = k, .blocks = (k + MAT_BLOCK - 1) / MAT_BLOCK};
	rows->f = ref_take(x, op, rows->blocks * n, MAT_BLOCK * sizeof *rows->f);
	rows->narrow = ref_take(x, op, n, sizeof *rows->narrow);
	if (ints) rows->ints = ref_take(x, op, n * chunks_of(k), sizeof *rows->ints);
	return rows->f && rows->narrow && (!ints || rows->ints);
}

void cpu_rows_pad(const cpu_rows *rows, int64_t i)
{
	const int64_t in_last = rows->k - (rows->blocks - 1) * MAT_BLOCK;
	memset(cpu_rows_at(rows, i, rows->blocks - 1) + in_last, 0, (size_t)(MAT_BLOCK - in_last) * sizeof(float));
}

/* In exact profiles the grid is ref's own, in doubles; its results are f32 values. */
static void exact_grid(const cpu_mat *m, const cpu_rows *rows, int64_t i, float input_scale, double *work)
{
	const double lift = m->format == MAT_FP8 ? (double)MAT_FP8_LIFT : 1.0;
	for (int64_t j = 0; j < rows->k; j++) work[j] = (double)cpu_rows_at(rows, i, j / MAT_BLOCK)[j % MAT_BLOCK];
	m->kernel->grid(work, rows->k, input_scale);
	for (int64_t j = 0; j < rows->k; j++) cpu_rows_at(rows, i, j / MAT_BLOCK)[j % MAT_BLOCK] = (float)(work[j] * lift);
}

void cpu_rows_ready(const cpu_mat *m, const cpu_rows *rows, int64_t i, float input_scale, bool decode, double *work)
{
	if (m->kernel->grid && !m->eager) exact_grid(m, rows, i, input_scale, work);
	else if (m->kernel->grid)
		for (int64_t b = 0; b < rows->blocks; b++) m->vec->grid_fp8(cpu_rows_at(rows, i, b), MAT_BLOCK, 1.0f / input_scale);
	rows->narrow[i] = m->ints && decode && m->vec->narrow(rows->ints + i, rows->n, cpu_rows_at(rows, i, 0), rows->n * MAT_BLOCK, rows->k);
}

cpu_space *cpu_space_take(exec *x, op_id op, int64_t n)
{
	const int threads = cpu_pool_threads(cpu_self_of(x)->pool);
	const int64_t at_once = ref_min(n, ROWS_MAX);
	cpu_space *s = ref_take(x, op, threads, sizeof *s);
	for (int i = 0; s && i < threads; i++) {
		s[i] = (cpu_space){.n = at_once};
		s[i].panel = ref_take(x, op, TILES * MAT_BLOCK * MAT_TILE, sizeof *s[i].panel);
		s[i].sums = ref_take(x, op, TILES * at_once * MAT_TILE, sizeof *s[i].sums);
		s[i].order = ref_take(x, op, at_once, sizeof *s[i].order);
		if (!s[i].panel || !s[i].sums || !s[i].order) return NULL;
	}
	return s;
}

/* -- products ---------------------------------------------------------------------------------------------------------------------- */

typedef struct product {
	const cpu_mat *m;
	const cpu_pick *pick;
	const cpu_space *space;
	int64_t wide, narrow; /* how many of `order` are multiplied as f32; how many, behind them, as integers */
	int64_t pitch;        /* of the sums of one tile to those of the next */
} product;

static int64_t row_of(const product *p, int64_t j) { return p->pick->pick[p->space->order[j]]; }

/* Two tiles at a time, the rows one after the other; a tile that was read once lies in a near cache. */
static void stream_tiles(const product *p, int64_t tile, int tiles)
{
	const cpu_rows *rows = p->pick->rows;
	float sums[2 * MAT_TILE];
	for (int t = 0; t < tiles; t += 2) {
		const int n = tiles - t < 2 ? 1 : 2;
		for (int64_t j = 0; j < p->wide; j++) {
			p->m->vec->gemv[p->m->format](
			    sums, cpu_mat_tile(p->m, tile + t), n, cpu_rows_at(rows, row_of(p, j), 0), rows->n * MAT_BLOCK, rows->k);
			for (int i = 0; i < n; i++)
				memcpy(p->space->sums + (t + i) * p->pitch + j * MAT_TILE, sums + i * MAT_TILE, MAT_TILE * sizeof *sums);
		}
	}
}

static void panel_tiles(const product *p, int64_t tile, int tiles)
{
	const cpu_rows *rows = p->pick->rows;
	const vec_mat *v = p->m->vec;
	const int64_t groups = (p->wide + MAT_ROWS - 1) / MAT_ROWS;
	for (int64_t b = 0; b < rows->blocks; b++) {
		const int64_t count = ref_min(MAT_BLOCK, rows->k - b * MAT_BLOCK);
		for (int t = 0; t < tiles; t++)
			v->expand[p->m->format](p->space->panel + t * MAT_BLOCK * MAT_TILE, cpu_mat_tile(p->m, tile + t), b * MAT_BLOCK, count);
		for (int64_t g = 0; g < groups; g++) { /* of even sizes: few rows keep the multipliers waiting */
			const int64_t from = p->wide * g / groups;
			const int n = (int)(p->wide * (g + 1) / groups - from);
			const float *x[MAT_ROWS];
			for (int i = 0; i < n; i++) x[i] = cpu_rows_at(rows, row_of(p, from + i), b);
			for (int t = 0; t < tiles; t++)
				v->block(p->space->sums + t * p->pitch + from * MAT_TILE, x, n, p->space->panel + t * MAT_BLOCK * MAT_TILE, count, b == 0);
		}
	}
}

static void ints_tile(const product *p, int64_t tile, float *sums)
{
	const cpu_rows *rows = p->pick->rows;
	const int64_t groups = (p->narrow + MAT_INTS_ROWS - 1) / MAT_INTS_ROWS;
	for (int64_t g = 0; g < groups; g++) {
		const int64_t from = p->narrow * g / groups;
		const int n = (int)(p->narrow * (g + 1) / groups - from);
		const mat_ints *x[MAT_INTS_ROWS];
		for (int i = 0; i < n; i++) x[i] = rows->ints + row_of(p, p->wide + from + i);
		p->m->vec->ints(sums + (p->wide + from) * MAT_TILE, cpu_mat_tile(p->m, tile), x, n, rows->n, rows->k);
	}
}

static void some_rows(product *p, int64_t from, int64_t to, cpu_sink sink, void *user)
{
	const int64_t all = p->wide + p->narrow;
	const bool stream = p->wide <= ROWS_STREAM && p->m->vec->gemv[p->m->format];
	p->pitch = all * MAT_TILE;
	for (int64_t tile = from; tile < to; tile += TILES) {
		const int tiles = (int)ref_min(TILES, to - tile);
		if (p->wide && stream) stream_tiles(p, tile, tiles);
		else if (p->wide) panel_tiles(p, tile, tiles);
		for (int t = 0; t < tiles; t++) {
			float *sums = p->space->sums + t * p->pitch;
			if (p->narrow) ints_tile(p, tile + t, sums);
			const uint8_t *nan = p->m->nan ? p->m->nan + (tile + t) * MAT_TILE : NULL;
			for (int64_t j = 0; nan && j < all * MAT_TILE; j++)
				if (nan[j % MAT_TILE]) sums[j] = NAN;
			sink(user, tile + t, p->space->order, all, sums);
		}
	}
}

void cpu_multiply(const cpu_mat *m, const cpu_pick *pick, int64_t from, int64_t to, const cpu_space *space, cpu_sink sink, void *user)
{
	const int64_t parts = (pick->n + space->n - 1) / space->n;
	const int64_t step = parts > 1 ? ref_up((pick->n + parts - 1) / parts, MAT_ROWS) : pick->n;
	product p = {.m = m, .pick = pick, .space = space};
	for (int64_t at = 0; at < pick->n; at += step) {
		const int64_t last = ref_min(pick->n, at + step);
		p.wide = p.narrow = 0;
		for (int64_t i = at; i < last; i++)
			if (i >= pick->n_decode || !pick->rows->narrow[pick->pick[i]]) space->order[p.wide++] = (int32_t)i;
		for (int64_t i = at; i < ref_min(last, pick->n_decode); i++)
			if (pick->rows->narrow[pick->pick[i]]) space->order[p.wide + p.narrow++] = (int32_t)i;
		some_rows(&p, from, to, sink, user);
	}
}
