/* SPDX-License-Identifier: Apache-2.0
 * avx2_few.c: up to six rows by a block of columns of one tile, whose weights go from the stream to the multipliers without a panel between.
 * Knows BF16 and FP8; FP4 has integers for few rows. The invariant that breaks first: a chain is that of avx2_mat.c's block.
 */
#include "backend/cpu/vec/avx2_word.h"
#include "backend/cpu/vec/mat_tier.h"

#define BEGIN(i)                                                                          \
	const float *const x##i = x[i];                                                       \
	__m256 a##i = from == 0 ? _mm256_setzero_ps() : _mm256_loadu_ps(sums + (i)*MAT_TILE); \
	__m256 b##i = from == 0 ? _mm256_setzero_ps() : _mm256_loadu_ps(sums + (i)*MAT_TILE + 8);
#define STEP(i)                              \
	by = _mm256_broadcast_ss(x##i + j + in); \
	a##i = _mm256_fmadd_ps(by, w0, a##i);    \
	b##i = _mm256_fmadd_ps(by, w1, b##i);
#define FINISH(i)                                \
	_mm256_storeu_ps(sums + (i)*MAT_TILE, a##i); \
	_mm256_storeu_ps(sums + (i)*MAT_TILE + 8, b##i);

/* Column `at` of the word: 8 rows of it from v, 8 from w. */
#define COLUMN(M, at, take, v, w)                \
	{                                            \
		const __m256 w0 = take(v), w1 = take(w); \
		enum { in = at };                        \
		ROWS##M(STEP)                            \
	}

#define BF16(M)                                                                                             \
	static void bf16_##M(float *sums, const float *const *x, const uint8_t *p, int64_t from, int64_t count) \
	{                                                                                                       \
		__m256 by;                                                                                          \
		ROWS##M(BEGIN) for (int64_t j = 0; j + 2 <= count; j += 2, p += 64)                                 \
		{                                                                                                   \
			_mm_prefetch((const char *)p + AHEAD, _MM_HINT_T0);                                             \
			COLUMN(M, 0, bf16_low, load(p), load(p + 32))                                                   \
			COLUMN(M, 1, bf16_high, load(p), load(p + 32))                                                  \
		}                                                                                                   \
		ROWS##M(FINISH)                                                                                     \
	}

#define FP8(M)                                                                                             \
	static void fp8_##M(float *sums, const float *const *x, const uint8_t *p, int64_t from, int64_t count) \
	{                                                                                                      \
		__m256 by;                                                                                         \
		ROWS##M(BEGIN) for (int64_t j = 0; j + 4 <= count; j += 4, p += 64)                                \
		{                                                                                                  \
			_mm_prefetch((const char *)p + AHEAD, _MM_HINT_T0);                                            \
			const __m256i v = load(p), w = load(p + 32);                                                   \
			const __m256i ve = fp8_even(v), vo = fp8_odd(v), we = fp8_even(w), wo = fp8_odd(w);            \
			COLUMN(M, 0, bf16_low, ve, we)                                                                 \
			COLUMN(M, 1, bf16_low, vo, wo)                                                                 \
			COLUMN(M, 2, bf16_high, ve, we)                                                                \
			COLUMN(M, 3, bf16_high, vo, wo)                                                                \
		}                                                                                                  \
		ROWS##M(FINISH)                                                                                    \
	}

#define EACH(X) X(1) X(2) X(3) X(4) X(5) X(6)
EACH(BF16)
EACH(FP8)

typedef void few_fn(float *sums, const float *const *x, const uint8_t *p, int64_t from, int64_t count);
typedef void expand_fn(float *panel, const void *tile, int64_t from, int64_t count);

/* `word` columns stand in a word; those that do not fill one come last. */
OP void few(
    few_fn *whole, expand_fn *expand, int word, float *sums, const float *const *x, int m, const uint8_t *tile, int64_t from, int64_t count)
{
	const int64_t left = count % word, done = count - left;
	whole(sums, x, tile + from / word * 64, from, count);
	if (!left) return;
	float panel[4 * MAT_TILE];
	const float *rest[MAT_ROWS];
	for (int i = 0; i < m; i++) rest[i] = x[i] + done;
	expand(panel, tile, from + done, left);
	avx2_block(sums, rest, m, panel, left, false);
}

void avx2_few_bf16(float *sums, const float *const *x, int m, const void *tile, int64_t from, int64_t count)
{
	static few_fn *const BY_ROWS[MAT_ROWS] = {bf16_1, bf16_2, bf16_3, bf16_4, bf16_5, bf16_6};
	few(BY_ROWS[m - 1], avx2_expand_bf16, 2, sums, x, m, tile, from, count);
}

void avx2_few_fp8(float *sums, const float *const *x, int m, const void *tile, int64_t from, int64_t count)
{
	static few_fn *const BY_ROWS[MAT_ROWS] = {fp8_1, fp8_2, fp8_3, fp8_4, fp8_5, fp8_6};
	few(BY_ROWS[m - 1], avx2_expand_fp8, 4, sums, x, m, tile, from, count);
}
