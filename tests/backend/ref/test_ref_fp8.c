/* SPDX-License-Identifier: Apache-2.0
 * test_ref_fp8.c: Hopper's FP8 sums against the rule spelled out with ldexp and trunc, over random codes of all kinds.
 */
#include "kit.h"

#include "backend/ref/ref_fp8.h"

static int exponent(double v)
{
	int e;
	frexp(v, &e);
	return e - 1;
}

static double slow(const uint8_t *a, const uint8_t *b, int n)
{
	double acc = 0;
	for (int from = 0; from < n; from += 32) {
		int top = acc != 0 ? exponent(acc) : -1000;
		for (int i = from; i < from + 32; i++) {
			int ea = (a[i] & 0x78) >> 3, eb = (b[i] & 0x78) >> 3;
			if ((a[i] & 0x7F) && (b[i] & 0x7F)) {
				int e = (ea ? ea : 1) - 7 + (eb ? eb : 1) - 7;
				top = e > top ? e : top;
			}
		}
		if (top == -1000) continue;
		double sum = trunc(ldexp(acc, 13 - top));
		for (int i = from; i < from + 32; i++) sum += trunc(ldexp((double)num_e4m3_value[a[i]] * (double)num_e4m3_value[b[i]], 13 - top));
		acc = ldexp(sum, top - 13);
		if (acc != 0) acc = ldexp(trunc(ldexp(acc, 13 - exponent(acc))), exponent(acc) - 13);
	}
	return acc;
}

static void follows_the_rule(void **state)
{
	(void)state;
	kit k = kit_open("hopper", 5);
	uint8_t a[256], b[256], ea[256], eb[256];
	float fa[256], fb[256];
	int cut = 0, checked = 0;
	for (int round = 0; round < 6000; round++) {
		const int n = 32 * (1 + round % 8), kind = round / 8 % 4;
		for (int i = 0; i < n; i++) {
			uint8_t mask = kind == 1 ? 0x8F : kind == 2 ? 0xBF : 0xFF; /* subnormals and the next; small; all */
			do a[i] = (uint8_t)kit_below(&k, 256) & mask;
			while ((a[i] & 0x7F) == 0x7F);
			do b[i] = (uint8_t)kit_below(&k, 256) & mask;
			while ((b[i] & 0x7F) == 0x7F);
			if (kind == 3 && kit_below(&k, 4)) a[i] = 0;
		}
		if (kind == 3) memset(a, 0, 32);
		assert_false(ref_fp8_split(a, n, fa, ea));
		assert_false(ref_fp8_split(b, n, fb, eb));
		double got = ref_fp8_dot(fa, ea, fb, eb, n), want = slow(a, b, n), exact = 0;
		for (int i = 0; i < n; i++) exact += (double)fa[i] * (double)fb[i];
		if (got != want) fail_msg("round %d: %.17g, want %.17g", round, got, want);
		cut += got != exact;
		checked++;
	}
	print_message("%d sums, %d of them not the exact sum\n", checked, cut);
	assert_true(cut > checked / 2);
	kit_close(&k);
}

/* Cancellation, an accumulator far above or below the next step, and sums of zero. */
static void corner_sums(void **state)
{
	(void)state;
	uint8_t a[96] = {0}, b[96] = {0}, ea[96], eb[96];
	float fa[96], fb[96];
	memset(b, 0x38, sizeof b);               /* 1 */
	a[0] = 0x7E, a[32] = 0xFE, a[64] = 0x01; /* 448 - 448 + 2^-9 */
	ref_fp8_split(a, 96, fa, ea);
	ref_fp8_split(b, 96, fb, eb);
	assert_true(ref_fp8_dot(fa, ea, fb, eb, 96) == 0x1p-9);
	assert_true(ref_fp8_dot(fa, ea, fb, eb, 64) == 0.0);
	a[32] = 0x01; /* 448 swallows 2^-9: 14 fraction bits below its exponent 8 is 2^-5 */
	ref_fp8_split(a, 96, fa, ea);
	assert_true(ref_fp8_dot(fa, ea, fb, eb, 96) == 448.0);
	a[0] = 0;
	ref_fp8_split(a, 96, fa, ea);
	assert_true(ref_fp8_dot(fa, ea, fb, eb, 96) == 0x1p-8);
	assert_true(ref_fp8_dot(fa, ea, fb, eb, 0) == 0.0);
}

static void splits_codes(void **state)
{
	(void)state;
	for (int c = 0; c < 256; c++) {
		float f, g;
		uint8_t e, h, code = (uint8_t)c;
		const bool nan = ref_fp8_split1(code, &f, &e);
		assert_int_equal(nan, isnan(num_e4m3_value[c]) != 0);
		assert_int_equal(ref_fp8_split(&code, 1, &g, &h), nan);
		assert_true(f == g && e == h);
		if (nan || f == 0) assert_int_equal(e, 0);
		else assert_int_equal(e, (exponent((double)f) < -6 ? -6 : exponent((double)f)) + 22);
		assert_true(nan ? f == 0 : f == num_e4m3_value[c]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(follows_the_rule), cmocka_unit_test(corner_sums), cmocka_unit_test(splits_codes)};
	return cmocka_run_group_tests_name("ref_fp8", tests, NULL, NULL);
}
