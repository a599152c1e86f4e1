/* SPDX-License-Identifier: Apache-2.0
 * test_s_inputs.c: what a request asks of its draws reaches them: biases, bans, masks, minimum lengths, penalties; alone and beside requests that
 * ask for nothing.
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
	assert_int_equal(engine_open(&g, &t.parts, &(engine_options){.step_tokens = 8, .max_sequences = 4}, NULL), NH_OK);
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

static engine_spec spec_of(int64_t tokens)
{
	engine_spec s = toy_spec(p, 20, tokens);
	s.ignore_end = true;
	return s;
}

/* Runs it beside one that asks for nothing, which must not notice. */
static void beside(toy_run *run, const engine_spec *spec)
{
	static const int32_t OTHER[] = {9, 8, 7};
	engine_spec plain = toy_spec(OTHER, 3, 30);
	plain.ignore_end = true;
	toy_run alone, with;
	toy_do(&alone, g, &plain);
	engine_request *r;
	assert_int_equal(engine_submit(g, &plain, &r, NULL), NH_OK);
	toy_do(run, g, spec);
	toy_collect(&with, r);
	toy_same_events(&alone, &with);
	toy_run_free(&alone);
	toy_run_free(&with);
}

static void biases_and_bans(void **state)
{
	(void)state;
	static const nh_bias UP[] = {{17, 1e6f}}, DOWN[] = {{17, -INFINITY}};
	static const int32_t ONLY[] = {21, 22, 23}, WORD[] = {5, 21, 22};
	static const size_t LENGTH[] = {1, 2};
	toy_run run;
	engine_spec s = spec_of(20);
	s.bias = UP;
	s.bias_count = 1;
	beside(&run, &s);
	for (int i = 0; i < 20; i++) assert_int_equal(run.token[i], 17);
	toy_run_free(&run);
	s = spec_of(40);
	s.temperature = 50;
	s.bias = DOWN;
	s.bias_count = 1;
	beside(&run, &s);
	for (int i = 0; i < 40; i++) assert_int_not_equal(run.token[i], 17);
	toy_run_free(&run);
	s = spec_of(40);
	s.temperature = 50;
	s.allowed_ids = ONLY;
	s.allowed_count = 3;
	s.bad_words = WORD;
	s.bad_word_lengths = LENGTH;
	s.bad_word_count = 2;
	beside(&run, &s);
	int pairs = 0;
	for (int i = 0; i < 40; i++) {
		assert_true(run.token[i] >= 21 && run.token[i] <= 23);
		pairs += run.token[i] == 21;
		if (i) assert_false(run.token[i - 1] == 21 && run.token[i] == 22);
	}
	assert_true(pairs > 3);
	toy_run_free(&run);
	/* Presence and frequency: a token that came is not wanted again. */
	s = spec_of(30);
	s.allowed_ids = ONLY;
	s.allowed_count = 3;
	s.presence_penalty = s.frequency_penalty = 2;
	beside(&run, &s);
	int count[3] = {0};
	for (int i = 0; i < 30; i++) count[run.token[i] - 21]++;
	assert_true(count[0] > 4 && count[1] > 4 && count[2] > 4);
	toy_run_free(&run);
}

static void minimum_length(void **state)
{
	(void)state;
	static const int32_t ENDS[] = {7, 8};
	engine_spec s = spec_of(60);
	s.ignore_end = false;
	s.temperature = 50;
	s.end_ids = ENDS;
	s.end_id_count = 2;
	int early = 0;
	for (uint64_t seed = 0; seed < 10; seed++) {
		toy_run run;
		s.seed = seed;
		s.min_tokens = 0;
		toy_do(&run, g, &s);
		early += run.tokens < 25;
		toy_run_free(&run);
		s.min_tokens = 25;
		beside(&run, &s);
		assert_true(run.tokens > 25);
		toy_run_free(&run);
	}
	assert_true(early > 3);
}

typedef struct masker {
	int calls;
	int64_t position;
	int fail_at;
} masker;

/* Even ids at even positions, odd ones at odd. */
static bool mask(void *user, int32_t choice, int64_t position, uint32_t *bits, size_t words)
{
	masker *k = user;
	assert_int_equal(choice, 0);
	assert_int_equal(words, 2);
	assert_int_equal(bits[0], 0xFFFFFFFF);
	k->position = position;
	for (size_t i = 0; i < words; i++) bits[i] &= position % 2 ? 0xAAAAAAAA : 0x55555555;
	return ++k->calls != k->fail_at;
}

static void masks(void **state)
{
	(void)state;
	masker k = {0};
	engine_spec s = spec_of(30);
	s.temperature = 3;
	s.mask = mask;
	s.mask_user = &k;
	toy_run run;
	beside(&run, &s);
	assert_int_equal(k.calls, 30);
	assert_int_equal(k.position, 49);
	for (int i = 0; i < 30; i++) assert_int_equal(run.token[i] % 2, (20 + i) % 2);
	toy_run_free(&run);
	k = (masker){.fail_at = 12};
	beside(&run, &s);
	assert_int_equal(run.finish, NH_FINISH_ERROR);
	assert_string_equal(run.error.text, "position 31: the token mask failed");
	assert_int_equal(run.tokens, 11);
	toy_run_free(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(biases_and_bans, setup, teardown),
	    cmocka_unit_test_setup_teardown(minimum_length, setup, teardown),
	    cmocka_unit_test_setup_teardown(masks, setup, teardown),
	};
	return cmocka_run_group_tests_name("s_inputs", tests, NULL, NULL);
}
