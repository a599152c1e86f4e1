/* SPDX-License-Identifier: Apache-2.0
 * test_base_mem.c: the allocator: zeroing, overflow, alignment, the count of what lives and the injected failure.
 */
#include "test.h"

#include <string.h>

#include "base/base_mem.h"

static bool all_zero(const void *p, size_t n)
{
	const unsigned char *b = p;
	for (size_t i = 0; i < n; i++)
		if (b[i]) return false;
	return true;
}

static void zeroes_and_counts(void **state)
{
	(void)state;
	size_t before = mem_live();
	void *dirty = mem_alloc(20000); /* so that fresh blocks are not zero by luck */
	memset(dirty, 0xAB, 20000);
	mem_free(dirty);
	void *a = mem_alloc(1000), *b = mem_array(10, 30), *c = mem_aligned(64, 100);
	assert_non_null(a);
	assert_non_null(b);
	assert_non_null(c);
	assert_int_equal(mem_live(), before + 3);
	assert_true(all_zero(a, 1000) && all_zero(b, 300) && all_zero(c, 100));
	assert_int_equal((uintptr_t)c % 64, 0);
	mem_free(a);
	mem_free(b);
	mem_free(c);
	mem_free(NULL);
	assert_int_equal(mem_live(), before);
}

static void zero_bytes_are_a_pointer(void **state)
{
	(void)state;
	void *a = mem_alloc(0), *b = mem_array(0, 8), *c = mem_aligned(64, 0), *d = mem_resize(NULL, 0, 4);
	assert_true(a && b && c && d);
	assert_ptr_not_equal(a, b);
	mem_free(a);
	mem_free(b);
	mem_free(c);
	mem_free(d);
	assert_int_equal(mem_live(), 0);
}

static void products_do_not_wrap(void **state)
{
	(void)state;
	size_t out;
	assert_null(mem_array(SIZE_MAX / 2, 3));
	assert_null(mem_array((size_t)1 << 33, (size_t)1 << 31)); /* wraps to 0 */
	assert_null(mem_resize(NULL, (size_t)1 << 33, (size_t)1 << 31));
	assert_null(mem_strndup("", SIZE_MAX));
	assert_false(mem_mul(SIZE_MAX, 2, &out));
	assert_false(mem_add(SIZE_MAX, 1, &out));
	assert_true(mem_mul(SIZE_MAX, 1, &out) && out == SIZE_MAX);
	assert_true(mem_add(SIZE_MAX - 1, 1, &out) && out == SIZE_MAX);
	assert_int_equal(mem_live(), 0);
}

static void resize_keeps_and_fails_softly(void **state)
{
	(void)state;
	char *p = mem_resize(NULL, 4, 1);
	memcpy(p, "abc", 4);
	assert_int_equal(mem_live(), 1);
	p = mem_resize(p, 5000, 1);
	assert_string_equal(p, "abc");
	assert_int_equal(mem_live(), 1);
	mem_fail_after(0);
	assert_null(mem_resize(p, 90000, 1));
	mem_fail_after(SIZE_MAX);
	assert_string_equal(p, "abc");
	assert_int_equal(mem_live(), 1);
	mem_free(p);
	assert_int_equal(mem_live(), 0);
}

static void fails_when_told(void **state)
{
	(void)state;
	mem_fail_after(2);
	void *a = mem_alloc(1), *b = mem_aligned(64, 1), *c = mem_alloc(1), *d = mem_strdup("x");
	assert_true(a && b);
	assert_null(c);
	assert_null(d); /* keeps failing until cleared */
	mem_fail_after(SIZE_MAX);
	c = mem_alloc(1);
	assert_non_null(c);
	mem_free(a);
	mem_free(b);
	mem_free(c);
	assert_int_equal(mem_live(), 0);
}

static void each_kind_fails_by_itself(void **state)
{
	(void)state;
	mem_fault_set(MEM_FAULT_READ, 1, 2);
	assert_int_equal(mem_fault_hits(MEM_FAULT_READ), 0);
	assert_false(mem_fault_now(MEM_FAULT_READ));
	assert_false(mem_fault_now(MEM_FAULT_WRITE));
	assert_true(mem_fault_now(MEM_FAULT_READ));
	assert_int_equal(mem_fault_hits(MEM_FAULT_READ), 1);
	void *a = mem_alloc(1);
	assert_non_null(a); /* another kind */
	mem_free(a);
	assert_true(mem_fault_now(MEM_FAULT_READ));
	assert_false(mem_fault_now(MEM_FAULT_READ)); /* two, and no more */
	assert_int_equal(mem_fault_hits(MEM_FAULT_READ), 2);
	mem_fault_set(MEM_FAULT_READ, SIZE_MAX, 0);
	assert_int_equal(mem_fault_hits(MEM_FAULT_READ), 0);
	assert_false(mem_fault_now(MEM_FAULT_READ));
}

static void copies_strings(void **state)
{
	(void)state;
	char *a = mem_strdup("hello"), *b = mem_strndup("hello", 2), *c = mem_strndup("a\0b", 3);
	assert_string_equal(a, "hello");
	assert_string_equal(b, "he");
	assert_memory_equal(c, "a\0b\0", 4);
	mem_free(a);
	mem_free(b);
	mem_free(c);
	assert_int_equal(mem_live(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(zeroes_and_counts),
	    cmocka_unit_test(zero_bytes_are_a_pointer),
	    cmocka_unit_test(products_do_not_wrap),
	    cmocka_unit_test(resize_keeps_and_fails_softly),
	    cmocka_unit_test(fails_when_told),
	    cmocka_unit_test(each_kind_fails_by_itself),
	    cmocka_unit_test(copies_strings),
	};
	return cmocka_run_group_tests_name("base_mem", tests, NULL, NULL);
}
