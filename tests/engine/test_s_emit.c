/* SPDX-License-Identifier: Apache-2.0
 * test_s_emit.c: text hooks: who is called when, what becomes of what they say, and how a request ends through them.
 */
#include "helper_toy.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/base_mem.h"
#include "test.h"

static toy t;
static engine *g;
static const int32_t SCRIPT[] = {5, 6, 7, 8, 9, 2, 10, 11, 12, 13, 14, 15};

/* Hooks that spell ids, hold one token back, think until token 8, and stop at `stop_at`. */
typedef struct speller {
	int stop_at, fail_at, finish_fails;
	int pushed, finished, closed;
	pthread_t engine_thread;
	char held[16], text[64];
	size_t long_text; /* bytes of filler */
	char *filler;
} speller;

static nh_status push(void *self, int32_t id, engine_text *out, nh_error *e)
{
	speller *s = self;
	s->pushed++;
	s->engine_thread = pthread_self();
	if (id == s->fail_at) return ERR(e, NH_ERR_NOMEM, "hook failed");
	snprintf(s->text, sizeof s->text, "%s", s->held);
	snprintf(s->held, sizeof s->held, "%d,", id);
	*out = (engine_text){0};
	out->in_reasoning = id < 8;
	if (id == s->stop_at) {
		out->stopped = true;
		out->stop_index = 3;
		s->held[0] = 0;
	}
	if (out->in_reasoning) out->reasoning = s->text, out->reasoning_bytes = strlen(s->text);
	else out->content = s->text, out->content_bytes = strlen(s->text);
	if (s->long_text) out->content = s->filler, out->content_bytes = s->long_text;
	return NH_OK;
}

static nh_status finish(void *self, engine_text *out, nh_error *e)
{
	speller *s = self;
	s->finished++;
	if (s->finish_fails) return ERR(e, NH_ERR_NOMEM, "finish failed");
	*out = (engine_text){.content = s->held, .content_bytes = strlen(s->held)};
	return NH_OK;
}

static void close_speller(void *self) { ((speller *)self)->closed++; }

static engine_spec spec_of(speller *s, int64_t max_tokens)
{
	engine_spec spec = toy_spec(SCRIPT, 2, max_tokens);
	spec.hooks = (engine_hooks){.self = s, .push = push, .finish = finish, .close = close_speller};
	return spec;
}

static int setup(void **state)
{
	(void)state;
	toy_open(&t, "exact", true);
	t.script = SCRIPT;
	t.script_len = ARRAY_LEN(SCRIPT);
	assert_int_equal(engine_open(&g, &t.parts, &(engine_options){0}, NULL), NH_OK);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	engine_close(g);
	toy_close(&t);
	assert_int_equal(mem_live(), 0);
	return 0;
}

static void end_tokens_make_no_text_and_held_text_comes_last(void **state)
{
	(void)state;
	speller s = {.stop_at = -1, .fail_at = -1};
	engine_spec spec = spec_of(&s, -1);
	toy_run run = {0};
	toy_do(&run, g, &spec);
	assert_int_equal(run.finish, NH_FINISH_END);
	assert_int_equal(run.tokens, 4); /* 7 8 9 2 */
	assert_int_equal(s.pushed, 3);
	assert_int_equal(s.finished, 1);
	assert_int_equal(s.closed, 1);
	assert_false(pthread_equal(s.engine_thread, pthread_self()));
	assert_string_equal(run.reasoning, "");
	assert_string_equal(run.content, "7,8,9,");
	assert_int_equal(run.event[4].content_bytes, 2);
	assert_int_equal(run.stop_index, -1);
	assert_int_equal(run.stats.reasoning_tokens, 1);
	assert_int_equal(run.stats.generated_tokens, 4);
	toy_run_free(&run);
	/* Ignored, it is a token like others. */
	speller again = {.stop_at = -1, .fail_at = -1};
	spec = spec_of(&again, 5);
	spec.ignore_end = true;
	toy_do(&run, g, &spec);
	assert_int_equal(again.pushed, 5);
	assert_int_equal(run.finish, NH_FINISH_LENGTH);
	toy_run_free(&run);
}

static void a_stop_ends_the_same_step(void **state)
{
	(void)state;
	speller s = {.stop_at = 8, .fail_at = -1};
	engine_spec spec = spec_of(&s, -1);
	int before = atomic_load(&t.count);
	toy_run run = {0};
	toy_do(&run, g, &spec);
	assert_int_equal(run.finish, NH_FINISH_STOP);
	assert_int_equal(run.stop_index, 3);
	assert_int_equal(run.tokens, 2);
	assert_int_equal(atomic_load(&t.count) - before, 2); /* the prompt, and token 7 */
	assert_int_equal(s.closed, 1);
	toy_run_free(&run);
}

static void hooks_that_fail(void **state)
{
	(void)state;
	speller s = {.stop_at = -1, .fail_at = 8};
	engine_spec spec = spec_of(&s, -1);
	toy_run run = {0};
	toy_do(&run, g, &spec);
	assert_int_equal(run.finish, NH_FINISH_ERROR);
	assert_string_equal(run.error.text, "hook failed");
	assert_int_equal(run.tokens, 1);
	assert_int_equal(s.finished, 0);
	assert_int_equal(s.closed, 1);
	toy_run_free(&run);
	speller f = {.stop_at = -1, .fail_at = -1, .finish_fails = 1};
	spec = spec_of(&f, 2);
	toy_do(&run, g, &spec);
	assert_int_equal(run.finish, NH_FINISH_ERROR);
	assert_string_equal(run.error.text, "finish failed");
	assert_int_equal(f.closed, 1);
	toy_run_free(&run);
}

static void long_text_grows_its_place(void **state)
{
	(void)state;
	speller s = {.stop_at = -1, .fail_at = -1, .long_text = 1000};
	s.filler = mem_alloc(1000);
	memset(s.filler, 'x', 1000);
	engine_spec spec = spec_of(&s, 3);
	toy_run run = {0};
	toy_do(&run, g, &spec);
	assert_int_equal(run.event[1].content_bytes, 1000);
	assert_int_equal(strlen(run.content), 3000 + 2);
	toy_run_free(&run);
	mem_free(s.filler);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(end_tokens_make_no_text_and_held_text_comes_last, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_stop_ends_the_same_step, setup, teardown),
	    cmocka_unit_test_setup_teardown(hooks_that_fail, setup, teardown),
	    cmocka_unit_test_setup_teardown(long_text_grows_its_place, setup, teardown),
	};
	return cmocka_run_group_tests_name("s_emit", tests, NULL, NULL);
}
