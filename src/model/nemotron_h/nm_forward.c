/* SPDX-License-Identifier: Apache-2.0
 * nm_forward.c: one step of the whole network (docs/MODEL.md). The residual stream is added to at the START of the next layer, fused with its
 * norm, so a layer's output and the stream are two tensors until then. Only the rows whose logits are wanted reach the head.
 */
#include <stdio.h>

#include "base/base_mem.h"
#include "model/nemotron_h/nm_model.h"

void nm_tap(const nm_step *s, const char *what, const tensor *t)
{
	if (!s->tap || !s->tap->fn || s->x->status != NH_OK) return;
	char name[64];
	if (s->x->layer < 0) snprintf(name, sizeof name, "%s", what);
	else snprintf(name, sizeof name, "layer.%d.%s", s->x->layer, what);
	s->tap->fn(s->tap->user, name, t);
}

static void mixer(const nm_step *s, const nm_block *l, const tensor *y, const tensor *h)
{
	switch (l->kind) {
	case NM_MAMBA: nm_mamba_forward(s, l, y, h); break;
	case NM_ATTN: nm_attn_forward(s, l, y, h); break;
	case NM_MLP: nm_mlp_forward(s, &l->mlp, y, h); break;
	default: nm_moe_forward(s, l, y, h); break;
	}
}

/* The last residual add and norm of `count` rows: row by row, so fewer rows change nothing. The stream after the add goes to *res. */
static tensor last_norm(
    const nm_step *s, const nm_model *m, const tensor *residual, const tensor *h, const tensor *rows, int count, tensor *res)
{
	exec *x = s->x;
	num_dtype act = x->types.act;
	tensor out = exec_scratch(x, act, count, residual->shape[1]), y = exec_scratch(x, act, count, residual->shape[1]);
	*res = exec_scratch(x, act, count, residual->shape[1]);
	OP(x, gather_rows, .y = res, .x = residual, .rows = rows);
	OP(x, gather_rows, .y = &out, .x = h, .rows = rows);
	OP(x, add_rms_norm, .y = &y, .residual = res, .x = &out, .w = &m->norm_f, .eps = m->eps);
	return y;
}

/* The head, on the wanted rows alone. */
static void head(const nm_step *s, const nm_model *m, const tensor *residual, const tensor *h, tensor *logits)
{
	exec *x = s->x;
	tensor res, y = last_norm(s, m, residual, h, &s->b->out_rows, s->b->R, &res);
	*logits = exec_scratch(x, x->types.act, s->b->R, m->head.n);
	if (x->status != NH_OK) return;
	x->layer = m->base.shape.layers - 1;
	nm_tap(s, "residual", &res);
	x->layer = -1;
	nm_tap(s, "final_norm", &y);
	/* One class for the head whatever the rows' form: a position's logits come from the decode kernel set. */
	OP(x, linear, .y = logits, .x = &y, .w = &m->head, .decode_rows = s->b->R);
	nm_tap(s, "logits", logits);
}

static void forward(const model *base, exec *x, const step_batch *b, const model_state *state, const model_tap *tap, tensor *logits)
{
	const nm_model *m = (const nm_model *)base;
	const nm_step s = {.x = x, .b = b, .state = state, .tap = tap, .eps = m->eps, .chunk = base->shape.chunk};
	num_dtype act = x->types.act;

	x->layer = -1;
	tensor residual = exec_scratch(x, act, b->T, base->shape.hidden), y = exec_scratch(x, act, b->T, base->shape.hidden);
	tensor h = exec_scratch(x, act, b->T, base->shape.hidden);
	*logits = (tensor){0};
	if (x->status != NH_OK) return;
	OP(x, embed_rows, .y = &residual, .table = &m->embedding, .ids = &b->ids);
	nm_tap(&s, "embedding", &residual);
	for (int i = 0; i < base->shape.layers; i++) {
		const nm_block *l = &m->layers[i];
		size_t mark = arena_mark(x->scratch);
		x->layer = i;
		if (i == 0) OP(x, rms_norm, .y = &y, .x = &residual, .w = &l->norm, .eps = m->eps);
		else {
			OP(x, add_rms_norm, .y = &y, .residual = &residual, .x = &h, .w = &l->norm, .eps = m->eps);
			x->layer = i - 1;
			nm_tap(&s, "residual", &residual);
			x->layer = i;
		}
		nm_tap(&s, "residual_in", &residual);
		nm_tap(&s, "input", &y);
		mixer(&s, l, &y, &h);
		nm_tap(&s, "hidden", &h);
		arena_rewind(x->scratch, mark);
	}
	x->layer = -1;
	if (b->R > 0) head(&s, m, &residual, &h, logits);
	model_hidden *hidden = tap ? tap->hidden : NULL;
	tensor res;
	if (hidden && hidden->count > 0) hidden->out = last_norm(&s, m, &residual, &h, &hidden->rows, hidden->count, &res);
}

static void close_model(model *base)
{
	nm_model *m = (nm_model *)base;
	if (!m) return;
	mem_free(m->layers);
	mem_free(m->mamba_shapes);
	mem_free(m->kv_shapes);
	mem_free(m->expert_weights);
	nm_config_deinit(&m->config);
	mem_free(m);
}

/* Counts and shapes of the layers that carry state. */
static nh_status shapes(nm_model *m, nh_error *e)
{
	const nm_config *c = &m->config;
	model_shape *s = &m->base.shape;
	m->layers = mem_array((size_t)c->layers, sizeof *m->layers);
	m->mamba_shapes = mem_array((size_t)c->layers, sizeof *m->mamba_shapes);
	m->kv_shapes = mem_array((size_t)c->layers, sizeof *m->kv_shapes);
	if (!m->layers || !m->mamba_shapes || !m->kv_shapes) return ERR_NOMEM(e);
	*s = (model_shape){.layers = c->layers,
	    .hidden = (int)c->hidden,
	    .vocab = (int)c->vocab,
	    .chunk = (int)c->chunk,
	    .max_positions = c->max_positions,
	    .pattern = c->pattern,
	    .mamba = m->mamba_shapes,
	    .kv = m->kv_shapes,
	    .ssm_dtype = c->ssm_dtype,
	    .ssm_dtype_text = c->ssm_dtype_text};
	for (int i = 0; i < c->layers; i++) {
		const nm_layer_config *lc = &c->layer[i];
		nm_block *l = &m->layers[i];
		l->kind = lc->kind;
		if (lc->kind == NM_MAMBA) {
			l->state = s->mamba_layers++;
			m->mamba_shapes[l->state] = (model_mamba_shape){.layer = i,
			    .taps = lc->mamba.taps,
			    .channels = lc->mamba.channels,
			    .heads = lc->mamba.heads,
			    .head_dim = lc->mamba.head_dim,
			    .state = lc->mamba.state};
		} else if (lc->kind == NM_ATTN) {
			l->state = s->attn_layers++;
			m->kv_shapes[l->state] = (model_kv_shape){
			    .layer = i, .kv_heads = lc->attn.kv_heads, .head_dim = lc->attn.head_dim, .k_scale = 1.0f, .v_scale = 1.0f};
		}
	}
	return NH_OK;
}

static nh_status open_model(model **out, const json_t *config, const char *config_name, loader *l, nh_error *e)
{
	nm_model *m = mem_alloc(sizeof *m);
	*out = NULL;
	if (!m) return ERR_NOMEM(e);
	m->base.family = &nm_family;
	nh_status s;
	TRY_GOTO(s, nm_config_read(&m->config, config, config_name, loader_log(l), e), fail);
	m->eps = m->config.eps;
	TRY_GOTO(s, shapes(m, e), fail);
	TRY_GOTO(s, nm_bind(m, l, e), fail);
	*out = &m->base;
	return NH_OK;
fail:
	close_model(&m->base);
	return s;
}

const model_family nm_family = {"nemotron_h", open_model, close_model, forward};
