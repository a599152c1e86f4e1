/* SPDX-License-Identifier: Apache-2.0
 * engine.c: opens and closes an engine: limits, caches, step memory, thread. Everything that a step needs is reserved here, after a dry run
 * has measured it.
 */
#include "engine/engine.h"

#include <string.h>

#include "base/base_mem.h"
#include "engine/engine_impl.h"

nh_status engine_limits(const engine_parts *parts, const engine_options *options, int64_t *context, int *piece, nh_error *e)
{
	const model_shape *shape = &parts->m->shape;
	int64_t most =
	    shape->max_positions > 0 && shape->max_positions < INT32_MAX - PAGES_TOKENS ? shape->max_positions : INT32_MAX - PAGES_TOKENS;
	*context = options->max_context ? options->max_context : most < ENGINE_CONTEXT ? most : ENGINE_CONTEXT;
	if (*context < 1 || *context > most)
		return ERR(e, NH_ERR_ARG, "max_context: is %lld, expected 1 to %lld, the model's maximum", (long long)options->max_context,
		    (long long)most);
	int64_t tokens = options->step_tokens ? options->step_tokens : ENGINE_STEP_TOKENS;
	if (tokens < 1 || tokens > INT32_MAX / 2) return ERR(e, NH_ERR_ARG, "step_tokens: is %lld, expected 1 to 2^30", (long long)tokens);
	*piece = (int)(tokens / shape->chunk * shape->chunk);
	if (*piece == 0) *piece = shape->chunk;
	return NH_OK;
}

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
		s = states_open(&g->states, p->arm, p->base, mamba, shape->mamba_layers, 1, e);
	}
	if (s == NH_OK) s = pages_open(&g->pages, p->arm, p->base, kv, shape->attn_layers, p->kv, pages_needed(g->context), e);
	mem_free(mamba);
	mem_free(kv);
	g->state = (model_state){.mamba = g->states.layer, .kv = g->pages.layer};
	g->stats.state_bytes = states_bytes(&g->states);
	g->stats.kv_bytes = pages_bytes(&g->pages);
	return s;
}

static void set_scratch(exec *x, arena *scratch)
{
	for (; x; x = x->inner) x->scratch = scratch;
}

static nh_status open_step_memory(engine *g, const engine_options *options, nh_error *e)
{
	engine_parts *p = g->parts;
	size_t bytes, most_rows = (size_t)g->piece, results;
	TRY(engine_measure(p, options, &bytes, e));
	g->scratch_block = p->arm->alloc(p->base, bytes + ARENA_ALIGN);
	if (!g->scratch_block) return ERR(e, NH_ERR_NOMEM, "scratch: %s has no %zu bytes for it", p->arm->name, bytes);
	size_t skew = (ARENA_ALIGN - (uintptr_t)g->scratch_block % ARENA_ALIGN) % ARENA_ALIGN;
	g->scratch = (arena){.base = (char *)g->scratch_block + skew, .cap = bytes, .fixed = true};
	g->stats.scratch_bytes = bytes;
	set_scratch(p->x, &g->scratch);
	TRY(inputs_init(&g->in, p->arm, p->base, g->piece, g->context, p->m->shape.vocab, e));
	g->sampling = sample_batch_create(1, p->m->shape.vocab);
	if (!g->sampling) return ERR_NOMEM(e);
	if (p->arm->host_memory) return NH_OK;
	/* Both sets of log-probabilities, a row of logits and its wide copy. */
	results = (most_rows + 1) * (ENGINE_WANT_MAX + 1 + ENGINE_TOP_MAX) * 12 + (size_t)p->m->shape.vocab * 16 + 16 * ARENA_ALIGN;
	return arena_init_fixed(&g->results, results) ? NH_OK : ERR_NOMEM(e);
}

static void destroy(engine *g)
{
	set_scratch(g->parts->x, NULL);
	sample_batch_destroy(g->sampling);
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
	g->event_limit = options->event_limit ? options->event_limit : 64;
	pthread_mutex_init(&g->lock, NULL);
	pthread_cond_init(&g->wake, NULL);
	pthread_mutex_init(&g->stats_lock, NULL);
	nh_status s = engine_limits(parts, options, &g->context, &g->piece, e);
	if (s == NH_OK) s = open_caches(g, e);
	if (s == NH_OK) s = open_step_memory(g, options, e);
	exec_clear(parts->x);
	if (s == NH_OK && options->step_tokens && options->step_tokens < g->piece)
		log_line(parts->log, NH_LOG_NOTICE, "step_tokens: %lld is less than the model's chunk, raised to %d: steps end at scan edges",
		    (long long)options->step_tokens, g->piece);
	if (s == NH_OK) stats_publish(g);
	if (s == NH_OK && pthread_create(&g->thread, NULL, loop_run, g) != 0)
		s = ERR(e, NH_ERR_NOMEM, "the engine's thread could not be started");
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
	for (engine_request *r = g->first; r; r = r->next) engine_request_cancel(r);
	if (g->active) engine_request_cancel(g->active);
	pthread_cond_signal(&g->wake);
	pthread_mutex_unlock(&g->lock);
	pthread_join(g->thread, NULL);
	destroy(g);
}
