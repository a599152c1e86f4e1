/* SPDX-License-Identifier: Apache-2.0
 * engine.c: opens and closes an engine: caches, step memory, thread. Everything that a step needs is reserved here, after a dry run has
 * measured it.
 */
#include "engine/engine.h"

#include <stdio.h>
#include <string.h>

#include "base/base_mem.h"
#include "base/base_thread.h"
#include "engine/engine_impl.h"

#define SPILL_BYTES ((uint64_t)8 << 30)

static nh_status open_caches(engine *g, nh_error *e)
{
	engine_parts *p = g->parts;
	const model_shape *shape = &p->m->shape;
	states_layer *mamba = mem_array((size_t)shape->mamba_layers, sizeof *mamba);
	pages_layer *kv = mem_array((size_t)shape->attn_layers, sizeof *kv);
	nh_status s = mamba && kv ? NH_OK : ERR_NOMEM(e);
	if (s == NH_OK) {
		for (int i = 0; i < shape->mamba_layers; i++) {
			const model_mamba_shape *l = &shape->mamba[i];
			mamba[i] = (states_layer){l->taps, l->channels, l->heads, l->head_dim, l->state};
		}
		for (int i = 0; i < shape->attn_layers; i++) {
			const model_kv_shape *l = &shape->kv[i];
			kv[i] = (pages_layer){l->kv_heads, l->head_dim, l->k_scale, l->v_scale};
		}
		s = states_open(&g->states, p->arm, p->base, mamba, shape->mamba_layers, g->limits.slots, e);
	}
	if (s == NH_OK) s = pages_open(&g->pages, p->arm, p->base, kv, shape->attn_layers, p->kv, g->limits.pages, e);
	mem_free(mamba);
	mem_free(kv);
	g->state = (model_state){.mamba = g->states.layer, .kv = g->pages.layer};
	g->stats.state_bytes = states_bytes(&g->states);
	g->stats.kv_bytes = pages_bytes(&g->pages);
	return s;
}

nh_status engine_identity(engine *g, char hex[65], nh_error *e)
{
	const engine_parts *p = g->parts;
	hex[0] = 0;
	if (!p->identity) return ERR(e, NH_ERR_UNSUPPORTED, "identity: this model's files are not known");
	pthread_mutex_lock(&g->stats_lock);
	memcpy(hex, g->identity, sizeof g->identity);
	pthread_mutex_unlock(&g->stats_lock);
	if (hex[0]) return NH_OK;
	TRY(p->identity(p->identity_self, hex, e));
	pthread_mutex_lock(&g->stats_lock);
	memcpy(g->identity, hex, sizeof g->identity);
	pthread_mutex_unlock(&g->stats_lock);
	return NH_OK;
}

static nh_status open_spill(engine *g, const engine_options *options, nh_error *e)
{
	const engine_parts *p = g->parts;
	char hex[65], tag[256];
	if (!options->spill_dir) return NH_OK;
	TRY(engine_identity(g, hex, e));
	snprintf(tag, sizeof tag, "%s %s %s %s %s", hex, p->arm->name, p->base->tier ? p->base->tier : p->base->arm, p->x->num->name,
	    num_dtype_name(p->kv));
	TRY(jobs_create(&g->jobs, 1, e)); /* one: a disk writes one file after the other */
	return spill_open(&g->spill, options->spill_dir, options->spill_bytes ? options->spill_bytes : SPILL_BYTES, tag, p->log, g->jobs, e);
}

static nh_status open_prefixes(engine *g, const engine_options *options, nh_error *e)
{
	if (options->no_prefix_cache) return NH_OK;
	TRY(open_spill(g, options, e));
	const prefix_options o = {.states = &g->states,
	    .pages = &g->pages,
	    .x = g->parts->x,
	    .chunk = g->parts->m->shape.chunk,
	    .slot_limit = (int32_t)g->limits.snapshots,
	    .spill = g->spill};
	return prefix_open(&g->prefixes, &o, e);
}

static void set_scratch(exec *x, arena *scratch)
{
	for (; x; x = x->inner) x->scratch = scratch;
}

/* Bytes of results that are read from an arm whose memory is elsewhere: log-probabilities of all rows and draws, hidden rows, and one row of
 * logits with its wide copy. */
static size_t results_bytes(const engine *g)
{
	const model_shape *m = &g->parts->m->shape;
	size_t rows = (size_t)engine_most_rows(&g->limits), draws = (size_t)engine_most_draws(&g->limits);
	return (rows + draws) * (ENGINE_WANT_MAX + 1 + ENGINE_TOP_MAX) * 12 + draws * 4 + rows * (size_t)m->hidden * 8 + (size_t)m->vocab * 16 +
	       ((size_t)g->limits.sequences * 12 + 4) * 2 * ARENA_ALIGN;
}

static nh_status open_step_memory(engine *g, const engine_options *options, nh_error *e)
{
	engine_parts *p = g->parts;
	size_t bytes, sequences = (size_t)g->limits.sequences;
	TRY(engine_measure(p, options, &bytes, e));
	g->scratch_block = p->arm->alloc(p->base, bytes + ARENA_ALIGN);
	if (!g->scratch_block) return ERR(e, NH_ERR_NOMEM, "scratch: %s has no %zu bytes for it", p->arm->name, bytes);
	size_t skew = (ARENA_ALIGN - (uintptr_t)g->scratch_block % ARENA_ALIGN) % ARENA_ALIGN;
	g->scratch = (arena){.base = (char *)g->scratch_block + skew, .cap = bytes, .fixed = true};
	g->stats.scratch_bytes = bytes;
	set_scratch(p->x, &g->scratch);
	TRY(inputs_init(&g->in, p, &g->limits, false, e));
	TRY(step_init(&g->step, &g->limits, e));
	g->edited = sample_batch_create(engine_most_draws(&g->limits), p->m->shape.vocab);
	g->mask = mem_array((size_t)(p->m->shape.vocab + 31) / 32, sizeof *g->mask);
	g->run = mem_array(sequences, sizeof(sequence *));
	if (!g->edited || !g->mask || !g->run) return ERR_NOMEM(e);
	if (p->arm->host_memory) return NH_OK;
	return arena_init_fixed(&g->results, results_bytes(g)) ? NH_OK : ERR_NOMEM(e);
}

static void destroy(engine *g)
{
	prefix_close(g->prefixes);
	spill_close(g->spill);
	jobs_destroy(g->jobs);
	set_scratch(g->parts->x, NULL);
	sample_batch_destroy(g->edited);
	mem_free(g->mask);
	mem_free(g->run);
	step_deinit(&g->step);
	inputs_deinit(&g->in, g->parts->arm, g->parts->base);
	if (g->scratch_block) g->parts->arm->free(g->parts->base, g->scratch_block);
	arena_deinit(&g->results);
	pages_close(&g->pages);
	states_close(&g->states);
	pthread_mutex_destroy(&g->stats_lock);
	pthread_cond_destroy(&g->wake);
	pthread_mutex_destroy(&g->lock);
	atomic_store(&g->parts->in_use, false);
	mem_free(g);
}

static void make_locks(engine *g)
{
	pthread_condattr_t monotonic;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_mutex_init(&g->lock, NULL);
	pthread_cond_init(&g->wake, &monotonic);
	pthread_mutex_init(&g->stats_lock, NULL);
	pthread_condattr_destroy(&monotonic);
}

/* What is not as one may expect, told once, before the first request meets it. */
static void tell_limits(const engine *g, const engine_options *o)
{
	const engine_limits *l = &g->limits;
	const logger *log = g->parts->log;
	if (o->step_tokens && o->step_tokens < l->piece)
		log_line(log, NH_LOG_NOTICE, "step_tokens: %lld is less than the model's chunk, raised to %d: steps end at scan edges",
		    (long long)o->step_tokens, l->piece);
	if (o->max_sequences > l->sequences)
		log_line(
		    log, NH_LOG_NOTICE, "max_sequences: %d is more than the memory has room for, lowered to %d", o->max_sequences, l->sequences);
	if (!g->prefixes) return;
	if (l->snapshots == 0)
		log_line(log, NH_LOG_NOTICE,
		    "prefix cache: off: the memory has no room for a kept prefix beside %d sequences and a context of %lld", l->sequences,
		    (long long)l->context);
	else if (l->context <= prefix_unit(g->prefixes))
		log_line(log, NH_LOG_NOTICE, "prefix cache: nothing will be reused: a kept prefix has %lld tokens or more, the context %lld",
		    (long long)prefix_unit(g->prefixes), (long long)l->context);
}

nh_status engine_open(engine **out, engine_parts *parts, const engine_options *options, nh_error *e)
{
	*out = NULL;
	if (atomic_exchange(&parts->in_use, true)) return ERR(e, NH_ERR_STATE, "the model is in use: one engine a model at a time");
	engine *g = mem_alloc(sizeof *g);
	if (!g) {
		atomic_store(&parts->in_use, false);
		return ERR_NOMEM(e);
	}
	g->parts = parts;
	make_locks(g);
	nh_status s = engine_limits_of(parts, options, &g->limits, e);
	if (s == NH_OK) s = open_caches(g, e);
	if (s == NH_OK) s = open_step_memory(g, options, e);
	if (s == NH_OK) s = open_prefixes(g, options, e);
	exec_clear(parts->x);
	if (s == NH_OK) tell_limits(g, options);
	if (s == NH_OK) stats_publish(g, NULL);
	if (s == NH_OK && !thread_start(&g->thread, loop_run, g)) s = ERR(e, NH_ERR_NOMEM, "the engine's thread could not be started");
	if (s != NH_OK) {
		destroy(g);
		return s;
	}
	*out = g;
	return NH_OK;
}

void engine_close(engine *g)
{
	if (!g) return;
	pthread_mutex_lock(&g->lock);
	g->closing = true;
	pthread_cond_signal(&g->wake);
	pthread_mutex_unlock(&g->lock);
	pthread_join(g->thread, NULL);
	destroy(g);
}
