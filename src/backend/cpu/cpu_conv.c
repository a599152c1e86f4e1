/* SPDX-License-Identifier: Apache-2.0
 * cpu_conv.c: the causal convolution in its two forms. Contracts: op_ssm.h. Channels are independent, so the threads share them out in
 * blocks, and each walks all rows of its blocks in order: rows that follow one another through a slot need no other care. The invariant
 * that breaks first: the history is read from slot_in before slot_out is written.
 */
#include "backend/cpu/cpu_kit.h"
#include "backend/cpu/vec/vec_conv.h"
#include "backend/ref/ref_slot.h"

#define BLOCK VEC_CONV_BLOCK

typedef struct conv {
	const tensor *y, *x, *state, *w, *bias, *in, *out, *seg_row; /* seg_row: NULL in the step form */
	const vec_row *row;
	const vec_conv *k;
	int64_t taps, width;
	bool eager;
} conv;

/* One thread's block of channels. */
typedef struct ring {
	int64_t at, width;
	float *tap[VEC_CONV_TAPS]; /* tap[0] is the oldest */
	float taps[VEC_CONV_TAPS][BLOCK], w[VEC_CONV_TAPS][BLOCK], bias[BLOCK], y[BLOCK];
} ring;

static void history(const conv *c, ring *r, int32_t slot, bool store)
{
	for (int64_t j = 0; j + 1 < c->taps; j++) {
		if (slot < 0) {
			memset(r->tap[j], 0, sizeof(float) * BLOCK);
			continue;
		}
		void *p = (char *)ref_at(c->state, slot, j, 0) + (size_t)r->at * num_bytes(c->state->dtype);
		if (store) cpu_store(c->row, c->state->dtype, p, r->width, r->tap[j]);
		else cpu_load(c->row, c->state->dtype, p, r->width, r->tap[j]);
	}
}

static void one_row(const conv *c, ring *r, int64_t t)
{
	cpu_load(c->row, c->x->dtype, cpu_at(c->x, t, r->at), r->width, r->tap[c->taps - 1]);
	c->k->advance(r->y, r->tap, r->w[0], r->bias, c->taps, c->eager);
	cpu_store(c->row, c->y->dtype, cpu_at(c->y, t, r->at), r->width, r->y);
	float *oldest = r->tap[0];
	memmove(r->tap, r->tap + 1, (size_t)(c->taps - 1) * sizeof *r->tap);
	r->tap[c->taps - 1] = oldest;
}

static void block_begin(const conv *c, ring *r, int64_t at)
{
	float w[VEC_CONV_TAPS * BLOCK];
	*r = (ring){.at = at, .width = ref_min(BLOCK, c->width - at)};
	for (int64_t j = 0; j < c->taps; j++) r->tap[j] = r->taps[j];
	if (c->w->stride[0] == c->taps) cpu_load(c->row, c->w->dtype, tensor_row(c->w, at), r->width * c->taps, w);
	else
		for (int64_t i = 0; i < r->width; i++) cpu_load(c->row, c->w->dtype, tensor_row(c->w, at + i), c->taps, w + i * c->taps);
	c->k->turn(r->w[0], w, r->width, c->taps);
	if (!tensor_absent(c->bias)) cpu_load(c->row, c->bias->dtype, tensor_row(c->bias, at), r->width, r->bias);
}

static void conv_blocks(void *user, int thread, int threads)
{
	const conv *c = user;
	const int64_t n = c->in->shape[0];
	int64_t from, to;
	cpu_range(c->width, BLOCK, thread, threads, &from, &to);
	ring r;
	for (int64_t at = from; at < to; at += BLOCK) {
		block_begin(c, &r, at);
		for (int64_t i = 0; i < n; i++) {
			history(c, &r, ref_i32(c->in, i), false);
			const int64_t first = c->seg_row ? (int64_t)ref_i32(c->seg_row, i) - ref_i32(c->seg_row, 0) : i;
			const int64_t end = c->seg_row ? (int64_t)ref_i32(c->seg_row, i + 1) - ref_i32(c->seg_row, 0) : i + 1;
			for (int64_t t = first; t < end; t++) one_row(c, &r, t);
			history(c, &r, ref_i32(c->out, i), true);
		}
	}
}

/* False: the exec has failed. */
static bool conv_run(exec *x, op_id op, conv *c)
{
	c->row = cpu_row(x), c->k = vec_conv_of((int)cpu_self_of(x)->tier), c->eager = ref_eager(x);
	c->taps = c->w->shape[1], c->width = c->w->shape[0];
	if (c->taps < 1 || c->taps > VEC_CONV_TAPS) {
		exec_fail(x, op, NH_ERR_UNSUPPORTED, "a convolution of %lld taps, expected 1 to %d", (long long)c->taps, VEC_CONV_TAPS);
		return false;
	}
	for (int64_t i = 0; i < c->in->shape[0]; i++) {
		int64_t from, to;
		if (!ref_slots(x, op, c->seg_row ? "segment" : "row", i, ref_i32(c->in, i), ref_i32(c->out, i), c->state->shape[0])) return false;
		if (c->seg_row && !ref_segment(x, op, c->seg_row, i, c->x->shape[0], &from, &to)) return false;
	}
	cpu_go(x, 4 * c->x->shape[0] * c->width, conv_blocks, c);
	return true;
}

void cpu_conv_step(exec *x, const op_conv_step *a)
{
	exec_count(x, OP_conv_step, a);
	conv c = {.y = a->y, .x = a->x, .state = a->state, .w = a->w, .bias = a->bias, .in = a->slot_in, .out = a->slot_out};
	if (conv_run(x, OP_conv_step, &c)) x->counters.conv_update_rows += (uint64_t)a->x->shape[0];
}

void cpu_conv_scan(exec *x, const op_conv_scan *a)
{
	exec_count(x, OP_conv_scan, a);
	conv c = {
	    .y = a->y, .x = a->x, .state = a->state, .w = a->w, .bias = a->bias, .in = a->seg_in, .out = a->seg_out, .seg_row = a->seg_row};
	if (conv_run(x, OP_conv_scan, &c)) x->counters.conv_forward_calls++;
}
