/* SPDX-License-Identifier: Apache-2.0
 * helper_tiny.c: see helper_tiny.h.
 */
#include "helper_tiny.h"

#include <string.h>

#include "test.h"

nh_model *tiny_open(const char *numerics)
{
	nh_model *m;
	nh_error e = {0};
	nh_model_options o;
	nh_model_options_init(&o, sizeof o);
	o.numerics = numerics;
	if (nh_model_open(&m, TINY, &o, &e) != NH_OK) fail_msg("%s", e.text);
	return m;
}

nh_engine *tiny_engine(nh_model *m, int32_t step_tokens)
{
	nh_engine *g;
	nh_error e = {0};
	nh_engine_options o;
	nh_engine_options_init(&o, sizeof o);
	o.step_tokens = step_tokens;
	if (nh_engine_open(&g, m, &o, &e) != NH_OK) fail_msg("%s", e.text);
	return g;
}

void tiny_collect(tiny_run *out, nh_request *r)
{
	nh_event e;
	memset(out, 0, sizeof *out);
	while (nh_request_next(r, &e, sizeof e, -1) == NH_OK) {
		if (e.type == NH_EVENT_TOKEN) {
			out->logprob[out->tokens] = e.logprob;
			out->token[out->tokens++] = e.token;
		}
		if (e.type == NH_EVENT_PROMPT) out->prompt_logprob[out->prompts++] = e.logprob;
		strncat(out->reasoning, e.reasoning, sizeof out->reasoning - strlen(out->reasoning) - 1);
		strncat(out->content, e.content, sizeof out->content - strlen(out->content) - 1);
		out->finish = (nh_finish)e.finish;
		out->stop_index = e.stop_index;
		out->stats = e.stats;
		if (e.type == NH_EVENT_ERROR) out->error = e.error;
	}
	nh_request_release(r);
}

void tiny_do(tiny_run *out, nh_engine *g, const nh_request_options *o)
{
	nh_request *r;
	nh_error e = {0};
	if (nh_engine_submit(g, o, &r, &e) != NH_OK) fail_msg("%s", e.text);
	tiny_collect(out, r);
}

nh_request_options tiny_request(const int32_t *prompt, size_t count, int64_t max_tokens)
{
	nh_request_options o;
	nh_request_options_init(&o, sizeof o);
	o.prompt = prompt;
	o.prompt_tokens = count;
	o.max_tokens = max_tokens;
	return o;
}

int32_t *tiny_chat(const nh_model *m, const char *user, size_t *count)
{
	char json[1024], *text;
	int32_t *ids;
	size_t bytes;
	nh_error e = {0};
	snprintf(json, sizeof json, "{\"messages\": [{\"role\": \"user\", \"content\": \"%s\"}]}", user);
	if (nh_template_render(nh_model_template(m), json, strlen(json), NH_TEMPLATE_ADAPT, 0, &text, &bytes, &e) != NH_OK)
		fail_msg("%s", e.text);
	if (nh_tokenize(nh_model_tokenizer(m), text, bytes, 0, &ids, count, &e) != NH_OK) fail_msg("%s", e.text);
	nh_free(text);
	return ids;
}
