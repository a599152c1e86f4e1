/* SPDX-License-Identifier: Apache-2.0
 * request_spec.c: checks what was submitted and copies it, so that the engine's thread never meets an option that can not run and never
 * reads the caller's memory. All memory that the request's events need is taken here, because a step allocates nothing.
 */
#include <string.h>

#include "base/base_clock.h"
#include "base/base_mem.h"
#include "engine/request.h"

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

/* End tokens are not the sampler's here: nothing is banned until some minimum. */
static sample_params sampling(const engine_spec *s)
{
	sample_params p = sample_default();
	p.temperature = s->temperature;
	p.top_p = s->top_p;
	p.min_p = s->min_p;
	p.top_k = s->top_k;
	p.repetition = s->repetition_penalty;
	p.seed = s->seed;
	return p;
}

static nh_status check(const engine_spec *s, int64_t vocab, int64_t context, nh_error *e)
{
	if (s->prompt_tokens == 0) return ERR(e, NH_ERR_ARG, "prompt: is empty, expected at least 1 token");
	if (s->prompt_tokens > (size_t)context)
		return ERR(e, NH_ERR_LIMIT, "prompt: %zu tokens, the context holds %lld", s->prompt_tokens, (long long)context);
	if (s->max_tokens < -1) return ERR(e, NH_ERR_ARG, "max_tokens: is %lld, expected -1 or more", (long long)s->max_tokens);
	TRY(check_ids("prompt", s->prompt, s->prompt_tokens, 0, vocab, e));
	TRY(check_ids("end_ids", s->end_ids, s->end_id_count, 0, vocab, e));
	TRY(check_ids("forced", s->forced, s->forced_tokens, 0, vocab, e));
	TRY(check_table("want_ids", s->want_ids, s->want_steps, s->want_per_step, vocab, e));
	TRY(check_table("prompt_want_ids", s->prompt_want_ids, s->prompt_tokens, s->prompt_want_per_position, vocab, e));
	if (s->top_logprobs < 0 || s->top_logprobs > ENGINE_TOP_MAX)
		return ERR(e, NH_ERR_ARG, "top_logprobs: is %d, expected 0 to %d", s->top_logprobs, ENGINE_TOP_MAX);
	if (s->prompt_top_logprobs < 0 || s->prompt_top_logprobs > ENGINE_TOP_MAX)
		return ERR(e, NH_ERR_ARG, "prompt_top_logprobs: is %d, expected 0 to %d", s->prompt_top_logprobs, ENGINE_TOP_MAX);
	if (!s->prompt_logprobs && (s->prompt_top_logprobs || s->prompt_want_per_position))
		return ERR(e, NH_ERR_ARG, "prompt_logprobs: is false, but best or named ids of the prompt are asked for");
	sample_params p = sampling(s);
	return sample_check(&p, vocab, e);
}

bool request_wants_logprobs(const engine_spec *s)
{
	return s->top_logprobs > 0 || s->forced_tokens > 0 || s->want_steps * s->want_per_step > 0;
}

/* A copy in the request's arena; false when out of memory. */
static bool copy_ids(arena *mem, const int32_t **ids, size_t count)
{
	int32_t *to = count ? arena_array(mem, count, sizeof *to) : NULL;
	if (count && !to) return false;
	if (count) memcpy(to, *ids, count * sizeof *to);
	*ids = to;
	return true;
}

static bool make_places(engine_request *r, int event_limit)
{
	const engine_spec *s = &r->spec;
	size_t top = (size_t)(s->top_logprobs > s->prompt_top_logprobs ? s->top_logprobs : s->prompt_top_logprobs);
	size_t want = s->want_per_step > s->prompt_want_per_position ? s->want_per_step : s->prompt_want_per_position;
	int places = event_limit + 1;
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

static bool copy(engine_request *r, int event_limit)
{
	engine_spec *s = &r->spec;
	r->tokens = mem_array((size_t)r->limit, sizeof *r->tokens);
	if (!r->tokens) return false;
	memcpy(r->tokens, s->prompt, s->prompt_tokens * sizeof *r->tokens);
	s->prompt = r->tokens;
	return copy_ids(&r->mem, &s->end_ids, s->end_id_count) && copy_ids(&r->mem, &s->forced, s->forced_tokens) &&
	       copy_ids(&r->mem, &s->want_ids, s->want_steps * s->want_per_step) &&
	       copy_ids(&r->mem, &s->prompt_want_ids, s->prompt_tokens * s->prompt_want_per_position) && make_places(r, event_limit);
}

static void make_locks(engine_request *r)
{
	pthread_condattr_t monotonic;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->ready, &monotonic);
	pthread_cond_init(&r->space, &monotonic);
	pthread_condattr_destroy(&monotonic);
}

nh_status request_create(engine_request **out, const engine_spec *spec, int64_t vocab, int64_t context, int event_limit, nh_error *e)
{
	*out = NULL;
	TRY(check(spec, vocab, context, e));
	engine_request *r = mem_alloc(sizeof *r);
	if (!r) return ERR_NOMEM(e);
	r->spec = *spec;
	arena_init(&r->mem);
	make_locks(r);
	atomic_init(&r->holders, 1);
	r->memory.slot = -1;
	int64_t prompt = (int64_t)spec->prompt_tokens;
	r->limit = spec->max_tokens >= 0 && spec->max_tokens < context - prompt ? prompt + spec->max_tokens : context;
	r->sampling = sampling(spec);
	if (!copy(r, event_limit)) {
		request_drop(r);
		return ERR_NOMEM(e);
	}
	r->stats.prompt_tokens = spec->prompt_tokens;
	r->submitted_us = clock_us();
	atomic_store(&r->holders, 2);
	*out = r;
	return NH_OK;
}
