/* SPDX-License-Identifier: Apache-2.0
 * test_num_conv.c: every code of every narrow type, and every rounding border, against a definition written another way: the
 * nearest of all representable values, found by looking at them all.
 */
#include "test.h"

#include <math.h>
#include <string.h>

#include "num/num_conv.h"
#include "num/num_numerics.h"

/* Value of a code from the textbook formula, independent of the tables under test. */
static double textbook(unsigned code, int ebits, int mbits, int bias)
{
	unsigned e = code >> mbits & ((1u << ebits) - 1), m = code & ((1u << mbits) - 1);
	double v = e ? (1.0 + m / (double)(1u << mbits)) * pow(2.0, (int)e - bias) : m / (double)(1u << mbits) * pow(2.0, 1 - bias);
	return code >> (ebits + mbits) ? -v : v;
}

typedef struct {
	num_dtype type;
	int ebits, mbits, bias;
	unsigned top; /* magnitude code of the largest finite value */
	bool saturates;
} kind;

static const kind KINDS[] = {
    {NUM_BF16, 8, 7, 127, 0x7F7F, false},
    {NUM_F16, 5, 10, 15, 0x7BFF, false},
    {NUM_E5M2, 5, 2, 15, 0x7B, false},
    {NUM_E4M3, 4, 3, 7, 0x7E, true},
    {NUM_E2M1X2, 2, 1, 1, 7, true},
};

static unsigned code_of(const kind *k, double x)
{
	uint16_t u = 0;
	num_store(k->type, &u, 0, x);
	return k->type == NUM_E2M1X2 ? u & 15u : u;
}

static double value_of(const kind *k, unsigned code)
{
	uint16_t u = (uint16_t)code;
	return num_load(k->type, &u, 0);
}

static void every_code_is_exact(void **state)
{
	(void)state;
	long seen = 0;
	for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++) {
		const kind *k = &KINDS[i];
		int sign = k->ebits + k->mbits;
		for (unsigned code = 0; code < 1u << (sign + 1); code++) {
			if ((code & ((1u << sign) - 1)) > k->top) continue;
			double v = textbook(code, k->ebits, k->mbits, k->bias);
			assert_true(value_of(k, code) == v && signbit(value_of(k, code)) == signbit(v));
			assert_int_equal(code_of(k, v), code);
			seen++;
		}
	}
	assert_int_equal(seen, 2 * (0x7F80 + 0x7C00 + 0x7C + 0x7F + 8));
}

/* Between each pair of neighbours: just below the middle, the middle (ties to the even code), just above. */
static void every_border_rounds_to_even(void **state)
{
	(void)state;
	long seen = 0;
	for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++) {
		const kind *k = &KINDS[i];
		for (unsigned code = 0; code < k->top; code++) {
			double lo = textbook(code, k->ebits, k->mbits, k->bias), hi = textbook(code + 1, k->ebits, k->mbits, k->bias),
			       mid = lo + (hi - lo) / 2;
			unsigned even = code % 2 ? code + 1 : code, s = 1u << (k->ebits + k->mbits);
			assert_int_equal(code_of(k, nextafter(mid, lo)), code);
			assert_int_equal(code_of(k, mid), even);
			assert_int_equal(code_of(k, nextafter(mid, hi)), code + 1);
			assert_int_equal(code_of(k, -mid), even | s);
			seen++;
		}
	}
	assert_true(seen > 60000);
}

static void overflow_follows_the_rule(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++) {
		const kind *k = &KINDS[i];
		double top = textbook(k->top, k->ebits, k->mbits, k->bias), ulp = top - textbook(k->top - 1, k->ebits, k->mbits, k->bias);
		unsigned past = k->saturates ? k->top : k->top + 1;
		assert_int_equal(code_of(k, nextafter(top + ulp / 2, 0)), k->top);
		assert_int_equal(code_of(k, top + ulp / 2), past);
		assert_int_equal(code_of(k, top * 16), past);
		assert_int_equal(code_of(k, (double)INFINITY), past);
		assert_int_equal(code_of(k, -(double)INFINITY), past | 1u << (k->ebits + k->mbits));
		if (k->type != NUM_E2M1X2) assert_true(isnan(value_of(k, code_of(k, (double)NAN))));
		else assert_int_equal(code_of(k, (double)NAN), 7);
		if (!k->saturates) assert_true(isinf(value_of(k, past)));
	}
	assert_true(isnan(num_e4m3_value[0x7F]) && isnan(num_e4m3_value[0xFF]));
	assert_true(num_e4m3_value[0x7E] == 448.0f && num_e4m3_value[0x01] == 0x1p-9f);
}

static void f32_to_bf16_equals_the_double_route(void **state)
{
	(void)state;
	uint32_t u = 1, differ = 0;
	for (long i = 0; i < 4000000; i++) {
		u = u * 1664525u + 1013904223u;
		float x = num_f32_bits(u);
		uint16_t a = num_f32_to_bf16(x), b = num_f64_to_bf16((double)x);
		if (isnan(x) ? !isnan(num_bf16_to_f32(a)) : a != b) differ++;
	}
	assert_int_equal(differ, 0);
}

/* One rounding, not two: this double lies just above a bf16 tie, and through f32 it would land on the tie and go down. */
static void a_double_is_rounded_once(void **state)
{
	(void)state;
	double x = 1.0 + 0x1p-8 + 0x1p-40;
	assert_int_equal(num_f64_to_bf16(x), 0x3F81);
	assert_int_equal(num_f64_to_bf16((double)(float)x), 0x3F80);
}

static void nibbles_keep_their_neighbour(void **state)
{
	(void)state;
	uint8_t b[2] = {0, 0};
	const double in[4] = {1.5, -6, 0.5, 3};
	num_store_row(NUM_E2M1X2, b, 0, 4, in);
	assert_int_equal(b[0], 0xF3);
	assert_int_equal(b[1], 0x51);
	num_store(NUM_E2M1X2, b, 1, 2.0);
	assert_int_equal(b[0], 0x43);
	double out[3];
	num_load_row(NUM_E2M1X2, b, 1, 3, out);
	assert_true(out[0] == 2.0 && out[1] == 0.5 && out[2] == 3.0);
}

static void ulp_distance_crosses_zero(void **state)
{
	(void)state;
	float a = num_f32_bits(2), b = -num_f32_bits(3), n = NAN;
	assert_int_equal(num_ulp_distance(NUM_F32, &a, &b), 5);
	assert_int_equal(num_ulp_distance(NUM_F32, &n, &n), 0);
	assert_true(num_ulp_distance(NUM_F32, &a, &n) == UINT64_MAX);
	float p = 0.0f, m = -0.0f;
	assert_int_equal(num_ulp_distance(NUM_F32, &p, &m), 0);
}

static void profiles_have_names(void **state)
{
	(void)state;
	int n = 0;
	for (; num_profile_at(n); n++) assert_ptr_equal(num_profile(num_profile_at(n)->name), num_profile_at(n));
	assert_int_equal(n, 5);
	assert_null(num_profile("fast"));
	assert_int_equal(num_bytes(NUM_BF16), 2);
	assert_string_equal(num_dtype_name(NUM_E4M3), "e4m3");
	assert_string_equal(num_scheme_name(NUM_SCHEME_W4A16), "nvfp4-w4a16");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_code_is_exact),
	    cmocka_unit_test(every_border_rounds_to_even),
	    cmocka_unit_test(overflow_follows_the_rule),
	    cmocka_unit_test(f32_to_bf16_equals_the_double_route),
	    cmocka_unit_test(a_double_is_rounded_once),
	    cmocka_unit_test(nibbles_keep_their_neighbour),
	    cmocka_unit_test(ulp_distance_crosses_zero),
	    cmocka_unit_test(profiles_have_names),
	};
	return cmocka_run_group_tests_name("num_conv", tests, NULL, NULL);
}
