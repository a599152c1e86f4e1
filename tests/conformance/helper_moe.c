/* SPDX-License-Identifier: Apache-2.0
 * helper_moe.c: corpora and mutants of routing, experts and their sum.
 */
#include "conf.h"

enum { T = 6, W = 32, F = 48 };
/* Experts and choices: the usual; of many, only the first; nearly all; one. */
static const struct {
	int E, K;
} SIZES[] = {{12, 3}, {20, 1}, {24, 22}, {1, 1}};

static void route(conf *c)
{
	const num_dtype wide = c->x->types.wide;
	const int E = SIZES[c->variant < 3 ? 0 : c->variant - 2].E, K = SIZES[c->variant < 3 ? 0 : c->variant - 2].K;
	int groups = c->variant == 1 ? 4 : 1, keep = c->variant == 1 ? 2 : 1;
	bool norm = c->variant != 2;
	tensor logits = conf_random(c, wide, T, E, 0, 3), bias = conf_random(c, NUM_F32, E, 0, 0, 0.4),
	       idx = conf_host(c, NUM_I32, 2, T, K, 1, 1), w = conf_host(c, wide, 2, T, K, 1, 1);
	for (int i = 0; i < T * E; i++) /* the first rows are made of equals */
		if (i / E < 3) conf_set(&logits, i, floor(conf_get(&logits, i)));
	if (c->variant == 0)
		for (int e = 0; e < E; e++) conf_set(&bias, e, 0.25 * (e / 4));
	const bool reversed = CONF_MUTANT(c, "equals: the higher expert"), biased = CONF_MUTANT(c, "bias in the weight"),
	           scaled = CONF_MUTANT(c, "routed scale in the weight");
	tensor l = logits, b = bias;
	if (reversed) {
		l = conf_host(c, wide, 2, T, E, 1, 1), b = conf_host(c, NUM_F32, 1, E, 1, 1, 1);
		for (int i = 0; i < T * E; i++) conf_set(&l, i, conf_get(&logits, i / E * E + E - 1 - i % E));
		for (int e = 0; e < E; e++) conf_set(&b, e, conf_get(&bias, E - 1 - e));
	}
	if (CONF_MUTANT(c, "bias dropped")) memset(b.data, 0, tensor_bytes(&b));
	if (norm && CONF_MUTANT(c, "weights not normalised")) norm = false;
	if (groups > 1 && CONF_MUTANT(c, "groups not limited")) keep = groups;
	tensor al = conf_put(c, &l), ab = conf_put(c, &b), ai = conf_put(c, &idx), aw = conf_put(c, &w);
	OP(c->x, route, .idx = &ai, .w = &aw, .logits = &al, .bias = &ab, .n_group = groups, .topk_group = keep, .norm = norm);
	tensor i = conf_back(c, &ai), v = conf_back(c, &aw);
	for (int t = 0; t < T; t++) {
		double sum = 0;
		for (int k = 0; k < K; k++) {
			const int at = t * K + k, e = (int)conf_get(&i, at);
			if (reversed) conf_set(&i, at, E - 1 - e);
			if (scaled) conf_set(&v, at, 2.5 * conf_get(&v, at));
			if (biased) conf_set(&v, at, 1 / (1 + exp(-conf_get(&logits, t * E + e))) + conf_get(&bias, e));
			sum += conf_get(&v, at);
		}
		for (int k = 0; biased && norm && k < K; k++) conf_set(&v, t * K + k, conf_get(&v, t * K + k) / sum);
	}
	conf_out_host(c, &i);
	conf_out_host(c, &v);
}

static void expert_ffn(conf *c)
{
	const num_scheme scheme = (num_scheme)(c->variant % NUM_SCHEME_COUNT);
	const int E = SIZES[c->variant / NUM_SCHEME_COUNT].E, K = SIZES[c->variant / NUM_SCHEME_COUNT].K;
	const bool eager = c->x->num->rounding == NUM_ROUND_EAGER, wide = !eager;
	weight *up = arena_array(&c->mem, (size_t)E, sizeof *up), *down = arena_array(&c->mem, (size_t)E, sizeof *down);
	weight_experts all = {.E = E, .up = up, .down = down};
	for (int e = 0; e < E; e++) {
		up[e] = conf_weight(c, scheme, F, W), down[e] = conf_weight(c, scheme, W, F);
		down[e].input_scale *= 4;
		all.up_input = fmaxf(all.up_input, up[e].input_scale), all.down_input = fmaxf(all.down_input, down[e].input_scale);
		if (scheme != NUM_SCHEME_NONE && CONF_MUTANT(c, "every expert with the first one's scale")) up[e].scale = up[0].scale;
		if (scheme != NUM_SCHEME_NONE && CONF_MUTANT(c, "down scale dropped")) down[e].scale = 1;
		if (scheme != NUM_SCHEME_NONE && CONF_MUTANT(c, "down scale twice")) down[e].scale *= down[e].scale;
	}
	if (scheme == NUM_SCHEME_FP8 || (scheme == NUM_SCHEME_NVFP4 && c->x->num->w4a4 == NUM_W4A4_NATIVE)) {
		if (CONF_MUTANT(c, "up's input scale for down")) all.down_input = all.up_input;
		if (CONF_MUTANT(c, "input scale of the first expert"))
			all.up_input = up[0].input_scale * 0.999f, all.down_input = down[0].input_scale * 0.999f;
	}
	for (int e = 0; e < E; e++) conf_import(c, &up[e]), conf_import(c, &down[e]);
	tensor x = conf_random(c, c->x->types.act, T, W, 0, 1), idx = conf_host(c, NUM_I32, 2, T, K, 1, 1),
	       w = conf_random(c, c->x->types.wide, T, K, 0.4, 0.2);
	tensor rows = conf_host(c, wide ? c->x->types.wide : c->x->types.act, 3, T, K, W, 1);
	for (int i = 0; i < T * K; i++) {
		conf_set(&idx, i, (i / K * 5 + i % K * (2 * K > E ? 1 : 2)) % E);
		if (CONF_MUTANT(c, "the next expert")) conf_set(&idx, i, (conf_get(&idx, i) + 1) < E ? conf_get(&idx, i) + 1 : 0);
		if (CONF_MUTANT(c, "routing weight left out")) conf_set(&w, i, 1);
		if (CONF_MUTANT(c, "routing weight twice")) conf_set(&w, i, conf_get(&w, i) * conf_get(&w, i));
	}
	x = conf_put(c, &x), idx = conf_put(c, &idx), w = conf_put(c, &w), rows = conf_put(c, &rows);
	OP(c->x, expert_ffn, .rows = &rows, .x = &x, .idx = &idx, .w = &w, .experts = &all, .decode_rows = 2);
	conf_out(c, &rows);
}

static void moe_combine(conf *c)
{
	const num_dtype act = c->x->types.act;
	const int K = SIZES[c->variant].K;
	float factor = 2.5f;
	tensor rows = conf_host(c, act, 3, T, K, W, 1), shared = conf_random(c, act, T, W, 0, 1), y = conf_host(c, act, 2, T, W, 1, 1);
	for (int i = 0; i < T * K * W; i++) {
		conf_set(&rows, i, conf_rand(c));
		if (CONF_MUTANT(c, "the last k forgotten") && i / W % K == K - 1) conf_set(&rows, i, 0);
	}
	for (int i = 0; CONF_MUTANT(c, "shared scaled too") && i < T * W; i++) conf_set(&shared, i, 2.5 * conf_get(&shared, i));
	if (CONF_MUTANT(c, "factor dropped")) factor = 1;
	if (CONF_MUTANT(c, "factor twice")) factor *= factor;
	const bool drop = CONF_MUTANT(c, "shared left out");
	rows = conf_put(c, &rows), shared = conf_put(c, &shared), y = conf_put(c, &y);
	OP(c->x, moe_combine, .y = &y, .rows = &rows, .shared = drop ? NULL : &shared, .factor = factor);
	conf_out(c, &y);
}

const conf_case CONF_MOE[] = {
    {OP_route, route, 6}, {OP_expert_ffn, expert_ffn, 4 * NUM_SCHEME_COUNT}, {OP_moe_combine, moe_combine, 4}, {OP_COUNT, NULL, 0}};
