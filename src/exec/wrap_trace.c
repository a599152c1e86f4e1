/* SPDX-License-Identifier: Apache-2.0
 * wrap_trace.c: a step as text, so that two runs can be compared with diff. A line:
 *   <op> layer=<n> <field>=<type>[shape] ... w=<scheme>[n, k] > <field>=<16 digits of XXH3> ...
 * Digests are of the output's elements line by line, without the gaps of a strided view; of a pool only the slots that the call wrote, in
 * order. No addresses and no times: they would differ between equal runs.
 */
#include <xxhash.h>

#include "base/base_mem.h"
#include "exec/wrap_core.h"

typedef struct trace {
	wrapper w;
	wrap_trace_fn fn;
	void *user; /* borrow */
	buf line;   /* own; reused */
	bool host_memory;
} trace;

static bool digest_line(void *user, void *line, size_t bytes, int64_t row)
{
	(void)row;
	uint64_t *h = user;
	*h = XXH3_64bits_withSeed(line, bytes, *h);
	return true;
}

/* Slots of a pool that the op writes, NULL where the output is written whole. kv_write gives slots of tokens, not of pages. */
static const tensor *written_slots(op_id op, const void *args)
{
	switch (op) {
	case OP_conv_step: return ((const op_conv_step *)args)->slot_out;
	case OP_conv_scan: return ((const op_conv_scan *)args)->seg_out;
	case OP_ssm_step: return ((const op_ssm_step *)args)->slot_out;
	case OP_ssm_scan: return ((const op_ssm_scan *)args)->seg_out;
	case OP_kv_write: return ((const op_kv_write *)args)->kv_slot;
	case OP_state_copy: return ((const op_state_copy *)args)->to;
	case OP_page_copy: return ((const op_page_copy *)args)->to;
	default: return NULL;
	}
}

static uint64_t digest(op_id op, const void *args, const op_operand *o)
{
	uint64_t h = 0;
	const tensor *slots = o->in ? written_slots(op, args) : NULL;
	if (!slots) {
		wrap_each_line(o->t, digest_line, &h);
		return h;
	}
	for (int64_t i = 0; i < slots->shape[0]; i++) {
		int64_t slot = wrap_index(slots, i), per = op == OP_kv_write ? o->t->shape[1] : 1;
		if (slot < 0 || per < 1 || slot / per >= o->t->shape[0]) continue;
		tensor one = tensor_rows(o->t, slot / per, 1);
		if (op == OP_kv_write) { /* [1, page_tokens, ...] -> the token's [...] */
			one.data = (char *)one.data + (size_t)(slot % per * one.stride[1]) * num_bytes(one.dtype);
			one.shape[1] = 1;
		}
		wrap_each_line(&one, digest_line, &h);
	}
	return h;
}

static void put_shape(buf *b, const tensor *t)
{
	buf_printf(b, "%s[", num_dtype_name(t->dtype));
	for (int i = 0; i < t->rank && i < TENSOR_RANK; i++) buf_printf(b, "%s%lld", i ? "," : "", (long long)t->shape[i]);
	buf_char(b, ']');
}

static void put_weight(buf *b, const char *field, const weight *w)
{
	buf_printf(b, " %s=%s[%lld,%lld]", field, num_scheme_name(w->scheme), (long long)w->n, (long long)w->k);
}

static void after(wrapper *w, op_id op, const void *args)
{
	trace *t = (trace *)w;
	buf *b = &t->line;
	op_desc d;
	op_describe(op, args, &d);
	b->len = 0;
	buf_printf(b, "%s layer=%d", op_name(op), w->x.layer);
	for (int i = 0; i < d.operands; i++) {
		if (!d.operand[i].t) continue;
		buf_printf(b, " %s=", d.operand[i].field);
		put_shape(b, d.operand[i].t);
	}
	if (d.w) put_weight(b, "w", d.w);
	if (d.experts && d.experts->E > 0 && d.experts->up && d.experts->down) {
		buf_printf(b, " experts=%d", d.experts->E);
		put_weight(b, "up", &d.experts->up[0]);
		put_weight(b, "down", &d.experts->down[0]);
	}
	if (w->x.status != NH_OK) {
		buf_printf(b, " > failed");
	} else if (t->host_memory) {
		buf_str(b, " >");
		for (int i = 0; i < d.operands; i++) {
			const op_operand *o = &d.operand[i];
			if (o->out && !tensor_absent(o->t)) buf_printf(b, " %s=%016llx", o->field, (unsigned long long)digest(op, args, o));
		}
	}
	if (b->failed) {
		exec_fail(&w->x, op, NH_ERR_NOMEM, "trace: out of memory");
		return;
	}
	t->fn(t->user, b->data);
}

static void deinit(wrapper *w) { buf_deinit(&((trace *)w)->line); }

exec *wrap_trace_create(exec *inner, bool host_memory, wrap_trace_fn fn, void *user)
{
	trace *t = wrap_new(inner, sizeof *t);
	if (!t) return NULL;
	t->fn = fn;
	t->user = user;
	t->host_memory = host_memory;
	t->w.after = after;
	t->w.deinit = deinit;
	return &t->w.x;
}
