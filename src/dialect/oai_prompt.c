/* SPDX-License-Identifier: Apache-2.0
 * oai_prompt.c: from messages or a prompt to token ids. Of a chat request only what templates may see is handed on, so that no
 * other member of a body can reach a template. Breaks first: whether the template has opened the thought is read off the end of its text.
 */
#include <stdlib.h>
#include <string.h>

#include "base/base_mem.h"
#include "dialect/oai_fields.h"
#include "dialect/oai_request.h"

static bool opens_thought(const char *text, size_t len)
{
	static const char tag[] = "<think>";
	size_t n = sizeof tag - 1;
	while (len > 0 && strchr(" \t\r\n", text[len - 1]) != NULL) len--;
	return len >= n && memcmp(text + len - n, tag, n) == 0;
}

/* The request as nh_template_render takes it; NULL when out of memory. */
static json_t *template_request(const oai_request *r)
{
	json_t *o = json_object(), *kwargs = json_object();
	const json_t *given = oai_member(r->body, "chat_template_kwargs"), *choice = oai_member(r->body, "tool_choice");
	bool no_tools = json_is_string(choice) && strcmp(json_string_value(choice), "none") == 0;
	static const char *const names[] = {"messages", "tools", "documents", "add_generation_prompt"};
	int failed = 0;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		json_t *v = json_object_get(r->body, names[i]);
		if (v == NULL || json_is_null(v) || (i == 1 && no_tools)) continue;
		failed |= json_object_set(o, names[i], v);
	}
	if (given != NULL) failed |= json_object_update(kwargs, (json_t *)(uintptr_t)given);
	if (r->no_thinking && json_object_get(kwargs, "enable_thinking") == NULL)
		failed |= json_object_set_new(kwargs, "enable_thinking", json_false());
	failed |= json_object_set_new(o, "chat_template_kwargs", kwargs);
	if (failed == 0) return o;
	json_decref(o);
	return NULL;
}

static nh_status from_chat(
    const oai_request *r, const nh_tokenizer *tokenizer, const nh_template *chat, int64_t now_seconds, oai_prompt *out, oai_error *e)
{
	nh_error error = {0};
	char *text = NULL;
	size_t len = 0;
	json_t *request = template_request(r);
	char *json = request != NULL ? json_dumps(request, JSON_COMPACT) : NULL;
	json_decref(request);
	if (json == NULL) return oai_nomem(e);
	nh_status s = r->allow_control
	                  ? nh_template_render(chat, json, strlen(json), NH_TEMPLATE_ADAPT, now_seconds, &text, &len, &error)
	                  : nh_template_render_marked(chat, tokenizer, json, strlen(json), NH_TEMPLATE_ADAPT, now_seconds, &text, &len, &error);
	free(json); /* banned-ok: comes from the JSON library */
	if (s == NH_OK) {
		out->in_reasoning = opens_thought(text, len);
		s = nh_tokenize(
		    tokenizer, text, len, NH_TOKENIZE_MARKED | (r->add_special ? NH_TOKENIZE_SPECIAL : 0), &out->ids, &out->count, &error);
	}
	nh_free(text);
	return s == NH_OK ? NH_OK : oai_error_from(e, s, &error, "messages");
}

static nh_status from_prompt(const oai_request *r, size_t index, const nh_tokenizer *tokenizer, oai_prompt *out, oai_error *e)
{
	nh_error error = {0};
	const json_t *p = r->prompt, *first = json_array_get(p, 0);
	if (json_is_string(first) || json_is_array(first)) p = json_array_get(p, index);
	if (json_is_string(p)) {
		nh_status s = nh_tokenize(tokenizer, json_string_value(p), json_string_length(p), r->add_special ? NH_TOKENIZE_SPECIAL : 0,
		    &out->ids, &out->count, &error);
		return s == NH_OK ? NH_OK : oai_error_from(e, s, &error, "prompt");
	}
	out->count = json_array_size(p);
	out->ids = mem_array(out->count, sizeof *out->ids);
	if (out->ids == NULL) return oai_nomem(e);
	for (size_t i = 0; i < out->count; i++) out->ids[i] = (int32_t)json_number_value(json_array_get(p, i));
	return NH_OK;
}

nh_status oai_prompt_make(const oai_request *r, size_t index, const nh_tokenizer *tokenizer, const nh_template *chat, int64_t now_seconds,
    oai_prompt *out, oai_error *e)
{
	*out = (oai_prompt){0};
	nh_status s = r->kind == OAI_CHAT ? from_chat(r, tokenizer, chat, now_seconds, out, e) : from_prompt(r, index, tokenizer, out, e);
	if (s == NH_OK && out->count == 0) s = oai_bad(e, r->kind == OAI_CHAT ? "messages" : "prompt", "gives no token");
	if (s != NH_OK) oai_prompt_free(out);
	return s;
}

void oai_prompt_free(oai_prompt *p)
{
	nh_free(p->ids);
	*p = (oai_prompt){0};
}
