/* SPDX-License-Identifier: Apache-2.0
 * test_cases.c: what public engines of this kind got wrong with state, ends and repetition, each on a model of chunk 128 and, where the fault is
 * of a kind, with more inputs than the report had. Companions: test_engine_laws.c, and the rooms' own tests.
 */
#include "test.h"

#include <string.h>

#include "base/base_mem.h"
#include "base/base_rng.h"
#include "common/model_bench.h"
#include "engine/engine.h"
#include "engine/open.h"

#define LONG 300
#define MOST 16

typedef struct answer {
	int32_t token[MOST];
	double logprob[MOST], prompt_sum;
	int tokens;
	nh_finish finish;
	nh_request_stats stats;
} answer;

static engine_model *m;
static char notice[512]; /* the last; written before an engine runs */

static void note(void *user, nh_log_level level, const char *text)
{
	(void)user;
	if (level == NH_LOG_NOTICE) snprintf(notice, sizeof notice, "%s", text);
}

static engine *open_engine(engine_options o)
{
	engine *g;
	nh_error e = {0};
	notice[0] = 0;
	if (!o.max_context) o.max_context = 512;
	if (engine_open(&g, &m->parts, &o, &e) != NH_OK) fail_msg("%s", e.text);
	return g;
}

static void fill(int32_t *ids, int from, int to, uint64_t seed)
{
	for (int i = from; i < to; i++) ids[i] = (int32_t)(rng_u64(seed, (uint64_t)i, 3) % (uint64_t)m->m->shape.vocab);
}

static engine_spec spec_of(const int32_t *ids, int n)
{
	return (engine_spec){.prompt = ids,
	    .prompt_tokens = (size_t)n,
	    .max_tokens = MOST,
	    .top_p = 1,
	    .repetition_penalty = 1,
	    .temperature = 0.8,
	    .seed = 42,
	    .top_logprobs = 1,
	    .ignore_end = true};
}

static void collect(answer *a, engine_request *r)
{
	engine_event v;
	memset(a, 0, sizeof *a);
	while (engine_request_next(r, &v, -1) == NH_OK) {
		if (v.type == NH_EVENT_ERROR) fail_msg("%s", v.error->text);
		if (v.type == NH_EVENT_PROMPT) a->prompt_sum = a->prompt_sum * 1.0000001 + v.logprob;
		if (v.type == NH_EVENT_TOKEN) {
			a->token[a->tokens] = v.token;
			a->logprob[a->tokens++] = v.logprob;
		}
		if (v.type == NH_EVENT_DONE) a->finish = v.finish, a->stats = v.stats;
	}
	engine_request_release(r);
}

static engine_request *submit(engine *g, const engine_spec *s)
{
	engine_request *r;
	nh_error e = {0};
	if (engine_submit(g, s, &r, &e) != NH_OK) fail_msg("%s", e.text);
	return r;
}

static answer ask(engine *g, const engine_spec *s)
{
	answer a;
	collect(&a, submit(g, s));
	return a;
}

static void same(const answer *a, const answer *b)
{
	assert_int_equal(a->tokens, b->tokens);
	assert_memory_equal(a->token, b->token, sizeof a->token);
	assert_memory_equal(a->logprob, b->logprob, sizeof a->logprob);
	assert_memory_equal(&a->prompt_sum, &b->prompt_sum, sizeof a->prompt_sum);
}

/* 44: a prompt of 300 given to steps of so many tokens, which are raised or rounded to edges: the same logits, and the same state, which the
 * tokens after it show. */
static void a_prompt_in_pieces(void **state)
{
	(void)state;
	static const int STEP[] = {1, 2, 3, 7, 127, 128, 129, 200, 256, 299};
	int32_t ids[LONG];
	answer whole = {0};
	uint64_t steps = 0;
	fill(ids, 0, LONG, 1);
	engine_spec s = spec_of(ids, LONG);
	s.prompt_logprobs = true;
	for (size_t i = 0; i <= ARRAY_LEN(STEP); i++) {
		engine *g = open_engine((engine_options){.max_sequences = 2, .step_tokens = i ? STEP[i - 1] : 0});
		answer a = ask(g, &s);
		engine_stats t;
		engine_get_stats(g, &t);
		engine_close(g);
		if (i == 0) whole = a, steps = t.steps;
		else same(&whole, &a);
		if (i) assert_true(t.steps > steps); /* it was in pieces */
		assert_int_equal(strstr(notice, "step_tokens: ") != NULL, i && STEP[i - 1] < 128);
	}
}

/* 45: the first piece after a hit is shorter than the convolution's history, and another request shares the prefix meanwhile and after. */
static void little_after_a_hit(void **state)
{
	(void)state;
	int32_t one[LONG], other[LONG];
	int hits = 0;
	fill(one, 0, LONG, 2);
	for (int edge = 128; edge <= 256; edge += 128)
		for (int more = 1; more <= 5; more++) {
			memcpy(other, one, sizeof one);
			fill(other, edge, LONG, 100 + (uint64_t)more);
			engine_spec a = spec_of(one, edge + more), b = spec_of(other, edge + more);
			engine *cold = open_engine((engine_options){.max_sequences = 1, .no_prefix_cache = true});
			answer want_a = ask(cold, &a), want_b = ask(cold, &b);
			engine_close(cold);
			engine *g = open_engine((engine_options){.max_sequences = 4});
			engine_spec first = spec_of(one, LONG);
			ask(g, &first);
			engine_request *r[4];
			for (int k = 0; k < 4; k++) r[k] = submit(g, k % 2 ? &b : &a);
			for (int k = 0; k < 4; k++) {
				answer got;
				collect(&got, r[k]);
				same(k % 2 ? &want_b : &want_a, &got);
				assert_int_equal(got.stats.reused_tokens, edge);
				assert_int_equal(got.stats.computed_tokens, more);
				hits++;
			}
			engine_close(g);
		}
	assert_int_equal(hits, 40);
}

/* 48, 49, 56: the second time less is computed; where that can not be, or less is given than was asked for, it is said when the engine opens. */
static void reuse_or_a_notice(void **state)
{
	(void)state;
	int32_t ids[LONG];
	fill(ids, 0, LONG, 3);
	engine_spec s = spec_of(ids, LONG);
	engine *g = open_engine((engine_options){.max_sequences = 2});
	assert_string_equal(notice, "");
	answer first = ask(g, &s), again = ask(g, &s);
	engine_stats t;
	engine_get_stats(g, &t);
	engine_close(g);
	same(&first, &again);
	assert_int_equal(first.stats.computed_tokens, LONG);
	assert_int_equal(again.stats.computed_tokens, LONG - 256);
	assert_int_equal(t.prefix_hits, 1);
	const uint64_t slot = t.state_bytes / t.slots_total, page = t.kv_bytes / t.pages_total;

	engine_close(open_engine((engine_options){.max_sequences = 2, .memory_bytes = 2 * slot + 8 * page}));
	assert_non_null(strstr(notice, "prefix cache: off: the memory has no room for a kept prefix beside 2 sequences"));
	engine_close(open_engine((engine_options){.max_sequences = 2, .memory_bytes = 2 * slot + 8 * page, .no_prefix_cache = true}));
	assert_string_equal(notice, ""); /* nobody asked for one */
	for (int context = 60; context <= 129; context += 23) {
		engine_close(open_engine((engine_options){.max_sequences = 2, .max_context = context}));
		if (context <= 128) assert_non_null(strstr(notice, "prefix cache: nothing will be reused: a kept prefix has 128 tokens or more"));
		else assert_string_equal(notice, "");
	}

	g = open_engine((engine_options){.max_sequences = 1024, .memory_bytes = 524 * (slot + page), .no_prefix_cache = true});
	assert_string_equal(notice, "max_sequences: 1024 is more than the memory has room for, lowered to 524");
	answer small =
	    ask(g, &(engine_spec){.prompt = ids, .prompt_tokens = 9, .max_tokens = 3, .top_p = 1, .repetition_penalty = 1, .ignore_end = true});
	assert_int_equal(small.tokens, 3);
	engine_close(g);
}

/* 95: the prompt's log-probabilities twice, prefix cache on: the same values, all of them computed. */
static void scored_twice(void **state)
{
	(void)state;
	int32_t ids[LONG];
	fill(ids, 0, LONG, 4);
	engine_spec s = spec_of(ids, LONG), scored = s;
	scored.prompt_logprobs = true;
	engine *g = open_engine((engine_options){.max_sequences = 2});
	answer first = ask(g, &scored), plain = ask(g, &s), again = ask(g, &scored);
	engine_close(g);
	same(&first, &again);
	assert_true(first.prompt_sum != 0);
	assert_int_equal(again.stats.reused_tokens, 0);
	assert_memory_equal(plain.logprob, first.logprob, sizeof first.logprob);
}

/* 98: the same, twenty times, alone; drawn and greedy, cache on and off. */
static void twenty_times(void **state)
{
	(void)state;
	int32_t ids[LONG];
	int compared = 0;
	fill(ids, 0, LONG, 5);
	for (int way = 0; way < 4; way++) {
		engine_spec s = spec_of(ids, 150);
		if (way % 2) s.temperature = 0;
		engine *g = open_engine((engine_options){.max_sequences = 1, .no_prefix_cache = way / 2 == 0});
		answer first = ask(g, &s);
		for (int i = 1; i < 20; i++, compared++) {
			answer a = ask(g, &s);
			same(&first, &a);
		}
		engine_close(g);
	}
	assert_int_equal(compared, 76);
}

/* 108: batches of one shape whose neighbours say other things: the watched row is the same, bit for bit. */
static void neighbours_of_other_content(void **state)
{
	(void)state;
	enum { SIDE = 7 };
	static int32_t ids[SIDE][LONG];
	int32_t mine[LONG];
	answer want = {0};
	uint64_t steps = 0;
	fill(mine, 0, LONG, 6);
	for (int batch = 0; batch < 5; batch++) {
		engine *g = open_engine((engine_options){.max_sequences = SIDE + 1, .no_prefix_cache = true, .event_limit = 512});
		engine_request *r[SIDE], *watched = NULL;
		for (int k = 0; k < SIDE; k++) {
			fill(ids[k], 0, LONG, 1000 + 100 * (uint64_t)batch + (uint64_t)k);
			engine_spec s = spec_of(ids[k], 40 * (k + 1));
			if (k == SIDE / 2) {
				engine_spec w = spec_of(mine, 129);
				watched = submit(g, &w);
			}
			r[k] = submit(g, &s);
		}
		answer a, other;
		collect(&a, watched);
		for (int k = 0; k < SIDE; k++) collect(&other, r[k]);
		if (batch == 0) want = a;
		else same(&want, &a);
		engine_stats t;
		engine_get_stats(g, &t);
		steps += t.steps;
		engine_close(g);
	}
	assert_true(steps < 5 * (SIDE + 1) * MOST / 2); /* they were in steps together */
}

/* 91: an end token is one whatever its id, 0 too, and any of several; none is made up where there is none. */
static void any_id_ends(void **state)
{
	(void)state;
	static const int32_t ZERO[] = {0}, TWO[] = {2, 11};
	static const struct {
		const int32_t *end;
		size_t count;
		int32_t biased;
		nh_finish finish;
	} CASES[] = {{ZERO, 1, 0, NH_FINISH_END}, {TWO, 2, 2, NH_FINISH_END}, {TWO, 2, 11, NH_FINISH_END}, {TWO, 2, 0, NH_FINISH_LENGTH},
	    {NULL, 0, 0, NH_FINISH_LENGTH}, {NULL, 0, 2, NH_FINISH_LENGTH}};
	int32_t ids[LONG];
	fill(ids, 0, LONG, 7);
	engine_parts was = m->parts;
	for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
		const nh_bias bias = {CASES[i].biased, 1000};
		m->parts.end = CASES[i].end;
		m->parts.end_count = CASES[i].count;
		engine *g = open_engine((engine_options){.max_sequences = 1});
		engine_spec s = spec_of(ids, 5);
		s.ignore_end = false;
		s.bias = &bias;
		s.bias_count = 1;
		answer a = ask(g, &s);
		engine_close(g);
		assert_int_equal(a.finish, CASES[i].finish);
		assert_int_equal(a.tokens, a.finish == NH_FINISH_END ? 1 : MOST);
		assert_int_equal(a.token[0], CASES[i].biased);
	}
	m->parts.end = was.end;
	m->parts.end_count = was.end_count;
}

static int set_up(void **state)
{
	(void)state;
	static const char *const CONFIG[] = {"hidden_size=32", "vocab_size=320", "chunk_size=128", "mamba_num_heads=2", "mamba_head_dim=16",
	    "ssm_state_size=16", "n_groups=1", "max_position_embeddings=4096"};
	const mk_options o = {.format = MK_MIXED, .seed = 6, .pattern = "M*E-M", .config = CONFIG, .config_count = ARRAY_LEN(CONFIG)};
	nh_error e = {0};
	if (engine_model_open(&m, bench_checkpoint("cases", &o), &(open_options){.log = {note, NULL, NH_LOG_NOTICE}}, &e) != NH_OK)
		fail_msg("%s", e.text);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	engine_model_close(m);
	return mem_live() == 0 ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_prompt_in_pieces),
	    cmocka_unit_test(little_after_a_hit),
	    cmocka_unit_test(reuse_or_a_notice),
	    cmocka_unit_test(scored_twice),
	    cmocka_unit_test(twenty_times),
	    cmocka_unit_test(neighbours_of_other_content),
	    cmocka_unit_test(any_id_ends),
	};
	return cmocka_run_group_tests_name("cases", tests, set_up, tear_down);
}
