/* SPDX-License-Identifier: Apache-2.0
 * helper_basic.c: corpora and mutants of the row ops, and of the copies.
 */
#include "conf.h"

static void embed_rows(conf *c)
{
	tensor table = conf_random(c, c->variant ? NUM_F32 : NUM_BF16, 11, 24, 0, 1), ids = CONF_INTS(c, 10, 0, 4, 4, 7),
	       y = conf_host(c, c->x->types.act, 2, 5, 24, 1, 1);
	for (int i = 0; i < 5; i++) {
		if (CONF_MUTANT(c, "the next id")) conf_set(&ids, i, (conf_get(&ids, i) < 10) + (int)conf_get(&ids, i) % 10);
		if (CONF_MUTANT(c, "rows counted from one") && conf_get(&ids, i) > 0) conf_set(&ids, i, conf_get(&ids, i) - 1);
	}
	table = conf_put(c, &table), ids = conf_put(c, &ids), y = conf_put(c, &y);
	OP(c->x, embed_rows, .y = &y, .table = &table, .ids = &ids);
	conf_out(c, &y);
}

/* The eps inside the root that gives what `eps` outside of it would. Quiet rows make it visible (houses: 370 times below the noise else). */
static float outside(const tensor *x, int64_t t, double eps)
{
	double sum = 0;
	for (int64_t i = 0; i < x->shape[1]; i++) sum += conf_get(x, t * x->shape[1] + i) * conf_get(x, t * x->shape[1] + i);
	return (float)(2 * sqrt(sum / (double)x->shape[1]) * eps + eps * eps);
}

static const double LOUD[3] = {1, 0.01, 0.0005};

static void rms_norm(conf *c)
{
	const int T = 4, D = c->variant == 3 ? 928 : 96;
	float eps = 1e-5f;
	tensor x = conf_random(c, c->x->types.act, T, D, 0, LOUD[c->variant % 3]), w = conf_random(c, NUM_BF16, D, 0, 1, 0.5),
	       y = conf_host(c, c->x->types.act, 2, T, D, 1, 1);
	const bool out = CONF_MUTANT(c, "eps outside the root");
	if (CONF_MUTANT(c, "eps dropped")) eps = 0;
	for (int i = 0; i < D; i++) {
		if (CONF_MUTANT(c, "mean over D - 1")) conf_set(&w, i, conf_get(&w, i) * sqrt((D - 1.0) / D));
		if (CONF_MUTANT(c, "one plus the weight")) conf_set(&w, i, 1 + conf_get(&w, i));
	}
	tensor at = conf_put(c, &x), aw = conf_put(c, &w), ay = conf_put(c, &y);
	for (int t = 0; t < T; t++) {
		tensor xt = tensor_rows(&at, t, 1), yt = tensor_rows(&ay, t, 1);
		OP(c->x, rms_norm, .y = &yt, .x = &xt, .w = &aw, .eps = out ? outside(&x, t, (double)eps) : eps);
	}
	conf_out(c, &ay);
}

static void add_rms_norm(conf *c)
{
	const int T = 4, D = c->variant == 3 ? 928 : 80;
	const num_dtype act = c->x->types.act;
	tensor x = conf_random(c, act, T, D, 0, LOUD[c->variant % 3]), res = conf_random(c, act, T, D, 0, LOUD[c->variant % 3]),
	       w = conf_random(c, NUM_BF16, D, 0, 1, 0.5);
	tensor y = conf_host(c, act, 2, T, D, 1, 1), ax = conf_put(c, &x), ares = conf_put(c, &res), aw = conf_put(c, &w), ay = conf_put(c, &y);
	const bool alone = CONF_MUTANT(c, "norm of x alone");
	OP(c->x, add_rms_norm, .y = &ay, .residual = &ares, .x = &ax, .w = &aw, .eps = CONF_MUTANT(c, "eps dropped") ? 0 : 1e-5f);
	if (alone) OP(c->x, rms_norm, .y = &ay, .x = &ax, .w = &aw, .eps = 1e-5f);
	conf_out(c, &ay);
	if (CONF_MUTANT(c, "residual left as it was")) conf_out_host(c, &res);
	else if (CONF_MUTANT(c, "residual normed")) conf_out(c, &ay);
	else conf_out(c, &ares);
}

static void linear(conf *c)
{
	const num_scheme scheme = (num_scheme)(c->variant % NUM_SCHEME_COUNT);
	const int shape = c->variant / (int)NUM_SCHEME_COUNT; /* rows that fill no tile; a width that fills none; one output */
	const bool fp4 = scheme == NUM_SCHEME_NVFP4 || scheme == NUM_SCHEME_W4A16, with = shape == 1;
	const int T = (const int[]){3, 9, 5, 1}[shape], n = (const int[]){40, 19, 33, 1}[shape], k = (const int[]){160, 48, 928, 16}[shape];
	tensor x = conf_random(c, c->x->types.act, T, k, 0.1, 1), bias = conf_random(c, NUM_BF16, n, 0, 0, 1),
	       y = conf_host(c, c->x->types.act, 2, T, n, 1, 1);
	weight w = conf_weight(c, scheme, n, k);
	op_act act = with ? OP_ACT_RELU2 : OP_ACT_NONE;
	uint8_t *code = (uint8_t *)(uintptr_t)w.data, *scale = (uint8_t *)(uintptr_t)w.block_scale;
	bool half = false, drop = false;
	if (scheme != NUM_SCHEME_NONE) {
		if (CONF_MUTANT(c, "scale dropped")) w.scale = 1;
		if (CONF_MUTANT(c, "scale twice")) w.scale *= w.scale;
	}
	if (scheme == NUM_SCHEME_FP8) {
		if (CONF_MUTANT(c, "input scale ignored")) w.input_scale = 1;
		if (CONF_MUTANT(c, "input scale inverted")) w.input_scale = 1 / w.input_scale;
		if (CONF_MUTANT(c, "e4m3 with a bias of 8")) w.scale *= 0.5f;
	}
	if (scheme == NUM_SCHEME_NVFP4 && c->x->num->w4a4 == NUM_W4A4_NATIVE && CONF_MUTANT(c, "activations not on the FP4 grid"))
		w.scheme = NUM_SCHEME_W4A16;
	if (fp4) {
		for (int i = 0; CONF_MUTANT(c, "nibbles swapped") && i < n * k / 2; i++) code[i] = (uint8_t)(code[i] << 4 | code[i] >> 4);
		for (int i = 0; CONF_MUTANT(c, "block scale of the next block") && i + 1 < n * k / 16; i++) scale[i] = scale[i + 1];
		for (int i = 0; CONF_MUTANT(c, "sign bit lost") && i < n * k / 2; i++) code[i] &= 0x77;
	}
	if (with) {
		half = CONF_MUTANT(c, "relu not squared");
		drop = CONF_MUTANT(c, "bias dropped");
		if (CONF_MUTANT(c, "activation left out") || half) act = OP_ACT_NONE;
	}
	conf_import(c, &w);
	tensor ax = conf_put(c, &x), ab = conf_put(c, &bias), ay = conf_put(c, &y);
	OP(c->x, linear, .y = &ay, .x = &ax, .w = &w, .bias = with && !drop ? &ab : NULL, .act = act, .decode_rows = T / 2);
	tensor back = conf_back(c, &ay);
	for (int i = 0; half && i < T * n; i++) conf_set(&back, i, fmax(conf_get(&back, i), 0));
	if (half) conf_out_host(c, &back);
	else conf_out(c, &ay);
}

static void add(conf *c)
{
	tensor a = conf_random(c, c->x->types.act, 3, 40, 0, 1), b = conf_random(c, c->x->types.act, 3, 40, 0, 1);
	for (int i = 0; i < 120; i++) {
		if (CONF_MUTANT(c, "subtracted")) conf_set(&b, i, -conf_get(&b, i));
		if (CONF_MUTANT(c, "b twice")) conf_set(&b, i, 2 * conf_get(&b, i));
	}
	a = conf_put(c, &a), b = conf_put(c, &b);
	OP(c->x, add, .y = &a, .a = &a, .b = &b);
	conf_out(c, &a);
}

static void gather_rows(conf *c)
{
	tensor x = conf_random(c, c->x->types.act, 6, 17, 0, 1), rows = CONF_INTS(c, 1, 4, 5),
	       y = conf_host(c, c->x->types.act, 2, 3, 17, 1, 1);
	for (int i = 0; i < 3; i++) {
		if (CONF_MUTANT(c, "the row before")) conf_set(&rows, i, conf_get(&rows, i) - 1);
		if (CONF_MUTANT(c, "the first rows")) conf_set(&rows, i, i);
	}
	x = conf_put(c, &x), rows = conf_put(c, &rows), y = conf_put(c, &y);
	OP(c->x, gather_rows, .y = &y, .x = &x, .rows = &rows);
	conf_out(c, &y);
}

static void pool_copy(conf *c, bool pages)
{
	tensor pool = pages ? conf_host(c, c->x->types.kv, 4, 6, 2, 2, 8) : conf_host(c, c->x->types.conv_state, 3, 6, 3, 20, 1);
	for (int64_t i = 0; i < tensor_count(&pool); i++) conf_set(&pool, i, conf_rand(c));
	int32_t from[3] = {4, -1, 2}, to[3] = {0, 3, 5};
	if (CONF_MUTANT(c, "from and to exchanged")) from[0] = 0, to[0] = 4;
	if (CONF_MUTANT(c, "the next slot")) to[2] = 1;
	if (CONF_MUTANT(c, "-1 leaves the slot alone")) from[1] = 3;
	tensor f = conf_ints(c, 3, from), t = conf_ints(c, 3, to);
	pool = conf_put(c, &pool), f = conf_put(c, &f), t = conf_put(c, &t);
	if (pages) OP(c->x, page_copy, .pool = &pool, .from = &f, .to = &t);
	else OP(c->x, state_copy, .pool = &pool, .from = &f, .to = &t);
	conf_out(c, &pool);
}

static void state_copy(conf *c) { pool_copy(c, false); }
static void page_copy(conf *c) { pool_copy(c, true); }

static void all_reduce(conf *c)
{
	tensor y = conf_random(c, c->x->types.act, 3, 20, 0, 1);
	for (int i = 0; i < 60; i++) {
		if (CONF_MUTANT(c, "added to itself")) conf_set(&y, i, 2 * conf_get(&y, i));
		if (CONF_MUTANT(c, "left at zero")) conf_set(&y, i, 0);
	}
	y = conf_put(c, &y);
	OP(c->x, all_reduce, .y = &y);
	conf_out(c, &y);
}

const conf_case CONF_BASIC[] = {{OP_embed_rows, embed_rows, 2}, {OP_rms_norm, rms_norm, 4}, {OP_add_rms_norm, add_rms_norm, 4},
    {OP_linear, linear, 4 * NUM_SCHEME_COUNT}, {OP_add, add, 1}, {OP_gather_rows, gather_rows, 1}, {OP_state_copy, state_copy, 1},
    {OP_page_copy, page_copy, 1}, {OP_all_reduce, all_reduce, 1}, {OP_COUNT, NULL, 0}};
