/* SPDX-License-Identifier: Apache-2.0
 * op_attn.c: operands, costs and contracts of op_attn.h. The two attention ops have one contract in two types: shared here as the
 * prefill struct.
 */
#include <math.h>
#include <string.h>

#include "op/op_help.h"

static void put_pages(op_desc *d, const kv_pages *pages, bool out)
{
	op_put(d, "pages.k", pages ? &pages->k : NULL, true, out);
	op_put(d, "pages.v", pages ? &pages->v : NULL, true, out);
}

void op_describe_kv_write(const op_kv_write *a, op_desc *d)
{
	memset(d, 0, sizeof *d);
	put_pages(d, a->pages, true);
	OP_IN(k);
	OP_IN(v);
	OP_IN(kv_slot);
	d->rows = (int64_t)op_rows(a->k);
}

/* State: a key and a value written a row, in the pages' type. */
void op_cost_kv_write(const op_kv_write *a, uint64_t context_tokens, op_cost *c)
{
	(void)context_tokens;
	*c = (op_cost){.activation_bytes = op_bytes(a->k) + op_bytes(a->v) + op_bytes(a->kv_slot)};
	if (a->pages) c->state_bytes = op_count(a->k) * num_bytes(a->pages->k.dtype) + op_count(a->v) * num_bytes(a->pages->v.dtype);
}

const char *op_check_kv_write(const op_kv_write *a, char text[256])
{
	op_checker c = {text, false};
	op_expect_pages(&c, a->pages, -1, -1, -1);
	if (c.failed) return text;
	int64_t width = op_dim(&a->pages->k, 2) * op_dim(&a->pages->k, 3);
	OP_NEED(k, OP_FLOAT, -1, width);
	OP_NEED(v, OP_FLOAT, op_dim(a->k, 0), width);
	OP_NEED(kv_slot, OP_BIT(NUM_I64), op_dim(a->k, 0));
	OP_SAME(v, k);
	OP_FINISH(kv_write, false);
}

void op_describe_attn_prefill(const op_attn_prefill *a, op_desc *d)
{
	memset(d, 0, sizeof *d);
	OP_OUT(y);
	OP_IN(q);
	put_pages(d, a->pages, false);
	OP_IN(pos);
	OP_IN(row_seq);
	OP_IN(page_table);
	d->rows = (int64_t)op_rows(a->q);
}

/* context_tokens: keys seen, added up over the rows. State: K and V of each once a row that sees it (an arm that shares a tile among
 * rows reads less). Flops: a product with K and one with V a key and query head: 4 * context * H * hd. */
void op_cost_attn_prefill(const op_attn_prefill *a, uint64_t context_tokens, op_cost *c)
{
	uint64_t width = op_dim(a->q, 1) > 0 ? (uint64_t)op_dim(a->q, 1) : 0;
	*c = (op_cost){.activation_bytes = op_bytes(a->y) + op_bytes(a->q) + op_bytes(a->pos) + op_bytes(a->row_seq) + op_bytes(a->page_table),
	    .flops = 4 * context_tokens * width};
	if (a->pages && a->kv_heads > 0 && a->head_dim > 0)
		c->state_bytes =
		    context_tokens * (uint64_t)a->kv_heads * (uint64_t)a->head_dim * (num_bytes(a->pages->k.dtype) + num_bytes(a->pages->v.dtype));
}

const char *op_check_attn_prefill(const op_attn_prefill *a, char text[256])
{
	op_checker c = {text, false};
	OP_REQUIRE(a->kv_heads > 0, "field kv_heads: %d, expected more than 0", a->kv_heads);
	OP_REQUIRE(a->head_dim > 0, "field head_dim: %d, expected more than 0", a->head_dim);
	OP_REQUIRE(a->page_tokens > 0, "field page_tokens: %d, expected more than 0", a->page_tokens);
	OP_REQUIRE(a->window >= 0, "field window: %d, expected 0 or more", a->window);
	OP_REQUIRE(isfinite(a->scale) && a->scale > 0, "field scale: %g, expected more than 0", a->scale);
	OP_NEED(q, OP_FLOAT, -1, -1);
	OP_REQUIRE(op_dim(a->q, 1) > 0 && op_dim(a->q, 1) % ((int64_t)a->kv_heads * a->head_dim) == 0,
	    "field q: width %lld, expected a multiple of %d heads of %d", (long long)op_dim(a->q, 1), a->kv_heads, a->head_dim);
	int64_t n = op_dim(a->q, 0);
	OP_NEED(y, OP_FLOAT, n, op_dim(a->q, 1));
	OP_SAME(y, q);
	op_expect_pages(&c, a->pages, a->page_tokens, a->kv_heads, a->head_dim);
	OP_NEED(pos, OP_BIT(NUM_I32), n);
	OP_NEED(row_seq, OP_BIT(NUM_I32), n);
	OP_NEED(page_table, OP_BIT(NUM_I32), -1, -1);
	OP_FINISH(attn_prefill, false);
}

static op_attn_prefill as_prefill(const op_attn_decode *a)
{
	return (op_attn_prefill){.y = a->y,
	    .q = a->q,
	    .pages = a->pages,
	    .pos = a->pos,
	    .row_seq = a->row_seq,
	    .page_table = a->page_table,
	    .page_tokens = a->page_tokens,
	    .kv_heads = a->kv_heads,
	    .head_dim = a->head_dim,
	    .window = a->window,
	    .scale = a->scale};
}

void op_describe_attn_decode(const op_attn_decode *a, op_desc *d)
{
	op_attn_prefill p = as_prefill(a);
	op_describe_attn_prefill(&p, d);
}

void op_cost_attn_decode(const op_attn_decode *a, uint64_t context_tokens, op_cost *c)
{
	op_attn_prefill p = as_prefill(a);
	op_cost_attn_prefill(&p, context_tokens, c);
}

const char *op_check_attn_decode(const op_attn_decode *a, char text[256])
{
	op_attn_prefill p = as_prefill(a);
	return op_check_attn_prefill(&p, text);
}
