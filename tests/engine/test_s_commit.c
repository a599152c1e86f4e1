/* SPDX-License-Identifier: Apache-2.0
 * test_s_commit.c: what a step leaves behind: forks of a prompt (choices) that are each the request alone with its own seed, drafts that hold as
 * far as they are drawn, embeddings that do not depend on how the prompt was cut.
 */
#include "helper_toy.h"

#include <math.h>
#include <string.h>

#include "base/base_mem.h"
#include "test.h"

static toy t;

static engine *open_engine(const engine_options *o)
{
	engine *g;
	nh_error e = {0};
	if (engine_open(&g, &t.parts, o, &e) != NH_OK) fail_msg("%s", e.text);
	return g;
}

/* Events of one choice, in order. */
static int of_choice(const toy_run *run, int choice, const engine_event **out)
{
	int n = 0;
	for (size_t i = 0; i < run->count; i++)
		if (run->event[i].choice == choice && run->event[i].type == NH_EVENT_TOKEN) out[n++] = &run->event[i];
	return n;
}

/* Prompts around page borders: with and without a partial last page. */
static void forked_is_separate(void **state)
{
	(void)state;
	static const size_t LENGTHS[] = {1, 63, 64, 65, 128, 130};
	int compared = 0;
	for (size_t k = 0; k < ARRAY_LEN(LENGTHS); k++) {
		toy_open(&t, "exact", k % 2 == 0);
		engine *g = open_engine(&(engine_options){.max_sequences = 6, .step_tokens = 32, .draft = k == 3 ? NH_DRAFT_NGRAM : NH_DRAFT_NONE});
		int32_t *p = toy_prompt(LENGTHS[k], 5);
		engine_spec spec = toy_spec(p, LENGTHS[k], 80);
		spec.ignore_end = true;
		spec.temperature = 2;
		spec.seed = 40;
		spec.top_logprobs = 2;
		spec.repetition_penalty = k % 3 ? 1 : 1.1; /* drawn from the logits as they are, and from edited ones */
		spec.choices = 5;
		toy_run all, one;
		toy_do(&all, g, &spec);
		assert_int_equal(all.count, 5 * 81);
		assert_int_equal(all.stats.computed_tokens, LENGTHS[k]);
		engine_stats s;
		engine_get_stats(g, &s);
		assert_int_equal(s.computed_tokens, LENGTHS[k]); /* once for all */
		assert_int_equal(s.slots_used, s.snapshots);
		int done = 0;
		for (size_t i = 0; i < all.count; i++) {
			done += all.event[i].type == NH_EVENT_DONE;
			assert_int_equal(all.event[i].last, i + 1 == all.count);
		}
		assert_int_equal(done, 5);
		spec.choices = 1;
		for (int c = 0; c < 5; c++) {
			const engine_event *of[100];
			spec.seed = 40 + (uint64_t)c;
			toy_do(&one, g, &spec);
			assert_int_equal(of_choice(&all, c, of), 80);
			for (int i = 0; i < 80; i++, compared++) {
				assert_int_equal(of[i]->token, one.event[i].token);
				assert_int_equal(of[i]->position, one.event[i].position);
				assert_memory_equal(&of[i]->logprob, &one.event[i].logprob, sizeof(double));
			}
			toy_run_free(&one);
		}
		toy_run_free(&all);
		mem_free(p);
		engine_close(g);
		toy_close(&t);
	}
	assert_int_equal(compared, 6 * 5 * 80);
	assert_int_equal(mem_live(), 0);
}

/* Choices of nothing all end, with the prompt or with the context. */
static void choices_of_nothing(void **state)
{
	(void)state;
	toy_open(&t, "exact", true);
	engine *g = open_engine(&(engine_options){.max_sequences = 4, .step_tokens = 8, .max_context = 20});
	int32_t *p = toy_prompt(20, 5);
	for (int k = 0; k < 2; k++) {
		engine_spec spec = toy_spec(p, k ? 20 : 10, k ? -1 : 0);
		spec.choices = 4;
		toy_run run;
		toy_do(&run, g, &spec);
		assert_int_equal(run.count, 4);
		for (int c = 0; c < 4; c++) assert_int_equal(run.event[c].finish, k ? NH_FINISH_CONTEXT : NH_FINISH_LENGTH);
		toy_run_free(&run);
	}
	mem_free(p);
	engine_close(g);
	toy_close(&t);
	assert_int_equal(mem_live(), 0);
}

/* A stop in the middle of accepted drafts: nothing after it is told, and a session that was kept goes on from there. */
typedef struct stopper {
	int after, seen;
} stopper;

static nh_status push(void *self, int32_t id, engine_text *out, nh_error *e)
{
	(void)id, (void)e;
	stopper *s = self;
	*out = (engine_text){.stopped = ++s->seen == s->after};
	return NH_OK;
}

static void drafts_end_where_the_text_does(void **state)
{
	(void)state;
	toy_open(&t, "exact", true);
	t.cycle = 5;
	int32_t *p = toy_prompt(30, 5);
	engine_spec spec = toy_spec(p, 30, 60);
	spec.ignore_end = true;
	spec.top_logprobs = 1;
	engine *g = open_engine(&(engine_options){.max_sequences = 2});
	toy_run plain, drafted;
	toy_do(&plain, g, &spec);
	engine_close(g);
	g = open_engine(&(engine_options){.max_sequences = 2, .draft = NH_DRAFT_NGRAM, .draft_tokens = 6});
	toy_do(&drafted, g, &spec);
	toy_same_events(&plain, &drafted);
	assert_true(drafted.stats.accepted_tokens > 0 && drafted.stats.accepted_tokens < drafted.stats.drafted_tokens);
	toy_run_free(&drafted);
	for (int after = 1; after < 60; after += 5) {
		stopper s = {.after = after};
		engine_session *kept = NULL;
		engine_request *r;
		engine_spec stop = spec;
		stop.hooks = (engine_hooks){.self = &s, .push = push};
		stop.keep_session = true;
		assert_int_equal(engine_submit(g, &stop, &r, NULL), NH_OK);
		toy_collect_session(&drafted, r, &kept);
		assert_int_equal(drafted.finish, after == 60 ? NH_FINISH_LENGTH : NH_FINISH_STOP);
		assert_int_equal(drafted.tokens, after);
		assert_int_equal(s.seen, after);
		toy_run_free(&drafted);
		engine_spec rest = spec;
		rest.prompt_tokens = 0;
		rest.session = kept;
		rest.max_tokens = 60 - after;
		toy_do(&drafted, g, &rest);
		assert_int_equal(drafted.tokens, 60 - after);
		for (int i = 0; i < 60 - after; i++) {
			assert_int_equal(drafted.token[i], plain.token[after + i]);
			assert_memory_equal(&drafted.event[i].logprob, &plain.event[after + i].logprob, sizeof(double));
		}
		engine_session_close(kept);
		toy_run_free(&drafted);
	}
	toy_run_free(&plain);
	mem_free(p);
	engine_close(g);
	toy_close(&t);
	assert_int_equal(mem_live(), 0);
}

static void embeddings(void **state)
{
	(void)state;
	int32_t *p = toy_prompt(100, 5);
	float first[2][4] = {{0}};
	int compared = 0;
	for (int k = 0; k < 4; k++) {
		toy_open(&t, "exact", k % 2 == 0);
		engine *g = open_engine(&(engine_options){.max_sequences = 3, .step_tokens = 8 << k});
		for (int how = 0; how < 2; how++) {
			engine_spec spec = toy_spec(p, 100, 0);
			spec.embed = how ? NH_EMBED_MEAN : NH_EMBED_LAST;
			spec.embed_normalise = true;
			engine_request *r;
			engine_event e;
			assert_int_equal(engine_submit(g, &spec, &r, NULL), NH_OK);
			assert_int_equal(engine_request_next(r, &e, -1), NH_OK);
			assert_int_equal(e.type, NH_EVENT_EMBEDDING);
			assert_int_equal(e.embedding_count, 4);
			double square = 0;
			for (int i = 0; i < 4; i++) square += (double)e.embedding[i] * (double)e.embedding[i];
			assert_true(fabs(square - 1) < 1e-6);
			if (k == 0) memcpy(first[how], e.embedding, sizeof first[how]);
			else assert_memory_equal(first[how], e.embedding, sizeof first[how]), compared++;
			assert_int_equal(engine_request_next(r, &e, -1), NH_OK);
			assert_int_equal(e.type, NH_EVENT_DONE);
			assert_int_equal(e.finish, NH_FINISH_LENGTH);
			assert_true(e.last);
			engine_request_release(r);
		}
		engine_close(g);
		toy_close(&t);
	}
	assert_int_equal(compared, 6);
	assert_memory_not_equal(first[0], first[1], sizeof first[0]);
	mem_free(p);
	assert_int_equal(mem_live(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(forked_is_separate),
	    cmocka_unit_test(choices_of_nothing),
	    cmocka_unit_test(drafts_end_where_the_text_does),
	    cmocka_unit_test(embeddings),
	};
	return cmocka_run_group_tests_name("s_commit", tests, NULL, NULL);
}
