/* SPDX-License-Identifier: Apache-2.0
 * oai_request.c: checks a body member by member and fills the engine's options. Order: what is not served is refused first, so that a
 * caller learns about it whatever else is wrong. Breaks first: null is absent, and absent is the model's default.
 */
#include "dialect/oai_request.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base_mem.h"
#include "dialect/oai_fields.h"

static unsigned kind_bit(oai_kind kind) { return kind == OAI_CHAT ? OAI_FOR_CHAT : OAI_FOR_COMPLETIONS; }

/* --- what to answer --- */

static nh_status check_part(const json_t *part, const char *where, oai_error *e)
{
	char param[96];
	snprintf(param, sizeof param, "%s.type", where);
	if (json_is_string(part)) return NH_OK;
	if (!json_is_object(part)) return oai_expected(e, where, part, "an object with type and text");
	const char *type = json_string_value(json_object_get(part, "type"));
	if (type == NULL) return oai_expected(e, param, json_object_get(part, "type"), "\"text\"");
	if (strcmp(type, "text") != 0) return oai_refuse(e, param, "is \"%.40s\", this is a text model: only \"text\" is supported", type);
	snprintf(param, sizeof param, "%s.text", where);
	if (!json_is_string(json_object_get(part, "text"))) return oai_expected(e, param, json_object_get(part, "text"), "a string");
	return NH_OK;
}

static nh_status check_message(const json_t *m, size_t index, oai_error *e)
{
	char param[64];
	snprintf(param, sizeof param, "messages[%zu]", index);
	if (!json_is_object(m)) return oai_expected(e, param, m, "an object with role and content");
	const json_t *role = json_object_get(m, "role"), *content = oai_member(m, "content");
	snprintf(param, sizeof param, "messages[%zu].role", index);
	if (json_string_length(role) == 0) return oai_expected(e, param, role, "a role such as \"user\"");
	snprintf(param, sizeof param, "messages[%zu].content", index);
	if (content == NULL) {
		/* An assistant that only calls tools says nothing. */
		if (strcmp(json_string_value(role), "assistant") == 0) return NH_OK;
		return oai_expected(e, param, json_object_get(m, "content"), "a string or a list of text parts");
	}
	if (json_is_string(content)) return NH_OK;
	if (!json_is_array(content)) return oai_expected(e, param, content, "a string or a list of text parts");
	for (size_t k = 0; k < json_array_size(content); k++) {
		snprintf(param, sizeof param, "messages[%zu].content[%zu]", index, k);
		nh_status s = check_part(json_array_get(content, k), param, e);
		if (s != NH_OK) return s;
	}
	return NH_OK;
}

static nh_status parse_tools(oai_request *r, oai_error *e)
{
	const json_t *tools = oai_member(r->body, "tools"), *choice = oai_member(r->body, "tool_choice");
	if (tools != NULL && !json_is_array(tools)) return oai_expected(e, "tools", tools, "a list of tools");
	for (size_t i = 0; i < json_array_size(tools); i++) {
		char param[64];
		const json_t *tool = json_array_get(tools, i), *function = json_object_get(tool, "function");
		snprintf(param, sizeof param, "tools[%zu]", i);
		if (!json_is_object(tool)) return oai_expected(e, param, tool, "an object with type and function");
		snprintf(param, sizeof param, "tools[%zu].function.name", i);
		if (json_string_length(json_object_get(function, "name")) == 0)
			return oai_expected(e, param, json_object_get(function, "name"), "a string");
	}
	if (choice == NULL) return NH_OK;
	const char *word = json_string_value(choice);
	if (word != NULL && (strcmp(word, "auto") == 0 || strcmp(word, "none") == 0)) return NH_OK;
	if ((word != NULL && strcmp(word, "required") == 0) || json_is_object(choice))
		return oai_refuse(e, "tool_choice", "a call can not be forced, only \"auto\" and \"none\" are supported");
	return oai_expected(e, "tool_choice", choice, "\"auto\" or \"none\"");
}

static nh_status parse_chat(oai_request *r, oai_error *e)
{
	const json_t *messages = oai_member(r->body, "messages"), *kwargs = oai_member(r->body, "chat_template_kwargs");
	const json_t *documents = oai_member(r->body, "documents"), *effort = oai_member(r->body, "reasoning_effort");
	bool add;
	r->prompts = 1;
	if (json_array_size(messages) == 0) return oai_expected(e, "messages", messages, "a list of at least one message");
	for (size_t i = 0; i < json_array_size(messages); i++) TRY(check_message(json_array_get(messages, i), i, e));
	TRY(parse_tools(r, e));
	if (documents != NULL && !json_is_array(documents)) return oai_expected(e, "documents", documents, "a list of objects");
	if (kwargs != NULL && !json_is_object(kwargs)) return oai_expected(e, "chat_template_kwargs", kwargs, "an object");
	if (effort != NULL && !json_is_string(effort)) return oai_expected(e, "reasoning_effort", effort, "a string");
	r->no_thinking = effort != NULL && strcmp(json_string_value(effort), "none") == 0;
	TRY(oai_bool(r->body, "add_generation_prompt", &add, e));
	r->include_reasoning = true;
	TRY(oai_bool(r->body, "include_reasoning", &r->include_reasoning, e));
	return oai_bool(r->body, "add_special_tokens", &r->add_special, e);
}

/* A list whose members are all ids, which is one prompt. */
static bool is_id_list(const json_t *v)
{
	for (size_t i = 0; i < json_array_size(v); i++)
		if (!oai_is_id(json_array_get(v, i))) return false;
	return json_array_size(v) > 0;
}

static nh_status parse_prompt(oai_request *r, oai_error *e)
{
	static const char expected[] = "a string, a list of strings, a list of token ids, or a list of such lists";
	const json_t *p = oai_member(r->body, "prompt");
	r->prompt = p;
	r->prompts = 1;
	r->add_special = true;
	TRY(oai_bool(r->body, "add_special_tokens", &r->add_special, e));
	TRY(oai_bool(r->body, "echo", &r->echo, e));
	if (json_is_string(p) || is_id_list(p)) return NH_OK;
	if (json_array_size(p) == 0) return oai_expected(e, "prompt", p, expected);
	r->prompts = json_array_size(p);
	if (r->prompts > OAI_PROMPTS_MAX) return oai_bad(e, "prompt", "has %zu prompts, expected at most %d", r->prompts, OAI_PROMPTS_MAX);
	bool strings = json_is_string(json_array_get(p, 0));
	for (size_t i = 0; i < r->prompts; i++) {
		const json_t *one = json_array_get(p, i);
		char param[64];
		snprintf(param, sizeof param, "prompt[%zu]", i);
		if (strings ? !json_is_string(one) : !is_id_list(one))
			return oai_expected(e, param, one, strings ? "a string, as the others are" : "a string or a list of token ids");
	}
	return NH_OK;
}

/* --- how to draw --- */

static nh_status parse_sampling(oai_request *r, const nh_sampling_defaults *d, oai_error *e)
{
	nh_request_options *o = &r->options;
	const json_t *b = r->body;
	int64_t top_k = d->top_k > 0 ? d->top_k : 0, seed = 0, n = 1, priority = 0;
	o->temperature = d->temperature >= 0 ? d->temperature : 1;
	o->top_p = d->top_p > 0 ? d->top_p : 1;
	o->min_p = d->min_p >= 0 ? d->min_p : 0;
	o->repetition_penalty = d->repetition_penalty > 0 ? d->repetition_penalty : 1;
	TRY(oai_real(b, "temperature", 0, 100, &o->temperature, e));
	TRY(oai_real(b, "top_p", 0, 1, &o->top_p, e));
	if (o->top_p == 0) o->top_p = DBL_MIN; /* nothing but the best; the engine's 0 is off */
	TRY(oai_int(b, "top_k", -1, INT32_MAX, &top_k, e));
	o->top_k = top_k > 0 ? (int32_t)top_k : 0;
	TRY(oai_real(b, "min_p", 0, 1, &o->min_p, e));
	TRY(oai_real(b, "repetition_penalty", 0.01, 100, &o->repetition_penalty, e));
	TRY(oai_real(b, "presence_penalty", -2, 2, &o->presence_penalty, e));
	TRY(oai_real(b, "frequency_penalty", -2, 2, &o->frequency_penalty, e));
	r->seeded = oai_member(b, "seed") != NULL;
	TRY(oai_int(b, "seed", INT64_MIN, INT64_MAX, &seed, e));
	o->seed = (uint64_t)seed;
	TRY(oai_int(b, "n", 1, OAI_CHOICES_MAX, &n, e));
	r->n = (int32_t)n;
	o->choices = r->n;
	if (r->prompts * (size_t)n > OAI_ANSWERS_MAX)
		return oai_bad(e, "n", "is %d, with %zu prompts more than %d answers", r->n, r->prompts, OAI_ANSWERS_MAX);
	TRY(oai_int(b, "priority", INT32_MIN + 1, INT32_MAX, &priority, e));
	o->priority = (int32_t)-priority; /* vLLM's lower is sooner */
	return NH_OK;
}

static nh_status parse_bias(oai_request *r, oai_error *e)
{
	const json_t *bias = oai_member(r->body, "logit_bias");
	const char *key;
	json_t *v;
	if (bias == NULL) return NH_OK;
	if (!json_is_object(bias)) return oai_expected(e, "logit_bias", bias, "an object from token ids to numbers");
	size_t n = json_object_size(bias);
	if (n > OAI_IDS_MAX) return oai_bad(e, "logit_bias", "has %zu ids, expected at most %d", n, OAI_IDS_MAX);
	r->bias = mem_array(n + 1, sizeof *r->bias);
	if (r->bias == NULL) return oai_nomem(e);
	nh_bias *to = r->bias;
	json_object_foreach((json_t *)(uintptr_t)bias, key, v)
	{
		char *end = NULL, param[64];
		long id = strtol(key, &end, 10);
		if (key[0] < '0' || key[0] > '9' || *end != '\0' || id > INT32_MAX || strlen(key) > 10)
			return oai_bad(e, "logit_bias", "\"%.24s\" is no token id", key);
		snprintf(param, sizeof param, "logit_bias.%s", key);
		double add = json_number_value(v);
		if (!json_is_number(v) || !(add >= -100 && add <= 100)) return oai_expected(e, param, v, "a number from -100 to 100");
		*to++ = (nh_bias){.id = (int32_t)id, .add = (float)add};
	}
	r->options.bias = r->bias;
	r->options.bias_count = n;
	return NH_OK;
}

/* --- when to end --- */

static nh_status parse_stop(oai_request *r, oai_error *e)
{
	const json_t *stop = oai_member(r->body, "stop");
	size_t n = json_is_string(stop) ? 1 : json_array_size(stop);
	if (stop == NULL) return NH_OK;
	if (!json_is_string(stop) && !json_is_array(stop)) return oai_expected(e, "stop", stop, "a string or a list of strings");
	if (n > OAI_STOPS_MAX) return oai_bad(e, "stop", "has %zu strings, expected at most %d", n, OAI_STOPS_MAX);
	r->stop = mem_array(n + 1, sizeof *r->stop);
	if (r->stop == NULL) return oai_nomem(e);
	for (size_t i = 0; i < n; i++) {
		const json_t *one = json_is_array(stop) ? json_array_get(stop, i) : stop;
		const char *text = json_string_value(one);
		char param[32] = "stop";
		if (json_is_array(stop)) snprintf(param, sizeof param, "stop[%zu]", i);
		if (text == NULL || text[0] == '\0' || strlen(text) != json_string_length(one))
			return oai_expected(e, param, one, "a string that is not empty and holds no NUL");
		r->stop[i] = text;
	}
	r->options.stop = r->stop;
	r->options.stop_count = n;
	return NH_OK;
}

static nh_status parse_lengths(oai_request *r, oai_error *e)
{
	nh_request_options *o = &r->options;
	const json_t *b = r->body;
	bool chat = r->kind == OAI_CHAT;
	const char *name = chat && oai_member(b, "max_completion_tokens") != NULL ? "max_completion_tokens" : "max_tokens";
	o->max_tokens = chat ? -1 : 16; /* OpenAI's defaults */
	/* Both are checked; the newer name counts. */
	TRY(oai_int(b, "max_tokens", chat ? 1 : 0, INT32_MAX, &o->max_tokens, e));
	if (chat) TRY(oai_int(b, "max_completion_tokens", 1, INT32_MAX, &o->max_tokens, e));
	if (o->max_tokens == 0 && !r->echo) return oai_bad(e, name, "is 0, which needs echo");
	TRY(oai_int(b, "min_tokens", 0, INT32_MAX, &o->min_tokens, e));
	if (o->max_tokens >= 0 && o->min_tokens > o->max_tokens)
		return oai_bad(e, "min_tokens", "is %lld, more than %s", (long long)o->min_tokens, name);
	TRY(oai_bool(b, "ignore_eos", &o->ignore_end, e));
	TRY(oai_bool(b, "include_stop_str_in_output", &o->include_stop, e));
	TRY(oai_ids(b, "stop_token_ids", OAI_IDS_MAX, &r->end_ids, &o->end_id_count, e));
	o->end_ids = r->end_ids;
	TRY(oai_ids(b, "allowed_token_ids", 1 << 20, &r->allowed, &o->allowed_count, e));
	o->allowed_ids = r->allowed;
	return parse_stop(r, e);
}

/* --- what to tell --- */

static nh_status parse_logprobs(oai_request *r, oai_error *e)
{
	const json_t *b = r->body;
	int64_t count = -1;
	r->logprobs = -1;
	if (r->kind == OAI_CHAT) {
		bool on = false;
		int64_t top = 0;
		TRY(oai_bool(b, "logprobs", &on, e));
		TRY(oai_int(b, "top_logprobs", 0, OAI_LOGPROBS_MAX, &top, e));
		if (!on && top > 0) return oai_bad(e, "top_logprobs", "needs logprobs true");
		if (on) count = top;
	} else if (!json_is_false(oai_member(b, "logprobs"))) {
		TRY(oai_int(b, "logprobs", 0, OAI_LOGPROBS_MAX, &count, e));
	}
	if (count < 0) return NH_OK;
	r->logprobs = (int32_t)count;
	/* The engine tells a token's own log-probability together with the best. */
	r->options.top_logprobs = count > 0 ? r->logprobs : 1;
	if (r->echo) {
		r->options.prompt_logprobs = true;
		r->options.prompt_top_logprobs = r->logprobs;
	}
	return NH_OK;
}

static nh_status parse_output(oai_request *r, oai_error *e)
{
	const json_t *b = r->body, *options = oai_member(b, "stream_options");
	r->options.text = true;
	r->options.skip_special = true;
	r->options.split_reasoning = r->kind == OAI_CHAT;
	TRY(oai_bool(b, "stream", &r->stream, e));
	TRY(oai_bool(b, "skip_special_tokens", &r->options.skip_special, e));
	if (options != NULL && !json_is_object(options)) return oai_expected(e, "stream_options", options, "an object");
	if (options != NULL && !r->stream) return oai_bad(e, "stream_options", "needs stream true");
	nh_status s = options != NULL ? oai_bool(options, "include_usage", &r->stream_usage, e) : NH_OK;
	return s == NH_OK ? parse_logprobs(r, e) : s;
}

static nh_status list_ignored(oai_request *r, oai_error *e)
{
	const char *key;
	json_t *v;
	json_object_foreach(r->body, key, v)
	{
		bool effort = strcmp(key, "reasoning_effort") == 0 && (r->no_thinking || json_is_null(v));
		if (oai_is_known(key, kind_bit(r->kind)) || effort) continue;
		if (r->ignored.len > 2000) break;
		buf_printf(&r->ignored, "%s%.60s", r->ignored.len > 0 ? ", " : "", key);
	}
	if (r->ignored.failed) return oai_nomem(e);
	if (r->ignored.len > 0) err_clean(r->ignored.data);
	return NH_OK;
}

static nh_status parse(oai_request *r, const nh_sampling_defaults *defaults, oai_error *e)
{
	const json_t *model = oai_member(r->body, "model");
	if (!json_is_object(r->body)) return oai_expected(e, NULL, r->body, "a JSON object");
	if (model != NULL && !json_is_string(model)) return oai_expected(e, "model", model, "a string");
	r->model = json_string_value(model);
	TRY(oai_check_unserved(r->body, kind_bit(r->kind), e));
	TRY(r->kind == OAI_CHAT ? parse_chat(r, e) : parse_prompt(r, e));
	TRY(parse_sampling(r, defaults, e));
	TRY(parse_bias(r, e));
	TRY(parse_lengths(r, e));
	TRY(parse_output(r, e));
	return list_ignored(r, e);
}

nh_status oai_request_parse(oai_request **out, oai_kind kind, json_t *body, const nh_sampling_defaults *defaults, oai_error *e)
{
	*out = NULL;
	oai_request *r = mem_alloc(sizeof *r);
	if (r == NULL) return oai_nomem(e);
	r->kind = kind;
	r->body = json_incref(body);
	nh_request_options_init(&r->options, sizeof r->options);
	nh_status s = parse(r, defaults, e);
	if (s == NH_OK) *out = r;
	else oai_request_free(r);
	return s;
}

void oai_request_free(oai_request *r)
{
	if (r == NULL) return;
	json_decref(r->body);
	mem_free(r->stop);
	mem_free(r->end_ids);
	mem_free(r->allowed);
	mem_free(r->bias);
	buf_deinit(&r->ignored);
	mem_free(r);
}
