/* SPDX-License-Identifier: Apache-2.0
 * stop.c: one Knuth-Morris-Pratt matcher a stop string, so that each byte costs the same however the text repeats. The matchers' states say exactly
 * how much must be held back. What breaks first: held.len, which is the largest state after every push.
 */
#include "chat/stop.h"

#include <string.h>

#include "base/base_mem.h"

struct stop_one {
	char *text;     /* own */
	uint16_t *back; /* own: for each length, the next shorter beginning that is also an end */
	size_t len, at; /* bytes; bytes matched */
};

static nh_status prepare(struct stop_one *s, const char *text, nh_error *e)
{
	s->len = strlen(text);
	if (s->len == 0) return ERR(e, NH_ERR_ARG, "stop: is an empty string, expected text");
	if (s->len > STOP_MAX_BYTES) return ERR(e, NH_ERR_ARG, "stop: has %zu bytes, expected at most %d", s->len, STOP_MAX_BYTES);
	s->text = mem_strdup(text);
	s->back = mem_array(s->len + 1, sizeof *s->back);
	if (!s->text || !s->back) return ERR_NOMEM(e);
	for (size_t i = 1, k = 0; i < s->len; i++) {
		while (k > 0 && text[i] != text[k]) k = s->back[k];
		k += text[i] == text[k];
		s->back[i + 1] = (uint16_t)k;
	}
	return NH_OK;
}

nh_status stop_init(stop_filter *f, const char *const *stops, size_t count, bool include, nh_error *e)
{
	*f = (stop_filter){.include = include, .found = -1};
	if (count > STOP_MAX_COUNT) return ERR(e, NH_ERR_ARG, "stop: has %zu strings, expected at most %d", count, STOP_MAX_COUNT);
	f->stops = mem_array(count ? count : 1, sizeof *f->stops);
	nh_status s = f->stops ? NH_OK : ERR_NOMEM(e);
	for (; s == NH_OK && f->count < count; f->count++) s = prepare(&f->stops[f->count], stops[f->count], e);
	if (s != NH_OK) stop_deinit(f);
	return s;
}

void stop_deinit(stop_filter *f)
{
	for (size_t i = 0; i < f->count; i++) {
		mem_free(f->stops[i].text);
		mem_free(f->stops[i].back);
	}
	mem_free(f->stops);
	buf_deinit(&f->held);
	*f = (stop_filter){.found = -1};
}

/* Feeds one byte; the index of the longest stop that it completes, or -1. */
static int feed(stop_filter *f, char c)
{
	int hit = -1;
	for (size_t i = 0; i < f->count; i++) {
		struct stop_one *s = &f->stops[i];
		while (s->at > 0 && s->text[s->at] != c) s->at = s->back[s->at];
		s->at += s->text[s->at] == c;
		if (s->at == s->len && (hit < 0 || s->len > f->stops[hit].len)) hit = (int)i;
	}
	return hit;
}

/* Gives out all but the last `keep` held bytes. */
static void give(stop_filter *f, size_t keep, buf *out)
{
	size_t n = f->held.len - keep;
	if (n == 0) return;
	buf_append(out, f->held.data, n);
	memmove(f->held.data, f->held.data + n, keep);
	f->held.len = keep;
	f->held.data[keep] = 0;
}

nh_status stop_push(stop_filter *f, const char *text, size_t len, buf *out, nh_error *e)
{
	if (f->found >= 0) return NH_OK;
	size_t n = 0, keep = 0;
	while (n < len && f->found < 0) f->found = feed(f, text[n++]);
	buf_append(&f->held, text, n);
	if (f->held.failed) return ERR_NOMEM(e);
	for (size_t i = 0; i < f->count; i++)
		if (f->stops[i].at > keep) keep = f->stops[i].at;
	if (f->found < 0) {
		give(f, keep, out);
	} else {
		give(f, f->include ? 0 : f->stops[f->found].len, out);
		f->held.len = 0;
	}
	return out->failed ? ERR_NOMEM(e) : NH_OK;
}

nh_status stop_finish(stop_filter *f, buf *out, nh_error *e)
{
	if (f->held.failed) return ERR_NOMEM(e);
	if (f->found < 0) give(f, 0, out);
	return out->failed ? ERR_NOMEM(e) : NH_OK;
}
