/* SPDX-License-Identifier: Apache-2.0
 * test_base_thread.c: a thread runs, and does not where it is told to fail.
 */
#include "test.h"

#include "base/base_mem.h"
#include "base/base_thread.h"

static void *mark(void *user) { return *(int *)user = 7, user; }

static void starts_or_says_no(void **state)
{
	(void)state;
	pthread_t t;
	int ran = 0;
	void *back = NULL;
	mem_fault_set(MEM_FAULT_THREAD, 0, 1);
	assert_false(thread_start(&t, mark, &ran));
	assert_int_equal(mem_fault_hits(MEM_FAULT_THREAD), 1);
	assert_true(thread_start(&t, mark, &ran));
	pthread_join(t, &back);
	mem_fault_set(MEM_FAULT_THREAD, SIZE_MAX, 0);
	assert_true(ran == 7 && back == &ran);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(starts_or_says_no)};
	return cmocka_run_group_tests_name("base_thread", tests, NULL, NULL);
}
