/* SPDX-License-Identifier: Apache-2.0
 * lane.h: one vector of floats in this tier: 4 lanes (portable), 8 (avx2) or 16 (avx512). Only for files that are compiled per tier.
 * v_fma is one rounding in avx2 and avx512, two in portable (whose processors may have none). bf16 is rounded to nearest even; a NaN
 * stays one.
 */
#ifndef CPU_VEC_LANE_H
#define CPU_VEC_LANE_H

#include <stdint.h>
#include <string.h>

#include "backend/cpu/vec/vec.h"

#if defined VEC_AVX512
#include <immintrin.h>
#define VN 16
typedef __m512 vf;
typedef __m512i vi;
#define VOP static inline __attribute__((always_inline))
VOP vf v_load(const float *p) { return _mm512_loadu_ps(p); }
VOP void v_store(float *p, vf v) { _mm512_storeu_ps(p, v); }
VOP vf v_set(float a) { return _mm512_set1_ps(a); }
VOP vf v_zero(void) { return _mm512_setzero_ps(); }
VOP vf v_add(vf a, vf b) { return _mm512_add_ps(a, b); }
VOP vf v_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
VOP vf v_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
VOP vf v_div(vf a, vf b) { return _mm512_div_ps(a, b); }
VOP vf v_max(vf a, vf b) { return _mm512_max_ps(a, b); }
VOP vf v_min(vf a, vf b) { return _mm512_min_ps(a, b); }
VOP vf v_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
VOP vf v_round(vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
VOP vi v_int(vf a) { return _mm512_cvtps_epi32(a); }
VOP vf v_bits(vi a) { return _mm512_castsi512_ps(a); }
VOP vi v_ibits(vf a) { return _mm512_castps_si512(a); }
VOP vi vi_add(vi a, vi b) { return _mm512_add_epi32(a, b); }
VOP vi vi_set(int32_t a) { return _mm512_set1_epi32(a); }
VOP vi vi_shl(vi a, int n) { return _mm512_slli_epi32(a, (unsigned)n); }
VOP vf v_load_bf16(const void *p) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p)), 16)); }
/* f32 values rounded to bf16 values */
VOP vf v_bf16(vf a)
{
	const __m512i u = _mm512_castps_si512(a), odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
	const __m512i r = _mm512_and_si512(_mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), odd), _mm512_set1_epi32(~0xffff));
	const __mmask16 nan = _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
	return _mm512_castsi512_ps(_mm512_mask_or_epi32(r, nan, _mm512_and_si512(u, _mm512_set1_epi32(~0xffff)), _mm512_set1_epi32(0x400000)));
}
VOP void v_store_bf16(void *p, vf a)
{
	_mm256_storeu_si256(p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_castps_si512(v_bf16(a)), 16)));
}

#elif defined VEC_AVX2
#include <immintrin.h>
#define VN 8
typedef __m256 vf;
typedef __m256i vi;
#define VOP static inline __attribute__((always_inline))
VOP vf v_load(const float *p) { return _mm256_loadu_ps(p); }
VOP void v_store(float *p, vf v) { _mm256_storeu_ps(p, v); }
VOP vf v_set(float a) { return _mm256_set1_ps(a); }
VOP vf v_zero(void) { return _mm256_setzero_ps(); }
VOP vf v_add(vf a, vf b) { return _mm256_add_ps(a, b); }
VOP vf v_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
VOP vf v_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
VOP vf v_div(vf a, vf b) { return _mm256_div_ps(a, b); }
VOP vf v_max(vf a, vf b) { return _mm256_max_ps(a, b); }
VOP vf v_min(vf a, vf b) { return _mm256_min_ps(a, b); }
VOP vf v_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
VOP vf v_round(vf a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
VOP vi v_int(vf a) { return _mm256_cvtps_epi32(a); }
VOP vf v_bits(vi a) { return _mm256_castsi256_ps(a); }
VOP vi v_ibits(vf a) { return _mm256_castps_si256(a); }
VOP vi vi_add(vi a, vi b) { return _mm256_add_epi32(a, b); }
VOP vi vi_set(int32_t a) { return _mm256_set1_epi32(a); }
VOP vi vi_shl(vi a, int n) { return _mm256_slli_epi32(a, n); }
VOP vf v_load_bf16(const void *p) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(p)), 16)); }
/* f32 values rounded to bf16 values */
VOP vf v_bf16(vf a)
{
	const __m256i u = _mm256_castps_si256(a), odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
	const __m256i r = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd),
	              quiet = _mm256_or_si256(u, _mm256_set1_epi32(0x400000));
	const __m256 v = _mm256_blendv_ps(_mm256_castsi256_ps(r), _mm256_castsi256_ps(quiet), _mm256_cmp_ps(a, a, _CMP_UNORD_Q));
	return _mm256_and_ps(v, _mm256_castsi256_ps(_mm256_set1_epi32(~0xffff)));
}
VOP void v_store_bf16(void *p, vf a)
{
	const __m256i u = _mm256_srli_epi32(_mm256_castps_si256(v_bf16(a)), 16);
	_mm_storeu_si128(p, _mm_packus_epi32(_mm256_castsi256_si128(u), _mm256_extracti128_si256(u, 1)));
}

#else
#define VN 4
typedef float vf __attribute__((vector_size(16)));
typedef int32_t vi __attribute__((vector_size(16)));
/* 16 bytes: what every processor of this age has. */
#define VOP static inline __attribute__((always_inline))
VOP vf v_load(const float *p)
{
	vf v;
	memcpy(&v, p, sizeof v);
	return v;
}
VOP void v_store(float *p, vf v) { memcpy(p, &v, sizeof v); }
VOP vf v_set(float a) { return (vf){a, a, a, a}; }
VOP vf v_zero(void) { return v_set(0.0f); }
VOP vf v_add(vf a, vf b) { return a + b; }
VOP vf v_sub(vf a, vf b) { return a - b; }
VOP vf v_mul(vf a, vf b) { return a * b; }
VOP vf v_div(vf a, vf b) { return a / b; }
VOP vf v_max(vf a, vf b) /* as maxps: b where either is a NaN */
{
	const vi m = a > b;
	return (vf)(((vi)a & m) | ((vi)b & ~m));
}
VOP vf v_min(vf a, vf b)
{
	const vi m = a < b;
	return (vf)(((vi)a & m) | ((vi)b & ~m));
}
VOP vf v_fma(vf a, vf b, vf c) { return a * b + c; }
VOP vf v_round(vf a) /* |a| < 2^22 */
{
	const vf magic = v_set(0x1.8p23f);
	return (a + magic) - magic;
}
VOP vi v_int(vf a) { return __builtin_convertvector(a, vi); } /* of a rounded value */
VOP vf v_bits(vi a) { return (vf)a; }
VOP vi v_ibits(vf a) { return (vi)a; }
VOP vi vi_add(vi a, vi b) { return a + b; }
VOP vi vi_set(int32_t a) { return (vi){a, a, a, a}; }
VOP vi vi_shl(vi a, int n) { return a << n; }
VOP vf v_load_bf16(const void *p)
{
	typedef uint16_t h4 __attribute__((vector_size(8)));
	h4 h;
	memcpy(&h, p, sizeof h);
	return (vf)(__builtin_convertvector(h, vi) << 16);
}
/* f32 values rounded to bf16 values */
VOP vf v_bf16(vf a)
{
	const vi u = (vi)a, r = u + 0x7fff + ((u >> 16) & 1), nan = (u & 0x7fffffff) > 0x7f800000;
	return (vf)(((r & ~nan) | ((u | 0x400000) & nan)) & ~0xffff);
}
VOP void v_store_bf16(void *p, vf a)
{
	const vi u = (vi)v_bf16(a);
	uint16_t h[VN];
	for (int i = 0; i < VN; i++) h[i] = (uint16_t)((uint32_t)u[i] >> 16);
	memcpy(p, h, sizeof h);
}
#endif

/* The sum of the lanes in a fixed tree: halves are added until one is left. */
VOP float v_sum(vf a)
{
	float x[VN];
	v_store(x, a);
	for (int n = VN / 2; n > 0; n /= 2)
		for (int i = 0; i < n; i++) x[i] += x[i + n];
	return x[0];
}

VOP float v_largest(vf a)
{
	float x[VN], m;
	v_store(x, a);
	m = x[0];
	for (int i = 1; i < VN; i++) m = x[i] > m ? x[i] : m;
	return m;
}

/* n < VN elements; the others are zero. */
VOP vf v_load_part(const float *p, int64_t n)
{
	float x[VN] = {0};
	memcpy(x, p, (size_t)n * sizeof *x);
	return v_load(x);
}
VOP void v_store_part(float *p, vf v, int64_t n)
{
	float x[VN];
	v_store(x, v);
	memcpy(p, x, (size_t)n * sizeof *x);
}
VOP vf v_load_bf16_part(const void *p, int64_t n)
{
	uint16_t h[VN] = {0};
	memcpy(h, p, (size_t)n * sizeof *h);
	return v_load_bf16(h);
}
VOP void v_store_bf16_part(void *p, vf v, int64_t n)
{
	uint16_t h[VN];
	v_store_bf16(h, v);
	memcpy(p, h, (size_t)n * sizeof *h);
}

#endif
