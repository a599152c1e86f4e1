/* SPDX-License-Identifier: Apache-2.0
 * v_mat.c: packed weights, the plain form of every kernel, and the table of each tier: where a file <tier>_mat.c has a faster one, the
 * table names that. The invariant that breaks first: the plain form and a tier's own give the same bits in gemv and block.
 */
#include <math.h>
#include <string.h>

#include "backend/cpu/vec/lane.h"
#include "backend/cpu/vec/mat_fp4.h"
#include "backend/cpu/vec/mat_tier.h"
#include "num/num_conv.h"

#define VECS (MAT_TILE / VN)
#if defined VEC_AVX512
#define FP8_LIFT 1.0f /* its codes come 2^-60 of their value */
#else
#define FP8_LIFT MAT_FP8_LIFT
#endif

/* -- packing ----------------------------------------------------------------------------------------------------------------------- */

static int64_t row_bytes(mat_format f, int64_t k) { return f == MAT_BF16 ? 2 * k : f == MAT_F32 ? 4 * k : k; }

static size_t tile_bytes(mat_format f, int64_t k)
{
	if (f == MAT_FP4) return (size_t)((k + MAT_CHUNK - 1) / MAT_CHUNK) * FP4_STEP;
	return (size_t)((row_bytes(f, k) + 3) / 4) * 4 * MAT_TILE;
}

/* Nibbles 0..3 of a half word to the low nibbles of 4 bytes. */
static uint32_t spread(uint32_t v)
{
	v = (v | v << 8) & 0x00ff00ffu;
	return (v | v << 4) & 0x0f0f0f0fu;
}

static void pack_fp4(uint8_t *tile, const uint8_t *const rows[MAT_TILE], const uint8_t *const scales[MAT_TILE], int64_t k)
{
	const int64_t blocks = k / 16, chunks = (k + MAT_CHUNK - 1) / MAT_CHUNK;
	for (int64_t c = 0; c < chunks; c++, tile += FP4_STEP)
		for (int r = 0; r < MAT_TILE; r++) {
			uint8_t *half = tile + r / 8 * FP4_HALF;
			for (int b = 0; b < 4; b++) {
				const int64_t at = 4 * c + b;
				const bool there = rows[r] && at < blocks;
				uint8_t scale = there ? scales[r][at] : 0;
				for (int v = 0; v < 2; v++) {
					uint32_t codes = 0;
					if (there) memcpy(&codes, rows[r] + 8 * at + 4 * v, 4);
					if (scale & 0x80) codes ^= 0x88888888u;
					const uint32_t word = spread(codes & 0xffff) | spread(codes >> 16) << 4;
					memcpy(half + b * 64 + v * 32 + r % 8 * 4, &word, 4);
				}
				half[FP4_SCALES + b * 8 + r % 8] = scale & 0x7f;
			}
		}
}

static void pack(mat_format f, void *tile, const uint8_t *const rows[MAT_TILE], const uint8_t *const scales[MAT_TILE], int64_t k)
{
	uint8_t *to = tile;
	if (f == MAT_FP4) {
		pack_fp4(to, rows, scales, k);
		return;
	}
	const int64_t bytes = row_bytes(f, k), words = bytes / 4;
	for (int r = 0; r < MAT_TILE; r++)
		for (int64_t j = 0; j < words; j++) {
			uint32_t word = 0;
			if (rows[r]) memcpy(&word, rows[r] + 4 * j, 4);
			memcpy(to + 4 * (j * MAT_TILE + r), &word, 4);
		}
	for (int r = 0; r < MAT_TILE && bytes % 4; r++) {
		uint32_t word = 0;
		if (rows[r]) memcpy(&word, rows[r] + 4 * words, (size_t)(bytes % 4));
		memcpy(to + 4 * (words * MAT_TILE + r), &word, 4);
	}
}

/* -- the plain form ---------------------------------------------------------------------------------------------------------------- */

#if !defined VEC_AVX2 && !defined VEC_AVX512
static void expand_bf16(float *panel, const void *tile, int64_t from, int64_t count)
{
	const uint8_t *p = (const uint8_t *)tile + from / 2 * 4 * MAT_TILE;
	for (int64_t j = 0; j < count; j += 2, p += 4 * MAT_TILE)
		for (int r = 0; r < MAT_TILE; r++) {
			uint32_t w;
			memcpy(&w, p + 4 * r, 4);
			panel[j * MAT_TILE + r] = num_f32_bits(w << 16);
			if (j + 1 < count) panel[(j + 1) * MAT_TILE + r] = num_f32_bits(w & 0xffff0000u);
		}
}

static void expand_fp8(float *panel, const void *tile, int64_t from, int64_t count)
{
	const uint8_t *p = (const uint8_t *)tile + from * MAT_TILE;
	for (int64_t j = 0; j < count; j++)
		for (int r = 0; r < MAT_TILE; r++) {
			const uint32_t b = p[j / 4 * 4 * MAT_TILE + 4 * r + j % 4];
			panel[j * MAT_TILE + r] = num_f32_bits((b & 0x80u) << 24 | (b & 0x7fu) << 20);
		}
}

static void expand_fp4(float *panel, const void *tile, int64_t from, int64_t count)
{
	const uint8_t *p = (const uint8_t *)tile + from / MAT_CHUNK * FP4_STEP;
	for (int64_t j = 0; j < count; j++) {
		const int in = (int)(j % MAT_CHUNK), b = in / 16, v = in % 16 / 8, high = in % 8 / 4, byte = in % 4;
		const uint8_t *chunk = p + j / MAT_CHUNK * FP4_STEP;
		for (int r = 0; r < MAT_TILE; r++) {
			const uint8_t *half = chunk + r / 8 * FP4_HALF;
			const int code = half[b * 64 + v * 32 + r % 8 * 4 + byte] >> 4 * high & 15;
			panel[j * MAT_TILE + r] = num_e2m1_value[code] * num_e4m3_value[half[FP4_SCALES + b * 8 + r % 8]];
		}
	}
}

static void block(float *sums, const float *const *x, int m, const float *panel, int64_t count, bool first)
{
	for (int i = 0; i < m; i++, sums += MAT_TILE) {
		vf s[VECS];
		for (int v = 0; v < VECS; v++) s[v] = first ? v_zero() : v_load(sums + v * VN);
		for (int64_t j = 0; j < count; j++) {
			const vf by = v_set(x[i][j]);
			for (int v = 0; v < VECS; v++) s[v] = v_fma(by, v_load(panel + j * MAT_TILE + v * VN), s[v]);
		}
		for (int v = 0; v < VECS; v++) v_store(sums + v * VN, s[v]);
	}
}
#endif

/* -- ends -------------------------------------------------------------------------------------------------------------------------- */

VOP vf end_one(const mat_end *e, vf v, const float *bias, bool has_factor, vf factor)
{
	v = v_mul(v_mul(v_mul(v, v_set(e->unit)), v_set(e->first)), v_set(e->second));
	if (e->round) v = v_bf16(v);
	if (bias) v = v_add(v, v_load(bias));
	if (bias && e->round) v = v_bf16(v);
	if (e->relu2) {
		v = v_max(v_zero(), v); /* the second operand where one is a NaN: it stays one */
		v = v_mul(v, v);
		if (e->round) v = v_bf16(v);
	}
	return has_factor ? v_mul(v, factor) : v;
}

static void end(const mat_end *e, float *sums, int64_t m, const float *bias, const float *factor)
{
	for (int64_t i = 0; i < m; i++)
		for (int v = 0; v < VECS; v++, sums += VN)
			v_store(sums, end_one(e, v_load(sums), bias ? bias + v * VN : NULL, factor != NULL, factor ? v_set(factor[i]) : v_zero()));
}

/* Below 2^-6 the step is 2^-9. Written with masks and no branches, so that the compiler's vectors do it. */
static void grid_fp8(float *v, int64_t n, float inverse)
{
	for (int64_t i = 0; i < n; i++) {
		const float y = v[i] * inverse;
		const uint32_t u = num_bits_f32(y), sign = u & 0x80000000u, a = u & 0x7fffffffu;
		const uint32_t small = num_bits_f32((num_f32_bits(a) + 0x1.8p14f) - 0x1.8p14f);
		const uint32_t is_small = -(uint32_t)(a < 0x3c800000u), is_nan = -(uint32_t)(a > 0x7f800000u);
		uint32_t r = (a + 0x7ffffu + (a >> 20 & 1u)) & 0xfff00000u;
		r = (small & is_small) | (r & ~is_small);
		const uint32_t over = -(uint32_t)((int32_t)r > 0x43e00000);
		r = (0x43e00000u & over) | (r & ~over);
		r |= is_nan & 0x7fc00000u;
		v[i] = num_f32_bits(r | sign) * FP8_LIFT;
	}
}

#if defined VEC_AVX2
const vec_mat VEC(vec_mat) = {tile_bytes, pack, {avx2_expand_bf16, avx2_expand_f32, avx2_expand_fp8, avx2_expand_fp4}, avx2_block,
    {avx2_gemv_bf16, avx2_gemv_f32, avx2_gemv_fp8, NULL}, avx2_narrow, avx2_ints, end, grid_fp8, FP8_LIFT, NULL, NULL,
    {avx2_few_bf16, NULL, avx2_few_fp8, NULL}};
#elif defined VEC_AVX512
static void pack_own(mat_format f, void *tile, const uint8_t *const rows[MAT_TILE], const uint8_t *const scales[MAT_TILE], int64_t k)
{
	if (f == MAT_FP4) avx512_pack_fp4(tile, rows, scales, k);
	else if (f == MAT_FP8) avx512_pack_fp8(tile, rows, k);
	else pack(f, tile, rows, scales, k);
}

static const mat_words WORDS = {avx512_narrow, avx512_words, avx512_words_block, avx512_words_gemv};
/* What is left over from two panels is AVX2's: such a processor has it too. */
const vec_mat VEC(vec_mat) = {tile_bytes, pack_own, {avx512_expand_bf16, avx2_expand_f32, avx512_expand_fp8, avx512_expand_fp4}, avx2_block,
    {avx512_gemv_bf16, avx512_gemv_f32, avx512_gemv_fp8, NULL}, NULL, NULL, end, grid_fp8, FP8_LIFT, avx512_block2, &WORDS,
    {NULL, NULL, NULL, NULL}};
#else
static void expand_f32(float *panel, const void *tile, int64_t from, int64_t count)
{
	memcpy(panel, (const float *)tile + from * MAT_TILE, (size_t)count * MAT_TILE * sizeof *panel);
}

const vec_mat VEC(vec_mat) = {tile_bytes, pack, {expand_bf16, expand_f32, expand_fp8, expand_fp4}, block, {NULL, NULL, NULL, NULL}, NULL,
    NULL, end, grid_fp8, FP8_LIFT, NULL, NULL, {NULL, NULL, NULL, NULL}};
#endif
