/* SPDX-License-Identifier: Apache-2.0
 * test_draft.c: what prompt lookup proposes: what followed the last tokens where they came before, the latest place first, the longest match.
 */
#include "base/base_mem.h"
#include "engine/engine_impl.h"
#include "test.h"

static void proposals(void **state)
{
	(void)state;
	static const struct {
		int32_t ids[12];
		int n, k, count;
		int32_t out[4];
	} CASES[] = {
	    {{1, 2, 3, 4, 1, 2}, 6, 4, 4, {3, 4, 1, 2}},
	    {{1, 2, 3, 4, 1, 2}, 6, 2, 2, {3, 4}},
	    {{1, 2, 9, 1, 2, 7, 1, 2}, 8, 1, 1, {7}},           /* the latest */
	    {{5, 1, 2, 8, 6, 1, 2, 9, 5, 1, 2}, 11, 1, 1, {8}}, /* the longest */
	    {{1, 1, 1, 1, 1}, 5, 4, 1, {1}},                    /* overlaps itself; only what is there */
	    {{1, 2, 3, 4, 5}, 5, 4, 0, {0}},
	    {{1, 2}, 2, 4, 0, {0}},
	    {{1}, 1, 4, 0, {0}},
	};
	for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
		int32_t out[4] = {0};
		int n = draft_propose(CASES[i].ids, CASES[i].n, CASES[i].k, out);
		if (n != CASES[i].count) fail_msg("case %zu: %d tokens", i, n);
		for (int k = 0; k < n; k++) assert_int_equal(out[k], CASES[i].out[k]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(proposals)};
	return cmocka_run_group_tests_name("draft", tests, NULL, NULL);
}
