/* SPDX-License-Identifier: Apache-2.0
 * test_measure.c: the dry run's scratch is enough for the largest step, not much more than it, and independent of what does not matter.
 */
#include "helper_toy.h"

#include <string.h>

#include "base/base_mem.h"
#include "engine/engine_impl.h"
#include "test.h"

static toy t;

static size_t measure(int64_t step_tokens, int64_t context)
{
	size_t bytes = 0;
	nh_error e = {0};
	nh_status s =
	    engine_measure(&t.parts, &(engine_options){.step_tokens = step_tokens, .max_context = context, .max_sequences = 1}, &bytes, &e);
	if (s != NH_OK) fail_msg("%s", e.text);
	return bytes;
}

static void follows_the_rows(void **state)
{
	(void)state;
	toy_open(&t, "exact", true);
	size_t small = measure(8, 0), large = measure(512, 0);
	assert_true(large > 50 * small / 2 && large < 64 * small);
	assert_int_equal(measure(512, 600), large);
	assert_int_equal(measure(512, 8), small); /* a context bounds a step */
	assert_int_equal(measure(0, 0), large);
	assert_int_equal(mem_live(), 1); /* the arm's exec */
	toy_close(&t);
}

/* A request that asks for everything at once fits into what was measured, and that is not much more. */
static void is_enough(void **state)
{
	(void)state;
	toy_open(&t, "exact", true);
	engine *g;
	assert_int_equal(engine_open(&g, &t.parts, &(engine_options){.step_tokens = 64, .max_sequences = 1}, NULL), NH_OK);
	int32_t *p = toy_prompt(64, 5), *want = mem_array(64 * ENGINE_WANT_MAX, sizeof *want);
	engine_spec spec = toy_spec(p, 64, 3);
	spec.ignore_end = true;
	spec.prompt_logprobs = true;
	spec.prompt_want_ids = spec.want_ids = want;
	spec.prompt_want_per_position = spec.want_per_step = ENGINE_WANT_MAX;
	spec.want_steps = 1;
	spec.top_logprobs = spec.prompt_top_logprobs = ENGINE_TOP_MAX;
	spec.repetition_penalty = 2;
	spec.forced = p;
	toy_run run = {0};
	toy_do(&run, g, &spec);
	assert_int_equal(run.finish, NH_FINISH_LENGTH);
	assert_true(g->scratch.peak <= g->scratch.cap);
	assert_true(g->scratch.peak * 4 > g->scratch.cap * 3);
	engine_stats s;
	engine_get_stats(g, &s);
	assert_int_equal(s.scratch_bytes, g->scratch.cap);
	toy_run_free(&run);
	mem_free(p);
	mem_free(want);
	engine_close(g);
	toy_close(&t);
	assert_int_equal(mem_live(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(follows_the_rows),
	    cmocka_unit_test(is_enough),
	};
	return cmocka_run_group_tests_name("measure", tests, NULL, NULL);
}
