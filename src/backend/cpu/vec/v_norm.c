/* SPDX-License-Identifier: Apache-2.0
 * v_norm.c: RMS norms. The invariant that breaks first: every product is rounded to f32 on its own, in the order that the contract names.
 */
#include "backend/cpu/vec/vec_norm.h"

#include "backend/cpu/vec/fun.h"

#define SUMS 16

static double squares(const float *v, int64_t n)
{
	double s[SUMS] = {0};
	int64_t i = 0;
	for (; i + SUMS <= n; i += SUMS)
		for (int l = 0; l < SUMS; l++) s[l] += (double)v[i + l] * (double)v[i + l];
	for (int l = 0; i < n; i++, l++) s[l] += (double)v[i] * (double)v[i];
	for (int m = SUMS / 2; m > 0; m /= 2)
		for (int l = 0; l < m; l++) s[l] += s[l + m];
	return s[0];
}

static void scale(float *v, const float *w, float s, int64_t n)
{
	const vf by = v_set(s);
	int64_t i = 0;
	for (; i + VN <= n; i += VN) v_store(v + i, v_mul(v_mul(v_load(v + i), by), v_load(w + i)));
	for (; i < n; i++) v[i] = v[i] * s * w[i];
}

static void add(float *v, const float *a, int64_t n)
{
	for (int64_t i = 0; i < n; i++) v[i] += a[i];
}

static void gate(float *v, const float *z, int64_t n)
{
	int64_t i = 0;
	for (; i + VN <= n; i += VN) v_store(v + i, v_mul(v_load(v + i), v_silu(v_load(z + i))));
	if (i < n) v_store_part(v + i, v_mul(v_load_part(v + i, n - i), v_silu(v_load_part(z + i, n - i))), n - i);
}

static void gated(float *v, const float *w, float s, int64_t n, bool eager)
{
	const vf by = v_set(s);
	for (int64_t i = 0; i < n; i += VN) {
		const bool whole = i + VN <= n;
		vf t = v_mul(whole ? v_load(v + i) : v_load_part(v + i, n - i), by);
		if (eager) t = v_bf16(t);
		t = v_mul(whole ? v_load(w + i) : v_load_part(w + i, n - i), t);
		if (whole) v_store(v + i, t);
		else v_store_part(v + i, t, n - i);
	}
}

const vec_norm VEC(vec_norm) = {squares, scale, add, gate, gated};
