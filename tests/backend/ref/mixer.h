/* SPDX-License-Identifier: Apache-2.0
 * mixer.h: the inputs of the mixer's recurrent ops in a few odd shapes, pools full of NaN, and one-line calls. For the tests of this folder.
 */
#ifndef MIXER_H
#define MIXER_H

#include "kit.h"

typedef struct shape {
	int H, P, N, G, K, chunk;
} shape;
static const shape SHAPES[] = {{2, 3, 5, 1, 4, 4}, {4, 16, 8, 2, 4, 8}, {3, 7, 17, 3, 2, 3}, {8, 20, 16, 4, 1, 16}};
#define SHAPE_COUNT 4
#define EACH(k, s)                                                   \
	for (int p_ = 0; p_ < KIT_PROFILE_COUNT; p_++)                   \
		for (const shape *s = SHAPES; s < SHAPES + SHAPE_COUNT; s++) \
			for (kit k = kit_open(KIT_PROFILES[p_], 21); k.x; kit_close(&k), k.x = NULL)

/* The inputs of n tokens, and the state pools of `slots` slots full of NaN. */
typedef struct mixer {
	const shape *s;
	int n, slots;
	tensor xbc, conv_y, w, bias, conv_state;
	tensor x, b, c, dt, a, d, dt_bias, ssm_y, state;
} mixer;

BASE_UNUSED static mixer mixer_make(kit *k, const shape *s, int n, int slots)
{
	const num_dtype act = k->x->types.act;
	const int width = s->H * s->P + 2 * s->G * s->N;
	mixer m = {.s = s, .n = n, .slots = slots};
	m.xbc = kit_random(k, act, n, width, 1.5);
	m.conv_y = kit_2d(k, act, n, width);
	m.w = kit_random(k, NUM_BF16, width, s->K, 1);
	m.bias = kit_vector(k, NUM_BF16, width, 0, 0.5);
	m.conv_state = kit_zeros(k, k->x->types.conv_state, 3, slots, s->K - 1, width, 1);
	m.x = kit_random(k, act, n, s->H * s->P, 1);
	m.b = kit_random(k, act, n, s->G * s->N, 1);
	m.c = kit_random(k, act, n, s->G * s->N, 1);
	m.dt = kit_random(k, act, n, s->H, 3);
	m.a = kit_vector(k, kit_eager(k) ? NUM_F32 : NUM_F64, s->H, -1, 0.8);
	m.d = kit_vector(k, NUM_F32, s->H, 1, 0.5);
	m.dt_bias = kit_vector(k, NUM_BF16, s->H, -1, 1);
	m.ssm_y = kit_2d(k, act, n, s->H * s->P);
	m.state = kit_zeros(k, k->x->types.ssm_state, 4, slots, s->H, s->P, s->N);
	for (int64_t i = 0; i < tensor_count(&m.state); i++) kit_set(&m.state, i, NAN);
	for (int64_t i = 0; i < tensor_count(&m.conv_state); i++) kit_set(&m.conv_state, i, NAN);
	return m;
}

BASE_UNUSED static void poison(const tensor *t)
{
	for (int64_t i = 0; i < tensor_count(t); i++) kit_set(t, i, NAN);
}

/* Rows [from, from + n) as one segment at `pos`. */
BASE_UNUSED static void conv_scan(kit *k, mixer *m, int from, int n, int in, int out)
{
	tensor x = tensor_rows(&m->xbc, from, n), y = tensor_rows(&m->conv_y, from, n), row = KIT_INTS(k, 100, 100 + n), i = KIT_INTS(k, in),
	       o = KIT_INTS(k, out);
	OP(k->x, conv_scan, .y = &y, .x = &x, .state = &m->conv_state, .w = &m->w, .bias = &m->bias, .seg_row = &row, .seg_in = &i,
	    .seg_out = &o);
}

BASE_UNUSED static void conv_step(kit *k, mixer *m, int from, int n, const int32_t *in, const int32_t *out)
{
	tensor x = tensor_rows(&m->xbc, from, n), y = tensor_rows(&m->conv_y, from, n), i = kit_ints(k, n, in), o = kit_ints(k, n, out);
	OP(k->x, conv_step, .y = &y, .x = &x, .state = &m->conv_state, .w = &m->w, .bias = &m->bias, .slot_in = &i, .slot_out = &o);
}

BASE_UNUSED static void ssm_scan(kit *k, mixer *m, int from, int n, int pos, int origin, int in, int out)
{
	tensor x = tensor_rows(&m->x, from, n), b = tensor_rows(&m->b, from, n), c = tensor_rows(&m->c, from, n),
	       dt = tensor_rows(&m->dt, from, n);
	tensor y = tensor_rows(&m->ssm_y, from, n), row = KIT_INTS(k, 7, 7 + n), i = KIT_INTS(k, in), o = KIT_INTS(k, out),
	       at = KIT_INTS(k, pos), org = KIT_INTS(k, origin);
	OP(k->x, ssm_scan, .y = &y, .x = &x, .b = &b, .c = &c, .dt = &dt, .a = &m->a, .d = &m->d, .dt_bias = &m->dt_bias, .state = &m->state,
	    .seg_row = &row, .seg_pos = &at, .seg_origin = &org, .seg_in = &i, .seg_out = &o, .groups = m->s->G, .chunk = m->s->chunk);
}

BASE_UNUSED static void ssm_step(kit *k, mixer *m, int from, int n, const int32_t *in, const int32_t *out)
{
	tensor x = tensor_rows(&m->x, from, n), b = tensor_rows(&m->b, from, n), c = tensor_rows(&m->c, from, n),
	       dt = tensor_rows(&m->dt, from, n);
	tensor y = tensor_rows(&m->ssm_y, from, n), i = kit_ints(k, n, in), o = kit_ints(k, n, out);
	OP(k->x, ssm_step, .y = &y, .x = &x, .b = &b, .c = &c, .dt = &dt, .a = &m->a, .d = &m->d, .dt_bias = &m->dt_bias, .state = &m->state,
	    .slot_in = &i, .slot_out = &o, .groups = m->s->G);
}

BASE_UNUSED static tensor copy_of(kit *k, const tensor *t)
{
	tensor c = kit_zeros(k, t->dtype, t->rank, t->shape[0], t->shape[1], t->shape[2], t->shape[3]);
	memcpy(c.data, t->data, tensor_bytes(t));
	return c;
}

BASE_UNUSED static double f32(double v) { return (double)(float)v; }

#endif
