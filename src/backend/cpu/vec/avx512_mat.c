/* SPDX-License-Identifier: Apache-2.0
 * avx512_mat.c: packed BF16, FP8 and F32 weights in f32 lanes of 16 rows: products of one row straight from the stream, panels, and a block of
 * two panels by many rows. An output is one chain of fused operations over ascending columns, as in avx2_mat.c, whose `block` multiplies what
 * is left over: same bits. The instruction that multiplies pairs of bf16 is not used: it has half the rate of this form on the processors this was
 * measured on, and takes bf16 subnormals as zero. FP8 codes become the bf16 of 2^-60 of their value by a look-up, subnormals too, so that no
 * lane holds a subnormal f32, on which multipliers stall. The invariant that breaks first: a chain is the same in `block` and in `gemv`.
 */
#include <immintrin.h>
#include <string.h>

#include "backend/cpu/vec/mat_tier.h"

#define OP static inline __attribute__((always_inline))

#define AHEAD 4096 /* bytes: a thread's tiles follow one another, so that what lies ahead is what comes next */

OP __m512i load(const void *p) { return _mm512_loadu_si512(p); }
OP __m512 low(__m512i v) { return _mm512_castsi512_ps(_mm512_slli_epi32(v, 16)); }
OP __m512 high(__m512i v) { return _mm512_castsi512_ps(_mm512_and_si512(v, _mm512_set1_epi32((int)0xffff0000))); }
OP void fetch(const void *p) { _mm_prefetch((const char *)p + AHEAD, _MM_HINT_T0); }

/* -- e4m3 -------------------------------------------------------------------------------------------------------------------------- */

/* The two bytes of the bf16 of the eight codes of one exponent. */
#define LOW8(e)                                                                                                            \
	((e)&1) << 7, ((e)&1) << 7 | 0x10, ((e)&1) << 7 | 0x20, ((e)&1) << 7 | 0x30, ((e)&1) << 7 | 0x40, ((e)&1) << 7 | 0x50, \
	    ((e)&1) << 7 | 0x60, ((e)&1) << 7 | 0x70
#define HIGH8(e) 30 + (e) / 2, 30 + (e) / 2, 30 + (e) / 2, 30 + (e) / 2, 30 + (e) / 2, 30 + (e) / 2, 30 + (e) / 2, 30 + (e) / 2
/* Codes 1 .. 7 are subnormal: 2^-9 * (1, 2, 3, 4, 5, 6, 7). */
static const uint8_t FP8_LOW[128] = {0, 0x00, 0x80, 0xc0, 0x00, 0x20, 0x40, 0x60, LOW8(1), LOW8(2), LOW8(3), LOW8(4), LOW8(5), LOW8(6),
    LOW8(7), LOW8(8), LOW8(9), LOW8(10), LOW8(11), LOW8(12), LOW8(13), LOW8(14), LOW8(15)};
static const uint8_t FP8_HIGH[128] = {0, 29, 29, 29, 30, 30, 30, 30, HIGH8(1), HIGH8(2), HIGH8(3), HIGH8(4), HIGH8(5), HIGH8(6), HIGH8(7),
    HIGH8(8), HIGH8(9), HIGH8(10), HIGH8(11), HIGH8(12), HIGH8(13), HIGH8(14), HIGH8(15)};

typedef struct fp8_table {
	__m512i low0, low1, high0, high1;
} fp8_table;

OP fp8_table fp8_tables(void) { return (fp8_table){load(FP8_LOW), load(FP8_LOW + 64), load(FP8_HIGH), load(FP8_HIGH + 64)}; }

/* Pairs of bf16: columns 0, 1 and 2, 3 of 16 rows. */
#define FP8_PAIRS(t, v, first, second)                                                                                 \
	const __m512i bottom = _mm512_permutex2var_epi8((t).low0, v, (t).low1);                                            \
	const __m512i top = _mm512_ternarylogic_epi32(                                                                     \
	    _mm512_permutex2var_epi8((t).high0, v, (t).high1), v, _mm512_set1_epi8(-128), 0xf8); /* a | b & c: the sign */ \
	const __m512i first = _mm512_unpacklo_epi8(bottom, top), second = _mm512_unpackhi_epi8(bottom, top)

/* Of each 16 bytes of a vector, 8 hold columns 0 and 1 of four rows, 8 hold columns 2 and 3: what interleaving bytes wants. */
void avx512_pack_fp8(uint8_t *tile, const uint8_t *const rows[MAT_TILE], int64_t k)
{
	memset(tile, 0, (size_t)((k + 3) / 4) * 64);
	for (int r = 0; r < MAT_TILE; r++) {
		uint8_t *to = tile + r / 4 * 16 + r % 4 * 2;
		for (int64_t j = 0; rows[r] && j < k; j++) to[j / 4 * 64 + j % 4 / 2 * 8 + j % 2] = rows[r][j];
	}
}

/* -- panels ------------------------------------------------------------------------------------------------------------------------ */

void avx512_expand_bf16(float *panel, const void *tile, int64_t from, int64_t count)
{
	const uint8_t *p = (const uint8_t *)tile + from / 2 * 64;
	for (int64_t j = 0; j < count; j += 2, p += 64, panel += 2 * MAT_TILE) {
		const __m512i v = load(p);
		_mm512_storeu_ps(panel, low(v));
		_mm512_storeu_ps(panel + MAT_TILE, high(v));
		fetch(p);
	}
}

void avx512_expand_fp8(float *panel, const void *tile, int64_t from, int64_t count)
{
	const uint8_t *p = (const uint8_t *)tile + from * MAT_TILE;
	const fp8_table t = fp8_tables();
	for (int64_t j = 0; j < count; j += 4, p += 64, panel += 4 * MAT_TILE) {
		const __m512i v = load(p);
		FP8_PAIRS(t, v, a, b);
		_mm512_storeu_ps(panel, low(a));
		_mm512_storeu_ps(panel + MAT_TILE, high(a));
		_mm512_storeu_ps(panel + 2 * MAT_TILE, low(b));
		_mm512_storeu_ps(panel + 3 * MAT_TILE, high(b));
		fetch(p);
	}
}

/* -- up to twelve rows by two panels ----------------------------------------------------------------------------------------------- */

#define ROWS1(X) X(0)
#define ROWS2(X) ROWS1(X) X(1)
#define ROWS3(X) ROWS2(X) X(2)
#define ROWS4(X) ROWS3(X) X(3)
#define ROWS5(X) ROWS4(X) X(4)
#define ROWS6(X) ROWS5(X) X(5)
#define ROWS7(X) ROWS6(X) X(6)
#define ROWS8(X) ROWS7(X) X(7)
#define ROWS9(X) ROWS8(X) X(8)
#define ROWS10(X) ROWS9(X) X(9)
#define ROWS11(X) ROWS10(X) X(10)
#define ROWS12(X) ROWS11(X) X(11)

/* Sums have names and not places in an array, which gcc would keep in memory. A row's pointer is fetched once for two columns: there are
 * not registers enough for twelve. */
#define BEGIN(i)                                                                      \
	__m512 a##i = first ? _mm512_setzero_ps() : _mm512_loadu_ps(sums + (i)*MAT_TILE); \
	__m512 b##i = first ? _mm512_setzero_ps() : _mm512_loadu_ps(sums + pitch + (i)*MAT_TILE);
#define STEP1(i)                          \
	by = _mm512_set1_ps(x[i][j]);         \
	a##i = _mm512_fmadd_ps(by, w0, a##i); \
	b##i = _mm512_fmadd_ps(by, v0, b##i);
#define STEP2(i)                          \
	one = x[i] + j;                       \
	by = _mm512_set1_ps(one[0]);          \
	a##i = _mm512_fmadd_ps(by, w0, a##i); \
	b##i = _mm512_fmadd_ps(by, v0, b##i); \
	by = _mm512_set1_ps(one[1]);          \
	a##i = _mm512_fmadd_ps(by, w1, a##i); \
	b##i = _mm512_fmadd_ps(by, v1, b##i);
#define FINISH(i)                                \
	_mm512_storeu_ps(sums + (i)*MAT_TILE, a##i); \
	_mm512_storeu_ps(sums + pitch + (i)*MAT_TILE, b##i);

#define BLOCK(M)                                                                                                           \
	static void block##M(float *sums, int64_t pitch, const float *const *x, const float *panel, int64_t count, bool first) \
	{                                                                                                                      \
		const float *other = panel + MAT_BLOCK * MAT_TILE, *one;                                                           \
		__m512 by;                                                                                                         \
		int64_t j = 0;                                                                                                     \
		ROWS##M(BEGIN) for (; j + 2 <= count; j += 2, panel += 2 * MAT_TILE, other += 2 * MAT_TILE)                        \
		{                                                                                                                  \
			const __m512 w0 = _mm512_loadu_ps(panel), v0 = _mm512_loadu_ps(other);                                         \
			const __m512 w1 = _mm512_loadu_ps(panel + MAT_TILE), v1 = _mm512_loadu_ps(other + MAT_TILE);                   \
			ROWS##M(STEP2)                                                                                                 \
		}                                                                                                                  \
		if (j < count) {                                                                                                   \
			const __m512 w0 = _mm512_loadu_ps(panel), v0 = _mm512_loadu_ps(other);                                         \
			ROWS##M(STEP1)                                                                                                 \
		}                                                                                                                  \
		ROWS##M(FINISH)                                                                                                    \
	}
BLOCK(1)
BLOCK(2)
BLOCK(3)
BLOCK(4)
BLOCK(5)
BLOCK(6)
BLOCK(7)
BLOCK(8)
BLOCK(9)
BLOCK(10)
BLOCK(11)
BLOCK(12)

void avx512_block2(float *sums, int64_t pitch, const float *const *x, int m, const float *panel, int64_t count, bool first)
{
	typedef void block_fn(float *sums, int64_t pitch, const float *const *x, const float *panel, int64_t count, bool first);
	static block_fn *const BY_ROWS[MAT_ROWS2] = {
	    block1, block2, block3, block4, block5, block6, block7, block8, block9, block10, block11, block12};
	BY_ROWS[m - 1](sums, pitch, x, panel, count, first);
}

/* -- one row by one or two streams ------------------------------------------------------------------------------------------------- */

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
	__m512 a = _mm512_setzero_ps(), b = a;
	for (int64_t from = 0; from < k; from += MAT_BLOCK, x += pitch) {
		const int64_t count = k - from < MAT_BLOCK ? k - from : MAT_BLOCK;
		for (int64_t j = 0; j + 2 <= count; j += 2, p += 64, q += 64) {
			const __m512 x0 = _mm512_set1_ps(x[j]), x1 = _mm512_set1_ps(x[j + 1]);
			const __m512i v = load(p);
			a = _mm512_fmadd_ps(x1, high(v), _mm512_fmadd_ps(x0, low(v), a));
			fetch(p);
			if (tiles == 1) continue;
			const __m512i w = load(q);
			b = _mm512_fmadd_ps(x1, high(w), _mm512_fmadd_ps(x0, low(w), b));
			fetch(q);
		}
	}
	_mm512_storeu_ps(sums, a);
	if (tiles > 1) _mm512_storeu_ps(sums + MAT_TILE, b);
	rest(sums, tile, bytes, tiles, x - pitch, k, k % 2, avx512_expand_bf16);
}

OP void gemv_f32(float *sums, const uint8_t *tile, int tiles, const float *x, int64_t pitch, int64_t k)
{
	const float *p = (const float *)(const void *)tile, *q = p + (tiles - 1) * k * MAT_TILE;
	__m512 a = _mm512_setzero_ps(), b = a;
	for (int64_t from = 0; from < k; from += MAT_BLOCK, x += pitch) {
		const int64_t count = k - from < MAT_BLOCK ? k - from : MAT_BLOCK;
		for (int64_t j = 0; j < count; j++, p += MAT_TILE, q += MAT_TILE) {
			const __m512 by = _mm512_set1_ps(x[j]);
			a = _mm512_fmadd_ps(by, _mm512_loadu_ps(p), a);
			if (tiles > 1) b = _mm512_fmadd_ps(by, _mm512_loadu_ps(q), b);
		}
	}
	_mm512_storeu_ps(sums, a);
	if (tiles > 1) _mm512_storeu_ps(sums + MAT_TILE, b);
}

/* Four columns. */
OP __m512 fp8_word(fp8_table t, __m512 s, const uint8_t *p, const float *x)
{
	const __m512i v = load(p);
	FP8_PAIRS(t, v, a, b);
	fetch(p);
	s = _mm512_fmadd_ps(_mm512_set1_ps(x[0]), low(a), s);
	s = _mm512_fmadd_ps(_mm512_set1_ps(x[1]), high(a), s);
	s = _mm512_fmadd_ps(_mm512_set1_ps(x[2]), low(b), s);
	return _mm512_fmadd_ps(_mm512_set1_ps(x[3]), high(b), s);
}

OP void gemv_fp8(float *sums, const uint8_t *p, int tiles, const float *x, int64_t pitch, int64_t k)
{
	const size_t bytes = (size_t)((k + 3) / 4) * 64;
	const uint8_t *tile = p, *q = p + (tiles - 1) * bytes;
	const fp8_table t = fp8_tables();
	__m512 a = _mm512_setzero_ps(), b = a;
	for (int64_t from = 0; from < k; from += MAT_BLOCK, x += pitch) {
		const int64_t count = k - from < MAT_BLOCK ? k - from : MAT_BLOCK;
		for (int64_t j = 0; j + 4 <= count; j += 4, p += 64, q += 64) {
			a = fp8_word(t, a, p, x + j);
			if (tiles > 1) b = fp8_word(t, b, q, x + j);
		}
	}
	_mm512_storeu_ps(sums, a);
	if (tiles > 1) _mm512_storeu_ps(sums + MAT_TILE, b);
	rest(sums, tile, bytes, tiles, x - pitch, k, k % 4, avx512_expand_fp8);
}

#define GEMV(name)                                                                                         \
	void avx512_##name(float *sums, const void *tile, int tiles, const float *x, int64_t pitch, int64_t k) \
	{                                                                                                      \
		if (tiles == 2) name(sums, tile, 2, x, pitch, k);                                                  \
		else name(sums, tile, 1, x, pitch, k);                                                             \
	}
GEMV(gemv_bf16)
GEMV(gemv_f32)
GEMV(gemv_fp8)
