/* SPDX-License-Identifier: Apache-2.0
 * test_v_fun.c: the vector functions against libm in double, on a dense grid of bit patterns, in every tier: errors in ulps of the f32 result,
 * the ends, NaNs, tails.
 */
#include <math.h>
#include <string.h>

#include "backend/cpu/cpu_isa.h"
#include "backend/cpu/vec/vec_fun.h"
#include "num/num_conv.h"
#include "test.h"

#define N 4096
#define STEP 1009u /* between bit patterns: prime, four million values in all */

/* |got - want| in ulps of an f32 of want's size; the smallest subnormal counts below. */
static double ulps(float got, double want)
{
	const float near = (float)want;
	if ((isnan(got) && isnan(want)) || got == near) return fabs((double)got - want) > 0 && isfinite(near) ? 0.5 : 0;
	if (!isfinite(got) || !isfinite(near)) return INFINITY;
	int e;
	frexp(want, &e);
	return fabs((double)got - want) / ldexp(1, e - 24 < -149 ? -149 : e - 24);
}

static double exact_exp(double x) { return exp(x); }
static double exact_log(double x) { return log(x); }
static double exact_silu(double x) { return x / (1 + exp(-x)); }
/* As the contract has it: each step an f32. */
static double steps_softplus(double x)
{
	const float e = (float)exp(x), sum = e + 1.0f;
	return x > 20 ? x : (double)(float)log((double)sum);
}

typedef void (*each_fn)(float *v, int64_t n);
typedef double (*exact_fn)(double x);

/* All finite patterns between two numbers of one sign, STEP apart. */
static double worst(each_fn f, exact_fn g, float from, float to, int *count)
{
	static float in[N], out[N];
	double most = 0;
	int n = 0;
	const uint32_t a = num_bits_f32(from), b = num_bits_f32(to);
	for (uint32_t u = a; u <= b; u += STEP) {
		in[n++] = num_f32_bits(u);
		if (n < N && u + STEP <= b) continue;
		memcpy(out, in, sizeof out);
		f(out, n);
		for (int i = 0; i < n; i++) {
			const double far = ulps(out[i], g((double)in[i]));
			most = far > most ? far : most;
		}
		*count += n;
		n = 0;
	}
	return most;
}

static void errors_in_ulps(void **state)
{
	(void)state;
	for (int t = 0; t <= (int)cpu_tier_best(); t++) {
		const vec_fun *v = vec_fun_of(t);
		int n = 0;
		const double e = fmax(worst(v->exp, exact_exp, 0.0f, 88.7f, &n), worst(v->exp, exact_exp, -0.0f, -87.3f, &n)),
		             low = worst(v->exp, exact_exp, -87.3f, -110.0f, &n), l = worst(v->log, exact_log, 0x1p-126f, 3e38f, &n),
		             s = fmax(worst(v->silu, exact_silu, 0x1p-126f, 1e30f, &n), worst(v->silu, exact_silu, -0x1p-100f, -80.0f, &n)),
		             p = fmax(
		                 worst(v->softplus, steps_softplus, 0.0f, 1e30f, &n), worst(v->softplus, steps_softplus, -9.0f, -0x1p-60f, &n));
		print_message("%s: %d values: exp %.2f ulp (subnormal %.2f), log %.2f, silu %.2f, softplus %.2f\n", cpu_tier_name((cpu_tier)t), n,
		    e, low, l, s, p);
		assert_true(n > 5000000);
		assert_true(e <= 1.1 && low <= 1.1 && l <= 1.1 && s <= 2.1 && p <= 2.1);
	}
}

static void ends(void **state)
{
	(void)state;
	for (int t = 0; t <= (int)cpu_tier_best(); t++) {
		const vec_fun *v = vec_fun_of(t);
		float e[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 89.0f, 1e30f, -104.5f, -1e30f, 88.722f, -87.34f};
		v->exp(e, 11);
		assert_true(
		    e[0] == 1 && e[1] == 1 && isinf(e[2]) && e[3] == 0 && isnan(e[4]) && isinf(e[5]) && isinf(e[6]) && e[7] == 0 && e[8] == 0);
		assert_true(isfinite(e[9]) && e[9] > 3.39e38f && e[10] > 0);
		float l[] = {1.0f, NAN, INFINITY, 0x1p-126f};
		v->log(l, 4);
		assert_true(l[0] == 0 && isnan(l[1]) && !isfinite(l[2]) && fabsf(l[3] + 87.336545f) < 1e-5f);
		float s[] = {0.0f, NAN, 200.0f, -200.0f, -90.0f};
		v->silu(s, 5);
		assert_true(s[0] == 0 && isnan(s[1]) && s[2] == 200 && s[3] == 0 && s[4] <= 0);
		float p[] = {NAN, 20.0f, 20.000002f, 1e30f, INFINITY, -200.0f, -INFINITY};
		v->softplus(p, 7);
		assert_true(
		    isnan(p[0]) && p[1] >= 20 && p[1] < 20.0001f && p[2] == 20.000002f && p[3] == 1e30f && isinf(p[4]) && p[5] == 0 && p[6] == 0);
	}
}

/* A value's bits do not depend on where it stands. */
static void tails(void **state)
{
	(void)state;
	for (int t = 0; t <= (int)cpu_tier_best(); t++) {
		const vec_fun *v = vec_fun_of(t);
		const each_fn each[] = {v->exp, v->log, v->silu, v->softplus};
		for (int f = 0; f < 4; f++)
			for (int n = 1; n < 40; n++) {
				float a[41], b;
				for (int i = 0; i < 41; i++) a[i] = 0.37f * (float)(i + 1);
				each[f](a, n);
				assert_true(a[n] == 0.37f * (float)(n + 1));
				for (int i = 0; i < n; i++) {
					b = 0.37f * (float)(i + 1);
					each[f](&b, 1);
					assert_true(a[i] == b);
				}
			}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(errors_in_ulps), cmocka_unit_test(ends), cmocka_unit_test(tails)};
	return cmocka_run_group_tests_name("v_fun", tests, NULL, NULL);
}
