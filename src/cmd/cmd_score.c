/* SPDX-License-Identifier: Apache-2.0
 * cmd_score.c: see cmd_score.h. Prompt log-probabilities of the public interface; nothing is generated.
 * Breaks first: a position of a window is told as the position of the text that it is.
 */
#include "cmd/cmd_score.h"

#include <stdlib.h>
#include <string.h>

#include "base/base_file.h"
#include "base/base_mem.h"

#define TEXT_LIMIT ((size_t)1 << 30) /* bytes of a text */

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

int64_t score_windows(int64_t tokens, int64_t context, int64_t stride)
{
	if (tokens < 2) return 0;
	if (tokens <= context) return 1;
	int64_t n = 1 + (tokens - context + stride - 1) / stride;
	/* With disjoint windows the last one may hold a single token, which nothing comes before. */
	return (n - 1) * stride + 1 < tokens ? n : n - 1;
}

score_window score_window_at(int64_t i, int64_t tokens, int64_t context, int64_t stride)
{
	score_window w = {.first = i * stride};
	w.until = least(w.first + context, tokens);
	w.count = w.until - w.first;
	int64_t before = i == 0 ? 0 : least((i - 1) * stride + context, tokens); /* what the windows so far have scored */
	w.scored = before > w.first + 1 ? before : w.first + 1;
	return w;
}

static void cancel(void *request) { nh_request_cancel(request); }

static nh_status window(nh_engine *engine, const score_job *j, const score_window *w, nh_error *e)
{
	nh_request_options o;
	nh_request *r;
	nh_event ev;
	nh_request_options_init(&o, sizeof o);
	o.prompt = j->ids + w->first;
	o.prompt_tokens = (size_t)w->count;
	o.max_tokens = 0;
	o.prompt_logprobs = j->fn != NULL;
	o.trace = j->trace;
	o.trace_user = j->trace_user;
	o.no_prefix_cache = true;
	TRY(nh_engine_submit(engine, &o, &r, e));
	cmd_on_interrupt(cancel, r);
	nh_status s;
	int64_t told = 0;
	do {
		s = nh_request_next(r, &ev, sizeof ev, -1);
		if (s == NH_OK && ev.type == NH_EVENT_ERROR) s = ERR(e, (nh_status)ev.error.code, "%s", ev.error.text);
		if (s != NH_OK || ev.type != NH_EVENT_PROMPT || !j->fn) continue;
		int64_t at = w->first + ev.position;
		if (at < w->scored || at >= w->until) continue;
		j->fn(j->user, at, ev.token, ev.logprob);
		told++;
	} while (s == NH_OK && ev.type != NH_EVENT_DONE);
	if (s == NH_OK && ev.finish == NH_FINISH_CANCELLED) s = ERR(e, NH_ERR_CANCELLED, "cancelled");
	cmd_on_interrupt(NULL, NULL);
	nh_request_release(r);
	if (s == NH_OK && j->fn != NULL && told != w->until - w->scored)
		s = ERR(e, NH_ERR_INTERNAL, "the window from token %lld told %lld log-probabilities, expected %lld", (long long)w->first,
		    (long long)told, (long long)(w->until - w->scored));
	return s;
}

nh_status score_run(nh_engine *engine, const score_job *j, nh_error *e)
{
	int64_t n = score_windows(j->tokens, j->context, j->stride);
	for (int64_t i = 0; i < n; i++) {
		score_window w = score_window_at(i, j->tokens, j->context, j->stride);
		if (j->begin != NULL) j->begin(j->trace_user, &w);
		TRY(window(engine, j, &w, e));
		if (j->progress != NULL && !j->progress(j->progress_user, "tokens", (uint64_t)w.until, (uint64_t)j->tokens))
			return ERR(e, NH_ERR_CANCELLED, "cancelled");
	}
	return NH_OK;
}

/* Decimal numbers between blanks, commas or brackets. */
static nh_status numbers(const char *path, const char *text, int32_t **out, int64_t *count, nh_error *e)
{
	size_t room = 1;
	for (const char *p = text; *p != '\0'; p++) room += strchr(" \t\r\n,[]", *p) != NULL;
	int32_t *ids = mem_array(room + 1, sizeof *ids);
	if (ids == NULL) return ERR_NOMEM(e);
	int64_t n = 0;
	for (const char *p = text + strspn(text, " \t\r\n,[]"); *p != '\0'; p += strspn(p, " \t\r\n,[]")) {
		size_t len = strcspn(p, " \t\r\n,[]");
		char *end;
		long long v = strtoll(p, &end, 10);
		if (end != p + len || v < 0 || v > INT32_MAX) {
			nh_status s = ERR(
			    e, NH_ERR_FORMAT, "%s: number %lld: is \"%.*s\", expected a token id", path, (long long)n, (int)(len < 40 ? len : 40), p);
			mem_free(ids);
			return s;
		}
		ids[n++] = (int32_t)v;
		p += len;
	}
	*out = ids;
	*count = n;
	return NH_OK;
}

nh_status score_read(
    const nh_model *model, const char *path, bool ids, int64_t limit, int32_t **out, int64_t *count, uint64_t *bytes, nh_error *e)
{
	buf text = {0};
	size_t n = 0;
	*out = NULL;
	*count = 0;
	nh_status s = strcmp(path, "-") == 0 ? cmd_read_input(TEXT_LIMIT, &text, e) : file_read(path, TEXT_LIMIT, &text, e);
	*bytes = text.len;
	if (s == NH_OK && ids) s = numbers(path, text.data != NULL ? text.data : "", out, count, e);
	else if (s == NH_OK) {
		s = nh_tokenize(nh_model_tokenizer(model), text.data != NULL ? text.data : "", text.len, NH_TOKENIZE_SPECIAL, out, &n, e);
		*count = (int64_t)n;
		if (s != NH_OK) s = err_prefix(e, s, "%s", path);
	}
	buf_deinit(&text);
	if (s == NH_OK && limit > 0 && *count > limit) *count = limit;
	return s;
}
