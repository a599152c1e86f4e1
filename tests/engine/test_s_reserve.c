/* SPDX-License-Identifier: Apache-2.0
 * test_s_reserve.c: memory of a step: pages come one by one, drafts take slots only where some are free, and once all is open a step allocates
 * nothing, whoever is in it.
 */
#include "helper_toy.h"

#include <string.h>

#include "base/base_clock.h"
#include "base/base_mem.h"
#include "test.h"

static toy t;
static engine *g;
static int32_t *p;

static void start(engine_options o)
{
	nh_error e = {0};
	toy_open(&t, "exact", true);
	t.cycle = 5;
	p = toy_prompt(300, 3);
	if (engine_open(&g, &t.parts, &o, &e) != NH_OK) fail_msg("%s", e.text);
}

static void stop(void)
{
	engine_close(g);
	mem_free(p);
	toy_close(&t);
	assert_int_equal(mem_live(), 0);
}

/* The arm's own working memory grows once. */
static void warm_up(void)
{
	engine_spec spec = toy_spec(p, 300, 3);
	spec.ignore_end = true;
	spec.temperature = 1;
	spec.repetition_penalty = 1.1;
	spec.top_logprobs = 3;
	toy_run run;
	toy_do(&run, g, &spec);
	toy_run_free(&run);
}

/* Batch, pieces, drafts, penalties, choices, snapshots and hits: after everything was submitted nothing is allocated. */
static void a_step_allocates_nothing(void **state)
{
	(void)state;
	start((engine_options){.max_sequences = 8, .step_tokens = 16, .draft = NH_DRAFT_NGRAM, .event_limit = 1000});
	warm_up();
	enum { MANY = 12 };
	engine_request *r[MANY];
	atomic_store(&t.hold, true);
	for (int i = 0; i < MANY; i++) {
		engine_spec spec = toy_spec(p, 20 + (size_t)i * 20, 100);
		spec.ignore_end = true;
		spec.temperature = i % 2 ? 0.5 : 0;
		spec.repetition_penalty = i % 3 ? 1 : 1.1;
		spec.top_logprobs = i % 4;
		spec.choices = i == 5 ? 3 : 1;
		assert_int_equal(engine_submit(g, &spec, &r[i], NULL), NH_OK);
	}
	mem_fail_after(0);
	atomic_store(&t.hold, false);
	int done = 0;
	uint64_t reused = 0;
	char text[1024] = "";
	for (int i = 0; i < MANY; i++) {
		engine_event e;
		while (engine_request_next(r[i], &e, -1) == NH_OK) {
			if (e.type == NH_EVENT_ERROR) snprintf(text, sizeof text, "%s", e.error->text);
			done += e.type == NH_EVENT_DONE;
			if (e.type == NH_EVENT_DONE) reused += e.stats.reused_tokens;
		}
	}
	mem_fail_after(SIZE_MAX);
	assert_string_equal(text, "");
	assert_int_equal(done, MANY + 2);
	assert_true(reused > 0 && atomic_load(&t.draft_rows) > 0 && atomic_load(&t.mixed) > 0);
	for (int i = 0; i < MANY; i++) engine_request_release(r[i]);
	stop();
}

/* Nobody can be moved to host memory when there is none: who ranks first goes on, at the price of those who rank last. */
static void no_host_memory_for_a_swap(void **state)
{
	(void)state;
	start((engine_options){.max_sequences = 3, .memory_bytes = 5 * 2048 + 20 * 32, .no_prefix_cache = true, .event_limit = 1000});
	warm_up();
	engine_request *r[3];
	atomic_store(&t.hold, true);
	for (int i = 0; i < 3; i++) {
		engine_spec spec = toy_spec(p, 30, 170);
		spec.ignore_end = true;
		assert_int_equal(engine_submit(g, &spec, &r[i], NULL), NH_OK);
	}
	mem_fail_after(0);
	atomic_store(&t.hold, false);
	engine_event e;
	int ended = 0, failed = 0;
	while (engine_request_next(r[0], &e, -1) == NH_OK) {
		ended += e.last;
		if (e.last) assert_int_equal(e.type, NH_EVENT_DONE);
	}
	mem_fail_after(SIZE_MAX);
	for (int i = 1; i < 3; i++)
		while (engine_request_next(r[i], &e, -1) == NH_OK) {
			ended += e.last;
			if (e.type != NH_EVENT_ERROR) continue;
			assert_int_equal(e.error->code, NH_ERR_NOMEM);
			failed++;
		}
	assert_int_equal(ended, 3);
	assert_true(failed > 0);
	for (int i = 0; i < 3; i++) engine_request_release(r[i]);
	stop();
}

/* What the engine itself costs a step, 64 sequences in it. The toy's own work is a few rows; the bound is for all of it but the forward. */
static void a_step_is_quick(void **state)
{
	(void)state;
	start((engine_options){.max_sequences = 64, .event_limit = 1000, .no_prefix_cache = true});
	engine_request *r[64];
	atomic_store(&t.hold, true);
	for (int i = 0; i < 64; i++) {
		engine_spec spec = toy_spec(p, 4, 120);
		spec.ignore_end = true;
		assert_int_equal(engine_submit(g, &spec, &r[i], NULL), NH_OK);
	}
	atomic_store(&t.hold, false);
	for (int i = 0; i < 64; i++) {
		engine_event e;
		while (engine_request_next(r[i], &e, -1) == NH_OK) continue;
		engine_request_release(r[i]);
	}
	engine_stats s;
	engine_get_stats(g, &s);
	uint64_t plan[2] = {0};
	for (int stage = 0; stage < 2; stage++)
		for (int b = 0; b < ENGINE_BUCKETS; b++)
			if (s.step_us[stage][b] > s.step_us[stage][plan[stage]]) plan[stage] = (uint64_t)b;
	printf("most steps: admit below %d us, reserve below %d us, at 64 running\n", 1 << plan[0], 1 << plan[1]);
	uint64_t total = 0;
	for (int b = 0; b < ENGINE_BUCKETS; b++) total += s.step_us[3][b];
	assert_int_equal(total, s.steps); /* every step is in the histogram */
	stop();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_step_allocates_nothing),
	    cmocka_unit_test(no_host_memory_for_a_swap),
	    cmocka_unit_test(a_step_is_quick),
	};
	return cmocka_run_group_tests_name("s_reserve", tests, NULL, NULL);
}
