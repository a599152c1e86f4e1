/* SPDX-License-Identifier: Apache-2.0
 * null_backend.c: see null_backend.h. The invariant that breaks first: an op touches nothing but the ids that sample_rows must give.
 */
#include "backend/null/null_backend.h"

#include <string.h>

#include "base/base_mem.h"

#define FIRST_ID 32 /* past the control tokens of every published vocabulary */

#define NOTHING(name)                                       \
	static void nothing_##name(exec *x, const op_##name *a) \
	{                                                       \
		(void)a;                                            \
		x->counters.op[OP_##name].calls++;                  \
	}
OP_LIST(NOTHING)
#undef NOTHING

static void draw(exec *x, const op_sample_rows *a)
{
	int64_t vocab = a->logits->shape[1], span = vocab > FIRST_ID ? vocab - FIRST_ID : 1;
	int32_t *ids = a->ids->data;
	nothing_sample_rows(x, a);
	for (int64_t r = 0; r < a->ids->shape[0]; r++)
		ids[r * a->ids->stride[0]] = (int32_t)((vocab > FIRST_ID ? FIRST_ID : 0) + a->rows[r].position % span);
}

static const op_table *table(op_table *t)
{
#define SLOT(name) t->name = nothing_##name;
	OP_LIST(SLOT)
#undef SLOT
	t->sample_rows = draw;
	return t;
}

static nh_status null_open(exec **out, const backend_options *options, nh_error *e)
{
	exec *x = mem_alloc(sizeof *x);
	op_table *t = mem_alloc(sizeof *t);
	*out = NULL;
	if (!x || !t) {
		mem_free(x);
		mem_free(t);
		return ERR_NOMEM(e);
	}
	x->ops = table(t);
	x->self = t;
	x->arm = "null";
	x->num = options->num ? options->num : num_profile("portable");
	x->types = exec_types_of(x->num, NUM_F32);
	x->layer = -1;
	x->backend = &null_backend;
	*out = x;
	return NH_OK;
}

static void null_close(exec *x)
{
	if (!x) return;
	mem_free(x->self);
	mem_free(x);
}

static nh_status null_import(exec *x, weight *w, nh_error *e)
{
	(void)x, (void)w, (void)e;
	return NH_OK;
}

static void null_release(exec *x, weight *w) { (void)x, (void)w; }

static void *null_alloc(exec *x, size_t bytes)
{
	(void)x;
	return mem_alloc(bytes);
}

static void null_free(exec *x, void *p)
{
	(void)x;
	mem_free(p);
}

static nh_status null_copy(exec *x, void *to, const void *from, size_t bytes, nh_error *e)
{
	(void)x, (void)e;
	memcpy(to, from, bytes);
	return NH_OK;
}

const backend null_backend = {"null", "portable", true, null_open, null_close, null_import, null_release, null_alloc, null_free, null_copy,
    null_copy, .tier_at = NULL};
