/* SPDX-License-Identifier: Apache-2.0
 * fun.h: exponential, logarithm and what follows from them, lane by lane, for files that are compiled per tier. Knows no op.
 * Errors, measured by tests/backend/cpu/test_v_fun.c: v_exp and v_log 1 ulp of f32, v_silu 2. A NaN stays one. The invariant that breaks
 * first: the arguments to v_round stay below 2^22, which is what the portable tier can round.
 */
#ifndef CPU_VEC_FUN_H
#define CPU_VEC_FUN_H

#include "backend/cpu/vec/lane.h"

#if defined VEC_AVX512
VOP vf v_pick_gt(vf a, vf b, vf yes, vf no) { return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_GT_OQ), no, yes); }
VOP vi vi_sub(vi a, vi b) { return _mm512_sub_epi32(a, b); }
VOP vi vi_half(vi a, int n) { return _mm512_srai_epi32(a, (unsigned)n); }
VOP vf v_float(vi a) { return _mm512_cvtepi32_ps(a); }
#elif defined VEC_AVX2
/* a > b ? yes : no; a NaN is not greater */
VOP vf v_pick_gt(vf a, vf b, vf yes, vf no) { return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_GT_OQ)); }
VOP vi vi_sub(vi a, vi b) { return _mm256_sub_epi32(a, b); }
VOP vi vi_half(vi a, int n) { return _mm256_srai_epi32(a, n); } /* n times, toward minus infinity */
VOP vf v_float(vi a) { return _mm256_cvtepi32_ps(a); }
#else
VOP vf v_pick_gt(vf a, vf b, vf yes, vf no)
{
	const vi m = a > b;
	return (vf)(((vi)yes & m) | ((vi)no & ~m));
}
VOP vi vi_sub(vi a, vi b) { return a - b; }
VOP vi vi_half(vi a, int n) { return a >> n; }
VOP vf v_float(vi a) { return __builtin_convertvector(a, vf); }
#endif

/* ln 2 in two parts, the first with so few bits that its product with an exponent is exact without a fused product. */
#define FUN_LN2_HIGH 0.693359375f
#define FUN_LN2_LOW (-2.12194440e-4f)

/* (e^r - 1) where |r| is at most half of ln 2, and 1 added. */
VOP vf fun_exp_near(vf r)
{
	vf p = v_set(1.9875691500e-4f);
	p = v_fma(p, r, v_set(1.3981999507e-3f));
	p = v_fma(p, r, v_set(8.3334519073e-3f));
	p = v_fma(p, r, v_set(4.1665795894e-2f));
	p = v_fma(p, r, v_set(1.6666665459e-1f));
	p = v_fma(p, r, v_set(5.0000001201e-1f));
	return v_add(v_fma(p, v_mul(r, r), r), v_set(1.0f));
}

/* e^x: infinity above 88.73, subnormals and zero below -87.34. */
VOP vf v_exp(vf x)
{
	x = v_max(v_set(-104.0f), v_min(v_set(89.0f), x)); /* the second operand where one is a NaN */
	const vf n = v_round(v_mul(x, v_set(1.44269504f)));
	const vf y = fun_exp_near(v_fma(n, v_set(-FUN_LN2_LOW), v_fma(n, v_set(-FUN_LN2_HIGH), x)));
	const vi k = v_int(n), k1 = vi_half(k, 1), k2 = vi_sub(k, k1); /* two factors: 2^n itself leaves the range at both ends */
	const vf s1 = v_bits(vi_shl(vi_add(k1, vi_set(127)), 23)), s2 = v_bits(vi_shl(vi_add(k2, vi_set(127)), 23));
	return v_mul(v_mul(y, s1), s2);
}

/* e^x for x <= 0: v_exp's bits down to -87, 0 below. For weights that are summed with a 1. */
VOP vf v_exp_down(vf x)
{
	const vf least = v_set(-87.0f), at = v_max(least, x), n = v_round(v_mul(at, v_set(1.44269504f)));
	const vf y = fun_exp_near(v_fma(n, v_set(-FUN_LN2_LOW), v_fma(n, v_set(-FUN_LN2_HIGH), at)));
	/* a NaN's whole part is nothing that the shift leaves */
	return v_pick_gt(least, x, v_zero(), v_bits(vi_add(v_ibits(y), vi_shl(v_int(n), 23))));
}

/* The natural logarithm of normal, finite x > 0; a NaN for other x that are not numbers. */
VOP vf v_log(vf x)
{
	const vi bits = v_ibits(x), e = vi_half(vi_sub(bits, vi_set(0x3f3504f3)), 23); /* sqrt(1/2) <= m < sqrt(2) */
	const vf m = v_bits(vi_sub(bits, vi_shl(e, 23))), n = v_float(e), z = v_sub(m, v_set(1.0f)), z2 = v_mul(z, z);
	vf p = v_set(7.0376836292e-2f);
	p = v_fma(p, z, v_set(-1.1514610310e-1f));
	p = v_fma(p, z, v_set(1.1676998740e-1f));
	p = v_fma(p, z, v_set(-1.2420140846e-1f));
	p = v_fma(p, z, v_set(1.4249322787e-1f));
	p = v_fma(p, z, v_set(-1.6668057665e-1f));
	p = v_fma(p, z, v_set(2.0000714765e-1f));
	p = v_fma(p, z, v_set(-2.4999993993e-1f));
	p = v_fma(p, z, v_set(3.3333331174e-1f));
	vf y = v_mul(v_mul(z, z2), p);
	y = v_fma(n, v_set(FUN_LN2_LOW), y);
	y = v_fma(z2, v_set(-0.5f), y);
	y = v_fma(n, v_set(FUN_LN2_HIGH), v_add(z, y));
	return v_add(y, v_sub(x, x));
}

/* x / (1 + e^-x), each step an f32. */
VOP vf v_silu(vf x) { return v_div(x, v_add(v_set(1.0f), v_exp(v_sub(v_zero(), x)))); }

/* log(e^x + 1), each step an f32, and x above 20: coarse for very negative x, as the eager contract has it. */
VOP vf v_softplus(vf x) { return v_pick_gt(x, v_set(20.0f), x, v_log(v_add(v_exp(x), v_set(1.0f)))); }

#endif
