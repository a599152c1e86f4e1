/* SPDX-License-Identifier: Apache-2.0
 * s_pick.c: from logits to a token and its log-probabilities. The drawing itself is an op; here is what goes into it and comes out.
 * Refuses to know what a token means. The invariant that breaks first: edits touch a copy, log-probabilities are those of the model's own
 * logits.
 */
#include <math.h>
#include <string.h>

#include "base/base_mem.h"
#include "engine/engine_impl.h"
#include "num/num_conv.h"

static void logprobs(exec *x, step_logprobs *l, const tensor *logits)
{
	if (l->n == 0) return;
	l->lp = exec_scratch(x, NUM_F64, l->n, l->M);
	l->rank = exec_scratch(x, NUM_I32, l->n, l->M);
	l->top_ids = exec_scratch(x, NUM_I32, l->n, l->K);
	l->top_lp = exec_scratch(x, NUM_F64, l->n, l->K);
	OP(x, logprobs, .logits = logits, .ids = &l->ids, .lp = &l->lp, .rank = &l->rank, .top_ids = &l->top_ids, .top_lp = &l->top_lp);
}

tensor pick_reserve_edited(exec *x, const step *s, int64_t vocab)
{
	return s->edits ? exec_scratch(x, x->types.wide, 1, vocab) : (tensor){0};
}

void pick_ops(exec *x, step *s, tensor *edited)
{
	if (s->prompt.n > 0) {
		tensor of_prompt = tensor_rows(&s->logits, 0, s->prompt.n);
		logprobs(x, &s->prompt, &of_prompt);
	}
	if (!s->draws) return;
	tensor last = tensor_rows(&s->logits, s->R - 1, 1);
	s->edit.logits = edited;
	if (s->edits && x->status == NH_OK) x->ops->logit_edit(x, &s->edit);
	OP(x, sample_rows, .ids = &s->sampled, .logits = s->edits ? edited : &last, .rows = s->sample_row);
	logprobs(x, &s->taken, &last);
}

const void *step_read(engine *g, const tensor *t, nh_error *e)
{
	if (g->parts->arm->host_memory) return t->data;
	void *to = arena_alloc(&g->results, tensor_bytes(t));
	if (!to) return ERR(e, NH_ERR_INTERNAL, "step results: %zu bytes do not fit", tensor_bytes(t)), NULL;
	return g->parts->arm->download(g->parts->base, to, t->data, tensor_bytes(t), e) == NH_OK ? to : NULL;
}

/* The last row of logits, widened. Through here, because no op converts: the row goes to the host and back on arms without host memory. */
static nh_status widen(engine *g, const tensor *edited, nh_error *e)
{
	step *s = &g->step;
	tensor last = tensor_rows(&s->logits, s->R - 1, 1);
	const void *from = step_read(g, &last, e);
	if (!from) return e ? (nh_status)e->code : NH_ERR_BACKEND;
	size_t n = (size_t)last.shape[1];
	bool host = g->parts->arm->host_memory;
	void *to = host ? edited->data : arena_alloc(&g->results, tensor_bytes(edited));
	if (!to) return ERR(e, NH_ERR_INTERNAL, "step results: %zu bytes do not fit", tensor_bytes(edited));
	for (size_t i = 0; i < n; i++) num_store(edited->dtype, to, i, num_load(last.dtype, from, i));
	return host ? NH_OK : g->parts->arm->upload(g->parts->base, edited->data, to, tensor_bytes(edited), e);
}

static nh_status read_logprobs(engine *g, step_logprobs *l, nh_error *e)
{
	if (l->n == 0) return NH_OK;
	l->h_lp = step_read(g, &l->lp, e);
	l->h_rank = step_read(g, &l->rank, e);
	l->h_top_ids = step_read(g, &l->top_ids, e);
	l->h_top_lp = step_read(g, &l->top_lp, e);
	if (l->h_lp && l->h_rank && l->h_top_ids && l->h_top_lp) return NH_OK;
	return e ? (nh_status)e->code : NH_ERR_BACKEND;
}

static nh_status not_finite(int64_t position, nh_error *e)
{
	return ERR(e, NH_ERR_NUMERIC, "position %lld: the logits are not numbers", (long long)position);
}

nh_status step_pick(engine *g, nh_error *e)
{
	step *s = &g->step;
	exec *x = g->parts->x;
	int64_t vocab = g->parts->m->shape.vocab;
	arena_reset(&g->results);
	tensor edited = pick_reserve_edited(x, s, vocab);
	TRY(exec_status(x, e));
	if (s->edits) TRY(widen(g, &edited, e));
	pick_ops(x, s, &edited);
	TRY(exec_status(x, e));
	TRY(read_logprobs(g, &s->prompt, e));
	TRY(read_logprobs(g, &s->taken, e));
	for (int i = 0; i < s->prompt.n; i++)
		if (isnan(s->prompt.h_lp[(size_t)i * (size_t)s->prompt.M])) return not_finite(s->pos + i, e);
	s->token = -1;
	if (!s->draws) return NH_OK;
	const int32_t *drawn = step_read(g, &s->sampled, e);
	if (!drawn) return e ? (nh_status)e->code : NH_ERR_BACKEND;
	if (*drawn < 0 || *drawn >= vocab) return not_finite(s->pos + s->T - 1, e);
	s->token = s->force >= 0 ? s->force : *drawn;
	return NH_OK;
}
