/* SPDX-License-Identifier: Apache-2.0
 * helper_ssm.c: corpora and mutants of the mixer's ops. State faults fade over a sequence, so outputs are compared token by token and
 * sequences are short: a slot that should have been zeros shows in the first token.
 */
#include "conf.h"

enum { H = 6, P = 8, G = 2, K = 4, SLOTS = 5 };
static const int64_t STATES[] = {16, 16, 96}; /* by variant */

/* Pools start dirty: a slot that is read by mistake is seen. */
static tensor dirty(conf *c, num_dtype type, int rank, int64_t a, int64_t b, int64_t d)
{
	tensor t = conf_host(c, type, rank, SLOTS, a, b, d);
	for (int64_t i = 0; i < tensor_count(&t); i++) conf_set(&t, i, conf_rand(c));
	return t;
}

typedef struct segments {
	tensor row, pos, origin, in, out; /* scan: three segments, one fresh, one resumed, one of a single token */
	tensor step_in, step_out;         /* step: two sequences and a draft */
	int n;
} segments;

static segments segments_make(conf *c, bool scan, int chunk)
{
	const int n = scan ? 2 * chunk + 3 : 4;
	int32_t row[4] = {2, 2 + chunk + 1, 2 + chunk + 2, 2 + n}, in[3] = {-1, 3, -1}, out[3] = {1, 3, 0}, step_in[4] = {-1, 2, 2, 4},
	        step_out[4] = {2, 2, 0, 4};
	if (CONF_MUTANT(c, "a stale slot instead of zeros")) in[0] = 1, step_in[0] = 2;
	if (CONF_MUTANT(c, "zeros instead of the slot")) in[1] = -1, step_in[3] = -1;
	if (CONF_MUTANT(c, "another slot's state")) in[1] = 4, step_in[3] = 3;
	if (CONF_MUTANT(c, "the draft reads the first state")) out[2] = 2, step_in[2] = -1;
	segments s = {.n = n,
	    .row = conf_ints(c, 4, row),
	    .pos = CONF_INTS(c, 0, chunk, 0),
	    .origin = CONF_INTS(c, 0, 0, 0),
	    .in = conf_ints(c, 3, in),
	    .out = conf_ints(c, 3, out),
	    .step_in = conf_ints(c, 4, step_in),
	    .step_out = conf_ints(c, 4, step_out)};
	tensor *all[] = {&s.row, &s.pos, &s.origin, &s.in, &s.out, &s.step_in, &s.step_out};
	for (int i = 0; i < 7; i++) *all[i] = conf_put(c, all[i]);
	return s;
}

static void conv(conf *c, bool scan)
{
	const num_dtype act = c->x->types.act;
	const int width = c->variant ? 928 : 24;
	segments s = segments_make(c, scan, 5);
	tensor x = conf_random(c, act, s.n, width, 0.2, 1.5), w = conf_random(c, NUM_BF16, width, K, 0, 1),
	       bias = conf_random(c, NUM_BF16, width, 0, 0.3, 0.5);
	tensor y = conf_host(c, act, 2, s.n, width, 1, 1), state = dirty(c, c->x->types.conv_state, 3, K - 1, width, 1);
	for (int i = 0; i < width; i++) {
		double tap[K];
		for (int j = 0; j < K; j++) tap[j] = conf_get(&w, i * K + j);
		for (int j = 0; j < K; j++) {
			if (CONF_MUTANT(c, "taps newest first")) conf_set(&w, i * K + j, tap[K - 1 - j]);
			if (CONF_MUTANT(c, "taps late by one")) conf_set(&w, i * K + j, tap[(j + 1) % K]);
		}
		if (CONF_MUTANT(c, "bias dropped")) conf_set(&bias, i, 0);
	}
	x = conf_put(c, &x), w = conf_put(c, &w), bias = conf_put(c, &bias), y = conf_put(c, &y), state = conf_put(c, &state);
	if (scan)
		OP(c->x, conv_scan, .y = &y, .x = &x, .state = &state, .w = &w, .bias = &bias, .seg_row = &s.row, .seg_in = &s.in,
		    .seg_out = &s.out);
	else OP(c->x, conv_step, .y = &y, .x = &x, .state = &state, .w = &w, .bias = &bias, .slot_in = &s.step_in, .slot_out = &s.step_out);
	conf_out(c, &y);
	conf_out(c, &state);
}

static void conv_step(conf *c) { conv(c, false); }
static void conv_scan(conf *c) { conv(c, true); }

/* [rows, G * N] to [rows, H * N] with head h's group h % G instead of h / (H / G). */
static tensor tiled(conf *c, const tensor *t)
{
	const int64_t N = STATES[c->variant];
	tensor r = conf_host(c, t->dtype, 2, t->shape[0], H * N, 1, 1);
	for (int64_t i = 0; i < t->shape[0]; i++)
		for (int h = 0; h < H; h++)
			for (int n = 0; n < N; n++) conf_set(&r, (i * H + h) * N + n, conf_get(t, (i * G + h % G) * N + n));
	return r;
}

static void ssm(conf *c, bool scan)
{
	const num_dtype act = c->x->types.act;
	const int64_t N = STATES[c->variant];
	int chunk = c->variant ? 16 : 4, groups = G;
	segments s = segments_make(c, scan, chunk);
	tensor x = conf_random(c, act, s.n, H * P, 0.1, 1), b = conf_random(c, act, s.n, G * N, 0.2, 1),
	       cc = conf_random(c, act, s.n, G * N, 0.2, 1);
	tensor dt = conf_random(c, act, s.n, H, 0, 2), a = conf_random(c, c->x->types.wide, H, 0, -1, 0.8),
	       d = conf_random(c, NUM_F32, H, 0, 1, 0.5);
	tensor bias = conf_random(c, NUM_BF16, H, 0, -1, 1), y = conf_host(c, act, 2, s.n, H * P, 1, 1),
	       state = dirty(c, c->x->types.ssm_state, 4, H, P, N);
	if (CONF_MUTANT(c, "B and C exchanged")) {
		tensor t = b;
		b = cc, cc = t;
	}
	if (CONF_MUTANT(c, "groups tiled")) b = tiled(c, &b), cc = tiled(c, &cc), groups = H;
	if (CONF_MUTANT(c, "dt bias dropped")) memset(bias.data, 0, tensor_bytes(&bias));
	if (CONF_MUTANT(c, "D dropped")) memset(d.data, 0, tensor_bytes(&d));
	for (int i = 0; i < H; i++) {
		if (CONF_MUTANT(c, "decay of the wrong sign")) conf_set(&a, i, -0.1 * conf_get(&a, i));
		if (CONF_MUTANT(c, "the next head's decay") && i) conf_set(&a, i - 1, conf_get(&a, i));
	}
	for (int i = 0; CONF_MUTANT(c, "relu for softplus") && i < s.n * H; i++) { /* the dt whose softplus is max(dt + bias, 0) */
		double v = fmax(conf_get(&dt, i) + conf_get(&bias, i % H), 1e-9);
		conf_set(&dt, i, log(expm1(v)) - conf_get(&bias, i % H));
	}
	x = conf_put(c, &x), b = conf_put(c, &b), cc = conf_put(c, &cc), dt = conf_put(c, &dt), a = conf_put(c, &a), d = conf_put(c, &d),
	bias = conf_put(c, &bias);
	y = conf_put(c, &y), state = conf_put(c, &state);
	if (scan)
		OP(c->x, ssm_scan, .y = &y, .x = &x, .b = &b, .c = &cc, .dt = &dt, .a = &a, .d = &d, .dt_bias = &bias, .state = &state,
		    .seg_row = &s.row, .seg_pos = &s.pos, .seg_origin = &s.origin, .seg_in = &s.in, .seg_out = &s.out, .groups = groups,
		    .chunk = chunk);
	else
		OP(c->x, ssm_step, .y = &y, .x = &x, .b = &b, .c = &cc, .dt = &dt, .a = &a, .d = &d, .dt_bias = &bias, .state = &state,
		    .slot_in = &s.step_in, .slot_out = &s.step_out, .groups = groups);
	conf_out(c, &y);
	conf_out(c, &state);
}

static void ssm_step(conf *c) { ssm(c, false); }
static void ssm_scan(conf *c) { ssm(c, true); }

static void gated_norm(conf *c)
{
	const num_dtype act = c->x->types.act;
	const int T = 3, I = c->variant == 2 ? 928 : 60;
	int groups = c->variant == 2 ? 2 : 3;
	float eps = 1e-5f;
	tensor x = conf_random(c, act, T, I, 0, c->variant == 1 ? 0.002 : 1), gate = conf_random(c, act, T, I, 0, 3),
	       w = conf_random(c, NUM_BF16, I, 0, 1, 0.5);
	tensor y = conf_host(c, act, 2, T, I, 1, 1), z = gate;
	const bool late = CONF_MUTANT(c, "norm before the gate");
	if (CONF_MUTANT(c, "one group")) groups = 1;
	if (CONF_MUTANT(c, "eps dropped")) eps = 0;
	if (CONF_MUTANT(c, "sigmoid for silu") || late) {
		z = conf_host(c, act, 2, T, I, 1, 1);
		for (int i = 0; i < T * I; i++) conf_set(&z, i, 1.2784645427610738); /* silu of this is 1 */
		for (int i = 0; !late && i < T * I; i++) conf_set(&x, i, conf_get(&x, i) / (1 + exp(-conf_get(&gate, i))));
	}
	x = conf_put(c, &x), z = conf_put(c, &z), w = conf_put(c, &w), y = conf_put(c, &y);
	OP(c->x, gated_norm, .y = &y, .x = &x, .gate = &z, .w = &w, .groups = groups, .eps = eps);
	tensor back = conf_back(c, &y);
	for (int i = 0; late && i < T * I; i++) conf_set(&back, i, conf_get(&back, i) * conf_get(&gate, i) / (1 + exp(-conf_get(&gate, i))));
	if (late) conf_out_host(c, &back);
	else conf_out(c, &y);
}

const conf_case CONF_SSM[] = {{OP_conv_step, conv_step, 2}, {OP_conv_scan, conv_scan, 2}, {OP_ssm_step, ssm_step, 3},
    {OP_ssm_scan, ssm_scan, 3}, {OP_gated_norm, gated_norm, 3}, {OP_COUNT, NULL, 0}};
