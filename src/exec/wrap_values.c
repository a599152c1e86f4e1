/* SPDX-License-Identifier: Apache-2.0
 * wrap_values.c: the part of each op's contract that lies in values: ids, slots, pages, segments, the grid rule. Host memory only, and only
 * after op_check, whose shapes are taken for granted here.
 * The invariant that breaks first: nothing is read through an index before that index has been checked.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "exec/wrap_core.h"

typedef struct values {
	char *text; /* 256 bytes */
	bool failed;
	const char *field;
	const tensor *t;
	int64_t lo, hi; /* inclusive */
} values;

static void object(values *v, const char *format, ...) BASE_PRINTF(2, 3);
static void object(values *v, const char *format, ...)
{
	if (v->failed) return;
	v->failed = true;
	va_list args;
	va_start(args, format);
	vsnprintf(v->text, 256, format, args);
	va_end(args);
}

static bool range_line(void *user, void *line, size_t bytes, int64_t row)
{
	values *v = user;
	tensor one = tensor_1d(line, v->t->dtype, (int64_t)(bytes / num_bytes(v->t->dtype)));
	for (int64_t i = 0; i < one.shape[0]; i++) {
		int64_t n = wrap_index(&one, i), at = v->t->rank == 1 ? i : row * one.shape[0] + i;
		if (n < v->lo || n > v->hi)
			object(v, "field %s: element %lld is %lld, expected %lld to %lld", v->field, (long long)at, (long long)n, (long long)v->lo,
			    (long long)v->hi);
	}
	return !v->failed;
}

static void range(values *v, const char *field, const tensor *t, int64_t lo, int64_t hi)
{
	if (v->failed || tensor_absent(t)) return;
	v->field = field;
	v->t = t;
	v->lo = lo;
	v->hi = hi;
	wrap_each_line(t, range_line, v);
}

/* No two entries that are at least 0 are equal. */
static void distinct(values *v, const char *field, const tensor *t)
{
	for (int64_t i = 1; i < t->shape[0] && !v->failed; i++)
		for (int64_t j = 0; j < i; j++)
			if (wrap_index(t, i) >= 0 && wrap_index(t, i) == wrap_index(t, j))
				object(v, "field %s: elements %lld and %lld are both %lld", field, (long long)j, (long long)i, (long long)wrap_index(t, i));
}

static void slots(values *v, const char *in_field, const tensor *in, const char *out_field, const tensor *out, const tensor *pool)
{
	range(v, in_field, in, -1, pool->shape[0] - 1);
	range(v, out_field, out, 0, pool->shape[0] - 1);
}

/* first[0] <= first[1] <= ...; rows [first[0], first[S]) are the `rows` rows of x. */
static void segments(values *v, const char *field, const tensor *first, int64_t rows)
{
	int64_t S = first->shape[0] - 1;
	for (int64_t i = 0; i < S && !v->failed; i++)
		if (wrap_index(first, i) < 0 || wrap_index(first, i + 1) < wrap_index(first, i))
			object(v, "field %s: element %lld is %lld after %lld, expected to ascend from 0", field, (long long)i + 1,
			    (long long)wrap_index(first, i + 1), (long long)wrap_index(first, i));
	if (!v->failed && wrap_index(first, S) - wrap_index(first, 0) != rows)
		object(v, "field %s: covers %lld rows, expected %lld", field, (long long)(wrap_index(first, S) - wrap_index(first, 0)),
		    (long long)rows);
}

/* The grid rule (architecture 6.1): a piece starts on the grid or where its segment began. */
static void grid(values *v, const op_ssm_scan *a)
{
	for (int64_t i = 0; i < a->seg_pos->shape[0] && !v->failed; i++) {
		int64_t pos = wrap_index(a->seg_pos, i), origin = wrap_index(a->seg_origin, i);
		if (pos < 0 || origin < 0 || origin > pos)
			object(v, "field seg_origin: segment %lld began at %lld, its piece at %lld", (long long)i, (long long)origin, (long long)pos);
		if (pos % a->chunk != 0 && pos != origin)
			object(v, "field seg_pos: segment %lld continues at %lld, expected a multiple of chunk %d or its origin %lld", (long long)i,
			    (long long)pos, a->chunk, (long long)origin);
	}
}

static void attention(values *v, const op_attn_prefill *a)
{
	int64_t pages = a->pages->k.shape[0], lines = a->page_table->shape[0], width = a->page_table->shape[1];
	range(v, "pos", a->pos, 0, INT32_MAX);
	range(v, "row_seq", a->row_seq, 0, lines - 1);
	range(v, "page_table", a->page_table, -1, pages - 1);
	for (int64_t t = 0; t < a->pos->shape[0] && !v->failed; t++) {
		int64_t pos = wrap_index(a->pos, t), seq = wrap_index(a->row_seq, t);
		int64_t from = a->window > 0 && pos >= a->window ? (pos - a->window + 1) / a->page_tokens : 0, to = pos / a->page_tokens;
		if (to >= width) {
			object(v, "field pos: row %lld is at %lld, but page_table has %lld pages of %d", (long long)t, (long long)pos, (long long)width,
			    a->page_tokens);
			return;
		}
		tensor line = tensor_rows(a->page_table, seq, 1);
		tensor entries = tensor_1d(line.data, line.dtype, width);
		for (int64_t p = from; p <= to && !v->failed; p++)
			if (wrap_index(&entries, p) < 0)
				object(v, "field page_table: sequence %lld has no page %lld, row %lld at %lld needs it", (long long)seq, (long long)p,
				    (long long)t, (long long)pos);
	}
}

/* Pairs do not chain: what one writes none reads and none writes again. */
static void pairs(values *v, const tensor *from, const tensor *to, const tensor *pool)
{
	slots(v, "from", from, "to", to, pool);
	if (!v->failed) distinct(v, "to", to);
	for (int64_t i = 0; i < to->shape[0] && !v->failed; i++)
		for (int64_t j = 0; j < from->shape[0]; j++)
			if (j != i && wrap_index(to, i) == wrap_index(from, j))
				object(v, "field from: pair %lld reads %lld, which pair %lld writes", (long long)j, (long long)wrap_index(from, j),
				    (long long)i);
}

static void parameters(values *v, const op_sample_rows *a)
{
	for (int64_t i = 0; i < a->ids->shape[0] && !v->failed; i++) {
		const op_sample_row *r = &a->rows[i];
		if (!(r->temperature >= 0 && isfinite(r->temperature)))
			object(v, "field rows: row %lld: temperature %g", (long long)i, r->temperature);
		if (!(r->top_p > 0 && r->top_p <= 1)) object(v, "field rows: row %lld: top_p %g", (long long)i, r->top_p);
		if (!(r->min_p >= 0 && r->min_p <= 1)) object(v, "field rows: row %lld: min_p %g", (long long)i, r->min_p);
		if (r->top_k < 0) object(v, "field rows: row %lld: top_k %d", (long long)i, (int)r->top_k);
	}
}

static void edits(values *v, const op_logit_edit *a)
{
	int64_t R = a->logits->shape[0], V = a->logits->shape[1];
	for (int64_t r = 0; a->repetition && r < R; r++)
		if (!(a->repetition[r] > 0))
			object(v, "field repetition: row %lld: %g, expected more than 0", (long long)r, (double)a->repetition[r]);
	for (int i = 0; i < a->biases && !v->failed; i++) {
		const op_logit_bias *b = &a->bias[i];
		if (b->row < 0 || b->row >= R || b->id < 0 || b->id >= V || isnan(b->add))
			object(v, "field bias: entry %d is row %d, id %d, %g: %lld rows of %lld ids", i, (int)b->row, (int)b->id, (double)b->add,
			    (long long)R, (long long)V);
	}
	range(v, "counts", a->counts, 0, INT32_MAX);
}

static void present(values *v, const op_desc *d)
{
	for (int i = 0; i < d->operands && !v->failed; i++) {
		const op_operand *o = &d->operand[i];
		if (o->t && !o->t->data && tensor_count(o->t) > 0) object(v, "field %s: no memory", o->field);
	}
	if (d->w && !d->w->data && !d->w->bound) object(v, "field w: %s has no data", d->w->name ? d->w->name : "the matrix");
	for (int i = 0; d->experts && i < d->experts->E && !v->failed; i++)
		if ((!d->experts->up[i].data && !d->experts->up[i].bound) || (!d->experts->down[i].data && !d->experts->down[i].bound))
			object(v, "field experts: expert %d has no data", i);
}

const char *wrap_check_values(op_id op, const void *args, char text[256])
{
	values v = {.text = text};
	op_desc d;
	op_describe(op, args, &d);
	present(&v, &d);
	if (v.failed) return text;
	union {
		const void *any;
		const op_embed_rows *embed_rows;
		const op_gather_rows *gather_rows;
		const op_conv_step *conv_step;
		const op_conv_scan *conv_scan;
		const op_ssm_step *ssm_step;
		const op_ssm_scan *ssm_scan;
		const op_kv_write *kv_write;
		const op_attn_decode *attn_decode;
		const op_expert_ffn *expert_ffn;
		const op_logprobs *logprobs;
		const op_pool_rows *pool_rows;
		const op_state_copy *state_copy;
		const op_page_copy *page_copy;
	} a = {args};
	switch (op) {
	case OP_embed_rows: range(&v, "ids", a.embed_rows->ids, 0, a.embed_rows->table->shape[0] - 1); break;
	case OP_gather_rows: range(&v, "rows", a.gather_rows->rows, 0, a.gather_rows->x->shape[0] - 1); break;
	case OP_conv_step: slots(&v, "slot_in", a.conv_step->slot_in, "slot_out", a.conv_step->slot_out, a.conv_step->state); break;
	case OP_ssm_step: slots(&v, "slot_in", a.ssm_step->slot_in, "slot_out", a.ssm_step->slot_out, a.ssm_step->state); break;
	case OP_conv_scan:
		slots(&v, "seg_in", a.conv_scan->seg_in, "seg_out", a.conv_scan->seg_out, a.conv_scan->state);
		distinct(&v, "seg_out", a.conv_scan->seg_out);
		segments(&v, "seg_row", a.conv_scan->seg_row, a.conv_scan->x->shape[0]);
		break;
	case OP_ssm_scan:
		slots(&v, "seg_in", a.ssm_scan->seg_in, "seg_out", a.ssm_scan->seg_out, a.ssm_scan->state);
		distinct(&v, "seg_out", a.ssm_scan->seg_out);
		segments(&v, "seg_row", a.ssm_scan->seg_row, a.ssm_scan->x->shape[0]);
		grid(&v, a.ssm_scan);
		break;
	case OP_kv_write:
		range(&v, "kv_slot", a.kv_write->kv_slot, -1, a.kv_write->pages->k.shape[0] * a.kv_write->pages->k.shape[1] - 1);
		break;
	case OP_attn_decode: {
		const op_attn_decode *t = a.attn_decode;
		attention(&v, &(op_attn_prefill){.pages = t->pages,
		                  .pos = t->pos,
		                  .row_seq = t->row_seq,
		                  .page_table = t->page_table,
		                  .page_tokens = t->page_tokens,
		                  .window = t->window});
		break;
	}
	case OP_attn_prefill: attention(&v, args); break;
	case OP_expert_ffn: range(&v, "idx", a.expert_ffn->idx, 0, a.expert_ffn->experts->E - 1); break;
	case OP_logit_edit: edits(&v, args); break;
	case OP_sample_rows: parameters(&v, args); break;
	case OP_logprobs: range(&v, "ids", a.logprobs->ids, -1, a.logprobs->logits->shape[1] - 1); break;
	case OP_pool_rows:
		range(&v, "start", a.pool_rows->start, 0, a.pool_rows->x->shape[0]);
		if (!v.failed)
			segments(&v, "start", a.pool_rows->start,
			    wrap_index(a.pool_rows->start, a.pool_rows->start->shape[0] - 1) - wrap_index(a.pool_rows->start, 0));
		break;
	case OP_state_copy: pairs(&v, a.state_copy->from, a.state_copy->to, a.state_copy->pool); break;
	case OP_page_copy: pairs(&v, a.page_copy->from, a.page_copy->to, a.page_copy->pool); break;
	default: break;
	}
	return v.failed ? text : NULL;
}
