/* SPDX-License-Identifier: Apache-2.0
 * api_request.c: nh_request.h and nh_event.h over the engine's requests.
 */
#include <string.h>

#include "api/api_impl.h"
#include "base/base_mem.h"

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
	    .trace_user = o->trace_user};
}

nh_status nh_engine_submit(nh_engine *g, const nh_request_options *options, nh_request **out, nh_error *e)
{
	nh_request_options o = {0};
	*out = NULL;
	if (!options) return ERR(e, NH_ERR_ARG, "nh_request_options: NULL");
	TRY(api_in(&o, sizeof o, options, "nh_request_options", e));
	nh_request *r = mem_alloc(sizeof *r);
	if (!r) return ERR_NOMEM(e);
	engine_spec spec = spec_of(&o);
	nh_status s = NH_OK;
	if (o.text && !g->model->tok) s = ERR(e, NH_ERR_NOTFOUND, "text: the model has no tokenizer.json");
	else if (!o.text && o.stop_count) s = ERR(e, NH_ERR_ARG, "stop: stop strings need text");
	else if (o.text) s = api_filter_open(&spec.hooks, g->model->tok->tok, &o, e);
	if (s == NH_OK) s = engine_submit(g->g, &spec, &r->r, e);
	if (s == NH_OK) *out = r;
	else mem_free(r);
	return s;
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
	    .stats = in.stats};
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
