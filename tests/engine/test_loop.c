/* SPDX-License-Identifier: Apache-2.0
 * test_loop.c: the inbox: requests enter by rank, from many threads; those that wait can be cancelled; the queue is bounded.
 */
#include "helper_toy.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/base_mem.h"
#include "test.h"

static toy t;
static engine *g;
static int32_t *p;

static void start(int sequences)
{
	toy_open(&t, "exact", true);
	assert_int_equal(engine_open(&g, &t.parts, &(engine_options){.step_tokens = 8, .max_sequences = sequences}, NULL), NH_OK);
	p = toy_prompt(20, 3);
}

static void stop(void)
{
	engine_close(g);
	mem_free(p);
	toy_close(&t);
	assert_int_equal(mem_live(), 0);
}

static engine_request *submit(int64_t max_tokens, nh_status expected)
{
	engine_spec spec = toy_spec(p, 20, max_tokens);
	spec.ignore_end = true;
	engine_request *r;
	nh_error e = {0};
	nh_status s = engine_submit(g, &spec, &r, &e);
	if (s != expected) fail_msg("%d %s", s, e.text);
	return r;
}

static void in_order_one_at_a_time(void **state)
{
	(void)state;
	start(1);
	engine_request *r[20];
	for (int i = 0; i < 20; i++) r[i] = submit(2 + i % 3, NH_OK);
	toy_run run[20] = {0};
	int64_t last = -1;
	for (int i = 0; i < 20; i++) {
		toy_collect(&run[i], r[i]);
		assert_int_equal(run[i].tokens, 2 + i % 3);
		assert_int_equal(run[i].token[0], run[0].token[0]);
		assert_int_equal(run[i].token[1], run[0].token[1]); /* whoever was before */
		assert_true(run[i].stats.queue_us >= last || i == 0);
		last = run[i].stats.queue_us - 2000000; /* clocks of submission differ a little */
	}
	/* Each request's steps follow one another: three pieces from 0, then decode. */
	int at = 0;
	for (int i = 0; i < 20; i++) {
		for (int k = 0; k < 3; k++) assert_int_equal(t.steps[at++].pos, 8 * k);
		for (int k = 0; k < 1 + i % 3; k++) assert_int_equal(t.steps[at++].pos, 20 + k);
		toy_run_free(&run[i]);
	}
	assert_int_equal(at, atomic_load(&t.count));
	stop();
}

static void those_that_wait_can_be_cancelled(void **state)
{
	(void)state;
	start(1);
	atomic_store(&t.sleep_us, 2000);
	engine_request *r[5];
	for (int i = 0; i < 5; i++) r[i] = submit(30, NH_OK);
	engine_request_cancel(r[2]);
	engine_request_cancel(r[4]);
	toy_run run = {0};
	toy_collect(&run, r[4]); /* ends long before its turn */
	assert_int_equal(run.finish, NH_FINISH_CANCELLED);
	assert_int_equal(run.count, 1);
	assert_int_equal(run.stats.computed_tokens, 0);
	assert_true(atomic_load(&t.count) < 40);
	toy_run_free(&run);
	for (int i = 0; i < 4; i++) {
		toy_collect(&run, r[i]);
		assert_int_equal(run.finish, i == 2 ? NH_FINISH_CANCELLED : NH_FINISH_LENGTH);
		toy_run_free(&run);
	}
	stop();
}

static void the_queue_is_bounded(void **state)
{
	(void)state;
	start(1);
	atomic_store(&t.hold, true);
	engine_request **r = mem_array(ENGINE_QUEUE_MAX + 1, sizeof(engine_request *));
	r[0] = submit(1, NH_OK);
	for (int i = 0; i < 5000 && atomic_load(&t.count) == 0; i++) usleep(1000);
	for (int i = 1; i <= ENGINE_QUEUE_MAX; i++) r[i] = submit(1, NH_OK);
	assert_null(submit(1, NH_ERR_LIMIT));
	for (int i = 0; i <= ENGINE_QUEUE_MAX; i++) engine_request_release(r[i]);
	atomic_store(&t.hold, false);
	toy_run run = {0};
	engine_request *next = NULL;
	engine_spec spec = toy_spec(p, 20, 1);
	for (int i = 0; i < 5000 && engine_submit(g, &spec, &next, NULL) != NH_OK; i++) usleep(1000);
	toy_collect(&run, next);
	assert_int_equal(run.tokens, 1);
	toy_run_free(&run);
	mem_free(r);
	stop();
}

static void *client(void *user)
{
	(void)user;
	static _Thread_local toy_run run = {0};
	for (int i = 0; i < 25; i++) {
		engine_spec spec = toy_spec(p, 20, 5);
		spec.ignore_end = true;
		engine_request *r;
		if (engine_submit(g, &spec, &r, NULL) != NH_OK) return (void *)(uintptr_t) "submit";
		if (i % 5 == 4) {
			engine_request_release(r);
			continue;
		}
		if (i % 5 == 3) engine_request_cancel(r);
		toy_collect(&run, r);
		bool good = i % 5 == 3 || (run.tokens == 5 && run.finish == NH_FINISH_LENGTH);
		toy_run_free(&run);
		if (!good) return (void *)(uintptr_t) "result";
	}
	return NULL;
}

static void many_threads(void **state)
{
	(void)state;
	start(0);
	pthread_t thread[6];
	for (int i = 0; i < 6; i++) pthread_create(&thread[i], NULL, client, NULL);
	for (int i = 0; i < 6; i++) {
		void *what;
		pthread_join(thread[i], &what);
		if (what) fail_msg("%s", (char *)what);
	}
	engine_stats s;
	engine_get_stats(g, &s);
	assert_int_equal(s.requests, 150);
	assert_int_equal(s.failed, 0);
	stop();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(in_order_one_at_a_time),
	    cmocka_unit_test(those_that_wait_can_be_cancelled),
	    cmocka_unit_test(the_queue_is_bounded),
	    cmocka_unit_test(many_threads),
	};
	return cmocka_run_group_tests_name("loop", tests, NULL, NULL);
}
