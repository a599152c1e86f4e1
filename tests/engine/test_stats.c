/* SPDX-License-Identifier: Apache-2.0
 * test_stats.c: the engine's numbers add up, may be read while it works, and are complete when the last event is seen.
 */
#include "helper_toy.h"

#include <pthread.h>
#include <string.h>

#include "base/base_mem.h"
#include "exec/wrap.h"
#include "test.h"

static toy t;
static engine *g;
static atomic_bool over;

static void *watch(void *user)
{
	(void)user;
	engine_stats s;
	uint64_t last = 0, looks = 0;
	while (!atomic_load(&over)) {
		engine_get_stats(g, &s);
		if (s.steps < last) return NULL;
		last = s.steps;
		looks++;
	}
	return looks ? &over : NULL;
}

static void they_add_up(void **state)
{
	(void)state;
	toy_open(&t, "exact", true);
	exec *profile = wrap_profile_create(t.base);
	t.parts.profile = t.parts.x = profile;
	assert_int_equal(engine_open(&g, &t.parts, &(engine_options){.step_tokens = 8}, NULL), NH_OK);
	pthread_t watcher;
	pthread_create(&watcher, NULL, watch, NULL);
	int32_t *p = toy_prompt(20, 3);
	engine_spec spec = toy_spec(p, 20, 6);
	spec.ignore_end = true;
	engine_stats s;
	for (uint64_t i = 1; i <= 10; i++) {
		toy_run run = {0};
		toy_do(&run, g, &spec);
		engine_get_stats(g, &s);
		assert_int_equal(s.requests, i);
		assert_int_equal(s.steps, 8 * i);
		assert_int_equal(s.prompt_tokens, 20 * i);
		assert_int_equal(s.generated_tokens, 6 * i);
		toy_run_free(&run);
	}
	atomic_store(&over, true);
	void *good;
	pthread_join(watcher, &good);
	assert_non_null(good);
	assert_string_equal(s.ops[OP_sample_rows].op, "sample_rows");
	assert_int_equal(s.ops[OP_sample_rows].calls, 60); /* only rows that draw */
	assert_int_equal(s.ops[OP_sample_rows].rows, 60);
	assert_true(s.ops[OP_sample_rows].ns > 0);
	assert_int_equal(s.ops[OP_logprobs].calls, 0);
	assert_int_equal(s.reference_calls, 0);
	assert_int_equal(s.state_bytes, s.slots_total * (8 + 3 * 8));
	assert_true(s.kv_bytes > 0 && s.scratch_bytes > 0);
	assert_int_equal(s.cancelled + s.failed + s.nan_failures, 0);
	mem_free(p);
	engine_close(g);
	wrap_destroy(profile);
	toy_close(&t);
	assert_int_equal(mem_live(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(they_add_up)};
	return cmocka_run_group_tests_name("stats", tests, NULL, NULL);
}
