/* SPDX-License-Identifier: Apache-2.0
 * test_engine.c: opening and closing: limits, one engine a model, memory that runs out at each place, and what a dry run says of scratch.
 */
#include "engine/engine.h"

#include <pthread.h>
#include <string.h>

#include "base/base_mem.h"
#include "exec/wrap.h"
#include "helper_toy.h"
#include "test.h"

static toy t;

static void limits_are_checked(void **state)
{
	(void)state;
	static const struct {
		int64_t context, step;
		const char *text;
	} CASES[] = {
	    {-1, 0, "max_context: is -1, expected 1 to 1024"},
	    {1025, 0, "max_context: is 1025, expected 1 to 1024"},
	    {(int64_t)1 << 40, 0, "expected 1 to 1024"},
	    {0, -5, "step_tokens: is -5"},
	    {0, (int64_t)1 << 40, "step_tokens"},
	};
	toy_open(&t, "exact", true);
	for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
		engine *g;
		nh_error e = {0};
		assert_int_equal(
		    engine_open(&g, &t.parts, &(engine_options){.max_context = CASES[i].context, .step_tokens = CASES[i].step}, &e), NH_ERR_ARG);
		assert_null(g);
		if (!strstr(e.text, CASES[i].text)) fail_msg("%s", e.text);
		assert_false(atomic_load(&t.parts.in_use));
	}
	t.m.shape.max_positions = (int64_t)1 << 40; /* 64-bit arithmetic, positions of 32 */
	engine *g;
	nh_error e = {0};
	assert_int_equal(engine_open(&g, &t.parts, &(engine_options){0}, &e), NH_OK);
	engine_stats s;
	engine_get_stats(g, &s);
	assert_int_equal(s.kv_bytes, s.pages_total * 2 * s.page_tokens * 2 * 8); /* k and v */
	assert_true(s.pages_total * s.page_tokens >= 32768);                     /* the default bound of the context */
	engine_close(g);
	engine_close(NULL);
	toy_close(&t);
	assert_int_equal(mem_live(), 0);
}

static void one_engine_a_model(void **state)
{
	(void)state;
	toy_open(&t, "exact", true);
	engine *g, *second;
	nh_error e = {0};
	assert_int_equal(engine_open(&g, &t.parts, &(engine_options){0}, &e), NH_OK);
	assert_int_equal(engine_open(&second, &t.parts, &(engine_options){0}, &e), NH_ERR_STATE);
	assert_null(second);
	engine_close(g);
	assert_int_equal(engine_open(&g, &t.parts, &(engine_options){0}, &e), NH_OK);
	engine_close(g);
	toy_close(&t);
	assert_int_equal(mem_live(), 0);
}

static void every_allocation_may_fail(void **state)
{
	(void)state;
	for (int far = 0; far < 2; far++) {
		toy_open(&t, "exact", !far);
		size_t live = mem_live();
		int failed = 0;
		engine *g;
		for (;; failed++) {
			nh_error e = {0};
			mem_fail_after((size_t)failed);
			nh_status s = engine_open(&g, &t.parts, &(engine_options){0}, &e);
			mem_fail_after(SIZE_MAX);
			if (s == NH_OK) break;
			assert_int_equal(s, NH_ERR_NOMEM);
			assert_int_equal(mem_live(), live);
			assert_null(t.base->scratch);
		}
		assert_true(failed > 30);
		const int32_t ids[] = {3, 4, 5};
		engine_spec spec = toy_spec(ids, 3, 4);
		spec.ignore_end = true;
		toy_run run = {0};
		toy_do(&run, g, &spec);
		assert_int_equal(run.tokens, 4);
		toy_run_free(&run);
		engine_close(g);
		toy_close(&t);
		assert_int_equal(mem_live(), 0);
	}
}

static char logged[256];
static void log_fn(void *user, nh_log_level level, const char *text)
{
	(void)user;
	if (level == NH_LOG_NOTICE) snprintf(logged, sizeof logged, "%s", text);
}

static void a_small_step_is_raised_with_a_notice(void **state)
{
	(void)state;
	toy_open(&t, "exact", true);
	const logger l = {.fn = log_fn, .level = NH_LOG_DEBUG};
	t.parts.log = &l;
	engine *g;
	assert_int_equal(engine_open(&g, &t.parts, &(engine_options){.step_tokens = 8}, NULL), NH_OK);
	assert_string_equal(logged, "");
	engine_close(g);
	assert_int_equal(engine_open(&g, &t.parts, &(engine_options){.step_tokens = 5}, NULL), NH_OK);
	assert_non_null(strstr(logged, "step_tokens: 5 is less than the model's chunk, raised to 8"));
	engine_close(g);
	toy_close(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(limits_are_checked),
	    cmocka_unit_test(one_engine_a_model),
	    cmocka_unit_test(every_allocation_may_fail),
	    cmocka_unit_test(a_small_step_is_raised_with_a_notice),
	};
	return cmocka_run_group_tests_name("engine", tests, NULL, NULL);
}
