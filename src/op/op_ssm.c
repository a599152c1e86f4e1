/* SPDX-License-Identifier: Apache-2.0
 * op_ssm.c: operands, costs and contracts of op_ssm.h. State bytes count a read and a write of a slot per decode row or prefill
 * segment, whether the input slot exists or not: that is a value.
 */
#include <math.h>
#include <string.h>

#include "op/op_help.h"

void op_describe_conv_step(const op_conv_step *a, op_desc *d)
{
	memset(d, 0, sizeof *d);
	OP_OUT(y);
	OP_IN(x);
	OP_INOUT(state);
	OP_IN(w);
	OP_IN(bias);
	OP_IN(slot_in);
	OP_IN(slot_out);
	d->rows = (int64_t)op_rows(a->x);
}

/* Flops: K products and sums a channel, and 4 for SiLU. */
void op_cost_conv_step(const op_conv_step *a, uint64_t context_tokens, op_cost *c)
{
	(void)context_tokens;
	*c = (op_cost){.weight_bytes = op_bytes(a->w) + op_bytes(a->bias),
	    .state_bytes = 2 * op_rows(a->x) * op_row_bytes(a->state),
	    .activation_bytes = op_bytes(a->y) + op_bytes(a->x) + op_bytes(a->slot_in) + op_bytes(a->slot_out),
	    .flops = 2 * op_rows(a->x) * op_count(a->w) + 4 * op_count(a->x)};
}

const char *op_check_conv_step(const op_conv_step *a, char text[256])
{
	op_checker c = {text, false};
	OP_NEED(w, OP_FLOAT, -1, -1);
	OP_REQUIRE(op_dim(a->w, 1) >= 1, "field w: no taps, expected 1 or more");
	OP_NEED(x, OP_FLOAT, -1, op_dim(a->w, 0));
	OP_NEED(y, OP_FLOAT, op_dim(a->x, 0), op_dim(a->w, 0));
	OP_SAME(y, x);
	OP_NEED(state, OP_FLOAT, -1, op_dim(a->w, 1) - 1, op_dim(a->w, 0));
	OP_MAY(bias, OP_FLOAT, op_dim(a->w, 0));
	OP_NEED(slot_in, OP_BIT(NUM_I32), op_dim(a->x, 0));
	OP_NEED(slot_out, OP_BIT(NUM_I32), op_dim(a->x, 0));
	OP_FINISH(conv_step, false);
}

void op_describe_conv_scan(const op_conv_scan *a, op_desc *d)
{
	memset(d, 0, sizeof *d);
	OP_OUT(y);
	OP_IN(x);
	OP_INOUT(state);
	OP_IN(w);
	OP_IN(bias);
	OP_IN(seg_row);
	OP_IN(seg_in);
	OP_IN(seg_out);
	d->rows = (int64_t)op_rows(a->x);
}

/* As conv_step, with the state once a segment. */
void op_cost_conv_scan(const op_conv_scan *a, uint64_t context_tokens, op_cost *c)
{
	(void)context_tokens;
	*c = (op_cost){.weight_bytes = op_bytes(a->w) + op_bytes(a->bias),
	    .state_bytes = 2 * op_rows(a->seg_out) * op_row_bytes(a->state),
	    .activation_bytes = op_bytes(a->y) + op_bytes(a->x) + op_bytes(a->seg_row) + op_bytes(a->seg_in) + op_bytes(a->seg_out),
	    .flops = 2 * op_rows(a->x) * op_count(a->w) + 4 * op_count(a->x)};
}

const char *op_check_conv_scan(const op_conv_scan *a, char text[256])
{
	op_checker c = {text, false};
	OP_NEED(w, OP_FLOAT, -1, -1);
	OP_REQUIRE(op_dim(a->w, 1) >= 1, "field w: no taps, expected 1 or more");
	OP_NEED(x, OP_FLOAT, -1, op_dim(a->w, 0));
	OP_NEED(y, OP_FLOAT, op_dim(a->x, 0), op_dim(a->w, 0));
	OP_SAME(y, x);
	OP_NEED(state, OP_FLOAT, -1, op_dim(a->w, 1) - 1, op_dim(a->w, 0));
	OP_MAY(bias, OP_FLOAT, op_dim(a->w, 0));
	OP_NEED(seg_in, OP_BIT(NUM_I32), -1);
	OP_NEED(seg_out, OP_BIT(NUM_I32), op_dim(a->seg_in, 0));
	OP_NEED(seg_row, OP_BIT(NUM_I32), op_dim(a->seg_in, 0) + 1);
	OP_FINISH(conv_scan, false);
}

void op_describe_ssm_step(const op_ssm_step *a, op_desc *d)
{
	memset(d, 0, sizeof *d);
	OP_OUT(y);
	OP_IN(x);
	OP_IN(b);
	OP_IN(c);
	OP_IN(dt);
	OP_IN(a);
	OP_IN(d);
	OP_IN(dt_bias);
	OP_INOUT(state);
	OP_IN(slot_in);
	OP_IN(slot_out);
	d->rows = (int64_t)op_rows(a->x);
}

/* State: one slot, [H, P, N], read and written a row. Flops: 6 a state element: decay, B dt x (2), sum, product with C, sum. */
void op_cost_ssm_step(const op_ssm_step *a, uint64_t context_tokens, op_cost *c)
{
	(void)context_tokens;
	uint64_t rows = op_rows(a->x), slots = op_rows(a->state);
	*c = (op_cost){.weight_bytes = op_bytes(a->a) + op_bytes(a->d) + op_bytes(a->dt_bias),
	    .state_bytes = 2 * rows * op_row_bytes(a->state),
	    .activation_bytes = op_bytes(a->y) + op_bytes(a->x) + op_bytes(a->b) + op_bytes(a->c) + op_bytes(a->dt) + op_bytes(a->slot_in) +
	                        op_bytes(a->slot_out),
	    .flops = slots ? 6 * rows * (op_count(a->state) / slots) : 0};
}

/* What step and scan share: dims from the state, then everything that follows from them. */
typedef struct ssm_common {
	const tensor *y, *x, *b, *c, *dt, *a, *d, *dt_bias, *state;
	int groups;
} ssm_common;

static void check_common(op_checker *checker, const ssm_common *a)
{
	op_checker c = *checker;
	OP_NEED(state, OP_FLOAT, -1, -1, -1, -1);
	int64_t H = op_dim(a->state, 1), P = op_dim(a->state, 2), N = op_dim(a->state, 3);
	OP_REQUIRE(a->groups > 0 && H > 0 && H % a->groups == 0, "field groups: %d, expected a divisor of %lld heads", a->groups, (long long)H);
	if (!c.failed) {
		OP_NEED(x, OP_FLOAT, -1, H * P);
		int64_t n = op_dim(a->x, 0);
		OP_NEED(y, OP_FLOAT, n, H * P);
		OP_NEED(b, OP_FLOAT, n, a->groups * N);
		OP_NEED(c, OP_FLOAT, n, a->groups * N);
		OP_NEED(dt, OP_FLOAT, n, H);
		OP_NEED(a, OP_WIDE, H);
		OP_NEED(d, OP_FLOAT, H);
		OP_NEED(dt_bias, OP_FLOAT, H);
		OP_SAME(y, x);
		OP_SAME(b, x);
		OP_SAME(c, x);
		OP_SAME(dt, x);
	}
	*checker = c;
}

const char *op_check_ssm_step(const op_ssm_step *a, char text[256])
{
	op_checker c = {text, false};
	check_common(&c, &(ssm_common){a->y, a->x, a->b, a->c, a->dt, a->a, a->d, a->dt_bias, a->state, a->groups});
	OP_NEED(slot_in, OP_BIT(NUM_I32), op_dim(a->x, 0));
	OP_NEED(slot_out, OP_BIT(NUM_I32), op_dim(a->x, 0));
	OP_FINISH(ssm_step, false);
}

void op_describe_ssm_scan(const op_ssm_scan *a, op_desc *d)
{
	memset(d, 0, sizeof *d);
	OP_OUT(y);
	OP_IN(x);
	OP_IN(b);
	OP_IN(c);
	OP_IN(dt);
	OP_IN(a);
	OP_IN(d);
	OP_IN(dt_bias);
	OP_INOUT(state);
	OP_IN(seg_row);
	OP_IN(seg_pos);
	OP_IN(seg_origin);
	OP_IN(seg_in);
	OP_IN(seg_out);
	d->rows = (int64_t)op_rows(a->x);
}

/* State: one slot read and written a segment. Flops of the chunked form, a row, with L = min(chunk, rows): C B^T over the causal half
 * of a chunk, L * G * N; that times x, L * H * P; C S and x Bs, 2 * H * P * N each. */
void op_cost_ssm_scan(const op_ssm_scan *a, uint64_t context_tokens, op_cost *c)
{
	(void)context_tokens;
	uint64_t rows = op_rows(a->x), slots = op_rows(a->state), L = a->chunk > 0 ? (uint64_t)a->chunk : 1;
	if (L > rows) L = rows;
	*c = (op_cost){.weight_bytes = op_bytes(a->a) + op_bytes(a->d) + op_bytes(a->dt_bias),
	    .state_bytes = 2 * op_rows(a->seg_out) * op_row_bytes(a->state),
	    .activation_bytes = op_bytes(a->y) + op_bytes(a->x) + op_bytes(a->b) + op_bytes(a->c) + op_bytes(a->dt) + op_bytes(a->seg_row) +
	                        op_bytes(a->seg_pos) + op_bytes(a->seg_origin) + op_bytes(a->seg_in) + op_bytes(a->seg_out),
	    .flops = L * (op_count(a->b) + op_count(a->x)) + (slots ? 4 * rows * (op_count(a->state) / slots) : 0)};
}

const char *op_check_ssm_scan(const op_ssm_scan *a, char text[256])
{
	op_checker c = {text, false};
	check_common(&c, &(ssm_common){a->y, a->x, a->b, a->c, a->dt, a->a, a->d, a->dt_bias, a->state, a->groups});
	OP_REQUIRE(a->chunk > 0, "field chunk: %d, expected more than 0", a->chunk);
	OP_NEED(seg_in, OP_BIT(NUM_I32), -1);
	int64_t S = op_dim(a->seg_in, 0);
	OP_NEED(seg_out, OP_BIT(NUM_I32), S);
	OP_NEED(seg_pos, OP_BIT(NUM_I32), S);
	OP_NEED(seg_origin, OP_BIT(NUM_I32), S);
	OP_NEED(seg_row, OP_BIT(NUM_I32), S + 1);
	OP_FINISH(ssm_scan, false);
}

void op_describe_gated_norm(const op_gated_norm *a, op_desc *d)
{
	memset(d, 0, sizeof *d);
	OP_OUT(y);
	OP_IN(x);
	OP_IN(gate);
	OP_IN(w);
	d->rows = (int64_t)op_rows(a->x);
}

/* Flops: 5 for the gate and its SiLU, 4 for the norm. */
void op_cost_gated_norm(const op_gated_norm *a, uint64_t context_tokens, op_cost *c)
{
	(void)context_tokens;
	*c = (op_cost){.weight_bytes = op_bytes(a->w),
	    .activation_bytes = op_bytes(a->y) + op_bytes(a->x) + op_bytes(a->gate),
	    .flops = 9 * op_count(a->x)};
}

const char *op_check_gated_norm(const op_gated_norm *a, char text[256])
{
	op_checker c = {text, false};
	OP_NEED(x, OP_FLOAT, -1, -1);
	int64_t T = op_dim(a->x, 0), I = op_dim(a->x, 1);
	OP_NEED(w, OP_FLOAT, I);
	OP_NEED(gate, OP_FLOAT, T, I);
	OP_NEED(y, OP_FLOAT, T, I);
	OP_SAME(gate, x);
	OP_SAME(y, x);
	OP_REQUIRE(a->groups > 0 && I % a->groups == 0, "field groups: %d, expected a divisor of width %lld", a->groups, (long long)I);
	OP_REQUIRE(a->eps >= 0 && isfinite(a->eps), "field eps: %g, expected 0 or more", a->eps);
	OP_FINISH(gated_norm, false);
}
