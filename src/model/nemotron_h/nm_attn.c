/* SPDX-License-Identifier: Apache-2.0
 * nm_attn.c: grouped-query attention over pages (docs/MODEL.md, "*"). No position encoding, no bias, no norm of q or k.
 */
#include <math.h>

#include "model/nemotron_h/nm_model.h"

void nm_attn_forward(const nm_step *s, const nm_block *l, const tensor *y, const tensor *h)
{
	const nm_attn *a = &l->attn;
	const step_batch *b = s->b;
	const kv_pages *pages = &s->state->kv[l->state];
	num_dtype act = s->x->types.act;
	int kv_heads = (int)a->kv_heads, head_dim = (int)a->head_dim, window = (int)a->window, n = b->T - b->D;
	double scale = 1.0 / sqrt((double)head_dim);

	tensor q = exec_scratch(s->x, act, b->T, a->q.n), k = exec_scratch(s->x, act, b->T, a->k.n), v = exec_scratch(s->x, act, b->T, a->v.n);
	tensor o = exec_scratch(s->x, act, b->T, a->q.n);
	if (s->x->status != NH_OK) return;
	OP(s->x, linear, .y = &q, .x = y, .w = &a->q, .decode_rows = b->D);
	OP(s->x, linear, .y = &k, .x = y, .w = &a->k, .decode_rows = b->D);
	OP(s->x, linear, .y = &v, .x = y, .w = &a->v, .decode_rows = b->D);
	nm_tap(s, "keys", &k);
	nm_tap(s, "values", &v);
	OP(s->x, kv_write, .pages = pages, .k = &k, .v = &v, .kv_slot = &b->kv_slot);
	if (b->D > 0) {
		tensor q_d = tensor_rows(&q, 0, b->D), o_d = tensor_rows(&o, 0, b->D), pos = tensor_rows(&b->pos, 0, b->D),
		       seq = tensor_rows(&b->row_seq, 0, b->D);
		OP(s->x, attn_decode, .y = &o_d, .q = &q_d, .pages = pages, .pos = &pos, .row_seq = &seq, .page_table = &b->page_table,
		    .page_tokens = b->page_tokens, .kv_heads = kv_heads, .head_dim = head_dim, .window = window, .scale = scale);
	}
	if (n > 0) {
		tensor q_p = tensor_rows(&q, b->D, n), o_p = tensor_rows(&o, b->D, n), pos = tensor_rows(&b->pos, b->D, n),
		       seq = tensor_rows(&b->row_seq, b->D, n);
		OP(s->x, attn_prefill, .y = &o_p, .q = &q_p, .pages = pages, .pos = &pos, .row_seq = &seq, .page_table = &b->page_table,
		    .page_tokens = b->page_tokens, .kv_heads = kv_heads, .head_dim = head_dim, .window = window, .scale = scale);
	}
	OP(s->x, linear, .y = h, .x = &o, .w = &a->o, .decode_rows = b->D);
}
