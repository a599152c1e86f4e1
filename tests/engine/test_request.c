/* SPDX-License-Identifier: Apache-2.0
 * test_request.c: the queue of events between the engine and a slow, absent or impatient reader.
 */
#include "helper_toy.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/base_clock.h"
#include "base/base_mem.h"
#include "test.h"

static toy t;
static engine *g;
static int32_t *p;

static int setup(void **state)
{
	(void)state;
	toy_open(&t, "exact", true);
	nh_error e = {0};
	if (engine_open(&g, &t.parts, &(engine_options){.step_tokens = 8, .event_limit = 4}, &e) != NH_OK) fail_msg("%s", e.text);
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

static engine_request *submit(int64_t max_tokens)
{
	engine_spec spec = toy_spec(p, 20, max_tokens);
	spec.ignore_end = true;
	engine_request *r;
	nh_error e = {0};
	if (engine_submit(g, &spec, &r, &e) != NH_OK) fail_msg("%s", e.text);
	return r;
}

static void wait_for_steps(int count)
{
	for (int i = 0; i < 5000 && atomic_load(&t.count) < count; i++) usleep(1000);
	assert_true(atomic_load(&t.count) >= count);
}

static void a_slow_reader_pauses_his_request_alone(void **state)
{
	(void)state;
	engine_request *r = submit(50);
	/* Four events fit: 3 prompt steps with one token, 3 decode steps. */
	wait_for_steps(6);
	usleep(60000);
	assert_int_equal(atomic_load(&t.count), 6);
	toy_run other = {0};
	toy_collect(&other, submit(5)); /* somebody else's goes on */
	assert_int_equal(other.tokens, 5);
	toy_run_free(&other);
	int after = atomic_load(&t.count);
	assert_int_equal(after, 6 + 3 + 4);
	engine_event e;
	assert_int_equal(engine_request_next(r, &e, -1), NH_OK);
	assert_int_equal(e.position, 20);
	usleep(60000);
	assert_int_equal(atomic_load(&t.count), after); /* the event is still being looked at */
	assert_int_equal(engine_request_next(r, &e, -1), NH_OK);
	wait_for_steps(after + 1);
	toy_run run = {0};
	toy_collect(&run, r);
	assert_int_equal(run.tokens, 48); /* none was lost */
	assert_int_equal(run.event[0].position, 22);
	assert_int_equal(run.finish, NH_FINISH_LENGTH);
	toy_run_free(&run);
}

static void cancel_gets_through_to_a_paused_request(void **state)
{
	(void)state;
	engine_request *r = submit(-1);
	wait_for_steps(6);
	usleep(20000);
	int64_t began = clock_us();
	engine_request_cancel(r);
	engine_request_cancel(r);
	/* Nobody reads: the engine lets go of it all the same, and the next request runs. */
	engine_request *next = submit(2);
	toy_run run = {0};
	toy_collect(&run, next);
	assert_int_equal(run.finish, NH_FINISH_LENGTH);
	assert_true(clock_us() - began < 2000000);
	toy_run_free(&run);
	toy_collect(&run, r);
	assert_int_equal(run.finish, NH_FINISH_CANCELLED);
	assert_int_equal(run.tokens, 4); /* those that fit before */
	toy_run_free(&run);
	engine_stats s;
	engine_get_stats(g, &s);
	assert_int_equal(s.cancelled, 1);
	assert_int_equal(s.requests, 2);
}

static void cancel_between_pieces(void **state)
{
	(void)state;
	atomic_store(&t.sleep_us, 30000);
	engine_request *r = submit(10);
	wait_for_steps(1);
	engine_request_cancel(r);
	toy_run run = {0};
	toy_collect(&run, r);
	assert_int_equal(run.finish, NH_FINISH_CANCELLED);
	assert_int_equal(run.tokens, 0);
	assert_true(run.stats.computed_tokens >= 8 && run.stats.computed_tokens < 20);
	toy_run_free(&run);
}

static void release_while_running(void **state)
{
	(void)state;
	for (int i = 0; i < 20; i++) {
		engine_request *r = submit(-1);
		if (i % 3) wait_for_steps(1);
		if (i % 4 == 0) usleep(2000);
		engine_request_release(r);
	}
	toy_run run = {0};
	toy_collect(&run, submit(3)); /* the slot and the pages came back */
	assert_int_equal(run.finish, NH_FINISH_LENGTH);
	toy_run_free(&run);
	engine_request_release(NULL);
}

static void timeouts(void **state)
{
	(void)state;
	atomic_store(&t.sleep_us, 50000);
	engine_request *r = submit(1);
	engine_event e;
	assert_int_equal(engine_request_next(r, &e, 0), NH_ERR_TIMEOUT);
	int64_t began = clock_us();
	assert_int_equal(engine_request_next(r, &e, 10000), NH_ERR_TIMEOUT);
	assert_true(clock_us() - began >= 9000);
	assert_int_equal(engine_request_next(r, &e, 60000000), NH_OK);
	assert_int_equal(e.type, NH_EVENT_TOKEN);
	assert_int_equal(engine_request_next(r, &e, -1), NH_OK);
	assert_int_equal(e.type, NH_EVENT_DONE);
	assert_true(e.stats.total_us >= e.stats.first_token_us && e.stats.first_token_us >= 150000);
	assert_true(e.stats.prefill_us >= 150000 && e.stats.decode_us >= 0 && e.stats.queue_us >= 0);
	for (int i = 0; i < 3; i++) assert_int_equal(engine_request_next(r, &e, -1), NH_ERR_STATE);
	engine_request_release(r);
}

static void *read_all(void *user)
{
	toy_run *run = mem_alloc(sizeof *run);
	toy_collect(run, user);
	return run;
}

static void close_ends_all_readers(void **state)
{
	(void)state;
	pthread_t thread[5];
	for (int i = 0; i < 5; i++) pthread_create(&thread[i], NULL, read_all, submit(-1));
	engine_request *unread = submit(-1);
	wait_for_steps(10);
	engine_close(g);
	g = NULL;
	int cancelled = 0;
	for (int i = 0; i < 5; i++) {
		void *p_run;
		pthread_join(thread[i], &p_run);
		toy_run *run = p_run;
		cancelled += run->finish == NH_FINISH_CANCELLED;
		toy_run_free(run);
		mem_free(run);
	}
	assert_true(cancelled >= 4);
	/* It outlives the engine. */
	toy_run run = {0};
	toy_collect(&run, unread);
	assert_int_equal(run.finish, NH_FINISH_CANCELLED);
	toy_run_free(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(a_slow_reader_pauses_his_request_alone, setup, teardown),
	    cmocka_unit_test_setup_teardown(cancel_gets_through_to_a_paused_request, setup, teardown),
	    cmocka_unit_test_setup_teardown(cancel_between_pieces, setup, teardown),
	    cmocka_unit_test_setup_teardown(release_while_running, setup, teardown),
	    cmocka_unit_test_setup_teardown(timeouts, setup, teardown),
	    cmocka_unit_test_setup_teardown(close_ends_all_readers, setup, teardown),
	};
	return cmocka_run_group_tests_name("request", tests, NULL, NULL);
}
