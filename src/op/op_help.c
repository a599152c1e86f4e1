/* SPDX-License-Identifier: Apache-2.0
 * op_help.c: sizes, objections, and whether two views share an element. Reads no values.
 * The invariant that breaks first: `failed` is set with the first objection, and nothing overwrites its text.
 */
#include "op/op_help.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/base_mem.h"

void op_put(op_desc *d, const char *field, const tensor *t, bool in, bool out)
{
	if (d->operands < OP_DESC_MAX) d->operand[d->operands++] = (op_operand){field, op_given(t) ? t : NULL, in, out};
}

uint64_t op_rows(const tensor *t) { return op_dim(t, 0) > 0 ? (uint64_t)t->shape[0] : 0; }

uint64_t op_count(const tensor *t)
{
	if (!op_given(t)) return 0;
	uint64_t n = 1;
	for (int i = 0; i < t->rank && i < TENSOR_RANK; i++) n *= t->shape[i] > 0 ? (uint64_t)t->shape[i] : 0;
	return n;
}

uint64_t op_bytes(const tensor *t) { return op_given(t) ? tensor_bytes(t) : 0; }

uint64_t op_row_bytes(const tensor *t)
{
	uint64_t rows = op_rows(t);
	return rows ? op_bytes(t) / rows : 0;
}

void op_object(op_checker *c, const char *format, ...)
{
	if (c->failed) return;
	c->failed = true;
	va_list args;
	va_start(args, format);
	vsnprintf(c->text, 256, format, args);
	va_end(args);
}

/* "[3, 512]"; "*" for an extent that does not matter. */
static const char *shape_text(char out[96], int rank, const int64_t *shape)
{
	size_t n = (size_t)snprintf(out, 96, "[");
	for (int i = 0; i < rank && n < 80; i++) {
		const char *comma = i ? ", " : "";
		n += (size_t)(shape[i] == -1 ? snprintf(out + n, 96 - n, "%s*", comma)
		                             : snprintf(out + n, 96 - n, "%s%lld", comma, (long long)shape[i]));
	}
	if (n < 95) snprintf(out + n, 96 - n, "]");
	return out;
}

static void object_type(op_checker *c, const char *field, num_dtype type, unsigned types)
{
	char list[128];
	size_t n = 0;
	list[0] = 0;
	for (int i = 0; i < NUM_DTYPE_COUNT && n < sizeof list; i++)
		if (types & OP_BIT(i)) n += (size_t)snprintf(list + n, sizeof list - n, " %s", num_dtype_name((num_dtype)i));
	op_object(c, "field %s: type %s, expected%s", field, num_dtype_name(type), list);
}

/* What does not depend on the expected shape. */
static bool sound(op_checker *c, const char *field, const tensor *t, unsigned types)
{
	if (c->failed) return false;
	if (!op_given(t)) return op_object(c, "field %s: missing", field), false;
	if (t->rank < 1 || t->rank > TENSOR_RANK)
		return op_object(c, "field %s: rank %d, expected 1 to %d", field, t->rank, TENSOR_RANK), false;
	if ((unsigned)t->dtype >= NUM_DTYPE_COUNT || !(types & OP_BIT(t->dtype))) return object_type(c, field, t->dtype, types), false;
	return true;
}

static void inside(op_checker *c, const char *field, const tensor *t)
{
	int last = t->rank - 1;
	if (t->stride[last] != 1) return op_object(c, "field %s: last stride %lld, expected 1", field, (long long)t->stride[last]);
	if (!tensor_fits(t)) {
		char have[96];
		return op_object(c, "field %s: shape %s does not fit its room of %zu bytes", field, shape_text(have, t->rank, t->shape), t->room);
	}
	int64_t span = 1; /* elements from the first to the last of the inner dimensions; cannot overflow in a view that fits */
	for (int i = last; i >= 0; i--) {
		if (t->shape[i] <= 0) return;
		if (t->shape[i] > 1 && t->stride[i] < span)
			return op_object(
			    c, "field %s: stride %lld of dimension %d, expected at least %lld", field, (long long)t->stride[i], i, (long long)span);
		span += (t->shape[i] - 1) * t->stride[i];
	}
}

void op_expect(op_checker *c, const char *field, const tensor *t, unsigned types, int rank, const int64_t *shape)
{
	if (!sound(c, field, t, types)) return;
	bool same = t->rank == rank;
	for (int i = 0; same && i < rank; i++) same = shape[i] == -1 ? t->shape[i] >= 0 : t->shape[i] == shape[i];
	if (!same) {
		char have[96], want[96];
		return op_object(c, "field %s: shape %s, expected %s", field, shape_text(have, t->rank, t->shape), shape_text(want, rank, shape));
	}
	inside(c, field, t);
}

void op_expect_any_shape(op_checker *c, const char *field, const tensor *t, unsigned types)
{
	if (sound(c, field, t, types)) inside(c, field, t);
}

void op_same_type(op_checker *c, const char *field, const tensor *t, const char *as, const tensor *other)
{
	if (!c->failed && op_given(t) && op_given(other) && t->dtype != other->dtype)
		op_object(c, "field %s: type %s, expected %s as in %s", field, num_dtype_name(t->dtype), num_dtype_name(other->dtype), as);
}

void op_expect_weight(op_checker *c, const char *field, const weight *w, int64_t n, int64_t k)
{
	if (c->failed) return;
	if (!w) return op_object(c, "field %s: missing", field);
	if ((unsigned)w->scheme >= NUM_SCHEME_COUNT) return op_object(c, "field %s: scheme %d is not in the list", field, (int)w->scheme);
	unsigned types = w->scheme == NUM_SCHEME_NONE  ? OP_BIT(NUM_BF16) | OP_BIT(NUM_F32)
	                 : w->scheme == NUM_SCHEME_FP8 ? OP_BIT(NUM_E4M3)
	                                               : OP_BIT(NUM_E2M1X2);
	if ((unsigned)w->dtype >= NUM_DTYPE_COUNT || !(types & OP_BIT(w->dtype))) return object_type(c, field, w->dtype, types);
	if (w->n < 0 || w->k < 0 || w->n != n || w->k != k)
		return op_object(
		    c, "field %s: shape [%lld, %lld], expected [%lld, %lld]", field, (long long)w->n, (long long)w->k, (long long)n, (long long)k);
	int64_t multiple = wfmt_of(w->scheme)->k_multiple;
	if (k % multiple) return op_object(c, "field %s: width %lld, expected a multiple of %lld", field, (long long)k, (long long)multiple);
	if (w->data && types == OP_BIT(NUM_E2M1X2) && !w->block_scale) op_object(c, "field %s: block scales missing", field);
}

void op_expect_pages(op_checker *c, const kv_pages *pages, int64_t page_tokens, int64_t kv_heads, int64_t head_dim)
{
	if (c->failed) return;
	if (!pages) return op_object(c, "field pages: missing");
	const unsigned types = OP_FLOAT | OP_BIT(NUM_E4M3);
	op_expect(c, "pages.k", &pages->k, types, OP_SHAPE(-1, page_tokens, kv_heads, head_dim));
	op_expect(
	    c, "pages.v", &pages->v, types, OP_SHAPE(op_dim(&pages->k, 0), op_dim(&pages->k, 1), op_dim(&pages->k, 2), op_dim(&pages->k, 3)));
	op_same_type(c, "pages.v", &pages->v, "pages.k", &pages->k);
	if (c->failed || pages->k.dtype != NUM_E4M3) return;
	if (!(pages->k_scale > 0 && isfinite(pages->k_scale)))
		op_object(c, "field pages.k_scale: %g, expected more than 0", (double)pages->k_scale);
	if (!(pages->v_scale > 0 && isfinite(pages->v_scale)))
		op_object(c, "field pages.v_scale: %g, expected more than 0", (double)pages->v_scale);
}

/* Bytes from the first to past the last element of lines [from, rank); the views have passed `inside`. */
static size_t span_bytes(const tensor *t, int from)
{
	size_t span = 1;
	for (int i = from; i < t->rank; i++) span += (size_t)(t->shape[i] - 1) * (size_t)t->stride[i];
	return t->dtype == NUM_E2M1X2 ? (span + 1) / 2 : span * num_bytes(t->dtype);
}

/* Whether two views share a byte. Exact for disjoint ranges and for column views of one matrix, which interleave without touching;
 * other interleavings count as sharing. */
static bool share(const tensor *a, const tensor *b)
{
	if (!a->data || !b->data || op_count(a) == 0 || op_count(b) == 0) return false;
	if ((uintptr_t)b->data < (uintptr_t)a->data) {
		const tensor *swap = a;
		a = b;
		b = swap;
	}
	uintptr_t ahead = (uintptr_t)b->data - (uintptr_t)a->data;
	if (ahead >= span_bytes(a, 0)) return false;
	if (a->rank < 2 || b->rank < 2 || a->dtype == NUM_E2M1X2 || b->dtype == NUM_E2M1X2) return true;
	size_t line = (size_t)a->stride[0] * num_bytes(a->dtype);
	if (line == 0 || line != (size_t)b->stride[0] * num_bytes(b->dtype)) return true;
	size_t column = ahead % line;
	return column < span_bytes(a, 1) || column + span_bytes(b, 1) > line;
}

static bool same_view(const tensor *a, const tensor *b)
{
	if (a->data != b->data || a->dtype != b->dtype || a->rank != b->rank) return false;
	for (int i = 0; i < a->rank; i++)
		if (a->shape[i] != b->shape[i] || a->stride[i] != b->stride[i]) return false;
	return true;
}

const char *op_apart(op_checker *c, const op_desc *d, bool in_place)
{
	for (int i = 0; i < d->operands && !c->failed; i++) {
		const op_operand *out = &d->operand[i];
		if (!out->out || !out->t) continue;
		for (int j = 0; j < d->operands; j++) {
			const op_operand *other = &d->operand[j];
			if (j == i || !other->t || !share(out->t, other->t)) continue;
			if (in_place && !other->out && same_view(out->t, other->t)) continue;
			op_object(c, "field %s: overlaps %s", out->field, other->field);
		}
	}
	return c->failed ? c->text : NULL;
}
