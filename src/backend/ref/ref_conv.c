/* SPDX-License-Identifier: Apache-2.0
 * ref_conv.c: the causal convolution in its two forms, and the gated norm that closes the mixer. Contracts: op_ssm.h.
 * Both forms walk a ring of the last K raw inputs and share the arithmetic, so they agree bit for bit. The invariant that breaks first:
 * the ring is read from slot_in before slot_out is written.
 */
#include <string.h>

#include "backend/ref/ref.h"
#include "backend/ref/ref_math.h"
#include "backend/ref/ref_slot.h"

/* The last K inputs of one sequence. tap[0] is the oldest; the newest is filled by the caller. */
typedef struct ring {
	int64_t taps, width;
	double *tap[16];
} ring;

typedef struct conv {
	exec *x;
	op_id op;
	const tensor *state;
	ring ring;
	double *w, *bias, *y; /* w: [K, C], by tap */
	bool eager;
} conv;

static bool conv_begin(conv *c, exec *x, op_id op, const tensor *state, const tensor *w, const tensor *bias)
{
	*c = (conv){.x = x, .op = op, .state = state, .ring = {.taps = w->shape[1], .width = w->shape[0]}, .eager = ref_eager(x)};
	ring *r = &c->ring;
	if (r->taps < 1 || r->taps > (int64_t)(sizeof r->tap / sizeof *r->tap)) {
		exec_fail(x, op, NH_ERR_UNSUPPORTED, "a convolution of %lld taps, expected 1 to 16", (long long)r->taps);
		return false;
	}
	double *inputs = ref_take(x, op, r->taps * r->width, sizeof *inputs), *row = ref_take(x, op, r->taps, sizeof *row);
	c->w = ref_take(x, op, r->taps * r->width, sizeof *c->w);
	c->bias = ref_take(x, op, r->width, sizeof *c->bias);
	c->y = ref_take(x, op, r->width, sizeof *c->y);
	if (!inputs || !row || !c->w || !c->bias || !c->y) return false;
	for (int64_t j = 0; j < r->taps; j++) r->tap[j] = inputs + j * r->width;
	for (int64_t i = 0; i < r->width; i++) {
		ref_load(w, i, 0, r->taps, row);
		for (int64_t j = 0; j < r->taps; j++) c->w[j * r->width + i] = row[j];
	}
	if (tensor_absent(bias)) memset(c->bias, 0, (size_t)r->width * sizeof *c->bias);
	else ref_load_vector(bias, c->bias);
	return true;
}

static void history_load(conv *c, int32_t slot)
{
	const ring *r = &c->ring;
	for (int64_t j = 0; j + 1 < r->taps; j++) {
		if (slot < 0) memset(r->tap[j], 0, (size_t)r->width * sizeof *r->tap[j]);
		else ref_load_at(c->state->dtype, ref_at(c->state, slot, j, 0), r->width, r->tap[j]);
	}
}

static void history_store(conv *c, int32_t slot)
{
	for (int64_t j = 0; j + 1 < c->ring.taps; j++)
		ref_store_at(c->state->dtype, ref_at(c->state, slot, j, 0), c->ring.width, c->ring.tap[j]);
}

/* One output row from the ring, whose newest tap is filled; then the ring moves on by one. */
static void advance(conv *c)
{
	ring *r = &c->ring;
	double *y = c->y;
	memcpy(y, c->bias, (size_t)r->width * sizeof *y);
	for (int64_t j = 0; j < r->taps; j++) {
		const double *in = r->tap[j], *w = c->w + j * r->width;
		if (c->eager)
			for (int64_t i = 0; i < r->width; i++) y[i] = ref_f32(y[i] + ref_bf16(in[i] * w[i]));
		else
			for (int64_t i = 0; i < r->width; i++) y[i] += in[i] * w[i];
	}
	for (int64_t i = 0; i < r->width; i++) y[i] = ref_silu(y[i], c->eager);
	double *oldest = r->tap[0];
	memmove(r->tap, r->tap + 1, (size_t)(r->taps - 1) * sizeof *r->tap);
	r->tap[r->taps - 1] = oldest;
}

void ref_conv_step(exec *x, const op_conv_step *a)
{
	exec_count(x, OP_conv_step, a);
	ref_begin(x);
	conv c;
	if (!conv_begin(&c, x, OP_conv_step, a->state, a->w, a->bias)) return;
	const int64_t n = a->x->shape[0], slots = a->state->shape[0];
	for (int64_t t = 0; t < n; t++) {
		int32_t in = ref_i32(a->slot_in, t), out = ref_i32(a->slot_out, t);
		if (!ref_slots(x, OP_conv_step, "row", t, in, out, slots)) return;
		history_load(&c, in);
		ref_load(a->x, t, 0, c.ring.width, c.ring.tap[c.ring.taps - 1]);
		advance(&c);
		ref_store(a->y, t, 0, c.ring.width, c.y);
		history_store(&c, out);
	}
	x->counters.conv_update_rows += (uint64_t)n;
}

void ref_conv_scan(exec *x, const op_conv_scan *a)
{
	exec_count(x, OP_conv_scan, a);
	ref_begin(x);
	conv c;
	if (!conv_begin(&c, x, OP_conv_scan, a->state, a->w, a->bias)) return;
	const int64_t segments = a->seg_in->shape[0], slots = a->state->shape[0];
	for (int64_t s = 0; s < segments; s++) {
		int32_t in = ref_i32(a->seg_in, s), out = ref_i32(a->seg_out, s);
		int64_t from, to;
		if (!ref_slots(x, OP_conv_scan, "segment", s, in, out, slots)) return;
		if (!ref_segment(x, OP_conv_scan, a->seg_row, s, a->x->shape[0], &from, &to)) return;
		history_load(&c, in);
		for (int64_t t = from; t < to; t++) {
			ref_load(a->x, t, 0, c.ring.width, c.ring.tap[c.ring.taps - 1]);
			advance(&c);
			ref_store(a->y, t, 0, c.ring.width, c.y);
		}
		history_store(&c, out);
	}
	x->counters.conv_forward_calls++;
}

void ref_gated_norm(exec *x, const op_gated_norm *a)
{
	exec_count(x, OP_gated_norm, a);
	ref_begin(x);
	const bool eager = ref_eager(x);
	const int64_t n = a->x->shape[0], width = a->x->shape[1], group = a->groups > 0 ? width / a->groups : 0;
	if (a->groups < 1 || width % a->groups) {
		exec_fail(x, OP_gated_norm, NH_ERR_ARG, "%lld channels in %d groups", (long long)width, a->groups);
		return;
	}
	double *w = ref_take(x, OP_gated_norm, width, sizeof *w), *v = ref_take(x, OP_gated_norm, width, sizeof *v);
	double *gate = ref_take(x, OP_gated_norm, width, sizeof *gate);
	if (!w || !v || !gate) return;
	ref_load_vector(a->w, w);
	for (int64_t t = 0; t < n; t++) {
		ref_load(a->x, t, 0, width, v);
		ref_load(a->gate, t, 0, width, gate);
		for (int64_t i = 0; i < width; i++) {
			v[i] *= ref_silu(gate[i], eager);
			if (eager) v[i] = ref_f32(v[i]);
		}
		for (int64_t g = 0; g < width; g += group) {
			double sum = 0.0;
			for (int64_t i = g; i < g + group; i++) sum += v[i] * v[i];
			double s = 1.0 / sqrt(sum / (double)group + ref_param(x, a->eps));
			if (eager) s = ref_f32(s);
			for (int64_t i = g; i < g + group; i++) v[i] = eager ? w[i] * ref_bf16(ref_f32(v[i] * s)) : v[i] * s * w[i];
		}
		ref_store(a->y, t, 0, width, v);
	}
}
