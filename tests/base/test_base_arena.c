/* SPDX-License-Identifier: Apache-2.0
 * test_base_arena.c: the growing, the fixed and the measuring arena: alignment, limits, marks, and that a dry run's peak is
 * exactly what the real run needs.
 */
#include "test.h"

#include <string.h>

#include "base/base_arena.h"
#include "base/base_mem.h"

static void grows_aligned_and_zeroed(void **state)
{
	(void)state;
	arena a;
	arena_init(&a);
	int checked = 0;
	for (size_t i = 0; i < 300; i++) {
		size_t n = i * 37 % 5000;
		unsigned char *p = arena_alloc(&a, n);
		assert_non_null(p);
		assert_int_equal((uintptr_t)p % ARENA_ALIGN, 0);
		for (size_t k = 0; k < n; k++, checked++) assert_int_equal(p[k], 0);
		memset(p, 0xAB, n); /* an overlap with the next one would show there */
	}
	assert_true(checked > 100000);
	assert_non_null(arena_alloc(&a, (size_t)1 << 20)); /* larger than a block */
	assert_true(mem_live() > 1);
	arena_reset(&a);
	assert_int_equal(mem_live(), 0);
	assert_non_null(arena_alloc(&a, 1)); /* usable after a reset */
	arena_deinit(&a);
	arena_deinit(&a);
	assert_int_equal(mem_live(), 0);
}

static void refuses_what_overflows(void **state)
{
	(void)state;
	arena a;
	arena_init(&a);
	assert_null(arena_alloc(&a, SIZE_MAX));
	assert_null(arena_alloc(&a, SIZE_MAX - 100));
	assert_null(arena_array(&a, SIZE_MAX / 2, 3));
	assert_null(arena_array(&a, (size_t)1 << 33, (size_t)1 << 31)); /* wraps to 0 */
	assert_null(arena_strndup(&a, "", SIZE_MAX));
	arena_deinit(&a);
	arena_init_fixed(&a, 256);
	assert_null(arena_alloc(&a, SIZE_MAX));
	assert_null(arena_alloc(&a, SIZE_MAX - 63));
	assert_int_equal(a.used, 0);
	arena_deinit(&a);
	assert_int_equal(mem_live(), 0);
}

static void fixed_is_full_at_its_size(void **state)
{
	(void)state;
	arena a;
	assert_true(arena_init_fixed(&a, 256));
	assert_non_null(arena_alloc(&a, 1)); /* 64 of 256 */
	size_t mark = arena_mark(&a);
	void *first = arena_alloc(&a, 65); /* 128 more */
	assert_non_null(first);
	assert_null(arena_alloc(&a, 65));
	assert_non_null(arena_alloc(&a, 64));
	assert_null(arena_alloc(&a, 1));
	assert_int_equal(a.peak, 256);
	arena_rewind(&a, mark);
	assert_ptr_equal(arena_alloc(&a, 65), first);
	assert_int_equal(a.peak, 256);
	assert_int_equal(mem_live(), 1); /* and never allocated */
	arena_reset(&a);
	assert_int_equal(a.used, 0);
	arena_deinit(&a);
	assert_int_equal(mem_live(), 0);
}

/* The same sequence of requests on both arms of a dry run. */
static size_t play(arena *a)
{
	size_t served = 0;
	for (size_t layer = 0; layer < 5; layer++) {
		size_t mark = arena_mark(a);
		for (size_t i = 0; i < 10; i++) served += arena_alloc(a, (layer * 131 + i * 77) % 900) != NULL;
		served += arena_strndup(a, "name", 4) != NULL;
		arena_rewind(a, mark);
	}
	return served;
}

static void measured_peak_is_enough_and_tight(void **state)
{
	(void)state;
	arena dry, real, small;
	arena_init_measure(&dry);
	assert_int_equal(play(&dry), 55);
	assert_int_equal(mem_live(), 0);
	assert_true(dry.peak > 0);
	assert_true(arena_init_fixed(&real, dry.peak));
	assert_int_equal(play(&real), 55);
	assert_int_equal(real.peak, dry.peak);
	assert_true(arena_init_fixed(&small, dry.peak - ARENA_ALIGN));
	assert_true(play(&small) < 55);
	arena_deinit(&dry);
	arena_deinit(&real);
	arena_deinit(&small);
	assert_int_equal(mem_live(), 0);
}

static void measures_terabytes(void **state)
{
	(void)state;
	arena a;
	arena_init_measure(&a);
	assert_non_null(arena_alloc(&a, (size_t)1 << 40));
	assert_non_null(arena_alloc(&a, (size_t)3 << 40));
	assert_int_equal(a.peak, (size_t)4 << 40);
	assert_null(arena_alloc(&a, SIZE_MAX / 2));
	arena_deinit(&a);
}

static void survives_failing_allocations(void **state)
{
	(void)state;
	arena a;
	mem_fail_after(0);
	assert_false(arena_init_fixed(&a, 100));
	arena_deinit(&a);
	arena_init(&a);
	assert_null(arena_alloc(&a, 10));
	mem_fail_after(SIZE_MAX);
	char *s = arena_strndup(&a, "hello", 3);
	assert_string_equal(s, "hel");
	arena_deinit(&a);
	assert_int_equal(mem_live(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(grows_aligned_and_zeroed),
	    cmocka_unit_test(refuses_what_overflows),
	    cmocka_unit_test(fixed_is_full_at_its_size),
	    cmocka_unit_test(measured_peak_is_enough_and_tight),
	    cmocka_unit_test(measures_terabytes),
	    cmocka_unit_test(survives_failing_allocations),
	};
	return cmocka_run_group_tests_name("base_arena", tests, NULL, NULL);
}
