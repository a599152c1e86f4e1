/* SPDX-License-Identifier: Apache-2.0
 * test_engine_laws.c: the engine's laws on every arm and tier that this machine has, on checkpoints of several formats and on the built-in model: a
 * request's tokens and log-probabilities are those that it has alone, compared as doubles, whatever happens around it, and however many threads compute
 * them. Each law prints what it exercised and fails where that is nothing. Weights, prompts, lengths, options, poison and the order of slots and pages
 * come from a seed; other seeds: test_engine_laws SEED...
 */
#include "test.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/base_mem.h"
#include "base/base_rng.h"
#include "common/model_bench.h"
#include "engine/engine_impl.h"
#include "engine/open.h"

#define MANY 64     /* at once in one step */
#define REQUESTS 24 /* of them, those of the other laws */
#define MOST 32     /* tokens of a request */

typedef struct answer {
	int32_t token[MOST];
	double logprob[MOST];
	int tokens;
	nh_finish finish;
	nh_request_stats stats;
	double prompt_sum; /* of the prompt's log-probabilities, in order */
} answer;

typedef struct question {
	int32_t prompt[256];
	int n, tokens, priority;
	bool score, sampled, penalty;
	answer alone;
} question;

static engine_model *m;
static question q[MANY];
static uint64_t seed;
static const test_arm *on; /* who computes, and with how many threads */
static int threads;

/* One seed where everything takes a hundred times as long. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static uint64_t seeds[16] = {1};
static int seed_count = 1;
#define SANITIZED true
#else
#define SANITIZED false
static uint64_t seeds[16] = {1, 20731, 8};
static int seed_count = 3;
#endif

/* Around pages of 64 and chunks of 8; some ask for scores, some draw, some punish. */
static void questions(void)
{
	static const int LENGTH[] = {1, 63, 64, 65, 129, 8, 40, 95};
	memset(q, 0, sizeof q);
	for (int i = 0; i < MANY; i++) {
		q[i].n = i < 8 ? LENGTH[i] : 1 + (int)(rng_u64(seed, (uint64_t)i, 2) % 100);
		q[i].tokens = 16 + (int)(rng_u64(seed, (uint64_t)i, 1) % 16);
		q[i].priority = i % 3;
		q[i].score = i % 4 == 3;
		q[i].sampled = i % 2;
		q[i].penalty = i % 3 == 2;
		for (int k = 0; k < q[i].n; k++)
			q[i].prompt[k] = (int32_t)(rng_u64(seed, (uint64_t)k, i % 2 ? 3 : 4 + (uint64_t)i) % (uint64_t)m->m->shape.vocab);
	}
}

static engine_spec spec_of(const question *a, int i)
{
	engine_spec s = {.prompt = a->prompt,
	    .prompt_tokens = (size_t)a->n,
	    .max_tokens = a->tokens,
	    .top_p = 1,
	    .repetition_penalty = a->penalty ? 1.2 : 1,
	    .temperature = a->sampled ? 0.7 : 0,
	    .seed = 100 * seed + (uint64_t)i,
	    .top_logprobs = 1,
	    .prompt_logprobs = a->score,
	    .priority = a->priority,
	    .ignore_end = true};
	return s;
}

static engine *open_engine(engine_options o)
{
	engine *g;
	nh_error e = {0};
	o.max_context = 512;
	if (engine_open(&g, &m->parts, &o, &e) != NH_OK) fail_msg("%s", e.text);
	return g;
}

static engine_request *ask(engine *g, const engine_spec *s)
{
	engine_request *r;
	nh_error e = {0};
	if (engine_submit(g, s, &r, &e) != NH_OK) fail_msg("%s", e.text);
	return r;
}

static void collect(answer *a, engine_request *r, engine_session **kept)
{
	engine_event v;
	nh_error e = {0};
	memset(a, 0, sizeof *a);
	while (engine_request_next(r, &v, -1) == NH_OK) {
		if (v.type == NH_EVENT_PROMPT) a->prompt_sum = a->prompt_sum * 1.0000001 + v.logprob;
		if (v.type == NH_EVENT_TOKEN) {
			a->token[a->tokens] = v.token;
			a->logprob[a->tokens++] = v.logprob;
		}
		if (v.type == NH_EVENT_ERROR) fail_msg("%s", v.error->text);
		if (v.type == NH_EVENT_DONE) a->finish = v.finish, a->stats = v.stats;
	}
	if (kept && engine_session_take(r, kept, &e) != NH_OK) fail_msg("%s", e.text);
	engine_request_release(r);
}

static void same(const char *law, int i, const answer *want, const answer *got)
{
	if (want->tokens != got->tokens || memcmp(want->token, got->token, sizeof want->token) != 0 ||
	    memcmp(want->logprob, got->logprob, sizeof want->logprob) != 0 || memcmp(&want->prompt_sum, &got->prompt_sum, sizeof(double)) != 0)
		fail_msg("%s: request %d differs from what it says alone", law, i);
}

static uint64_t alone(void)
{
	engine *g = open_engine((engine_options){.max_sequences = 1, .no_prefix_cache = true});
	for (int i = 0; i < MANY; i++) {
		engine_spec s = spec_of(&q[i], i);
		collect(&q[i].alone, ask(g, &s), NULL);
		assert_int_equal(q[i].alone.tokens, q[i].tokens);
	}
	engine_stats s;
	engine_get_stats(g, &s);
	engine_close(g);
	return s.steps;
}

/* NaN bytes in everything that nobody has written, and slots and pages handed out in another order. Before the first request: the engine's thread
 * sleeps. */
static void disturb(engine *g)
{
	for (int i = 0; i < g->states.layers; i++) {
		memset(g->states.layer[i].conv.data, 0xFF, tensor_bytes(&g->states.layer[i].conv));
		memset(g->states.layer[i].ssm.data, 0xFF, tensor_bytes(&g->states.layer[i].ssm));
	}
	for (int i = 0; i < g->pages.layers; i++) {
		memset(g->pages.layer[i].k.data, 0xFF, tensor_bytes(&g->pages.layer[i].k));
		memset(g->pages.layer[i].v.data, 0xFF, tensor_bytes(&g->pages.layer[i].v));
	}
	pool *pools[] = {&g->states.pool, &g->pages.pool};
	for (int k = 0; k < 2; k++)
		for (int32_t i = pools[k]->count - 1; i > 0; i--) {
			int32_t j = (int32_t)(rng_u64(seed, (uint64_t)i, (uint64_t)k) % (uint64_t)(i + 1)), was = pools[k]->stack[i];
			pools[k]->stack[i] = pools[k]->stack[j];
			pools[k]->stack[j] = was;
		}
}

/* All questions at once; every third of `cancel` more is taken back. */
static engine_stats together(const char *law, engine_options o, bool poison, int cancel, bool scores)
{
	engine *g = open_engine(o);
	engine_request *r[REQUESTS], *gone[REQUESTS];
	if (poison) disturb(g);
	for (int i = 0; i < REQUESTS; i++) {
		engine_spec s = spec_of(&q[i], i);
		if (i < cancel) gone[i] = ask(g, &s);
		if (scores || !q[i].score) r[i] = ask(g, &s);
		if (i < cancel && i % 2) engine_request_cancel(gone[i]);
	}
	for (int i = 0; i < cancel; i++) engine_request_release(gone[i]);
	for (int i = 0; i < REQUESTS; i++) {
		answer a;
		if (!scores && q[i].score) continue;
		collect(&a, r[i], NULL);
		same(law, i, &q[i].alone, &a);
	}
	engine_stats s;
	engine_get_stats(g, &s);
	engine_close(g);
	return s;
}

/* On the engine's thread: counts the rows of steps, and holds the first one until all others have been submitted. */
typedef struct watch {
	engine *g;
	pthread_mutex_t lock;
	pthread_cond_t moved;
	bool reached, open;
	int most;
} watch;

static nh_status look(void *self, int32_t id, engine_text *out, nh_error *e)
{
	(void)id;
	(void)e;
	watch *w = self;
	*out = (engine_text){0};
	pthread_mutex_lock(&w->lock);
	w->reached = true;
	pthread_cond_broadcast(&w->moved);
	while (!w->open) pthread_cond_wait(&w->moved, &w->lock);
	if (w->g->step.D > w->most) w->most = w->g->step.D;
	pthread_mutex_unlock(&w->lock);
	return NH_OK;
}

static void let_go(watch *w)
{
	pthread_mutex_lock(&w->lock);
	w->open = true;
	pthread_cond_broadcast(&w->moved);
	pthread_mutex_unlock(&w->lock);
}

/* All of them in the same steps: while the first token of one more request is being told, nothing runs. */
static void many(const char *name, uint64_t steps_alone)
{
	watch w = {.g = open_engine((engine_options){
	               .max_sequences = MANY, .no_prefix_cache = true, .event_limit = 512, .memory_bytes = (uint64_t)64 << 20}),
	    .lock = PTHREAD_MUTEX_INITIALIZER,
	    .moved = PTHREAD_COND_INITIALIZER};
	engine_request *r[MANY];
	answer a;
	disturb(w.g);
	engine_spec s = spec_of(&q[1], 1);
	s.max_tokens = 1;
	s.hooks = (engine_hooks){.self = &w, .push = look};
	engine_request *first = ask(w.g, &s);
	for (int i = 0; i < MANY; i++) {
		s = spec_of(&q[i], i);
		s.hooks = (engine_hooks){.self = &w, .push = look};
		r[i] = ask(w.g, &s);
	}
	let_go(&w);
	collect(&a, first, NULL);
	for (int i = 0; i < MANY; i++) {
		collect(&a, r[i], NULL);
		same("batch", i, &q[i].alone, &a);
	}
	engine_stats t;
	engine_get_stats(w.g, &t);
	engine_close(w.g);
	printf("LAW batch of 1 = batch of many: %s: %d requests, at most %d decode rows in a step, %d steps instead of %d\n", name, MANY,
	    w.most, (int)t.steps, (int)steps_alone);
	assert_true(w.most == MANY && t.steps * 8 < steps_alone);
}

/* Room for two of the long ones; and while those of low priority run, the others come. */
static void swaps(const char *name)
{
	engine *g = open_engine((engine_options){.max_sequences = 1});
	engine_request *r[REQUESTS];
	engine_stats s;
	engine_get_stats(g, &s);
	engine_close(g);
	const uint64_t slot = s.state_bytes / s.slots_total, page = s.kv_bytes / s.pages_total;
	watch w = {.g = open_engine((engine_options){.max_sequences = 6, .memory_bytes = 8 * slot + 5 * page, .no_prefix_cache = true}),
	    .lock = PTHREAD_MUTEX_INITIALIZER,
	    .moved = PTHREAD_COND_INITIALIZER};
	disturb(w.g);
	for (int late = 0; late < 2; late++) {
		for (int i = 0; i < REQUESTS; i++) {
			if ((q[i].priority > 0) != late) continue;
			engine_spec a = spec_of(&q[i], i);
			if (i == 0) a.hooks = (engine_hooks){.self = &w, .push = look};
			r[i] = ask(w.g, &a);
		}
		pthread_mutex_lock(&w.lock);
		while (!w.reached) pthread_cond_wait(&w.moved, &w.lock);
		pthread_mutex_unlock(&w.lock);
	}
	let_go(&w);
	for (int i = 0; i < REQUESTS; i++) {
		answer a;
		collect(&a, r[i], NULL);
		same("swap", i, &q[i].alone, &a);
	}
	engine_get_stats(w.g, &s);
	engine_close(w.g);
	printf("LAW swapped = never: %s: %d out, %d in, %d pages\n", name, (int)s.swaps_out, (int)s.swaps_in, (int)s.pages_total);
	assert_true(s.swaps_out > 0 && s.swaps_in == s.swaps_out);
}

static void company(const char *name)
{
	engine_stats s;
	s = together("split", (engine_options){.max_sequences = 64, .no_prefix_cache = true, .step_tokens = 1}, true, 0, true);
	printf("LAW any split = no split, poison and permutation: %s: %d steps, %d chunks in %d scans\n", name, (int)s.steps,
	    (int)s.scan_chunks, (int)s.scan_calls);
	assert_true(s.steps > 40);
	s = together("cancel", (engine_options){.max_sequences = 16}, true, REQUESTS, true);
	printf("LAW a cancelled neighbour = none: %s: %d of %d cancelled\n", name, (int)s.cancelled, (int)s.requests);
	assert_true(s.cancelled > 2);
	together("drafts", (engine_options){.max_sequences = 8, .draft = NH_DRAFT_NGRAM, .draft_tokens = 3}, true, 0, false);
}

/* Two tokens in random order: the drafter guesses about half of them. */
static void drafts(const char *name)
{
	static const nh_bias EITHER[] = {{10, 40}, {11, 40}};
	answer want[4], got;
	engine_request *r[4];
	engine *plain = open_engine((engine_options){.max_sequences = 1, .no_prefix_cache = true});
	engine_spec s[4];
	for (int i = 0; i < 4; i++) {
		s[i] = spec_of(&q[i + 1], i);
		s[i].temperature = 4;
		s[i].bias = EITHER;
		s[i].bias_count = 2;
		s[i].max_tokens = MOST;
		s[i].prompt_logprobs = false;
		s[i].frequency_penalty = i == 2 ? 0.1 : 0;
		collect(&want[i], ask(plain, &s[i]), NULL);
	}
	engine_close(plain);
	engine *g = open_engine((engine_options){.max_sequences = 3, .draft = NH_DRAFT_NGRAM, .draft_tokens = 5});
	disturb(g);
	for (int i = 0; i < 4; i++) r[i] = ask(g, &s[i]);
	for (int i = 0; i < 4; i++) {
		collect(&got, r[i], NULL);
		same("drafts", i, &want[i], &got);
	}
	engine_stats t;
	engine_get_stats(g, &t);
	engine_close(g);
	printf("LAW draft on = draft off: %s: %d accepted, %d rejected\n", name, (int)t.accepted_tokens,
	    (int)(t.drafted_tokens - t.accepted_tokens));
	assert_true(t.accepted_tokens > 5 && t.drafted_tokens > t.accepted_tokens + 5);
}

/* Cold and again, at lengths around borders; every hit says what the cold run says. */
static void prefixes(const char *name)
{
	static const int BORDERS[] = {8, 63, 64, 65, 72, 127, 128, 129, 136, 193};
	int length[ARRAY_LEN(BORDERS) + 4];
	memcpy(length, BORDERS, sizeof BORDERS);
	engine *g = open_engine((engine_options){.max_sequences = 2}), *cold = NULL;
	answer want[ARRAY_LEN(length)], got;
	question a = {.tokens = 3};
	int hits = 0;
	uint64_t reused = 0, computed = 0;
	for (int k = 0; k < 256; k++) a.prompt[k] = (int32_t)(rng_u64(seed, (uint64_t)k, 100) % (uint64_t)m->m->shape.vocab);
	engine_close(g);
	for (size_t i = ARRAY_LEN(BORDERS); i < ARRAY_LEN(length); i++) length[i] = 1 + (int)(rng_u64(seed, i, 101) % 256);
	cold = open_engine((engine_options){.max_sequences = 1, .no_prefix_cache = true});
	for (size_t i = 0; i < ARRAY_LEN(length); i++) {
		a.n = length[i];
		engine_spec s = spec_of(&a, 0);
		collect(&want[i], ask(cold, &s), NULL);
	}
	engine_close(cold);
	g = open_engine((engine_options){.max_sequences = 2});
	disturb(g);
	for (int round = 0; round < 2; round++)
		for (size_t i = 0; i < ARRAY_LEN(length); i++) {
			a.n = length[i];
			engine_spec s = spec_of(&a, 0);
			collect(&got, ask(g, &s), NULL);
			same("prefix", length[i], &want[i], &got);
			assert_int_equal(got.stats.reused_tokens + got.stats.computed_tokens, length[i]);
			if (round) assert_int_equal(got.stats.reused_tokens, (length[i] - 1) / 64 * 64); /* the largest edge below the prompt */
			hits += got.stats.reused_tokens > 0;
			reused += got.stats.reused_tokens;
			computed += got.stats.computed_tokens;
		}
	engine_close(g);
	printf("LAW prefix hit = cold: %s: %d hits, %d tokens reused, %d computed\n", name, hits, (int)reused, (int)computed);
	assert_true(hits > 8 && reused > 0);
}

static void sessions(const char *name)
{
	engine *g = open_engine((engine_options){.max_sequences = 3});
	const question *a = &q[4];
	int continued = 0, forked = 0;
	for (int stop = 1; stop < a->tokens; stop += 4) {
		engine_spec s = spec_of(a, 4);
		answer first, rest[2];
		engine_session *kept = NULL;
		s.max_tokens = stop;
		s.keep_session = true;
		collect(&first, ask(g, &s), &kept);
		for (int k = 0; k < 2; k++) { /* twice from the same state */
			engine_spec more = spec_of(a, 4);
			more.prompt_tokens = 0;
			more.session = kept;
			more.max_tokens = a->tokens - stop;
			engine_request *beside =
			    k ? ask(g, &(engine_spec){.prompt = q[3].prompt, .prompt_tokens = 65, .max_tokens = 5, .top_p = 1, .repetition_penalty = 1})
			      : NULL;
			collect(&rest[k], ask(g, &more), NULL);
			engine_request_release(beside);
			assert_int_equal(rest[k].stats.computed_tokens, 0);
			assert_int_equal(rest[k].tokens, a->tokens - stop);
			for (int i = 0; i < rest[k].tokens; i++) {
				if (rest[k].token[i] != a->alone.token[stop + i] ||
				    memcmp(&rest[k].logprob[i], &a->alone.logprob[stop + i], sizeof(double)) != 0)
					fail_msg("continued after %d: token %d differs", stop, i);
				continued++;
			}
		}
		engine_session_close(kept);
	}
	for (int k = 1; k <= 4; k += 3) { /* a prompt of 63 and one of 129 */
		engine_spec s = spec_of(&q[k], k);
		s.temperature = 1;
		s.prompt_logprobs = false;
		answer one[3];
		for (int c = 0; c < 3; c++, s.seed++) collect(&one[c], ask(g, &s), NULL);
		s.seed -= 3;
		s.choices = 3;
		int at[3] = {0};
		engine_event v;
		engine_request *r = ask(g, &s);
		while (engine_request_next(r, &v, -1) == NH_OK) {
			if (v.type != NH_EVENT_TOKEN) continue;
			const answer *w = &one[v.choice];
			int i = at[v.choice]++;
			if (v.token != w->token[i] || memcmp(&v.logprob, &w->logprob[i], sizeof(double)) != 0)
				fail_msg("choice %d: token %d differs", v.choice, i);
			forked++;
		}
		engine_request_release(r);
	}
	engine_stats s;
	engine_get_stats(g, &s);
	engine_close(g);
	printf("LAW continued = never stopped, forked = separate: %s: %d tokens continued, %d of choices, %d states back\n", name, continued,
	    forked, (int)s.swaps_in);
	assert_true(continued > 10 && forked > 30 && s.swaps_in > 0);
}

static void open_model(const char *dir, const char *numerics, bool check)
{
	nh_error e = {0};
	const open_options o = {.arm = on->be->name,
	    .isa = on->isa,
	    .threads = threads,
	    .numerics = numerics ? test_arm_profile(on, numerics, "portable") : NULL,
	    .check = check};
	if (engine_model_open(&m, dir, &o, &e) != NH_OK) fail_msg("%s", e.text);
}

/* What the arm inherits from ref is right and slow: it would prove nothing about the arm. */
static void close_model(void)
{
	uint64_t reference = 0, calls = 0;
	for (int i = 0; i < OP_COUNT; i++) reference += m->parts.x->counters.op[i].reference_calls, calls += m->parts.x->counters.op[i].calls;
	if (reference)
		fail_msg("%s: %llu of %llu calls ran the reference op", on->name, (unsigned long long)reference, (unsigned long long)calls);
	engine_model_close(m);
}

static void laws(const char *name, const char *dir, const char *numerics, bool check)
{
	open_model(dir, numerics, check);
	questions();
	uint64_t steps = alone();
	many(name, steps);
	company(name);
	swaps(name);
	drafts(name);
	prefixes(name);
	sessions(name);
	close_model();
}

static const struct made {
	const char *name;
	mk_format format;
	const char *pattern, *numerics;
} CASES[] = {
    {"laws-bf16", MK_BF16, "M*-", "portable"},
    {"laws-fp8", MK_FP8, "ME*-", "hopper"},
    {"laws-mixed", MK_MIXED, "M*EM-", "portable"},
    {"laws-exact", MK_NVFP4, "ME*", "exact"},
};

static const char *made(const struct made *c, char name[64])
{
	static const char *const CONFIG[] = {"hidden_size=32", "vocab_size=320", "chunk_size=8", "mamba_num_heads=2", "mamba_head_dim=16",
	    "ssm_state_size=16", "n_groups=1", "max_position_embeddings=4096"};
	snprintf(name, 64, "%s-%llu", c->name, (unsigned long long)seed);
	const mk_options o = {.format = c->format,
	    .seed = 7 * seed + (uint64_t)(c - CASES),
	    .pattern = c->pattern,
	    .config = CONFIG,
	    .config_count = ARRAY_LEN(CONFIG)};
	return bench_checkpoint(name, &o);
}

static test_arm arms[TEST_ARMS];
static int arm_count;

/* Each tier sees every seed, and with them 1, 2 and 3 threads. On ref, which computes row by row, most laws are true by construction: one seed. */
static void on_made_checkpoints(void **state)
{
	(void)state;
	/* Under sanitizers one tier is enough: another finds no other races. */
	for (int a = SANITIZED && arm_count > 1; a < (SANITIZED && arm_count > 2 ? 2 : arm_count); a++)
		for (int k = 0; k < (a ? seed_count : 1); k++)
			for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
				char name[64];
				seed = seeds[k];
				on = &arms[a];
				threads = 1 + (k + a) % 3;
				const char *dir = made(&CASES[i], name);
				printf("LAWS of %s, seed %llu, on %s, %d threads\n", CASES[i].name, (unsigned long long)seed, on->name, threads);
				laws(name, dir, CASES[i].numerics, i == 1);
			}
}

/* A whole run, some questions alone and some together, by 1, 2, 3 and 7 threads: the same bits. Ranges of rows are fixed, so there are more threads
 * than ranges in some ops and fewer in others. */
static void the_thread_count_changes_nothing(void **state)
{
	(void)state;
	static const int COUNTS[] = {1, 2, 3, 7};
	enum { SOME = 6 };
	for (int a = 0; a < (SANITIZED && arm_count > 2 ? 2 : arm_count); a++) {
		if (arms[a].be == arms[0].be) continue; /* ref has no threads */
		for (size_t i = 0; i < ARRAY_LEN(CASES) + !SANITIZED; i++) {
			answer want[2 * SOME], got[2 * SOME];
			char name[64] = "built-in";
			int tokens = 0;
			on = &arms[a];
			seed = seeds[0];
			const char *dir = i < ARRAY_LEN(CASES) ? made(&CASES[i], name) : NH_SOURCE_DIR "/models/tiny";
			for (size_t n = 0; n < (SANITIZED ? 2 : ARRAY_LEN(COUNTS)); n++) { /* a sanitizer's spinning threads starve each other */
				threads = COUNTS[n];
				open_model(dir, i < ARRAY_LEN(CASES) ? CASES[i].numerics : NULL, false);
				questions();
				engine *g = open_engine((engine_options){.max_sequences = SOME, .no_prefix_cache = true});
				engine_request *r[SOME];
				for (int k = 0; k < 2 * SOME; k++) {
					engine_spec s = spec_of(&q[k % SOME], k % SOME);
					s.max_tokens = 8;
					if (k < SOME) collect(&got[k], ask(g, &s), NULL);
					else r[k - SOME] = ask(g, &s);
				}
				for (int k = SOME; k < 2 * SOME; k++) collect(&got[k], r[k - SOME], NULL);
				engine_close(g);
				close_model();
				if (n == 0) memcpy(want, got, sizeof want);
				for (int k = 0; k < 2 * SOME; k++) {
					char law[96];
					snprintf(law, sizeof law, "%s, %s: %d threads instead of 1", on->name, name, threads);
					same(law, k, &want[k], &got[k]);
					tokens += got[k].tokens;
				}
			}
			printf("LAW 1 thread = 2 = 3 = 7: %s, %s: %d tokens\n", on->name, name, tokens);
			assert_int_equal(tokens, (SANITIZED ? 2 : (int)ARRAY_LEN(COUNTS)) * 2 * SOME * 8);
		}
	}
}

/* The built-in model: NVFP4, FP8 and BF16 in one, chunks of 128. A few short ones beside each other, drafted, swapped and continued. */
static void company_on_the_built_in_model(void)
{
	enum { FEW = 4, LONG = 12 };
	answer want[FEW], got;
	engine_spec s[FEW];
	engine_request *r[FEW];
	open_model(NH_SOURCE_DIR "/models/tiny", NULL, false);
	seed = seeds[0];
	questions();
	for (int i = 0; i < FEW; i++) {
		q[i].n = 6 + 7 * i;
		s[i] = spec_of(&q[i], i);
		s[i].max_tokens = LONG;
		s[i].prompt_logprobs = false;
	}
	engine *g = open_engine((engine_options){.max_sequences = 1, .no_prefix_cache = true});
	for (int i = 0; i < FEW; i++) collect(&want[i], ask(g, &s[i]), NULL);
	engine_stats one, all;
	engine_get_stats(g, &one);
	engine_close(g);
	g = open_engine((engine_options){.max_sequences = FEW, .draft = NH_DRAFT_NGRAM});
	disturb(g);
	for (int i = 0; i < FEW; i++) r[i] = ask(g, &s[i]);
	for (int i = 0; i < FEW; i++) {
		collect(&got, r[i], NULL);
		same("built-in, batch", i, &want[i], &got);
	}
	engine_get_stats(g, &all);
	engine_session *kept = NULL;
	s[1].max_tokens = 5;
	s[1].keep_session = true;
	collect(&got, ask(g, &s[1]), &kept);
	engine_spec more = s[1];
	more.prompt_tokens = 0;
	more.session = kept;
	more.max_tokens = LONG - 5;
	collect(&got, ask(g, &more), NULL);
	engine_session_close(kept);
	assert_int_equal(got.tokens, LONG - 5);
	assert_memory_equal(got.token, want[1].token + 5, (LONG - 5) * sizeof *got.token);
	assert_memory_equal(got.logprob, want[1].logprob + 5, (LONG - 5) * sizeof *got.logprob);
	engine_close(g);
	printf("LAW company and continuation: built-in model, %s: %d requests, %d steps instead of %d\n", on->name, FEW, (int)all.steps,
	    (int)one.steps);
	assert_true(all.steps < one.steps);
	close_model();
}

static void on_the_built_in_model(void **state)
{
	(void)state;
	if (SANITIZED) NOT_RUN("minutes under a sanitizer; the made checkpoints have run");
	for (int a = 0; a < arm_count; a++) {
		on = &arms[a];
		threads = 2;
		company_on_the_built_in_model();
	}
}

static int find_arms(void **state)
{
	(void)state;
	arm_count = test_arms(arms);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 1) seed_count = 0;
	for (int i = 1; i < argc && seed_count < (int)ARRAY_LEN(seeds); i++) seeds[seed_count++] = strtoull(argv[i], NULL, 10);
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(on_made_checkpoints), cmocka_unit_test(the_thread_count_changes_nothing), cmocka_unit_test(on_the_built_in_model)};
	return cmocka_run_group_tests_name("engine_laws", tests, find_arms, NULL);
}
