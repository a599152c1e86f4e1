/* SPDX-License-Identifier: Apache-2.0
 * bench_loops.c: see bench_loops.h. Every loop is compiled for its own instruction set by a function attribute, so that one binary holds all.
 * Sums are of integers: no order of additions changes what is read, and no value is slow to add.
 * The invariant that breaks first: no loop runs where the processor does not show its instructions.
 */
#include "bench_loops.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* --- reading, any machine --- */

static uint64_t read_words(const void *p, size_t bytes)
{
	const uint64_t *w = p;
	uint64_t a = 0, b = 0, c = 0, d = 0;
	for (size_t i = 0; i < bytes / 8; i += 8) {
		a += w[i] + w[i + 4];
		b += w[i + 1] + w[i + 5];
		c += w[i + 2] + w[i + 6];
		d += w[i + 3] + w[i + 7];
	}
	return a + b + c + d;
}

static uint64_t read_words_ahead(const void *p, size_t bytes)
{
	const uint64_t *w = p;
	uint64_t a = 0, b = 0, c = 0, d = 0;
	for (size_t i = 0; i < bytes / 8; i += 8) {
		__builtin_prefetch(w + i + 128, 0, 0);
		a += w[i] + w[i + 4];
		b += w[i + 1] + w[i + 5];
		c += w[i + 2] + w[i + 6];
		d += w[i + 3] + w[i + 7];
	}
	return a + b + c + d;
}

static uint64_t read_words_streams(const void *p, size_t bytes)
{
	const uint64_t *w = p;
	size_t q = bytes / 32;
	uint64_t a = 0, b = 0, c = 0, d = 0;
	for (size_t i = 0; i < q; i += 4) {
		for (size_t j = i; j < i + 4; j++) {
			a += w[j];
			b += w[q + j];
			c += w[2 * q + j];
			d += w[3 * q + j];
		}
	}
	return a + b + c + d;
}

static uint64_t read_words_halves(const void *p, size_t bytes)
{
	/* The two halves of a page side by side. */
	const uint64_t *w = p;
	uint64_t a = 0, b = 0;
	size_t half = LOOP_UNIT / 16;
	for (size_t i = 0; i < bytes / 8; i += 2 * half) {
		for (size_t j = i; j < i + half; j++) {
			a += w[j];
			b += w[j + half];
		}
	}
	return a + b;
}

#if defined(__x86_64__)

/* --- reading, x86 --- */

#define AVX2 __attribute__((target("avx2,fma")))
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl")))

static uint64_t fold128(__m128i v) { return (uint64_t)_mm_cvtsi128_si64(v) + (uint64_t)_mm_cvtsi128_si64(_mm_unpackhi_epi64(v, v)); }

static uint64_t read_sse(const void *p, size_t bytes)
{
	const __m128i *v = p;
	__m128i a = _mm_setzero_si128(), b = a, c = a, d = a;
	for (size_t i = 0; i < bytes / 16; i += 4) {
		a = _mm_add_epi64(a, _mm_load_si128(v + i));
		b = _mm_add_epi64(b, _mm_load_si128(v + i + 1));
		c = _mm_add_epi64(c, _mm_load_si128(v + i + 2));
		d = _mm_add_epi64(d, _mm_load_si128(v + i + 3));
	}
	return fold128(_mm_add_epi64(_mm_add_epi64(a, b), _mm_add_epi64(c, d)));
}

AVX2 static uint64_t fold256(__m256i v) { return fold128(_mm_add_epi64(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1))); }

AVX2 static uint64_t read_avx2(const void *p, size_t bytes)
{
	const __m256i *v = p;
	__m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
	for (size_t i = 0; i < bytes / 32; i += 8) {
		a = _mm256_add_epi64(a, _mm256_add_epi64(_mm256_load_si256(v + i), _mm256_load_si256(v + i + 4)));
		b = _mm256_add_epi64(b, _mm256_add_epi64(_mm256_load_si256(v + i + 1), _mm256_load_si256(v + i + 5)));
		c = _mm256_add_epi64(c, _mm256_add_epi64(_mm256_load_si256(v + i + 2), _mm256_load_si256(v + i + 6)));
		d = _mm256_add_epi64(d, _mm256_add_epi64(_mm256_load_si256(v + i + 3), _mm256_load_si256(v + i + 7)));
	}
	return fold256(_mm256_add_epi64(_mm256_add_epi64(a, b), _mm256_add_epi64(c, d)));
}

AVX2 static uint64_t read_avx2_ahead(const void *p, size_t bytes)
{
	const __m256i *v = p;
	__m256i a = _mm256_setzero_si256(), b = a;
	for (size_t i = 0; i < bytes / 32; i += 4) {
		_mm_prefetch((const char *)(v + i) + 1536, _MM_HINT_T0);
		_mm_prefetch((const char *)(v + i) + 1600, _MM_HINT_T0);
		a = _mm256_add_epi64(a, _mm256_add_epi64(_mm256_load_si256(v + i), _mm256_load_si256(v + i + 2)));
		b = _mm256_add_epi64(b, _mm256_add_epi64(_mm256_load_si256(v + i + 1), _mm256_load_si256(v + i + 3)));
	}
	return fold256(_mm256_add_epi64(a, b));
}

AVX2 static uint64_t read_avx2_streams(const void *p, size_t bytes)
{
	const __m256i *v = p;
	size_t q = bytes / 128;
	__m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
	for (size_t i = 0; i < q; i += 4) { /* two cache lines of each */
#define FOUR(p)                                                                          \
	_mm256_add_epi64(_mm256_add_epi64(_mm256_load_si256(p), _mm256_load_si256((p) + 1)), \
	    _mm256_add_epi64(_mm256_load_si256((p) + 2), _mm256_load_si256((p) + 3)))
		a = _mm256_add_epi64(a, FOUR(v + i));
		b = _mm256_add_epi64(b, FOUR(v + q + i));
		c = _mm256_add_epi64(c, FOUR(v + 2 * q + i));
		d = _mm256_add_epi64(d, FOUR(v + 3 * q + i));
#undef FOUR
	}
	return fold256(_mm256_add_epi64(_mm256_add_epi64(a, b), _mm256_add_epi64(c, d)));
}

AVX512 static uint64_t read_avx512(const void *p, size_t bytes)
{
	const __m512i *v = p;
	__m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;
	for (size_t i = 0; i < bytes / 64; i += 4) {
		a = _mm512_add_epi64(a, _mm512_load_si512(v + i));
		b = _mm512_add_epi64(b, _mm512_load_si512(v + i + 1));
		c = _mm512_add_epi64(c, _mm512_load_si512(v + i + 2));
		d = _mm512_add_epi64(d, _mm512_load_si512(v + i + 3));
	}
	return (uint64_t)_mm512_reduce_add_epi64(_mm512_add_epi64(_mm512_add_epi64(a, b), _mm512_add_epi64(c, d)));
}

AVX512 static uint64_t read_avx512_ahead(const void *p, size_t bytes)
{
	const __m512i *v = p;
	__m512i a = _mm512_setzero_si512(), b = a;
	for (size_t i = 0; i < bytes / 64; i += 2) {
		_mm_prefetch((const char *)(v + i) + 2048, _MM_HINT_T0);
		_mm_prefetch((const char *)(v + i) + 2112, _MM_HINT_T0);
		a = _mm512_add_epi64(a, _mm512_load_si512(v + i));
		b = _mm512_add_epi64(b, _mm512_load_si512(v + i + 1));
	}
	return (uint64_t)_mm512_reduce_add_epi64(_mm512_add_epi64(a, b));
}

AVX512 static uint64_t read_avx512_streams(const void *p, size_t bytes)
{
	const __m512i *v = p;
	size_t q = bytes / 256;
	__m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;
	for (size_t i = 0; i < q; i += 2) {
		a = _mm512_add_epi64(a, _mm512_add_epi64(_mm512_load_si512(v + i), _mm512_load_si512(v + i + 1)));
		b = _mm512_add_epi64(b, _mm512_add_epi64(_mm512_load_si512(v + q + i), _mm512_load_si512(v + q + i + 1)));
		c = _mm512_add_epi64(c, _mm512_add_epi64(_mm512_load_si512(v + 2 * q + i), _mm512_load_si512(v + 2 * q + i + 1)));
		d = _mm512_add_epi64(d, _mm512_add_epi64(_mm512_load_si512(v + 3 * q + i), _mm512_load_si512(v + 3 * q + i + 1)));
	}
	return (uint64_t)_mm512_reduce_add_epi64(_mm512_add_epi64(_mm512_add_epi64(a, b), _mm512_add_epi64(c, d)));
}

/* --- arithmetic, x86 --- */

/* Twelve chains by name: an array of them would go through memory. Values stay near 1: x * 0.5 + 0.5. */
#define CHAINS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define CHAIN_COUNT 12

AVX2 static double maths_avx2(uint64_t rounds, float *sink)
{
	const __m256 half = _mm256_set1_ps(0.5f);
#define SET(i) __m256 c##i = _mm256_set1_ps(1.0f + (float)i / 16);
#define STEP(i) c##i = _mm256_fmadd_ps(c##i, half, half);
#define SUM(i) s = _mm256_add_ps(s, c##i);
	CHAINS(SET)
	for (uint64_t r = 0; r < rounds; r++) {
		CHAINS(STEP)
	}
	__m256 s = half;
	CHAINS(SUM)
	*sink += _mm256_cvtss_f32(s);
#undef SET
#undef STEP
#undef SUM
	return (double)rounds * CHAIN_COUNT * 8 * 2;
}

AVX512 static double maths_avx512(uint64_t rounds, float *sink)
{
	const __m512 half = _mm512_set1_ps(0.5f);
#define SET(i) __m512 c##i = _mm512_set1_ps(1.0f + (float)i / 16);
#define STEP(i) c##i = _mm512_fmadd_ps(c##i, half, half);
#define SUM(i) s = _mm512_add_ps(s, c##i);
	CHAINS(SET)
	for (uint64_t r = 0; r < rounds; r++) {
		CHAINS(STEP)
	}
	__m512 s = half;
	CHAINS(SUM)
	*sink += _mm512_cvtss_f32(s);
#undef SET
#undef STEP
#undef SUM
	return (double)rounds * CHAIN_COUNT * 16 * 2;
}

/* Pairs of zeros and small numbers: the sums do not grow out of range. */
__attribute__((target("avx512f,avx512bf16,avx512vl,avx512bw"))) static double maths_bf16(uint64_t rounds, float *sink)
{
	const __m512bh x = (__m512bh)_mm512_set1_epi32(0x3F800000), y = (__m512bh)_mm512_set1_epi32(0x30000000); /* 1 and 2^-31 */
#define SET(i) __m512 c##i = _mm512_set1_ps(1.0f + (float)i / 16);
#define STEP(i) c##i = _mm512_dpbf16_ps(c##i, x, y);
#define SUM(i) s = _mm512_add_ps(s, c##i);
	CHAINS(SET)
	for (uint64_t r = 0; r < rounds; r++) {
		CHAINS(STEP)
	}
	__m512 s = _mm512_set1_ps(0.0f);
	CHAINS(SUM)
	*sink += _mm512_cvtss_f32(s);
#undef SET
#undef STEP
#undef SUM
	return (double)rounds * CHAIN_COUNT * 16 * 4;
}

static bool has_avx2(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
static bool has_avx512(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}
static bool has_bf16(void) { return has_avx512() && __builtin_cpu_supports("avx512bf16"); }

#endif

/* --- arithmetic, any machine --- */

typedef float vec4 __attribute__((vector_size(16)));

static double maths_plain(uint64_t rounds, float *sink)
{
	const vec4 half = {0.5f, 0.5f, 0.5f, 0.5f};
	vec4 a = half, b = half * 2, c = half * 3, d = half * 4, e = half * 5, f = half * 6, g = half * 7, h = half * 8;
	for (uint64_t r = 0; r < rounds; r++) {
		a = a * half + half;
		b = b * half + half;
		c = c * half + half;
		d = d * half + half;
		e = e * half + half;
		f = f * half + half;
		g = g * half + half;
		h = h * half + half;
	}
	*sink += (a + b + c + d + e + f + g + h)[0];
	return (double)rounds * 8 * 4 * 2;
}

/* --- which --- */

static bool always(void) { return true; }

bool loop_read_at(int i, loop_read *out)
{
	static const struct {
		const char *name;
		loop_read_fn run;
		bool (*has)(void);
	} all[] = {
		{"words", read_words, always},
		{"words, prefetch", read_words_ahead, always},
		{"words, 4 streams", read_words_streams, always},
		{"words, half pages", read_words_halves, always},
#if defined(__x86_64__)
		{"sse", read_sse, always},
		{"avx2", read_avx2, has_avx2},
		{"avx2, prefetch", read_avx2_ahead, has_avx2},
		{"avx2, 4 streams", read_avx2_streams, has_avx2},
		{"avx512", read_avx512, has_avx512},
		{"avx512, prefetch", read_avx512_ahead, has_avx512},
		{"avx512, 4 streams", read_avx512_streams, has_avx512},
#endif
	};
	for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
		if (!all[k].has() || i-- > 0) continue;
		*out = (loop_read){all[k].name, all[k].run};
		return true;
	}
	return false;
}

bool loop_maths_at(int i, loop_maths *out)
{
	static const struct {
		loop_maths m;
		bool (*has)(void);
	} all[] = {
		{{"f32 multiply and add, 4 lanes", LOOP_F32, maths_plain}, always},
#if defined(__x86_64__)
		{{"f32 fma, avx2", LOOP_F32, maths_avx2}, has_avx2},
		{{"f32 fma, avx512", LOOP_F32, maths_avx512}, has_avx512},
		{{"bf16 dot, avx512", LOOP_BF16, maths_bf16}, has_bf16},
#endif
	};
	for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
		if (!all[k].has() || i-- > 0) continue;
		*out = all[k].m;
		return true;
	}
	return false;
}
