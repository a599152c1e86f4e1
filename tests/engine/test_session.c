/* SPDX-License-Identifier: Apache-2.0
 * test_session.c: continued = never stopped, forked = separate, a file = memory; what does not fit is refused by name.
 */
#include "helper_toy.h"

#include <string.h>
#include <unistd.h>

#include "base/base_mem.h"
#include "test.h"

static toy t;
static engine *g;
static int32_t *p;
static char path[256];

static nh_status identity(const void *self, char hex[65], nh_error *e)
{
	(void)e;
	memset(hex, *(const char *)self, 64);
	hex[64] = 0;
	return NH_OK;
}

static engine *open_engine(void)
{
	engine *made;
	nh_error e = {0};
	if (engine_open(&made, &t.parts, &(engine_options){.step_tokens = 16, .max_sequences = 4, .max_context = 512}, &e) != NH_OK)
		fail_msg("%s", e.text);
	return made;
}

static int setup(void **state)
{
	(void)state;
	toy_open(&t, "exact", true);
	t.parts.identity = identity;
	t.parts.identity_self = "a";
	t.parts.name = "toy";
	g = open_engine();
	p = toy_prompt(150, 3);
	snprintf(path, sizeof path, "%s/tests/engine_session.bin", NH_BINARY_DIR);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	engine_close(g);
	mem_free(p);
	toy_close(&t);
	unlink(path);
	assert_int_equal(mem_live(), 0);
	return 0;
}

static engine_spec spec_of(size_t prompt, int64_t tokens)
{
	engine_spec s = toy_spec(p, prompt, tokens);
	s.ignore_end = true;
	s.top_logprobs = 2;
	s.temperature = 0.8;
	s.seed = 9;
	return s;
}

/* The request, and the session that it leaves. */
static engine_session *run_and_keep(toy_run *run, engine_spec spec)
{
	engine_session *s = NULL;
	nh_error e = {0};
	engine_request *r;
	spec.keep_session = true;
	if (engine_submit(g, &spec, &r, &e) != NH_OK) fail_msg("%s", e.text);
	toy_collect_session(run, r, &s);
	return s;
}

static void same_tail(const toy_run *whole, size_t from, const toy_run *part)
{
	assert_int_equal(part->tokens, whole->tokens - from);
	for (size_t i = 0; i < part->tokens; i++) {
		const engine_event *a = &whole->event[from + i], *b = &part->event[i];
		assert_int_equal(a->token, b->token);
		assert_int_equal(a->position, b->position);
		assert_memory_equal(&a->logprob, &b->logprob, sizeof a->logprob);
	}
}

/* Stopped after any number of tokens and continued without any more given: as if it had gone on. By file, too. */
static void continued_is_never_stopped(void **state)
{
	(void)state;
	toy_run whole;
	engine_spec spec = spec_of(70, 30);
	toy_do(&whole, g, &spec);
	int compared = 0;
	for (int stop = 1; stop < 30; stop += 7) {
		toy_run first, rest;
		engine_session *s = run_and_keep(&first, spec_of(70, stop)), *loaded;
		nh_error e = {0};
		size_t count;
		const int32_t *ids = engine_session_tokens(s, &count);
		assert_int_equal(count, 70 + stop);
		assert_memory_equal(ids, p, 70 * sizeof *ids);
		if (stop % 2) { /* through a file and another engine */
			if (engine_session_save(s, path, &e) != NH_OK) fail_msg("%s", e.text);
			engine_session_close(s);
			engine_close(g);
			g = open_engine();
			if (engine_session_load(g, path, 0, &loaded, &e) != NH_OK) fail_msg("%s", e.text);
			s = loaded;
		}
		engine_session_info info;
		engine_session_get_info(s, &info);
		assert_int_equal(info.tokens, 70 + stop);
		assert_int_equal(info.computed, 70 + stop - 1);
		assert_int_equal(info.generated, stop);
		assert_string_equal(info.model, "toy");
		engine_stats before, after;
		engine_get_stats(g, &before);
		spec = spec_of(0, 30 - stop);
		spec.session = s;
		toy_do(&rest, g, &spec);
		engine_get_stats(g, &after);
		assert_int_equal(after.computed_tokens, before.computed_tokens); /* nothing of the prompt again */
		assert_int_equal(rest.stats.computed_tokens, 0);
		same_tail(&whole, (size_t)stop, &rest);
		compared++;
		engine_session_close(s);
		toy_run_free(&first);
		toy_run_free(&rest);
	}
	assert_int_equal(compared, 5);
	toy_run_free(&whole);
}

/* A next turn computes its own tokens alone, and any split of it is no split; two forks of a session do not meet. */
static void turns_and_forks(void **state)
{
	(void)state;
	toy_run first, second[3];
	engine_session *s = run_and_keep(&first, spec_of(70, 11)), *fork;
	nh_error e = {0};
	assert_int_equal(engine_session_fork(s, &fork, &e), NH_OK);
	for (int i = 0; i < 3; i++) {
		engine_spec spec = toy_spec(p + 70, i == 1 ? 33 : 60, 20);
		spec.ignore_end = true;
		spec.session = i == 1 ? fork : s;
		spec.top_logprobs = 1;
		toy_do(&second[i], g, &spec);
		assert_int_equal(second[i].stats.computed_tokens, i == 1 ? 33 : 60);
		assert_int_equal(second[i].event[0].position, 81 + (i == 1 ? 33 : 60));
	}
	toy_same_events(&second[0], &second[2]);
	assert_true(memcmp(second[0].token, second[1].token, 20 * sizeof(int32_t)) != 0);
	engine_session_close(s);
	engine_session_close(fork);
	for (int i = 0; i < 3; i++) toy_run_free(&second[i]);
	toy_run_free(&first);
}

static void what_is_not_kept_is_not_there(void **state)
{
	(void)state;
	engine_session *s;
	nh_error e = {0};
	engine_spec spec = spec_of(20, 200);
	engine_request *r;
	assert_int_equal(engine_submit(g, &spec, &r, NULL), NH_OK);
	assert_int_equal(engine_session_take(r, &s, &e), NH_ERR_STATE);
	assert_non_null(strstr(e.text, "keep_session"));
	engine_request_release(r);
	spec.keep_session = true;
	assert_int_equal(engine_submit(g, &spec, &r, NULL), NH_OK);
	assert_int_equal(engine_session_take(r, &s, &e), NH_ERR_STATE);
	assert_null(s);
	engine_request_cancel(r);
	engine_request_release(r);
	spec = spec_of(0, 4);
	assert_int_equal(engine_submit(g, &spec, &r, &e), NH_ERR_ARG); /* an empty prompt needs a session */
	toy_run run;
	s = run_and_keep(&run, spec_of(20, 0)); /* a prompt alone: nothing is pending */
	engine_session_info info;
	engine_session_get_info(s, &info);
	assert_int_equal(info.tokens, 20);
	assert_int_equal(info.computed, 20);
	spec.session = s;
	assert_int_equal(engine_submit(g, &spec, &r, &e), NH_ERR_ARG);
	engine_session_close(s);
	toy_run_free(&run);
}

static void a_file_of_others_is_refused(void **state)
{
	(void)state;
	toy_run run;
	nh_error e = {0};
	engine_session *s = run_and_keep(&run, spec_of(20, 3)), *loaded;
	assert_int_equal(engine_session_save(s, path, &e), NH_OK);
	engine_session_close(s);
	toy_run_free(&run);
	assert_int_equal(engine_session_load(g, path, 2, &loaded, &e), NH_ERR_ARG);
	engine_close(g);
	t.parts.identity_self = "b";
	g = open_engine();
	assert_int_equal(engine_session_load(g, path, 0, &loaded, &e), NH_ERR_UNSUPPORTED);
	assert_non_null(strstr(e.text, "checkpoint: is aaaa"));
	assert_null(loaded);
	assert_int_equal(engine_session_load(g, "/nowhere/at/all", 0, &loaded, &e), NH_ERR_NOTFOUND);
	engine_close(g);
	t.parts.identity_self = "a"; /* its own model, with less context than it has */
	assert_int_equal(engine_open(&g, &t.parts, &(engine_options){.max_context = 16}, &e), NH_OK);
	assert_int_equal(engine_session_load(g, path, 0, &loaded, &e), NH_OK);
	engine_request *r;
	engine_spec more = spec_of(0, 3);
	more.session = loaded;
	more.choices = 2;
	assert_int_equal(engine_submit(g, &more, &r, &e), NH_ERR_ARG);
	assert_non_null(strstr(e.text, "without a prompt"));
	more.choices = 1;
	assert_int_equal(engine_submit(g, &more, &r, &e), NH_ERR_LIMIT);
	assert_string_equal(e.text, "session: 23 tokens, the context holds 16");
	engine_session_close(loaded);
	engine_close(g);
	g = open_engine();
	engine_session_info info;
	assert_int_equal(engine_session_read_info(path, &info, &e), NH_OK);
	assert_int_equal(info.tokens, 23);
	assert_string_equal(info.arm, "ref");
	engine_spec spec = spec_of(20, 3); /* the engine is as it was */
	toy_do(&run, g, &spec);
	assert_int_equal(run.tokens, 3);
	toy_run_free(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(continued_is_never_stopped, setup, teardown),
	    cmocka_unit_test_setup_teardown(turns_and_forks, setup, teardown),
	    cmocka_unit_test_setup_teardown(what_is_not_kept_is_not_there, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_file_of_others_is_refused, setup, teardown),
	};
	return cmocka_run_group_tests_name("session", tests, NULL, NULL);
}
