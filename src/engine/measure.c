/* SPDX-License-Identifier: Apache-2.0
 * measure.c: how much scratch the largest steps need, by running them on the dry arm over addresses that nobody may touch. Ops see shapes
 * only, so the same code takes no more memory when it computes.
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
	sample_batch *edited;
	step step;
	engine_request r; /* stands for any */
	sequence q;
	int32_t page;
	engine_limits l;
} rig;

static tensor fake(rig *g, num_dtype dtype, int rank, const int64_t *shape)
{
	tensor t = tensor_nd(NULL, dtype, rank, shape);
	t.data = arena_alloc(&g->fake, t.room);
	return t;
}

static nh_status build(rig *g, const engine_parts *p, nh_error *e)
{
	const model_shape *shape = &p->m->shape;
	arena_init_measure(&g->fake);
	g->x = dry_create(p->x->num, p->x->types.act);
	g->mamba = mem_array((size_t)shape->mamba_layers, sizeof *g->mamba);
	g->kv = mem_array((size_t)shape->attn_layers, sizeof *g->kv);
	if (!g->x || !g->mamba || !g->kv) return ERR_NOMEM(e);
	g->x->types = p->x->types;
	for (int i = 0; i < shape->mamba_layers; i++) {
		const model_mamba_shape *l = &shape->mamba[i];
		g->mamba[i].conv = fake(g, g->x->types.conv_state, 3, (const int64_t[]){g->l.slots, l->taps - 1, l->channels});
		g->mamba[i].ssm = fake(g, g->x->types.ssm_state, 4, (const int64_t[]){g->l.slots, l->heads, l->head_dim, l->state});
	}
	for (int i = 0; i < shape->attn_layers; i++) {
		const model_kv_shape *l = &shape->kv[i];
		const int64_t all[4] = {g->l.pages, PAGES_TOKENS, l->kv_heads, l->head_dim};
		g->kv[i] = (kv_pages){.k = fake(g, p->kv, 4, all), .v = fake(g, p->kv, 4, all), .k_scale = 1, .v_scale = 1};
	}
	return step_init(&g->step, &g->l, e);
}

static void drop(rig *g)
{
	step_deinit(&g->step);
	mem_free(g->kv);
	mem_free(g->mamba);
	dry_destroy(g->x);
	arena_deinit(&g->fake);
}

/* Shapes of a step's tensors; their data is nowhere. */
static tensor shaped(num_dtype dtype, int64_t rows, int64_t columns)
{
	return columns ? tensor_2d((void *)(uintptr_t)ARENA_ALIGN, dtype, rows, columns)
	               : tensor_1d((void *)(uintptr_t)ARENA_ALIGN, dtype, rows);
}

/* A step of which every sequence asks for all that a request can ask for; `decode` of them in decode form, the others share the piece. */
static nh_status run(rig *g, const engine_parts *p, int decode, int segments, int piece, nh_error *e)
{
	step *s = &g->step;
	int vocab = p->m->shape.vocab, best = vocab < ENGINE_TOP_MAX ? vocab : ENGINE_TOP_MAX, each = 1 + g->l.drafts;
	*s = (step){.item = s->item, .view = s->view, .plan = s->plan};
	for (int k = 0; k < decode + segments && s->items < g->l.sequences; k++) {
		bool d = k < decode;
		int rows = d ? each : k == decode ? piece - segments + 1 : 1;
		step_item *i = &s->item[s->items++];
		*i = (step_item){.decode = d,
		    .tells = true,
		    .rows = rows,
		    .row0 = s->T,
		    .R = rows,
		    .r0 = s->R,
		    .draws = d ? rows : 1,
		    .d0 = s->N,
		    .E = d ? 0 : rows,
		    .e0 = s->E,
		    .force = -1};
		i->prompt = (step_logprobs){.n = d ? 0 : rows, .M = ENGINE_WANT_MAX, .K = best};
		i->taken = (step_logprobs){.n = i->draws, .M = ENGINE_WANT_MAX, .K = best};
		i->prompt.chosen = i->taken.chosen = shaped(NUM_I32, rows, 1);
		i->prompt.ids = i->taken.ids = shaped(NUM_I32, rows, ENGINE_WANT_MAX);
		s->T += rows;
		s->D += d ? rows : 0;
		s->S += !d;
		s->R += rows;
		s->E += i->E;
		s->N += i->draws;
	}
	s->batch = (step_batch){.T = s->T, .D = s->D, .S = s->S, .R = s->R, .page_tokens = PAGES_TOKENS};
	step_batch *b = &s->batch;
	b->ids = b->pos = b->row_seq = shaped(NUM_I32, s->T, 0);
	b->kv_slot = shaped(NUM_I64, s->T, 0);
	b->out_rows = shaped(NUM_I32, s->R, 0);
	b->slot_in = b->slot_out = shaped(NUM_I32, s->D, 0);
	b->seg_row = shaped(NUM_I32, s->S + 1, 0);
	b->seg_pos = b->seg_origin = b->seg_in = b->seg_out = shaped(NUM_I32, s->S, 0);
	b->page_table = shaped(NUM_I32, s->items, pages_needed(g->l.context));
	s->hidden = (model_hidden){.count = s->E, .rows = shaped(NUM_I32, s->E, 0)};
	s->hidden_start = shaped(NUM_I32, s->E + 1, 0);
	s->draw_rows = shaped(NUM_I32, s->N, 0);
	tensor counts = shaped(NUM_I32, s->N, vocab), edited;
	s->edit = (op_logit_edit){.counts = &counts};
	const model_state state = {.mamba = g->mamba, .kv = g->kv};
	arena_reset(g->x->scratch);
	p->m->family->forward(p->m, g->x, b, &state, &(model_tap){.hidden = &s->hidden}, &s->logits);
	TRY(exec_status(g->x, e));
	pick_gather(g->x, s, vocab, &edited);
	pick_ops(g->x, s, &edited);
	return exec_status(g->x, e);
}

nh_status engine_measure(const engine_parts *p, const engine_options *options, size_t *scratch_bytes, nh_error *e)
{
	rig g = {0};
	*scratch_bytes = 0;
	TRY(engine_limits_of(p, options, &g.l, e));
	int piece = g.l.piece, n = g.l.sequences;
	if ((int64_t)piece > g.l.context * n) piece = (int)(g.l.context * n);
	int segments = n < piece ? n : piece;
	nh_status s = build(&g, p, e);
	if (s == NH_OK) s = run(&g, p, n, 0, piece, e);
	if (s == NH_OK) s = run(&g, p, 0, 1, piece, e);
	if (s == NH_OK) s = run(&g, p, 0, segments, piece, e);
	if (s == NH_OK && n > 1) s = run(&g, p, n - 1, 1, piece, e);
	if (s == NH_OK) *scratch_bytes = dry_scratch_peak(g.x);
	drop(&g);
	return s;
}
