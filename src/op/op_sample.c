/* SPDX-License-Identifier: Apache-2.0
 * op_sample.c: operands, costs and contracts of op_sample.h. The plain arrays of parameters are no tensors: their extent is R by promise.
 */
#include <string.h>

#include "op/op_help.h"

void op_describe_logit_edit(const op_logit_edit *a, op_desc *d)
{
	memset(d, 0, sizeof *d);
	OP_INOUT(logits);
	OP_IN(counts);
	OP_IN(seen);
	OP_IN(mask);
	d->rows = (int64_t)op_rows(a->logits);
}

/* Logits read and written, the tables read. Flops: one a logit and penalty in use, one a bias. */
void op_cost_logit_edit(const op_logit_edit *a, uint64_t context_tokens, op_cost *c)
{
	(void)context_tokens;
	uint64_t penalties = (a->repetition != NULL) + (a->presence != NULL) + (uint64_t)(a->frequency != NULL);
	uint64_t biases = a->biases > 0 ? (uint64_t)a->biases : 0;
	*c = (op_cost){.activation_bytes = 2 * op_bytes(a->logits) + op_bytes(a->counts) + op_bytes(a->seen) + op_bytes(a->mask) +
	                                   biases * sizeof(op_logit_bias) + penalties * op_rows(a->logits) * sizeof(float),
	    .flops = penalties * op_count(a->logits) + biases};
}

const char *op_check_logit_edit(const op_logit_edit *a, char text[256])
{
	op_checker c = {text, false};
	OP_NEED(logits, OP_WIDE, -1, -1);
	int64_t R = op_dim(a->logits, 0), V = op_dim(a->logits, 1);
	OP_MAY(counts, OP_BIT(NUM_I32), R, V);
	OP_MAY(seen, OP_BIT(NUM_U8), R, V);
	OP_MAY(mask, OP_BIT(NUM_I32), R, V / 32 + (V % 32 != 0));
	OP_REQUIRE(!a->repetition || op_given(a->seen), "field seen: missing, repetition needs it");
	OP_REQUIRE(!a->presence || op_given(a->counts), "field counts: missing, presence needs it");
	OP_REQUIRE(!a->frequency || op_given(a->counts), "field counts: missing, frequency needs it");
	OP_REQUIRE(a->biases >= 0, "field biases: %d, expected 0 or more", a->biases);
	OP_REQUIRE(a->bias || a->biases == 0, "field bias: missing, %d promised", a->biases);
	OP_FINISH(logit_edit, false);
}

void op_describe_sample_rows(const op_sample_rows *a, op_desc *d)
{
	memset(d, 0, sizeof *d);
	OP_OUT(ids);
	OP_IN(logits);
	d->rows = (int64_t)op_rows(a->ids);
}

/* Logits read once. Flops: scale, exponential, sum a logit; greedy needs less. */
void op_cost_sample_rows(const op_sample_rows *a, uint64_t context_tokens, op_cost *c)
{
	(void)context_tokens;
	*c = (op_cost){.activation_bytes = op_bytes(a->ids) + op_bytes(a->logits) + op_rows(a->ids) * sizeof(op_sample_row),
	    .flops = 3 * op_count(a->logits)};
}

const char *op_check_sample_rows(const op_sample_rows *a, char text[256])
{
	op_checker c = {text, false};
	OP_NEED(logits, OP_FLOAT, -1, -1);
	OP_NEED(ids, OP_BIT(NUM_I32), op_dim(a->logits, 0));
	OP_REQUIRE(a->rows || op_dim(a->logits, 0) == 0, "field rows: missing");
	OP_FINISH(sample_rows, false);
}

void op_describe_logprobs(const op_logprobs *a, op_desc *d)
{
	memset(d, 0, sizeof *d);
	OP_IN(logits);
	OP_IN(ids);
	OP_OUT(lp);
	OP_OUT(rank);
	OP_OUT(top_ids);
	OP_OUT(top_lp);
	d->rows = (int64_t)op_rows(a->logits);
}

/* Logits read once. Flops: difference, exponential, sum a logit. */
void op_cost_logprobs(const op_logprobs *a, uint64_t context_tokens, op_cost *c)
{
	(void)context_tokens;
	*c = (op_cost){.activation_bytes = op_bytes(a->logits) + op_bytes(a->ids) + op_bytes(a->lp) + op_bytes(a->rank) + op_bytes(a->top_ids) +
	                                   op_bytes(a->top_lp),
	    .flops = 3 * op_count(a->logits)};
}

const char *op_check_logprobs(const op_logprobs *a, char text[256])
{
	op_checker c = {text, false};
	OP_NEED(logits, OP_FLOAT, -1, -1);
	int64_t R = op_dim(a->logits, 0);
	if (op_given(a->ids)) {
		OP_NEED(ids, OP_BIT(NUM_I32), R, -1);
		OP_NEED(lp, OP_BIT(NUM_F64), R, op_dim(a->ids, 1));
		OP_NEED(rank, OP_BIT(NUM_I32), R, op_dim(a->ids, 1));
	} else {
		OP_REQUIRE(!op_given(a->lp) && !op_given(a->rank), "field ids: missing, lp and rank need it");
	}
	if (op_given(a->top_ids)) {
		OP_NEED(top_ids, OP_BIT(NUM_I32), R, -1);
		OP_NEED(top_lp, OP_BIT(NUM_F64), R, op_dim(a->top_ids, 1));
		OP_REQUIRE(op_dim(a->top_ids, 1) <= op_dim(a->logits, 1), "field top_ids: width %lld, expected at most %lld",
		    (long long)op_dim(a->top_ids, 1), (long long)op_dim(a->logits, 1));
	} else {
		OP_REQUIRE(!op_given(a->top_lp), "field top_ids: missing, top_lp needs it");
	}
	OP_FINISH(logprobs, false);
}

void op_describe_pool_rows(const op_pool_rows *a, op_desc *d)
{
	memset(d, 0, sizeof *d);
	OP_OUT(y);
	OP_IN(x);
	OP_IN(start);
	d->rows = (int64_t)op_rows(a->y);
}

/* Rows read: all of them for a mean, one a sequence otherwise. Flops: a sum an element read; three an output when normalised. */
void op_cost_pool_rows(const op_pool_rows *a, uint64_t context_tokens, op_cost *c)
{
	(void)context_tokens;
	bool mean = a->how == OP_POOL_MEAN;
	*c = (op_cost){.activation_bytes = op_bytes(a->y) + op_bytes(a->start) + (mean ? op_bytes(a->x) : op_rows(a->y) * op_row_bytes(a->x)),
	    .flops = (mean ? op_count(a->x) : 0) + (a->normalise ? 3 * op_count(a->y) : 0)};
}

const char *op_check_pool_rows(const op_pool_rows *a, char text[256])
{
	op_checker c = {text, false};
	OP_NEED(x, OP_FLOAT, -1, -1);
	OP_NEED(start, OP_BIT(NUM_I32), -1);
	OP_REQUIRE(op_dim(a->start, 0) >= 1, "field start: empty, expected one entry more than sequences");
	OP_NEED(y, OP_WIDE, op_dim(a->start, 0) - 1, op_dim(a->x, 1));
	OP_REQUIRE(a->how == OP_POOL_LAST || a->how == OP_POOL_MEAN, "field how: %d is not in the list", (int)a->how);
	OP_FINISH(pool_rows, false);
}
