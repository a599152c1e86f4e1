/* SPDX-License-Identifier: Apache-2.0
 * test_s_pick.c: what comes out of logits: log-probabilities that a plain softmax confirms, draws that depend on seed and position alone,
 * penalties, and rows that are not numbers.
 */
#include "helper_toy.h"

#include <math.h>
#include <string.h>

#include "base/base_mem.h"
#include "test.h"

static toy t;
static engine *g;
static int32_t *p;

static int setup(void **state)
{
	(void)state;
	toy_open(&t, "exact", true);
	assert_int_equal(engine_open(&g, &t.parts, &(engine_options){.step_tokens = 8}, NULL), NH_OK);
	p = toy_prompt(20, 3);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	engine_close(g);
	mem_free(p);
	toy_close(&t);
	assert_int_equal(mem_live(), 0);
	return 0;
}

static double logits[16][TOY_VOCAB];

static void keep_logits(void *user, uint64_t step, const char *name, int64_t first, size_t rows, size_t columns, const double *values)
{
	(void)user, (void)first;
	if (strcmp(name, "logits") == 0) memcpy(logits[step], values + (rows - 1) * columns, sizeof logits[step]);
}

static double log_softmax(const double *row, int id)
{
	double most = row[0], sum = 0;
	for (int i = 1; i < TOY_VOCAB; i++) most = fmax(most, row[i]);
	for (int i = 0; i < TOY_VOCAB; i++) sum += exp(row[i] - most);
	return row[id] - most - log(sum);
}

static void logprobs_are_those_of_the_logits(void **state)
{
	(void)state;
	const int32_t want[] = {7, -1, 9, 49, 0, 1}; /* [3][2] */
	engine_spec spec = toy_spec(p, 20, 5);
	spec.ignore_end = true;
	spec.temperature = 2; /* told before temperature */
	spec.repetition_penalty = 5;
	spec.top_logprobs = 64; /* more than there are ids */
	spec.want_ids = want;
	spec.want_steps = 3;
	spec.want_per_step = 2;
	spec.trace = keep_logits;
	toy_run run = {0};
	toy_do(&run, g, &spec);
	assert_int_equal(run.tokens, 5);
	int checked = 0;
	for (int i = 0; i < 5; i++) {
		const engine_event *e = &run.event[i];
		const double *row = logits[2 + i]; /* two pieces before */
		assert_int_equal(e->top_count, TOY_VOCAB);
		assert_int_equal(e->want_count, 2);
		assert_true(fabs(e->logprob - log_softmax(row, e->token)) < 1e-12);
		assert_int_equal(e->best_id, e->top[0].id);
		assert_true(fabs(e->margin - (row[e->top[0].id] - row[e->top[1].id])) < 1e-12);
		assert_int_equal(e->top[e->rank - 1].id, e->token);
		for (int k = 0; k < TOY_VOCAB; k++, checked++) {
			assert_int_equal(e->top[k].rank, k + 1);
			assert_true(fabs(e->top[k].logprob - log_softmax(row, e->top[k].id)) < 1e-12);
			if (k) assert_true(e->top[k].logprob <= e->top[k - 1].logprob);
		}
		for (int k = 0; k < 2; k++) {
			const nh_logprob *w = &e->want[k];
			int32_t id = i < 3 ? want[2 * i + k] : -1; /* past the list: none */
			assert_int_equal(w->id, id);
			if (id < 0) assert_int_equal(w->rank, 0);
			else assert_true(fabs(w->logprob - log_softmax(row, id)) < 1e-12);
		}
	}
	assert_int_equal(checked, 5 * TOY_VOCAB);
	toy_run_free(&run);
	/* Nothing is told that was not asked for. */
	spec = toy_spec(p, 20, 2);
	toy_do(&run, g, &spec);
	assert_int_equal(run.event[0].best_id, -1);
	assert_int_equal(run.event[0].rank, 0);
	toy_run_free(&run);
}

static void draws_follow_the_seed(void **state)
{
	(void)state;
	engine_spec spec = toy_spec(p, 20, 40);
	spec.ignore_end = true;
	toy_run greedy, a, b, c, filtered;
	toy_do(&greedy, g, &spec);
	spec.temperature = 3;
	spec.seed = 1;
	toy_do(&a, g, &spec);
	toy_do(&b, g, &spec);
	assert_memory_equal(a.token, b.token, 40 * sizeof *a.token);
	spec.seed = 2;
	toy_do(&c, g, &spec);
	assert_true(memcmp(a.token, c.token, 40 * sizeof *a.token) != 0);
	assert_true(memcmp(a.token, greedy.token, 40 * sizeof *a.token) != 0);
	spec.top_k = 1;
	toy_do(&filtered, g, &spec);
	assert_memory_equal(filtered.token, greedy.token, 40 * sizeof *a.token);
	/* A continued draw is the draw at its position: forcing the first half changes nothing of the rest. */
	spec.top_k = 0;
	spec.forced = c.token;
	spec.forced_tokens = 20;
	toy_run_free(&b);
	toy_do(&b, g, &spec);
	assert_memory_equal(b.token, c.token, 40 * sizeof *a.token);
	toy_run_free(&greedy);
	toy_run_free(&a);
	toy_run_free(&b);
	toy_run_free(&c);
	toy_run_free(&filtered);
}

/* At a temperature that makes all tokens alike, a draw's rank is its random number: it must differ from position to position. */
static void draws_follow_the_position(void **state)
{
	(void)state;
	engine_spec spec = toy_spec(p, 20, 40);
	spec.ignore_end = true;
	spec.temperature = 1e9;
	spec.top_logprobs = 1;
	toy_run run = {0};
	toy_do(&run, g, &spec);
	bool seen[TOY_VOCAB + 1] = {0};
	int distinct = 0;
	for (int i = 0; i < 40; i++) {
		distinct += !seen[run.event[i].rank];
		seen[run.event[i].rank] = true;
	}
	assert_true(distinct > 15);
	toy_run_free(&run);
}

/* Position i is told by the logits of position i - 1, across pieces too. */
static double all_logits[20][TOY_VOCAB];

static void keep_all(void *user, uint64_t step, const char *name, int64_t first, size_t rows, size_t columns, const double *values)
{
	(void)user, (void)step;
	if (strcmp(name, "logits") == 0) memcpy(all_logits[first], values, rows * columns * sizeof *values);
}

static void a_prompt_token_is_told_by_those_before_it(void **state)
{
	(void)state;
	int32_t want[20];
	for (int i = 0; i < 20; i++) want[i] = (i * 7) % TOY_VOCAB;
	engine_spec spec = toy_spec(p, 20, 0);
	spec.prompt_logprobs = true;
	spec.prompt_want_ids = want;
	spec.prompt_want_per_position = 1;
	spec.trace = keep_all;
	toy_run run = {0};
	toy_do(&run, g, &spec);
	assert_int_equal(run.count, 21);
	for (int i = 1; i < 20; i++) {
		const engine_event *e = &run.event[i];
		assert_true(fabs(e->logprob - log_softmax(all_logits[i - 1], p[i])) < 1e-12);
		assert_int_equal(e->want[0].id, want[i]);
		assert_true(fabs(e->want[0].logprob - log_softmax(all_logits[i - 1], want[i])) < 1e-12);
	}
	toy_run_free(&run);
}

/* With an overwhelming penalty no id comes twice, and none of the prompt comes at all, until all are used up. */
static void penalties_see_prompt_and_output(void **state)
{
	(void)state;
	engine_spec spec = toy_spec(p, 20, 20);
	spec.ignore_end = true;
	spec.repetition_penalty = 1e9; /* toy logits are positive: divided to nothing */
	toy_run run = {0};
	toy_do(&run, g, &spec);
	bool seen[TOY_VOCAB] = {0};
	int fresh = 0, ids = 0;
	for (int i = 0; i < 20; i++) ids += !seen[p[i]], seen[p[i]] = true;
	for (size_t i = 0; i < run.tokens; i++) {
		fresh += !seen[run.token[i]];
		seen[run.token[i]] = true;
	}
	assert_int_equal(fresh, 20);
	assert_true(ids + 20 <= TOY_VOCAB);
	toy_run_free(&run);
}

static void what_is_no_number_fails_the_request_alone(void **state)
{
	(void)state;
	static const struct {
		int64_t at;
		bool prompt;
		int tokens, prompts;
	} CASES[] = {{19, false, 0, 0}, {22, false, 3, 0}, {10, true, 0, 9}};
	for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
		t.nan_at = CASES[i].at;
		engine_spec spec = toy_spec(p, 20, 10);
		spec.ignore_end = true;
		spec.prompt_logprobs = CASES[i].prompt;
		toy_run run = {0};
		toy_do(&run, g, &spec);
		assert_int_equal(run.finish, NH_FINISH_ERROR);
		assert_int_equal(run.error.code, NH_ERR_NUMERIC);
		assert_int_equal(run.tokens, CASES[i].tokens);
		assert_int_equal(run.count, CASES[i].tokens + CASES[i].prompts + 1);
		char text[64];
		snprintf(text, sizeof text, "position %d: the logits are not numbers", (int)CASES[i].at);
		assert_string_equal(run.error.text, text);
		toy_run_free(&run);
		/* Forced tokens do not hide it. */
		spec.forced = p;
		spec.forced_tokens = 10;
		toy_do(&run, g, &spec);
		assert_int_equal(run.error.code, NH_ERR_NUMERIC);
		toy_run_free(&run);
	}
	t.nan_at = -1;
	engine_stats s;
	engine_get_stats(g, &s);
	assert_int_equal(s.nan_failures, 6);
	assert_int_equal(s.failed, 6);
	toy_run run = {0};
	engine_spec spec = toy_spec(p, 20, 10);
	spec.ignore_end = true;
	toy_do(&run, g, &spec); /* the engine lives */
	assert_int_equal(run.tokens, 10);
	toy_run_free(&run);
}

static void a_failing_op_fails_the_request_alone(void **state)
{
	(void)state;
	engine_spec spec = toy_spec(p, 20, 10);
	spec.ignore_end = true;
	static const int64_t AT[] = {0, 12, 25};
	for (size_t i = 0; i < ARRAY_LEN(AT); i++) {
		t.fail_at = AT[i];
		toy_run run = {0};
		toy_do(&run, g, &spec);
		assert_int_equal(run.finish, NH_FINISH_ERROR);
		assert_int_equal(run.error.code, NH_ERR_BACKEND);
		assert_string_equal(run.error.text, "ref: linear: broken on purpose");
		assert_int_equal(run.tokens, i == 2 ? 6 : 0);
		toy_run_free(&run);
		t.fail_at = -1;
		toy_do(&run, g, &spec);
		assert_int_equal(run.tokens, 10);
		toy_run_free(&run);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(logprobs_are_those_of_the_logits, setup, teardown),
	    cmocka_unit_test_setup_teardown(draws_follow_the_seed, setup, teardown),
	    cmocka_unit_test_setup_teardown(draws_follow_the_position, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_prompt_token_is_told_by_those_before_it, setup, teardown),
	    cmocka_unit_test_setup_teardown(penalties_see_prompt_and_output, setup, teardown),
	    cmocka_unit_test_setup_teardown(what_is_no_number_fails_the_request_alone, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_failing_op_fails_the_request_alone, setup, teardown),
	};
	return cmocka_run_group_tests_name("s_pick", tests, NULL, NULL);
}
