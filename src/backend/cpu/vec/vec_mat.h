/* SPDX-License-Identifier: Apache-2.0
 * vec_mat.h: products of activations and packed weights, one thread's share. A matrix lies in tiles of MAT_TILE rows, each one stream that
 * is read from front to back once; a tile of a ragged end is filled up with zeros, and so are columns past the last. Activations lie in
 * blocks of MAT_BLOCK columns. The invariant that breaks first: an output is one chain of v_fma over ascending columns that starts at
 * zero, in `block` as in `gemv`, so that its bits depend on its row and column and on nothing else.
 * Layouts. bf16, fp8, f32: the bytes of a row are cut in words of 4; word j of the 16 rows stands at 64 j. fp4: see mat_fp4.h.
 * Values inside are off by a power of two, which is exact and which the caller takes back: mat_unit.
 */
#ifndef CPU_VEC_VEC_MAT_H
#define CPU_VEC_VEC_MAT_H

#include <stdbool.h>
#include <stddef.h>

#include "backend/cpu/vec/vec.h"

#define MAT_TILE 16   /* rows of a tile */
#define MAT_BLOCK 128 /* columns that are multiplied at a time: a multiple of MAT_CHUNK */
#define MAT_CHUNK 64  /* columns of a unit of the fp4 stream, and of those that share a scale of narrow activations */

typedef enum { MAT_BF16, MAT_F32, MAT_FP8, MAT_FP4, MAT_FORMATS } mat_format;

/* e4m3 codes are taken as the upper bits of an f32 without moving the exponent's origin: 2^-120 of their value. Activations are brought in
 * MAT_FP8_LIFT times as large, so that no sum comes near the smallest f32. A sum of products is then MAT_FP8_UNIT times too small. A tier
 * may divide this otherwise between the two: activations are vec_mat.fp8_lift times as large. */
#define MAT_FP8_LIFT 0x1p60f
#define MAT_FP8_UNIT 0x1p60f

/* The columns of one row of activations as 16-bit integers, MAT_CHUNK at a time: x = scale * (256 hi + lo), rounded to nearest. */
typedef struct mat_ints {
	int16_t words[MAT_CHUNK]; /* of each four columns 0, 2, 1, 3 */
	int8_t hi[MAT_CHUNK], lo[MAT_CHUNK];
	int32_t sum[MAT_CHUNK / 16]; /* 12 times the sum of the integers of each 16: what the weights' offset adds */
	float scale;                 /* a power of two, times what brings block scales back (mat_fp4.h) */
	int32_t fill[3];             /* to 288 bytes */
} mat_ints;

/* From sums to results, in this order, each step an f32: * unit, * first, * second, [round to bf16], [+ bias, round again],
 * [max(v, 0)^2, round again], [* factor of the row]. */
typedef struct mat_end {
	float unit, first, second;
	bool round, relu2;
} mat_end;

/* fp4 by integers, for rows of both forms: 16-bit integers, MAT_BLOCK columns at a time as rows stand in f32, and a scale for each MAT_CHUNK. */
#define MAT_CHUNKS (MAT_BLOCK / MAT_CHUNK)
typedef struct mat_words {
	/* Block b of the row's integers goes to words + b * n * MAT_BLOCK, its scales to scales + b * n * MAT_CHUNKS. False for a row that integers
	 * cannot hold (an infinity, a NaN). */
	bool (*narrow)(int16_t *words, float *scales, int64_t n, const float *x, int64_t pitch, int64_t k);
	/* As vec_mat.expand, into what block reads; a panel has room for MAT_BLOCK MAT_TILE floats. */
	void (*expand)(void *panel, const void *tile, int64_t from, int64_t count);
	/* As vec_mat.block, of at most MAT_WORD_ROWS rows that stand one behind the other, and of one or two tiles: panels follow one another,
	 * sums lie `pitch` apart. */
	void (*block)(
	    float *sums, int64_t pitch, int tiles, const int16_t *x, const float *scales, int m, const void *panel, int64_t count, bool first);
	/* One row and one tile: sums[MAT_TILE] complete. Blocks lie as narrow put them. Same bits. */
	void (*gemv)(float *sums, const void *tile, const int16_t *x, const float *scales, int64_t n, int64_t k);
} mat_words;

typedef struct vec_mat {
	/* Packing. Rows that are not there are NULL. from `rows[i]`, the bytes of a row in the file's layout; scales: fp4's. */
	size_t (*tile_bytes)(mat_format f, int64_t k);
	void (*pack)(mat_format f, void *tile, const uint8_t *const rows[MAT_TILE], const uint8_t *const scales[MAT_TILE], int64_t k);

	/* panel[j * MAT_TILE + r] = row r at column from + j; `from` a multiple of MAT_BLOCK, count at most MAT_BLOCK. */
	void (*expand[MAT_FORMATS])(float *panel, const void *tile, int64_t from, int64_t count);
	/* sums[m * MAT_TILE + r] = (first ? 0 : what it is) + x[m][0 .. count) times the panel. m at most MAT_ROWS. */
	void (*block)(float *sums, const float *const *x, int m, const float *panel, int64_t count, bool first);
	/* One row and `tiles` (1 or 2) tiles that follow one another: sums[tiles * MAT_TILE] complete. The row's block b stands at
	 * x + b * pitch. NULL where expand and block are as fast. Same bits. */
	void (*gemv[MAT_FORMATS])(float *sums, const void *tile, int tiles, const float *x, int64_t pitch, int64_t k);

	/* fp4 by integers, for activations of bf16; NULL where the tier has none. Chunks of a row lie `step` apart. `narrow` returns false for a row
	 * that integers cannot hold (an infinity, a NaN). `ints`: m rows (at most MAT_INTS_ROWS) by one tile; bits as for a row alone. */
	bool (*narrow)(mat_ints *out, int64_t step, const float *x, int64_t pitch, int64_t k);
	void (*ints)(float *sums, const void *tile, const mat_ints *const *x, int m, int64_t step, int64_t k);

	/* In place, m rows of MAT_TILE. bias[MAT_TILE] and factor[m] may be NULL. */
	void (*end)(const mat_end *e, float *sums, int64_t m, const float *bias, const float *factor);
	/* In place: the nearest e4m3 of v * inverse, times fp8_lift. */
	void (*grid_fp8)(float *v, int64_t n, float inverse);
	float fp8_lift;

	/* What a tier may have beside; NULL where it has not. block2: as block, for two panels that follow one another and sums that lie `pitch`
	 * apart, of at most MAT_ROWS2 rows; same bits. */
	void (*block2)(float *sums, int64_t pitch, const float *const *x, int m, const float *panel, int64_t count, bool first);
	const mat_words *words;
	/* As block, with the columns from `from` on of the tile itself for a panel; from = 0 is the first. Same bits. */
	void (*few[MAT_FORMATS])(float *sums, const float *const *x, int m, const void *tile, int64_t from, int64_t count);
} vec_mat;

#define MAT_ROWS 6
#define MAT_ROWS2 12
#define MAT_INTS_ROWS 32
#define MAT_WORD_ROWS 6

VEC_TABLES(vec_mat)

#endif
