/* SPDX-License-Identifier: Apache-2.0
 * test_limits.c: a budget becomes sequences, slots and pages; never more than it, never less than one sequence needs; nonsense is refused.
 */
#include "base/base_mem.h"
#include "engine/engine_impl.h"
#include "helper_toy.h"

#include <string.h>

#include "test.h"

static toy t;

static void budgets(void **state)
{
	(void)state;
	toy_open(&t, "exact", true);
	const uint64_t slot = 32, page = 2 * 64 * 2 * 8;
	int checked = 0;
	for (uint64_t bytes = 8 * page; bytes < 4000 * page; bytes = bytes * 3 / 2, checked++) {
		engine_limits l;
		nh_error e = {0};
		const engine_options o = {.memory_bytes = bytes, .draft = NH_DRAFT_NGRAM};
		if (engine_limits_of(&t.parts, &o, &l, &e) != NH_OK) fail_msg("%s", e.text);
		assert_true((uint64_t)l.slots * slot + (uint64_t)l.pages * page <= bytes);
		assert_true(l.sequences >= 1 && l.slots >= l.sequences + l.snapshots && l.pages >= 1);
		assert_int_equal(l.drafts, 4);
	}
	assert_true(checked > 10);
	engine_limits l;
	assert_int_equal(engine_limits_of(&t.parts, &(engine_options){.max_sequences = 3, .no_prefix_cache = true}, &l, NULL), NH_OK);
	assert_int_equal(l.slots, 3);
	assert_int_equal(l.snapshots, 0);
	assert_true(l.pages >= pages_needed(1024));
	/* More sequences than fit are clamped. */
	assert_int_equal(
	    engine_limits_of(&t.parts, &(engine_options){.max_sequences = 1024, .memory_bytes = 524 * (slot + page)}, &l, NULL), NH_OK);
	assert_int_equal(l.sequences, 524);
	assert_int_equal(engine_limits_of(&t.parts, &(engine_options){.max_sequences = 9, .memory_bytes = slot + page}, &l, NULL), NH_OK);
	assert_int_equal(l.sequences, 1);
	toy_close(&t);
}

static void nonsense(void **state)
{
	(void)state;
	static const struct {
		engine_options o;
		const char *text;
	} CASES[] = {
	    {{.max_sequences = -1}, "max_sequences: is -1"},
	    {{.max_sequences = 1025}, "max_sequences: is 1025"},
	    {{.queue_limit = -3}, "queue_limit: is -3"},
	    {{.draft = 7}, "draft: is 7"},
	    {{.draft = 1, .draft_tokens = 17}, "draft_tokens: is 17, expected 1 to 16"},
	    {{.event_limit = -1}, "event_limit: is -1"},
	    {{.memory_bytes = 100, .max_sequences = 64},
	        "memory: a sequence needs a state of 32 bytes and a page of 2048, the budget is 100 bytes"},
	};
	toy_open(&t, "exact", true);
	for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
		engine_limits l;
		nh_error e = {0};
		assert_int_not_equal(engine_limits_of(&t.parts, &CASES[i].o, &l, &e), NH_OK);
		if (!strstr(e.text, CASES[i].text)) fail_msg("%s", e.text);
	}
	toy_close(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(budgets), cmocka_unit_test(nonsense)};
	return cmocka_run_group_tests_name("limits", tests, NULL, NULL);
}
