/* SPDX-License-Identifier: Apache-2.0
 * test_torture.c: the nth allocation fails, and every one after it, for n = 0, 1, 2 ... until nothing fails any more: on the way from files to an open
 * engine, and on the way of a request with text, log-probabilities, a penalty, two choices and a session. Each time: a clear error or a right answer, no
 * crash, no leak, and the next request is answered as before. Through the public interface. n is printed.
 */
#include "test.h"

#include <string.h>

#include "base/base_mem.h"
#include "common/model_bench.h"
#include "nh/nh.h"

#define TOKENS 6

typedef struct {
	nh_status status;
	int32_t token[2][TOKENS];
	int tokens[2];
} answer;

static const char *checkpoint(void)
{
	static const char *config[] = {
	    "hidden_size=32", "vocab_size=320", "chunk_size=8", "mamba_num_heads=2", "mamba_head_dim=16", "ssm_state_size=16", "n_groups=1"};
	const mk_options o = {.format = MK_MIXED, .seed = 9, .pattern = "ME*-", .config = config, .config_count = ARRAY_LEN(config)};
	return bench_checkpoint("torture", &o);
}

static nh_status open_all(const char *dir, nh_model **m, nh_engine **g, nh_error *e)
{
	nh_model_options mo;
	nh_engine_options eo;
	nh_model_options_init(&mo, sizeof mo);
	nh_engine_options_init(&eo, sizeof eo);
	eo.max_context = 128;
	eo.max_sequences = 4;
	eo.memory_bytes = (uint64_t)64 << 20;
	*m = NULL;
	*g = NULL;
	nh_status s = nh_model_open(m, dir, &mo, e);
	return s == NH_OK ? nh_engine_open(g, *m, &eo, e) : s;
}

/* One request; choices 2 makes it fork, a session is continued with two more tokens. */
static answer ask(nh_engine *g, int choices, const nh_session *from, nh_session **kept)
{
	static const int32_t PROMPT[11] = {40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50};
	static const char *const STOP[1] = {"\x01never"};
	answer a = {0};
	nh_request_options o;
	nh_request *r = NULL;
	nh_event ev;
	nh_error e = {0};
	nh_request_options_init(&o, sizeof o);
	o.prompt = PROMPT;
	o.prompt_tokens = from ? 2 : 11;
	o.max_tokens = TOKENS;
	o.ignore_end = true;
	o.temperature = 0.8;
	o.seed = 3;
	o.repetition_penalty = 1.1;
	o.top_logprobs = 2;
	o.text = true;
	o.split_reasoning = true;
	o.stop = STOP;
	o.stop_count = 1;
	o.choices = choices;
	o.keep_session = kept != NULL;
	if (from) a.status = nh_session_fork(from, &o.session, &e); /* a submit consumes its session */
	if (a.status == NH_OK) a.status = nh_engine_submit(g, &o, &r, &e);
	if (a.status != NH_OK) {
		nh_session_close(o.session);
		return a;
	}
	for (nh_status s; (s = nh_request_next(r, &ev, sizeof ev, 20000000)) != NH_ERR_STATE;) {
		if (s != NH_OK) fail_msg("waiting for an event: %s", nh_status_name(s));
		if (ev.type == NH_EVENT_TOKEN && ev.choice < 2 && a.tokens[ev.choice] < TOKENS)
			a.token[ev.choice][a.tokens[ev.choice]++] = ev.token;
		if (ev.type == NH_EVENT_ERROR) a.status = (nh_status)ev.error.code;
	}
	if (kept && a.status == NH_OK) a.status = nh_request_take_session(r, kept, &e);
	nh_request_release(r);
	return a;
}

static void same(const answer *want, const answer *got, size_t n)
{
	if (got->status != NH_OK || memcmp(want->token, got->token, sizeof want->token) != 0)
		fail_msg("n = %zu: a request is not answered as before (%s)", n, nh_status_name(got->status));
}

static void opening(void **state)
{
	(void)state;
	const char *dir = checkpoint();
	size_t n = 0, failures = 0, step = 1, before = mem_live();
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	step = 3;
#endif
	for (bool failed = true; failed; n += step) {
		nh_model *m;
		nh_engine *g;
		nh_error e = {0};
		mem_fail_after(n);
		nh_status s = open_all(dir, &m, &g, &e);
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
	assert_int_equal(open_all(checkpoint(), &m, &g, &e), NH_OK);
	nh_session *kept = NULL, *again = NULL;
	answer want = ask(g, 2, NULL, NULL), first = ask(g, 1, NULL, &kept), next = ask(g, 1, kept, NULL);
	assert_true(want.status == NH_OK && first.status == NH_OK && next.status == NH_OK && want.tokens[1] == TOKENS);
	for (bool failed = true; failed; n++) {
		mem_fail_after(n);
		answer a = ask(g, 2, NULL, NULL), b = ask(g, 1, NULL, &again), c = {0};
		if (b.status == NH_OK && again) c = ask(g, 1, again, NULL);
		mem_fail_after(SIZE_MAX);
		nh_session_close(again);
		again = NULL;
		failed = a.status != NH_OK || b.status != NH_OK || c.status != NH_OK;
		failures += failed;
		partial += failed && a.status == NH_OK;
		if (a.status == NH_OK) same(&want, &a, n);
		if (b.status == NH_OK) same(&first, &b, n);
		if (a.status != NH_OK) assert_int_equal(a.status, NH_ERR_NOMEM);
		answer after = ask(g, 2, NULL, NULL), on = ask(g, 1, kept, NULL);
		same(&want, &after, n);
		same(&next, &on, n);
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
