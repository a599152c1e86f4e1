/* SPDX-License-Identifier: Apache-2.0
 * v_sample.c: passes over logits. The loops over a few doubles are plain C that every compiler makes vectors of; nothing in them depends on
 * how wide those are, so all tiers have the same bits.
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

#define LANES 8
#define MAGIC 0x1.8p52 /* a sum with it has the nearest integer in its low bits */

static inline uint64_t bits_of(double v)
{
	uint64_t u;
	memcpy(&u, &v, sizeof u);
	return u;
}

/* 2^(whole part of v), v as a sum with MAGIC. */
static inline double power(double v)
{
	const uint64_t u = (bits_of(v) + 1023u) << 52;
	double p;
	memcpy(&p, &u, sizeof p);
	return p;
}

/* e^x for -746 <= x <= 0, 1 ulp of double. */
static inline double exp_double(double x)
{
	const double n = (x * 1.4426950408889634 + MAGIC) - MAGIC;
	const double r = (x - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33;
	const double r2 = r * r;
	/* 1 / k! */
	const double even = 0.5 + r2 * (1.0 / 24 + r2 * (1.0 / 720 + r2 * (1.0 / 40320 + r2 * (1.0 / 3628800 + r2 * (1.0 / 479001600)))));
	const double odd = 1.0 / 6 + r2 * (1.0 / 120 + r2 * (1.0 / 5040 + r2 * (1.0 / 362880 + r2 * (1.0 / 39916800))));
	const double y = 1.0 + (r + r2 * (even + r * odd));
	const double half = (n * 0.5 + MAGIC) - MAGIC; /* two factors: 2^n itself may be a subnormal */
	return y * power(half + MAGIC) * power((n - half) + MAGIC);
}

static void eight(double *restrict p, const float *restrict l, double best, double temperature)
{
	for (int j = 0; j < LANES; j++) {
		const double v = (double)l[j];
		double x = (v - best) / temperature;
		x = x > -746.0 ? x : -746.0;
		x = exp_double(x);
		x = v == best ? 1.0 : x;
		p[j] = v == -INFINITY ? 0.0 : x;
	}
}

static double weights(double *p, const float *l, int64_t n, double best, double temperature)
{
	double sum[LANES] = {0}, w[LANES];
	float rest[LANES];
	int64_t i = 0;
	for (; i + LANES <= n; i += LANES) {
		eight(w, l + i, best, temperature);
		for (int j = 0; j < LANES; j++) sum[j] += w[j];
		if (p) memcpy(p + i, w, sizeof w);
	}
	if (i < n) {
		for (int j = 0; j < LANES; j++) rest[j] = i + j < n ? l[i + j] : -INFINITY;
		eight(w, rest, best, temperature);
		for (int j = 0; j < LANES; j++) sum[j] += w[j];
		if (p) memcpy(p + i, w, (size_t)(n - i) * sizeof *w);
	}
	return ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
}

const vec_sample VEC(vec_sample) = {look, weights};
