/* SPDX-License-Identifier: Apache-2.0
 * avx2_fp4.c: FP4 weights times activations held as 16-bit integers. One or two rows: a code becomes the unsigned byte 2 w + 12 by a shuffle;
 * bytes are multiplied with the upper and with the lower bytes of the activations and summed over the 16 columns of a block, where nothing
 * can overflow: 24 * 128 * 2 * 4 < 2^15; what the 12 added is subtracted again. More rows: a code becomes the 16-bit integer 2 w, once for all
 * rows, and words are multiplied. A block's sum is exact, and below 2^24, until it meets its scale: so both ways have the same bits, and the
 * invariant that breaks first is that a row's are those of the row alone.
 * What rounds: a bf16 activation is held exactly unless it lies more than 6 binades below the largest of its 64 columns; then it keeps the
 * bits down to 2^-15 of that one. A row of one outlier and small others loses the others' low bits, as the row's own result hardly shows.
 */
#include <immintrin.h>
#include <math.h>

#include "backend/cpu/vec/mat_fp4.h"
#include "backend/cpu/vec/mat_tier.h"
#include "num/num_conv.h"

#define OP static inline __attribute__((always_inline))

/* A chunk's unit is 2^(e - 14) for activations below 2^(e + 1), halved for the doubled codes. Scales come 2^-120 too small (mat_fp4.h): 2^100
 * of that is given back with the chunk's scale, so that sums are ordinary numbers, 2^20 at the end. */
#define LIFT 100
#define LIFT_REST 0x1p20f
#define EXPONENT_MAX 26        /* activations from 2^27 on would carry a chunk's scale out of f32 */
#define INT_MAX_SPLIT 32639.0f /* the largest whose upper byte, rounded, is a signed byte */

/* So far in front of its reading a stream is asked for: the processor's own prefetching follows a kernel of so many instructions a line too
 * late. Past the end of the last tile it asks for what nobody reads, which does no harm. */
#define AHEAD 4608

OP __m256i bytes4(const void *p)
{
	int32_t v;
	memcpy(&v, p, 4);
	return _mm256_set1_epi32(v);
}

OP float largest(const float *x)
{
	const __m256 sign = _mm256_set1_ps(-0.0f);
	__m256 m = _mm256_setzero_ps();
	__m256 odd = m; /* any NaN: a comparison would lose it */
	for (int j = 0; j < MAT_CHUNK; j += 8) {
		const __m256 v = _mm256_loadu_ps(x + j);
		m = _mm256_max_ps(m, _mm256_andnot_ps(sign, v));
		odd = _mm256_or_ps(odd, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
	}
	float lane[8], top = 0.0f;
	_mm256_storeu_ps(lane, m);
	for (int j = 0; j < 8; j++) top = lane[j] > top ? lane[j] : top;
	return _mm256_movemask_ps(odd) ? (float)INFINITY : top;
}

/* Columns j .. j + 15 as upper and lower bytes; returns their sum. */
OP int32_t split16(mat_ints *o, int j, const float *x, __m256 unit)
{
	const __m256i a = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x), unit));
	const __m256i b = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8), unit));
	const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8);
	/* of each four columns the first and the third, then the others: as the weights' words come */
	const __m256i order =
	    _mm256_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15, 0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15);
	_mm256_storeu_si256((__m256i *)(o->words + j), _mm256_shuffle_epi8(words, order));
	const __m256i hi = _mm256_srai_epi16(_mm256_add_epi16(words, _mm256_set1_epi16(128)), 8);
	const __m256i lo = _mm256_sub_epi16(words, _mm256_slli_epi16(hi, 8));
	const __m256i both = _mm256_permute4x64_epi64(_mm256_packs_epi16(hi, lo), 0xd8);
	_mm_storeu_si128((__m128i *)(o->hi + j), _mm256_castsi256_si128(both));
	_mm_storeu_si128((__m128i *)(o->lo + j), _mm256_extracti128_si256(both, 1));
	const __m256i sum = _mm256_add_epi32(a, b);
	__m128i s = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
	s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
	s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1));
	return _mm_cvtsi128_si32(s);
}

bool avx2_narrow(mat_ints *out, int64_t step, const float *x, int64_t pitch, int64_t k)
{
	for (int64_t from = 0; from < k; from += MAT_CHUNK, out += step) {
		const float *p = x + from / MAT_BLOCK * pitch + from % MAT_BLOCK;
		const float top = largest(p);
		if (!(top < 0x1p127f)) return false;
		int e = (int)(num_bits_f32(top) >> 23) - 127;
		if (e < -100) e = -100; /* its columns keep fewer bits, down to none */
		if (top * num_f32_bits((uint32_t)(14 - e + 127) << 23) > INT_MAX_SPLIT) e++;
		if (e > EXPONENT_MAX) return false;
		const __m256 unit = _mm256_set1_ps(num_f32_bits((uint32_t)(14 - e + 127) << 23));
		out->scale = num_f32_bits((uint32_t)(e - 15 + LIFT + 127) << 23);
		for (int b = 0; b < MAT_CHUNK / 16; b++) out->sum[b] = 12 * split16(out, 16 * b, p + 16 * b, unit);
	}
	return true;
}

/* -- products ---------------------------------------------------------------------------------------------------------------------- */

OP __m256i codes_at(const uint8_t *half, int b, int v) { return _mm256_loadu_si256((const __m256i *)(half + 64 * b + 32 * v)); }
OP __m256 scales_at(const uint8_t *half, int b)
{
	const __m256i s = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(half + FP4_SCALES + 8 * b)));
	return _mm256_castsi256_ps(_mm256_slli_epi32(s, 20));
}

/* 2 w + 12 of the low codes of each byte, and of the high ones. */
OP __m256i low_bytes(__m256i v)
{
	const __m256i table = _mm256_setr_epi8(
	    12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0, 12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0);
	return _mm256_shuffle_epi8(table, _mm256_and_si256(v, _mm256_set1_epi8(15)));
}
OP __m256i high_bytes(__m256i v) { return low_bytes(_mm256_srli_epi16(v, 4)); }

/* h and l += the bytes of 8 rows times the upper and the lower bytes of four columns. */
#define FOUR(h, l, w)                                     \
	h = _mm256_add_epi16(h, _mm256_maddubs_epi16(w, hi)); \
	l = _mm256_add_epi16(l, _mm256_maddubs_epi16(w, lo));

/* The sums over a block's columns, as f32. */
OP __m256 whole(__m256i h, __m256i l, __m256i offset)
{
	const __m256i sum = _mm256_add_epi32(_mm256_madd_epi16(h, _mm256_set1_epi16(256)), _mm256_madd_epi16(l, _mm256_set1_epi16(1)));
	return _mm256_cvtepi32_ps(_mm256_sub_epi32(sum, offset));
}

/* One row by the 16 rows of a tile: a and b are 8 rows each, and share what is loaded of the activations. */
static void one_row(float *sums, const uint8_t *tile, const mat_ints *x, int64_t step, int64_t chunks)
{
	__m256 lower = _mm256_setzero_ps(), upper = lower;
	for (int64_t c = 0; c < chunks; c++, tile += FP4_STEP, x += step) {
		const uint8_t *half = tile + FP4_HALF;
		__m256 a = _mm256_setzero_ps(), b = a;
		for (int i = 0; i < MAT_CHUNK / 16; i++) {
			for (int line = 0; line < 3; line++) _mm_prefetch((const char *)tile + AHEAD + FP4_STEP / 4 * i + 64 * line, _MM_HINT_T0);
			const int8_t *upper_bytes = x->hi + 16 * i, *lower_bytes = x->lo + 16 * i;
			__m256i v = codes_at(tile, i, 0), w = codes_at(half, i, 0), u = low_bytes(v), t = low_bytes(w);
			__m256i hi = bytes4(upper_bytes), lo = bytes4(lower_bytes);
			__m256i ha = _mm256_maddubs_epi16(u, hi), la = _mm256_maddubs_epi16(u, lo);
			__m256i hb = _mm256_maddubs_epi16(t, hi), lb = _mm256_maddubs_epi16(t, lo);
			u = high_bytes(v), t = high_bytes(w), hi = bytes4(upper_bytes + 4), lo = bytes4(lower_bytes + 4);
			FOUR(ha, la, u)
			FOUR(hb, lb, t)
			v = codes_at(tile, i, 1), w = codes_at(half, i, 1), u = low_bytes(v), t = low_bytes(w);
			hi = bytes4(upper_bytes + 8), lo = bytes4(lower_bytes + 8);
			FOUR(ha, la, u)
			FOUR(hb, lb, t)
			u = high_bytes(v), t = high_bytes(w), hi = bytes4(upper_bytes + 12), lo = bytes4(lower_bytes + 12);
			FOUR(ha, la, u)
			FOUR(hb, lb, t)
			const __m256i offset = bytes4(&x->sum[i]);
			a = _mm256_fmadd_ps(whole(ha, la, offset), scales_at(tile, i), a);
			b = _mm256_fmadd_ps(whole(hb, lb, offset), scales_at(half, i), b);
		}
		const __m256 scale = _mm256_broadcast_ss(&x->scale);
		lower = _mm256_fmadd_ps(a, scale, lower), upper = _mm256_fmadd_ps(b, scale, upper);
	}
	const __m256 rest = _mm256_set1_ps(LIFT_REST);
	_mm256_storeu_ps(sums, _mm256_mul_ps(lower, rest));
	_mm256_storeu_ps(sums + 8, _mm256_mul_ps(upper, rest));
}

/* Of the four bytes of a row, two words: the first and the third, or the second and the fourth. */
OP __m256i words_odd(__m256i v) { return _mm256_srai_epi16(v, 8); }
OP __m256i words_even(__m256i v) { return words_odd(_mm256_slli_epi16(v, 8)); }

/* A block of 16 columns of 8 rows of the tile by m rows: acc[i] += their sums times the block's scales. */
OP void words16(float *acc, const uint8_t *half, int b, const mat_ints *const *x, int64_t at, int m)
{
	const __m256i low = _mm256_set1_epi8(15);
	const __m256i table =
	    _mm256_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12, 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
	const __m256i v = codes_at(half, b, 0), u = codes_at(half, b, 1);
	const __m256 scale = scales_at(half, b);
	const __m256i v0 = _mm256_shuffle_epi8(table, _mm256_and_si256(v, low));
	const __m256i v1 = _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(v, 4), low));
	const __m256i v2 = _mm256_shuffle_epi8(table, _mm256_and_si256(u, low));
	const __m256i v3 = _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(u, 4), low));
	const __m256i w0 = words_even(v0), w1 = words_odd(v0), w2 = words_even(v1), w3 = words_odd(v1);
	const __m256i w4 = words_even(v2), w5 = words_odd(v2), w6 = words_even(v3), w7 = words_odd(v3);
	for (int i = 0; i < m; i++, acc += 8) {
		const int16_t *a = x[i][at].words + 16 * b;
		const __m256i p = _mm256_add_epi32(_mm256_madd_epi16(w0, bytes4(a)), _mm256_madd_epi16(w1, bytes4(a + 2)));
		const __m256i q = _mm256_add_epi32(_mm256_madd_epi16(w2, bytes4(a + 4)), _mm256_madd_epi16(w3, bytes4(a + 6)));
		const __m256i r = _mm256_add_epi32(_mm256_madd_epi16(w4, bytes4(a + 8)), _mm256_madd_epi16(w5, bytes4(a + 10)));
		const __m256i t = _mm256_add_epi32(_mm256_madd_epi16(w6, bytes4(a + 12)), _mm256_madd_epi16(w7, bytes4(a + 14)));
		const __m256 sum = _mm256_cvtepi32_ps(_mm256_add_epi32(_mm256_add_epi32(p, q), _mm256_add_epi32(r, t)));
		_mm256_storeu_ps(acc, _mm256_fmadd_ps(sum, scale, _mm256_loadu_ps(acc)));
	}
}

static void more_rows(float *sums, const uint8_t *tile, const mat_ints *const *x, int m, int64_t step, int64_t chunks)
{
	float acc[MAT_INTS_ROWS * 8];
	for (int i = 0; i < m * MAT_TILE; i += 8) _mm256_storeu_ps(sums + i, _mm256_setzero_ps());
	for (int64_t c = 0; c < chunks; c++)
		for (int h = 0; h < 2; h++, tile += FP4_HALF) {
			for (int i = 0; i < m; i++) _mm256_storeu_ps(acc + 8 * i, _mm256_setzero_ps());
			for (int line = 0; line < 5; line++) _mm_prefetch((const char *)tile + AHEAD + 64 * line, _MM_HINT_T0);
			for (int b = 0; b < MAT_CHUNK / 16; b++) words16(acc, tile, b, x, c * step, m);
			for (int i = 0; i < m; i++) {
				float *sum = sums + i * MAT_TILE + 8 * h;
				const __m256 scale = _mm256_broadcast_ss(&x[i][c * step].scale);
				_mm256_storeu_ps(sum, _mm256_fmadd_ps(_mm256_loadu_ps(acc + 8 * i), scale, _mm256_loadu_ps(sum)));
			}
		}
	const __m256 rest = _mm256_set1_ps(LIFT_REST);
	for (int i = 0; i < m * MAT_TILE; i += 8) _mm256_storeu_ps(sums + i, _mm256_mul_ps(_mm256_loadu_ps(sums + i), rest));
}

void avx2_ints(float *sums, const void *tile, const mat_ints *const *x, int m, int64_t step, int64_t k)
{
	const int64_t chunks = (k + MAT_CHUNK - 1) / MAT_CHUNK;
	if (m > 2) more_rows(sums, tile, x, m, step, chunks);
	else
		for (int i = 0; i < m; i++) one_row(sums + i * MAT_TILE, tile, x[i], step, chunks);
}
