/* SPDX-License-Identifier: Apache-2.0
 * tok_split.c: the pre-tokenizer: each step cuts every piece of the step before, on its own, so that a lookahead sees the piece's end.
 * Text and subject (the text with stand-ins, what regexes see) have the same offsets at every level.
 */
#include <string.h>

#include "base/base_mem.h"
#include "text/tok_impl.h"

/* One step on one piece. Matches and what is between them arrive in order; a held piece may still grow. */
typedef struct cutter {
	tok_call *c;
	size_t next; /* the step that the pieces go to */
	const char *text, *subject;
	tok_text_fn word;
	tok_behavior behavior;
	size_t from, to; /* held piece */
	bool holds, last_match;
} cutter;

static nh_status run_step(tok_call *c, size_t n, const char *text, const char *subject, size_t len, tok_text_fn word);

static nh_status let_go(cutter *k)
{
	bool any = k->holds && k->to > k->from;
	k->holds = false;
	return any ? run_step(k->c, k->next, k->text + k->from, k->subject + k->from, k->to - k->from, k->word) : NH_OK;
}

/* The reference folds the list of (piece, is a match) by these rules; for MergedWithNext it does so from the end, hence here a match joins what
 * follows it unless that is a match too. */
static nh_status arrive(cutter *k, size_t from, size_t to, bool match)
{
	bool joins = false;
	switch (k->behavior) {
	case TOK_ISOLATED:
	case TOK_REMOVED: break;
	case TOK_CONTIGUOUS: joins = match == k->last_match; break;
	case TOK_MERGED_PREVIOUS: joins = match && !k->last_match; break;
	case TOK_MERGED_NEXT: joins = !match && k->last_match; break;
	}
	if (k->behavior == TOK_ISOLATED) /* nothing joins: no need to hold a piece */
		return to > from ? run_step(k->c, k->next, k->text + from, k->subject + from, to - from, k->word) : NH_OK;
	k->last_match = match;
	if (joins && k->holds) {
		k->to = to;
		return NH_OK;
	}
	TRY(let_go(k));
	if (k->behavior == TOK_REMOVED && match) return NH_OK;
	k->holds = true;
	k->from = from;
	k->to = to;
	return NH_OK;
}

static nh_status next_match(
    tok_call *c, const tok_step *step, const cutter *k, size_t len, size_t from, bool *found, size_t *start, size_t *end)
{
	if (step->regex.code) return tok_regex_next(c, &step->regex, k->subject, len, from, found, start, end);
	const char *at = memmem(k->text + from, len - from, step->literal, step->literal_len);
	*found = at != NULL;
	if (!at) return NH_OK;
	*start = (size_t)(at - k->text);
	*end = *start + step->literal_len;
	return NH_OK;
}

/* ---- what was decided before ----
 * Text repeats itself. A beginning that a word and the byte behind it make up mostly decides the first piece by itself; the regex says whether it does
 * (tok_regex_sure), and is then not asked again in this call. Where the beginning ends is a guess that costs time when it is wrong, and nothing else. */

#define SURE_MOST 4096 /* beginnings; a power of two */
#define SURE_AFTER 128 /* pieces: a short text does not pay for the table */

static int kind_of(uint8_t b)
{
	if (((b | 0x20) >= 'a' && (b | 0x20) <= 'z') || b >= 0x80) return 1;
	return b >= '0' && b <= '9' ? 2 : b <= ' ' ? 3 : 4;
}

/* The length of the beginning to look up: the first byte, the run behind it of bytes of a kind, and the byte that ends it. 0: too long, or the
 * text ends before. */
static size_t beginning(const char *text, size_t len)
{
	size_t most = len < TOK_SURE_BYTES ? len : TOK_SURE_BYTES, i = 2;
	if (most < 3) return 0;
	int first = kind_of((uint8_t)text[0]), kind = kind_of((uint8_t)text[1]);
	if (first == 2 || (first != kind && first < 3)) return (uint8_t)text[1] < 0x80 && (uint8_t)text[0] < 0x80 ? 2 : 0;
	while (i < most && kind_of((uint8_t)text[i]) == kind) i++;
	return i < most && (uint8_t)text[i] < 0x80 ? i + 1 : 0;
}

static tok_sure *sure_place(tok_call *c, const char *text, size_t len)
{
	if (!c->sure) {
		if (c->pieces++ != SURE_AFTER) return NULL;
		size_t count = 64;
		while (count < SURE_MOST && count < c->text_len / 16) count *= 2;
		c->sure = mem_array(count, sizeof *c->sure);
		c->sure_mask = count - 1;
		if (!c->sure) return NULL;
	}
	return &c->sure[tok_hash(text, len) & c->sure_mask];
}

/* Deals with the piece at text where its beginning is known to decide; *piece is its length, 0: not known. */
static nh_status known_piece(tok_call *c, const tok_step *step, size_t n, const char *text, size_t len, tok_text_fn word, size_t *piece)
{
	size_t used = beginning(text, len);
	tok_sure *s = used > 0 ? sure_place(c, text, used) : NULL;
	*piece = 0;
	if (!s) return NH_OK;
	if (s->len != used || memcmp(s->bytes, text, used) != 0) {
		size_t found = 0;
		bool sure = tok_regex_sure(c, &step->regex, text, used, &found);
		size_t count = c->out->count;
		if (sure) TRY(run_step(c, n + 1, text, text, found, word));
		*s = (tok_sure){.len = (uint8_t)used, .piece = (uint8_t)(sure ? found : 0)};
		memcpy(s->bytes, text, used);
		if (sure && c->out->count == count + 1) {
			s->has_id = true;
			s->id = (uint32_t)c->out->ids[count];
		}
		*piece = s->piece;
		return NH_OK;
	}
	*piece = s->piece;
	if (s->piece == 0) return NH_OK;
	return s->has_id ? tok_emit(c, s->id) : run_step(c, n + 1, text, text, s->piece, word);
}

static nh_status cut(tok_call *c, size_t n, const char *text, const char *subject, size_t len, tok_text_fn word)
{
	const tok_step *step = &c->t->steps[n];
	cutter k = {.c = c, .next = n + 1, .text = text, .subject = subject, .word = word, .behavior = step->behavior};
	size_t from = 0, done = 0, last_end = SIZE_MAX;
	bool found = true;
	/* the whole text is cut here, into pieces that become words as they are */
	bool remembers =
	    step->regex.ahead && step->behavior == TOK_ISOLATED && n + 1 == c->t->step_count && text == subject && !(c->flags & TOK_NO_MEMORY);
	while (from <= len) {
		size_t start, end;
		if (remembers && done == from) {
			TRY(known_piece(c, step, n, text + from, len - from, word, &end));
			if (end > 0) {
				from = done = last_end = from + end;
				continue;
			}
		}
		TRY(next_match(c, step, &k, len, from, &found, &start, &end));
		if (!found) break;
		if (start == end && end == last_end) { /* an empty match where the last one ended does not count: look one character on */
			size_t used = 1;
			if (end < len) uni_decode(subject + end, len - end, &used);
			from = end + used;
			continue;
		}
		if (done < start) TRY(arrive(&k, done, start, step->invert));
		TRY(arrive(&k, start, end, !step->invert));
		from = done = last_end = end;
	}
	if (done < len) TRY(arrive(&k, done, len, step->invert));
	return let_go(&k);
}

static nh_status run_step(tok_call *c, size_t n, const char *text, const char *subject, size_t len, tok_text_fn word)
{
	const tokenizer *t = c->t;
	if (n == t->prefix_at && t->prefix_space && text[0] != ' ') {
		buf *with = &c->prefixed, *with_subject = &c->prefixed_subject;
		with->len = with_subject->len = 0;
		buf_char(with, ' ');
		buf_append(with, text, len);
		if (subject != text) {
			buf_char(with_subject, ' ');
			buf_append(with_subject, subject, len);
		}
		if (with->failed || with_subject->failed) return ERR_NOMEM(c->e);
		subject = subject != text ? with_subject->data : with->data;
		text = with->data;
		len++;
	}
	return n < t->step_count ? cut(c, n, text, subject, len, word) : word(c, text, len);
}

nh_status tok_split(tok_call *c, const char *text, size_t len, tok_text_fn word)
{
	if (len == 0) return NH_OK;
	const char *subject = c->t->step_count > 0 ? uni_subject(&c->subject, text, len) : text;
	return subject ? run_step(c, 0, text, subject, len, word) : ERR_NOMEM(c->e);
}
