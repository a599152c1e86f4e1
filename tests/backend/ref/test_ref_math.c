/* SPDX-License-Identifier: Apache-2.0
 * test_ref_math.c: roundings, rows in and out of every type, and the scalar functions at their ends.
 */
#include "kit.h"

#include "backend/ref/ref_math.h"

static const num_dtype TYPES[] = {NUM_F64, NUM_F32, NUM_F16, NUM_BF16, NUM_E4M3, NUM_E5M2};

static void rows_of_every_type(void **state)
{
	(void)state;
	kit k = kit_open("exact", 71);
	for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++) {
		tensor t = kit_2d(&k, TYPES[i], 3, 37);
		double v[37], back[37], rounded[37];
		for (int j = 0; j < 37; j++) v[j] = rounded[j] = ldexp(kit_rand(&k), (int)kit_below(&k, 12) - 8);
		ref_store(&t, 1, 5, 30, v);
		ref_load(&t, 1, 5, 30, back);
		ref_round_row(TYPES[i], rounded, 37);
		for (int j = 0; j < 30; j++) {
			const double want =
			    TYPES[i] == NUM_BF16 ? num_round_bf16((double)(float)v[j]) : kit_rounded(TYPES[i] == NUM_F64 ? NUM_F64 : TYPES[i], v[j]);
			assert_true(back[j] == rounded[j] && back[j] == ref_round(TYPES[i], v[j]));
			if (TYPES[i] == NUM_F64 || TYPES[i] == NUM_F32 || TYPES[i] == NUM_BF16) assert_true(back[j] == want);
		}
		for (int j = 0; j < 111; j++) /* nothing beside what was asked */
			if (j < 42 || j >= 72) assert_true(kit_get(&t, j) == 0);
	}
	kit_close(&k);
}

/* A bf16 goes through the f32 that holds it: 1 + 2^-8 + 2^-30 is a tie there, not in double. */
static void bf16_through_f32(void **state)
{
	(void)state;
	const double v = 1 + 0x1p-8 + 0x1p-30;
	assert_true(ref_bf16(v) == 1.0);
	assert_true(num_round_bf16(v) == 1 + 0x1p-7);
	assert_true(ref_round(NUM_BF16, v) == 1.0);
}

static void functions(void **state)
{
	(void)state;
	for (int eager = 0; eager < 2; eager++) {
		for (double v = -40; v <= 40; v += 0.37) {
			assert_true(fabs(ref_silu(v, eager) - v / (1 + exp(-v))) <= (eager ? 1e-6 : 1e-15) * fabs(v));
			double plain = (double)log1pl(expl((long double)v));
			if (!eager) assert_true(fabs(ref_softplus(v, false) - plain) <= 1e-15 * plain);
			else assert_true(fabs(ref_softplus(v, true) - plain) <= 1e-7 + 1e-7 * plain);
		}
		assert_true(ref_silu(-1000, eager) == 0 && ref_silu(1000, eager) == 1000);
		assert_true(ref_softplus(1000, eager) == 1000 && ref_softplus(-1000, eager) == 0);
		assert_true(isnan(ref_silu(NAN, eager)) && isnan(ref_softplus(NAN, eager)));
	}
	assert_true(ref_softplus(20.5, true) == 20.5);
	assert_true(ref_softplus(-17, true) == 0 && ref_softplus(-17, false) > 4e-8); /* exp + 1 in f32: coarse on purpose */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(rows_of_every_type), cmocka_unit_test(bf16_through_f32), cmocka_unit_test(functions)};
	return cmocka_run_group_tests_name("ref_math", tests, NULL, NULL);
}
