/* SPDX-License-Identifier: Apache-2.0
 * op_moe.c: operands, costs and contracts of op_moe.h.
 */
#include <math.h>
#include <string.h>

#include "op/op_help.h"

void op_describe_route(const op_route *a, op_desc *d)
{
	memset(d, 0, sizeof *d);
	OP_OUT(idx);
	OP_OUT(w);
	OP_IN(logits);
	OP_IN(bias);
	d->rows = (int64_t)op_rows(a->logits);
}

/* Flops: 5 an expert for sigmoid and bias, and a comparison an expert and choice: T * E * (5 + K). */
void op_cost_route(const op_route *a, uint64_t context_tokens, op_cost *c)
{
	(void)context_tokens;
	uint64_t K = op_dim(a->idx, 1) > 0 ? (uint64_t)op_dim(a->idx, 1) : 0;
	*c = (op_cost){.weight_bytes = op_bytes(a->bias),
	    .activation_bytes = op_bytes(a->idx) + op_bytes(a->w) + op_bytes(a->logits),
	    .flops = op_count(a->logits) * (5 + K)};
}

const char *op_check_route(const op_route *a, char text[256])
{
	op_checker c = {text, false};
	OP_NEED(logits, OP_WIDE, -1, -1);
	int64_t T = op_dim(a->logits, 0), E = op_dim(a->logits, 1);
	OP_NEED(bias, OP_BIT(NUM_F32), E);
	OP_NEED(idx, OP_BIT(NUM_I32), T, -1);
	OP_NEED(w, OP_WIDE, T, op_dim(a->idx, 1));
	OP_SAME(w, logits);
	OP_REQUIRE(a->n_group > 0 && E % a->n_group == 0, "field n_group: %d, expected a divisor of %lld experts", a->n_group, (long long)E);
	OP_REQUIRE(a->topk_group > 0 && a->topk_group <= a->n_group, "field topk_group: %d, expected 1 to %d", a->topk_group, a->n_group);
	OP_REQUIRE(op_dim(a->idx, 1) <= E / a->n_group * a->topk_group, "field idx: %lld choices, expected at most %lld experts of %d groups",
	    (long long)op_dim(a->idx, 1), (long long)(E / a->n_group * a->topk_group), a->topk_group);
	OP_FINISH(route, false);
}

void op_describe_expert_ffn(const op_expert_ffn *a, op_desc *d)
{
	memset(d, 0, sizeof *d);
	OP_OUT(rows);
	OP_IN(x);
	OP_IN(idx);
	OP_IN(w);
	d->experts = a->experts;
	d->rows = (int64_t)op_rows(a->x);
}

/* Weights: min(E, T * K) experts, up and down. Flops: 2 products of F by W a (token, k) pair: 4 T K F W. */
void op_cost_expert_ffn(const op_expert_ffn *a, uint64_t context_tokens, op_cost *c)
{
	(void)context_tokens;
	*c = (op_cost){.activation_bytes = op_bytes(a->rows) + op_bytes(a->x) + op_bytes(a->idx) + op_bytes(a->w)};
	const weight_experts *e = a->experts;
	if (!e || e->E <= 0 || !e->up || !e->down) return;
	uint64_t pairs = op_count(a->idx), read = pairs < (uint64_t)e->E ? pairs : (uint64_t)e->E;
	c->weight_bytes = read * ((uint64_t)weight_bytes(&e->up[0]) + weight_bytes(&e->down[0]));
	c->flops = 4 * pairs * (uint64_t)e->up[0].n * (uint64_t)e->up[0].k;
}

static void check_experts(op_checker *c, const weight_experts *e, int64_t W)
{
	if (c->failed) return;
	if (!e) return op_object(c, "field experts: missing");
	if (e->E <= 0 || !e->up || !e->down)
		return op_object(c, "field experts: %d of them, up %s, down %s", e->E, e->up ? "given" : "missing", e->down ? "given" : "missing");
	int64_t F = e->up[0].n;
	for (int i = 0; i < e->E && !c->failed; i++) {
		op_expect_weight(c, "experts.up", &e->up[i], F, W);
		op_expect_weight(c, "experts.down", &e->down[i], W, F);
		if (!c->failed && (e->up[i].scheme != e->up[0].scheme || e->down[i].scheme != e->down[0].scheme))
			op_object(c, "field experts: expert %d has another scheme than expert 0", i);
	}
	if (c->failed || !e->up[0].data) return;
	if (e->up[0].scheme == NUM_SCHEME_FP8 && !(e->up_input > 0 && isfinite(e->up_input)))
		op_object(c, "field experts.up_input: %g, expected more than 0", (double)e->up_input);
	if (e->down[0].scheme == NUM_SCHEME_FP8 && !(e->down_input > 0 && isfinite(e->down_input)))
		op_object(c, "field experts.down_input: %g, expected more than 0", (double)e->down_input);
}

const char *op_check_expert_ffn(const op_expert_ffn *a, char text[256])
{
	op_checker c = {text, false};
	OP_NEED(x, OP_FLOAT, -1, -1);
	int64_t T = op_dim(a->x, 0), W = op_dim(a->x, 1);
	OP_NEED(idx, OP_BIT(NUM_I32), T, -1);
	OP_NEED(w, OP_WIDE, T, op_dim(a->idx, 1));
	OP_NEED(rows, OP_FLOAT, T, op_dim(a->idx, 1), W);
	if (op_given(a->rows) && !(OP_WIDE & OP_BIT((unsigned)a->rows->dtype & 31u))) OP_SAME(rows, x);
	check_experts(&c, a->experts, W);
	OP_REQUIRE(a->decode_rows >= 0 && a->decode_rows <= T, "field decode_rows: %d, expected 0 to %lld", a->decode_rows, (long long)T);
	OP_FINISH(expert_ffn, false);
}

void op_describe_moe_combine(const op_moe_combine *a, op_desc *d)
{
	memset(d, 0, sizeof *d);
	OP_OUT(y);
	OP_IN(rows);
	OP_IN(shared);
	d->rows = (int64_t)op_rows(a->y);
}

/* Flops: a sum a routed row, the factor, and the shared expert's sum. */
void op_cost_moe_combine(const op_moe_combine *a, uint64_t context_tokens, op_cost *c)
{
	(void)context_tokens;
	*c = (op_cost){.activation_bytes = op_bytes(a->y) + op_bytes(a->rows) + op_bytes(a->shared),
	    .flops = op_count(a->rows) + op_count(a->y) + op_count(a->shared)};
}

const char *op_check_moe_combine(const op_moe_combine *a, char text[256])
{
	op_checker c = {text, false};
	OP_NEED(rows, OP_FLOAT, -1, -1, -1);
	int64_t T = op_dim(a->rows, 0), W = op_dim(a->rows, 2);
	OP_NEED(y, OP_FLOAT, T, W);
	OP_MAY(shared, OP_FLOAT, T, W);
	OP_SAME(shared, y);
	OP_REQUIRE(isfinite(a->factor), "field factor: %g, expected a finite number", a->factor);
	OP_FINISH(moe_combine, false);
}
