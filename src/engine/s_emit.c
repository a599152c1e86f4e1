/* SPDX-License-Identifier: Apache-2.0
 * s_emit.c: what a committed step tells the reader, and how a request ends. Text comes from the request's hooks, so that a stop string
 * ends the request in the step that completes it.
 * The invariant that breaks first: whatever happens, a request's last event is DONE or ERROR, once.
 */
#include <math.h>
#include <string.h>

#include "base/base_clock.h"
#include "base/base_mem.h"
#include "engine/engine_impl.h"

static void fill_logprobs(engine_event *e, const step_logprobs *l, int row, int top_count)
{
	const double *lp = l->h_lp + (size_t)row * (size_t)l->M, *top_lp = l->h_top_lp + (size_t)row * (size_t)l->K;
	const int32_t *rank = l->h_rank + (size_t)row * (size_t)l->M, *top = l->h_top_ids + (size_t)row * (size_t)l->K;
	e->logprob = lp[0];
	e->rank = rank[0];
	e->best_id = top[0];
	e->margin = l->K > 1 ? top_lp[0] - top_lp[1] : INFINITY;
	e->top_count = (size_t)(top_count < l->K ? top_count : l->K);
	for (size_t i = 0; i < e->top_count; i++) e->top[i] = (nh_logprob){.id = top[i], .rank = (int32_t)i + 1, .logprob = top_lp[i]};
	e->want_count = (size_t)l->M - 1;
	for (size_t i = 0; i < e->want_count; i++) e->want[i] = (nh_logprob){.rank = rank[i + 1], .logprob = lp[i + 1]};
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

/* False: cancelled while waiting for room. */
static bool emit_prompt(engine *g, engine_request *r, int64_t position, int row)
{
	const step *s = &g->step;
	request_place *p = request_claim(r, false, loop_sweep, g);
	if (!p) return false;
	engine_event *v = &p->event;
	v->type = NH_EVENT_PROMPT;
	v->token = r->tokens[position];
	v->position = position;
	if (row >= 0) {
		fill_logprobs(v, &s->prompt, row, r->spec.prompt_top_logprobs);
		if (v->want_count) fill_want_ids(v, r->spec.prompt_want_ids + (size_t)position * v->want_count);
	}
	request_publish(r, false);
	return true;
}

static bool is_end(const engine *g, const engine_request *r, int32_t token)
{
	for (size_t i = 0; i < g->parts->end_count && !r->spec.ignore_end; i++)
		if (g->parts->end[i] == token) return true;
	for (size_t i = 0; i < r->spec.end_id_count && !r->spec.ignore_end; i++)
		if (r->spec.end_ids[i] == token) return true;
	return false;
}

/* False: cancelled, or failed with r->error set. */
static bool emit_token(engine *g, engine_request *r, engine_text *text)
{
	const step *s = &g->step;
	bool end = is_end(g, r, s->token);
	request_place *p = request_claim(r, false, loop_sweep, g);
	if (!p) return false;
	engine_event *v = &p->event;
	v->type = NH_EVENT_TOKEN;
	v->token = s->token;
	v->position = s->pos + s->T;
	v->forced = s->force >= 0;
	v->end_token = end;
	if (s->taken.n) {
		fill_logprobs(v, &s->taken, 0, r->spec.top_logprobs);
		size_t at = (size_t)r->generated - 1;
		fill_want_ids(v, at < r->spec.want_steps ? r->spec.want_ids + at * v->want_count : NULL);
	}
	if (r->spec.hooks.push && !end) {
		if (r->spec.hooks.push(r->spec.hooks.self, s->token, text, &r->error) != NH_OK) return false;
		if (fill_text(p, text, &r->error) != NH_OK) return false;
		r->stats.reasoning_tokens += text->in_reasoning;
	}
	request_publish(r, false);
	return true;
}

void step_emit(engine *g)
{
	engine_request *r = g->active;
	const step *s = &g->step;
	engine_text text = {0};
	bool told = true;
	if (s->pos == 0 && r->spec.prompt_logprobs) told = emit_prompt(g, r, 0, -1);
	for (int i = 0; i < s->prompt.n && told; i++) told = emit_prompt(g, r, s->pos + i + 1, i);
	if (told && s->token >= 0) told = emit_token(g, r, &text);
	if (!told) { /* cancelled requests end when the next step looks */
		if (r->error.code != 0) emit_error(g, r);
		return;
	}
	int64_t length = (int64_t)r->spec.prompt_tokens + r->generated;
	if (s->token >= 0 && is_end(g, r, s->token)) emit_done(g, r, NH_FINISH_END, -1);
	else if (text.stopped) emit_done(g, r, NH_FINISH_STOP, text.stop_index);
	else if (r->memory.length >= (int64_t)r->spec.prompt_tokens && length >= r->limit)
		emit_done(g, r, r->generated == r->spec.max_tokens ? NH_FINISH_LENGTH : NH_FINISH_CONTEXT, -1);
}

/* The reader may close everything else the moment it sees the event, so all that the request holds is given back before. */
static void emit_last(engine *g, engine_request *r, request_place *p)
{
	int64_t now = clock_us();
	nh_request_stats *t = &r->stats;
	if (r->admitted_us == 0) t->queue_us = now - r->submitted_us;
	else {
		t->prefill_us = (r->prefilled_us ? r->prefilled_us : now) - r->admitted_us;
		t->decode_us = r->prefilled_us ? now - r->prefilled_us : 0;
	}
	t->first_token_us = r->first_us ? r->first_us - r->submitted_us : 0;
	t->total_us = now - r->submitted_us;
	p->event.stats = *t;
	loop_forget(g, r);
	pthread_mutex_lock(&g->stats_lock);
	g->stats.cancelled += p->event.finish == NH_FINISH_CANCELLED;
	g->stats.failed += p->event.type == NH_EVENT_ERROR;
	g->stats.nan_failures += p->event.type == NH_EVENT_ERROR && r->error.code == NH_ERR_NUMERIC;
	pthread_mutex_unlock(&g->stats_lock);
	request_publish(r, true);
	request_drop(r);
}

void emit_done(engine *g, engine_request *r, nh_finish finish, int stop_index)
{
	request_place *p = request_claim(r, true, NULL, NULL);
	engine_text text = {0};
	nh_status s = NH_OK;
	if (r->spec.hooks.finish) s = r->spec.hooks.finish(r->spec.hooks.self, &text, &r->error);
	if (s == NH_OK && r->spec.hooks.finish) s = fill_text(p, &text, &r->error);
	p->event.type = s == NH_OK ? NH_EVENT_DONE : NH_EVENT_ERROR;
	p->event.finish = s == NH_OK ? finish : NH_FINISH_ERROR;
	p->event.error = &r->error;
	p->event.stop_index = s == NH_OK ? stop_index : -1;
	emit_last(g, r, p);
}

void emit_error(engine *g, engine_request *r)
{
	request_place *p = request_claim(r, true, NULL, NULL);
	p->event.type = NH_EVENT_ERROR;
	p->event.finish = NH_FINISH_ERROR;
	p->event.error = &r->error;
	emit_last(g, r, p);
}
