/* SPDX-License-Identifier: Apache-2.0
 * cmd_score.h: the log-probabilities that a model gives to a text, window by window, in prefill form. One place, so that `perplexity` and the quality
 * report of `quantize` mean the same. Knows no file and prints nothing.
 * The invariant that breaks first: every token of the text is scored at most once, and never the first one of a window.
 *
 * Window i holds the tokens from i * stride on, at most `context` of them; the last window is the first that reaches the end. What an earlier
 * window has scored is context in a later one. With stride = context the windows are disjoint and each leaves its first token out; with a
 * smaller stride only the very first token is left out, and each later token has at least context - stride tokens before it.
 */
#ifndef CMD_SCORE_H
#define CMD_SCORE_H

#include "cmd/cmd.h"
#include "nh/nh.h"

typedef struct score_window {
	int64_t first, count;  /* tokens of the text that the model is given */
	int64_t scored, until; /* positions of the text that count: [scored, until); until = first + count */
} score_window;

/* Number of windows with something to score. context >= 2, 1 <= stride <= context. */
int64_t score_windows(int64_t tokens, int64_t context, int64_t stride);
score_window score_window_at(int64_t i, int64_t tokens, int64_t context, int64_t stride);

/* One scored position of the text, in ascending order. */
typedef void (*score_fn)(void *user, int64_t position, int32_t token, double logprob);

typedef struct score_job {
	const int32_t *ids; /* borrow [tokens] */
	int64_t tokens, context, stride;
	score_fn fn; /* NULL: the trace is all that is wanted */
	void *user;
	nh_trace_fn trace;                                /* NULL: none. first_position counts from the window's first token */
	void (*begin)(void *user, const score_window *w); /* before each window's trace; NULL: none */
	void *trace_user;
	nh_progress_fn progress; /* tokens; may be NULL */
	void *progress_user;
} score_job;

/* Runs every window on the engine, one after another. Ctrl-C ends it with NH_ERR_CANCELLED. */
nh_status score_run(nh_engine *engine, const score_job *j, nh_error *e);

/* The ids of a text file, by the model's tokeniser with its opening token, or where `ids` is set the decimal numbers that the file holds; *count >= 0,
 * *bytes of the file. Fresh memory: nh_free. At most `limit` ids are kept (0: all). */
nh_status score_read(
    const nh_model *model, const char *path, bool ids, int64_t limit, int32_t **out, int64_t *count, uint64_t *bytes, nh_error *e);

#endif
