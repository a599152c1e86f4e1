/* SPDX-License-Identifier: Apache-2.0
 * oai_reply.c: choices that collect events. A stream would take a choice's collection after each event; a whole reply takes it at
 * the end: one path. Breaks first: numbers of usage count each prompt once, and each choice's tokens.
 */
#include "dialect/oai_reply.h"

#include <string.h>

#include "base/base_mem.h"
#include "dialect/oai_logprobs.h"

typedef struct choice {
	buf reasoning, content; /* own */
	oai_logprobs logprobs;  /* own */
	int32_t finish;         /* nh_finish; NONE while it runs */
	uint64_t tokens, reasoning_tokens;
} choice;

struct oai_reply {
	const oai_request *request;    /* borrow */
	const char *id, *model;        /* borrow */
	const nh_tokenizer *tokenizer; /* borrow */
	int64_t created;
	choice *choices; /* own [count] */
	size_t count, ended;
	uint64_t prompt_tokens, cached_tokens;
};

nh_status oai_reply_open(oai_reply **out, const oai_request *request, const char *id, int64_t created, const char *model,
    const nh_tokenizer *tokenizer, oai_error *e)
{
	*out = NULL;
	oai_reply *r = mem_alloc(sizeof *r);
	if (r == NULL) return oai_nomem(e);
	*r = (oai_reply){.request = request,
	    .id = id,
	    .model = request->model != NULL ? request->model : model,
	    .tokenizer = tokenizer,
	    .created = created,
	    .count = request->prompts * (size_t)request->n};
	r->choices = mem_array(r->count, sizeof *r->choices);
	bool ok = r->choices != NULL;
	for (size_t i = 0; ok && request->logprobs >= 0 && i < r->count; i++)
		ok = oai_logprobs_init(&r->choices[i].logprobs, request->kind == OAI_CHAT, request->logprobs);
	if (!ok) {
		oai_reply_close(r);
		return oai_nomem(e);
	}
	*out = r;
	return NH_OK;
}

void oai_reply_close(oai_reply *r)
{
	if (r == NULL) return;
	for (size_t i = 0; r->choices != NULL && i < r->count; i++) {
		buf_deinit(&r->choices[i].reasoning);
		buf_deinit(&r->choices[i].content);
		oai_logprobs_deinit(&r->choices[i].logprobs);
	}
	mem_free(r->choices);
	mem_free(r);
}

/* The choices of a prompt. */
static choice *choices_of(const oai_reply *r, size_t index) { return r->choices + index * (size_t)r->request->n; }

nh_status oai_reply_prompt(oai_reply *r, size_t index, const oai_prompt *prompt, oai_error *e)
{
	r->prompt_tokens += prompt->count;
	if (!r->request->echo) return NH_OK;
	nh_error error = {0};
	const json_t *given = r->request->prompt;
	if (json_is_string(json_array_get(given, 0))) given = json_array_get(given, index);
	const char *text = json_string_value(given);
	char *own = NULL;
	size_t len = json_string_length(given);
	if (text == NULL) {
		nh_status s = nh_detokenize(r->tokenizer, prompt->ids, prompt->count, r->request->options.skip_special, &own, &len, &error);
		if (s != NH_OK) return oai_error_from(e, s, &error, "prompt");
		text = own;
	}
	bool failed = false;
	for (int32_t i = 0; i < r->request->n; i++) {
		choice *c = choices_of(r, index) + i;
		buf_append(&c->content, text, len);
		failed |= c->content.failed;
	}
	nh_free(own);
	return failed ? oai_nomem(e) : NH_OK;
}

static bool add_logprobs(oai_reply *r, size_t index, choice *c, const nh_event *ev)
{
	if (r->request->logprobs < 0) return true;
	if (ev->type == NH_EVENT_TOKEN) return ev->end_token || oai_logprobs_add(&c->logprobs, r->tokenizer, ev);
	bool ok = true; /* the prompt is common to its choices */
	for (int32_t i = 0; i < r->request->n; i++) ok = ok && oai_logprobs_add(&choices_of(r, index)[i].logprobs, r->tokenizer, ev);
	return ok;
}

static nh_status finish(oai_reply *r, choice *c, const nh_event *ev, oai_error *e)
{
	if (ev->finish == NH_FINISH_CANCELLED) return oai_error_from(e, NH_ERR_CANCELLED, NULL, NULL);
	if (c->finish == NH_FINISH_NONE) r->ended++;
	c->finish = ev->finish;
	c->tokens = ev->stats.generated_tokens;
	c->reasoning_tokens = ev->stats.reasoning_tokens;
	if (ev->choice == 0) r->cached_tokens += ev->stats.reused_tokens;
	return NH_OK;
}

nh_status oai_reply_event(oai_reply *r, size_t index, const nh_event *ev, oai_error *e)
{
	if (ev->type == NH_EVENT_ERROR) return oai_error_from(e, (nh_status)ev->error.code, &ev->error, NULL);
	if (ev->choice < 0 || ev->choice >= r->request->n || index >= r->request->prompts)
		return oai_error_from(e, NH_ERR_INTERNAL, NULL, NULL);
	choice *c = choices_of(r, index) + ev->choice;
	bool ok = true;
	if (ev->type == NH_EVENT_PROMPT || ev->type == NH_EVENT_TOKEN) ok = add_logprobs(r, index, c, ev);
	if (ev->type == NH_EVENT_TOKEN || ev->type == NH_EVENT_DONE) {
		buf_append(&c->reasoning, ev->reasoning, ev->reasoning_bytes);
		buf_append(&c->content, ev->content, ev->content_bytes);
	}
	if (!ok || c->reasoning.failed || c->content.failed) return oai_nomem(e);
	return ev->type == NH_EVENT_DONE ? finish(r, c, ev, e) : NH_OK;
}

bool oai_reply_prompt_done(const oai_reply *r, size_t index)
{
	for (int32_t i = 0; i < r->request->n; i++)
		if (choices_of(r, index)[i].finish == NH_FINISH_NONE) return false;
	return true;
}

bool oai_reply_done(const oai_reply *r) { return r->ended == r->count; }

oai_usage oai_reply_usage(const oai_reply *r)
{
	oai_usage u = {.prompt = r->prompt_tokens, .cached = r->cached_tokens};
	for (size_t i = 0; i < r->count; i++) {
		u.completion += r->choices[i].tokens;
		u.reasoning += r->choices[i].reasoning_tokens;
	}
	return u;
}

static const char *finish_word(int32_t finish) { return finish == NH_FINISH_END || finish == NH_FINISH_STOP ? "stop" : "length"; }

static json_t *text_of(const buf *b) { return json_stringn(b->data != NULL ? b->data : "", b->len); }

static json_t *chat_message(const oai_reply *r, const choice *c)
{
	/* All tokens went into the thought: there is no answer, which is not the same as an empty one. */
	bool none = c->content.len == 0 && c->reasoning.len > 0 && strcmp(finish_word(c->finish), "length") == 0;
	json_t *m = json_pack("{s:s, s:o}", "role", "assistant", "content", none ? json_null() : text_of(&c->content));
	if (r->request->include_reasoning)
		json_object_set_new(m, "reasoning_content", c->reasoning.len > 0 ? text_of(&c->reasoning) : json_null());
	return m;
}

static json_t *choice_body(oai_reply *r, size_t index)
{
	choice *c = &r->choices[index];
	json_t *logprobs = r->request->logprobs >= 0 ? oai_logprobs_take(&c->logprobs) : json_null();
	bool chat = r->request->kind == OAI_CHAT;
	return json_pack("{s:I, s:o, s:o, s:s}", "index", (json_int_t)index, chat ? "message" : "text",
	    chat ? chat_message(r, c) : text_of(&c->content), "logprobs", logprobs, "finish_reason", finish_word(c->finish));
}

json_t *oai_reply_body(oai_reply *r)
{
	oai_usage u = oai_reply_usage(r);
	json_t *choices = json_array();
	bool ok = choices != NULL;
	for (size_t i = 0; ok && i < r->count; i++) ok = json_array_append_new(choices, choice_body(r, i)) == 0;
	json_t *usage = json_pack("{s:I, s:I, s:I, s:{s:I}, s:{s:I}}", "prompt_tokens", (json_int_t)u.prompt, "completion_tokens",
	    (json_int_t)u.completion, "total_tokens", (json_int_t)u.prompt + (json_int_t)u.completion, "completion_tokens_details",
	    "reasoning_tokens", (json_int_t)u.reasoning, "prompt_tokens_details", "cached_tokens", (json_int_t)u.cached);
	if (!ok || usage == NULL) {
		json_decref(choices);
		json_decref(usage);
		return NULL;
	}
	return json_pack("{s:s, s:s, s:I, s:s, s:o, s:o}", "id", r->id, "object",
	    r->request->kind == OAI_CHAT ? "chat.completion" : "text_completion", "created", (json_int_t)r->created, "model", r->model,
	    "choices", choices, "usage", usage);
}
