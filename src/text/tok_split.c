/* SPDX-License-Identifier: Apache-2.0
 * tok_split.c: the pre-tokenizer: each step cuts every piece of the step before, on its own, so that a lookahead sees the piece's end.
 * Text and subject (the text with stand-ins, what regexes see) have the same offsets at every level.
 */
#include <string.h>

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

static nh_status cut(tok_call *c, size_t n, const char *text, const char *subject, size_t len, tok_text_fn word)
{
	const tok_step *step = &c->t->steps[n];
	cutter k = {.c = c, .next = n + 1, .text = text, .subject = subject, .word = word, .behavior = step->behavior};
	size_t from = 0, done = 0, last_end = SIZE_MAX;
	bool found = true;
	while (from <= len) {
		size_t start, end;
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
