/* SPDX-License-Identifier: Apache-2.0
 * test_ref_tile.c: the inner loops against loops that no compiler can misread: volatile, one value at a time. Bit for bit, since the
 * order of a sum is the definition.
 */
#include "kit.h"

#include "backend/ref/ref_math.h"

static void left_to_right(void **state)
{
	(void)state;
	kit k = kit_open("exact", 81);
	int checked = 0;
	for (int n = 0; n < 40; n++) {
		const int ld = REF_TILE + n % 3 * 8;
		double x[40], w[40 * 32], acc[REF_TILE], want[REF_TILE];
		for (int i = 0; i < 40; i++) x[i] = kit_rand(&k);
		for (int i = 0; i < 40 * 32; i++) w[i] = kit_rand(&k);
		for (int j = 0; j < REF_TILE; j++) {
			volatile double s = kit_rand(&k);
			acc[j] = s;
			for (int i = 0; i < n; i++) {
				volatile double p = x[i] * w[i * ld + j];
				s = s + p;
			}
			want[j] = s;
		}
		ref_accumulate(acc, x, w, ld, n);
		for (int j = 0; j < REF_TILE; j++, checked++) assert_true(acc[j] == want[j]);
	}
	assert_int_equal(checked, 40 * REF_TILE);
	kit_close(&k);
}

static void recurs(void **state)
{
	(void)state;
	kit k = kit_open("exact", 82);
	int checked = 0;
	for (int eager = 0; eager < 2; eager++)
		for (int N = 1; N < 35; N++) {
			const int P = 3;
			double S[3 * 35], was[3 * 35], b[35], c[35], in[3], y[3], da = 0.7 + 0.2 * kit_rand(&k);
			for (int i = 0; i < P * N; i++) S[i] = was[i] = (double)(float)kit_rand(&k);
			for (int i = 0; i < N; i++) b[i] = kit_rand(&k), c[i] = kit_rand(&k);
			for (int i = 0; i < P; i++) in[i] = kit_rand(&k);
			ref_recur(S, b, c, da, in, y, P, N, eager);
			for (int p = 0; p < P; p++) {
				volatile double lane[8] = {0};
				for (int n = 0; n < N; n++, checked++) {
					volatile double kept = was[p * N + n] * da, add = b[n] * in[p], v = kept + add;
					if (eager) v = (double)(float)v;
					assert_true(S[p * N + n] == v);
					volatile double part = v * c[n];
					lane[n % 8] = lane[n % 8] + part;
				}
				double want = ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
				assert_true(y[p] == want);
			}
		}
	assert_true(checked == 2 * 3 * 34 * 35 / 2);
	kit_close(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(left_to_right), cmocka_unit_test(recurs)};
	return cmocka_run_group_tests_name("ref_tile", tests, NULL, NULL);
}
