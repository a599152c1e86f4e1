/* SPDX-License-Identifier: Apache-2.0
 * test_ref_work.c: working memory that grows once and then stays; failing allocations.
 */
#include "kit.h"

#include "backend/ref/ref.h"
#include "base/base_mem.h"

/* The second call of a shape allocates nothing; a failing allocation fails the exec, names the op, and leaves it usable. */
static void memory_settles(void **state)
{
	(void)state;
	kit k = kit_open("portable", 1);
	weight w = kit_weight(&k, NUM_SCHEME_FP8, 40, 64);
	tensor x = kit_random(&k, NUM_BF16, 6, 64, 1), y = kit_2d(&k, NUM_BF16, 6, 40);
	mem_fail_after(0);
	OP(k.x, linear, .y = &y, .x = &x, .w = &w);
	mem_fail_after(SIZE_MAX);
	KIT_FAILED(&k, "linear");
	for (int i = 0; i < 2; i++) OP(k.x, linear, .y = &y, .x = &x, .w = &w); /* the second joins the blocks of the first */
	const size_t bytes = ref_work_bytes(k.x->self);
	mem_fail_after(0);
	for (int i = 0; i < 5; i++) OP(k.x, linear, .y = &y, .x = &x, .w = &w);
	mem_fail_after(SIZE_MAX);
	KIT_OK(&k);
	assert_true(bytes > 0 && bytes == ref_work_bytes(k.x->self));
	kit_close(&k);
	assert_int_equal(mem_live(), 0);
}

static void takes_and_gives_back(void **state)
{
	(void)state;
	kit k = kit_open("exact", 1);
	ref_begin(k.x);
	char *a = ref_take(k.x, OP_linear, 3, 5), *b = ref_take(k.x, OP_linear, 1000, 8);
	assert_true(a && b && (uintptr_t)a % 64 == 0 && (uintptr_t)b % 64 == 0);
	memset(a, 1, 15), memset(b, 2, 8000);
	ref_begin(k.x); /* joined: now one block holds both */
	a = ref_take(k.x, OP_linear, 3, 5);
	const ref_mark mark = ref_work_mark(k.x);
	b = ref_take(k.x, OP_linear, 1000, 8);
	assert_true(b - a == 64);
	ref_work_rewind(k.x, mark);
	assert_ptr_equal(ref_take(k.x, OP_linear, 10, 8), b);
	ref_take(k.x, OP_linear, 100000, 8); /* outgrows the block: the mark is of another one, and nothing is given back under a holder */
	ref_work_rewind(k.x, mark);
	assert_ptr_not_equal(ref_take(k.x, OP_linear, 1, 1), b);
	KIT_OK(&k);
	assert_null(ref_take(k.x, OP_linear, -1, 8));
	KIT_FAILED(&k, "out of memory");
	assert_null(ref_take(k.x, OP_linear, INT64_MAX, 16));
	KIT_FAILED(&k, "out of memory");
	assert_non_null(ref_take(k.x, OP_linear, 0, 8));
	kit_close(&k);
	assert_int_equal(mem_live(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(memory_settles), cmocka_unit_test(takes_and_gives_back)};
	return cmocka_run_group_tests_name("ref_work", tests, NULL, NULL);
}
