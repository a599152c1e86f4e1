/* SPDX-License-Identifier: Apache-2.0
 * s_forward.c: the model's part of a step, and what a traced request sees of it. Traced requests run in steps of their own, so the rows of a
 * traced tensor are all theirs.
 */
#include <string.h>

#include "base/base_mem.h"
#include "engine/engine_impl.h"
#include "num/num_conv.h"

/* Rows of a traced tensor as doubles; memory for them grows once. */
void step_trace_tap(void *user, const char *name, const tensor *t)
{
	engine *g = user;
	const step_item *item = &g->step.item[0];
	engine_request *r = item->q->r;
	if (g->parts->x->status != NH_OK || tensor_absent(t) || t->rank < 1 || t->shape[0] < 1) return;
	size_t rows = (size_t)t->shape[0], count = (size_t)tensor_count(t), columns = count / rows, unit = num_bytes(t->dtype);
	if (count > r->trace_room) {
		double *grown = mem_resize(r->trace_row, count + columns, sizeof *grown); /* and one row as the arm has it */
		if (!grown) {
			exec_fail(g->parts->x, OP_COUNT, NH_ERR_NOMEM, "trace of %s: %zu values", name, count);
			return;
		}
		r->trace_row = grown;
		r->trace_room = count;
	}
	for (size_t i = 0; i < rows; i++) {
		const void *from = tensor_row(t, (int64_t)i);
		if (!g->parts->arm->host_memory) {
			void *to = r->trace_row + count;
			if (g->parts->arm->download(g->parts->base, to, from, columns * unit, NULL) != NH_OK) return;
			from = to;
		}
		for (size_t c = 0; t->dtype == NUM_I32 && c < columns; c++) {
			int32_t id;
			memcpy(&id, (const char *)from + c * sizeof id, sizeof id);
			r->trace_row[i * columns + c] = id;
		}
		if (t->dtype != NUM_I32) num_load_row(t->dtype, from, 0, columns, r->trace_row + i * columns);
	}
	r->spec.trace(r->spec.trace_user, r->step, name, item->pos, rows, columns, r->trace_row);
}

nh_status step_forward(engine *g, nh_error *e)
{
	step *s = &g->step;
	exec *x = g->parts->x;
	const model_tap tap = {.fn = s->item[0].q->r->spec.trace ? step_trace_tap : NULL, .user = g, .hidden = &s->hidden};
	arena_reset(&g->scratch);
	g->parts->m->family->forward(g->parts->m, x, &s->batch, &g->state, &tap, &s->logits);
	fork_ops(x, s, &g->states, &g->pages);
	return exec_status(x, e);
}

void fork_ops(exec *x, step *s, const states *slots, const pages *kv)
{
	for (int i = 0; i < slots->layers && s->forks; i++) {
		OP(x, state_copy, .pool = &slots->layer[i].conv, .from = &s->fork_from, .to = &s->fork_to);
		OP(x, state_copy, .pool = &slots->layer[i].ssm, .from = &s->fork_from, .to = &s->fork_to);
	}
	for (int i = 0; i < kv->layers && s->page_forks; i++) {
		OP(x, page_copy, .pool = &kv->layer[i].k, .from = &s->page_from, .to = &s->page_to);
		OP(x, page_copy, .pool = &kv->layer[i].v, .from = &s->page_from, .to = &s->page_to);
	}
}
