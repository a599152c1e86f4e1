/* SPDX-License-Identifier: Apache-2.0
 * test_torture.c: the nth allocation fails, and every one after it, for n = 0, 1, 2 ... until nothing fails any more: on the way from files to an open
 * engine, and on the way of a request with text, log-probabilities, a penalty, two choices and a session. Each time: a clear error or a right answer, no
 * crash, no leak, and the next request is answered as before. Through the public interface. n is printed.
 */
#include "helper_torture.h"

static void opening(void **state)
{
	(void)state;
	torture_checkpoint();
	size_t n = 0, failures = 0, step = 1, before = mem_live();
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	step = 3;
#endif
	for (bool failed = true; failed; n += step) {
		nh_model *m;
		nh_engine *g;
		nh_error e = {0};
		mem_fail_after(n);
		nh_status s = torture_open(NULL, &m, &g, &e);
		nh_engine_close(g);
		nh_model_close(m);
		mem_fail_after(SIZE_MAX);
		failed = s != NH_OK;
		if (failed) {
			failures++;
			if (s != NH_ERR_NOMEM) fail_msg("n = %zu: %s: %s", n, nh_status_name(s), e.text);
			assert_true(e.text[0] != 0);
		}
		if (mem_live() != before) fail_msg("n = %zu: %zu allocations leaked", n, mem_live() - before);
		assert_true(n < 200000);
	}
	printf("TORTURE opening: %zu failures at n = 0 .. %zu, no leak\n", failures, n);
	assert_true(failures > 50);
}

static void a_request(void **state)
{
	(void)state;
	nh_model *m;
	nh_engine *g;
	nh_error e = {0};
	size_t failures = 0, partial = 0, n = 0, before = mem_live();
	assert_int_equal(torture_open(NULL, &m, &g, &e), NH_OK);
	nh_session *kept = NULL, *again = NULL;
	answer want = torture_ask(g, 2, NULL, NULL), first = torture_ask(g, 1, NULL, &kept), next = torture_ask(g, 1, kept, NULL);
	assert_true(want.status == NH_OK && first.status == NH_OK && next.status == NH_OK && want.tokens[1] == TOKENS);
	for (bool failed = true; failed; n++) {
		mem_fail_after(n);
		answer a = torture_ask(g, 2, NULL, NULL), b = torture_ask(g, 1, NULL, &again), c = {0};
		if (b.status == NH_OK && again) c = torture_ask(g, 1, again, NULL);
		mem_fail_after(SIZE_MAX);
		nh_session_close(again);
		again = NULL;
		failed = a.status != NH_OK || b.status != NH_OK || c.status != NH_OK;
		failures += failed;
		partial += failed && a.status == NH_OK;
		if (a.status == NH_OK) torture_expect("a request", n, &want, &a);
		if (b.status == NH_OK) torture_expect("a request", n, &first, &b);
		if (a.status != NH_OK) assert_int_equal(a.status, NH_ERR_NOMEM);
		answer after = torture_ask(g, 2, NULL, NULL), on = torture_ask(g, 1, kept, NULL);
		torture_expect("a request", n, &want, &after);
		torture_expect("a request", n, &next, &on);
		assert_true(n < 5000);
	}
	printf("TORTURE a request: %zu failures at n = 0 .. %zu, %zu of them after the first answer; the next one always right\n", failures, n,
	    partial);
	assert_true(failures > 20);
	nh_session_close(kept);
	nh_engine_close(g);
	nh_model_close(m);
	assert_int_equal(mem_live(), before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(opening), cmocka_unit_test(a_request)};
	return cmocka_run_group_tests_name("torture", tests, NULL, NULL);
}
