/* SPDX-License-Identifier: Apache-2.0
 * test_second_turn.c: what the next turn of a conversation computes, by the counters. Sent again as a whole (which is what a server without
 * memory of its clients gets): the last answer, the new message and at most 2L - 1 tokens of the old prompt, L the scan chunk, also where the
 * template writes the end of the prompt anew. Continued from a session: the new message, and no token of the old.
 */
#include "test.h"

#include <string.h>

#include "base/base_mem.h"
#include "base/base_rng.h"
#include "common/model_bench.h"
#include "engine/engine.h"
#include "engine/open.h"

#define MOST 1024
#define TURNS 3

static engine_model *m;

static engine *open_engine(bool cache)
{
	engine *g;
	nh_error e = {0};
	const engine_options o = {.max_context = MOST, .max_sequences = 2, .no_prefix_cache = !cache, .memory_bytes = (uint64_t)64 << 20};
	if (engine_open(&g, &m->parts, &o, &e) != NH_OK) fail_msg("%s", e.text);
	return g;
}

typedef struct turn {
	int32_t token[64];
	double logprob[64];
	int tokens;
	nh_request_stats stats;
} turn;

static void ask(turn *out, engine *g, const engine_spec *s, engine_session **kept)
{
	engine_request *r;
	engine_event v;
	nh_error e = {0};
	memset(out, 0, sizeof *out);
	if (engine_submit(g, s, &r, &e) != NH_OK) fail_msg("%s", e.text);
	while (engine_request_next(r, &v, -1) == NH_OK) {
		if (v.type == NH_EVENT_ERROR) fail_msg("%s", v.error->text);
		if (v.type == NH_EVENT_TOKEN) {
			out->token[out->tokens] = v.token;
			out->logprob[out->tokens++] = v.logprob;
		}
		if (v.type == NH_EVENT_DONE) out->stats = v.stats;
	}
	if (kept && engine_session_take(r, kept, &e) != NH_OK) fail_msg("%s", e.text);
	engine_request_release(r);
}

static engine_spec spec_of(const int32_t *ids, int n, int answer)
{
	return (engine_spec){.prompt = ids,
	    .prompt_tokens = (size_t)n,
	    .max_tokens = answer,
	    .top_p = 1,
	    .repetition_penalty = 1,
	    .top_logprobs = 1,
	    .ignore_end = true};
}

static void fill(int32_t *ids, int from, int to, uint64_t seed)
{
	for (int i = from; i < to; i++) ids[i] = (int32_t)(rng_u64(seed, (uint64_t)i, 7) % (uint64_t)m->m->shape.vocab);
}

typedef struct totals {
	uint64_t turns, reused, computed, most, cold;
} totals;

/* One conversation: a prompt of n tokens, then turns of `answer` and `message` tokens, whose template writes the last `anew` tokens of the prompt
 * differently the next time. Every third one is compared with what it says cold. */
static void stateless(engine *g, int n, int answer, int message, int anew, uint64_t seed, totals *t)
{
	static int32_t ids[MOST];
	const int L = m->m->shape.chunk;
	turn said, cold;
	fill(ids, 0, n, seed);
	engine_spec s = spec_of(ids, n, answer);
	ask(&said, g, &s, NULL);
	for (int k = 1; k < TURNS; k++) {
		const int before = n, fresh = said.tokens + message;
		fill(ids, n - anew, n, seed + (uint64_t)k);
		memcpy(ids + n, said.token, (size_t)said.tokens * sizeof *ids);
		fill(ids, n + said.tokens, n + fresh, seed + 10);
		n += fresh;
		s = spec_of(ids, n, answer);
		ask(&said, g, &s, NULL);
		const int computed = (int)said.stats.computed_tokens, over = computed - fresh;
		assert_int_equal(said.stats.reused_tokens + said.stats.computed_tokens, n);
		if (over > 2 * L - 1) fail_msg("prompt of %d, %d of it anew: %d computed for %d new ones", before, anew, computed, fresh);
		/* Where what is written anew does not reach across the last edge, the last edge is reused. */
		const int edge = (before - 1) / L * L;
		if (before - anew >= edge && over > before - edge) fail_msg("prompt of %d: %d computed for %d new ones", before, computed, fresh);
		if (over > (int)t->most) t->most = (uint64_t)over;
		t->turns++;
		t->reused += said.stats.reused_tokens;
		t->computed += said.stats.computed_tokens;
		if (t->turns % 3) continue;
		s.no_prefix_cache = true;
		ask(&cold, g, &s, NULL);
		assert_int_equal(cold.stats.computed_tokens, n);
		assert_memory_equal(cold.token, said.token, sizeof cold.token);
		assert_memory_equal(cold.logprob, said.logprob, sizeof cold.logprob);
		t->cold++;
	}
}

static void continued(engine *g, int n, int answer, int message, uint64_t seed, totals *t)
{
	static int32_t ids[MOST];
	turn said;
	engine_session *kept = NULL, *next;
	fill(ids, 0, n, seed);
	engine_spec s = spec_of(ids, n, answer);
	s.keep_session = true;
	ask(&said, g, &s, &kept);
	for (int k = 1; k < TURNS; k++) {
		fill(ids, 0, message, seed + (uint64_t)k);
		s = spec_of(ids, message, answer);
		s.session = kept;
		s.keep_session = true;
		ask(&said, g, &s, &next);
		engine_session_close(kept);
		kept = next;
		assert_int_equal(said.stats.computed_tokens, message);
		assert_int_equal(said.stats.prompt_tokens, message);
		t->turns++;
		t->computed += said.stats.computed_tokens;
	}
	engine_session_close(kept);
}

static void conversations(const char *name, const int *length, size_t lengths)
{
	static const struct {
		int answer, message, anew;
	} SHAPES[] = {{5, 9, 0}, {1, 1, 1}, {17, 64, 3}, {3, 40, 63}};
	totals a = {0}, b = {0};
	for (size_t i = 0; i < lengths; i++)
		for (size_t k = 0; k < ARRAY_LEN(SHAPES); k++) {
			engine *g = open_engine(true); /* nothing that others have said */
			int anew = SHAPES[k].anew < length[i] ? SHAPES[k].anew : length[i] - 1;
			stateless(g, length[i], SHAPES[k].answer, SHAPES[k].message, anew, 100 * i + k, &a);
			continued(g, length[i], SHAPES[k].answer, SHAPES[k].message, 100 * i + k, &b);
			engine_close(g);
		}
	printf("LAW the next turn, sent whole: %s (L %d): %d turns, %d reused, %d computed, at most %d beside what is new; %d compared with "
	       "cold\n",
	    name, m->m->shape.chunk, (int)a.turns, (int)a.reused, (int)a.computed, (int)a.most, (int)a.cold);
	printf("LAW the next turn, continued: %s: %d turns, %d computed, none but what is new\n", name, (int)b.turns, (int)b.computed);
	assert_true(a.turns > 0 && b.turns > 0 && a.reused > 0 && a.cold > 0);
	assert_true(a.most > (uint64_t)m->m->shape.chunk); /* what is written anew has reached across an edge */
}

static void on_made_checkpoints(void **state)
{
	(void)state;
	static const int LENGTH[] = {1, 63, 64, 65, 66, 127, 128, 129, 130, 191, 192, 193, 255, 256, 257, 300};
	static const struct {
		const char *name, *chunk, *pattern;
		mk_format format;
	} CASES[] = {{"turns-64", "chunk_size=64", "M*-", MK_BF16}, {"turns-128", "chunk_size=128", "ME*", MK_MIXED}};
	for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
		const char *const config[] = {CASES[i].chunk, "hidden_size=32", "vocab_size=320", "mamba_num_heads=2", "mamba_head_dim=16",
		    "ssm_state_size=16", "n_groups=1", "max_position_embeddings=4096"};
		const mk_options o = {
		    .format = CASES[i].format, .seed = 3, .pattern = CASES[i].pattern, .config = config, .config_count = ARRAY_LEN(config)};
		nh_error e = {0};
		if (engine_model_open(&m, bench_checkpoint(CASES[i].name, &o), &(open_options){0}, &e) != NH_OK) fail_msg("%s", e.text);
		conversations(CASES[i].name, LENGTH, ARRAY_LEN(LENGTH));
		engine_model_close(m);
	}
	assert_int_equal(mem_live(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(on_made_checkpoints)};
	return cmocka_run_group_tests_name("second_turn", tests, NULL, NULL);
}
