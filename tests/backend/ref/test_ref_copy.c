/* SPDX-License-Identifier: Apache-2.0
 * test_ref_copy.c: slots and pages moved whole; the sum over one rank.
 */
#include "kit.h"

static void copies(void **state)
{
	(void)state;
	kit k = kit_open("portable", 2);
	tensor pool = kit_zeros(&k, NUM_F32, 4, 5, 2, 3, 4), from = KIT_INTS(&k, 4, -1, 2), to = KIT_INTS(&k, 0, 3, 2);
	kit_fill(&k, &pool, 1);
	float was[120], *p = pool.data;
	memcpy(was, p, sizeof was);
	OP(k.x, state_copy, .pool = &pool, .from = &from, .to = &to);
	KIT_OK(&k);
	for (int i = 0; i < 24; i++) {
		assert_true(p[i] == was[96 + i] && p[24 + i] == was[24 + i] && p[48 + i] == was[48 + i] && p[96 + i] == was[96 + i]);
		assert_true(p[72 + i] == 0);
	}
	tensor odd = tensor_rows(&pool, 0, 2); /* pages, through a view */
	tensor one = KIT_INTS(&k, 1), zero = KIT_INTS(&k, 0);
	OP(k.x, page_copy, .pool = &odd, .from = &one, .to = &zero);
	KIT_OK(&k);
	for (int i = 0; i < 24; i++) assert_true(p[i] == was[24 + i]);
	tensor bad = KIT_INTS(&k, 5), low = KIT_INTS(&k, -2);
	OP(k.x, page_copy, .pool = &pool, .from = &bad, .to = &zero);
	KIT_FAILED(&k, "copies 5 to 0");
	OP(k.x, state_copy, .pool = &pool, .from = &zero, .to = &bad);
	KIT_FAILED(&k, "to 5");
	OP(k.x, state_copy, .pool = &pool, .from = &low, .to = &zero);
	KIT_FAILED(&k, "copies -2");
	tensor cut = tensor_cols(&pool, 0, 2);
	OP(k.x, state_copy, .pool = &cut, .from = &one, .to = &zero);
	KIT_FAILED(&k, "contiguous");
	memcpy(was, p, sizeof was);
	OP(k.x, all_reduce, .y = &pool);
	KIT_OK(&k);
	assert_memory_equal(was, p, sizeof was);
	kit_close(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(copies)};
	return cmocka_run_group_tests_name("ref_copy", tests, NULL, NULL);
}
