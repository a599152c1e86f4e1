/* SPDX-License-Identifier: Apache-2.0
 * chat_request.c: see chat_request.h. Requests are never changed: what differs is built anew and shares the rest by reference.
 */
#include "chat/chat_request.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/base_json.h"

static nh_status wrong(const json_t *v, const char *expected, nh_error *e, const char *format, ...) BASE_PRINTF(4, 5);

static nh_status wrong(const json_t *v, const char *expected, nh_error *e, const char *format, ...)
{
	char found[64], where[120];
	va_list args;
	va_start(args, format);
	vsnprintf(where, sizeof where, format, args);
	va_end(args);
	jsn_brief(v, found);
	return ERR(e, NH_ERR_ARG, "request: %s: is %s, expected %s", where, found, expected);
}

static const json_t *present(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);
	return v && !json_is_null(v) ? v : NULL;
}

/* Iterating needs non-const objects though it changes nothing. */
static json_t *loose(const json_t *v) { return (json_t *)(uintptr_t)v; }

/* Puts a shared reference under a key, key bytes and all; false when out of memory. */
static bool put(json_t *o, const char *key, size_t len, const json_t *v)
{
	return json_object_setn_new(o, key, len, json_incref(loose(v))) == 0;
}

static nh_status check_list(const json_t *request, const char *key, nh_error *e)
{
	const json_t *list = present(request, key);
	if (!list) return NH_OK;
	if (!json_is_array(list)) return wrong(list, "a list of objects", e, "%s", key);
	for (size_t i = 0; i < json_array_size(list); i++)
		if (!json_is_object(json_array_get(list, i))) return wrong(json_array_get(list, i), "an object", e, "%s[%zu]", key, i);
	return NH_OK;
}

static nh_status check(const json_t *request, nh_error *e)
{
	if (!json_is_object(request)) return wrong(request, "an object", e, "the whole");
	const json_t *messages = json_object_get(request, "messages"), *kwargs = present(request, "chat_template_kwargs");
	if (!json_is_array(messages)) return wrong(messages, "a list of messages", e, "messages");
	if (json_array_size(messages) == 0)
		return ERR(e, NH_ERR_ARG, "request: messages: Cannot apply chat template to an empty conversation. Provide at least one message.");
	for (size_t i = 0; i < json_array_size(messages); i++) {
		const json_t *m = json_array_get(messages, i);
		if (!json_is_object(m)) return wrong(m, "an object", e, "messages[%zu]", i);
		if (!json_is_string(json_object_get(m, "role"))) return wrong(json_object_get(m, "role"), "a string", e, "messages[%zu].role", i);
	}
	TRY(check_list(request, "tools", e));
	TRY(check_list(request, "documents", e));
	const json_t *generate = present(request, "add_generation_prompt"), *go_on = present(request, "continue_final_message");
	if (generate && !json_is_boolean(generate)) return wrong(generate, "true or false", e, "add_generation_prompt");
	if (go_on && !json_is_false(go_on)) return wrong(go_on, "false: continuing a message is not supported", e, "continue_final_message");
	if (kwargs && !json_is_object(kwargs)) return wrong(kwargs, "an object", e, "chat_template_kwargs");
	static const char *const TAKEN[] = {"messages", "tools", "documents", "add_generation_prompt"};
	for (size_t i = 0; i < sizeof TAKEN / sizeof *TAKEN; i++)
		if (json_object_get(kwargs, TAKEN[i]))
			return ERR(e, NH_ERR_ARG, "request: chat_template_kwargs: %s belongs to the request itself", TAKEN[i]);
	return NH_OK;
}

/* A message without its nulls and with its reasoning under both names that templates read; NULL when out of memory. */
static json_t *prepared_message(const json_t *m)
{
	static const char *const NAMES[] = {"reasoning_content", "thinking", "reasoning"};
	const json_t *reasoning = NULL;
	for (size_t i = 0; !reasoning && i < 3; i++) reasoning = present(m, NAMES[i]);
	json_t *copy = json_object();
	bool ok = copy && (!reasoning || put(copy, "thinking", 8, reasoning));
	for (void *at = json_object_iter(loose(m)); ok && at; at = json_object_iter_next(loose(m), at)) {
		const json_t *v = json_object_iter_value(at);
		if (!json_is_null(v)) ok = put(copy, json_object_iter_key(at), json_object_iter_key_len(at), v);
	}
	if (ok && (!reasoning || put(copy, "reasoning_content", 17, reasoning))) return copy;
	json_decref(copy);
	return NULL;
}

static bool put_token(json_t *vars, const char *key, const char *text)
{
	return !text || json_object_set_new(vars, key, json_string(text)) == 0;
}

static json_t *variables(const json_t *request, const chat_tokens *special)
{
	json_t *vars = json_object(), *list = json_array();
	const json_t *messages = json_object_get(request, "messages"), *tools = json_object_get(request, "tools");
	const json_t *documents = json_object_get(request, "documents"), *kwargs = present(request, "chat_template_kwargs");
	bool ok = vars && list;
	for (size_t i = 0; ok && i < json_array_size(messages); i++)
		ok = json_array_append_new(list, prepared_message(json_array_get(messages, i))) == 0;
	if (ok && special)
		ok = put_token(vars, "bos_token", special->bos) && put_token(vars, "eos_token", special->eos) &&
		     put_token(vars, "unk_token", special->unk) && put_token(vars, "pad_token", special->pad);
	for (void *at = json_object_iter(loose(kwargs)); ok && at; at = json_object_iter_next(loose(kwargs), at))
		ok = put(vars, json_object_iter_key(at), json_object_iter_key_len(at), json_object_iter_value(at));
	ok = ok && put(vars, "messages", 8, list) && json_object_set_new(vars, "tools", tools ? json_incref(loose(tools)) : json_null()) == 0 &&
	     json_object_set_new(vars, "documents", documents ? json_incref(loose(documents)) : json_null()) == 0 &&
	     json_object_set_new(
	         vars, "add_generation_prompt", json_boolean(!json_is_false(json_object_get(request, "add_generation_prompt")))) == 0;
	json_decref(list);
	if (ok) return vars;
	json_decref(vars);
	return NULL;
}

nh_status chat_render(const chat_template *t, const json_t *request, const chat_tokens *special, int64_t now_seconds, buf *out, nh_error *e)
{
	TRY(check(request, e));
	json_t *vars = variables(request, special);
	if (!vars) return ERR_NOMEM(e);
	const template_limits limits = {.now_seconds = now_seconds, .has_now = now_seconds >= 0};
	nh_status s = template_render(t, vars, &limits, out, e);
	json_decref(vars);
	return s;
}

/* ---- adapting ---- */

static nh_status parse_arguments(json_t *call, size_t message, size_t index, nh_error *e)
{
	json_t *function = json_object_get(call, "function"), *target = json_is_object(function) ? function : call;
	const json_t *arguments = json_object_get(target, "arguments");
	char where[100];
	snprintf(where, sizeof where, "request: messages[%zu].tool_calls[%zu].function.arguments", message, index);
	if (!json_is_string(arguments)) return NH_OK;
	json_t *parsed = NULL;
	if (json_string_length(arguments) == 0) parsed = json_object();
	else {
		nh_status s = jsn_load_text(&parsed, json_string_value(arguments), json_string_length(arguments), where, e);
		if (s != NH_OK && s != NH_ERR_NOMEM) {
			err_prefix(e, NH_ERR_ARG, "tool call arguments must be a JSON object");
			if (e) e->code = NH_ERR_ARG;
			return NH_ERR_ARG;
		}
	}
	if (!parsed) return ERR_NOMEM(e);
	if (!json_is_object(parsed)) {
		json_decref(parsed);
		return ERR(e, NH_ERR_ARG, "%s: is a JSON text, but not of an object", where);
	}
	return json_object_set_new(target, "arguments", parsed) == 0 ? NH_OK : ERR_NOMEM(e);
}

static nh_status join_parts(json_t *message, size_t index, nh_error *e)
{
	const json_t *parts = json_object_get(message, "content");
	if (!json_is_array(parts)) return NH_OK;
	buf b = {0};
	for (size_t i = 0; i < json_array_size(parts); i++) {
		const json_t *part = json_array_get(parts, i), *text = json_is_string(part) ? part : json_object_get(part, "text");
		const json_t *type = json_object_get(part, "type");
		const char *kind = json_string_value(type);
		bool is_text = json_is_string(part) || !type || (kind && (strcmp(kind, "text") == 0 || strcmp(kind, "input_text") == 0));
		if (!is_text || !json_is_string(text)) {
			char found[64];
			jsn_brief(part, found);
			buf_deinit(&b);
			return ERR(e, NH_ERR_UNSUPPORTED,
			    "request: messages[%zu].content[%zu]: is %s, expected a text part: the template takes text only", index, i, found);
		}
		if (i) buf_char(&b, '\n');
		buf_append(&b, json_string_value(text), json_string_length(text));
	}
	json_t *joined = b.failed ? NULL : json_stringn(b.data ? b.data : "", b.len);
	buf_deinit(&b);
	return joined && json_object_set_new(message, "content", joined) == 0 ? NH_OK : ERR_NOMEM(e);
}

nh_status chat_adapt(const chat_template *t, const json_t *request, json_t **out, nh_error *e)
{
	*out = NULL;
	TRY(check(request, e));
	json_t *copy = json_deep_copy(request);
	if (!copy) return ERR_NOMEM(e);
	json_t *messages = json_object_get(copy, "messages"), *kwargs = json_object_get(copy, "chat_template_kwargs");
	bool walks = template_walks(t, "content");
	nh_status s = NH_OK;
	for (size_t i = 0; s == NH_OK && i < json_array_size(messages); i++) {
		json_t *m = json_array_get(messages, i), *calls = json_object_get(m, "tool_calls");
		if (!walks) s = join_parts(m, i, e);
		for (size_t k = 0; s == NH_OK && k < json_array_size(calls); k++) s = parse_arguments(json_array_get(calls, k), i, k, e);
	}
	static const char SELF[] = "chat_template_kwargs";
	if (s == NH_OK && json_object_size(kwargs) > 0 && !json_object_get(kwargs, SELF) && template_reads(t, SELF)) {
		json_t *inner = json_copy(kwargs); /* a copy, so that nothing holds itself */
		if (!inner || json_object_set_new(kwargs, SELF, inner) != 0) s = ERR_NOMEM(e);
	}
	if (s == NH_OK) *out = copy;
	else json_decref(copy);
	return s;
}
