/* SPDX-License-Identifier: Apache-2.0
 * test_company.c: the law of the engine on the toy model: what a request tells is what it tells alone, bit for bit, whoever runs beside it,
 * whatever is swapped, drafted, forked, reused, cancelled or failing meanwhile. Random requests over random engines; counters show that each of
 * these took place.
 */
#include "helper_toy.h"

#include <string.h>

#include "base/base_mem.h"
#include "base/base_rng.h"
#include "test.h"

#define REQUESTS 48
#define ROUNDS 6

static toy t;

typedef struct wish {
	engine_spec spec;
	int32_t *prompt;
	bool cancel;
	toy_run alone;
} wish;

static int64_t pick(uint64_t seed, int i, int what, int64_t below)
{
	return (int64_t)(rng_u64(seed, (uint64_t)i, (uint32_t)what) % (uint64_t)below);
}

/* Half of the prompts begin alike, so that prefixes hit. */
static void make(wish *w, uint64_t seed, int i)
{
	static const nh_bias BIAS[] = {{7, 2.5f}, {9, -3}};
	int64_t n = 1 + pick(seed, i, 1, 200);
	memset(w, 0, sizeof *w);
	w->prompt = toy_prompt((size_t)n, (unsigned)(i % 2 ? 77 : 1000 + i));
	if (n > 3 && i % 2) w->prompt[n - 1] = 3 + (int32_t)pick(seed, i, 2, 40);
	w->spec = toy_spec(w->prompt, (size_t)n, pick(seed, i, 3, 60));
	w->spec.ignore_end = pick(seed, i, 4, 3) > 0;
	w->spec.top_logprobs = (int32_t)pick(seed, i, 5, 4);
	w->spec.priority = (int)pick(seed, i, 6, 3);
	w->spec.seed = (uint64_t)i;
	if (pick(seed, i, 7, 2)) w->spec.temperature = 0.3;
	if (pick(seed, i, 8, 4) == 0) w->spec.repetition_penalty = 1.2;
	if (pick(seed, i, 9, 4) == 0) w->spec.frequency_penalty = 0.5;
	if (pick(seed, i, 10, 5) == 0) w->spec.bias = BIAS, w->spec.bias_count = 2;
	if (pick(seed, i, 11, 5) == 0) w->spec.min_tokens = 5;
	if (pick(seed, i, 12, 6) == 0) w->spec.prompt_logprobs = true;
	w->cancel = pick(seed, i, 13, 6) == 0;
}

static engine *open_engine(const engine_options *o)
{
	engine *g;
	nh_error e = {0};
	if (engine_open(&g, &t.parts, o, &e) != NH_OK) fail_msg("%s", e.text);
	return g;
}

/* Events of a cancelled request are the first of those that it would have told. */
static void same_beginning(const toy_run *whole, const toy_run *part)
{
	assert_true(part->count <= whole->count);
	for (size_t i = 0; i + 1 < part->count; i++) {
		assert_int_equal(whole->event[i].token, part->event[i].token);
		assert_memory_equal(&whole->event[i].logprob, &part->event[i].logprob, sizeof(double));
	}
}

static void nobody_matters(void **state)
{
	(void)state;
	engine_stats sum = {0};
	int mixed = 0, most = 0, drafted = 0, compared = 0, cancelled = 0, failed = 0;
	for (uint64_t seed = 0; seed < ROUNDS; seed++) {
		toy_open(&t, seed % 2 ? "portable" : "exact", seed % 3 != 2);
		t.cycle = 6;
		wish w[REQUESTS];
		engine *g = open_engine(&(engine_options){.max_sequences = 1, .no_prefix_cache = true, .max_context = 512});
		for (int i = 0; i < REQUESTS; i++) {
			make(&w[i], seed, i);
			toy_do(&w[i].alone, g, &w[i].spec);
		}
		engine_close(g);
		/* Pools for about three of the long ones: 8 sequences push each other out. */
		uint64_t page = 2 * 64 * 2 * (seed % 2 ? 2 : 8);
		g = open_engine(&(engine_options){.max_sequences = 8,
		    .max_context = 512,
		    .step_tokens = 8 + 16 * (int64_t)seed,
		    .memory_bytes = 9 * page + 40 * 32,
		    .event_limit = 16,
		    .draft = seed % 4 != 3 ? NH_DRAFT_NGRAM : NH_DRAFT_NONE});
		t.nan_id = 0;
		engine_request *r[REQUESTS];
		nh_error e = {0};
		for (int i = 0; i < REQUESTS; i++) {
			if (engine_submit(g, &w[i].spec, &r[i], &e) != NH_OK) fail_msg("%s", e.text);
			if (w[i].cancel) engine_request_cancel(r[i]);
		}
		for (int i = 0; i < REQUESTS; i++) {
			toy_run run = {0};
			toy_collect(&run, r[i]);
			if (w[i].cancel) same_beginning(&w[i].alone, &run), cancelled++;
			else toy_same_events(&w[i].alone, &run), compared++;
			failed += run.finish == NH_FINISH_ERROR;
			toy_run_free(&run);
			toy_run_free(&w[i].alone);
			mem_free(w[i].prompt);
		}
		engine_stats s;
		engine_get_stats(g, &s);
		assert_int_equal(s.running + s.swapped + s.waiting, 0);
		assert_int_equal(s.slots_used, s.snapshots); /* nobody else holds anything */
		sum.swaps_out += s.swaps_out;
		sum.swaps_in += s.swaps_in;
		sum.prefix_hits += s.prefix_hits;
		sum.reused_tokens += s.reused_tokens;
		sum.evictions += s.evictions;
		sum.drafted_tokens += s.drafted_tokens;
		sum.accepted_tokens += s.accepted_tokens;
		mixed += atomic_load(&t.mixed);
		drafted += atomic_load(&t.draft_rows);
		if (atomic_load(&t.most) > most) most = atomic_load(&t.most);
		engine_close(g);
		toy_close(&t);
	}
	printf("LAW company is nothing: %d compared, %d cancelled, most sequences a step %d, mixed steps %d, swaps %d out %d in, prefix hits "
	       "%d, reused %d, "
	       "evictions %d, drafted %d, accepted %d\n",
	    compared, cancelled, most, mixed, (int)sum.swaps_out, (int)sum.swaps_in, (int)sum.prefix_hits, (int)sum.reused_tokens,
	    (int)sum.evictions, (int)sum.drafted_tokens, (int)sum.accepted_tokens);
	assert_true(compared > 100 && cancelled > 10 && mixed > 10 && most > 3 && drafted > 0);
	assert_int_equal(failed, 0);
	assert_true(sum.swaps_out > 0 && sum.swaps_in > 0 && sum.prefix_hits > 0 && sum.reused_tokens > 0 && sum.evictions > 0);
	assert_true(sum.accepted_tokens > 0 && sum.drafted_tokens > sum.accepted_tokens);
	assert_int_equal(mem_live(), 0);
}

/* One row that is no number, among others in the same steps. */
static void a_row_that_is_no_number_is_one_request(void **state)
{
	(void)state;
	toy_open(&t, "exact", true);
	t.nan_id = 49;
	engine *g = open_engine(&(engine_options){.max_sequences = 8});
	engine_request *r[8];
	int32_t *p[8];
	for (int i = 0; i < 8; i++) {
		p[i] = toy_prompt(20, (unsigned)i + 5);
		for (int k = 0; k < 20; k++)
			if (p[i][k] == 49) p[i][k] = 48;
		engine_spec spec = toy_spec(p[i], 20, 30);
		spec.ignore_end = true;
		const int32_t never[] = {49};
		const nh_bias no = {49, -1e9f};
		spec.bias = &no;
		spec.bias_count = 1;
		if (i == 3) spec.forced = never, spec.forced_tokens = 1;
		assert_int_equal(engine_submit(g, &spec, &r[i], NULL), NH_OK);
	}
	for (int i = 0; i < 8; i++) {
		toy_run run = {0};
		toy_collect(&run, r[i]);
		assert_int_equal(run.finish, i == 3 ? NH_FINISH_ERROR : NH_FINISH_LENGTH);
		if (i == 3) assert_int_equal(run.error.code, NH_ERR_NUMERIC);
		toy_run_free(&run);
		mem_free(p[i]);
	}
	engine_stats s;
	engine_get_stats(g, &s);
	assert_int_equal(s.nan_failures, 1);
	assert_int_equal(s.failed, 1);
	engine_close(g);
	toy_close(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(nobody_matters), cmocka_unit_test(a_row_that_is_no_number_is_one_request)};
	return cmocka_run_group_tests_name("company", tests, NULL, NULL);
}
