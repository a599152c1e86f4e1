/* SPDX-License-Identifier: Apache-2.0
 * s_emit.c: what a step tells the readers, and how a sequence ends. Events are composed before the commit, because text decides what holds (a
 * stop string ends the request in the step that completes it, also in the middle of its drafts), and told after it.
 * The invariant that breaks first: whatever happens, a request's last event is DONE or ERROR, once.
 */
#include <math.h>
#include <string.h>

#include "base/base_clock.h"
#include "base/base_mem.h"
#include "engine/engine_impl.h"
#include "engine/session.h"

static void fill_logprobs(engine_event *e, const step_logprobs *l, int row, int top_count)
{
	const double *top_lp = l->h_top_lp + (size_t)row * (size_t)l->K;
	const int32_t *top = l->h_top_ids + (size_t)row * (size_t)l->K;
	size_t want = (size_t)row * (size_t)l->M;
	e->logprob = l->h_lp[row];
	e->rank = l->h_rank[row];
	e->best_id = top[0];
	e->margin = l->K > 1 ? top_lp[0] - top_lp[1] : INFINITY;
	e->top_count = (size_t)(top_count < l->K ? top_count : l->K);
	for (size_t i = 0; i < e->top_count; i++) e->top[i] = (nh_logprob){.id = top[i], .rank = (int32_t)i + 1, .logprob = top_lp[i]};
	e->want_count = (size_t)l->M;
	for (size_t i = 0; i < e->want_count; i++)
		e->want[i] = (nh_logprob){.id = -1, .rank = l->h_want_rank[want + i], .logprob = l->h_want_lp[want + i]};
}

static void fill_want_ids(engine_event *e, const int32_t *ids)
{
	for (size_t i = 0; i < e->want_count; i++) e->want[i].id = ids ? ids[i] : -1;
}

/* Copies text into the place; both parts are terminated. */
static nh_status fill_text(request_place *p, const engine_text *t, nh_error *e)
{
	buf *b = &p->text;
	b->len = 0;
	buf_append(b, t->reasoning ? t->reasoning : "", t->reasoning_bytes);
	buf_char(b, 0);
	buf_append(b, t->content ? t->content : "", t->content_bytes);
	if (b->failed) {
		buf_deinit(b);
		return ERR_NOMEM(e);
	}
	p->event.reasoning = b->data;
	p->event.reasoning_bytes = t->reasoning_bytes;
	p->event.content = b->data + t->reasoning_bytes + 1;
	p->event.content_bytes = t->content_bytes;
	return NH_OK;
}

static void compose_prompt(const step_item *i, int64_t position, int row)
{
	const engine_request *r = i->q->r;
	engine_event *v = &request_claim(i->q->r)->event;
	v->type = NH_EVENT_PROMPT;
	v->token = i->q->tokens[position];
	v->position = position;
	if (row < 0) return;
	fill_logprobs(v, &i->prompt, row, r->spec.prompt_top_logprobs);
	if (v->want_count) fill_want_ids(v, r->spec.prompt_want_ids + (size_t)position * v->want_count);
}

bool sequence_ends_token(const sequence *q, int32_t token)
{
	const sample_params *p = &q->r->sampling;
	for (int i = 0; i < p->end_count; i++)
		if (p->end_ids[i] == token) return true;
	return false;
}

/* Token `at` of the item becomes the sequence's next. Sets what ends it. False: failed. */
static bool compose_token(step_item *i, sequence *q, int at)
{
	engine_request *r = q->r;
	int32_t token = item_token(i, at);
	int64_t generated = q->generated + q->took;
	bool end = sequence_ends_token(q, token);
	engine_text text = {0};
	request_place *p = request_claim(r);
	engine_event *v = &p->event;
	v->type = NH_EVENT_TOKEN;
	v->choice = q->choice;
	v->token = token;
	v->position = r->given + generated;
	v->forced = i->force >= 0;
	v->end_token = end;
	if (i->tells && i->taken.n) {
		fill_logprobs(v, &i->taken, at, r->spec.top_logprobs);
		fill_want_ids(v, (size_t)generated < r->spec.want_steps ? r->spec.want_ids + (size_t)generated * v->want_count : NULL);
	}
	if (q->hooks.push && !end) {
		nh_status s = q->hooks.push(q->hooks.self, token, &text, &r->error);
		if (s == NH_OK) s = fill_text(p, &text, &r->error);
		if (s != NH_OK) {
			r->composed--;
			return false;
		}
		q->stats.reasoning_tokens += text.in_reasoning;
	}
	q->took++;
	if (end) q->ends = NH_FINISH_END;
	else if (text.stopped) q->ends = NH_FINISH_STOP;
	else if (r->given + generated + 1 >= r->limit) q->ends = generated + 1 == r->spec.max_tokens ? NH_FINISH_LENGTH : NH_FINISH_CONTEXT;
	q->stop_index = q->ends == NH_FINISH_STOP ? text.stop_index : -1;
	return true;
}

static void compose_embedding(engine *g, engine_request *r)
{
	size_t D = (size_t)g->parts->m->shape.hidden;
	double rows = r->spec.embed == NH_EMBED_MEAN ? (double)r->given : 1, square = 0, scale = 1;
	for (size_t j = 0; j < D; j++) {
		r->hidden[j] /= rows;
		square += r->hidden[j] * r->hidden[j];
	}
	if (r->spec.embed_normalise && square > 0) scale = 1 / sqrt(square);
	if (!isfinite(square)) {
		ERR(&r->error, NH_ERR_NUMERIC, "embedding: is not a number");
		return;
	}
	for (size_t j = 0; j < D; j++) r->embedding[j] = (float)(r->hidden[j] * scale);
	engine_event *v = &request_claim(r)->event;
	v->type = NH_EVENT_EMBEDDING;
	v->embedding = r->embedding;
	v->embedding_count = D;
}

void compose(engine *g, step_item *i)
{
	sequence *q = i->q;
	engine_request *r = q->r;
	int64_t end = i->pos + i->rows;
	for (int c = 0; c < r->choices; c++)
		if (!i->decode || &r->seq[c] == q) r->seq[c].took = 0;
	if (r->error.code == 0) {
		if (i->pos == 0 && r->spec.prompt_logprobs) compose_prompt(i, 0, -1);
		for (int k = 0; i->tells && k < i->prompt.n; k++) compose_prompt(i, i->pos + k + 1, k);
		if (r->spec.embed && end >= r->given) compose_embedding(g, r);
		for (int k = 0; k < i->draws && r->error.code == 0; k++) {
			sequence *of = i->decode ? q : &r->seq[k];
			if (of->ends == NH_FINISH_NONE) compose_token(i, of, k);
		}
		bool over = i->draws == 0 && end >= r->given && end >= r->limit && r->error.code == 0; /* nothing is drawn, by any choice */
		for (int c = 0; over && c < r->choices; c++) r->seq[c].ends = r->spec.max_tokens == 0 ? NH_FINISH_LENGTH : NH_FINISH_CONTEXT;
	}
	if (r->error.code != 0) i->failed = true;
}

void step_emit(engine *g)
{
	step *s = &g->step;
	for (int k = 0; k < s->items; k++) {
		step_item *i = &s->item[k];
		engine_request *r = i->q->r;
		if (i->q->state == SEQUENCE_ENDED) continue; /* with another choice of its request */
		if (i->failed) {
			emit_error(g, r);
			continue;
		}
		request_publish(r, false);
		for (int c = 0; c < r->choices; c++) {
			sequence *q = &r->seq[c];
			if (q->ends != NH_FINISH_NONE && q->state != SEQUENCE_ENDED && (!i->decode || q == i->q))
				emit_done(g, q, q->ends, q->stop_index);
		}
	}
}

/* Keeps the state of a sequence that has ended, with the tokens that it covers and the one that is pending. Without memory for it there is no
 * session, and whoever asks for it is told. */
static void keep(engine *g, sequence *q)
{
	engine_request *r = q->r;
	swapped *state = q->swap;
	if (!r->spec.keep_session) return;
	if (r->session) { /* it never ran */
		r->kept = r->session;
		r->session = NULL;
		return;
	}
	q->swap = NULL;
	if (!state && (q->memory.length == 0 || swap_out(&state, &q->memory, NULL) != NH_OK)) return;
	int64_t computed = swap_length(state);
	bool pending = computed + 1 == r->history || (computed >= r->given && r->given + q->generated > computed);
	session_make(&r->kept, g, q->tokens, computed + pending, r->history_generated + q->generated, state, NULL);
}

/* The reader may close everything else the moment it sees the last event, so all that the sequence holds is given back before. */
static void emit_last(engine *g, sequence *q, request_place *p)
{
	int64_t now = clock_us();
	engine_request *r = q->r;
	nh_request_stats *t = &q->stats;
	prefix_stats kept = {0};
	if (r->admitted_us == 0) t->queue_us = now - r->submitted_us;
	else {
		t->queue_us = r->admitted_us - r->submitted_us;
		t->prefill_us = (q->prefilled_us ? q->prefilled_us : now) - r->admitted_us;
		t->decode_us = q->prefilled_us ? now - q->prefilled_us : 0;
	}
	t->first_token_us = q->first_us ? q->first_us - r->submitted_us : 0;
	t->total_us = now - r->submitted_us;
	if (g->prefixes) prefix_get_stats(g->prefixes, &kept);
	t->snapshot_bytes = kept.bytes;
	p->event.stats = *t;
	p->event.choice = q->choice;
	bool failed = p->event.type == NH_EVENT_ERROR;
	if (!failed) keep(g, q);
	loop_leave(g, q);
	for (int c = 0; failed && c < r->choices; c++) loop_leave(g, &r->seq[c]);
	p->event.last = r->live == 0;
	pthread_mutex_lock(&g->stats_lock);
	g->stats.cancelled += p->event.finish == NH_FINISH_CANCELLED && p->event.last;
	g->stats.deadline_misses += p->event.finish == NH_FINISH_DEADLINE && p->event.last;
	g->stats.failed += failed;
	g->stats.nan_failures += failed && r->error.code == NH_ERR_NUMERIC;
	pthread_mutex_unlock(&g->stats_lock);
	if (p->event.last) {
		stats_publish(g, NULL);
		r->next = g->ended;
		g->ended = r;
	}
	request_publish(r, p->event.last);
}

void emit_done(engine *g, sequence *q, nh_finish finish, int stop_index)
{
	engine_request *r = q->r;
	request_place *p = request_claim(r);
	engine_text text = {0};
	nh_status s = NH_OK;
	if (q->hooks.finish) s = q->hooks.finish(q->hooks.self, &text, &r->error);
	if (s == NH_OK && q->hooks.finish) s = fill_text(p, &text, &r->error);
	p->event.type = s == NH_OK ? NH_EVENT_DONE : NH_EVENT_ERROR;
	p->event.finish = s == NH_OK ? finish : NH_FINISH_ERROR;
	p->event.error = &r->error;
	p->event.stop_index = s == NH_OK ? stop_index : -1;
	emit_last(g, q, p);
}

void emit_error(engine *g, engine_request *r)
{
	sequence *q = r->seq;
	while (q->state == SEQUENCE_ENDED && q + 1 < r->seq + r->choices) q++;
	request_place *p = request_claim(r);
	p->event.type = NH_EVENT_ERROR;
	p->event.finish = NH_FINISH_ERROR;
	p->event.error = &r->error;
	emit_last(g, q, p);
}
