/* SPDX-License-Identifier: Apache-2.0
 * test_bench_probe.c: the probe's loops read all of their buffer, and its bandwidth is that of an independent reader in the same second.
 */
#include "test.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/base_clock.h"
#include "base/base_jobs.h"
#include "base/base_mem.h"
#include "cmd/bench/bench.h"
#include "cmd/bench/bench_probe.h"

/* Every loop gives the same sum, and a change of any word changes it. */
static void every_loop_reads_every_byte(void **state)
{
	(void)state;
	const size_t bytes = 4 * LOOP_UNIT;
	uint64_t *w = mem_aligned(64, bytes), want = 0;
	loop_read loop;
	int loops = 0;
	assert_non_null(w);
	for (size_t i = 0; i < bytes / 8; i++) {
		w[i] = i * i + 7;
		want += w[i];
	}
	for (; loop_read_at(loops, &loop); loops++) {
		assert_true(loop.run(w, bytes) == want);
		for (size_t i = 0; i < bytes / 8; i += 61) {
			w[i] += 5;
			assert_true(loop.run(w, bytes) == want + 5);
			w[i] -= 5;
		}
	}
	print_message("%d loops\n", loops);
	assert_true(loops >= 4);
	mem_free(w);
}

static void maths_counts_what_it_does(void **state)
{
	(void)state;
	loop_maths m;
	int n = 0;
	for (; loop_maths_at(n, &m); n++) {
		float sink = 0;
		double one = m.run(1000, &sink), two = m.run(2000, &sink);
		assert_true(one > 0 && two == 2 * one);
		assert_true(sink == sink && sink > 0 && sink < 1e6f);
	}
	assert_true(n >= 1);
}

/* --- an independent reader: words joined by exclusive or from four places, a thread of its own, no probe code --- */

typedef struct reader {
	const uint32_t *p;
	size_t n; /* of words */
	uint32_t sum;
	int64_t ns;
} reader;

#if defined(__x86_64__)
__attribute__((target("avx2")))
#endif
static void *
read_words(void *user)
{
	typedef uint32_t u8 __attribute__((vector_size(32)));
	reader *r = user;
	const u8 *p = (const u8 *)(const void *)r->p;
	struct timespec t, u;
	u8 a = {0}, b = {0}, c = {0}, d = {0};
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	const u8 *far = p + r->n / 32, *mid = p + r->n / 16, *end = p + r->n / 32 * 3;
	for (const u8 *stop = far; p < stop; p += 4, far += 4, mid += 4, end += 4) {
		a ^= p[0] ^ p[1] ^ p[2] ^ p[3];
		b ^= far[0] ^ far[1] ^ far[2] ^ far[3];
		c ^= mid[0] ^ mid[1] ^ mid[2] ^ mid[3];
		d ^= end[0] ^ end[1] ^ end[2] ^ end[3];
	}
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &u);
	r->ns = (int64_t)(u.tv_sec - t.tv_sec) * 1000000000 + (u.tv_nsec - t.tv_nsec);
	r->sum = (a ^ b ^ c ^ d)[0];
	return NULL;
}

/* One thread by processor time: other programs of this machine share its memory, so readings alternate and the best of each counts. */
static void bandwidth_agrees_with_an_independent_reader(void **state)
{
	(void)state;
	const size_t bytes = (size_t)256 << 20;
#if defined(__x86_64__)
	if (!__builtin_cpu_supports("avx2")) NOT_RUN("the independent reader needs AVX2");
#endif
	nh_error e;
	probe *p;
	probe_reading r;
	uint32_t *own = mem_pages(bytes);
	double best = 0, other = 0, closest = 0;
	uint32_t sum = 0;
	assert_non_null(own);
	for (size_t i = 0; i < bytes / 4; i++) own[i] = (uint32_t)i;
	assert_int_equal(probe_open(&p, &(probe_options){.threads = 1, .bytes = bytes, .thread_time = true}, &e), NH_OK);
	for (int pass = 0; pass < 40 && (pass < 8 || closest < 0.95); pass++) {
		pthread_t t;
		reader q;
		probe_read(p, &r);
		assert_true(r.loops >= 4);
		if (r.bytes_s > best) best = r.bytes_s;
		double rate = 0;
		for (int part = 0; part < 4; part++) { /* the probe's readings are of quarters too */
			q = (reader){.p = own + bytes / 16 * (size_t)part, .n = bytes / 16};
			assert_int_equal(pthread_create(&t, NULL, read_words, &q), 0);
			pthread_join(t, NULL);
			sum |= q.sum & 2;
			double one = (double)bytes / 4 / (double)q.ns * 1e9;
			rate = one > rate ? one : rate;
		}
		if (rate > other) other = rate;
		closest = best < other ? best / other : other / best;
	}
	print_message("probe %.2f GB/s, independent reader %.2f GB/s\n", best / 1e9, other / 1e9);
	assert_true(closest >= 0.95 && sum != 1);
	probe_close(p);
	mem_pages_free(own);
}

static void bounds_take_the_larger(void **state)
{
	(void)state;
	const char *limit;
	assert_true(bench_bound(10, 5, 3, 3, &limit) == 2);
	assert_string_equal(limit, "bytes");
	assert_true(bench_bound(10, 5, 9, 3, &limit) == 3);
	assert_string_equal(limit, "flops");
	double v[] = {3, 1, 2, 10};
	bench_spread s = bench_spread_of(v, 4);
	assert_true(s.median == 2.5 && s.min == 1 && s.max == 10 && s.n == 4);
	int64_t list[3];
	assert_int_equal(bench_list("1k,8", list, 3), 2);
	assert_true(list[0] == 1024 && list[1] == 8);
	assert_int_equal(bench_list("1,,2", list, 3), -1);
	assert_int_equal(bench_list("0", list, 3), -1);
	assert_int_equal(bench_list("1,2,3,4", list, 3), -1);
	assert_true(bench_named("a,bc", "bc") && !bench_named("a,bc", "b") && bench_named(NULL, "b"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(every_loop_reads_every_byte), cmocka_unit_test(maths_counts_what_it_does),
	    cmocka_unit_test(bandwidth_agrees_with_an_independent_reader), cmocka_unit_test(bounds_take_the_larger)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
