/* SPDX-License-Identifier: Apache-2.0
 * soak.c: thousands of random short requests through the public interface, from two threads, on a small random model: cancels, deadlines, choices,
 * prefix hits, drafts, swaps, sessions continued, forked and restored from files. Then: a sample of the answers, computed again alone, must be the
 * same; the pools must be back at zero; what was meant to happen must have happened. Not a test of the suite: `make soak`, see usage(). Several
 * can run side by side, each in its own folder and with its own seed: --shard, and scripts/pack_soak adds up what they did.
 * A job is a pure function of its path of keys, so that it can be made again. Breaks first: nothing that depends on time may enter a job's options.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base_clock.h"
#include "base/base_rng.h"
#include "cmd/mkmodel/mk.h"
#include "nh/nh.h"

#define VOCAB 320
#define CHUNK 16
#define CONTEXT 512
#define THREADS 2
#define IN_FLIGHT 40
#define DEPTH 4 /* a request and what continues it */
#define CHOICES 3
#define TOKENS 12 /* most a choice generates */
#define PROMPT 256
#define SAVED (1 << 16)

/* One request: the keys of those that it continues, and its own. */
typedef struct path {
	uint64_t key[DEPTH];
	int depth; /* keys in use */
} path;

typedef struct answer {
	path path;
	bool cut; /* cancelled or late: what came is a beginning of what comes alone */
	int32_t token[CHOICES][TOKENS];
	uint8_t count[CHOICES];
} answer;

typedef struct job {
	nh_request *request;
	answer a;
	int64_t cancel_after; /* events; -1: never */
	bool kept, failed;
} job;

typedef struct counters {
	uint64_t requests, tokens, cancelled, late, choices, kept, continued, forked, restored, failed;
} counters;

typedef struct client {
	pthread_t thread;
	nh_engine *engine;
	const char *dir;
	uint64_t seed, quota;
	int number;
	bool cache;
	counters n;
	job job[IN_FLIGHT];
	struct {
		path path;
		nh_session *session;
	} next[4 * IN_FLIGHT]; /* continuations that wait to be submitted */
	int next_count;
	answer *saved; /* own [SAVED] */
	size_t saved_count;
} client;

static const char *program;

static void die(const char *what, const nh_error *e)
{
	fprintf(stderr, "%s: %s: %s\n", program, what, e ? e->text : "");
	exit(1);
}

static uint64_t draw(const path *p, uint64_t lane, uint64_t below) { return rng_u64(p->key[p->depth - 1], 1, lane) % below; }

/* A beginning that some requests have in common, then tokens of its own. Most are short. */
static size_t prompt_of(const path *p, int32_t *ids)
{
	size_t n = 0, kind = draw(p, 1, 20), common = kind < 10 ? draw(p, 2, 17) : kind < 17 ? 60 + draw(p, 2, 24) : 100 + draw(p, 2, 100);
	uint64_t family = draw(p, 3, 6);
	if (p->depth > 1) common = 0;
	for (; n < common; n++) ids[n] = (int32_t)(3 + rng_u64(family, n, 77) % (VOCAB - 3));
	size_t own = p->depth > 1 ? draw(p, 4, 12) : 1 + draw(p, 4, 30);
	for (size_t i = 0; i < own; i++) ids[n++] = (int32_t)(3 + draw(p, 1000 + i, VOCAB - 3));
	return n;
}

/* ids: room for PROMPT. Everything that decides tokens is in here; company, time and memory are not. */
static nh_request_options options_of(const path *p, int32_t *ids)
{
	nh_request_options o;
	nh_request_options_init(&o, sizeof o);
	o.prompt = ids;
	o.prompt_tokens = prompt_of(p, ids);
	o.max_tokens = (int64_t)(1 + draw(p, 5, TOKENS));
	o.temperature = draw(p, 6, 2) ? 0.9 : 0;
	o.top_k = draw(p, 7, 3) ? 0 : 20;
	o.top_p = draw(p, 8, 3) ? 1 : 0.9;
	o.repetition_penalty = draw(p, 9, 4) ? 1 : 1.2;
	o.frequency_penalty = draw(p, 10, 4) ? 0 : 0.5;
	o.min_tokens = (int64_t)draw(p, 11, 4);
	o.seed = draw(p, 12, 1000);
	o.priority = (int32_t)draw(p, 13, 3);
	o.choices = draw(p, 14, 10) || p->depth > 1 ? 1 : (int32_t)(2 + draw(p, 15, CHOICES - 1));
	o.keep_session = o.choices == 1 && draw(p, 16, 4) == 0 && p->depth < DEPTH;
	return o;
}

static path child(const path *p, uint64_t which)
{
	path c = *p;
	c.key[c.depth++] = rng_u64(p->key[p->depth - 1], 2, which);
	return c;
}

/* --- the soak --- */

static void submit(client *c, job *j, const path *p, nh_session *session)
{
	int32_t ids[PROMPT];
	nh_error e;
	nh_request_options o = options_of(p, ids);
	memset(j, 0, sizeof *j);
	j->a.path = *p;
	j->kept = o.keep_session;
	j->cancel_after = draw(p, 20, 12) ? -1 : (int64_t)draw(p, 21, 6);
	o.session = session;
	o.no_prefix_cache = !c->cache;
	if (draw(p, 22, 60) == 0) o.deadline_us = (int64_t)(1 + draw(p, 23, 3000));
	if (nh_engine_submit(c->engine, &o, &j->request, &e) != NH_OK) die("submit", &e);
	c->n.requests++;
	c->n.choices += o.choices > 1;
	c->n.kept += o.keep_session;
	c->n.continued += session != NULL;
	if (j->cancel_after == 0) nh_request_cancel(j->request);
}

static void take_event(client *c, job *j, const nh_event *ev)
{
	answer *a = &j->a;
	int i = ev->choice;
	if (ev->type == NH_EVENT_TOKEN) {
		if (i < 0 || i >= CHOICES || a->count[i] >= TOKENS) die("an event that was not asked for", NULL);
		a->token[i][a->count[i]++] = ev->token;
		c->n.tokens++;
	}
	if (ev->type == NH_EVENT_ERROR) {
		fprintf(stderr, "soak: a request failed: %s\n", ev->error.text);
		j->failed = true;
	}
	if (ev->type == NH_EVENT_DONE && (ev->finish == NH_FINISH_CANCELLED || ev->finish == NH_FINISH_DEADLINE)) {
		a->cut = true;
		*(ev->finish == NH_FINISH_DEADLINE ? &c->n.late : &c->n.cancelled) += 1;
	}
	if (j->cancel_after > 0 && --j->cancel_after == 0) nh_request_cancel(j->request);
}

/* Out to a file and back in. */
static nh_session *through_file(client *c, nh_session *s)
{
	char file[1100];
	nh_error e;
	nh_session *back;
	snprintf(file, sizeof file, "%s/session-%d", c->dir, c->number);
	if (nh_session_save(s, file, &e) != NH_OK) die("save", &e);
	nh_session_close(s);
	if (nh_session_load(c->engine, file, 0, &back, &e) != NH_OK) die("load", &e);
	c->n.restored++;
	return back;
}

static void follow(client *c, const path *p, uint64_t which, nh_session *s)
{
	if (c->next_count == (int)(sizeof c->next / sizeof *c->next)) {
		nh_session_close(s);
		return;
	}
	c->next[c->next_count].path = child(p, which);
	c->next[c->next_count++].session = s;
}

/* What becomes of a session: thrown away, continued, continued twice, or continued from a file. */
static void use_session(client *c, job *j)
{
	nh_session *s, *other;
	nh_error e;
	nh_status status = nh_request_take_session(j->request, &s, &e);
	if (status == NH_ERR_STATE && j->a.cut) return; /* cut before anything was computed */
	if (status != NH_OK) die("take_session", &e);
	uint64_t what = draw(&j->a.path, 30, 4);
	if (j->a.cut || what == 0) {
		nh_session_close(s);
		return;
	}
	if (what == 2) {
		if (nh_session_fork(s, &other, &e) != NH_OK) die("fork", &e);
		c->n.forked++;
		follow(c, &j->a.path, 1, other);
	}
	follow(c, &j->a.path, 0, what == 3 ? through_file(c, s) : s);
}

static bool listen_to(client *c, job *j, int64_t timeout_us)
{
	nh_event ev;
	nh_status s;
	while ((s = nh_request_next(j->request, &ev, sizeof ev, timeout_us)) == NH_OK) take_event(c, j, &ev);
	if (s == NH_ERR_TIMEOUT) return false;
	if (s != NH_ERR_STATE) die("next", NULL);
	c->n.failed += j->failed;
	if (j->kept && !j->failed) use_session(c, j);
	nh_request_release(j->request);
	j->request = NULL;
	bool chosen = j->a.path.depth > 1 || j->a.cut || rng_u64(j->a.path.key[0], 3, 0) % 8 == 0;
	if (chosen && !j->failed && c->saved_count < SAVED) c->saved[c->saved_count++] = j->a;
	return true;
}

static void *client_run(void *user)
{
	client *c = user;
	uint64_t begun = 0;
	for (int live = 1; live > 0;) {
		live = 0;
		for (int i = 0; i < IN_FLIGHT; i++) {
			job *j = &c->job[i];
			if (j->request && !listen_to(c, j, live == 0 ? 200 : 0)) {
				live++;
				continue;
			}
			if (c->next_count > 0) {
				c->next_count--;
				submit(c, j, &c->next[c->next_count].path, c->next[c->next_count].session);
			} else if (begun < c->quota) {
				path p = {.key = {rng_u64(c->seed, begun++, (uint64_t)c->number)}, .depth = 1};
				submit(c, j, &p, NULL);
			} else {
				continue;
			}
			live++;
		}
	}
	return NULL;
}

/* --- the same again, alone --- */

/* One request by itself; *session in and out. */
static void alone(nh_engine *g, const path *p, bool keep, int64_t max_tokens, uint64_t seed, nh_session **session, answer *out, int choice)
{
	int32_t ids[PROMPT];
	nh_error e;
	nh_request *r;
	nh_event ev;
	nh_request_options o = options_of(p, ids);
	o.keep_session = keep;
	o.choices = 1;
	o.seed += seed;
	o.session = *session;
	if (max_tokens >= 0) o.max_tokens = max_tokens;
	*session = NULL;
	if (nh_engine_submit(g, &o, &r, &e) != NH_OK) die("submit alone", &e);
	while (nh_request_next(r, &ev, sizeof ev, -1) == NH_OK) {
		if (ev.type == NH_EVENT_ERROR) die("alone", &ev.error);
		if (ev.type == NH_EVENT_TOKEN) out->token[choice][out->count[choice]++] = ev.token;
	}
	if (keep && nh_request_take_session(r, session, &e) != NH_OK) die("take_session alone", &e);
	nh_request_release(r);
}

static bool same(nh_engine *g, const answer *a)
{
	answer b = {.path = a->path};
	int32_t ids[PROMPT];
	nh_request_options o = options_of(&a->path, ids);
	int choices = o.choices > 1 ? o.choices : 1;
	for (int i = 0; i < choices; i++) {
		nh_session *session = NULL;
		for (int d = 1; d < a->path.depth; d++) {
			answer ignored = {0};
			path before = a->path;
			before.depth = d;
			alone(g, &before, true, -1, 0, &session, &ignored, 0);
		}
		alone(g, &a->path, false, -1, (uint64_t)i, &session, &b, i);
	}
	for (int i = 0; i < choices; i++) {
		if (a->cut ? a->count[i] > b.count[i] : a->count[i] != b.count[i]) return false;
		if (memcmp(a->token[i], b.token[i], a->count[i] * sizeof *b.token[i]) != 0) return false;
	}
	return true;
}

/* --- what happened --- */

static int faults;
static bool shard; /* one of several: a counter may be zero */

static void need(bool must, const char *what, uint64_t n)
{
	printf("  %-12s %" PRIu64 "%s\n", what, n, n || !must ? "" : "   NOT EXERCISED");
	faults += must && n == 0 && !shard;
}

static void zero(const char *what, uint64_t n)
{
	if (n) printf("  %s: %" PRIu64 " left, expected 0\n", what, n);
	faults += n != 0;
}

static nh_engine *engine_on(nh_model *m, uint64_t memory, const char *spill, bool cache, int32_t sequences, bool draft)
{
	nh_error e;
	nh_engine *g;
	nh_engine_options o;
	nh_engine_options_init(&o, sizeof o);
	o.max_context = CONTEXT;
	o.step_tokens = 4 * CHUNK;
	o.memory_bytes = memory;
	o.max_sequences = sequences;
	o.no_prefix_cache = !cache;
	o.spill_dir = cache ? spill : NULL;
	o.draft = draft ? NH_DRAFT_NGRAM : NH_DRAFT_NONE;
	if (nh_engine_open(&g, m, &o, &e) != NH_OK) die("engine", &e);
	return g;
}

/* One round of so many requests: with the prefix cache everything must come about; without it the pools must be empty afterwards. */
static void soak_round(nh_model *m, const char *dir, uint64_t requests, uint64_t seed, uint64_t memory, bool cache)
{
	static client clients[THREADS];
	nh_engine_stats s;
	counters n = {0};
	int64_t began = clock_us();
	nh_engine *g = engine_on(m, memory, dir, cache, 16, true);
	for (int i = 0; i < THREADS; i++) {
		client *c = &clients[i];
		*c = (client){.engine = g, .dir = dir, .seed = seed, .quota = requests / THREADS, .number = i, .cache = cache};
		c->saved = calloc(SAVED, sizeof *c->saved);
		if (!c->saved || pthread_create(&c->thread, NULL, client_run, c) != 0) die("thread", NULL);
	}
	for (int i = 0; i < THREADS; i++) pthread_join(clients[i].thread, NULL);
	nh_engine_get_stats(g, &s, sizeof s);
	nh_engine_close(g);
	double seconds = (double)(clock_us() - began) / 1e6;
	for (int i = 0; i < THREADS; i++) {
		const uint64_t *from = (const uint64_t *)&clients[i].n;
		for (size_t k = 0; k < sizeof n / sizeof(uint64_t); k++) ((uint64_t *)&n)[k] += from[k];
	}
	printf("%s the prefix cache: %" PRIu64 " requests, %" PRIu64 " tokens, %.1f s\n", cache ? "with" : "without", n.requests, n.tokens,
	    seconds);
	need(cache, "cancelled", n.cancelled), need(cache, "late", n.late), need(cache, "choices", n.choices);
	need(cache, "continued", n.continued), need(cache, "forked", n.forked), need(cache, "restored", n.restored);
	need(cache, "swaps out", s.swaps_out), need(cache, "swaps in", s.swaps_in);
	need(cache, "drafted", s.drafted_tokens), need(cache, "accepted", s.accepted_tokens),
	    need(cache, "rejected", s.drafted_tokens - s.accepted_tokens);
	if (cache) {
		need(cache, "prefix hits", s.prefix_hits), need(cache, "reused", s.reused_tokens), need(cache, "evictions", s.evictions);
		need(cache, "spills", s.spills), need(cache, "spill loads", s.spill_loads);
	}
	zero("failed requests", n.failed), zero("running", s.running), zero("waiting", s.waiting), zero("swapped", s.swapped);
	zero("slots that no snapshot holds", s.slots_used - s.snapshots);
	if (!cache) zero("slots", s.slots_used), zero("pages", s.pages_used), zero("snapshots", s.snapshots);

	uint64_t compared = 0, differ = 0;
	nh_engine *one = engine_on(m, 0, NULL, false, 1, false);
	for (int i = 0; i < THREADS; i++) {
		for (size_t k = 0; k < clients[i].saved_count; k++) {
			compared++;
			if (same(one, &clients[i].saved[k])) continue;
			if (differ++ == 0)
				printf("  differs: path of %d, first key %" PRIx64 "\n", clients[i].saved[k].path.depth, clients[i].saved[k].path.key[0]);
		}
		free(clients[i].saved);
	}
	nh_engine_close(one);
	need(true, "compared", compared), zero("answers that differ from the one computed alone", differ);
}

static void usage(void)
{
	fprintf(stderr,
	    "usage: soak [--format NAME] [--arm NAME] [--threads N] [--shard] DIR [REQUESTS] [SEED] [MEMORY_BYTES] [MODEL]\n"
	    "Writes a small model below DIR, unless a MODEL is named; 20000 requests unless told otherwise. The model's format follows "
	    "from SEED, unless one is named.\n"
	    "--shard: one of several runs; what it did not exercise is left to whoever adds up the counters.\n"
	    "Exit status 1 when an answer differs, something is left in the pools, or something was not exercised.\n");
	exit(2);
}

static uint64_t number(const char *text)
{
	char *end;
	uint64_t n = strtoull(text, &end, 10);
	if (*end || end == text) usage();
	return n;
}

#define FORMAT_NAME(name, text) text,
static const char *const FORMATS[MK_FORMAT_COUNT] = {MK_FORMAT_LIST(FORMAT_NAME)};

static mk_format format_of(const char *name)
{
	for (int i = 0; i < MK_FORMAT_COUNT; i++)
		if (strcmp(FORMATS[i], name) == 0) return (mk_format)i;
	fprintf(stderr, "soak: --format %s: expected one of", name);
	for (int i = 0; i < MK_FORMAT_COUNT; i++) fprintf(stderr, " %s", FORMATS[i]);
	fprintf(stderr, "\n");
	exit(2);
}

/* Takes the options off the front; what is left stands in argv[1] ... */
static const char *take_options(int *argc, char ***argv, nh_model_options *o)
{
	const char *format = NULL;
	while (*argc > 1 && strncmp((*argv)[1], "--", 2) == 0) {
		const char *name = (*argv)[1], *value = *argc > 2 ? (*argv)[2] : NULL;
		int used = 2;
		if (strcmp(name, "--shard") == 0) shard = true, used = 1;
		else if (!value) usage();
		else if (strcmp(name, "--format") == 0) format = FORMATS[format_of(value)];
		else if (strcmp(name, "--arm") == 0) o->arm = value;
		else if (strcmp(name, "--threads") == 0) o->threads = (int32_t)number(value);
		else usage();
		*argc -= used, *argv += used;
	}
	return format;
}

int main(int argc, char **argv)
{
	static const char *const config[] = {
	    "hidden_size=32", "vocab_size=320", "mamba_num_heads=4", "mamba_head_dim=16", "n_groups=2", "ssm_state_size=16", "chunk_size=16"};
	nh_model_options open;
	nh_model_options_init(&open, sizeof open);
	program = argv[0];
	setvbuf(stdout, NULL, _IOLBF, 0);
	const char *format = take_options(&argc, &argv, &open);
	if (argc < 2 || argc > 6 || (format && argc > 5)) usage();
	uint64_t requests = argc > 2 ? number(argv[2]) : 20000, seed = argc > 3 ? number(argv[3]) : 1,
	         memory = argc > 4 ? number(argv[4]) : 640 << 10;
	if (!format) format = FORMATS[seed % MK_FORMAT_COUNT];
	char dir[1024];
	nh_error e;
	nh_model *m;
	snprintf(dir, sizeof dir, "%s/soak-model", argv[1]);
	const mk_options mo = {.format = format_of(format),
	    .seed = seed,
	    .pattern = "ME*-",
	    .config = config,
	    .config_count = sizeof config / sizeof *config,
	    .force = true};
	if (argc <= 5 && mk_write(dir, &mo, &e) != NH_OK) die("mkmodel", &e);
	if (argc > 5) snprintf(dir, sizeof dir, "%s", argv[5]);
	if (nh_model_open(&m, dir, &open, &e) != NH_OK) die("model", &e);
	printf("soak of %s, seed %" PRIu64 "\n", argc > 5 ? dir : format, seed);
	soak_round(m, argv[1], requests - requests / 4, seed, memory, true);
	soak_round(m, argv[1], requests / 4, seed + 1, memory, false);
	nh_model_close(m);
	printf("soak: %s\n", faults ? "FAILED" : "ok");
	return faults != 0;
}
