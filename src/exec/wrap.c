/* SPDX-License-Identifier: Apache-2.0
 * wrap.c: the one op table of all wrappers, and reading values for those that may. Knows no wrapper by name.
 */
#include <assert.h>
#include <string.h>

#include "base/base_mem.h"
#include "exec/wrap_core.h"

static bool enter(exec *x, op_id op, const void *args)
{
	wrapper *w = x->self;
	exec *inner = x->inner;
	inner->layer = x->layer;
	/* Scratch may be set on either end after wrapping; the outer end is the one that the step sees. */
	if (x->scratch) inner->scratch = x->scratch;
	x->scratch = inner->scratch;
	if (x->status == NH_OK && inner->status != NH_OK) x->status = exec_status(inner, &x->error);
	if (x->status == NH_OK && w->before) w->before(w, op, args);
	return x->status == NH_OK;
}

static void leave(exec *x, op_id op, const void *args)
{
	wrapper *w = x->self;
	x->counters = x->inner->counters;
	if (x->status == NH_OK) x->status = exec_status(x->inner, &x->error);
	if (w->after) w->after(w, op, args);
}

#define SHIM(name)                                       \
	static void shim_##name(exec *x, const op_##name *a) \
	{                                                    \
		if (!enter(x, OP_##name, a)) return;             \
		x->inner->ops->name(x->inner, a);                \
		leave(x, OP_##name, a);                          \
	}
OP_LIST(SHIM)
#undef SHIM

static const op_table SHIMS = {
#define ENTRY(name) .name = shim_##name,
    OP_LIST(ENTRY)
#undef ENTRY
};

void *wrap_new(exec *inner, size_t bytes)
{
	wrapper *w = mem_alloc(bytes);
	if (!w) return NULL;
	w->x = *inner; /* arm, profile, types, scratch, counters, status, backend: all as inner has them */
	w->x.ops = &SHIMS;
	w->x.inner = inner;
	w->x.self = w;
	return w;
}

void wrap_destroy(exec *x)
{
	if (!x) return;
	assert(x->ops == &SHIMS);
	wrapper *w = x->self;
	if (w->deinit) w->deinit(w);
	mem_free(w);
}

bool wrap_host_memory(const exec *inner) { return inner->backend && inner->backend->host_memory; }

int64_t wrap_index(const tensor *t, int64_t i)
{
	const char *at = tensor_row(t, i);
	int64_t wide;
	int32_t narrow;
	if (t->dtype == NUM_I64) return memcpy(&wide, at, sizeof wide), wide;
	return memcpy(&narrow, at, sizeof narrow), narrow;
}

uint64_t wrap_context(op_id op, const void *args)
{
	const tensor *pos = NULL;
	int window = 0;
	if (op == OP_attn_decode) pos = ((const op_attn_decode *)args)->pos, window = ((const op_attn_decode *)args)->window;
	if (op == OP_attn_prefill) pos = ((const op_attn_prefill *)args)->pos, window = ((const op_attn_prefill *)args)->window;
	if (!pos || tensor_absent(pos)) return 0;
	uint64_t sum = 0;
	for (int64_t i = 0; i < pos->shape[0]; i++) {
		int64_t keys = wrap_index(pos, i) + 1;
		if (window > 0 && keys > window) keys = window;
		if (keys > 0) sum += (uint64_t)keys;
	}
	return sum;
}

void wrap_each_line(const tensor *t, wrap_line_fn fn, void *user)
{
	int last = t->rank - 1;
	int64_t at[TENSOR_RANK] = {0}, lines = 1;
	for (int i = 0; i < last; i++) lines *= t->shape[i];
	size_t bytes = (size_t)t->shape[last] * num_bytes(t->dtype);
	if (t->dtype == NUM_E2M1X2) bytes = (size_t)(t->shape[last] + 1) / 2;
	for (int64_t row = 0; row < lines && bytes; row++) {
		int64_t skip = 0;
		for (int i = 0; i < last; i++) skip += at[i] * t->stride[i];
		size_t unit = t->dtype == NUM_E2M1X2 ? (size_t)skip / 2 : (size_t)skip * num_bytes(t->dtype);
		if (!fn(user, (char *)t->data + unit, bytes, row)) return;
		for (int i = last - 1; i >= 0 && ++at[i] == t->shape[i]; i--) at[i] = 0;
	}
}
