/* SPDX-License-Identifier: Apache-2.0
 * oai_logprobs.c: see the header. Breaks first: a completion's dictionary of best tokens also holds the token that was drawn, as OpenAI's does.
 */
#include "dialect/oai_logprobs.h"

#include <math.h>

static double told(double logprob) { return logprob > -9999 ? logprob : -9999; }

void oai_token_name(const nh_tokenizer *tokenizer, int32_t id, buf *out)
{
	size_t n = 0;
	const char *piece = nh_token_piece(tokenizer, id, &n);
	json_t *text = piece != NULL ? json_stringn(piece, n) : NULL; /* refuses what is no UTF-8 */
	bool plain = text != NULL;
	json_decref(text);
	if (plain) {
		buf_append(out, piece, n);
		return;
	}
	buf_str(out, "bytes:");
	for (size_t i = 0; piece != NULL && i < n; i++) buf_printf(out, "\\x%02x", (unsigned char)piece[i]);
}

bool oai_logprobs_init(oai_logprobs *l, bool chat, int32_t alternatives)
{
	*l = (oai_logprobs){.chat = chat, .alternatives = alternatives};
	if (chat) return (l->content = json_array()) != NULL;
	l->tokens = json_array();
	l->values = json_array();
	l->top = alternatives > 0 ? json_array() : NULL;
	l->offsets = json_array();
	return l->tokens != NULL && l->values != NULL && (alternatives == 0 || l->top != NULL) && l->offsets != NULL;
}

void oai_logprobs_deinit(oai_logprobs *l)
{
	json_decref(l->content);
	json_decref(l->tokens);
	json_decref(l->values);
	json_decref(l->top);
	json_decref(l->offsets);
	*l = (oai_logprobs){0};
}

/* {token, logprob, bytes}; NULL when out of memory. */
static json_t *chat_token(const nh_tokenizer *tokenizer, int32_t id, double logprob)
{
	buf name = {0};
	size_t n = 0;
	const char *piece = nh_token_piece(tokenizer, id, &n);
	oai_token_name(tokenizer, id, &name);
	json_t *bytes = json_array();
	for (size_t i = 0; piece != NULL && i < n; i++) json_array_append_new(bytes, json_integer((unsigned char)piece[i]));
	json_t *o = name.failed ? NULL : json_pack("{s:s%, s:f, s:O}", "token", name.data, name.len, "logprob", told(logprob), "bytes", bytes);
	json_decref(bytes);
	buf_deinit(&name);
	return o;
}

static size_t alternatives(const oai_logprobs *l, const nh_event *ev)
{
	size_t n = (size_t)l->alternatives;
	return ev->top_count < n ? ev->top_count : n;
}

static bool add_chat(oai_logprobs *l, const nh_tokenizer *tokenizer, const nh_event *ev)
{
	json_t *o = chat_token(tokenizer, ev->token, ev->logprob), *top = json_array();
	bool ok = true;
	for (size_t i = 0; i < alternatives(l, ev); i++)
		ok &= json_array_append_new(top, chat_token(tokenizer, ev->top[i].id, ev->top[i].logprob)) == 0;
	ok &= json_object_set_new(o, "top_logprobs", top) == 0;
	return (json_array_append_new(l->content, o) == 0) & ok;
}

static bool put(json_t *to, const nh_tokenizer *tokenizer, int32_t id, double logprob)
{
	buf name = {0};
	oai_token_name(tokenizer, id, &name);
	bool ok = !name.failed && json_object_setn_new(to, name.data, name.len, json_real(told(logprob))) == 0;
	buf_deinit(&name);
	return ok;
}

/* Bytes that start a character. */
static int64_t characters(const char *text, size_t n)
{
	int64_t count = 0;
	for (size_t i = 0; i < n; i++) count += ((unsigned char)text[i] & 0xC0) != 0x80;
	return count;
}

static bool add_completion(oai_logprobs *l, const nh_tokenizer *tokenizer, const nh_event *ev)
{
	buf name = {0};
	size_t n = 0;
	const char *piece = nh_token_piece(tokenizer, ev->token, &n);
	bool first = ev->type == NH_EVENT_PROMPT && ev->position == 0;
	oai_token_name(tokenizer, ev->token, &name);
	bool ok = !name.failed && json_array_append_new(l->tokens, json_stringn(name.data, name.len)) == 0;
	buf_deinit(&name);
	ok = ok && json_array_append_new(l->offsets, json_integer(l->offset)) == 0;
	ok = ok && json_array_append_new(l->values, first ? json_null() : json_real(told(ev->logprob))) == 0;
	if (piece != NULL) l->offset += characters(piece, n);
	if (l->top == NULL) return ok;
	json_t *best = first ? json_null() : json_object();
	for (size_t i = 0; !first && i < alternatives(l, ev); i++) ok = ok && put(best, tokenizer, ev->top[i].id, ev->top[i].logprob);
	if (!first) ok = ok && put(best, tokenizer, ev->token, ev->logprob);
	return (json_array_append_new(l->top, best) == 0) & ok;
}

bool oai_logprobs_add(oai_logprobs *l, const nh_tokenizer *tokenizer, const nh_event *ev)
{
	return l->chat ? add_chat(l, tokenizer, ev) : add_completion(l, tokenizer, ev);
}

json_t *oai_logprobs_take(oai_logprobs *l)
{
	if (l->chat) return json_pack("{s:O}", "content", l->content);
	return json_pack(
	    "{s:O, s:O, s:O?, s:O}", "tokens", l->tokens, "token_logprobs", l->values, "top_logprobs", l->top, "text_offset", l->offsets);
}
