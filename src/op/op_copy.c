/* SPDX-License-Identifier: Apache-2.0
 * op_copy.c: operands, costs and contracts of op_copy.h. A slot or page is one line of the pool's first dimension.
 */
#include <string.h>

#include "op/op_help.h"

void op_describe_state_copy(const op_state_copy *a, op_desc *d)
{
	memset(d, 0, sizeof *d);
	OP_INOUT(pool);
	OP_IN(from);
	OP_IN(to);
	d->rows = (int64_t)op_rows(a->to);
}

/* State: each pair reads a slot and writes one. */
void op_cost_state_copy(const op_state_copy *a, uint64_t context_tokens, op_cost *c)
{
	(void)context_tokens;
	*c = (op_cost){.state_bytes = 2 * op_rows(a->to) * op_row_bytes(a->pool), .activation_bytes = op_bytes(a->from) + op_bytes(a->to)};
}

const char *op_check_state_copy(const op_state_copy *a, char text[256])
{
	op_checker c = {text, false};
	op_expect_any_shape(&c, "pool", a->pool, OP_ANY);
	OP_NEED(from, OP_BIT(NUM_I32), -1);
	OP_NEED(to, OP_BIT(NUM_I32), op_dim(a->from, 0));
	OP_FINISH(state_copy, false);
}

void op_describe_page_copy(const op_page_copy *a, op_desc *d)
{
	memset(d, 0, sizeof *d);
	OP_INOUT(pool);
	OP_IN(from);
	OP_IN(to);
	d->rows = (int64_t)op_rows(a->to);
}

/* State: each pair reads a page and writes one. */
void op_cost_page_copy(const op_page_copy *a, uint64_t context_tokens, op_cost *c)
{
	(void)context_tokens;
	*c = (op_cost){.state_bytes = 2 * op_rows(a->to) * op_row_bytes(a->pool), .activation_bytes = op_bytes(a->from) + op_bytes(a->to)};
}

const char *op_check_page_copy(const op_page_copy *a, char text[256])
{
	op_checker c = {text, false};
	op_expect_any_shape(&c, "pool", a->pool, OP_ANY);
	OP_NEED(from, OP_BIT(NUM_I32), -1);
	OP_NEED(to, OP_BIT(NUM_I32), op_dim(a->from, 0));
	OP_FINISH(page_copy, false);
}

void op_describe_all_reduce(const op_all_reduce *a, op_desc *d)
{
	memset(d, 0, sizeof *d);
	OP_INOUT(y);
	d->rows = (int64_t)op_rows(a->y);
}

/* y read and written; what travels between ranks is the arm's business. */
void op_cost_all_reduce(const op_all_reduce *a, uint64_t context_tokens, op_cost *c)
{
	(void)context_tokens;
	*c = (op_cost){.activation_bytes = 2 * op_bytes(a->y)};
}

const char *op_check_all_reduce(const op_all_reduce *a, char text[256])
{
	op_checker c = {text, false};
	op_expect_any_shape(&c, "y", a->y, OP_FLOAT);
	OP_FINISH(all_reduce, false);
}
