/* SPDX-License-Identifier: Apache-2.0
 * op_basic.c: operands, costs and contracts of op_basic.h. Flops count a multiplication and an addition as one each.
 */
#include <math.h>
#include <string.h>

#include "op/op_help.h"

void op_describe_embed_rows(const op_embed_rows *a, op_desc *d)
{
	memset(d, 0, sizeof *d);
	OP_OUT(y);
	OP_IN(table);
	OP_IN(ids);
	d->rows = (int64_t)op_rows(a->y);
}

/* Weights: T rows of the table. Activations: y and ids. */
void op_cost_embed_rows(const op_embed_rows *a, uint64_t context_tokens, op_cost *c)
{
	(void)context_tokens;
	*c = (op_cost){.weight_bytes = op_rows(a->y) * op_row_bytes(a->table), .activation_bytes = op_bytes(a->y) + op_bytes(a->ids)};
}

const char *op_check_embed_rows(const op_embed_rows *a, char text[256])
{
	op_checker c = {text, false};
	OP_NEED(table, OP_BIT(NUM_BF16) | OP_BIT(NUM_F32), -1, -1);
	OP_NEED(ids, OP_BIT(NUM_I32), -1);
	OP_NEED(y, OP_FLOAT, op_dim(a->ids, 0), op_dim(a->table, 1));
	OP_FINISH(embed_rows, false);
}

void op_describe_rms_norm(const op_rms_norm *a, op_desc *d)
{
	memset(d, 0, sizeof *d);
	OP_OUT(y);
	OP_IN(x);
	OP_IN(w);
	d->rows = (int64_t)op_rows(a->x);
}

/* Flops: square and add, then two products an element. */
void op_cost_rms_norm(const op_rms_norm *a, uint64_t context_tokens, op_cost *c)
{
	(void)context_tokens;
	*c = (op_cost){.weight_bytes = op_bytes(a->w), .activation_bytes = op_bytes(a->y) + op_bytes(a->x), .flops = 4 * op_count(a->x)};
}

const char *op_check_rms_norm(const op_rms_norm *a, char text[256])
{
	op_checker c = {text, false};
	OP_NEED(x, OP_FLOAT, -1, -1);
	OP_NEED(w, OP_FLOAT, op_dim(a->x, 1));
	OP_NEED(y, OP_FLOAT, op_dim(a->x, 0), op_dim(a->x, 1));
	OP_SAME(y, x);
	OP_REQUIRE(a->eps >= 0 && isfinite(a->eps), "field eps: %g, expected 0 or more", a->eps);
	OP_FINISH(rms_norm, false);
}

void op_describe_add_rms_norm(const op_add_rms_norm *a, op_desc *d)
{
	memset(d, 0, sizeof *d);
	OP_OUT(y);
	OP_INOUT(residual);
	OP_IN(x);
	OP_IN(w);
	d->rows = (int64_t)op_rows(a->x);
}

/* The residual is read and written. Flops: one addition more than rms_norm. */
void op_cost_add_rms_norm(const op_add_rms_norm *a, uint64_t context_tokens, op_cost *c)
{
	(void)context_tokens;
	*c = (op_cost){.weight_bytes = op_bytes(a->w),
	    .activation_bytes = op_bytes(a->y) + op_bytes(a->x) + 2 * op_bytes(a->residual),
	    .flops = 5 * op_count(a->x)};
}

const char *op_check_add_rms_norm(const op_add_rms_norm *a, char text[256])
{
	op_checker c = {text, false};
	OP_NEED(x, OP_FLOAT, -1, -1);
	OP_NEED(w, OP_FLOAT, op_dim(a->x, 1));
	OP_NEED(y, OP_FLOAT, op_dim(a->x, 0), op_dim(a->x, 1));
	OP_NEED(residual, OP_FLOAT, op_dim(a->x, 0), op_dim(a->x, 1));
	OP_SAME(y, x);
	OP_SAME(residual, x);
	OP_REQUIRE(a->eps >= 0 && isfinite(a->eps), "field eps: %g, expected 0 or more", a->eps);
	OP_FINISH(add_rms_norm, false);
}

void op_describe_linear(const op_linear *a, op_desc *d)
{
	memset(d, 0, sizeof *d);
	OP_OUT(y);
	OP_IN(x);
	OP_IN(bias);
	d->w = a->w;
	d->rows = (int64_t)op_rows(a->x);
}

/* Weights: the matrix once, scales and bias with it. Flops: 2 T n k. */
void op_cost_linear(const op_linear *a, uint64_t context_tokens, op_cost *c)
{
	(void)context_tokens;
	*c = (op_cost){.weight_bytes = op_bytes(a->bias), .activation_bytes = op_bytes(a->y) + op_bytes(a->x)};
	if (!a->w) return;
	c->weight_bytes += weight_bytes(a->w);
	c->flops = 2 * op_rows(a->x) * (uint64_t)a->w->n * (uint64_t)a->w->k;
}

const char *op_check_linear(const op_linear *a, char text[256])
{
	op_checker c = {text, false};
	OP_NEED(x, OP_FLOAT, -1, -1);
	OP_NEED(y, OP_FLOAT, op_dim(a->x, 0), a->w ? a->w->n : -1);
	op_expect_weight(&c, "w", a->w, op_dim(a->y, 1), op_dim(a->x, 1));
	OP_MAY(bias, OP_FLOAT, op_dim(a->y, 1));
	if (op_given(a->y) && !(OP_WIDE & OP_BIT((unsigned)a->y->dtype & 31u))) OP_SAME(y, x);
	/* An FP8 product quantises x by the reciprocal of input_scale. */
	OP_REQUIRE(a->w->scheme != NUM_SCHEME_FP8 || !a->w->data || (a->w->input_scale > 0 && isfinite(a->w->input_scale)),
	    "field w: input scale %g, expected more than 0", (double)a->w->input_scale);
	OP_REQUIRE(a->act == OP_ACT_NONE || a->act == OP_ACT_RELU2, "field act: %d is not in the list", (int)a->act);
	OP_REQUIRE(a->decode_rows >= 0 && a->decode_rows <= op_dim(a->x, 0), "field decode_rows: %d, expected 0 to %lld", a->decode_rows,
	    (long long)op_dim(a->x, 0));
	OP_FINISH(linear, false);
}

void op_describe_add(const op_add *a, op_desc *d)
{
	memset(d, 0, sizeof *d);
	OP_OUT(y);
	OP_IN(a);
	OP_IN(b);
	d->rows = (int64_t)op_rows(a->y);
}

void op_cost_add(const op_add *a, uint64_t context_tokens, op_cost *c)
{
	(void)context_tokens;
	*c = (op_cost){.activation_bytes = op_bytes(a->y) + op_bytes(a->a) + op_bytes(a->b), .flops = op_count(a->y)};
}

const char *op_check_add(const op_add *a, char text[256])
{
	op_checker c = {text, false};
	OP_NEED(a, OP_FLOAT, -1, -1);
	OP_NEED(b, OP_FLOAT, op_dim(a->a, 0), op_dim(a->a, 1));
	OP_NEED(y, OP_FLOAT, op_dim(a->a, 0), op_dim(a->a, 1));
	OP_SAME(b, a);
	OP_SAME(y, a);
	OP_FINISH(add, true);
}

void op_describe_gather_rows(const op_gather_rows *a, op_desc *d)
{
	memset(d, 0, sizeof *d);
	OP_OUT(y);
	OP_IN(x);
	OP_IN(rows);
	d->rows = (int64_t)op_rows(a->rows);
}

/* R rows read and written. */
void op_cost_gather_rows(const op_gather_rows *a, uint64_t context_tokens, op_cost *c)
{
	(void)context_tokens;
	*c = (op_cost){.activation_bytes = 2 * op_bytes(a->y) + op_bytes(a->rows)};
}

const char *op_check_gather_rows(const op_gather_rows *a, char text[256])
{
	op_checker c = {text, false};
	OP_NEED(x, OP_ANY, -1, -1);
	OP_NEED(rows, OP_BIT(NUM_I32), -1);
	OP_NEED(y, OP_ANY, op_dim(a->rows, 0), op_dim(a->x, 1));
	OP_SAME(y, x);
	OP_FINISH(gather_rows, false);
}
