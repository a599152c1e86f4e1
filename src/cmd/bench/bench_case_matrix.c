/* SPDX-License-Identifier: Apache-2.0
 * bench_case_matrix.c: products with weight matrices at the 30B shapes: single matrices, and the experts of one layer.
 * The invariant that breaks first: the experts of a call are distinct within a row, and all experts come round before one comes again, so that
 * the bytes are those of a model whose routing is even.
 */
#include <stdio.h>
#include <string.h>

#include "base/base_mem.h"
#include "base/base_rng.h"
#include "cmd/bench/bench_case.h"

#define EXPERTS 128
#define CHOSEN 6
#define EXPERT_WIDTH 1856
#define HIDDEN 2688
#define CHOICES 32 /* different sets of experts that the turns go through */

static const struct {
	const char *name;
	int64_t n, k;
	op_act act;
	bool wide; /* output */
} MATRICES[] = {{"in_proj", 10304, HIDDEN, OP_ACT_NONE, false}, {"out_proj", HIDDEN, 4096, OP_ACT_NONE, false},
    {"expert_up", EXPERT_WIDTH, HIDDEN, OP_ACT_RELU2, false}, {"expert_down", HIDDEN, EXPERT_WIDTH, OP_ACT_NONE, false},
    {"shared_up", 3712, HIDDEN, OP_ACT_RELU2, false}, {"shared_down", HIDDEN, 3712, OP_ACT_NONE, false},
    {"q_proj", 4096, HIDDEN, OP_ACT_NONE, false}, {"kv_proj", 256, HIDDEN, OP_ACT_NONE, false},
    {"o_proj", HIDDEN, 4096, OP_ACT_NONE, false}, {"router", EXPERTS, HIDDEN, OP_ACT_NONE, true},
    {"lm_head", 131072, HIDDEN, OP_ACT_NONE, false}};

typedef struct matrix_self {
	weight *w;
	int64_t count;
	tensor x, y;
	op_linear args;
} matrix_self;

static void call_linear(op_case *c, uint64_t turn)
{
	matrix_self *s = c->self;
	s->args.w = &s->w[turn % (uint64_t)s->count];
	c->m.x->ops->linear(c->m.x, &s->args);
}

static void costs(op_case *c, op_id op, const void *args)
{
	op_cost cost;
	op_cost_of(op, args, 0, &cost);
	c->bytes = (double)(cost.weight_bytes + cost.state_bytes);
	c->activation_bytes = (double)cost.activation_bytes;
	c->flops = (double)cost.flops;
}

static void set_linear(op_case *c, int64_t n, int64_t k, op_act act, bool wide)
{
	exec *x = c->m.x;
	matrix_self *s = c->self;
	size_t one = made_weight_bytes(c->format, n, k);
	s->count = c->in_cache || one == 0 ? 1 : (int64_t)(c->rotate_bytes / one) + 1;
	if (s->count > CASE_ROTATE_MAX) s->count = CASE_ROTATE_MAX;
	snprintf(c->shape, sizeof c->shape, "%lldx%lld", (long long)n, (long long)k);
	s->x = MADE(&c->m, x->types.act, 1.0, c->rows, k);
	s->y = MADE(&c->m, wide ? x->types.wide : x->types.act, 0.0, c->rows, n);
	s->w = made_weights(&c->m, c->format, n, k, s->count);
	if (!s->w) return;
	s->args = (op_linear){.y = &s->y, .x = &s->x, .w = s->w, .act = act, .decode_rows = c->decode ? (int)c->rows : 0};
	costs(c, OP_linear, &s->args);
	c->call = call_linear;
}

/* --- experts --- */

typedef struct expert_self {
	weight *up, *down;
	weight_experts experts;
	tensor x, w, rows, idx[CHOICES];
	op_expert_ffn args;
} expert_self;

static void call_experts(op_case *c, uint64_t turn)
{
	expert_self *s = c->self;
	s->args.idx = &s->idx[turn % CHOICES];
	c->m.x->ops->expert_ffn(c->m.x, &s->args);
}

/* Rows take the experts of a shuffled list in order; where the list ends it is shuffled anew, and a row never takes one twice. */
static int64_t choose_experts(int64_t E, int64_t rows, int32_t *out, uint64_t *at, int32_t *list, uint64_t seed)
{
	uint8_t seen[EXPERTS] = {0};
	int64_t distinct = 0;
	for (int64_t t = 0; t < rows; t++) {
		for (int64_t k = 0; k < CHOSEN;) {
			uint64_t place = *at % (uint64_t)E;
			if (place == 0) {
				for (int64_t i = E - 1; i > 0; i--) {
					int64_t j = (int64_t)(rng_u64(seed, *at, (uint64_t)i) % (uint64_t)(i + 1));
					int32_t keep = list[i];
					list[i] = list[j];
					list[j] = keep;
				}
			}
			int32_t e = list[place];
			bool again = false;
			for (int64_t j = 0; j < k; j++) again = again || out[t * CHOSEN + j] == e;
			++*at;
			if (again) continue;
			out[t * CHOSEN + k++] = e;
			distinct += !seen[e];
			seen[e] = 1;
		}
	}
	return distinct;
}

static void set_experts(op_case *c)
{
	exec *x = c->m.x;
	expert_self *s = c->self;
	int64_t E = c->in_cache ? CHOSEN : EXPERTS, distinct = 0;
	int32_t list[EXPERTS];
	uint64_t at = 0;
	for (int32_t i = 0; i < EXPERTS; i++) list[i] = i;
	snprintf(c->shape, sizeof c->shape, "%lld of %dx%d", (long long)E, EXPERT_WIDTH, HIDDEN);
	s->x = MADE(&c->m, x->types.act, 1.0, c->rows, HIDDEN);
	s->w = MADE(&c->m, x->types.wide, 0.3, c->rows, CHOSEN);
	s->up = made_weights(&c->m, c->format, EXPERT_WIDTH, HIDDEN, E);
	s->down = made_weights(&c->m, c->format, HIDDEN, EXPERT_WIDTH, E);
	for (int i = 0; i < CHOICES; i++) {
		s->idx[i] = MADE(&c->m, NUM_I32, 0.0, c->rows, CHOSEN);
		if (s->idx[i].data) distinct += choose_experts(E, c->rows, s->idx[i].data, &at, list, 7);
	}
	if (c->m.status != NH_OK) return;
	s->experts =
	    (weight_experts){.E = (int)E, .up = s->up, .down = s->down, .up_input = s->up->input_scale, .down_input = s->down->input_scale};
	s->rows = MADE(&c->m, exec_expert_type(x, &s->experts), 0.0, c->rows, CHOSEN, HIDDEN);
	s->args = (op_expert_ffn){
	    .rows = &s->rows, .x = &s->x, .idx = &s->idx[0], .w = &s->w, .experts = &s->experts, .decode_rows = c->decode ? (int)c->rows : 0};
	costs(c, OP_expert_ffn, &s->args);
	c->experts = (double)distinct / CHOICES;
	c->bytes = c->experts * (double)(weight_bytes(&s->up[0]) + weight_bytes(&s->down[0]));
	c->call = call_experts;
}

bool case_matrix(op_case *c)
{
	if (strcmp(c->op, "expert_ffn") == 0) {
		c->self = made_alloc(&c->m, sizeof(expert_self));
		if (c->self) set_experts(c);
		return true;
	}
	if (strcmp(c->op, "linear") != 0) return false;
	for (size_t i = 0; i < ARRAY_LEN(MATRICES); i++) {
		if (strcmp(MATRICES[i].name, c->name) != 0) continue;
		c->self = made_alloc(&c->m, sizeof(matrix_self));
		if (c->self) set_linear(c, MATRICES[i].n, MATRICES[i].k, MATRICES[i].act, MATRICES[i].wide);
		return true;
	}
	return false;
}
