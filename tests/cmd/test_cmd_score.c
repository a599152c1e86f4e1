/* SPDX-License-Identifier: Apache-2.0
 * test_cmd_score.c: the windows over a text, by counting every position for all small sizes. What a window tells is test_perplexity.c's business.
 */
#include "test.h"

#include <string.h>

#include "cmd/cmd_score.h"

#define MOST 40

static void each_position_counts_once(void **state)
{
	(void)state;
	size_t cases = 0;
	for (int64_t n = 2; n <= MOST; n++)
		for (int64_t context = 2; context <= n + 2; context++)
			for (int64_t stride = 1; stride <= context; stride++, cases++) {
				int seen[MOST] = {0};
				bool first_of_window[MOST] = {false};
				int64_t windows = score_windows(n, context, stride);
				assert_true(windows >= 1);
				for (int64_t i = 0; i < windows; i++) {
					score_window w = score_window_at(i, n, context, stride);
					assert_int_equal(w.first, i * stride);
					assert_true(w.count >= 2 && w.count <= context && w.until == w.first + w.count && w.until <= n);
					assert_true(w.scored > w.first && w.scored < w.until);
					first_of_window[w.first] = true;
					for (int64_t p = w.scored; p < w.until; p++) {
						seen[p]++;
						/* Where windows overlap, a token has at least context - stride before it. */
						if (i > 0 && stride < context) assert_true(p - w.first >= context - stride);
					}
				}
				int64_t told = 0;
				for (int64_t p = 0; p < n; p++) {
					bool alone = stride == context && p == n - 1 && p % context == 0; /* a window of one token */
					bool left_out = p == 0 || (stride == context && first_of_window[p]) || alone;
					assert_int_equal(seen[p], left_out ? 0 : 1);
					told += seen[p];
				}
				assert_true(stride == context || told == n - 1);
			}
	print_message("%zu cases\n", cases);
	assert_true(cases > 10000);
}

static void too_short_a_text_has_no_window(void **state)
{
	(void)state;
	assert_int_equal(score_windows(0, 8, 8), 0);
	assert_int_equal(score_windows(1, 8, 8), 0);
	assert_int_equal(score_windows(9, 8, 8), 1); /* the ninth is alone */
	assert_int_equal(score_windows(9, 8, 7), 2);
	assert_int_equal(score_windows((int64_t)1 << 40, 1 << 20, 1 << 20), 1 << 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(each_position_counts_once), cmocka_unit_test(too_short_a_text_has_no_window)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
