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

static nh_status run(const verify *v, const nh_request_options *o, nh_event_type kind, size_t room, verify_run *out, nh_error *e)
{
	nh_request *r = NULL;
	nh_event ev;
	memset(out, 0, sizeof *out);
	out->steps = mem_array(room, sizeof *out->steps);
	if (!out->steps) return ERR_NOMEM(e);
	TRY(nh_engine_submit(v->engine, o, &r, e));
	cmd_on_interrupt(cancel, r);
	nh_status s = NH_OK;
	for (bool more = true; more;) {
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

nh_status verify_generate(const verify *v, const golden_entry *x, bool forced, verify_run *out, nh_error *e)
{
	nh_request_options o;
	nh_request_options_init(&o, sizeof o);
	int32_t *w = wants(x->steps, x->ids, x->tokens);
	if (!w) return ERR_NOMEM(e);
	o.prompt = x->prompt;
	o.prompt_tokens = x->prompt_tokens;
	/* A free run that goes on after the golden's end has shown it with one token more. */
	o.max_tokens = forced || v->g->max_tokens <= (int64_t)x->tokens ? (int64_t)x->tokens : (int64_t)x->tokens + 1;
	o.ignore_end = forced || v->g->ignore_end;
	o.want_ids = w;
	o.want_steps = x->tokens;
	o.want_per_step = VERIFY_WANT;
	o.top_logprobs = 2;
	if (forced) {
		o.forced = x->ids;
		o.forced_tokens = x->tokens;
	}
	nh_status s = run(v, &o, NH_EVENT_TOKEN, (size_t)o.max_tokens + 1, out, e);
	mem_free(w);
	return s;
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
	nh_status s = run(v, &o, NH_EVENT_PROMPT, x->prompt_tokens, out, e);
	if (s == NH_OK && out->count != x->prompt_tokens)
		s = ERR(e, NH_ERR_INTERNAL, "%zu positions told of a text of %zu tokens", out->count, x->prompt_tokens);
	mem_free(w);
	return s;
}
