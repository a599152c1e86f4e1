/* SPDX-License-Identifier: Apache-2.0
 * s_pick.c: from logits to tokens and their log-probabilities. The drawing itself is an op; here is what goes into it and comes out, and which
 * drafts hold. Refuses to know what a token means.
 * The invariants that break first: edits touch a copy, log-probabilities are those of the model's own logits; a draft holds if and only if it
 * is what was drawn.
 */
#include <math.h>
#include <string.h>

#include "base/base_mem.h"
#include "engine/engine_impl.h"
#include "num/num_conv.h"

static void logprobs(exec *x, step_logprobs *l, const tensor *logits)
{
	l->lp = exec_scratch(x, NUM_F64, l->n, 1);
	l->rank = exec_scratch(x, NUM_I32, l->n, 1);
	l->top_ids = exec_scratch(x, NUM_I32, l->n, l->K);
	l->top_lp = exec_scratch(x, NUM_F64, l->n, l->K);
	OP(x, logprobs, .logits = logits, .ids = &l->chosen, .lp = &l->lp, .rank = &l->rank, .top_ids = &l->top_ids, .top_lp = &l->top_lp);
	if (l->M == 0) return;
	l->want_lp = exec_scratch(x, NUM_F64, l->n, l->M);
	l->want_rank = exec_scratch(x, NUM_I32, l->n, l->M);
	OP(x, logprobs, .logits = logits, .ids = &l->ids, .lp = &l->want_lp, .rank = &l->want_rank);
}

void pick_gather(exec *x, step *s, int64_t vocab, tensor *edited)
{
	*edited = (tensor){0};
	if (s->N == 0) return;
	tensor sampled = exec_scratch(x, NUM_I32, s->N, 1);
	s->sampled = tensor_1d(sampled.data, NUM_I32, s->N);
	s->drawn = s->logits;
	if (!s->direct) {
		s->drawn = exec_scratch(x, s->logits.dtype, s->N, vocab);
		OP(x, gather_rows, .y = &s->drawn, .x = &s->logits, .rows = &s->draw_rows);
	}
	if (s->N > s->plain) *edited = exec_scratch(x, x->types.wide, s->N - s->plain, vocab);
}

static void draw(exec *x, step *s, const tensor *edited)
{
	if (s->plain) {
		tensor ids = tensor_1d(s->sampled.data, NUM_I32, s->plain), logits = tensor_rows(&s->drawn, 0, s->plain);
		OP(x, sample_rows, .ids = &ids, .logits = &logits, .rows = s->rows);
	}
	if (s->N == s->plain) return;
	tensor ids = tensor_1d((int32_t *)s->sampled.data + s->plain, NUM_I32, s->N - s->plain);
	s->edit.logits = edited;
	bool any = s->edit.seen || s->edit.counts || s->edit.biases || s->edit.mask;
	if (any && x->status == NH_OK) x->ops->logit_edit(x, &s->edit);
	OP(x, sample_rows, .ids = &ids, .logits = edited, .rows = s->edited_rows);
}

void pick_ops(exec *x, step *s, const tensor *edited)
{
	if (x->status != NH_OK) return;
	if (s->N) draw(x, s, edited);
	for (int k = 0; k < s->items; k++) {
		step_item *i = &s->item[k];
		if (!i->tells) continue;
		if (i->prompt.n) {
			tensor of = tensor_rows(&s->logits, i->r0, i->prompt.n);
			logprobs(x, &i->prompt, &of);
		}
		if (!i->taken.n) continue;
		if (i->force < 0) i->taken.chosen = tensor_2d((int32_t *)s->sampled.data + i->d0, NUM_I32, i->draws, 1);
		tensor of = tensor_rows(&s->drawn, i->d0, i->draws);
		logprobs(x, &i->taken, &of);
	}
	if (!s->E) return;
	s->pooled = exec_scratch(x, NUM_F64, s->E, s->hidden.out.shape[1]);
	OP(x, pool_rows, .y = &s->pooled, .x = &s->hidden.out, .start = &s->hidden_start, .how = OP_POOL_LAST);
}

const void *step_read(engine *g, const tensor *t, nh_error *e)
{
	if (g->parts->arm->host_memory) return t->data;
	void *to = arena_alloc(&g->results, tensor_bytes(t));
	if (!to) return ERR(e, NH_ERR_INTERNAL, "step results: %zu bytes do not fit", tensor_bytes(t)), NULL;
	return g->parts->arm->download(g->parts->base, to, t->data, tensor_bytes(t), e) == NH_OK ? to : NULL;
}

static nh_status unread(const nh_error *e) { return e && e->code ? (nh_status)e->code : NH_ERR_BACKEND; }

/* The logits of edited draws, widened. Through here, because no op converts: rows go to the host and back on arms without host memory. */
static nh_status widen(engine *g, const tensor *edited, nh_error *e)
{
	const step *s = &g->step;
	bool host = g->parts->arm->host_memory;
	for (int64_t d = 0; d < edited->shape[0]; d++) {
		size_t mark = host ? 0 : arena_mark(&g->results);
		tensor row = tensor_rows(&s->drawn, s->plain + d, 1), wide = tensor_rows(edited, d, 1);
		const void *from = step_read(g, &row, e);
		if (!from) return unread(e);
		void *to = host ? wide.data : arena_alloc(&g->results, tensor_bytes(&wide));
		if (!to) return ERR(e, NH_ERR_INTERNAL, "step results: %zu bytes do not fit", tensor_bytes(&wide));
		for (size_t i = 0; i < (size_t)row.shape[1]; i++) num_store(wide.dtype, to, i, num_load(row.dtype, from, i));
		if (host) continue;
		TRY(g->parts->arm->upload(g->parts->base, wide.data, to, tensor_bytes(&wide), e));
		arena_rewind(&g->results, mark);
	}
	return NH_OK;
}

static nh_status read_logprobs(engine *g, step_logprobs *l, nh_error *e)
{
	l->h_lp = step_read(g, &l->lp, e);
	l->h_rank = step_read(g, &l->rank, e);
	l->h_top_ids = step_read(g, &l->top_ids, e);
	l->h_top_lp = step_read(g, &l->top_lp, e);
	if (!l->h_lp || !l->h_rank || !l->h_top_ids || !l->h_top_lp) return unread(e);
	if (l->M == 0) return NH_OK;
	l->h_want_lp = step_read(g, &l->want_lp, e);
	l->h_want_rank = step_read(g, &l->want_rank, e);
	return l->h_want_lp && l->h_want_rank ? NH_OK : unread(e);
}

static void not_finite(step_item *i, int64_t position)
{
	i->failed = true;
	ERR(&i->q->r->error, NH_ERR_NUMERIC, "position %lld: the logits are not numbers", (long long)position);
}

int32_t item_token(const step_item *i, int at) { return i->force >= 0 ? i->force : i->drawn[at]; }

/* Sums an embedding up, row by row in order, so that it does not depend on how the prompt was cut. */
static void add_hidden(engine *g, const step_item *i, const double *rows)
{
	engine_request *r = i->q->r;
	size_t D = (size_t)g->parts->m->shape.hidden;
	for (int k = 0; k < i->E; k++)
		for (size_t j = 0; j < D; j++) r->hidden[j] += rows[(size_t)(i->e0 + k) * D + j];
}

/* Rows whose logits are no numbers fail their request; drafts that were not drawn are forgotten. */
static void judge(engine *g, step_item *i, const int32_t *drawn)
{
	int64_t vocab = g->parts->m->shape.vocab;
	i->drawn = drawn ? drawn + i->d0 : NULL;
	for (int k = 0; i->tells && k < i->prompt.n && !i->failed; k++)
		if (isnan(i->prompt.h_lp[k])) not_finite(i, i->pos + k);
	for (int k = 0; i->drawn && k < i->draws && !i->failed; k++) {
		if (i->drawn[k] < 0 || i->drawn[k] >= vocab) not_finite(i, i->decode ? i->pos + k : i->pos + i->rows - 1);
		else if (i->decode && k + 1 < i->draws && i->q->tokens[i->pos + k + 1] != item_token(i, k)) i->draws = k + 1;
	}
}

nh_status step_pick(engine *g, nh_error *e)
{
	step *s = &g->step;
	exec *x = g->parts->x;
	tensor edited;
	arena_reset(&g->results);
	pick_gather(x, s, g->parts->m->shape.vocab, &edited);
	TRY(exec_status(x, e));
	if (s->N > s->plain) TRY(widen(g, &edited, e));
	pick_ops(x, s, &edited);
	TRY(exec_status(x, e));
	const int32_t *drawn = s->N ? step_read(g, &s->sampled, e) : NULL;
	const double *pooled = s->E ? step_read(g, &s->pooled, e) : NULL;
	if ((s->N && !drawn) || (s->E && !pooled)) return unread(e);
	for (int k = 0; k < s->items; k++) {
		step_item *i = &s->item[k];
		if (i->tells && i->prompt.n) TRY(read_logprobs(g, &i->prompt, e));
		if (i->tells && i->taken.n) TRY(read_logprobs(g, &i->taken, e));
		if (i->E) add_hidden(g, i, pooled);
		judge(g, i, drawn);
	}
	for (int k = 0; k < s->items; k++) compose(g, &s->item[k]);
	return NH_OK;
}
