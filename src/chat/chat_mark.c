/* SPDX-License-Identifier: Apache-2.0
 * chat_mark.c: see chat_mark.h. Templates cut, trim and search what they are given, so marks can not be put around a message; they are put where a
 * special token would begin, as a character that nothing else in the prompt is, and a prompt that differs in anything but them is not used.
 */
#include "chat/chat_mark.h"

#include <string.h>

/* The characters U+FDD0 to U+FDEF stand for nothing, by Unicode's promise; one that is not in use is the mark while rendering. */
#define MARK_BYTES 3
#define MARK_COUNT 32

static unsigned mark_at(const char *text, size_t len)
{
	if (len < MARK_BYTES || memcmp(text, "\xEF\xB7", 2) != 0) return MARK_COUNT;
	unsigned n = (unsigned)(uint8_t)text[2] - 0x90u;
	return n < MARK_COUNT ? n : MARK_COUNT;
}

typedef struct marker {
	const tokenizer *tok;
	tok_reads most;  /* how much any text reads like a special token */
	tok_reads least; /* what is marked */
	uint32_t used;   /* characters that are in use */
	char mark[MARK_BYTES + 1];
} marker;

static void look_at(marker *m, const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		unsigned n = mark_at(text + i, len - i);
		if (n < MARK_COUNT) m->used |= 1u << n;
		tok_reads r = m->most == TOK_READS_SPECIAL ? TOK_READS_PLAIN : tok_reads_special(m->tok, text + i, len - i);
		if (r > m->most) m->most = r;
	}
}

/* All texts and keys of a value. The depth is the JSON reader's limit. */
static void look(marker *m, const json_t *v) /* NOLINT(misc-no-recursion) */
{
	json_t *loose = (json_t *)(uintptr_t)v; /* iterating needs it */
	if (json_is_string(v)) look_at(m, json_string_value(v), json_string_length(v));
	for (size_t i = 0; i < json_array_size(v); i++) look(m, json_array_get(v, i));
	for (void *at = json_object_iter(loose); at; at = json_object_iter_next(loose, at)) {
		look_at(m, json_object_iter_key(at), json_object_iter_key_len(at));
		look(m, json_object_iter_value(at));
	}
}

static void mark_text(const marker *m, const char *text, size_t len, buf *out)
{
	for (size_t i = 0; i < len; i++) {
		if (tok_reads_special(m->tok, text + i, len - i) >= m->least) buf_str(out, m->mark);
		buf_char(out, text[i]);
	}
}

/* A marked copy; NULL: out of memory. */
static json_t *marked(const marker *m, const json_t *v) /* NOLINT(misc-no-recursion) */
{
	json_t *loose = (json_t *)(uintptr_t)v, *copy = NULL;
	buf b = {0};
	bool ok = true;
	if (json_is_string(v)) {
		mark_text(m, json_string_value(v), json_string_length(v), &b);
		copy = b.failed ? NULL : json_stringn(b.data ? b.data : "", b.len);
	} else if (json_is_array(v)) {
		copy = json_array();
		for (size_t i = 0; ok && i < json_array_size(v); i++) ok = json_array_append_new(copy, marked(m, json_array_get(v, i))) == 0;
	} else if (json_is_object(v)) {
		copy = json_object();
		for (void *at = json_object_iter(loose); ok && at; at = json_object_iter_next(loose, at)) {
			b.len = 0;
			mark_text(m, json_object_iter_key(at), json_object_iter_key_len(at), &b);
			ok = !b.failed && json_object_setn_new(copy, b.data ? b.data : "", b.len, marked(m, json_object_iter_value(at))) == 0;
		}
	} else {
		copy = json_incref(loose);
	}
	buf_deinit(&b);
	if (ok) return copy;
	json_decref(copy);
	return NULL;
}

static const char *const WRITTEN[] = {"messages", "tools", "documents"};

static json_t *marked_request(const marker *m, const json_t *request)
{
	json_t *copy = json_copy((json_t *)(uintptr_t)request);
	bool ok = copy != NULL;
	for (size_t i = 0; ok && i < sizeof WRITTEN / sizeof *WRITTEN; i++) {
		const json_t *v = json_object_get(request, WRITTEN[i]);
		if (v) ok = json_object_set_new(copy, WRITTEN[i], marked(m, v)) == 0;
	}
	if (ok) return copy;
	json_decref(copy);
	return NULL;
}

/* The marked prompt with its marks as TOK_MARK; false where it differs from the plain one in anything else. */
static bool same_but_marks(const marker *m, const buf *with, const buf *plain, buf *out)
{
	size_t k = 0;
	for (size_t i = 0; i < with->len;) {
		if (with->len - i >= MARK_BYTES && memcmp(with->data + i, m->mark, MARK_BYTES) == 0) {
			buf_char(out, TOK_MARK);
			i += MARK_BYTES;
			continue;
		}
		if (k == plain->len || plain->data[k++] != with->data[i]) return false;
		buf_char(out, with->data[i++]);
	}
	return k == plain->len;
}

/* Renders once more; *same: `out` got the marked prompt, otherwise it is as before. */
static nh_status try_marks(const marker *m, const chat_template *t, const json_t *request, const chat_tokens *special, int64_t now_seconds,
    const buf *plain, buf *out, bool *same, nh_error *e)
{
	buf with = {0};
	nh_error why = {0}; /* of the marks, most likely */
	size_t len = out->len;
	*same = false;
	json_t *copy = marked_request(m, request);
	if (!copy) return ERR_NOMEM(e);
	nh_status s = chat_render(t, copy, special, now_seconds, &with, &why);
	json_decref(copy);
	if (s == NH_OK) *same = same_but_marks(m, &with, plain, out);
	buf_deinit(&with);
	if (!*same) out->len = len;
	if (s == NH_ERR_NOMEM || out->failed) return ERR_NOMEM(e);
	if (s == NH_ERR_LIMIT && e) *e = why;
	return s == NH_ERR_LIMIT ? s : NH_OK;
}

static nh_status mark(marker *m, const chat_template *t, const json_t *request, const chat_tokens *special, int64_t now_seconds,
    const buf *plain, buf *out, nh_error *e)
{
	unsigned n = 0;
	bool same = false;
	while (n < MARK_COUNT && (m->used >> n & 1u)) n++;
	if (n == MARK_COUNT)
		return ERR(e, NH_ERR_UNSUPPORTED, "request: all of U+FDD0 to U+FDEF are in it, expected one that is free to mark with");
	memcpy(m->mark, (char[]){'\xEF', '\xB7', (char)(0x90 + n), 0}, sizeof m->mark);
	for (m->least = TOK_READS_PART; !same && m->least <= m->most; m->least++)
		TRY(try_marks(m, t, request, special, now_seconds, plain, out, &same, e));
	if (same) return NH_OK;
	if (m->most == TOK_READS_SPECIAL)
		return ERR(e, NH_ERR_UNSUPPORTED,
		    "request: a message has the text of a control token, and the chat template does more with it than print it: it can not be kept "
		    "apart "
		    "from a control token");
	buf_append(out, plain->data, plain->len);
	return out->failed ? ERR_NOMEM(e) : NH_OK;
}

nh_status chat_render_marked(const chat_template *t, const json_t *request, const chat_tokens *special, int64_t now_seconds,
    const tokenizer *tok, buf *out, nh_error *e)
{
	marker m = {.tok = tok};
	buf plain = {0};
	size_t len = out->len;
	nh_status s = chat_render(t, request, special, now_seconds, &plain, e);
	if (s == NH_OK) {
		for (size_t i = 0; i < sizeof WRITTEN / sizeof *WRITTEN; i++) look(&m, json_object_get(request, WRITTEN[i]));
		if (m.most == TOK_READS_PLAIN) buf_append(out, plain.data ? plain.data : "", plain.len);
		else {
			tok_reads most = m.most;
			look_at(&m, plain.data ? plain.data : "", plain.len); /* for the characters that it uses */
			m.most = most;
			s = mark(&m, t, request, special, now_seconds, &plain, out, e);
		}
		if (s == NH_OK && out->failed) s = ERR_NOMEM(e);
	}
	if (s != NH_OK) out->len = len;
	buf_deinit(&plain);
	return s;
}
