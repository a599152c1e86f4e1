/* SPDX-License-Identifier: Apache-2.0
 * reasoning.c: see reasoning.h. `held` is short (a tag's beginning and white space before it), unless the text is all white space.
 */
#include "chat/reasoning.h"

#include <string.h>

#include "base/base_mem.h"

static bool blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

void reasoning_init(reasoning_split *r, bool starts_inside, const char *open, const char *close, reasoning_fn fn, void *user)
{
	*r = (reasoning_split){.open = open, .close = close, .fn = fn, .user = user};
	r->state = starts_inside ? REASONING_MAY_REOPEN : REASONING_MAY_OPEN;
}

void reasoning_deinit(reasoning_split *r)
{
	buf_deinit(&r->held);
	r->fn = NULL;
}

static void drop(buf *b, size_t n)
{
	if (n == 0) return;
	memmove(b->data, b->data + n, b->len - n);
	b->len -= n;
	b->data[b->len] = 0;
}

/* Gives out the first n held bytes. */
static void emit(reasoning_split *r, reasoning_kind kind, size_t n)
{
	if (n) r->fn(r->user, kind, r->held.data, n);
	drop(&r->held, n);
}

/* Length of the longest end of s that is a beginning of tag, but not all of it. */
static size_t cut_tag(const char *s, size_t n, const char *tag)
{
	size_t k = strlen(tag);
	k = k > 0 ? k - 1 : 0;
	if (k > n) k = n;
	while (k > 0 && memcmp(s + n - k, tag, k) != 0) k--;
	return k;
}

/* At the start: white space, then perhaps the open tag. True when the state moved on. */
static bool at_start(reasoning_split *r, bool over)
{
	size_t space = 0, tag = strlen(r->open), n = r->held.len;
	while (space < n && blank(r->held.data[space])) space++;
	size_t have = n - space < tag ? n - space : tag;
	bool fits = memcmp(r->held.data + space, r->open, have) == 0;
	if (fits && have == tag) {
		drop(&r->held, space + tag);
		r->state = REASONING_OPENED;
		return true;
	}
	if (fits && !over) return false;
	r->state = r->state == REASONING_MAY_OPEN ? REASONING_AFTER : REASONING_INSIDE;
	return true;
}

static bool inside(reasoning_split *r, bool over)
{
	size_t n = r->held.len, tag = strlen(r->close), keep;
	const char *hit = tag && n ? memmem(r->held.data, n, r->close, tag) : NULL;
	if (hit) n = (size_t)(hit - r->held.data);
	keep = hit || over ? 0 : cut_tag(r->held.data, n, r->close);
	size_t show = n - keep;
	while (show > 0 && blank(r->held.data[show - 1])) show--;
	emit(r, REASONING_THOUGHT, show);
	if (!hit && !over) return false;
	drop(&r->held, n - show + (hit ? tag : 0));
	r->state = REASONING_CLOSED;
	return true;
}

static void run(reasoning_split *r, bool over)
{
	bool moved = true;
	while (moved && r->held.len > 0) {
		moved = false;
		switch (r->state) {
		case REASONING_MAY_OPEN:
		case REASONING_MAY_REOPEN: moved = at_start(r, over); break;
		case REASONING_INSIDE: moved = inside(r, over); break;
		case REASONING_OPENED:
		case REASONING_CLOSED: {
			size_t lines = 0;
			while (lines < r->held.len && (r->held.data[lines] == '\n' || r->held.data[lines] == '\r')) lines++;
			drop(&r->held, lines);
			if (r->held.len) r->state = r->state == REASONING_OPENED ? REASONING_INSIDE : REASONING_AFTER, moved = true;
			break;
		}
		case REASONING_AFTER: emit(r, REASONING_ANSWER, r->held.len); break;
		}
	}
}

nh_status reasoning_push(reasoning_split *r, const char *text, size_t len, nh_error *e)
{
	buf_append(&r->held, text, len);
	if (r->held.failed) return ERR_NOMEM(e);
	run(r, false);
	return NH_OK;
}

nh_status reasoning_finish(reasoning_split *r, nh_error *e)
{
	if (r->held.failed) return ERR_NOMEM(e);
	run(r, true);
	return NH_OK;
}

bool reasoning_starts_inside(const char *prompt, size_t len, const char *open)
{
	size_t tag = strlen(open);
	while (len > 0 && blank(prompt[len - 1])) len--;
	return tag > 0 && len >= tag && memcmp(prompt + len - tag, open, tag) == 0;
}
