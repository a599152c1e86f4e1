/* SPDX-License-Identifier: Apache-2.0
 * nm_mamba.c: the Mamba-2 mixer (docs/MODEL.md, "M"): project in, convolve, scan, gate and normalise, project out. Decode rows step through
 * their slots; prefill rows are scanned by segment. z never meets the convolution.
 */
#include "model/nemotron_h/nm_model.h"

/* Column views of the convolved x, B, C. */
typedef struct xbc {
	tensor x, b, c;
} xbc;

static xbc split(const tensor *t, const nm_mamba *m)
{
	int64_t inner = m->heads * m->head_dim, bc = m->groups * m->state;
	return (xbc){tensor_cols(t, 0, inner), tensor_cols(t, inner, bc), tensor_cols(t, inner + bc, bc)};
}

static void decode_rows(
    const nm_step *s, const nm_mamba *m, const mamba_state *st, const tensor *raw, const tensor *dt, const tensor *conv, const tensor *y)
{
	const step_batch *b = s->b;
	tensor raw_d = tensor_rows(raw, 0, b->D), dt_d = tensor_rows(dt, 0, b->D), conv_d = tensor_rows(conv, 0, b->D),
	       y_d = tensor_rows(y, 0, b->D);
	OP(s->x, conv_step, .y = &conv_d, .x = &raw_d, .state = &st->conv, .w = &m->conv_w,
	    .bias = tensor_absent(&m->conv_b) ? NULL : &m->conv_b, .slot_in = &b->slot_in, .slot_out = &b->slot_out);
	xbc v = split(&conv_d, m);
	OP(s->x, ssm_step, .y = &y_d, .x = &v.x, .b = &v.b, .c = &v.c, .dt = &dt_d, .a = &m->a, .d = &m->d, .dt_bias = &m->dt_bias,
	    .state = &st->ssm, .slot_in = &b->slot_in, .slot_out = &b->slot_out, .groups = (int)m->groups);
}

static void prefill_rows(
    const nm_step *s, const nm_mamba *m, const mamba_state *st, const tensor *raw, const tensor *dt, const tensor *conv, const tensor *y)
{
	const step_batch *b = s->b;
	int n = b->T - b->D;
	tensor raw_p = tensor_rows(raw, b->D, n), dt_p = tensor_rows(dt, b->D, n), conv_p = tensor_rows(conv, b->D, n),
	       y_p = tensor_rows(y, b->D, n);
	OP(s->x, conv_scan, .y = &conv_p, .x = &raw_p, .state = &st->conv, .w = &m->conv_w,
	    .bias = tensor_absent(&m->conv_b) ? NULL : &m->conv_b, .seg_row = &b->seg_row, .seg_in = &b->seg_in, .seg_out = &b->seg_out);
	xbc v = split(&conv_p, m);
	OP(s->x, ssm_scan, .y = &y_p, .x = &v.x, .b = &v.b, .c = &v.c, .dt = &dt_p, .a = &m->a, .d = &m->d, .dt_bias = &m->dt_bias,
	    .state = &st->ssm, .seg_row = &b->seg_row, .seg_pos = &b->seg_pos, .seg_origin = &b->seg_origin, .seg_in = &b->seg_in,
	    .seg_out = &b->seg_out, .groups = (int)m->groups, .chunk = s->chunk);
}

void nm_mamba_forward(const nm_step *s, const nm_block *l, const tensor *y, const tensor *h)
{
	const nm_mamba *m = &l->mamba;
	const mamba_state *st = &s->state->mamba[l->state];
	int64_t inner = m->heads * m->head_dim, channels = inner + 2 * m->groups * m->state;
	num_dtype act = s->x->types.act;

	tensor proj = exec_scratch(s->x, act, s->b->T, m->in.n);
	tensor conv = exec_scratch(s->x, act, s->b->T, channels);
	tensor scan = exec_scratch(s->x, act, s->b->T, inner);
	tensor normed = exec_scratch(s->x, act, s->b->T, inner);
	if (s->x->status != NH_OK) return;
	tensor z = tensor_cols(&proj, 0, inner), raw = tensor_cols(&proj, inner, channels), dt = tensor_cols(&proj, inner + channels, m->heads);

	OP(s->x, linear, .y = &proj, .x = y, .w = &m->in, .bias = tensor_absent(&m->in_bias) ? NULL : &m->in_bias, .decode_rows = s->b->D);
	if (s->b->D > 0) decode_rows(s, m, st, &raw, &dt, &conv, &scan);
	if (s->b->T > s->b->D) prefill_rows(s, m, st, &raw, &dt, &conv, &scan);
	OP(s->x, gated_norm, .y = &normed, .x = &scan, .gate = &z, .w = &m->norm, .groups = (int)m->groups, .eps = s->eps);
	nm_tap(s, "out_input", &normed);
	OP(s->x, linear, .y = h, .x = &normed, .w = &m->out, .bias = tensor_absent(&m->out_bias) ? NULL : &m->out_bias, .decode_rows = s->b->D);
}
