/* SPDX-License-Identifier: Apache-2.0
 * test_engine_failures.c: every kind of op that a run of many different requests calls fails at its first, second, a middle and its last call. Who was
 * in that step is told so; everybody else says what he says alone; nothing is lost of slots and pages; and the same engine answers all of it
 * right the next time.
 */
#include "test.h"

#include <string.h>

#include "base/base_mem.h"
#include "base/base_rng.h"
#include "common/model_bench.h"
#include "engine/engine.h"
#include "engine/open.h"

#define REQUESTS 9
#define CHOICES 3
#define MOST 24

typedef struct answer {
	int32_t token[CHOICES][MOST];
	double logprob[CHOICES][MOST];
	int tokens[CHOICES];
	float embedding[32];
	nh_error error;
} answer;

/* The exec between engine and arm: counts, and fails one call. */
typedef struct breaker {
	int op, call; /* which; -1: none */
	int calls[OP_COUNT];
	bool broke;
} breaker;

static engine_model *m;
static exec *tap;
static breaker b;
static int32_t prompt[REQUESTS][160];
static answer alone[REQUESTS];

static void count(void *user, exec *x, op_id op, const void *args, bool after)
{
	(void)args;
	breaker *k = user;
	if (after) return;
	if ((int)op == k->op && k->calls[op] == k->call) {
		exec_fail(x, op, NH_ERR_BACKEND, "broken on purpose");
		k->broke = true;
	}
	k->calls[op]++;
}

/* Each asks for something else; 6 and 7 have a beginning in common. */
static engine_spec spec_of(int i)
{
	static const int LENGTH[REQUESTS] = {1, 20, 64, 65, 130, 40, 140, 150, 30};
	static const nh_bias EITHER[] = {{10, 40}, {11, 40}};
	engine_spec s = {.prompt = prompt[i],
	    .prompt_tokens = (size_t)LENGTH[i],
	    .max_tokens = MOST,
	    .top_p = 1,
	    .repetition_penalty = i == 2 ? 1.3 : 1,
	    .temperature = i % 2,
	    .seed = (uint64_t)i + 1,
	    .top_logprobs = 1,
	    .prompt_logprobs = i == 5,
	    .priority = i % 2,
	    .choices = i == 3 ? CHOICES : 1,
	    .ignore_end = true};
	if (i == 1) s.bias = EITHER, s.bias_count = 2; /* drafts hold now and then */
	if (i == 8) s.embed = NH_EMBED_MEAN, s.max_tokens = 0;
	return s;
}

static engine *open_engine(bool all)
{
	engine *g;
	nh_error e = {0};
	const engine_options o = {.max_context = 256,
	    .max_sequences = all ? 8 : CHOICES,
	    .no_prefix_cache = !all,
	    .event_limit = 512,
	    .draft = all ? NH_DRAFT_NGRAM : NH_DRAFT_NONE,
	    .step_tokens = all ? 64 : 0,
	    .memory_bytes = (uint64_t)16 << 20};
	if (engine_open(&g, &m->parts, &o, &e) != NH_OK) fail_msg("%s", e.text);
	return g;
}

static engine_request *ask(engine *g, int i)
{
	engine_request *r;
	nh_error e = {0};
	const engine_spec s = spec_of(i);
	if (engine_submit(g, &s, &r, &e) != NH_OK) fail_msg("%s", e.text);
	return r;
}

static void collect(answer *a, engine_request *r)
{
	engine_event v;
	int last = 0;
	memset(a, 0, sizeof *a);
	while (engine_request_next(r, &v, 20000000) == NH_OK) {
		assert_int_equal(last, 0);
		last += v.last;
		if (v.type == NH_EVENT_TOKEN) {
			a->token[v.choice][a->tokens[v.choice]] = v.token;
			a->logprob[v.choice][a->tokens[v.choice]++] = v.logprob;
		}
		if (v.type == NH_EVENT_EMBEDDING) memcpy(a->embedding, v.embedding, sizeof a->embedding);
		if (v.type == NH_EVENT_ERROR) a->error = *v.error;
	}
	assert_int_equal(last, 1);
	engine_request_release(r);
}

/* What came is right, all of it or, where the request failed, its beginning. */
static void right(int i, const answer *a)
{
	const answer *w = &alone[i];
	for (int c = 0; c < CHOICES; c++) {
		size_t n = (size_t)a->tokens[c];
		if (a->error.code ? n > (size_t)w->tokens[c] : n != (size_t)w->tokens[c]) fail_msg("request %d: %zu tokens", i, n);
		assert_memory_equal(a->token[c], w->token[c], n * sizeof w->token[c][0]);
		assert_memory_equal(a->logprob[c], w->logprob[c], n * sizeof w->logprob[c][0]);
	}
	if (!a->error.code) assert_memory_equal(a->embedding, w->embedding, sizeof w->embedding);
}

/* All requests at once; how many failed. */
static int round_of(engine *g)
{
	engine_request *r[REQUESTS];
	answer a;
	int failed = 0;
	for (int i = 0; i < REQUESTS; i++) r[i] = ask(g, i);
	for (int i = 0; i < REQUESTS; i++) {
		collect(&a, r[i]);
		right(i, &a);
		failed += a.error.code != 0;
		if (a.error.code) assert_non_null(strstr(a.error.text, "broken on purpose"));
	}
	return failed;
}

/* Only kept prefixes hold slots, and pages only with them. */
static void nothing_is_lost(engine *g)
{
	engine_stats s;
	engine_get_stats(g, &s);
	assert_int_equal(s.running + s.swapped + s.waiting, 0);
	assert_int_equal(s.slots_used, s.snapshots);
	assert_true(s.snapshots > 0 || s.pages_used == 0);
}

static void every_op_may_fail(void **state)
{
	(void)state;
	int ops = 0, broke = 0, failed = 0, lived = 0;
	b.op = -1;
	engine *g = open_engine(true);
	memset(b.calls, 0, sizeof b.calls);
	assert_int_equal(round_of(g), 0);
	engine_close(g);
	int seen[OP_COUNT];
	memcpy(seen, b.calls, sizeof seen);
	for (int op = 0; op < OP_COUNT; op++) {
		const int at[] = {0, 1, seen[op] / 2, seen[op] - 1};
		ops += seen[op] > 0;
		for (size_t k = 0; k < ARRAY_LEN(at) && seen[op]; k++) {
			g = open_engine(true);
			memset(b.calls, 0, sizeof b.calls);
			b.op = op;
			b.call = at[k];
			b.broke = false;
			int n = round_of(g);
			if (b.broke && n == 0 && op != OP_state_copy) fail_msg("%s, call %d: nobody was told", op_name((op_id)op), at[k]);
			if (!b.broke && n) fail_msg("%s: nothing failed, but %d requests", op_name((op_id)op), n);
			broke += b.broke;
			failed += n;
			lived += REQUESTS - n;
			b.op = -1;
			nothing_is_lost(g);
			assert_int_equal(round_of(g), 0);
			nothing_is_lost(g);
			engine_close(g);
		}
	}
	printf("%d kinds of op, %d calls failed: %d requests with them, %d not\n", ops, broke, failed, lived);
	assert_true(ops > 18 && broke > 2 * ops && failed > broke / 2 && lived > broke);
}

static int set_up(void **state)
{
	(void)state;
	static const char *const CONFIG[] = {"hidden_size=32", "vocab_size=320", "chunk_size=8", "mamba_num_heads=2", "mamba_head_dim=16",
	    "ssm_state_size=16", "n_groups=1", "max_position_embeddings=4096"};
	const mk_options o = {.format = MK_MIXED, .seed = 5, .pattern = "M*E-", .config = CONFIG, .config_count = ARRAY_LEN(CONFIG)};
	nh_error e = {0};
	if (engine_model_open(&m, bench_checkpoint("failures", &o), &(open_options){0}, &e) != NH_OK) fail_msg("%s", e.text);
	tap = wrap_tap_create(m->base, count, &b);
	assert_non_null(tap);
	m->parts.x = tap;
	b.op = -1;
	for (int i = 0; i < REQUESTS; i++)
		for (int k = 0; k < 160; k++)
			prompt[i][k] = (int32_t)(rng_u64(4, (uint64_t)k, i == 7 && k < 130 ? 6 : (uint64_t)i) % (uint64_t)m->m->shape.vocab);
	engine *g = open_engine(false);
	for (int i = 0; i < REQUESTS; i++) {
		collect(&alone[i], ask(g, i));
		assert_int_equal(alone[i].error.code, 0);
	}
	engine_close(g);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	wrap_destroy(tap);
	m->parts.x = m->base;
	engine_model_close(m);
	return mem_live() == 0 ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(every_op_may_fail)};
	return cmocka_run_group_tests_name("engine_failures", tests, set_up, tear_down);
}
