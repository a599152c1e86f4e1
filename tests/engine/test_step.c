/* SPDX-License-Identifier: Apache-2.0
 * test_step.c: what a step computes, in which form and in which pieces, and when a request ends, on a toy model whose every logit depends on
 * all tokens before and on their forms.
 */
#include "helper_toy.h"

#include <math.h>
#include <string.h>

#include "base/base_mem.h"
#include "test.h"

static toy t;

static engine *open_engine(int64_t step_tokens, int64_t context)
{
	engine *g;
	nh_error e = {0};
	nh_status s = engine_open(&g, &t.parts, &(engine_options){.step_tokens = step_tokens, .max_context = context}, &e);
	if (s != NH_OK) fail_msg("%s", e.text);
	return g;
}

static void pieces_end_at_edges(void **state)
{
	(void)state;
	static const struct {
		int64_t step_tokens;
		size_t prompt;
		int rows[8];
	} CASES[] = {
	    {8, 20, {8, 8, 4}},
	    {16, 20, {16, 4}},
	    {20, 40, {16, 16, 8}}, /* rounded down to edges */
	    {3, 20, {8, 8, 4}},    /* raised to one chunk */
	    {64, 20, {20}},
	    {24, 24, {24}},
	    {8, 1, {1}},
	    {8, 9, {8, 1}},
	};
	int checked = 0;
	for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
		toy_open(&t, "exact", true);
		engine *g = open_engine(CASES[i].step_tokens, 0);
		int32_t *p = toy_prompt(CASES[i].prompt, 1);
		engine_spec spec = toy_spec(p, CASES[i].prompt, 3);
		spec.ignore_end = true;
		toy_run run = {0};
		toy_do(&run, g, &spec);
		int k = 0;
		int64_t pos = 0;
		for (; CASES[i].rows[k]; k++, checked++) {
			assert_int_equal(t.steps[k].T, CASES[i].rows[k]);
			assert_int_equal(t.steps[k].S, 1);
			assert_int_equal(t.steps[k].pos, pos);
			assert_int_equal(t.steps[k].origin, 0);
			assert_int_equal(t.steps[k].R, pos + t.steps[k].T == (int64_t)CASES[i].prompt); /* only the last row's logits are wanted */
			pos += t.steps[k].T;
		}
		/* Three tokens take two decode steps: the last one is pending. */
		assert_int_equal(atomic_load(&t.count), k + 2);
		assert_int_equal(t.steps[k].D, 1);
		assert_int_equal(t.steps[k + 1].pos, CASES[i].prompt + 1);
		assert_int_equal(run.tokens, 3);
		assert_int_equal(run.finish, NH_FINISH_LENGTH);
		assert_int_equal(run.stats.prompt_tokens, CASES[i].prompt);
		assert_int_equal(run.stats.computed_tokens, CASES[i].prompt);
		assert_int_equal(run.stats.generated_tokens, 3);
		toy_run_free(&run);
		mem_free(p);
		engine_close(g);
		toy_close(&t);
	}
	assert_int_equal(checked, 16);
	assert_int_equal(mem_live(), 0);
}

/* The law of any split, on prompts with log-probabilities, over pages. */
static void any_split_is_no_split(void **state)
{
	(void)state;
	static const int64_t STEPS[] = {512, 8, 16, 24, 100};
	int32_t *p = toy_prompt(203, 7);
	toy_run first = {0};
	int compared = 0;
	for (size_t i = 0; i < ARRAY_LEN(STEPS); i++) {
		toy_open(&t, "exact", true);
		engine *g = open_engine(STEPS[i], 0);
		engine_spec spec = toy_spec(p, 203, 40);
		spec.ignore_end = true;
		spec.top_logprobs = 3;
		spec.prompt_logprobs = true;
		spec.prompt_top_logprobs = 4;
		spec.prompt_want_ids = p;
		spec.prompt_want_per_position = 1;
		toy_run run = {0};
		toy_do(&run, g, &spec);
		assert_int_equal(run.count, 203 + 40 + 1);
		if (i == 0) first = run;
		else {
			toy_same_events(&first, &run);
			compared++;
			toy_run_free(&run);
		}
		engine_close(g);
		toy_close(&t);
	}
	assert_int_equal(compared, 4);
	for (int i = 0; i < 203; i++) {
		const engine_event *e = &first.event[i];
		assert_int_equal(e->type, NH_EVENT_PROMPT);
		assert_int_equal(e->position, i);
		assert_int_equal(e->token, p[i]);
		assert_int_equal(e->best_id == -1, i == 0);
		assert_int_equal(e->want_count, i == 0 ? 0 : 1);
		if (i == 0) continue;
		assert_int_equal(e->want[0].id, p[i]);
		assert_true(e->want[0].logprob == e->logprob); /* the same id by both ways */
		assert_int_equal(e->top_count, 4);
		assert_int_equal(e->top[0].id, e->best_id);
		assert_true(e->margin >= 0);
	}
	toy_run_free(&first);
	mem_free(p);
	assert_int_equal(mem_live(), 0);
}

static void scoring_computes_the_prompt_alone(void **state)
{
	(void)state;
	toy_open(&t, "exact", true);
	engine *g = open_engine(8, 0);
	int32_t *p = toy_prompt(20, 3);
	engine_spec spec = toy_spec(p, 20, 0);
	toy_run run = {0};
	toy_do(&run, g, &spec);
	assert_int_equal(run.count, 1);
	assert_int_equal(run.finish, NH_FINISH_LENGTH);
	assert_int_equal(atomic_load(&t.count), 3);
	for (int i = 0; i < 3; i++) assert_int_equal(t.steps[i].R, 0);
	toy_run_free(&run);
	spec.prompt_logprobs = true;
	toy_do(&run, g, &spec);
	assert_int_equal(run.count, 21);
	assert_int_equal(run.tokens, 0);
	for (int i = 3; i < 6; i++) assert_int_equal(t.steps[i].R, t.steps[i].T); /* never more rows than a step has */
	toy_run_free(&run);
	mem_free(p);
	engine_close(g);
	toy_close(&t);
}

/* Forcing the tokens that greedy decoding chooses changes nothing; forcing them is not the same as giving them. */
static void forced_tokens_are_in_decode_form(void **state)
{
	(void)state;
	toy_open(&t, "exact", true);
	engine *g = open_engine(8, 0);
	int32_t *p = toy_prompt(20 + 12, 5);
	engine_spec spec = toy_spec(p, 20, 12);
	spec.ignore_end = true;
	spec.top_logprobs = 5;
	toy_run free_run, forced, given;
	toy_do(&free_run, g, &spec);
	spec.forced = free_run.token;
	spec.forced_tokens = 6; /* then it goes on by itself */
	int before = atomic_load(&t.count);
	toy_do(&forced, g, &spec);
	toy_same_events(&free_run, &forced);
	for (int i = 0; i < 12; i++) assert_int_equal(forced.event[i].forced, i < 6);
	int decode = 0;
	for (int i = before; i < atomic_load(&t.count); i++) decode += t.steps[i].D;
	assert_int_equal(decode, 11);
	/* The same tokens as a prompt: another form, other logits. */
	memcpy(p + 20, free_run.token, 12 * sizeof *p);
	engine_spec whole = toy_spec(p, 32, 0);
	whole.prompt_logprobs = true;
	toy_do(&given, g, &whole);
	assert_true(given.event[21].logprob != free_run.event[1].logprob);
	toy_run_free(&given);
	toy_run_free(&forced);
	/* A forced token that nobody would choose: best_id tells who would. */
	int32_t odd[1] = {(free_run.token[0] + 1) % TOY_VOCAB};
	spec.forced = odd;
	spec.forced_tokens = 1;
	toy_do(&forced, g, &spec);
	assert_int_equal(forced.token[0], odd[0]);
	assert_int_equal(forced.event[0].best_id, free_run.token[0]);
	assert_true(forced.event[0].rank > 1);
	assert_true(forced.event[0].logprob < forced.event[0].top[0].logprob);
	toy_run_free(&forced);
	toy_run_free(&free_run);
	mem_free(p);
	engine_close(g);
	toy_close(&t);
}

static void ends(void **state)
{
	(void)state;
	static const int32_t SCRIPT[] = {5, 6, 7, 8, 2, 9, 10, 11, 12, 13, 14, 15};
	toy_open(&t, "exact", true);
	t.script = SCRIPT;
	t.script_len = ARRAY_LEN(SCRIPT);
	engine *g = open_engine(8, 10);
	toy_run run = {0};
	engine_spec spec = toy_spec(SCRIPT, 2, -1);
	toy_do(&run, g, &spec);
	assert_int_equal(run.finish, NH_FINISH_END);
	assert_int_equal(run.tokens, 3); /* 7 8 2 */
	assert_true(run.event[2].end_token);
	assert_int_equal(run.event[2].token, 2);
	assert_int_equal(run.event[2].position, 4);
	toy_run_free(&run);

	spec.ignore_end = true;
	toy_do(&run, g, &spec);
	assert_int_equal(run.finish, NH_FINISH_CONTEXT);
	assert_int_equal(run.tokens, 8);
	assert_false(run.event[2].end_token);
	toy_run_free(&run);

	spec.max_tokens = 8; /* both at once: the length was asked for */
	toy_do(&run, g, &spec);
	assert_int_equal(run.finish, NH_FINISH_LENGTH);
	toy_run_free(&run);

	spec = toy_spec(SCRIPT, 2, -1);
	spec.end_ids = (const int32_t[]){8};
	spec.end_id_count = 1;
	toy_do(&run, g, &spec);
	assert_int_equal(run.finish, NH_FINISH_END);
	assert_int_equal(run.tokens, 2);
	toy_run_free(&run);

	spec = toy_spec(SCRIPT, 10, -1); /* the prompt fills the context */
	toy_do(&run, g, &spec);
	assert_int_equal(run.finish, NH_FINISH_CONTEXT);
	assert_int_equal(run.tokens, 0);
	toy_run_free(&run);
	engine_close(g);
	toy_close(&t);
}

/* A request's bits do not depend on who had the slot and the pages before. */
static void memory_is_reused_without_a_trace(void **state)
{
	(void)state;
	toy_open(&t, "exact", true);
	engine *g = open_engine(16, 0);
	int32_t *p = toy_prompt(150, 11), *q = toy_prompt(90, 13);
	engine_spec a = toy_spec(p, 150, 30), b = toy_spec(q, 90, 70);
	a.ignore_end = b.ignore_end = true;
	a.top_logprobs = b.top_logprobs = 2;
	toy_run first, between, again;
	toy_do(&first, g, &a);
	toy_do(&between, g, &b);
	toy_do(&again, g, &a);
	toy_same_events(&first, &again);
	int most = 0, least = 1000;
	for (int i = 0; i < atomic_load(&t.count); i++) {
		if (t.steps[i].pages > most) most = t.steps[i].pages;
		if (t.steps[i].pages < least) least = t.steps[i].pages;
		assert_int_equal(t.steps[i].pages, (t.steps[i].pos + t.steps[i].T + 63) / 64); /* page by page */
	}
	assert_int_equal(least, 1);
	assert_int_equal(most, 3);
	toy_run_free(&first);
	toy_run_free(&between);
	toy_run_free(&again);
	mem_free(p);
	mem_free(q);
	engine_close(g);
	toy_close(&t);
}

/* An arm whose memory can not be read: everything goes through upload and download, and comes out the same. */
static void memory_of_the_arm_may_be_elsewhere(void **state)
{
	(void)state;
	int32_t *p = toy_prompt(30, 17);
	toy_run runs[2];
	uint64_t uploaded[2];
	for (int far = 0; far < 2; far++) {
		toy_open(&t, "portable", !far);
		engine *g = open_engine(16, 0);
		engine_spec spec = toy_spec(p, 30, 20);
		spec.ignore_end = true;
		spec.temperature = 0.7;
		spec.seed = 42;
		spec.repetition_penalty = 1.3;
		spec.top_logprobs = 4;
		spec.prompt_logprobs = true;
		spec.want_ids = p;
		spec.want_steps = 10;
		spec.want_per_step = 3;
		toy_do(&runs[far], g, &spec);
		engine_stats s;
		engine_get_stats(g, &s);
		uploaded[far] = s.bytes_uploaded;
		engine_close(g);
		toy_close(&t);
	}
	toy_same_events(&runs[0], &runs[1]);
	assert_int_equal(uploaded[0], 0);
	assert_true(uploaded[1] > 0);
	toy_run_free(&runs[0]);
	toy_run_free(&runs[1]);
	mem_free(p);
	assert_int_equal(mem_live(), 0);
}

static void traced(void *user, uint64_t step, const char *name, int64_t first, size_t rows, size_t columns, const double *values)
{
	double *sum = user;
	sum[0] += (double)rows;
	sum[1] += (double)(columns * rows);
	if (strcmp(name, "logits") == 0) sum[2] += 1;
	if (step == 0) assert_int_equal(first, 0);
	if (step == 1) assert_int_equal(first, 8);
	for (size_t i = 0; i < rows * columns; i++) assert_false(isnan(values[i]));
}

static void trace_sees_every_row(void **state)
{
	(void)state;
	for (int far = 0; far < 2; far++) {
		toy_open(&t, "exact", !far);
		engine *g = open_engine(8, 0);
		int32_t *p = toy_prompt(20, 3);
		double seen[3] = {0};
		engine_spec spec = toy_spec(p, 20, 3);
		spec.ignore_end = true;
		spec.trace = traced;
		spec.trace_user = seen;
		toy_run run = {0};
		toy_do(&run, g, &spec);
		assert_true(seen[0] == 2 * 22);
		assert_true(seen[1] == 22 + 22 * TOY_VOCAB);
		assert_true(seen[2] == 5);
		toy_run_free(&run);
		mem_free(p);
		engine_close(g);
		toy_close(&t);
	}
}

/* After the first steps nothing may allocate, whatever the request asks for. */
static void a_step_allocates_nothing(void **state)
{
	(void)state;
	toy_open(&t, "portable", true);
	engine *g = open_engine(16, 0);
	int32_t *p = toy_prompt(100, 3);
	engine_spec spec = toy_spec(p, 100, 200);
	spec.ignore_end = true;
	spec.top_logprobs = 5;
	spec.prompt_logprobs = true;
	spec.prompt_top_logprobs = 64;
	spec.temperature = 1;
	spec.repetition_penalty = 1.1;
	engine_request *r[2]; /* the first one warms the arm up, the second one has to live on nothing */
	for (int i = 0; i < 2; i++) assert_int_equal(engine_submit(g, &spec, &r[i], NULL), NH_OK);
	int tokens[2] = {0}, prompts[2] = {0};
	for (int i = 0; i < 2; i++) {
		engine_event e;
		while (engine_request_next(r[i], &e, -1) == NH_OK) {
			prompts[i] += e.type == NH_EVENT_PROMPT;
			tokens[i] += e.type == NH_EVENT_TOKEN;
			if (i == 0 && tokens[0] == 3) mem_fail_after(0);
			if (e.type == NH_EVENT_ERROR) fail_msg("request %d: %s", i, e.error->text);
		}
	}
	mem_fail_after(SIZE_MAX);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(prompts[i], 100);
		assert_int_equal(tokens[i], 200);
		engine_request_release(r[i]);
	}
	mem_free(p);
	engine_close(g);
	toy_close(&t);
	assert_int_equal(mem_live(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(pieces_end_at_edges),
	    cmocka_unit_test(any_split_is_no_split),
	    cmocka_unit_test(scoring_computes_the_prompt_alone),
	    cmocka_unit_test(forced_tokens_are_in_decode_form),
	    cmocka_unit_test(ends),
	    cmocka_unit_test(memory_is_reused_without_a_trace),
	    cmocka_unit_test(memory_of_the_arm_may_be_elsewhere),
	    cmocka_unit_test(trace_sees_every_row),
	    cmocka_unit_test(a_step_allocates_nothing),
	};
	return cmocka_run_group_tests_name("step", tests, NULL, NULL);
}
