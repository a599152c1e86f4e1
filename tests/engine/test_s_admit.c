/* SPDX-License-Identifier: Apache-2.0
 * test_s_admit.c: who gets into the pools and when: hundreds wait and none is dropped, what can never fit is refused with the arithmetic,
 * priorities, deadlines, readers that never read, and pools that are empty when all is over.
 */
#include "helper_toy.h"

#include <string.h>
#include <unistd.h>

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
	p = toy_prompt(600, 3);
	if (engine_open(&g, &t.parts, &o, &e) != NH_OK) fail_msg("%s", e.text);
}

static void stop(void)
{
	engine_close(g);
	mem_free(p);
	toy_close(&t);
	assert_int_equal(mem_live(), 0);
}

static engine_request *submit(size_t prompt, int64_t tokens, int priority)
{
	engine_spec spec = toy_spec(p, prompt, tokens);
	spec.ignore_end = true;
	spec.priority = priority;
	engine_request *r;
	nh_error e = {0};
	if (engine_submit(g, &spec, &r, &e) != NH_OK) fail_msg("%s", e.text);
	return r;
}

static void what_can_never_fit_is_refused(void **state)
{
	(void)state;
	start((engine_options){.memory_bytes = 4 * 2048 + 100, .max_sequences = 2, .no_prefix_cache = true});
	engine_spec spec = toy_spec(p, 300, 0);
	engine_request *r;
	nh_error e = {0};
	assert_int_equal(engine_submit(g, &spec, &r, &e), NH_ERR_LIMIT);
	assert_string_equal(e.text, "memory: needs 5 pages of 64 tokens (300 tokens), the pool has 4");
	spec = toy_spec(p, 20, 500);
	assert_int_equal(engine_submit(g, &spec, &r, &e), NH_ERR_LIMIT);
	assert_string_equal(e.text, "memory: needs 9 pages of 64 tokens (520 tokens), the pool has 4");
	spec.choices = 3;
	spec.max_tokens = 2;
	assert_int_equal(engine_submit(g, &spec, &r, &e), NH_ERR_LIMIT);
	assert_non_null(strstr(e.text, "choices: is 3, the engine runs 2"));
	toy_run run;
	toy_collect(&run, submit(200, -1, 0)); /* without a length of its own: until the pool is full */
	assert_int_equal(run.finish, NH_FINISH_CONTEXT);
	assert_int_equal(run.tokens, 56);
	toy_run_free(&run);
	stop();
}

static void hundreds_wait_and_none_is_dropped(void **state)
{
	(void)state;
	start((engine_options){.memory_bytes = 12 * 2048 + 40 * 32, .max_sequences = 5, .event_limit = 4, .step_tokens = 16});
	enum { MANY = 300 };
	engine_request *r[MANY];
	for (int i = 0; i < MANY; i++) r[i] = submit(1 + (size_t)i % 150, 1 + i % 40, i % 3);
	int tokens = 0;
	for (int i = MANY - 1; i >= 0; i--) { /* the last one's reader first: all others are behind */
		toy_run run;
		toy_collect(&run, r[i]);
		assert_int_equal(run.finish, NH_FINISH_LENGTH);
		assert_int_equal(run.tokens, 1 + i % 40);
		tokens += (int)run.tokens;
		toy_run_free(&run);
	}
	engine_stats s;
	engine_get_stats(g, &s);
	assert_int_equal(s.generated_tokens, tokens);
	assert_int_equal(s.swaps_in, s.swaps_out);
	assert_true(s.swaps_out > 0);
	assert_int_equal(s.waiting + s.running + s.swapped, 0);
	assert_int_equal(s.slots_used, s.snapshots);
	stop();
}

static void first_token_order(engine_request **r, int n, int64_t *us)
{
	for (int i = 0; i < n; i++) {
		toy_run run;
		toy_collect(&run, r[i]);
		us[i] = run.stats.queue_us;
		toy_run_free(&run);
	}
}

static void the_higher_priority_goes_first(void **state)
{
	(void)state;
	start((engine_options){.max_sequences = 1, .step_tokens = 8});
	atomic_store(&t.hold, true);
	engine_request *r[4] = {submit(20, 4, 0)};
	for (int i = 0; i < 5000 && atomic_load(&t.count) == 0; i++) usleep(1000);
	int64_t sent[4], queue[4];
	for (int i = 1; i < 4; i++) {
		sent[i] = clock_us();
		r[i] = submit(20, 4, i == 3 ? 5 : 0); /* the last is first; the running one makes way for it too */
	}
	atomic_store(&t.hold, false);
	first_token_order(r, 4, queue);
	for (int i = 1; i < 4; i++) queue[i] += sent[i]; /* when it was let in: a wait alone says nothing of the order */
	assert_true(queue[3] < queue[1] && queue[1] < queue[2]);
	engine_stats s;
	engine_get_stats(g, &s);
	assert_int_equal(s.preemptions, 1);
	assert_int_equal(s.swaps_in, 1);
	stop();
}

static void deadlines(void **state)
{
	(void)state;
	start((engine_options){.max_sequences = 1, .step_tokens = 8});
	atomic_store(&t.sleep_us, 3000);
	engine_spec spec = toy_spec(p, 20, 400);
	spec.ignore_end = true;
	spec.deadline_us = 60000;
	engine_request *r[2];
	for (int i = 0; i < 2; i++) assert_int_equal(engine_submit(g, &spec, &r[i], NULL), NH_OK); /* the second one waits all the time */
	for (int i = 0; i < 2; i++) {
		toy_run run;
		toy_collect(&run, r[i]);
		assert_int_equal(run.finish, NH_FINISH_DEADLINE);
		assert_true(run.tokens < 30);
		assert_true(run.stats.total_us >= 60000);
		assert_true(i == 0 || run.tokens == 0);
		toy_run_free(&run);
	}
	engine_stats s;
	engine_get_stats(g, &s);
	assert_int_equal(s.deadline_misses, 2);
	stop();
}

/* Readers that never read: their requests give way, everybody else is served. */
static void who_never_reads_gives_way(void **state)
{
	(void)state;
	start((engine_options){.max_sequences = 2, .event_limit = 2, .step_tokens = 8});
	engine_request *lazy[4];
	for (int i = 0; i < 4; i++) lazy[i] = submit(20, 100, 0);
	for (int i = 0; i < 10; i++) {
		toy_run run;
		toy_collect(&run, submit(20, 20, 0));
		assert_int_equal(run.tokens, 20);
		toy_run_free(&run);
	}
	engine_stats s;
	engine_get_stats(g, &s);
	assert_true(s.swapped + s.running == 4);
	engine_request_cancel(lazy[0]); /* also where it is swapped out */
	for (int i = 0; i < 4; i++) {
		toy_run run;
		toy_collect(&run, lazy[i]);
		assert_int_equal(run.finish, i ? NH_FINISH_LENGTH : NH_FINISH_CANCELLED);
		assert_true(i == 0 || run.tokens == 100);
		toy_run_free(&run);
	}
	stop();
}

/* A request of choices gives way as a whole, and comes back as a whole. */
static void choices_come_and_go_together(void **state)
{
	(void)state;
	start((engine_options){.max_sequences = 4, .step_tokens = 8});
	atomic_store(&t.sleep_us, 5000);
	engine_spec spec = toy_spec(p, 300, 10);
	spec.ignore_end = true;
	spec.choices = 4;
	engine_request *low, *high;
	assert_int_equal(engine_submit(g, &spec, &low, NULL), NH_OK);
	for (int i = 0; i < 5000 && atomic_load(&t.count) < 2; i++) usleep(500);
	spec = toy_spec(p + 300, 20, 5);
	spec.ignore_end = true;
	spec.choices = 2;
	spec.priority = 1;
	assert_int_equal(engine_submit(g, &spec, &high, NULL), NH_OK);
	toy_run run;
	toy_collect(&run, high);
	atomic_store(&t.sleep_us, 0);
	assert_int_equal(run.count, 2 * 6);
	toy_run_free(&run);
	toy_collect(&run, low);
	assert_int_equal(run.count, 4 * 11);
	assert_int_equal(run.finish, NH_FINISH_LENGTH);
	toy_run_free(&run);
	engine_stats s;
	engine_get_stats(g, &s);
	assert_int_equal(s.swaps_out, 1); /* before its prompt was computed: choice 0 alone has a state */
	assert_int_equal(s.swaps_in, 1);
	assert_int_equal(s.slots_used, s.snapshots);
	stop();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_can_never_fit_is_refused),
	    cmocka_unit_test(hundreds_wait_and_none_is_dropped),
	    cmocka_unit_test(the_higher_priority_goes_first),
	    cmocka_unit_test(deadlines),
	    cmocka_unit_test(who_never_reads_gives_way),
	    cmocka_unit_test(choices_come_and_go_together),
	};
	return cmocka_run_group_tests_name("s_admit", tests, NULL, NULL);
}
