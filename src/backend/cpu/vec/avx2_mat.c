/* SPDX-License-Identifier: Apache-2.0
 * avx2_mat.c: packed weights to f32 panels, the register block that multiplies them, and products of one row straight from the stream.
 * 16 rows are two vectors. The sums have names and not places in an array: gcc would keep the array in memory. The invariant that breaks
 * first: a product's chain is the same in `block` and in `gemv`.
 */
#include "backend/cpu/vec/avx2_word.h"
#include "backend/cpu/vec/mat_fp4.h"
#include "backend/cpu/vec/mat_tier.h"

/* A panel is one block of columns; the lines of the next one are on their way while this one is multiplied. */
OP void next_block(const uint8_t *p, int bytes) { _mm_prefetch((const char *)p + bytes, _MM_HINT_T1); }

void avx2_expand_bf16(float *panel, const void *tile, int64_t from, int64_t count)
{
	const uint8_t *p = (const uint8_t *)tile + from / 2 * 64;
	for (int64_t j = 0; j < count; j += 2, p += 64, panel += 2 * MAT_TILE) {
		const __m256i a = load(p), b = load(p + 32);
		next_block(p, MAT_BLOCK / 2 * 64);
		_mm256_storeu_ps(panel, bf16_low(a));
		_mm256_storeu_ps(panel + 8, bf16_low(b));
		_mm256_storeu_ps(panel + 16, bf16_high(a));
		_mm256_storeu_ps(panel + 24, bf16_high(b));
	}
}

void avx2_expand_f32(float *panel, const void *tile, int64_t from, int64_t count)
{
	const float *p = (const float *)tile + from * MAT_TILE;
	for (int64_t j = 0; j < count; j++, p += MAT_TILE, panel += MAT_TILE) {
		_mm256_storeu_ps(panel, _mm256_loadu_ps(p));
		_mm256_storeu_ps(panel + 8, _mm256_loadu_ps(p + 8));
	}
}

void avx2_expand_fp8(float *panel, const void *tile, int64_t from, int64_t count)
{
	const uint8_t *p = (const uint8_t *)tile + from * MAT_TILE;
	for (int64_t j = 0; j < count; j += 4, p += 64, panel += 4 * MAT_TILE) {
		next_block(p, MAT_BLOCK / 4 * 64);
		for (int h = 0; h < 2; h++) {
			const __m256i v = load(p + 32 * h), odd = fp8_odd(v), even = fp8_even(v);
			_mm256_storeu_ps(panel + 8 * h, bf16_low(even));
			_mm256_storeu_ps(panel + 8 * h + 16, bf16_low(odd));
			_mm256_storeu_ps(panel + 8 * h + 32, bf16_high(even));
			_mm256_storeu_ps(panel + 8 * h + 48, bf16_high(odd));
		}
	}
}

/* A code becomes a byte whose sign, six bits of exponent and one of fraction are those of a bf16 of 2^-66 times the value, when the
 * half is shifted by two: 0.5, 1, 1.5 .. 6 are 2^-67 * (1, 2, 3 .. 12). */
#define FP4_BYTES 0, 120, 122, 123, 124, 125, 126, 127, -128, -8, -6, -5, -4, -3, -2, -1
OP __m256i fp4_odd(__m256i v) { return _mm256_and_si256(_mm256_srai_epi16(v, 2), _mm256_set1_epi16((short)0x9fc0)); }
OP __m256i fp4_even(__m256i v) { return fp4_odd(_mm256_slli_epi16(v, 8)); }

/* Columns at, at + 1, .. at + 3 of the block's eight rows. */
OP void fp4_store(float *panel, __m256i codes, __m256 scale)
{
	const __m256i table = _mm256_setr_epi8(FP4_BYTES, FP4_BYTES);
	const __m256i v = _mm256_shuffle_epi8(table, codes), odd = fp4_odd(v), even = fp4_even(v);
	_mm256_storeu_ps(panel, _mm256_mul_ps(bf16_low(even), scale));
	_mm256_storeu_ps(panel + 16, _mm256_mul_ps(bf16_low(odd), scale));
	_mm256_storeu_ps(panel + 32, _mm256_mul_ps(bf16_high(even), scale));
	_mm256_storeu_ps(panel + 48, _mm256_mul_ps(bf16_high(odd), scale));
}

void avx2_expand_fp4(float *panel, const void *tile, int64_t from, int64_t count)
{
	const uint8_t *chunk = (const uint8_t *)tile + from / MAT_CHUNK * FP4_STEP;
	const __m256i low = _mm256_set1_epi8(15);
	const __m256 unit = _mm256_set1_ps(FP4_SCALE_UNIT), lift = _mm256_set1_ps(0x1p66f);
	for (int64_t j = 0; j < count; j += 16) {
		const uint8_t *half = chunk + j / MAT_CHUNK * FP4_STEP;
		const int b = (int)(j % MAT_CHUNK / 16);
		for (int line = 0; line < 3; line++) next_block(half + FP4_STEP / 4 * b + 64 * line, MAT_BLOCK / MAT_CHUNK * FP4_STEP);
		for (int h = 0; h < 2; h++, half += FP4_HALF) {
			const __m256i s = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(half + FP4_SCALES + 8 * b)));
			const __m256 scale = _mm256_mul_ps(_mm256_mul_ps(bits(_mm256_slli_epi32(s, 20)), unit), lift);
			float *to = panel + j * MAT_TILE + 8 * h;
			for (int v = 0; v < 2; v++, to += 8 * MAT_TILE) {
				const __m256i c = load(half + 64 * b + 32 * v);
				fp4_store(to, _mm256_and_si256(c, low), scale);
				fp4_store(to + 4 * MAT_TILE, _mm256_and_si256(_mm256_srli_epi16(c, 4), low), scale);
			}
		}
	}
}

/* -- up to six rows by one panel --------------------------------------------------------------------------------------------------- */

#define BEGIN(i)                                                                      \
	const float *const x##i = x[i];                                                   \
	__m256 a##i = first ? _mm256_setzero_ps() : _mm256_loadu_ps(sums + (i)*MAT_TILE); \
	__m256 b##i = first ? _mm256_setzero_ps() : _mm256_loadu_ps(sums + (i)*MAT_TILE + 8);
#define STEP(i)                           \
	by = _mm256_broadcast_ss(x##i + j);   \
	a##i = _mm256_fmadd_ps(by, w0, a##i); \
	b##i = _mm256_fmadd_ps(by, w1, b##i);
#define FINISH(i)                                \
	_mm256_storeu_ps(sums + (i)*MAT_TILE, a##i); \
	_mm256_storeu_ps(sums + (i)*MAT_TILE + 8, b##i);

#define BLOCK(M)                                                                                            \
	static void block##M(float *sums, const float *const *x, const float *panel, int64_t count, bool first) \
	{                                                                                                       \
		ROWS##M(BEGIN) for (int64_t j = 0; j < count; j++, panel += MAT_TILE)                               \
		{                                                                                                   \
			const __m256 w0 = _mm256_loadu_ps(panel), w1 = _mm256_loadu_ps(panel + 8);                      \
			__m256 by;                                                                                      \
			ROWS##M(STEP)                                                                                   \
		}                                                                                                   \
		ROWS##M(FINISH)                                                                                     \
	}
BLOCK(1)
BLOCK(2)
BLOCK(3)
BLOCK(4)
BLOCK(5)
BLOCK(6)

void avx2_block(float *sums, const float *const *x, int m, const float *panel, int64_t count, bool first)
{
	switch (m) {
	case 1: block1(sums, x, panel, count, first); break;
	case 2: block2(sums, x, panel, count, first); break;
	case 3: block3(sums, x, panel, count, first); break;
	case 4: block4(sums, x, panel, count, first); break;
	case 5: block5(sums, x, panel, count, first); break;
	default: block6(sums, x, panel, count, first); break;
	}
}

/* -- one row by one or two streams ------------------------------------------------------------------------------------------------- */

OP void finish(float *sums, int tiles, __m256 a, __m256 b, __m256 c, __m256 d)
{
	_mm256_storeu_ps(sums, a);
	_mm256_storeu_ps(sums + 8, b);
	if (tiles == 1) return;
	_mm256_storeu_ps(sums + 16, c);
	_mm256_storeu_ps(sums + 24, d);
}

/* Columns that do not fill a word, behind the others; x holds the last block. */
OP void rest(float *sums, const uint8_t *tile, size_t bytes, int tiles, const float *x, int64_t k, int64_t count,
    void (*expand)(float *panel, const void *tile, int64_t from, int64_t count))
{
	float panel[4 * MAT_TILE];
	for (int t = 0; t < tiles && count; t++, tile += bytes, sums += MAT_TILE) {
		const float *one = x + (k - count) % MAT_BLOCK;
		expand(panel, tile, k - count, count);
		avx2_block(sums, &one, 1, panel, count, false);
	}
}

OP void gemv_bf16(float *sums, const uint8_t *p, int tiles, const float *x, int64_t pitch, int64_t k)
{
	const size_t bytes = (size_t)((k + 1) / 2) * 64;
	const uint8_t *tile = p, *q = p + (tiles - 1) * bytes;
	__m256 a = _mm256_setzero_ps(), b = a, c = a, d = a;
	for (int64_t from = 0; from < k; from += MAT_BLOCK, x += pitch) {
		const int64_t count = k - from < MAT_BLOCK ? k - from : MAT_BLOCK;
		for (int64_t j = 0; j + 2 <= count; j += 2, p += 64, q += 64) {
			_mm_prefetch((const char *)p + AHEAD, _MM_HINT_T0);
			_mm_prefetch((const char *)q + AHEAD, _MM_HINT_T0);
			const __m256 x0 = _mm256_broadcast_ss(x + j), x1 = _mm256_broadcast_ss(x + j + 1);
			__m256i v = load(p), w = load(p + 32);
			a = _mm256_fmadd_ps(x0, bf16_low(v), a), b = _mm256_fmadd_ps(x0, bf16_low(w), b);
			a = _mm256_fmadd_ps(x1, bf16_high(v), a), b = _mm256_fmadd_ps(x1, bf16_high(w), b);
			if (tiles == 1) continue;
			v = load(q), w = load(q + 32);
			c = _mm256_fmadd_ps(x0, bf16_low(v), c), d = _mm256_fmadd_ps(x0, bf16_low(w), d);
			c = _mm256_fmadd_ps(x1, bf16_high(v), c), d = _mm256_fmadd_ps(x1, bf16_high(w), d);
		}
	}
	finish(sums, tiles, a, b, c, d);
	rest(sums, tile, bytes, tiles, x - pitch, k, k % 2, avx2_expand_bf16);
}

OP void gemv_f32(float *sums, const uint8_t *tile, int tiles, const float *x, int64_t pitch, int64_t k)
{
	const float *p = (const float *)tile, *q = p + (tiles - 1) * k * MAT_TILE;
	__m256 a = _mm256_setzero_ps(), b = a, c = a, d = a;
	for (int64_t from = 0; from < k; from += MAT_BLOCK, x += pitch) {
		const int64_t count = k - from < MAT_BLOCK ? k - from : MAT_BLOCK;
		for (int64_t j = 0; j < count; j++, p += MAT_TILE, q += MAT_TILE) {
			const __m256 by = _mm256_broadcast_ss(x + j);
			a = _mm256_fmadd_ps(by, _mm256_loadu_ps(p), a), b = _mm256_fmadd_ps(by, _mm256_loadu_ps(p + 8), b);
			if (tiles > 1) c = _mm256_fmadd_ps(by, _mm256_loadu_ps(q), c), d = _mm256_fmadd_ps(by, _mm256_loadu_ps(q + 8), d);
		}
	}
	finish(sums, tiles, a, b, c, d);
}

/* Four columns of 8 rows. */
OP __m256 fp8_word(__m256 s, const uint8_t *p, __m256 x0, __m256 x1, __m256 x2, __m256 x3)
{
	const __m256i v = load(p), odd = fp8_odd(v), even = fp8_even(v);
	s = _mm256_fmadd_ps(x0, bf16_low(even), s);
	s = _mm256_fmadd_ps(x1, bf16_low(odd), s);
	s = _mm256_fmadd_ps(x2, bf16_high(even), s);
	return _mm256_fmadd_ps(x3, bf16_high(odd), s);
}

OP void gemv_fp8(float *sums, const uint8_t *p, int tiles, const float *x, int64_t pitch, int64_t k)
{
	const size_t bytes = (size_t)((k + 3) / 4) * 64;
	const uint8_t *tile = p, *q = p + (tiles - 1) * bytes;
	__m256 a = _mm256_setzero_ps(), b = a, c = a, d = a;
	for (int64_t from = 0; from < k; from += MAT_BLOCK, x += pitch) {
		const int64_t count = k - from < MAT_BLOCK ? k - from : MAT_BLOCK;
		for (int64_t j = 0; j + 4 <= count; j += 4, p += 64, q += 64) {
			const __m256 x0 = _mm256_broadcast_ss(x + j), x1 = _mm256_broadcast_ss(x + j + 1);
			const __m256 x2 = _mm256_broadcast_ss(x + j + 2), x3 = _mm256_broadcast_ss(x + j + 3);
			_mm_prefetch((const char *)p + AHEAD, _MM_HINT_T0);
			a = fp8_word(a, p, x0, x1, x2, x3);
			b = fp8_word(b, p + 32, x0, x1, x2, x3);
			if (tiles == 1) continue;
			_mm_prefetch((const char *)q + AHEAD, _MM_HINT_T0);
			c = fp8_word(c, q, x0, x1, x2, x3);
			d = fp8_word(d, q + 32, x0, x1, x2, x3);
		}
	}
	finish(sums, tiles, a, b, c, d);
	rest(sums, tile, bytes, tiles, x - pitch, k, k % 4, avx2_expand_fp8);
}

#define GEMV(name)                                                                                       \
	void avx2_##name(float *sums, const void *tile, int tiles, const float *x, int64_t pitch, int64_t k) \
	{                                                                                                    \
		if (tiles == 2) name(sums, tile, 2, x, pitch, k);                                                \
		else name(sums, tile, 1, x, pitch, k);                                                           \
	}
GEMV(gemv_bf16)
GEMV(gemv_f32)
GEMV(gemv_fp8)
