/* SPDX-License-Identifier: Apache-2.0
 * fuzz_oai_request.c: any bytes as a line of a batch file and as the body of both kinds of request. What is taken must be usable: in its bounds, and made into
 * a prompt and a reply; what is refused must say so, printably.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base_json.h"
#include "base/base_mem.h"
#include "dialect/oai_batch.h"
#include "dialect/oai_reply.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_refusal(const oai_error *e)
{
	if ((e->status != 400 && e->status != 500) || e->message[0] == '\0') abort();
	json_t *body = oai_error_body(e);
	if (body == NULL) abort();
	json_decref(body);
}

static void check_options(const oai_request *r)
{
	const nh_request_options *o = &r->options;
	if (r->prompts < 1 || r->prompts > OAI_PROMPTS_MAX || r->n < 1 || r->n > OAI_CHOICES_MAX) abort();
	if (!(o->temperature >= 0) || !(o->top_p > 0 && o->top_p <= 1) || !(o->min_p >= 0 && o->min_p <= 1) || o->top_k < 0) abort();
	if (!isfinite(o->repetition_penalty) || fabs(o->presence_penalty) > 2 || fabs(o->frequency_penalty) > 2) abort();
	if (o->max_tokens < -1 || o->min_tokens < 0 || o->stop_count > OAI_STOPS_MAX) abort();
	for (size_t i = 0; i < o->stop_count; i++)
		if (o->stop[i][0] == '\0') abort();
	for (size_t i = 0; i < o->end_id_count; i++)
		if (o->end_ids[i] < 0) abort();
	for (size_t i = 0; i < o->bias_count; i++)
		if (o->bias[i].id < 0 || !(fabsf(o->bias[i].add) <= 100)) abort();
}

/* Prompts of ids need no tokeniser; a template that is missing is an error, not a crash. */
static void answer(const oai_request *r)
{
	oai_error e = {0};
	oai_reply *reply;
	if (oai_reply_open(&reply, r, "id", 0, "m", NULL, &e) != NH_OK) abort();
	for (size_t i = 0; i < r->prompts; i++) {
		oai_prompt p;
		nh_status s = oai_prompt_make(r, i, NULL, NULL, 0, &p, &e);
		if (s != NH_OK) check_refusal(&e);
		else if (p.count == 0) abort();
		if (s == NH_OK && !r->echo && oai_reply_prompt(reply, i, &p, &e) != NH_OK) abort();
		oai_prompt_free(&p);
		for (int32_t k = 0; k < r->n; k++) {
			const nh_event done = {.type = NH_EVENT_DONE, .choice = k, .finish = NH_FINISH_LENGTH, .content = "x", .content_bytes = 1};
			if (oai_reply_event(reply, i, &done, &e) != NH_OK) abort();
		}
	}
	if (!oai_reply_done(reply)) abort();
	json_t *body = oai_reply_body(reply);
	if (body == NULL || json_array_size(json_object_get(body, "choices")) != r->prompts * (size_t)r->n) abort();
	json_decref(body);
	oai_reply_close(reply);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const nh_sampling_defaults none = {.do_sample = -1, .top_k = -1, .temperature = -1, .top_p = -1, .min_p = -1, .repetition_penalty = -1};
	oai_batch_line line;
	oai_error e = {0};
	nh_error error = {0};
	json_t *body = NULL;
	if (oai_batch_parse(&line, (const char *)data, size, &e) != NH_OK) check_refusal(&e);
	else body = json_incref(line.body);
	oai_batch_free(&line);
	if (body == NULL && jsn_load_text(&body, (const char *)data, size, "body", &error) != NH_OK) return 0;
	for (int kind = OAI_CHAT; kind <= OAI_COMPLETIONS; kind++) {
		oai_request *r;
		memset(&e, 0, sizeof e);
		if (oai_request_parse(&r, (oai_kind)kind, body, &none, &e) != NH_OK) {
			check_refusal(&e);
			continue;
		}
		check_options(r);
		answer(r);
		oai_request_free(r);
	}
	json_decref(body);
	if (mem_live() != 0) abort();
	return 0;
}
