/* SPDX-License-Identifier: Apache-2.0
 * reasoning.h: splits generated text into thought and answer while it streams. A push filter: text goes in by any pieces, and what
 * comes out depends only on the whole. Rules: the thought ends at the first close tag; white space before that tag and newlines
 * after either tag belong to neither; an open tag counts only at the very start (after white space), so that an answer may talk about tags. Knows nothing
 * of tool calls or tokens. What breaks first: a tag cut in two by a piece's end, which must be held back, not shown.
 */
#ifndef CHAT_REASONING_H
#define CHAT_REASONING_H

#include "base/base_buf.h"

typedef enum reasoning_kind { REASONING_THOUGHT, REASONING_ANSWER } reasoning_kind;

/* Receives text of one kind; never empty, valid during the call only. */
typedef void (*reasoning_fn)(void *user, reasoning_kind kind, const char *text, size_t len);

typedef struct reasoning_split {
	const char *open, *close; /* borrow */
	reasoning_fn fn;
	void *user;
	buf held; /* own; text whose fate is open */
	enum { REASONING_MAY_OPEN, REASONING_MAY_REOPEN, REASONING_OPENED, REASONING_INSIDE, REASONING_CLOSED, REASONING_AFTER } state;
} reasoning_split;

/* starts_inside: the prompt has opened the thought already. open and close ("<think>", "</think>") must outlive the filter. */
void reasoning_init(reasoning_split *r, bool starts_inside, const char *open, const char *close, reasoning_fn fn, void *user);
nh_status reasoning_push(reasoning_split *r, const char *text, size_t len, nh_error *e); /* NH_ERR_NOMEM only */
nh_status reasoning_finish(
    reasoning_split *r, nh_error *e);      /* the text is over: gives out what was held. A thought that never closed stays thought. */
void reasoning_deinit(reasoning_split *r); /* safe on a zeroed one */

/* Whether text generated after this prompt starts inside a thought: the prompt ends with the open tag, white space aside. */
bool reasoning_starts_inside(const char *prompt, size_t len, const char *open);

#endif
