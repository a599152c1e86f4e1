/* SPDX-License-Identifier: Apache-2.0
 * test_prefix_ghost.c: the memory of prompts is bounded.
 */
#include "test.h"

#include "base/base_mem.h"
#include "base/base_rng.h"
#include "cache/prefix_impl.h"

/* The memory of prompts is bounded, and forgets the oldest first. */
static void ghosts_fade(void **state)
{
	(void)state;
	prefix_ghost g;
	assert_true(prefix_ghost_init(&g));
	int fresh = 0, old = 0;
	for (uint64_t i = 0; i < 300000; i++) prefix_ghost_see(&g, rng_mix(i));
	for (uint64_t i = 0; i < 1000; i++) {
		fresh += prefix_ghost_seen(&g, rng_mix(299999 - i));
		old += prefix_ghost_seen(&g, rng_mix(i));
		assert_false(prefix_ghost_seen(&g, rng_mix(i + 1000000)));
	}
	assert_int_equal(fresh, 1000);
	assert_in_range(old, 0, 10);
	/* Seen again is seen, in one place: the seven others of its run stay. */
	for (uint64_t i = 1; i < 8; i++) prefix_ghost_see(&g, 5 + i * 65536);
	for (int i = 0; i < 20; i++) prefix_ghost_see(&g, 5);
	for (uint64_t i = 0; i < 8; i++) assert_true(prefix_ghost_seen(&g, 5 + i * 65536));
	/* The one that was seen longest ago gives way. */
	prefix_ghost_see(&g, 5 + 8 * 65536);
	for (uint64_t i = 0; i < 9; i++) assert_int_equal(prefix_ghost_seen(&g, 5 + i * 65536), i != 1);
	prefix_ghost_deinit(&g);
	assert_int_equal(mem_live(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(ghosts_fade),
	};
	return cmocka_run_group_tests_name("prefix_ghost", tests, NULL, NULL);
}
