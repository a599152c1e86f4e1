/* SPDX-License-Identifier: Apache-2.0
 * v_sample.c: passes over logits. Doubles are eight at a time whatever the tier, so all tiers have the same bits.
 */
#include "backend/cpu/vec/vec_sample.h"

#include <float.h>
#include <math.h>

#include "backend/cpu/vec/lane.h"

static float look(const float *l, int64_t n, bool *nan, bool *finite)
{
	vf most = v_set(-INFINITY);
	int64_t i = 0;
	unsigned odd = 0, good = 0;
	for (; i + VN <= n; i += VN) most = v_max(v_load(l + i), most);
	float top = v_largest(most);
	for (; i < n; i++) top = l[i] > top ? l[i] : top;
	for (i = 0; i < n; i++) odd |= l[i] != l[i], good |= l[i] >= -FLT_MAX && l[i] <= FLT_MAX;
	*nan = odd != 0, *finite = good != 0;
	return top;
}

#define LANES 8 /* partial sums, in every tier */
#define VD (VN / 2)
typedef double vd __attribute__((vector_size(8 * VD)));
typedef int64_t vl __attribute__((vector_size(8 * VD)));
#define MAGIC 0x1.8p52 /* a sum with it has the nearest integer in its low bits */

VOP vd all(double v) { return (vd){0} + v; }
VOP vd where(vl mask, vd yes, vd no) { return (vd)(((vl)yes & mask) | ((vl)no & ~mask)); }

/* 2^(whole part of v), v as a sum with MAGIC. */
VOP vd power(vd v) { return (vd)(((vl)v + 1023) << 52); }

/* e^x for -746 <= x <= 0, 1 ulp of double. */
VOP vd exp_double(vd x)
{
	const vd n = (x * 1.4426950408889634 + MAGIC) - MAGIC;
	const vd r = (x - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33;
	const vd r2 = r * r;
	/* 1 / k! */
	const vd even = 0.5 + r2 * (1.0 / 24 + r2 * (1.0 / 720 + r2 * (1.0 / 40320 + r2 * (1.0 / 3628800 + r2 * (1.0 / 479001600)))));
	const vd odd = 1.0 / 6 + r2 * (1.0 / 120 + r2 * (1.0 / 5040 + r2 * (1.0 / 362880 + r2 * (1.0 / 39916800))));
	const vd y = 1.0 + (r + r2 * (even + r * odd));
	const vd half = (n * 0.5 + MAGIC) - MAGIC; /* two factors: 2^n itself may be a subnormal */
	return y * power(half + MAGIC) * power((n - half) + MAGIC);
}

VOP vd some(const float *l, double best, double temperature)
{
	vd v = {0};
	for (int j = 0; j < VD; j++) v[j] = (double)l[j];
	vd x = (v - best) / temperature;
	x = exp_double(where(x > -746.0, x, all(-746.0)));
	x = where(v == best, all(1.0), x);
	return where(v == -(double)INFINITY, all(0.0), x);
}

static double weights(double *p, const float *l, int64_t n, double best, double temperature)
{
	double sums[LANES], w[LANES];
	vd sum[LANES / VD];
	for (int k = 0; k < LANES / VD; k++) sum[k] = all(0.0);
	for (int64_t i = 0; i < n; i += LANES) {
		float rest[LANES];
		const float *at = l + i;
		const bool whole = i + LANES <= n;
		for (int j = 0; !whole && j < LANES; j++) rest[j] = i + j < n ? l[i + j] : -INFINITY;
		for (int k = 0; k < LANES / VD; k++) {
			const vd v = some((whole ? at : rest) + k * VD, best, temperature);
			sum[k] += v;
			memcpy(w + k * VD, &v, sizeof v);
		}
		if (p) memcpy(p + i, w, whole ? sizeof w : (size_t)(n - i) * sizeof *w);
	}
	for (int k = 0; k < LANES / VD; k++) memcpy(sums + k * VD, &sum[k], sizeof sum[k]);
	return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

const vec_sample VEC(vec_sample) = {look, weights};
