/* SPDX-License-Identifier: Apache-2.0
 * wrap_check.c: the contract of every call, before it runs; poison left in its outputs, after. Poison is a signalling NaN (for indices a
 * number no index can be): arithmetic only makes quiet NaNs, so a computed NaN is not taken for a row that was forgotten.
 * The invariant that breaks first: nothing is poisoned that the op also reads.
 */
#include <assert.h>
#include <string.h>

#include "exec/wrap_core.h"

typedef struct check {
	wrapper w;
	bool host_memory;
} check;

/* The pattern of a type, NULL where it has none: FP8 and FP4 have too few codes to spare one. */
static const void *poison_of(num_dtype type)
{
	static const uint64_t f64 = 0x7FF4A5A5DEADBEEFu;
	static const uint32_t f32 = 0x7FA5DEADu, i32 = 0x80A5DEADu;
	static const uint16_t f16 = 0x7DA5u, bf16 = 0x7FA5u;
	switch (type) {
	case NUM_F64: return &f64;
	case NUM_F32: return &f32;
	case NUM_F16: return &f16;
	case NUM_BF16: return &bf16;
	case NUM_I32: return &i32;
	default: return NULL;
	}
}

/* Outputs that are written whole and nowhere read. */
static bool poisoned(const op_desc *d, int i)
{
	const op_operand *o = &d->operand[i];
	if (!o->out || o->in || tensor_absent(o->t) || !poison_of(o->t->dtype)) return false;
	for (int j = 0; j < d->operands; j++) /* in place: op_add */
		if (d->operand[j].in && d->operand[j].t && d->operand[j].t->data == o->t->data) return false;
	return true;
}

typedef struct stain {
	const void *pattern;
	size_t unit;
	int64_t row, column; /* where poison was found; -1: nowhere */
} stain;

static bool put_line(void *user, void *line, size_t bytes, int64_t row)
{
	(void)row;
	stain *s = user;
	for (size_t at = 0; at < bytes; at += s->unit) memcpy((char *)line + at, s->pattern, s->unit);
	return true;
}

static bool find_line(void *user, void *line, size_t bytes, int64_t row)
{
	stain *s = user;
	assert(s->unit > 0);
	for (size_t at = 0; at < bytes; at += s->unit) {
		if (memcmp((char *)line + at, s->pattern, s->unit) != 0) continue;
		s->row = row;
		s->column = (int64_t)(at / s->unit);
		return false;
	}
	return true;
}

static void before(wrapper *w, op_id op, const void *args)
{
	check *k = (check *)w;
	char text[256];
	const char *wrong = op_check(op, args, text);
	if (!wrong && k->host_memory) wrong = wrap_check_values(op, args, text);
	if (wrong) {
		exec_fail(&w->x, op, NH_ERR_INTERNAL, "contract: %s", wrong);
		return;
	}
	if (!k->host_memory) return;
	op_desc d;
	op_describe(op, args, &d);
	for (int i = 0; i < d.operands; i++) {
		if (!poisoned(&d, i)) continue;
		const tensor *t = d.operand[i].t;
		wrap_each_line(t, put_line, &(stain){.pattern = poison_of(t->dtype), .unit = num_bytes(t->dtype)});
	}
}

static void after(wrapper *w, op_id op, const void *args)
{
	check *k = (check *)w;
	if (!k->host_memory || w->x.status != NH_OK) return;
	op_desc d;
	op_describe(op, args, &d);
	for (int i = 0; i < d.operands && w->x.status == NH_OK; i++) {
		if (!poisoned(&d, i)) continue;
		const tensor *t = d.operand[i].t;
		stain s = {.pattern = poison_of(t->dtype), .unit = num_bytes(t->dtype), .row = -1};
		wrap_each_line(t, find_line, &s);
		if (s.row >= 0)
			exec_fail(&w->x, op, NH_ERR_INTERNAL, "contract: field %s: row %lld, column %lld was not written", d.operand[i].field,
			    (long long)s.row, (long long)s.column);
	}
}

exec *wrap_check_create(exec *inner, bool host_memory)
{
	check *k = wrap_new(inner, sizeof *k);
	if (!k) return NULL;
	k->host_memory = host_memory;
	k->w.before = before;
	k->w.after = after;
	return &k->w.x;
}
