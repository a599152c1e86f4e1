/* SPDX-License-Identifier: Apache-2.0
 * bench_case_rows.c: the ops that work on rows alone, at the 30B shapes, and the list of all cases. What they touch stays in cache between layers,
 * so their bound is the cache's.
 * The invariant that breaks first: an op that edits its operand in place may be called again on what it left.
 */
#include <stdio.h>
#include <string.h>

#include "base/base_mem.h"
#include "cmd/bench/bench_case.h"

#define HIDDEN 2688
#define INNER 4096
#define EXPERTS 128
#define CHOSEN 6
#define VOCAB 131072

typedef struct rows_self {
	tensor x, y, z, w, bias, idx, weights;
	op_sample_row *draws;
	op_rms_norm rms_norm;
	op_add_rms_norm add_rms_norm;
	op_gated_norm gated_norm;
	op_route route;
	op_moe_combine combine;
	op_sample_rows sample;
} rows_self;

#define CALL(name, op)                                          \
	static void call_##name(op_case *c, uint64_t turn)          \
	{                                                           \
		(void)turn;                                             \
		c->m.x->ops->op(c->m.x, &((rows_self *)c->self)->name); \
	}
CALL(rms_norm, rms_norm)
CALL(add_rms_norm, add_rms_norm)
CALL(gated_norm, gated_norm)
CALL(route, route)
CALL(combine, moe_combine)
CALL(sample, sample_rows)

static void finish(op_case *c, op_id op, const void *args, void (*call)(op_case *, uint64_t))
{
	op_cost cost;
	op_cost_of(op, args, 0, &cost);
	c->activation_bytes = (double)(cost.activation_bytes + cost.weight_bytes);
	c->flops = (double)cost.flops;
	if (c->m.status == NH_OK) c->call = call;
}

static void set_norm(op_case *c)
{
	rows_self *s = c->self;
	num_dtype act = c->m.x->types.act;
	int64_t width = strcmp(c->name, "gated_norm") == 0 ? INNER : HIDDEN;
	snprintf(c->shape, sizeof c->shape, "%lld", (long long)width);
	s->x = MADE(&c->m, act, 1.0, c->rows, width);
	s->y = MADE(&c->m, act, 0.0, c->rows, width);
	s->z = MADE(&c->m, act, 1.0, c->rows, width);
	s->w = MADE(&c->m, NUM_BF16, 1.0, width);
	s->rms_norm = (op_rms_norm){.y = &s->y, .x = &s->x, .w = &s->w, .eps = 1e-5};
	s->add_rms_norm = (op_add_rms_norm){.y = &s->y, .residual = &s->z, .x = &s->x, .w = &s->w, .eps = 1e-5};
	s->gated_norm = (op_gated_norm){.y = &s->y, .x = &s->x, .gate = &s->z, .w = &s->w, .groups = 8, .eps = 1e-5};
	if (width == INNER) finish(c, OP_gated_norm, &s->gated_norm, call_gated_norm);
	else if (strcmp(c->name, "rms_norm") == 0) finish(c, OP_rms_norm, &s->rms_norm, call_rms_norm);
	else finish(c, OP_add_rms_norm, &s->add_rms_norm, call_add_rms_norm);
}

static void set_moe(op_case *c)
{
	rows_self *s = c->self;
	exec *x = c->m.x;
	if (strcmp(c->name, "route") == 0) {
		snprintf(c->shape, sizeof c->shape, "%d of %d", CHOSEN, EXPERTS);
		s->x = MADE(&c->m, x->types.wide, 2.0, c->rows, EXPERTS);
		s->bias = MADE(&c->m, NUM_F32, 0.1, EXPERTS);
		s->idx = MADE(&c->m, NUM_I32, 0.0, c->rows, CHOSEN);
		s->weights = MADE(&c->m, x->types.wide, 0.0, c->rows, CHOSEN);
		s->route =
		    (op_route){.idx = &s->idx, .w = &s->weights, .logits = &s->x, .bias = &s->bias, .n_group = 1, .topk_group = 1, .norm = true};
		finish(c, OP_route, &s->route, call_route);
		return;
	}
	snprintf(c->shape, sizeof c->shape, "%dx%d", CHOSEN, HIDDEN);
	s->x = MADE(&c->m, x->types.act, 1.0, c->rows, CHOSEN, HIDDEN);
	s->y = MADE(&c->m, x->types.act, 0.0, c->rows, HIDDEN);
	s->z = MADE(&c->m, x->types.act, 1.0, c->rows, HIDDEN);
	s->combine = (op_moe_combine){.y = &s->y, .rows = &s->x, .shared = &s->z, .factor = 2.5};
	finish(c, OP_moe_combine, &s->combine, call_combine);
}

static void set_sample(op_case *c)
{
	rows_self *s = c->self;
	bool greedy = strcmp(c->name, "greedy") == 0;
	snprintf(c->shape, sizeof c->shape, "%d", VOCAB);
	s->x = MADE(&c->m, c->m.x->types.act, 3.0, c->rows, VOCAB);
	s->idx = MADE(&c->m, NUM_I32, 0.0, c->rows);
	s->draws = made_alloc(&c->m, (size_t)c->rows * sizeof *s->draws);
	for (int64_t i = 0; s->draws && i < c->rows; i++)
		s->draws[i] = (op_sample_row){.temperature = greedy ? 0 : 0.7, .top_p = greedy ? 1 : 0.95, .seed = 1, .position = i};
	s->sample = (op_sample_rows){.ids = &s->idx, .logits = &s->x, .rows = s->draws};
	finish(c, OP_sample_rows, &s->sample, call_sample);
}

bool case_rows(op_case *c)
{
	bool norm = strcmp(c->op, "norm") == 0, sample = strcmp(c->op, "sample") == 0;
	if (!norm && !sample && strcmp(c->op, "moe") != 0) return false;
	c->self = made_alloc(&c->m, sizeof(rows_self));
	if (c->self == NULL) return true;
	if (norm) set_norm(c);
	else if (sample) set_sample(c);
	else set_moe(c);
	return true;
}

/* --- the list --- */

bool case_at(int i, case_name *out)
{
	static const case_name all[] = {
	    {"linear", "in_proj", true, true, true, false},
	    {"linear", "out_proj", true, true, true, false},
	    {"linear", "expert_up", true, true, true, false},
	    {"linear", "expert_down", true, true, true, false},
	    {"linear", "shared_up", true, true, true, false},
	    {"linear", "shared_down", true, true, true, false},
	    {"linear", "q_proj", true, true, true, false},
	    {"linear", "kv_proj", true, true, true, false},
	    {"linear", "o_proj", true, true, true, false},
	    {"linear", "router", false, true, true, false},
	    {"linear", "lm_head", true, true, false, false},
	    {"expert_ffn", "experts", true, true, true, false},
	    {"conv", "conv", false, true, true, false},
	    {"ssm", "ssm", false, true, true, false},
	    {"attn", "attn", false, true, true, true},
	    {"norm", "rms_norm", false, true, true, false},
	    {"norm", "add_rms_norm", false, true, true, false},
	    {"norm", "gated_norm", false, true, true, false},
	    {"moe", "route", false, true, true, false},
	    {"moe", "combine", false, true, true, false},
	    {"sample", "greedy", false, true, false, false},
	    {"sample", "top_p", false, true, false, false},
	};
	if (i < 0 || (size_t)i >= ARRAY_LEN(all)) return false;
	*out = all[i];
	return true;
}
