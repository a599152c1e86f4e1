/* SPDX-License-Identifier: Apache-2.0
 * test_ref_basic.c: embedding, norms, additions, chosen rows.
 */
#include "kit.h"

#define EACH_PROFILE(k)                            \
	for (int p_ = 0; p_ < KIT_PROFILE_COUNT; p_++) \
		for (kit k = kit_open(KIT_PROFILES[p_], 11); k.x; kit_close(&k), k.x = NULL)

static void embeds(void **state)
{
	(void)state;
	EACH_PROFILE(k)
	for (int wide = 0; wide < 2; wide++) {
		const num_dtype act = k.x->types.act;
		tensor table = kit_random(&k, wide ? NUM_F32 : NUM_BF16, 9, 5, 1), ids = KIT_INTS(&k, 8, 0, 3, 3), y = kit_2d(&k, act, 4, 5);
		OP(k.x, embed_rows, .y = &y, .table = &table, .ids = &ids);
		KIT_OK(&k);
		for (int t = 0; t < 4; t++)
			for (int i = 0; i < 5; i++) assert_true(kit_at(&y, t, i) == kit_rounded(act, kit_at(&table, ((int32_t *)ids.data)[t], i)));
		for (int bad = 0; bad < 2; bad++) {
			((int32_t *)ids.data)[2] = bad ? 9 : -1;
			OP(k.x, embed_rows, .y = &y, .table = &table, .ids = &ids);
			KIT_FAILED(&k, bad ? "ids[2] = 9, expected 0 <= id < 9" : "ids[2] = -1");
		}
	}
}

/* y of one row, from the right, in long double. */
static double norm_value(const kit *k, const double *v, int64_t n, int64_t i, double w, double eps)
{
	long double sum = 0;
	for (int64_t j = n; j-- > 0;) sum += (long double)v[j] * v[j];
	double s = 1 / sqrt((double)(sum / n) + eps);
	if (!kit_eager(k)) return v[i] * s * w;
	return num_round_bf16((double)((float)v[i] * (float)s * (float)w));
}

static void norms(void **state)
{
	(void)state;
	int checked = 0, stale = 0;
	EACH_PROFILE(k)
	for (int n = 1; n <= 65; n += 8)
		for (int quiet = 0; quiet < 2; quiet++) {
			const num_dtype act = k.x->types.act;
			const float eps = 1e-5f;
			tensor x = kit_random(&k, act, 3, n, quiet ? 0.003 : 1), add = kit_random(&k, act, 3, n, quiet ? 0.003 : 1);
			tensor y = kit_2d(&k, act, 3, n), z = kit_2d(&k, act, 3, n), w = kit_vector(&k, n % 3 ? NUM_BF16 : NUM_F32, n, 1, 0.5),
			       res = kit_2d(&k, act, 3, n);
			memcpy(res.data, x.data, tensor_bytes(&x));
			OP(k.x, rms_norm, .y = &y, .x = &x, .w = &w, .eps = eps);
			OP(k.x, add_rms_norm, .y = &z, .residual = &res, .x = &add, .w = &w, .eps = eps);
			KIT_OK(&k);
			for (int t = 0; t < 3; t++) {
				double v[65], sum[65];
				for (int i = 0; i < n; i++) {
					v[i] = kit_at(&x, t, i);
					sum[i] = kit_rounded(act, v[i] + kit_at(&add, t, i));
					stale += sum[i] != v[i] + kit_at(&add, t, i);
				}
				for (int i = 0; i < n; i++) {
					double want = norm_value(&k, v, n, i, kit_get(&w, i), (double)eps),
					       want2 = norm_value(&k, sum, n, i, kit_get(&w, i), (double)eps);
					assert_true(fabs(kit_at(&y, t, i) - want) <= 1e-13 * fabs(want));
					assert_true(fabs(kit_at(&z, t, i) - want2) <= 1e-13 * fabs(want2));
					assert_true(kit_at(&res, t, i) == sum[i]);
					checked++;
				}
			}
		}
	print_message("%d elements, %d sums that a rounding changed\n", checked, stale);
	assert_true(checked > 4000 && stale > 500);
}

static void adds_and_gathers(void **state)
{
	(void)state;
	EACH_PROFILE(k)
	{
		const num_dtype act = k.x->types.act;
		tensor a = kit_random(&k, act, 4, 6, 1), b = kit_random(&k, act, 4, 6, 0.01), y = kit_2d(&k, act, 4, 6), g = kit_2d(&k, act, 3, 6);
		tensor rows = KIT_INTS(&k, 3, 0, 3);
		OP(k.x, add, .y = &y, .a = &a, .b = &b);
		for (int i = 0; i < 24; i++) assert_true(kit_get(&y, i) == kit_rounded(act, kit_get(&a, i) + kit_get(&b, i)));
		OP(k.x, gather_rows, .y = &g, .x = &y, .rows = &rows);
		OP(k.x, add, .y = &a, .a = &a, .b = &b); /* in place */
		KIT_OK(&k);
		assert_true(kit_same_bits(&a, &y));
		for (int r = 0; r < 3; r++)
			for (int i = 0; i < 6; i++) assert_true(kit_at(&g, r, i) == kit_at(&y, r == 1 ? 0 : 3, i));
		((int32_t *)rows.data)[1] = 4;
		OP(k.x, gather_rows, .y = &g, .x = &y, .rows = &rows);
		KIT_FAILED(&k, "rows[1] = 4");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(embeds), cmocka_unit_test(norms), cmocka_unit_test(adds_and_gathers)};
	return cmocka_run_group_tests_name("ref_basic", tests, NULL, NULL);
}
