/* SPDX-License-Identifier: Apache-2.0
 * request_spec.c: checks what was submitted and copies it, so that the engine's thread never meets an option that can not run and never
 * reads the caller's memory. All memory that the request's events need is taken here, because a step allocates nothing.
 */
#include <string.h>

#include "base/base_clock.h"
#include "base/base_mem.h"
#include "engine/request.h"
#include "engine/session.h"

#define TEXT_ROOM 256 /* bytes of text an event has room for at once; more grows */

static nh_status check_ids(const char *what, const int32_t *ids, size_t count, int64_t lowest, int64_t vocab, nh_error *e)
{
	if (count && !ids) return ERR(e, NH_ERR_ARG, "%s: NULL with a count of %zu", what, count);
	for (size_t i = 0; i < count; i++)
		if (ids[i] < lowest || ids[i] >= vocab)
			return ERR(e, NH_ERR_ARG, "%s: id %zu is %d, expected %lld to %lld", what, i, ids[i], (long long)lowest, (long long)vocab - 1);
	return NH_OK;
}

static nh_status check_table(const char *what, const int32_t *ids, size_t rows, size_t columns, int64_t vocab, nh_error *e)
{
	size_t count;
	if (columns > ENGINE_WANT_MAX) return ERR(e, NH_ERR_LIMIT, "%s: %zu ids a position, at most %d", what, columns, ENGINE_WANT_MAX);
	if (!mem_mul(rows, columns, &count) || count > PTRDIFF_MAX / sizeof *ids) return ERR(e, NH_ERR_LIMIT, "%s: too many ids", what);
	return check_ids(what, ids, count, -1, vocab, e);
}

static nh_status check_lists(const engine_spec *s, int64_t vocab, nh_error *e)
{
	size_t words = 0;
	TRY(check_ids("prompt", s->prompt, s->prompt_tokens, 0, vocab, e));
	TRY(check_ids("end_ids", s->end_ids, s->end_id_count, 0, vocab, e));
	TRY(check_ids("forced", s->forced, s->forced_tokens, 0, vocab, e));
	TRY(check_table("want_ids", s->want_ids, s->want_steps, s->want_per_step, vocab, e));
	TRY(check_table("prompt_want_ids", s->prompt_want_ids, s->prompt_tokens, s->prompt_want_per_position, vocab, e));
	if (s->bias_count > SAMPLE_BIAS_MAX)
		return ERR(e, NH_ERR_LIMIT, "bias: has %zu entries, expected at most %d", s->bias_count, SAMPLE_BIAS_MAX);
	if (s->bad_word_count > SAMPLE_WORDS_MAX)
		return ERR(e, NH_ERR_LIMIT, "bad_words: has %zu entries, expected at most %d", s->bad_word_count, SAMPLE_WORDS_MAX);
	if ((s->bias_count && !s->bias) || (s->bad_word_count && (!s->bad_words || !s->bad_word_lengths)))
		return ERR(e, NH_ERR_ARG, "%s: NULL with a count", s->bias_count && !s->bias ? "bias" : "bad_words");
	for (size_t i = 0; i < s->bad_word_count; i++) {
		if (s->bad_word_lengths[i] > SAMPLE_WORD_IDS_MAX)
			return ERR(e, NH_ERR_LIMIT, "bad_words[%zu]: %zu ids, at most %d", i, s->bad_word_lengths[i], SAMPLE_WORD_IDS_MAX);
		words += s->bad_word_lengths[i];
	}
	TRY(check_ids("bad_words", s->bad_words, words, 0, vocab, e));
	if (s->allowed_count > (size_t)vocab)
		return ERR(e, NH_ERR_LIMIT, "allowed_ids: has %zu entries, expected at most %lld", s->allowed_count, (long long)vocab);
	return check_ids("allowed_ids", s->allowed_ids, s->allowed_count, 0, vocab, e);
}

static nh_status check_logprobs(const engine_spec *s, nh_error *e)
{
	if (s->top_logprobs < 0 || s->top_logprobs > ENGINE_TOP_MAX)
		return ERR(e, NH_ERR_ARG, "top_logprobs: is %d, expected 0 to %d", s->top_logprobs, ENGINE_TOP_MAX);
	if (s->prompt_top_logprobs < 0 || s->prompt_top_logprobs > ENGINE_TOP_MAX)
		return ERR(e, NH_ERR_ARG, "prompt_top_logprobs: is %d, expected 0 to %d", s->prompt_top_logprobs, ENGINE_TOP_MAX);
	if (!s->prompt_logprobs && (s->prompt_top_logprobs || s->prompt_want_per_position))
		return ERR(e, NH_ERR_ARG, "prompt_logprobs: is false, but best or named ids of the prompt are asked for");
	return NH_OK;
}

/* Options that exclude each other. */
static nh_status check_kinds(const engine_spec *s, const request_bounds *b, nh_error *e)
{
	if (s->choices < 0 || s->choices > b->sequences)
		return ERR(e, NH_ERR_LIMIT, "choices: is %d, the engine runs %d sequences at once", s->choices, b->sequences);
	if (s->embed < NH_EMBED_NONE || s->embed > NH_EMBED_MEAN) return ERR(e, NH_ERR_ARG, "embed: is %d, expected 0 to 2", (int)s->embed);
	if (s->embed && (s->max_tokens != 0 || s->choices > 1 || s->session))
		return ERR(e, NH_ERR_ARG, "embed: an embedding generates nothing: max_tokens 0, one choice and no session are expected");
	if (s->choices > 1 && (s->keep_session || s->forced_tokens || s->trace))
		return ERR(e, NH_ERR_ARG, "choices: is %d, expected 1 with %s", s->choices,
		    s->keep_session ? "keep_session"
		    : s->trace      ? "trace"
		                    : "forced");
	if (s->session && s->prompt_logprobs) return ERR(e, NH_ERR_ARG, "prompt_logprobs: are not told of what continues a session");
	if (s->deadline_us < 0) return ERR(e, NH_ERR_ARG, "deadline_us: is %lld, expected 0 or more", (long long)s->deadline_us);
	return NH_OK;
}

/* The lengths of what will be computed, against context and pool. */
static nh_status check_size(engine_request *r, const request_bounds *b, nh_error *e)
{
	const engine_spec *s = &r->spec;
	const session_body *from = s->session ? session_of(s->session) : NULL;
	bool pending = from && from->computed < from->tokens;
	if (s->prompt_tokens == 0 && !pending) return ERR(e, NH_ERR_ARG, "prompt: is empty, expected at least 1 token");
	if (s->prompt_tokens == 0 && s->choices > 1)
		return ERR(e, NH_ERR_ARG, "choices: is %d, expected 1 where a session goes on without a prompt", s->choices);
	r->history = from ? from->tokens : 0;
	r->history_generated = from ? from->generated : 0;
	if (r->history > b->context)
		return ERR(e, NH_ERR_LIMIT, "session: %lld tokens, the context holds %lld", (long long)r->history, (long long)b->context);
	if (s->prompt_tokens > (size_t)(b->context - r->history))
		return from ? ERR(e, NH_ERR_LIMIT, "prompt: %zu tokens after %lld of the session, the context holds %lld", s->prompt_tokens,
		                  (long long)r->history, (long long)b->context)
		            : ERR(e, NH_ERR_LIMIT, "prompt: %zu tokens, the context holds %lld", s->prompt_tokens, (long long)b->context);
	if (s->max_tokens < -1) return ERR(e, NH_ERR_ARG, "max_tokens: is %lld, expected -1 or more", (long long)s->max_tokens);
	r->given = r->history + (int64_t)s->prompt_tokens;
	int64_t most = b->pool_pages * PAGES_TOKENS;
	r->limit = s->max_tokens >= 0 && s->max_tokens < b->context - r->given ? r->given + s->max_tokens : b->context;
	int64_t need = s->max_tokens >= 0 ? r->limit : r->given;
	if (pages_needed(need) > b->pool_pages)
		return ERR(e, NH_ERR_LIMIT, "memory: needs %lld pages of %d tokens (%lld tokens), the pool has %lld", (long long)pages_needed(need),
		    PAGES_TOKENS, (long long)need, (long long)b->pool_pages);
	if (r->limit > most) r->limit = most;
	return NH_OK;
}

bool request_wants_logprobs(const engine_spec *s)
{
	return s->top_logprobs > 0 || s->forced_tokens > 0 || s->want_steps * s->want_per_step > 0;
}

/* A copy in the request's arena; false when out of memory. */
static bool copy_array(arena *mem, const void **from, size_t count, size_t size)
{
	void *to = count ? arena_array(mem, count, size) : NULL;
	if (count && !to) return false;
	if (count) memcpy(to, *from, count * size);
	*from = to;
	return true;
}

#define COPY(mem, field, count) copy_array((mem), (const void **)(uintptr_t) & (field), (count), sizeof *(field))

/* Sampling parameters over copies of the lists. */
static nh_status make_sampling(engine_request *r, const request_bounds *b, nh_error *e)
{
	const engine_spec *s = &r->spec;
	sample_params *p = &r->sampling;
	*p = sample_default();
	p->temperature = s->temperature;
	p->top_p = s->top_p;
	p->min_p = s->min_p;
	p->top_k = s->top_k;
	p->seed = s->seed;
	p->repetition = s->repetition_penalty;
	p->presence = s->presence_penalty;
	p->frequency = s->frequency_penalty;
	p->min_tokens = s->min_tokens;
	size_t ends = s->ignore_end ? 0 : b->end_count + s->end_id_count, at = 0;
	int32_t *end = ends ? arena_array(&r->mem, ends, sizeof *end) : NULL;
	sample_bias *bias = s->bias_count ? arena_array(&r->mem, s->bias_count, sizeof *bias) : NULL;
	sample_word *word = s->bad_word_count ? arena_array(&r->mem, s->bad_word_count, sizeof *word) : NULL;
	if ((ends && !end) || (s->bias_count && !bias) || (s->bad_word_count && !word)) return ERR_NOMEM(e);
	if (ends && b->end_count) memcpy(end, b->end, b->end_count * sizeof *end);
	if (ends && s->end_id_count) memcpy(end + b->end_count, s->end_ids, s->end_id_count * sizeof *end);
	for (size_t i = 0; i < s->bias_count; i++) bias[i] = (sample_bias){.id = s->bias[i].id, .add = s->bias[i].add};
	for (size_t i = 0; i < s->bad_word_count; at += s->bad_word_lengths[i++])
		word[i] = (sample_word){.ids = s->bad_words + at, .count = (int)s->bad_word_lengths[i]};
	p->end_ids = end;
	p->end_count = (int)(ends < SAMPLE_END_MAX + 1 ? ends : SAMPLE_END_MAX + 1);
	p->bias = bias;
	p->biases = (int)s->bias_count;
	p->bad_words = word;
	p->bad_word_count = (int)s->bad_word_count;
	p->allowed = s->allowed_count ? s->allowed_ids : NULL;
	p->allowed_count = (int64_t)s->allowed_count;
	r->edits = sample_needs_seen(p) || sample_needs_counts(p) || p->biases || p->bad_word_count || p->allowed || s->mask;
	TRY(sample_check(p, b->vocab, e));
	r->row = sample_row(p, 0);
	r->logprobs = request_wants_logprobs(s);
	r->bare = !r->logprobs && !s->prompt_logprobs && !s->trace && !s->embed && !s->forced_tokens;
	return NH_OK;
}

/* Room for what may wait, for what one step may tell beyond it, and for the last event of each choice. */
static bool make_places(engine_request *r, const request_bounds *b)
{
	const engine_spec *s = &r->spec;
	size_t top = (size_t)(s->top_logprobs > s->prompt_top_logprobs ? s->top_logprobs : s->prompt_top_logprobs);
	size_t want = s->want_per_step > s->prompt_want_per_position ? s->want_per_step : s->prompt_want_per_position;
	int64_t rows = r->given < b->piece ? r->given : b->piece, step = (int64_t)r->choices * (1 + b->drafts);
	if (s->prompt_logprobs && rows + 1 + r->choices > step) step = rows + 1 + r->choices;
	int places = r->event_limit + (int)step + 1 + r->choices;
	r->place = arena_array(&r->mem, (size_t)places, sizeof *r->place);
	if (!r->place) return false;
	for (r->places = 0; r->places < places; r->places++) {
		request_place *p = &r->place[r->places];
		p->top = top ? arena_array(&r->mem, top, sizeof *p->top) : NULL;
		p->want = want ? arena_array(&r->mem, want, sizeof *p->want) : NULL;
		if ((top && !p->top) || (want && !p->want)) return false;
		if (!s->hooks.push) continue;
		p->text.data = mem_alloc(TEXT_ROOM);
		if (!p->text.data) return false;
		p->text.cap = TEXT_ROOM;
	}
	return true;
}

static bool make_sequences(engine_request *r)
{
	const engine_spec *s = &r->spec;
	const session_body *from = r->session ? session_of(r->session) : NULL;
	r->seq = arena_array(&r->mem, (size_t)r->choices, sizeof *r->seq);
	if (!r->seq) return false;
	for (int i = 0; i < r->choices; i++) {
		sequence *q = &r->seq[i];
		q->r = r;
		q->choice = i;
		q->memory.slot = -1;
		q->stop = r->given;
		q->segment = r->history;
		q->tokens = mem_array((size_t)r->limit, sizeof *q->tokens);
		if (!q->tokens) return false;
		if (from) memcpy(q->tokens, from->ids, (size_t)from->tokens * sizeof *q->tokens);
		if (s->prompt_tokens) memcpy(q->tokens + r->history, s->prompt, s->prompt_tokens * sizeof *q->tokens);
		q->stats.prompt_tokens = s->prompt_tokens;
	}
	r->live = r->choices;
	return true;
}

static bool copy(engine_request *r, const request_bounds *b)
{
	engine_spec *s = &r->spec;
	arena *m = &r->mem;
	size_t words = 0;
	for (size_t i = 0; i < s->bad_word_count; i++) words += s->bad_word_lengths[i];
	if (!make_sequences(r) || !make_places(r, b)) return false;
	s->prompt = r->seq->tokens + r->history;
	if (s->embed) {
		r->hidden = arena_array(m, (size_t)b->hidden, sizeof *r->hidden);
		r->embedding = arena_array(m, (size_t)b->hidden, sizeof *r->embedding);
		if (!r->hidden || !r->embedding) return false;
	}
	return COPY(m, s->end_ids, s->end_id_count) && COPY(m, s->forced, s->forced_tokens) &&
	       COPY(m, s->want_ids, s->want_steps * s->want_per_step) &&
	       COPY(m, s->prompt_want_ids, s->prompt_tokens * s->prompt_want_per_position) && COPY(m, s->bad_words, words) &&
	       COPY(m, s->bad_word_lengths, s->bad_word_count) && COPY(m, s->allowed_ids, s->allowed_count);
}

static void make_locks(engine_request *r)
{
	pthread_condattr_t monotonic;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->ready, &monotonic);
	pthread_condattr_destroy(&monotonic);
}

static nh_status fill(engine_request *r, const request_bounds *b, nh_error *e)
{
	const engine_spec *s = &r->spec;
	TRY(check_lists(s, b->vocab, e));
	TRY(check_logprobs(s, e));
	TRY(check_kinds(s, b, e));
	TRY(check_size(r, b, e));
	if (s->session) TRY(engine_session_fork(s->session, &r->session, e));
	if (!copy(r, b)) return ERR_NOMEM(e);
	return make_sampling(r, b, e);
}

/* After the last refusal: the request owns the hooks from here. */
static void take_hooks(engine_request *r)
{
	for (int i = 0; i < r->choices; i++) {
		if (i == 0) r->seq[i].hooks = r->spec.hooks;
		else if (r->spec.choice_hooks) r->seq[i].hooks = r->spec.choice_hooks[i - 1];
	}
	r->spec.choice_hooks = NULL;
	r->spec.session = NULL;
}

nh_status request_create(engine_request **out, const engine_spec *spec, const request_bounds *b, nh_error *e)
{
	*out = NULL;
	if (spec->prompt_tokens > (size_t)b->context) /* before anything reads them */
		return ERR(e, NH_ERR_LIMIT, "prompt: %zu tokens, the context holds %lld", spec->prompt_tokens, (long long)b->context);
	engine_request *r = mem_alloc(sizeof *r);
	if (!r) return ERR_NOMEM(e);
	r->spec = *spec;
	r->choices = spec->choices > 1 ? spec->choices : 1;
	r->event_limit = b->event_limit;
	arena_init(&r->mem);
	make_locks(r);
	atomic_init(&r->holders, 1);
	nh_status s = fill(r, b, e);
	if (s != NH_OK) {
		request_drop(r);
		return s;
	}
	take_hooks(r);
	r->submitted_us = clock_us();
	r->deadline_us = spec->deadline_us && spec->deadline_us < INT64_MAX - r->submitted_us ? r->submitted_us + spec->deadline_us : 0;
	atomic_store(&r->holders, 2);
	*out = r;
	return NH_OK;
}

nh_status request_init_memory(engine_request *r, states *s, pages *p, nh_error *e)
{
	for (int i = 0; i < r->choices; i++) TRY(seqmem_init(&r->seq[i].memory, s, p, r->limit, e));
	return NH_OK;
}
