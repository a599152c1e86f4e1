/* SPDX-License-Identifier: Apache-2.0
 * test_api_choices.c: what a request can ask for beyond one plain answer: choices with their own text, masks, biases, penalties, bad words, fewest
 * tokens, deadlines, embeddings; on the built-in model through the public interface.
 */
#include "helper_tiny.h"

#include <math.h>
#include <string.h>

#include "base/base_mem.h"
#include "test.h"

typedef struct world {
	nh_model *m;
	nh_engine *g;
	int32_t *ids;
	size_t count;
} world;

static int up(void **state)
{
	static world w;
	w.m = tiny_open(NULL);
	w.g = tiny_engine(w.m, 0);
	w.ids = tiny_chat(w.m, "What is a cat?", &w.count);
	*state = &w;
	return 0;
}

static int down(void **state)
{
	world *w = *state;
	nh_free(w->ids);
	nh_engine_close(w->g);
	nh_model_close(w->m);
	return mem_live() == 0 ? 0 : -1;
}

static nh_request_options asking(const world *w, int64_t max_tokens)
{
	nh_request_options o = tiny_request(w->ids, w->count, max_tokens);
	o.text = o.skip_special = o.split_reasoning = o.starts_in_reasoning = true;
	return o;
}

/* Choice i is the request alone with seed + i: tokens, text and end. */
static void choices_are_requests_of_their_own(void **state)
{
	world *w = *state;
	nh_error e = {0};
	nh_request *r;
	nh_event ev;
	static tiny_run alone[4], choice[4];
	static const int32_t vague[] = {20, 57, 94}; /* a prompt after which much is likely */
	nh_request_options o = asking(w, 30);
	o.prompt = vague;
	o.prompt_tokens = 3;
	o.temperature = 1;
	for (int i = 0; i < 4; i++) {
		o.seed = 100 + (uint64_t)i;
		tiny_do(&alone[i], w->g, &o);
	}
	o.seed = 100;
	o.choices = 4;
	memset(choice, 0, sizeof choice);
	if (nh_engine_submit(w->g, &o, &r, &e) != NH_OK) fail_msg("%s", e.text);
	int done = 0, lasts = 0;
	while (nh_request_next(r, &ev, sizeof ev, -1) == NH_OK) {
		assert_in_range(ev.choice, 0, 3);
		tiny_run *c = &choice[ev.choice];
		assert_int_equal(c->finish, NH_FINISH_NONE);
		if (ev.type == NH_EVENT_TOKEN) c->token[c->tokens++] = ev.token;
		strncat(c->reasoning, ev.reasoning, sizeof c->reasoning - strlen(c->reasoning) - 1);
		strncat(c->content, ev.content, sizeof c->content - strlen(c->content) - 1);
		c->finish = (nh_finish)ev.finish;
		done += ev.type == NH_EVENT_DONE;
		lasts += ev.last;
		if (ev.last) assert_int_equal(done, 4);
	}
	assert_int_equal(done, 4);
	assert_int_equal(lasts, 1);
	nh_request_release(r);
	int differ = 0;
	for (int i = 0; i < 4; i++) {
		assert_int_equal(choice[i].tokens, alone[i].tokens);
		assert_memory_equal(choice[i].token, alone[i].token, alone[i].tokens * sizeof(int32_t));
		assert_string_equal(choice[i].reasoning, alone[i].reasoning);
		assert_string_equal(choice[i].content, alone[i].content);
		assert_int_equal(choice[i].finish, alone[i].finish);
		differ += i > 0 && memcmp(choice[i].token, choice[0].token, sizeof choice[0].token) != 0;
	}
	assert_true(differ > 0);
	o.choices = -1;
	assert_int_equal(nh_engine_submit(w->g, &o, &r, &e), NH_ERR_ARG);
	o.choices = 1 << 20;
	assert_int_equal(nh_engine_submit(w->g, &o, &r, &e), NH_ERR_ARG);
}

typedef struct even {
	int calls;
	int64_t next;
	bool fails;
} even;

/* Only even ids. */
static bool even_ids(void *user, int32_t choice, int64_t position, uint32_t *bits, size_t words)
{
	even *s = user;
	s->calls++;
	if (choice != 0 || words != 4096 / 32 || bits[0] != UINT32_MAX || (s->next && position != s->next)) return false;
	s->next = position + 1;
	for (size_t i = 0; i < words; i++) bits[i] &= 0x55555555;
	return !s->fails;
}

static void masks_bind_every_draw(void **state)
{
	world *w = *state;
	even s = {0};
	static tiny_run run;
	nh_request_options o = asking(w, 20);
	o.ignore_end = true;
	o.temperature = 1;
	o.mask = even_ids;
	o.mask_user = &s;
	tiny_do(&run, w->g, &o);
	assert_int_equal(run.tokens, 20);
	assert_true(s.calls >= 20);
	for (size_t i = 0; i < run.tokens; i++) assert_int_equal(run.token[i] % 2, 0);
	s = (even){.fails = true};
	tiny_do(&run, w->g, &o);
	assert_int_equal(run.finish, NH_FINISH_ERROR);
	assert_true(run.error.code != NH_OK);
	o.mask = NULL; /* the engine lives on */
	tiny_do(&run, w->g, &o);
	assert_int_equal(run.tokens, 20);
}

static bool has_token(const tiny_run *run, int32_t id)
{
	for (size_t i = 0; i < run->tokens; i++)
		if (run->token[i] == id) return true;
	return false;
}

static void what_may_be_drawn(void **state)
{
	world *w = *state;
	static tiny_run plain, run;
	nh_request_options o = asking(w, 24);
	o.ignore_end = true;
	tiny_do(&plain, w->g, &o);
	nh_bias bias = {plain.token[3], -INFINITY};
	o.bias = &bias;
	o.bias_count = 1;
	tiny_do(&run, w->g, &o);
	assert_memory_equal(run.token, plain.token, 3 * sizeof(int32_t));
	assert_false(has_token(&run, bias.id));
	bias = (nh_bias){1234, 1000};
	tiny_do(&run, w->g, &o);
	for (size_t i = 0; i < run.tokens; i++) assert_int_equal(run.token[i], 1234);
	o.bias_count = 0;

	int32_t word[] = {plain.token[4], plain.token[5]};
	size_t length = 2;
	o.bad_words = word;
	o.bad_word_lengths = &length;
	o.bad_word_count = 1;
	tiny_do(&run, w->g, &o);
	assert_memory_equal(run.token, plain.token, 5 * sizeof(int32_t));
	assert_int_not_equal(run.token[5], word[1]);
	o.bad_word_count = 0;

	int32_t only[] = {50, 60, 70};
	o.allowed_ids = only;
	o.allowed_count = 3;
	tiny_do(&run, w->g, &o);
	for (size_t i = 0; i < run.tokens; i++) assert_true(run.token[i] == 50 || run.token[i] == 60 || run.token[i] == 70);
	o.presence_penalty = o.frequency_penalty = 2; /* then all of them come */
	o.temperature = 1;
	tiny_do(&run, w->g, &o);
	assert_true(has_token(&run, 50) && has_token(&run, 60) && has_token(&run, 70));
}

static void fewest_tokens_and_deadlines(void **state)
{
	world *w = *state;
	static tiny_run run;
	nh_request_options o = asking(w, 40);
	nh_bias bias = {2, 1000}; /* the end token, at once */
	o.bias = &bias;
	o.bias_count = 1;
	tiny_do(&run, w->g, &o);
	assert_int_equal(run.tokens, 1);
	o.min_tokens = 10;
	tiny_do(&run, w->g, &o);
	assert_int_equal(run.tokens, 11); /* ten, and the end */
	assert_int_equal(run.finish, NH_FINISH_END);
	o = asking(w, -1);
	o.ignore_end = true;
	o.deadline_us = 60000;
	tiny_do(&run, w->g, &o);
	assert_int_equal(run.finish, NH_FINISH_DEADLINE);
	nh_engine_stats s;
	nh_engine_get_stats(w->g, &s, sizeof s);
	assert_true(s.deadline_misses >= 1);
}

static int embedding(const world *w, nh_request_options *o, double *out, size_t room)
{
	nh_request *r;
	nh_error e = {0};
	nh_event ev;
	int events = 0;
	if (nh_engine_submit(w->g, o, &r, &e) != NH_OK) fail_msg("%s", e.text);
	while (nh_request_next(r, &ev, sizeof ev, -1) == NH_OK) {
		if (ev.type == NH_EVENT_ERROR) fail_msg("%s", ev.error.text);
		if (ev.type != NH_EVENT_EMBEDDING) continue;
		events++;
		assert_true(ev.embedding_size <= room);
		for (size_t i = 0; i < ev.embedding_size; i++) out[i] = (double)ev.embedding[i];
	}
	nh_request_release(r);
	return events;
}

static void embeddings(void **state)
{
	world *w = *state;
	static double last[4096], mean[4096], unit[4096];
	nh_model_info info;
	nh_model_get_info(w->m, &info, sizeof info);
	nh_request_options o = tiny_request(w->ids, w->count, 0);
	o.embed = NH_EMBED_LAST;
	assert_int_equal(embedding(w, &o, last, 4096), 1);
	o.embed_normalise = true;
	assert_int_equal(embedding(w, &o, unit, 4096), 1);
	double length = 0, dot = 0, square = 0;
	for (int i = 0; i < info.hidden; i++) {
		length += last[i] * last[i];
		square += unit[i] * unit[i];
		dot += last[i] * unit[i];
	}
	assert_true(length > 0 && fabs(square - 1) < 1e-5 && fabs(dot - sqrt(length)) < 1e-4 * sqrt(length));
	o.embed = NH_EMBED_MEAN;
	o.embed_normalise = false;
	assert_int_equal(embedding(w, &o, mean, 4096), 1);
	assert_memory_not_equal(mean, last, (size_t)info.hidden * sizeof *mean);
	o.prompt_tokens = 1; /* of one token the mean is the last */
	embedding(w, &o, mean, 4096);
	o.embed = NH_EMBED_LAST;
	embedding(w, &o, last, 4096);
	assert_memory_equal(mean, last, (size_t)info.hidden * sizeof *mean);
	nh_request *r;
	nh_error e;
	o.embed = 9;
	assert_int_equal(nh_engine_submit(w->g, &o, &r, &e), NH_ERR_ARG);
}

static void engines_that_can_not_be(void **state)
{
	world *w = *state;
	nh_model *m = tiny_open(NULL);
	nh_engine *g;
	nh_error e = {0};
	nh_engine_options o;
	(void)w;
	nh_engine_options_init(&o, sizeof o);
	o.draft = 9;
	assert_int_equal(nh_engine_open(&g, m, &o, &e), NH_ERR_ARG);
	o.draft = NH_DRAFT_NONE;
	o.memory_bytes = 4096; /* with the arithmetic */
	assert_int_not_equal(nh_engine_open(&g, m, &o, &e), NH_OK);
	assert_null(g);
	assert_non_null(strstr(e.text, "4096"));
	o.memory_bytes = (uint64_t)256 << 20;
	o.max_sequences = 3;
	if (nh_engine_open(&g, m, &o, &e) != NH_OK) fail_msg("%s", e.text);
	nh_engine_stats s;
	nh_engine_get_stats(g, &s, sizeof s);
	assert_true(s.slots_total >= 3 && s.pages_total > 0 && s.page_tokens == 64);
	assert_int_equal(s.slots_used, 0);
	nh_engine_close(g);
	nh_model_close(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(choices_are_requests_of_their_own),
	    cmocka_unit_test(masks_bind_every_draw),
	    cmocka_unit_test(what_may_be_drawn),
	    cmocka_unit_test(fewest_tokens_and_deadlines),
	    cmocka_unit_test(embeddings),
	    cmocka_unit_test(engines_that_can_not_be),
	};
	return cmocka_run_group_tests_name("api_choices", tests, up, down);
}
