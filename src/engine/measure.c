/* SPDX-License-Identifier: Apache-2.0
 * measure.c: how much scratch the largest steps need, by running them on the dry arm over addresses that nobody may touch. Ops see shapes
 * only, so this is exact: the same code takes the same memory when it computes.
 */
#include <string.h>

#include "base/base_mem.h"
#include "engine/engine_impl.h"
#include "exec/wrap.h"

/* Everything a dry step needs; views with made-up addresses. */
typedef struct rig {
	exec *x;
	arena fake; /* measuring */
	inputs in;
	mamba_state *mamba;
	kv_pages *kv;
	sample_batch *sampling;
	engine_request *r; /* stands for any */
} rig;

static tensor fake(rig *g, num_dtype dtype, int rank, const int64_t *shape)
{
	tensor t = tensor_nd(NULL, dtype, rank, shape);
	t.data = arena_alloc(&g->fake, t.room);
	return t;
}

static nh_status build(rig *g, const engine_parts *p, int64_t context, int piece, nh_error *e)
{
	const model_shape *shape = &p->m->shape;
	arena_init_measure(&g->fake);
	g->x = dry_create(p->x->num, p->x->types.act);
	g->mamba = mem_array((size_t)shape->mamba_layers, sizeof *g->mamba);
	g->kv = mem_array((size_t)shape->attn_layers, sizeof *g->kv);
	g->sampling = sample_batch_create(1, shape->vocab);
	g->r = mem_alloc(sizeof *g->r);
	if (g->r) {
		g->r->tokens = mem_array((size_t)piece + 2, sizeof *g->r->tokens);
		g->r->memory.page_count = pages_needed(context);
		g->r->memory.page = mem_array((size_t)g->r->memory.page_count, sizeof *g->r->memory.page);
		g->r->spec.prompt_want_ids = mem_array(((size_t)piece + 1) * ENGINE_WANT_MAX, sizeof(int32_t));
		g->r->sampling = sample_default();
		g->r->sampling.repetition = 2; /* an edit */
	}
	if (!g->x || !g->mamba || !g->kv || !g->sampling || !g->r || !g->r->tokens || !g->r->memory.page || !g->r->spec.prompt_want_ids)
		return ERR_NOMEM(e);
	g->x->types = p->x->types;
	for (int i = 0; i < shape->mamba_layers; i++) {
		const model_mamba_shape *l = &shape->mamba[i];
		g->mamba[i].conv = fake(g, g->x->types.conv_state, 3, (const int64_t[]){1, l->taps - 1, l->channels});
		g->mamba[i].ssm = fake(g, g->x->types.ssm_state, 4, (const int64_t[]){1, l->heads, l->head_dim, l->state});
	}
	for (int i = 0; i < shape->attn_layers; i++) {
		const model_kv_shape *l = &shape->kv[i];
		const int64_t all[4] = {pages_needed(context), PAGES_TOKENS, l->kv_heads, l->head_dim};
		g->kv[i] = (kv_pages){.k = fake(g, p->kv, 4, all), .v = fake(g, p->kv, 4, all), .k_scale = 1, .v_scale = 1};
	}
	return inputs_init(&g->in, NULL, NULL, piece, context, shape->vocab, e);
}

static void drop(rig *g)
{
	inputs_deinit(&g->in, NULL, NULL);
	if (g->r) {
		mem_free(g->r->tokens);
		mem_free(g->r->memory.page);
		mem_free((void *)(uintptr_t)g->r->spec.prompt_want_ids);
	}
	mem_free(g->r);
	sample_batch_destroy(g->sampling);
	mem_free(g->kv);
	mem_free(g->mamba);
	dry_destroy(g->x);
	arena_deinit(&g->fake);
}

/* A step with all that a request can ask for. */
static nh_status run(rig *g, const engine_parts *p, bool decode, int rows, nh_error *e)
{
	int vocab = p->m->shape.vocab, best = vocab < ENGINE_TOP_MAX ? vocab : ENGINE_TOP_MAX;
	step s = {.T = rows, .R = rows, .decode = decode, .draws = true, .force = -1, .token = -1};
	s.prompt = (step_logprobs){.n = decode ? 0 : rows, .M = ENGINE_WANT_MAX + 1, .K = best};
	s.taken = (step_logprobs){.n = 1, .M = ENGINE_WANT_MAX + 1, .K = best};
	TRY(inputs_fill(&g->in, &s, g->r, g->sampling, e));
	const model_state state = {.mamba = g->mamba, .kv = g->kv};
	arena_reset(g->x->scratch);
	p->m->family->forward(p->m, g->x, &s.batch, &state, &(model_tap){0}, &s.logits);
	TRY(exec_status(g->x, e));
	exec_scratch(g->x, NUM_I32, 1, 1);
	tensor edited = pick_reserve_edited(g->x, &s, vocab);
	pick_ops(g->x, &s, &edited);
	return exec_status(g->x, e);
}

nh_status engine_measure(const engine_parts *p, const engine_options *options, size_t *scratch_bytes, nh_error *e)
{
	rig g = {0};
	int64_t context;
	int piece;
	*scratch_bytes = 0;
	TRY(engine_limits(p, options, &context, &piece, e));
	if (piece > context) piece = (int)context;
	nh_status s = build(&g, p, context, piece, e);
	if (s == NH_OK) s = run(&g, p, false, piece, e);
	if (s == NH_OK) s = run(&g, p, true, 1, e);
	if (s == NH_OK) *scratch_bytes = dry_scratch_peak(g.x);
	drop(&g);
	return s;
}
