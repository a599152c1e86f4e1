/* SPDX-License-Identifier: Apache-2.0
 * nm_moe.c: mixture of experts (docs/MODEL.md, "E"). The router sees the full-width row; where the model is latent, the routed experts work on its
 * projection and their scaled sum is projected back; the shared expert always sees the full row.
 */
#include "model/nemotron_h/nm_model.h"

static const tensor *bias_or_null(const tensor *t) { return tensor_absent(t) ? NULL : t; }

/* idx and w [T, K] from the router. */
static void choose(const nm_step *s, const nm_moe *m, const tensor *y, const tensor *idx, const tensor *w)
{
	tensor logits = exec_scratch(s->x, s->x->types.wide, s->b->T, m->gate.n);
	if (s->x->status != NH_OK) return;
	OP(s->x, linear, .y = &logits, .x = y, .w = &m->gate, .decode_rows = s->b->D);
	nm_tap(s, "router_logits", &logits);
	OP(s->x, route, .idx = idx, .w = w, .logits = &logits, .bias = &m->bias, .n_group = (int)m->n_group, .topk_group = (int)m->topk_group,
	    .norm = m->norm_topk);
}

void nm_moe_forward(const nm_step *s, const nm_block *l, const tensor *y, const tensor *h)
{
	const nm_moe *m = &l->moe;
	exec *x = s->x;
	int64_t T = s->b->T, width = m->experts.down[0].n;
	num_dtype act = x->types.act;

	tensor idx = exec_scratch(x, NUM_I32, T, m->chosen), w = exec_scratch(x, x->types.wide, T, m->chosen);
	tensor rows = exec_scratch3(x, exec_expert_type(x, &m->experts), T, m->chosen, width);
	tensor shared = m->has_shared ? exec_scratch(x, act, T, h->shape[1]) : (tensor){0};
	tensor low = m->has_latent ? exec_scratch(x, act, T, width) : (tensor){0},
	       sum = m->has_latent ? exec_scratch(x, act, T, width) : (tensor){0};
	if (x->status != NH_OK) return;

	choose(s, m, y, &idx, &w);
	if (m->has_shared) nm_mlp_forward(s, &m->shared, y, &shared);
	if (!m->has_latent) {
		nm_tap(s, "experts_input", y);
		nm_tap(s, "experts_chosen", &idx);
		OP(x, expert_ffn, .rows = &rows, .x = y, .idx = &idx, .w = &w, .experts = &m->experts, .decode_rows = s->b->D);
		OP(x, moe_combine, .y = h, .rows = &rows, .shared = m->has_shared ? &shared : NULL, .factor = m->factor);
		return;
	}
	OP(x, linear, .y = &low, .x = y, .w = &m->fc1, .bias = bias_or_null(&m->fc1_bias), .decode_rows = s->b->D);
	nm_tap(s, "experts_input", &low);
	nm_tap(s, "experts_chosen", &idx);
	OP(x, expert_ffn, .rows = &rows, .x = &low, .idx = &idx, .w = &w, .experts = &m->experts, .decode_rows = s->b->D);
	OP(x, moe_combine, .y = &sum, .rows = &rows, .factor = m->factor);
	OP(x, linear, .y = h, .x = &sum, .w = &m->fc2, .bias = bias_or_null(&m->fc2_bias), .decode_rows = s->b->D);
	if (m->has_shared) OP(x, add, .y = h, .a = &shared, .b = h);
}
