/* SPDX-License-Identifier: Apache-2.0
 * test_request_spec.c: options that can never run are refused at submit, by name, and nothing leaks; memory that runs out there is told there.
 */
#include "helper_toy.h"

#include <string.h>

#include "base/base_mem.h"
#include "test.h"

static toy t;
static int closed;

static void count_close(void *self) { ++*(int *)self; }

static const int32_t IDS[] = {3, 4, 5, 6};
static const int32_t BAD[] = {3, TOY_VOCAB};
static const int32_t NEGATIVE[] = {-2, 3};

typedef void (*spoil)(engine_spec *s);
static void empty(engine_spec *s) { s->prompt_tokens = 0; }
static void no_prompt(engine_spec *s) { s->prompt = NULL; }
static void bad_id(engine_spec *s) { s->prompt = BAD, s->prompt_tokens = 2; }
static void negative_id(engine_spec *s) { s->prompt = NEGATIVE, s->prompt_tokens = 2; }
static void long_prompt(engine_spec *s) { s->prompt_tokens = 1025; }
static void huge_prompt(engine_spec *s) { s->prompt_tokens = SIZE_MAX; }
static void max_tokens(engine_spec *s) { s->max_tokens = -2; }
static void end_ids(engine_spec *s) { s->end_ids = BAD, s->end_id_count = 2; }
static void forced(engine_spec *s) { s->forced = NEGATIVE, s->forced_tokens = 1; }
static void want(engine_spec *s) { s->want_ids = NEGATIVE, s->want_steps = 2, s->want_per_step = 1; }
static void want_many(engine_spec *s) { s->want_ids = IDS, s->want_steps = 1, s->want_per_step = ENGINE_WANT_MAX + 1; }
static void want_overflow(engine_spec *s) { s->want_ids = IDS, s->want_steps = SIZE_MAX / 2, s->want_per_step = 3; }
static void top(engine_spec *s) { s->top_logprobs = 65; }
static void prompt_top(engine_spec *s) { s->prompt_top_logprobs = -1; }
static void prompt_alone(engine_spec *s) { s->prompt_top_logprobs = 2; }
static void prompt_want(engine_spec *s) { s->prompt_logprobs = true, s->prompt_want_ids = NULL, s->prompt_want_per_position = 1; }
static void temperature(engine_spec *s) { s->temperature = -1; }
static void top_p(engine_spec *s) { s->top_p = 1.5; }
static void min_p(engine_spec *s) { s->min_p = 2; }
static void top_k(engine_spec *s) { s->top_k = -7; }
static void penalty(engine_spec *s) { s->repetition_penalty = 0; }

static void refuses_by_name(void **state)
{
	(void)state;
	static const struct {
		spoil fn;
		const char *text;
	} CASES[] = {
	    {empty, "prompt: is empty"},
	    {no_prompt, "prompt: NULL"},
	    {bad_id, "prompt: id 1 is 50, expected 0 to 49"},
	    {negative_id, "prompt: id 0 is -2"},
	    {long_prompt, "prompt: 1025 tokens, the context holds 1024"},
	    {huge_prompt, "the context holds 1024"},
	    {max_tokens, "max_tokens: is -2"},
	    {end_ids, "end_ids: id 1 is 50"},
	    {forced, "forced: id 0 is -2"},
	    {want, "want_ids: id 0 is -2, expected -1 to 49"},
	    {want_many, "want_ids: 257 ids a position, at most 256"},
	    {want_overflow, "want_ids: too many"},
	    {top, "top_logprobs: is 65"},
	    {prompt_top, "prompt_top_logprobs: is -1"},
	    {prompt_alone, "prompt_logprobs: is false"},
	    {prompt_want, "prompt_want_ids: NULL"},
	    {temperature, "temperature: is -1"},
	    {top_p, "top_p: is 1.5"},
	    {min_p, "min_p: is 2"},
	    {top_k, "top_k: is -7"},
	    {penalty, "repetition_penalty: is 0"},
	};
	toy_open(&t, "exact", true);
	engine *g;
	assert_int_equal(engine_open(&g, &t.parts, &(engine_options){0}, NULL), NH_OK);
	size_t live = mem_live();
	for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
		engine_spec spec = toy_spec(IDS, 4, 1);
		spec.hooks = (engine_hooks){.self = &closed, .close = count_close};
		CASES[i].fn(&spec);
		nh_error e = {0};
		engine_request *r = (engine_request *)&t;
		nh_status s = engine_submit(g, &spec, &r, &e);
		assert_true(s == NH_ERR_ARG || s == NH_ERR_LIMIT);
		assert_null(r);
		if (!strstr(e.text, CASES[i].text)) fail_msg("\"%s\" does not say \"%s\"", e.text, CASES[i].text);
	}
	assert_int_equal(closed, ARRAY_LEN(CASES)); /* hooks are taken in every case */
	assert_int_equal(mem_live(), live);
	toy_run run = {0};
	engine_spec good = toy_spec(IDS, 4, 1);
	toy_do(&run, g, &good);
	toy_run_free(&run);
	engine_close(g);
	toy_close(&t);
}

static void every_allocation_may_fail(void **state)
{
	(void)state;
	toy_open(&t, "exact", true);
	engine *g;
	assert_int_equal(engine_open(&g, &t.parts, &(engine_options){.event_limit = 3}, NULL), NH_OK);
	engine_spec spec = toy_spec(IDS, 4, 2);
	spec.ignore_end = true;
	spec.want_ids = spec.end_ids = spec.forced = IDS;
	spec.want_steps = 2;
	spec.want_per_step = 2;
	spec.end_id_count = 1;
	spec.forced_tokens = 1;
	toy_run run = {0};
	toy_do(&run, g, &spec); /* warms the arm up */
	toy_run_free(&run);
	size_t live = mem_live();
	int failed = 0;
	engine_request *r = NULL;
	for (;; failed++) {
		nh_error e = {0};
		mem_fail_after((size_t)failed);
		nh_status s = engine_submit(g, &spec, &r, &e);
		mem_fail_after(SIZE_MAX);
		if (s == NH_OK) break;
		assert_int_equal(s, NH_ERR_NOMEM);
		assert_int_equal(mem_live(), live);
	}
	assert_true(failed >= 4);
	toy_collect(&run, r);
	assert_int_equal(run.finish, NH_FINISH_LENGTH);
	toy_run_free(&run);
	engine_close(g);
	toy_close(&t);
	assert_int_equal(mem_live(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(refuses_by_name),
	    cmocka_unit_test(every_allocation_may_fail),
	};
	return cmocka_run_group_tests_name("request_spec", tests, NULL, NULL);
}
