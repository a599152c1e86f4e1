/* SPDX-License-Identifier: Apache-2.0
 * verify_run.c: one entry through the engine, and what it said at every position.
 */
#include <string.h>

#include "base/base_mem.h"
#include "cmd/verify/verify.h"

void verify_run_free(verify_run *r)
{
	mem_free(r->steps);
	memset(r, 0, sizeof *r);
}

/* The ids to ask for at each position: the golden's best, then the token that stands there; -1 pads. */
static int32_t *wants(const golden_step *steps, const int32_t *tokens, size_t count)
{
	int32_t *w = mem_array(count * VERIFY_WANT, sizeof *w);
	if (!w) return NULL;
	for (size_t i = 0; i < count; i++) {
		int32_t *row = w + i * VERIFY_WANT;
		for (int k = 0; k < VERIFY_BEST; k++) row[k] = k < steps[i].count ? steps[i].top[k].id : -1;
		row[VERIFY_BEST] = tokens[i];
	}
	return w;
}

static void keep(verify_step *s, const nh_event *ev)
{
	s->id = ev->token;
	s->best = ev->best_id;
	s->margin = ev->margin;
	s->wants = ev->want_count < VERIFY_WANT ? (int)ev->want_count : VERIFY_WANT;
	for (int k = 0; k < s->wants; k++) s->want[k] = ev->want[k];
}

static void cancel(void *request) { nh_request_cancel(request); }

/* Reads a request to its end and lets it go. */
static nh_status collect(nh_request *r, nh_event_type kind, size_t room, verify_run *out, nh_error *e)
{
	nh_event ev;
	nh_status s = NH_OK;
	memset(out, 0, sizeof *out);
	out->steps = mem_array(room, sizeof *out->steps);
	if (!out->steps) s = ERR_NOMEM(e);
	cmd_on_interrupt(cancel, r);
	for (bool more = s == NH_OK; more;) {
		s = nh_request_next(r, &ev, sizeof ev, -1);
		if (s != NH_OK) break;
		if ((nh_event_type)ev.type == kind && out->count < room) keep(&out->steps[out->count++], &ev);
		if (ev.type == NH_EVENT_ERROR) s = ERR(e, (nh_status)ev.error.code, "%s", ev.error.text);
		if (ev.type == NH_EVENT_DONE && ev.finish == NH_FINISH_CANCELLED) s = ERR(e, NH_ERR_CANCELLED, "cancelled");
		more = ev.type != NH_EVENT_DONE && ev.type != NH_EVENT_ERROR;
		out->finish = ev.finish;
	}
	cmd_on_interrupt(NULL, NULL);
	nh_request_release(r);
	return s;
}

/* A free run that goes on after the golden's end has shown it with one token more. */
static int64_t most_tokens(const verify *v, const golden_entry *x)
{
	return v->forced || v->g->max_tokens <= (int64_t)x->tokens ? (int64_t)x->tokens : (int64_t)x->tokens + 1;
}

static nh_status submit(const verify *v, const golden_entry *x, nh_request **r, nh_error *e)
{
	nh_request_options o;
	nh_request_options_init(&o, sizeof o);
	int32_t *w = wants(x->steps, x->ids, x->tokens);
	if (!w) return ERR_NOMEM(e);
	o.prompt = x->prompt;
	o.prompt_tokens = x->prompt_tokens;
	o.max_tokens = most_tokens(v, x);
	o.ignore_end = v->forced || v->g->ignore_end;
	o.want_ids = w;
	o.want_steps = x->tokens;
	o.want_per_step = VERIFY_WANT;
	o.top_logprobs = 2;
	if (v->forced) {
		o.forced = x->ids;
		o.forced_tokens = x->tokens;
	}
	nh_status s = nh_engine_submit(v->engine, &o, r, e);
	mem_free(w);
	return s;
}

nh_status verify_generate(verify *v, size_t n, bool forced, verify_run *out, nh_error *e)
{
	const golden *g = v->g;
	memset(out, 0, sizeof *out);
	if (!v->ahead && !(v->ahead = mem_array(g->entry_count, sizeof *v->ahead))) return ERR_NOMEM(e);
	v->forced = forced;
	for (; v->submitted < g->entry_count && v->submitted < n + VERIFY_AHEAD; v->submitted++)
		TRY(submit(v, &g->entries[v->submitted], &v->ahead[v->submitted], e));
	nh_request *r = v->ahead[n];
	v->ahead[n] = NULL;
	return collect(r, NH_EVENT_TOKEN, (size_t)most_tokens(v, &g->entries[n]) + 1, out, e);
}

void verify_let_go(verify *v)
{
	for (size_t i = 0; v->ahead && i < v->submitted; i++) nh_request_release(v->ahead[i]);
	mem_free(v->ahead);
	v->ahead = NULL;
}

nh_status verify_prefill(const verify *v, const golden_entry *x, verify_run *out, nh_error *e)
{
	nh_request_options o;
	nh_request_options_init(&o, sizeof o);
	int32_t *w = wants(x->steps, x->prompt, x->prompt_tokens);
	if (!w) return ERR_NOMEM(e);
	o.prompt = x->prompt;
	o.prompt_tokens = x->prompt_tokens;
	o.max_tokens = 0;
	o.prompt_logprobs = true;
	o.prompt_want_ids = w;
	o.prompt_want_per_position = VERIFY_WANT;
	nh_request *r = NULL;
	memset(out, 0, sizeof *out);
	nh_status s = nh_engine_submit(v->engine, &o, &r, e);
	if (s == NH_OK) s = collect(r, NH_EVENT_PROMPT, x->prompt_tokens, out, e);
	if (s == NH_OK && out->count != x->prompt_tokens)
		s = ERR(e, NH_ERR_INTERNAL, "%zu positions told of a text of %zu tokens", out->count, x->prompt_tokens);
	mem_free(w);
	return s;
}
