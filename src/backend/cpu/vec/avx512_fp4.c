/* SPDX-License-Identifier: Apache-2.0
 * avx512_fp4.c: FP4 weights times activations held as 16-bit integers, one power of two as scale for each MAT_CHUNK columns. A vector holds one
 * pair of columns of the 16 rows of a tile; a code becomes the integer 2 w by a look-up, and an instruction multiplies pairs of integers and adds
 * them up. The sum over a block of 16 columns is exact and below 2^23; it meets the block's scale in one fused operation, the chunk's in
 * another. Rows of both forms are multiplied so: the instruction for bf16 has a quarter of this one's rate on the processors this was measured on.
 * The invariant that breaks first: `block` and `gemv` have the same chains, so that a row's bits do not depend on the others.
 */
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "backend/cpu/vec/mat_tier.h"
#include "num/num_conv.h"

#define OP static inline __attribute__((always_inline))

#define STREAM (MAT_CHUNK * 9)       /* bytes of 16 rows by MAT_CHUNK columns: codes of 4 blocks, then their scales */
#define CODES 128                    /* bytes of the codes of a block of 16 columns: two vectors of 8 */
#define SCALES (4 * CODES)           /* [block][row] */
#define PANEL_SCALES (MAT_BLOCK / 2) /* vectors of integers in a panel, before the scales */
/* Bytes: a thread's tiles follow one another, so that what lies ahead is what comes next. The first cache has too few places for all that
 * must be under way, so what is far goes to the second. */
#define FAR 16384
#define NEAR 1024

OP __m512i load(const void *p) { return _mm512_loadu_si512(p); }
OP __m512i none(void) { return _mm512_setzero_si512(); }
OP __m512i dot(__m512i sum, __m512i w, __m512i x) { return _mm512_dpwssd_epi32(sum, w, x); }
OP __m512i pair(const int16_t *x)
{
	int32_t v;
	memcpy(&v, x, 4);
	return _mm512_set1_epi32(v);
}
OP __m512 times(__m512i sum, __m512 scale, __m512 to) { return _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), scale, to); }
OP void fetch(const void *p)
{
	_mm_prefetch((const char *)p + FAR, _MM_HINT_T1);
	_mm_prefetch((const char *)p + NEAR, _MM_HINT_T0);
}

/* Twice the value of a code; all of it twice, since a look-up takes five bits, of which the fifth is the next code's. */
#define DOUBLES 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12
static const int16_t TABLE[32] = {DOUBLES, DOUBLES};

/* Columns 2 i and 2 i + 1 of the eight of v. */
OP __m512i codes(__m512i table, __m512i v, unsigned i) { return _mm512_permutexvar_epi16(i ? _mm512_srli_epi16(v, 4 * i) : v, table); }

/* The scales of 16 rows, 2^-8 times: the code's bits moved to where an f16 has them, subnormals too. */
OP __m512 scale_of(const void *p)
{
	return _mm512_cvtph_ps(_mm256_slli_epi16(_mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)p)), 7));
}
#define SCALE_DROP_EXPONENT 8

/* -- packing ----------------------------------------------------------------------------------------------------------------------- */

/* The even nibbles of a word. */
static uint32_t evens(uint32_t v)
{
	v &= 0x0f0f0f0fu;
	v = (v | v >> 4) & 0x00ff00ffu;
	return (v | v >> 8) & 0xffffu;
}

/* A row's word of a vector holds eight columns: the even ones in its lower half, the odd ones in its upper. Scales are not negative: their
 * sign moves into the codes. */
void avx512_pack_fp4(uint8_t *tile, const uint8_t *const rows[MAT_TILE], const uint8_t *const scales[MAT_TILE], int64_t k)
{
	const int64_t blocks = k / 16, chunks = (k + MAT_CHUNK - 1) / MAT_CHUNK;
	for (int64_t c = 0; c < chunks; c++, tile += STREAM)
		for (int r = 0; r < MAT_TILE; r++)
			for (int b = 0; b < 4; b++) {
				const int64_t at = 4 * c + b;
				const bool there = rows[r] && at < blocks;
				const uint8_t scale = there ? scales[r][at] : 0;
				for (int v = 0; v < 2; v++) {
					uint32_t code = 0;
					if (there) memcpy(&code, rows[r] + 8 * at + 4 * v, 4);
					if (scale & 0x80) code ^= 0x88888888u;
					const uint32_t word = evens(code) | evens(code >> 4) << 16;
					memcpy(tile + b * CODES + v * 64 + r * 4, &word, 4);
				}
				tile[SCALES + b * MAT_TILE + r] = scale & 0x7f;
			}
}

/* An f32 panel, for rows that integers cannot hold. */
void avx512_expand_fp4(float *panel, const void *tile, int64_t from, int64_t count)
{
	const uint8_t *chunk = (const uint8_t *)tile + from / MAT_CHUNK * STREAM;
	const __m512i table = load(TABLE);
	for (int64_t j = 0; j < count; j += 8) {
		const uint8_t *p = chunk + j / MAT_CHUNK * STREAM;
		const int64_t in = j % MAT_CHUNK;
		const __m512i v = load(p + in * 8);
		const __m512 scale = _mm512_mul_ps(scale_of(p + SCALES + in / 16 * MAT_TILE), _mm512_set1_ps(0x1p7f));
		for (unsigned i = 0; i < 4; i++, panel += 2 * MAT_TILE) {
			const __m512i w = codes(table, v, i);
			_mm512_storeu_ps(panel, _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_srai_epi32(_mm512_slli_epi32(w, 16), 16)), scale));
			_mm512_storeu_ps(panel + MAT_TILE, _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_srai_epi32(w, 16)), scale));
		}
	}
}

/* -- activations ------------------------------------------------------------------------------------------------------------------- */

/* The largest magnitude of a chunk; infinite where one is no number. */
OP float largest(const float *x)
{
	__m512 m = _mm512_setzero_ps();
	__mmask16 odd = 0;
	for (int j = 0; j < MAT_CHUNK; j += 16) {
		const __m512 v = _mm512_loadu_ps(x + j);
		m = _mm512_max_ps(m, _mm512_abs_ps(v));
		odd |= _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
	}
	return odd ? (float)INFINITY : _mm512_reduce_max_ps(m);
}

OP float power(int e) { return num_f32_bits((uint32_t)(e + 127) << 23); }

bool avx512_narrow(int16_t *words, float *scales, int64_t n, const float *x, int64_t pitch, int64_t k)
{
	for (int64_t from = 0; from < k; from += MAT_CHUNK) {
		const int64_t b = from / MAT_BLOCK, in = from % MAT_BLOCK;
		const float *p = x + b * pitch + in;
		const float top = largest(p);
		if (!(top <= 0x1.fffffep127f)) return false;
		int e = (int)(num_bits_f32(top) >> 23) - 127;
		if (e < -100) e = -100; /* its columns keep fewer bits, down to none */
		if (top * power(14 - e) > 32767.0f) e++;
		const __m512 unit = _mm512_set1_ps(power(14 - e));
		scales[b * n * MAT_CHUNKS + in / MAT_CHUNK] = power(e - 14 - 1 + SCALE_DROP_EXPONENT);
		for (int j = 0; j < MAT_CHUNK; j += 16)
			_mm256_storeu_si256((__m256i *)(words + b * n * MAT_BLOCK + in + j),
			    _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(p + j), unit))));
	}
	return true;
}

/* -- up to MAT_WORD_ROWS rows by one or two panels ----------------------------------------------------------------------------------------- */

void avx512_words(void *panel, const void *tile, int64_t from, int64_t count)
{
	const uint8_t *p = (const uint8_t *)tile + from / MAT_CHUNK * STREAM;
	const __m512i table = load(TABLE);
	__m512i *to = panel;
	float *scales = (float *)(to + PANEL_SCALES);
	for (int64_t j = 0; j < count; j += 16, to += 8, scales += MAT_TILE) {
		const uint8_t *chunk = p + j / MAT_CHUNK * STREAM;
		const int64_t b = j % MAT_CHUNK / 16;
		const __m512i v = load(chunk + b * CODES), u = load(chunk + b * CODES + 64);
		for (unsigned i = 0; i < 4; i++) _mm512_storeu_si512(to + i, codes(table, v, i));
		for (unsigned i = 0; i < 4; i++) _mm512_storeu_si512(to + 4 + i, codes(table, u, i));
		_mm512_storeu_ps(scales, scale_of(chunk + SCALES + b * MAT_TILE));
		fetch(chunk + b * CODES), fetch(chunk + b * CODES + 64);
	}
}

/* Sums have names and not places in an array, which gcc would keep in memory. Two panels at once: a pair of activations is loaded once for both,
 * or loads would hold the multipliers up. `two` is a constant where these are expanded. */
#define ROWS1(X) X(0)
#define ROWS2(X) ROWS1(X) X(1)
#define ROWS3(X) ROWS2(X) X(2)
#define ROWS4(X) ROWS3(X) X(3)
#define ROWS5(X) ROWS4(X) X(4)
#define ROWS6(X) ROWS5(X) X(5)

#define CHUNK(i) __m512 a##i = _mm512_setzero_ps(), b##i = a##i;
#define NEW(i) __m512i t##i = none(), u##i = t##i;
#define STEP(i)                           \
	by = pair(x + (i)*MAT_BLOCK + 2 * j); \
	t##i = dot(t##i, w, by);              \
	if (two) u##i = dot(u##i, v, by);
#define SCALE(i)                     \
	a##i = times(t##i, scale, a##i); \
	if (two) b##i = times(u##i, other, b##i);
#define OUT(i)                                                \
	rest = _mm512_set1_ps(scales[(i)*MAT_CHUNKS + from / 4]); \
	add(sums + (i)*MAT_TILE, a##i, rest, first);              \
	if (two) add(sums + pitch + (i)*MAT_TILE, b##i, rest, first);

OP void add(float *sum, __m512 a, __m512 scale, bool first)
{
	_mm512_storeu_ps(sum, _mm512_fmadd_ps(a, scale, first ? _mm512_setzero_ps() : _mm512_loadu_ps(sum)));
}

/* `blocks` of 16 columns. */
#define BLOCK(M)                                                                                                                        \
	OP void rows##M(                                                                                                                    \
	    float *sums, int64_t pitch, bool two, const int16_t *x, const float *scales, const uint8_t *panel, int blocks, bool first)      \
	{                                                                                                                                   \
		const uint8_t *next = panel + MAT_BLOCK * MAT_TILE * sizeof(float);                                                             \
		const float *of = (const float *)(const void *)(panel + PANEL_SCALES * 64);                                                     \
		for (int from = 0; from < blocks; from += 4, first = false) {                                                                   \
			const int to = blocks - from < 4 ? blocks : from + 4;                                                                       \
			__m512 rest;                                                                                                                \
			ROWS##M(CHUNK) for (int b = from; b < to; b++, x += 16, of += MAT_TILE)                                                     \
			{                                                                                                                           \
				ROWS##M(NEW) _Pragma("GCC unroll 8") for (int j = 0; j < 8; j++, panel += 64, next += 64)                               \
				{                                                                                                                       \
					const __m512i w = load(panel), v = two ? load(next) : w;                                                            \
					__m512i by;                                                                                                         \
					ROWS##M(STEP)                                                                                                       \
				}                                                                                                                       \
				const __m512 scale = _mm512_loadu_ps(of), other = two ? _mm512_loadu_ps(of + MAT_BLOCK * MAT_TILE) : scale;             \
				ROWS##M(SCALE)                                                                                                          \
			}                                                                                                                           \
			ROWS##M(OUT)                                                                                                                \
		}                                                                                                                               \
	}                                                                                                                                   \
	static void one##M(float *sums, int64_t pitch, const int16_t *x, const float *scales, const uint8_t *panel, int blocks, bool first) \
	{                                                                                                                                   \
		rows##M(sums, pitch, false, x, scales, panel, blocks, first);                                                                   \
	}                                                                                                                                   \
	static void two##M(float *sums, int64_t pitch, const int16_t *x, const float *scales, const uint8_t *panel, int blocks, bool first) \
	{                                                                                                                                   \
		rows##M(sums, pitch, true, x, scales, panel, blocks, first);                                                                    \
	}
BLOCK(1)
BLOCK(2)
BLOCK(3)
BLOCK(4)
BLOCK(5)
BLOCK(6)

void avx512_words_block(
    float *sums, int64_t pitch, int tiles, const int16_t *x, const float *scales, int m, const void *panel, int64_t count, bool first)
{
	typedef void block_fn(float *sums, int64_t pitch, const int16_t *x, const float *scales, const uint8_t *panel, int blocks, bool first);
	static block_fn *const ONE[MAT_WORD_ROWS] = {one1, one2, one3, one4, one5, one6};
	static block_fn *const TWO[MAT_WORD_ROWS] = {two1, two2, two3, two4, two5, two6};
	(tiles == 2 ? TWO : ONE)[m - 1](sums, pitch, x, scales, panel, (int)(count / 16), first);
}

/* -- one row straight from the stream ---------------------------------------------------------------------------------------------- */

OP __m512i block16(__m512i table, const uint8_t *p, const int16_t *x)
{
	const __m512i v = load(p), u = load(p + 64);
	__m512i t = none(), q = none(); /* exact: two chains are one */
	for (unsigned i = 0; i < 4; i++) t = dot(t, codes(table, v, i), pair(x + 2 * i));
	for (unsigned i = 0; i < 4; i++) q = dot(q, codes(table, u, i), pair(x + 8 + 2 * i));
	fetch(p), fetch(p + 64);
	return _mm512_add_epi32(t, q);
}

void avx512_words_gemv(float *sums, const void *tile, const int16_t *x, const float *scales, int64_t n, int64_t k)
{
	const uint8_t *p = tile;
	const __m512i table = load(TABLE);
	__m512 s = _mm512_setzero_ps();
	for (int64_t from = 0; from < k; from += MAT_CHUNK, p += STREAM) {
		const int64_t at = from / MAT_BLOCK * n, blocks = k - from >= MAT_CHUNK ? 4 : (k - from) / 16;
		const int16_t *in = x + at * MAT_BLOCK + from % MAT_BLOCK;
		__m512 a = _mm512_setzero_ps();
		for (int64_t b = 0; b < blocks; b++) a = times(block16(table, p + b * CODES, in + 16 * b), scale_of(p + SCALES + b * MAT_TILE), a);
		s = _mm512_fmadd_ps(a, _mm512_set1_ps(scales[at * MAT_CHUNKS + from % MAT_BLOCK / MAT_CHUNK]), s);
		fetch(p + SCALES);
	}
	_mm512_storeu_ps(sums, s);
}
