/* SPDX-License-Identifier: Apache-2.0
 * test_cpu_pool.c: every thread runs every job once, barriers hold all of them, ranges cover, and pools come and go.
 */
#include "backend/cpu/cpu_pool.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "test.h"

typedef struct tally {
	cpu_pool *pool;
	atomic_int runs[16];
	atomic_int arrived, early;
	int threads, rounds;
} tally;

static void count(void *user, int thread, int threads)
{
	tally *t = user;
	assert_int_equal(threads, t->threads);
	atomic_fetch_add(&t->runs[thread], 1);
}

static void every_thread_runs_every_job(void **state)
{
	(void)state;
	for (int n = 1; n <= 8; n++) {
		tally t = {.threads = n};
		nh_error e = {0};
		assert_int_equal(cpu_pool_create(&t.pool, n, &e), NH_OK);
		assert_int_equal(cpu_pool_threads(t.pool), n);
		for (int job = 0; job < 300; job++) {
			cpu_pool_run(t.pool, count, &t);
			for (int i = 0; i < n; i++) assert_int_equal(atomic_load(&t.runs[i]), job + 1); /* all had returned */
			if (job % 100 == 50) usleep(2000);                                              /* they sleep meanwhile */
		}
		cpu_pool_destroy(t.pool);
	}
}

static void take_part(void *user, int thread, int threads)
{
	tally *t = user;
	if (threads < 1 || threads > t->threads || thread < 0 || thread >= threads) atomic_fetch_add(&t->early, 1);
	if (thread == 0) atomic_store(&t->arrived, threads);
	atomic_fetch_add(&t->runs[thread], 1);
	cpu_pool_barrier(t->pool);
	if (atomic_load(&t->arrived) != threads) atomic_fetch_add(&t->early, 1); /* one team, one size */
	cpu_pool_barrier(t->pool);
}

/* Of a team, whatever its size, each number runs the job once and has returned. */
static void a_small_job_runs_with_whoever_is_there(void **state)
{
	(void)state;
	for (int n = 1; n <= 8; n++) {
		tally t = {.threads = n};
		nh_error e = {0};
		assert_int_equal(cpu_pool_create(&t.pool, n, &e), NH_OK);
		int ran[16] = {0};
		for (int job = 0; job < 400; job++) {
			if (job % 50 == 25) {
				cpu_pool_run(t.pool, count, &t); /* everyone, also when small jobs have given up on them */
				for (int i = 0; i < n; i++) assert_int_equal(atomic_load(&t.runs[i]), ++ran[i]);
				if (job % 100 == 25) usleep(1000);
			}
			cpu_pool_run_some(t.pool, take_part, &t);
			for (int i = 0; i < atomic_load(&t.arrived); i++) ran[i]++;
			for (int i = 0; i < n; i++) assert_int_equal(atomic_load(&t.runs[i]), ran[i]);
		}
		assert_int_equal(atomic_load(&t.early), 0);
		cpu_pool_destroy(t.pool);
	}
}

/* Before a barrier each thread raises `arrived`; behind it all must have. */
static void meet(void *user, int thread, int threads)
{
	tally *t = user;
	(void)thread;
	for (int round = 1; round <= t->rounds; round++) {
		atomic_fetch_add(&t->arrived, 1);
		cpu_pool_barrier(t->pool);
		if (atomic_load(&t->arrived) < round * threads) atomic_fetch_add(&t->early, 1);
		cpu_pool_barrier(t->pool);
	}
}

static void barriers_hold_everyone(void **state)
{
	(void)state;
	for (int n = 1; n <= 8; n++) {
		tally t = {.threads = n, .rounds = 60};
		nh_error e = {0};
		assert_int_equal(cpu_pool_create(&t.pool, n, &e), NH_OK);
		for (int job = 0; job < 3; job++) {
			atomic_store(&t.arrived, 0);
			cpu_pool_run(t.pool, meet, &t);
			assert_int_equal(atomic_load(&t.arrived), n * t.rounds);
		}
		assert_int_equal(atomic_load(&t.early), 0);
		cpu_pool_destroy(t.pool);
	}
}

static void pools_come_and_go(void **state)
{
	(void)state;
	for (int i = 0; i < 60; i++) {
		tally t = {.threads = 1 + i % 8};
		nh_error e = {0};
		assert_int_equal(cpu_pool_create(&t.pool, t.threads, &e), NH_OK);
		if (i % 3) cpu_pool_run(t.pool, count, &t); /* else none ever ran */
		cpu_pool_destroy(t.pool);
	}
	cpu_pool_destroy(NULL);
	nh_error e = {0};
	cpu_pool *p = NULL;
	assert_int_equal(cpu_pool_create(&p, -1, &e), NH_ERR_ARG);
	assert_non_null(strstr(e.text, "is -1, expected 0 to 256"));
	assert_int_equal(cpu_pool_create(&p, 257, &e), NH_ERR_ARG);
	assert_null(p);
	assert_int_equal(cpu_pool_create(&p, 0, &e), NH_OK);
	assert_true(cpu_pool_threads(p) >= 1);
	cpu_pool_destroy(p);
}

static void ranges_cover_without_overlap(void **state)
{
	(void)state;
	for (int64_t total = 0; total < 70; total++)
		for (int64_t unit = 1; unit < 20; unit += 3)
			for (int n = 1; n <= 9; n++) {
				int64_t at = 0;
				for (int i = 0; i < n; i++) {
					int64_t from, to;
					cpu_range(total, unit, i, n, &from, &to);
					assert_true(from == at && to >= from && to <= total);
					assert_true(from % unit == 0 || from == total);
					at = to;
				}
				assert_int_equal(at, total);
			}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(every_thread_runs_every_job), cmocka_unit_test(barriers_hold_everyone),
	    cmocka_unit_test(a_small_job_runs_with_whoever_is_there), cmocka_unit_test(pools_come_and_go),
	    cmocka_unit_test(ranges_cover_without_overlap)};
	return cmocka_run_group_tests_name("cpu_pool", tests, NULL, NULL);
}
