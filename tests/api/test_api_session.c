/* SPDX-License-Identifier: Apache-2.0
 * test_api_session.c: sessions through the public interface: continued is never stopped, a fork is separate, a file restores in another engine, and
 * every refusal leaves all as it was.
 */
#include "helper_tiny.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base_mem.h"
#include "test.h"

static const int32_t PROMPT[] = {20, 57, 94, 131, 168, 205, 242, 279, 316, 353, 390};
#define PROMPT_COUNT (sizeof PROMPT / sizeof *PROMPT)

static nh_request_options asking(int64_t max_tokens)
{
	nh_request_options o = tiny_request(PROMPT, PROMPT_COUNT, max_tokens);
	o.ignore_end = true;
	o.top_logprobs = 1;
	o.temperature = 0.9;
	o.seed = 7;
	return o;
}

/* Runs to the end and takes the session. */
static nh_session *keep(tiny_run *run, nh_engine *g, nh_request_options *o)
{
	nh_request *r;
	nh_session *s, *again;
	nh_error e = {0};
	nh_event ev;
	o->keep_session = true;
	memset(run, 0, sizeof *run);
	if (nh_engine_submit(g, o, &r, &e) != NH_OK) fail_msg("%s", e.text);
	while (nh_request_next(r, &ev, sizeof ev, -1) == NH_OK) {
		if (ev.type == NH_EVENT_TOKEN) {
			run->logprob[run->tokens] = ev.logprob;
			run->token[run->tokens++] = ev.token;
		}
		if (ev.last) run->stats = ev.stats, run->finish = (nh_finish)ev.finish;
	}
	if (nh_request_take_session(r, &s, &e) != NH_OK) fail_msg("%s", e.text);
	assert_int_equal(nh_request_take_session(r, &again, &e), NH_ERR_STATE);
	assert_null(again);
	nh_request_release(r);
	return s;
}

/* 40 tokens in one go are 12, a text of its own, and the rest. */
static void continued_is_never_stopped(void **state)
{
	(void)state;
	nh_model *m = tiny_open(NULL);
	nh_engine *g = tiny_engine(m, 0);
	nh_error e;
	tiny_run whole, first, rest;
	nh_request_options o = asking(40);
	tiny_do(&whole, g, &o);
	o = asking(12);
	nh_session *s = keep(&first, g, &o);
	size_t n;
	const int32_t *ids = nh_session_tokens(s, &n);
	assert_int_equal(n, PROMPT_COUNT + 12);
	assert_memory_equal(ids, PROMPT, sizeof PROMPT);
	assert_memory_equal(ids + PROMPT_COUNT, first.token, 12 * sizeof *ids);
	nh_session_info info;
	nh_session_get_info(s, &info, sizeof info);
	assert_int_equal(info.tokens, n);
	assert_int_equal(info.computed, n - 1); /* the last one is pending */
	assert_int_equal(info.generated, 12);

	o = asking(28);
	o.prompt = NULL;
	o.prompt_tokens = 0;
	o.session = s;
	tiny_do(&rest, g, &o); /* s is the request's now */
	assert_int_equal(rest.stats.computed_tokens, 0);
	assert_int_equal(rest.tokens, 28);
	assert_memory_equal(first.token, whole.token, 12 * sizeof(int32_t));
	assert_memory_equal(rest.token, whole.token + 12, 28 * sizeof(int32_t));
	assert_memory_equal(rest.logprob, whole.logprob + 12, 28 * sizeof(double));

	/* A submit that fails leaves the session the caller's. */
	o = asking(4);
	s = keep(&first, g, &o);
	nh_request *r;
	int32_t bad = -5;
	o.prompt = &bad;
	o.prompt_tokens = 1;
	o.session = s;
	assert_int_equal(nh_engine_submit(g, &o, &r, &e), NH_ERR_ARG);
	nh_session_tokens(s, &n);
	assert_int_equal(n, PROMPT_COUNT + 4);
	nh_session_close(s);
	nh_session_close(NULL);
	nh_engine_close(g);
	nh_model_close(m);
	assert_int_equal(mem_live(), 0);
}

static void a_fork_is_separate(void **state)
{
	(void)state;
	nh_model *m = tiny_open(NULL);
	nh_engine *g = tiny_engine(m, 0);
	nh_error e;
	static const int32_t LEFT[] = {400, 401}, RIGHT[] = {900, 901, 902};
	tiny_run a, b, a2, b2;
	nh_request_options o = asking(6);
	nh_session *s = keep(&a, g, &o), *t;
	assert_int_equal(nh_session_fork(s, &t, &e), NH_OK);
	nh_session *u, *v;
	assert_int_equal(nh_session_fork(s, &u, &e), NH_OK);
	assert_int_equal(nh_session_fork(t, &v, &e), NH_OK);
	nh_request_options left = asking(10), right = asking(10);
	left.prompt = LEFT, left.prompt_tokens = 2, left.session = s;
	right.prompt = RIGHT, right.prompt_tokens = 3, right.session = t;
	nh_request *ra, *rb; /* both at once */
	assert_int_equal(nh_engine_submit(g, &left, &ra, &e), NH_OK);
	assert_int_equal(nh_engine_submit(g, &right, &rb, &e), NH_OK);
	tiny_collect(&a, ra);
	tiny_collect(&b, rb);
	assert_int_equal(a.stats.computed_tokens, 2);
	assert_int_equal(b.stats.computed_tokens, 3);
	left.session = u, right.session = v;
	tiny_do(&b2, g, &right);
	tiny_do(&a2, g, &left);
	assert_memory_equal(a.logprob, a2.logprob, 10 * sizeof(double));
	assert_memory_equal(b.logprob, b2.logprob, 10 * sizeof(double));
	assert_memory_not_equal(a.token, b.token, 10 * sizeof(int32_t));
	nh_engine_close(g);
	nh_model_close(m);
	assert_int_equal(mem_live(), 0);
}

static void a_file_restores_elsewhere(void **state)
{
	(void)state;
	nh_model *m = tiny_open(NULL), *other = tiny_open("exact");
	nh_engine *g = tiny_engine(m, 0), *h = tiny_engine(other, 0);
	nh_error e = {0};
	char file[] = "/tmp/test_api_session.XXXXXX";
	close(mkstemp(file));
	tiny_run first, here, there;
	nh_request_options o = asking(9);
	nh_session *s = keep(&first, g, &o), *t;
	if (nh_session_save(s, file, &e) != NH_OK) fail_msg("%s", e.text);
	nh_session_info a, b;
	nh_session_get_info(s, &a, sizeof a);
	assert_int_equal(nh_session_read_info(file, &b, sizeof b, &e), NH_OK);
	assert_string_equal(a.identity, b.identity);
	assert_string_equal(b.model, "tiny");
	assert_string_equal(b.numerics, "portable");
	assert_int_equal(b.tokens, a.tokens);
	assert_int_equal(b.computed, a.computed);
	assert_int_equal(b.generated, 9);
	struct {
		nh_session_info info; /* an older program's is shorter */
		int guard;
	} old = {.guard = 77};
	assert_int_equal(nh_session_read_info(file, &old.info, offsetof(nh_session_info, arm), &e), NH_OK);
	assert_int_equal(old.info.arm[0], 0);
	assert_int_equal(old.guard, 77);

	o = asking(20);
	o.prompt_tokens = 0;
	o.session = s;
	tiny_do(&here, g, &o);
	assert_int_equal(nh_session_load(h, file, 0, &t, &e), NH_ERR_UNSUPPORTED);
	assert_null(t);
	assert_non_null(strstr(e.text, "portable"));
	assert_non_null(strstr(e.text, "exact"));
	assert_int_equal(nh_session_load(g, file, 8, &t, &e), NH_ERR_ARG);
	assert_int_equal(nh_session_load(g, "/nonexistent/file", 0, &t, &e), NH_ERR_NOTFOUND);
	nh_engine_close(g);
	g = tiny_engine(m, 0);
	if (nh_session_load(g, file, 0, &t, &e) != NH_OK) fail_msg("%s", e.text);
	o.session = t;
	nh_request *r;
	assert_int_equal(nh_engine_submit(h, &o, &r, &e), NH_ERR_ARG);
	assert_string_equal(e.text, "session: belongs to another engine");
	tiny_do(&there, g, &o);
	assert_int_equal(there.stats.computed_tokens, 0);
	assert_int_equal(there.tokens, 20);
	assert_memory_equal(there.logprob, here.logprob, 20 * sizeof(double));
	unlink(file);
	nh_engine_close(g);
	nh_engine_close(h);
	nh_model_close(m);
	nh_model_close(other);
	assert_int_equal(mem_live(), 0);
}

static void what_can_not_be_kept(void **state)
{
	(void)state;
	nh_model *m = tiny_open(NULL);
	nh_engine *g = tiny_engine(m, 0);
	nh_error e;
	nh_request *r;
	nh_session *s;
	nh_event ev;
	nh_request_options o = asking(3);
	assert_int_equal(nh_engine_submit(g, &o, &r, &e), NH_OK); /* not asked for */
	while (nh_request_next(r, &ev, sizeof ev, -1) == NH_OK) {
	}
	assert_int_equal(nh_request_take_session(r, &s, &e), NH_ERR_STATE);
	nh_request_release(r);
	o = asking(-1);
	o.keep_session = true;
	o.choices = 2;
	assert_int_equal(nh_engine_submit(g, &o, &r, &e), NH_ERR_ARG);
	o.choices = 1;
	assert_int_equal(nh_engine_submit(g, &o, &r, &e), NH_OK);
	assert_int_equal(nh_request_take_session(r, &s, &e), NH_ERR_STATE); /* not ended */
	assert_int_equal(nh_request_next(r, &ev, sizeof ev, -1), NH_OK);
	nh_request_cancel(r); /* a cancelled answer can go on */
	size_t told = 1, n;
	while (nh_request_next(r, &ev, sizeof ev, -1) == NH_OK) told += ev.type == NH_EVENT_TOKEN;
	assert_int_equal(ev.finish, NH_FINISH_CANCELLED);
	assert_int_equal(nh_request_take_session(r, &s, &e), NH_OK);
	nh_session_tokens(s, &n);
	assert_int_equal(n, PROMPT_COUNT + told);
	nh_session_close(s);
	nh_request_release(r);
	assert_int_equal(nh_engine_submit(g, &o, &r, &e), NH_OK); /* kept and never taken */
	nh_request_release(r);
	nh_engine_close(g);
	nh_model_close(m);
	assert_int_equal(mem_live(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(continued_is_never_stopped),
	    cmocka_unit_test(a_fork_is_separate),
	    cmocka_unit_test(a_file_restores_elsewhere),
	    cmocka_unit_test(what_can_not_be_kept),
	};
	return cmocka_run_group_tests_name("api_session", tests, NULL, NULL);
}
