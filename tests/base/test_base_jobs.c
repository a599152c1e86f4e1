/* SPDX-License-Identifier: Apache-2.0
 * test_base_jobs.c: every accepted job runs once, jobs_for covers each index once, a full queue refuses, destroying runs what waits.
 */
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/base_jobs.h"
#include "base/base_mem.h"

typedef struct tally {
	atomic_int ran[1000];
	atomic_bool gate;
} tally;

static void one(void *user) { atomic_fetch_add((atomic_int *)user, 1); }

static void each(void *user, int64_t i) { atomic_fetch_add(&((tally *)user)->ran[i], 1); }

static void wait_gate(void *user)
{
	while (!atomic_load((atomic_bool *)user)) sched_yield();
}

static void runs_each_job_once(void **state)
{
	(void)state;
	static tally t;
	jobs *p;
	nh_error e;
	assert_int_equal(jobs_create(&p, 3, &e), NH_OK);
	assert_int_equal(jobs_threads(p), 3);
	for (int i = 0; i < 200; i++) assert_int_equal(jobs_submit(p, one, &t.ran[i]), NH_OK);
	jobs_drain(p);
	for (int i = 0; i < 200; i++) assert_int_equal(t.ran[i], 1);
	jobs_for(p, 1000, each, &t);
	for (int i = 0; i < 1000; i++) assert_int_equal(t.ran[i], i < 200 ? 2 : 1);
	jobs_for(p, 0, each, &t);
	jobs_destroy(p);
	jobs_destroy(NULL);
	assert_int_equal(mem_live(), 0);
}

static void a_full_queue_refuses(void **state)
{
	(void)state;
	static tally t;
	jobs *p;
	nh_error e;
	assert_int_equal(jobs_create(&p, 1, &e), NH_OK);
	assert_int_equal(jobs_submit(p, wait_gate, &t.gate), NH_OK);
	int accepted = 0;
	while (accepted < 900 && jobs_submit(p, one, &t.ran[accepted]) == NH_OK) accepted++;
	assert_in_range(accepted, JOBS_QUEUE - 1, JOBS_QUEUE); /* the first job may still stand in the queue */
	atomic_store(&t.gate, true);
	jobs_destroy(p); /* runs what waits */
	for (int i = 0; i < 900; i++) assert_int_equal(t.ran[i], i < accepted ? 1 : 0);
	assert_int_equal(mem_live(), 0);
}

static void refuses_a_negative_number(void **state)
{
	(void)state;
	jobs *p;
	nh_error e;
	assert_int_equal(jobs_create(&p, -1, &e), NH_ERR_ARG);
	assert_null(p);
	assert_true(jobs_processors() >= 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(runs_each_job_once),
	    cmocka_unit_test(a_full_queue_refuses),
	    cmocka_unit_test(refuses_a_negative_number),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
