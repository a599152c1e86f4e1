/* SPDX-License-Identifier: Apache-2.0
 * test_base_rng.c: SplitMix64's published outputs, independence of the three inputs, and the shape of the uniform draw.
 */
#include "test.h"

#include <math.h>

#include "base/base_rng.h"

/* SplitMix64 adds its increment before it mixes, so output n of seed s is rng_mix(s + n * increment). The values are those of the
 * generator's public-domain C version for seed 1234567. */
static void matches_the_published_stream(void **state)
{
	(void)state;
	static const uint64_t want[] = {
	    6457827717110365317u, 3203168211198807973u, 9817491932198370423u, 4593380528125082431u, 16408922859458223821u};
	for (uint64_t i = 0; i < 5; i++) assert_true(rng_mix(1234567u + i * 0x9E3779B97F4A7C15u) == want[i]);
	assert_true(rng_mix(0) == 0xE220A8397B1DCDAFu);
}

static void is_a_function_of_all_three(void **state)
{
	(void)state;
	uint64_t a = rng_u64(1, 2, 3);
	assert_true(a == rng_u64(1, 2, 3));
	assert_true(a != rng_u64(2, 2, 3) && a != rng_u64(1, 3, 3) && a != rng_u64(1, 2, 4));
	assert_true(rng_u64(1, 2, 0) != rng_u64(1, 0, 2)); /* counter and lane are not interchangeable */
	assert_true(rng_u64(1, 2, 0) != rng_u64(2, 1, 0));
	assert_true(rng_u64(0, 0, 0) != 0);
}

static void draws_are_uniform(void **state)
{
	(void)state;
	enum { N = 100000, BINS = 10 };
	int bins[BINS] = {0};
	double sum = 0, squares = 0;
	for (uint64_t i = 0; i < N; i++) {
		double u = rng_unit(42, i, 0);
		assert_true(u >= 0 && u < 1);
		bins[(int)(u * BINS)]++;
		sum += u;
		squares += u * u;
	}
	/* Six standard deviations of the mean, of the second moment and of a bin's count. */
	assert_true(fabs(sum / N - 0.5) < 6 * sqrt(1.0 / 12 / N));
	assert_true(fabs(squares / N - 1.0 / 3) < 6 * sqrt(4.0 / 45 / N));
	for (int i = 0; i < BINS; i++) assert_true(fabs(bins[i] - N / 10.0) < 6 * sqrt(N * 0.09));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(matches_the_published_stream),
	    cmocka_unit_test(is_a_function_of_all_three),
	    cmocka_unit_test(draws_are_uniform),
	};
	return cmocka_run_group_tests_name("base_rng", tests, NULL, NULL);
}
