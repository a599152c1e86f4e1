/* SPDX-License-Identifier: Apache-2.0
 * cpu_act.c: rows of activations and their products with tiles of packed weights. One or two rows are multiplied straight from the stream,
 * a few more a block of columns at a time; others meet a panel of a tile that is expanded once. The invariant that breaks first: which of these ways a row goes changes no bit
 * of it; integers are used for rows in decode form only, or for those of both forms, whatever stands beside them.
 */
#include "backend/cpu/cpu_act.h"

#include <math.h>
#include <string.h>

/* Tiles expanded at a time, and rows multiplied at a time with their sums for all those tiles: rows are read from afar once for all of the
 * tiles, and sums and a block of the rows stay in the second cache. Both numbers of rows are multiples of MAT_ROWS. */
#define TILES 24
#define ROWS_MAX 132
#define TILES_PAIRS 8 /* where panels are met by two: such processors have larger second caches */
#define ROWS_PAIRS 258
#define ROWS_STREAM 2 /* at most so many rows read the stream again instead of expanding it */
#define ROWS_FEW 12   /* at most so many decode it group by group, where the tier can */
#define GATHER 48     /* rows of integers from several places that are brought together once a block of columns */

static int64_t chunks_of(int64_t k) { return (k + MAT_CHUNK - 1) / MAT_CHUNK; }

bool cpu_rows_take(exec *x, op_id op, int64_t n, const cpu_mat *m, bool decode, cpu_rows *rows)
{
	const bool ints = decode && m->ints;
	*rows = (cpu_rows){.n = n, .k = m->k, .blocks = (m->k + MAT_BLOCK - 1) / MAT_BLOCK};
	rows->f = ref_take(x, op, rows->blocks * n, MAT_BLOCK * sizeof *rows->f);
	rows->narrow = ref_take(x, op, n, sizeof *rows->narrow);
	if (ints) rows->ints = ref_take(x, op, n * chunks_of(m->k), sizeof *rows->ints);
	if (m->words) rows->words = ref_take(x, op, rows->blocks * n, MAT_BLOCK * sizeof *rows->words);
	if (m->words) rows->scales = ref_take(x, op, rows->blocks * n, MAT_CHUNKS * sizeof *rows->scales);
	return rows->f && rows->narrow && (!ints || rows->ints) && (!m->words || (rows->words && rows->scales));
}

void cpu_rows_pad(const cpu_rows *rows, int64_t i)
{
	const int64_t in_last = rows->k - (rows->blocks - 1) * MAT_BLOCK;
	memset(cpu_rows_at(rows, i, rows->blocks - 1) + in_last, 0, (size_t)(MAT_BLOCK - in_last) * sizeof(float));
}

/* In exact profiles the grid is ref's own, in doubles; its results are f32 values. */
static void exact_grid(const cpu_mat *m, const cpu_rows *rows, int64_t i, float input_scale, double *work)
{
	const double lift = m->format == MAT_FP8 ? (double)m->vec->fp8_lift : 1.0;
	for (int64_t j = 0; j < rows->k; j++) work[j] = (double)cpu_rows_at(rows, i, j / MAT_BLOCK)[j % MAT_BLOCK];
	m->kernel->grid(work, rows->k, input_scale);
	for (int64_t j = 0; j < rows->k; j++) cpu_rows_at(rows, i, j / MAT_BLOCK)[j % MAT_BLOCK] = (float)(work[j] * lift);
}

static int16_t *words_at(const cpu_rows *rows, int64_t i, int64_t block) { return rows->words + (block * rows->n + i) * MAT_BLOCK; }
static float *scales_at(const cpu_rows *rows, int64_t i, int64_t block) { return rows->scales + (block * rows->n + i) * MAT_CHUNKS; }

void cpu_rows_ready(const cpu_mat *m, const cpu_rows *rows, int64_t i, float input_scale, bool decode, double *work)
{
	if (m->kernel->grid && !m->eager) exact_grid(m, rows, i, input_scale, work);
	else if (m->kernel->grid)
		for (int64_t b = 0; b < rows->blocks; b++) m->vec->grid_fp8(cpu_rows_at(rows, i, b), MAT_BLOCK, 1.0f / input_scale);
	if (m->words) {
		rows->narrow[i] = m->vec->words->narrow(
		    words_at(rows, i, 0), scales_at(rows, i, 0), rows->n, cpu_rows_at(rows, i, 0), rows->n * MAT_BLOCK, rows->k);
		return;
	}
	rows->narrow[i] = m->ints && decode && m->vec->narrow(rows->ints + i, rows->n, cpu_rows_at(rows, i, 0), rows->n * MAT_BLOCK, rows->k);
}

cpu_space *cpu_space_take(exec *x, op_id op, int64_t n)
{
	const int threads = cpu_pool_threads(cpu_self_of(x)->pool);
	const bool pairs = vec_mat_of((int)cpu_self_of(x)->tier)->block2 != NULL;
	const int64_t at_once = ref_min(n, pairs ? ROWS_PAIRS : ROWS_MAX);
	const int tiles = pairs ? TILES_PAIRS : TILES;
	cpu_space *s = ref_take(x, op, threads, sizeof *s);
	for (int i = 0; s && i < threads; i++) {
		s[i] = (cpu_space){.n = at_once, .tiles = tiles};
		s[i].panel = ref_take(x, op, (pairs ? tiles : 1) * MAT_BLOCK * MAT_TILE, sizeof *s[i].panel);
		s[i].sums = ref_take(x, op, tiles * at_once * MAT_TILE, sizeof *s[i].sums);
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

/* The rows from `from` on, n of them, meet `tiles` panels of block b, the first of tile t. */
static void panel_rows(const product *p, int64_t b, int64_t count, int64_t from, int n, int t, int tiles)
{
	const vec_mat *v = p->m->vec;
	const int pairs = v->block2 ? tiles / 2 : 0;
	float *sums = p->space->sums + t * p->pitch + from * MAT_TILE;
	const float *x[MAT_ROWS2], *panel = p->space->panel;
	for (int i = 0; i < n; i++) x[i] = cpu_rows_at(p->pick->rows, row_of(p, from + i), b);
	for (int i = 0; i < pairs; i++, sums += 2 * p->pitch, panel += 2 * MAT_BLOCK * MAT_TILE)
		v->block2(sums, p->pitch, x, n, panel, count, b == 0);
	for (int u = 2 * pairs; u < tiles; u++, sums += p->pitch, panel += MAT_BLOCK * MAT_TILE)
		for (int i = 0; i < n; i += MAT_ROWS)
			v->block(sums + i * MAT_TILE, x + i, n - i < MAT_ROWS ? n - i : MAT_ROWS, panel, count, b == 0);
}

/* Rows are read in pieces too short for the processor to see them coming, and from far away: they are asked for a block in front. */
static void fetch_rows(const product *p, int64_t from, int n, int64_t block)
{
	for (int i = 0; i < n; i++) {
		const char *x = (const char *)cpu_rows_at(p->pick->rows, row_of(p, from + i), block);
		for (size_t at = 0; at < MAT_BLOCK * sizeof(float); at += 64) __builtin_prefetch(x + at, 0, 2);
	}
}

static void panel_tiles(const product *p, int64_t tile, int tiles)
{
	const cpu_rows *rows = p->pick->rows;
	const vec_mat *v = p->m->vec;
	const bool pairs = v->block2 && tiles > 1; /* of panels, which meet more rows at once */
	const int64_t most = pairs ? MAT_ROWS2 : MAT_ROWS, groups = (p->wide + most - 1) / most;
	const int step = pairs ? tiles : 1; /* a single panel stays in the first cache while all rows pass by from the second */
	for (int64_t b = 0; b < rows->blocks; b++) {
		const int64_t count = ref_min(MAT_BLOCK, rows->k - b * MAT_BLOCK);
		for (int t = 0; t < tiles; t += step) {
			for (int u = 0; u < step; u++)
				v->expand[p->m->format](p->space->panel + u * MAT_BLOCK * MAT_TILE, cpu_mat_tile(p->m, tile + t + u), b * MAT_BLOCK, count);
			for (int64_t g = 0; g < groups; g++) { /* of even sizes: few rows keep the multipliers waiting */
				const int64_t from = p->wide * g / groups;
				const int n = (int)(p->wide * (g + 1) / groups - from);
				if (g % tiles == t) fetch_rows(p, from, n, b + 1 < rows->blocks ? b + 1 : 0);
				panel_rows(p, b, count, from, n, t, step);
			}
		}
	}
}

/* Few rows: what a panel would cost to write is more than what decoding the weights again for the other half of the rows does. */
static void few_tiles(const product *p, int64_t tile, int tiles)
{
	const cpu_rows *rows = p->pick->rows;
	const int64_t groups = (p->wide + MAT_ROWS - 1) / MAT_ROWS;
	for (int t = 0; t < tiles; t++)
		for (int64_t b = 0; b < rows->blocks; b++)
			for (int64_t g = 0; g < groups; g++) {
				const int64_t from = p->wide * g / groups;
				const int n = (int)(p->wide * (g + 1) / groups - from);
				const float *x[MAT_ROWS];
				for (int i = 0; i < n; i++) x[i] = cpu_rows_at(rows, row_of(p, from + i), b);
				p->m->vec->few[p->m->format](p->space->sums + t * p->pitch + from * MAT_TILE, x, n, cpu_mat_tile(p->m, tile + t),
				    b * MAT_BLOCK, ref_min(MAT_BLOCK, rows->k - b * MAT_BLOCK));
			}
}

/* Block b of n narrow rows, one behind the other: as they stand, where they do. */
typedef struct word_rows {
	const int16_t *words;
	const float *scales;
	int16_t word_space[GATHER * MAT_BLOCK];
	float scale_space[GATHER * MAT_CHUNKS];
} word_rows;

static bool stand_together(const product *p, int64_t from, int64_t n)
{
	for (int64_t i = 1; i < n; i++)
		if (row_of(p, from + i) != row_of(p, from) + i) return false;
	return true;
}

/* Those from `from` on in the order; at most GATHER where they do not stand together. */
static void word_rows_find(const product *p, int64_t from, int64_t n, int64_t b, word_rows *w)
{
	const cpu_rows *rows = p->pick->rows;
	const bool together = stand_together(p, from, n);
	w->words = together ? words_at(rows, row_of(p, from), b) : w->word_space;
	w->scales = together ? scales_at(rows, row_of(p, from), b) : w->scale_space;
	for (int64_t i = 0; i < n && !together; i++) {
		memcpy(w->word_space + i * MAT_BLOCK, words_at(rows, row_of(p, from + i), b), MAT_BLOCK * sizeof *w->words);
		memcpy(w->scale_space + i * MAT_CHUNKS, scales_at(rows, row_of(p, from + i), b), MAT_CHUNKS * sizeof *w->scales);
	}
}

/* Two panels at a time, which stay in the first cache. */
static void word_tiles(const product *p, int64_t tile, int tiles)
{
	const cpu_rows *rows = p->pick->rows;
	const mat_words *v = p->m->vec->words;
	float *sums = p->space->sums + p->wide * MAT_TILE, *panel = p->space->panel;
	const int64_t groups = (p->narrow + MAT_WORD_ROWS - 1) / MAT_WORD_ROWS, first = row_of(p, p->wide);
	const bool once = p->narrow <= GATHER || stand_together(p, p->wide, p->narrow);
	word_rows w;
	for (int t = 0; t < tiles && p->narrow == 1; t++)
		v->gemv(sums + t * p->pitch, cpu_mat_tile(p->m, tile + t), words_at(rows, first, 0), scales_at(rows, first, 0), rows->n, rows->k);
	for (int64_t b = 0; b < rows->blocks && p->narrow > 1; b++) {
		const int64_t count = ref_min(MAT_BLOCK, rows->k - b * MAT_BLOCK);
		if (once) word_rows_find(p, p->wide, p->narrow, b, &w);
		for (int t = 0; t < tiles; t += 2) {
			const int both = tiles - t < 2 ? 1 : 2;
			for (int u = 0; u < both; u++)
				v->expand(panel + u * MAT_BLOCK * MAT_TILE, cpu_mat_tile(p->m, tile + t + u), b * MAT_BLOCK, count);
			for (int64_t g = 0; g < groups; g++) { /* of even sizes */
				const int64_t from = p->narrow * g / groups, n = p->narrow * (g + 1) / groups - from, at = once ? from : 0;
				if (!once) word_rows_find(p, p->wide + from, n, b, &w);
				v->block(sums + t * p->pitch + from * MAT_TILE, p->pitch, both, w.words + at * MAT_BLOCK, w.scales + at * MAT_CHUNKS,
				    (int)n, panel, count, b == 0);
			}
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

/* `tiles` tiles, no more than space has room for. */
static void some_tiles(product *p, int64_t tile, int tiles, cpu_sink sink, void *user)
{
	const int64_t all = p->wide + p->narrow;
	const bool stream = p->wide <= ROWS_STREAM && p->m->vec->gemv[p->m->format];
	const bool few = p->wide <= ROWS_FEW && p->m->vec->few[p->m->format];
	p->pitch = all * MAT_TILE;
	if (p->wide && stream) stream_tiles(p, tile, tiles);
	else if (p->wide && few) few_tiles(p, tile, tiles);
	else if (p->wide) panel_tiles(p, tile, tiles);
	if (p->narrow && p->m->words) word_tiles(p, tile, tiles);
	for (int t = 0; t < tiles; t++) {
		float *sums = p->space->sums + t * p->pitch;
		if (p->narrow && !p->m->words) ints_tile(p, tile + t, sums);
		const uint8_t *nan = p->m->nan ? p->m->nan + (tile + t) * MAT_TILE : NULL;
		for (int64_t j = 0; nan && j < all * MAT_TILE; j++)
			if (nan[j % MAT_TILE]) sums[j] = NAN;
		sink(user, tile + t, p->space->order, all, sums);
	}
}

/* Rows [from, to) of the pick into the order in which they are multiplied. */
static void put_in_order(product *p, int64_t from, int64_t to)
{
	const cpu_pick *pick = p->pick;
	const bool words = p->m->words;
	p->wide = p->narrow = 0;
	for (int64_t i = from; i < to; i++)
		if ((!words && i >= pick->n_decode) || !pick->rows->narrow[pick->pick[i]]) p->space->order[p->wide++] = (int32_t)i;
	for (int64_t i = from; i < (words ? to : ref_min(to, pick->n_decode)); i++)
		if (pick->rows->narrow[pick->pick[i]]) p->space->order[p->wide + p->narrow++] = (int32_t)i;
}

/* All rows pass by the same tiles before the next ones are fetched, and weights come from memory once; where panels are met by two a part of
 * the rows stays in the second cache, and passes by all tiles. */
void cpu_multiply(const cpu_mat *m, const cpu_pick *pick, int64_t from, int64_t to, const cpu_space *space, cpu_sink sink, void *user)
{
	const int64_t parts = (pick->n + space->n - 1) / space->n, sweep = m->vec->block2 ? to - from : space->tiles;
	const int64_t step = parts > 1 ? ref_up((pick->n + parts - 1) / parts, MAT_ROWS) : pick->n;
	product p = {.m = m, .pick = pick, .space = space};
	for (int64_t first = from; first < to; first += sweep)
		for (int64_t at = 0; at < pick->n; at += step) {
			const int64_t last = ref_min(to, first + sweep);
			put_in_order(&p, at, ref_min(pick->n, at + step));
			for (int64_t tile = first; tile < last; tile += space->tiles)
				some_tiles(&p, tile, (int)ref_min(space->tiles, last - tile), sink, user);
		}
}
