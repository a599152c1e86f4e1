/* SPDX-License-Identifier: Apache-2.0
 * limits.c: what an engine is sized by: how a budget of bytes becomes sequences, state slots, snapshots and pages. Arithmetic only: nothing is
 * reserved here.
 * The invariant that breaks first: slots are for running sequences first, then drafts, then snapshots, so that a snapshot never keeps a
 * sequence from running.
 */
#include <unistd.h>

#include "engine/engine_impl.h"
#include "num/num_types.h"

#define EVENTS 64
#define DRAFTS 4
#define DRAFTERS 8 /* sequences whose drafts have slots at once; others decode plainly for a step */
#define SNAPSHOTS_MAX 256
#define TYPICAL_TOKENS 2048 /* what a sequence is taken to need when their number is not given */
#define MEMORY_LEAST ((uint64_t)1 << 20)

static nh_status limit_tokens(const engine_parts *parts, const engine_options *options, engine_limits *l, nh_error *e)
{
	const model_shape *shape = &parts->m->shape;
	int64_t most =
	    shape->max_positions > 0 && shape->max_positions < INT32_MAX - PAGES_TOKENS ? shape->max_positions : INT32_MAX - PAGES_TOKENS;
	l->context = options->max_context ? options->max_context : most < ENGINE_CONTEXT ? most : ENGINE_CONTEXT;
	if (l->context < 1 || l->context > most)
		return ERR(e, NH_ERR_ARG, "max_context: is %lld, expected 1 to %lld, the model's maximum", (long long)options->max_context,
		    (long long)most);
	int64_t tokens = options->step_tokens ? options->step_tokens : ENGINE_STEP_TOKENS;
	if (tokens < 1 || tokens > INT32_MAX / 2) return ERR(e, NH_ERR_ARG, "step_tokens: is %lld, expected 1 to 2^30", (long long)tokens);
	l->piece = (int)(tokens / shape->chunk * shape->chunk);
	if (l->piece == 0) l->piece = shape->chunk;
	return NH_OK;
}

static nh_status limit_counts(const engine_options *o, engine_limits *l, nh_error *e)
{
	if (o->max_sequences < 0 || o->max_sequences > ENGINE_SEQUENCES_MAX)
		return ERR(e, NH_ERR_ARG, "max_sequences: is %d, expected 1 to %d, or 0", o->max_sequences, ENGINE_SEQUENCES_MAX);
	if (o->queue_limit < 0) return ERR(e, NH_ERR_ARG, "queue_limit: is %d, expected 1 or more, or 0", o->queue_limit);
	if (o->draft != NH_DRAFT_NONE && o->draft != NH_DRAFT_NGRAM) return ERR(e, NH_ERR_ARG, "draft: is %d, expected 0 or 1", (int)o->draft);
	if (o->draft_tokens < 0 || o->draft_tokens > ENGINE_DRAFT_MAX)
		return ERR(e, NH_ERR_ARG, "draft_tokens: is %d, expected 1 to %d, or 0", o->draft_tokens, ENGINE_DRAFT_MAX);
	if (o->event_limit < 0 || o->event_limit > 1 << 16)
		return ERR(e, NH_ERR_ARG, "event_limit: is %d, expected 1 to 65536, or 0", o->event_limit);
	l->queue = o->queue_limit ? o->queue_limit : ENGINE_QUEUE_MAX;
	l->events = o->event_limit ? o->event_limit : EVENTS;
	l->drafts = o->draft == NH_DRAFT_NONE ? 0 : o->draft_tokens ? o->draft_tokens : DRAFTS;
	return NH_OK;
}

static uint64_t slot_bytes(const engine_parts *p)
{
	uint64_t sum = 0;
	const exec_types *t = &p->base->types;
	for (int i = 0; i < p->m->shape.mamba_layers; i++) {
		const model_mamba_shape *l = &p->m->shape.mamba[i];
		sum += (uint64_t)((l->taps - 1) * l->channels) * num_bytes(t->conv_state);
		sum += (uint64_t)(l->heads * l->head_dim * l->state) * num_bytes(t->ssm_state);
	}
	return sum ? sum : 1; /* a model without state: slots are only numbers */
}

static uint64_t page_bytes(const engine_parts *p)
{
	uint64_t sum = 0;
	for (int i = 0; i < p->m->shape.attn_layers; i++) {
		const model_kv_shape *l = &p->m->shape.kv[i];
		sum += 2 * (uint64_t)(l->kv_heads * l->head_dim) * PAGES_TOKENS * num_bytes(p->kv);
	}
	return sum ? sum : 1;
}

static uint64_t free_memory(void)
{
	long count = sysconf(_SC_AVPHYS_PAGES), size = sysconf(_SC_PAGESIZE);
	return count > 0 && size > 0 ? (uint64_t)count * (uint64_t)size : 0;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

static nh_status limit_memory(const engine_parts *parts, const engine_options *o, engine_limits *l, nh_error *e)
{
	const uint64_t slot = slot_bytes(parts), page = page_bytes(parts);
	const int64_t whole = pages_needed(l->context), typical = pages_needed(least(l->context, TYPICAL_TOKENS));
	uint64_t budget = o->memory_bytes;
	if (budget == 0) {
		budget = free_memory() / 2;
		uint64_t one = slot * (uint64_t)most(1, o->max_sequences) + page * (uint64_t)whole + MEMORY_LEAST;
		if (budget < one) budget = one;
	}
	if (budget > INT64_MAX) budget = INT64_MAX;
	int64_t fit = (int64_t)(budget / 2 / (slot + page * (uint64_t)typical));
	l->sequences = o->max_sequences ? o->max_sequences : (int)least(ENGINE_SEQUENCES, most(1, fit));
	/* More than fit with a page each are clamped; the opener tells. */
	if (budget / (slot + page) < (uint64_t)l->sequences) l->sequences = (int)(budget / (slot + page));
	if (l->sequences == 0)
		return ERR(e, NH_ERR_LIMIT, "memory: a sequence needs a state of %llu bytes and a page of %llu, the budget is %llu bytes",
		    (unsigned long long)slot, (unsigned long long)page, (unsigned long long)budget);
	uint64_t running = slot * (uint64_t)l->sequences;
	uint64_t left = budget - running, spare = (uint64_t)(least(l->sequences, DRAFTERS) * l->drafts) * slot, keep = page * (uint64_t)whole;
	if (spare > left / 4) spare = left / 4 / slot * slot;
	left -= spare;
	l->snapshots = 0;
	if (!o->no_prefix_cache && left > keep)
		l->snapshots = least(SNAPSHOTS_MAX, (int64_t)least((int64_t)(budget / 4 / slot), (int64_t)((left - keep) / slot)));
	left -= slot * (uint64_t)l->snapshots;
	l->slots = l->sequences + (int64_t)(spare / slot) + l->snapshots;
	/* More pages than everybody can hold are of no use; a budget that nobody gave is not spent to the end. */
	int64_t useful = o->memory_bytes ? 2 * l->sequences * whole : most(8, l->sequences / 4) * whole;
	l->pages = most(1, least(useful, (int64_t)least((int64_t)(left / page), INT32_MAX / 2)));
	return NH_OK;
}

nh_status engine_limits_of(const engine_parts *parts, const engine_options *options, engine_limits *out, nh_error *e)
{
	*out = (engine_limits){0};
	TRY(limit_tokens(parts, options, out, e));
	TRY(limit_counts(options, out, e));
	return limit_memory(parts, options, out, e);
}

int engine_most_rows(const engine_limits *l) { return l->piece + engine_most_draws(l); }
int engine_most_draws(const engine_limits *l) { return l->sequences * (1 + l->drafts); }
