/* SPDX-License-Identifier: Apache-2.0
 * api_request.c: nh_request.h and nh_event.h over the engine's requests. Each choice of a request has its own text filter.
 * The invariant that breaks first: the engine takes the hooks, whether it takes the request or not.
 */
#include <string.h>

#include "api/api_impl.h"
#include "base/base_mem.h"

#define CHOICES_MAX 1024

void nh_request_options_init(nh_request_options *options, size_t size)
{
	nh_request_options o = {.max_tokens = -1, .top_p = 1, .repetition_penalty = 1};
	api_init(options, size, &o, sizeof o);
}

static engine_spec spec_of(const nh_request_options *o)
{
	return (engine_spec){.prompt = o->prompt,
	    .prompt_tokens = o->prompt_tokens,
	    .max_tokens = o->max_tokens,
	    .temperature = o->temperature,
	    .top_p = o->top_p == 0 ? 1 : o->top_p,
	    .min_p = o->min_p,
	    .repetition_penalty = o->repetition_penalty == 0 ? 1 : o->repetition_penalty,
	    .top_k = o->top_k,
	    .seed = o->seed,
	    .ignore_end = o->ignore_end,
	    .end_ids = o->end_ids,
	    .end_id_count = o->end_id_count,
	    .top_logprobs = o->top_logprobs,
	    .want_ids = o->want_ids,
	    .want_steps = o->want_steps,
	    .want_per_step = o->want_per_step,
	    .prompt_logprobs = o->prompt_logprobs,
	    .prompt_top_logprobs = o->prompt_top_logprobs,
	    .prompt_want_ids = o->prompt_want_ids,
	    .prompt_want_per_position = o->prompt_want_per_position,
	    .forced = o->forced,
	    .forced_tokens = o->forced_tokens,
	    .trace = o->trace,
	    .trace_user = o->trace_user,
	    .presence_penalty = o->presence_penalty,
	    .frequency_penalty = o->frequency_penalty,
	    .bias = o->bias,
	    .bias_count = o->bias_count,
	    .bad_words = o->bad_words,
	    .bad_word_lengths = o->bad_word_lengths,
	    .bad_word_count = o->bad_word_count,
	    .allowed_ids = o->allowed_ids,
	    .allowed_count = o->allowed_count,
	    .min_tokens = o->min_tokens,
	    .choices = o->choices,
	    .priority = o->priority,
	    .deadline_us = o->deadline_us,
	    .embed = (nh_embed)o->embed,
	    .embed_normalise = o->embed_normalise,
	    .mask = o->mask,
	    .mask_user = o->mask_user,
	    .keep_session = o->keep_session,
	    .session = o->session ? o->session->s : NULL,
	    .no_prefix_cache = o->no_prefix_cache};
}

/* What the engine does not know or could not name. */
static nh_status check(const nh_engine *g, const nh_request_options *o, nh_error *e)
{
	if (o->text && !g->model->tok) return ERR(e, NH_ERR_NOTFOUND, "text: the model has no tokenizer.json");
	if (!o->text && o->stop_count) return ERR(e, NH_ERR_ARG, "stop: stop strings need text");
	if (o->choices < 0 || o->choices > CHOICES_MAX) return ERR(e, NH_ERR_ARG, "choices: is %d, expected 0 to %d", o->choices, CHOICES_MAX);
	if (o->embed < NH_EMBED_NONE || o->embed > NH_EMBED_MEAN) return ERR(e, NH_ERR_ARG, "embed: is %d, expected an nh_embed", o->embed);
	if (o->keep_session && o->choices > 1) return ERR(e, NH_ERR_ARG, "keep_session: with %d choices, a session has one", o->choices);
	if (o->session && o->session->engine != g) return ERR(e, NH_ERR_ARG, "session: belongs to another engine");
	return NH_OK;
}

static nh_status open_filters(
    const nh_engine *g, const nh_request_options *o, engine_hooks *first, engine_hooks *more, int32_t count, nh_error *e)
{
	TRY(api_filter_open(first, g->model->tok->tok, o, e));
	for (int32_t i = 0; i < count; i++) {
		nh_status s = api_filter_open(&more[i], g->model->tok->tok, o, e);
		if (s == NH_OK) continue;
		while (i-- > 0) more[i].close(more[i].self);
		first->close(first->self);
		return s;
	}
	return NH_OK;
}

nh_status nh_engine_submit(nh_engine *g, const nh_request_options *options, nh_request **out, nh_error *e)
{
	nh_request_options o = {0};
	*out = NULL;
	if (!options) return ERR(e, NH_ERR_ARG, "nh_request_options: NULL");
	TRY(api_in(&o, sizeof o, options, "nh_request_options", e));
	TRY(check(g, &o, e));
	nh_request *r = mem_alloc(sizeof *r);
	int32_t others = o.choices > 1 ? o.choices - 1 : 0;
	engine_hooks *hooks = mem_array(others ? (size_t)others : 1, sizeof *hooks);
	engine_spec spec = spec_of(&o);
	nh_status s = r && hooks ? NH_OK : ERR_NOMEM(e);
	if (s == NH_OK && o.text) s = open_filters(g, &o, &spec.hooks, hooks, others, e);
	spec.choice_hooks = o.text ? hooks : NULL;
	if (s == NH_OK) s = engine_submit(g->g, &spec, &r->r, e);
	mem_free(hooks);
	if (s != NH_OK) {
		mem_free(r);
		return s;
	}
	r->engine = g;
	nh_session_close(o.session); /* the request's from now on */
	*out = r;
	return NH_OK;
}

nh_status nh_request_next(nh_request *r, nh_event *event, size_t size, int64_t timeout_us)
{
	engine_event in;
	nh_status s = engine_request_next(r->r, &in, timeout_us);
	if (s != NH_OK) return s;
	nh_event v = {.type = in.type,
	    .token = in.token,
	    .position = in.position,
	    .forced = in.forced,
	    .end_token = in.end_token,
	    .best_id = in.best_id,
	    .rank = in.rank,
	    .logprob = in.logprob,
	    .margin = in.margin,
	    .top = in.top,
	    .top_count = in.top_count,
	    .want = in.want,
	    .want_count = in.want_count,
	    .reasoning = in.reasoning,
	    .reasoning_bytes = in.reasoning_bytes,
	    .content = in.content,
	    .content_bytes = in.content_bytes,
	    .finish = in.finish,
	    .stop_index = in.stop_index,
	    .stats = in.stats,
	    .choice = in.choice,
	    .last = in.last,
	    .embedding = in.embedding,
	    .embedding_size = in.embedding_count};
	if (in.type == NH_EVENT_ERROR) v.error = *in.error;
	api_out(event, size, &v, sizeof v);
	return NH_OK;
}

void nh_request_cancel(nh_request *r) { engine_request_cancel(r->r); }

void nh_request_release(nh_request *r)
{
	if (!r) return;
	engine_request_release(r->r);
	mem_free(r);
}
