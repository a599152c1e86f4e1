/* SPDX-License-Identifier: Apache-2.0
 * nh_request.h: one prompt and what is to come of it.
 */
#ifndef NH_REQUEST_H
#define NH_REQUEST_H

#include "nh_engine.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nh_request nh_request;
struct nh_session;

typedef struct nh_request_options {
	size_t size;
	const int32_t *prompt; /* token ids; copied */
	size_t prompt_tokens;  /* at least 1, but 0 is fine with a session */
	int64_t max_tokens;    /* to generate; 0: only the prompt is computed (prompt scoring); -1: until an end or the context is full */

	double temperature, top_p, min_p; /* 0 = greedy; 1 (or 0) = off; 0 = off */
	int32_t top_k;                    /* 0 = off */
	double repetition_penalty;        /* 1 (or 0) = off */
	uint64_t seed;

	bool ignore_end;        /* end tokens do not end it */
	const int32_t *end_ids; /* more end tokens; copied */
	size_t end_id_count;
	const char *const *stop; /* stop strings, UTF-8, applied to content, not to reasoning; copied */
	size_t stop_count;
	bool include_stop; /* the stop string is part of the text */

	bool text;                /* events carry text */
	bool skip_special;        /* control tokens make no text */
	bool split_reasoning;     /* text is sorted into reasoning and content by <think> and </think> */
	bool starts_in_reasoning; /* the prompt has opened the thought already */

	int32_t top_logprobs;    /* best tokens listed with each generated token, 0..64 */
	const int32_t *want_ids; /* [want_steps][want_per_step]: ids whose log-probability and rank each step tells; -1: none; copied */
	size_t want_steps, want_per_step;
	int32_t prompt_top_logprobs;    /* the same for each prompt position (given those before it) */
	const int32_t *prompt_want_ids; /* [prompt_tokens][prompt_want_per_position] */
	size_t prompt_want_per_position;
	bool prompt_logprobs; /* tell log-probabilities of prompt tokens at all */

	const int32_t *forced; /* the engine takes these instead of drawing, in decode form, and goes on drawing after them; they count as
	                        * generated, and an end token among them ends the request unless ignore_end; copied */
	size_t forced_tokens;

	nh_trace_fn trace; /* NULL: none */
	void *trace_user;

	double presence_penalty, frequency_penalty; /* -2..2; taken off the logits of tokens that were generated: once, and for each time */
	const nh_bias *bias;                        /* copied */
	size_t bias_count;
	const int32_t *bad_words;       /* token sequences that the output must not contain, one after another; copied */
	const size_t *bad_word_lengths; /* [bad_word_count]; each at least 1 */
	size_t bad_word_count;
	const int32_t *allowed_ids; /* only these are drawn; copied */
	size_t allowed_count;       /* 0: all */
	int64_t min_tokens;         /* no end token and no stop string among the first so many */
	int32_t choices;            /* n: continuations of one prompt, choice i with seed + i; 0 or 1: one */
	int32_t priority;           /* higher first; 0 */
	int64_t deadline_us;        /* from submit; then it ends with NH_FINISH_DEADLINE; 0: none */
	int32_t embed;              /* nh_embed; with max_tokens 0 */
	bool embed_normalise;       /* to length 1 */
	bool keep_session;          /* nh_request_take_session after the end; one choice */
	bool no_prefix_cache;       /* neither use nor feed it */
	nh_mask_fn mask;            /* NULL: none */
	void *mask_user;
	struct nh_session
	    *session; /* continue this history: prompt is what is given after it. A successful submit consumes it: the handle is the
	                             * request's from then on, and the caller must not use or close it. On failure it stays the caller's */
} nh_request_options;

/* Greedy, no text, max_tokens -1. */
NH_API void nh_request_options_init(nh_request_options *options, size_t size);

/* Queues the request. Fails at once on options that can never run (empty prompt, ids outside the vocabulary, longer than the context or the memory).
 * NH_ERR_LIMIT when the queue is full. Any thread. */
NH_API nh_status nh_engine_submit(nh_engine *engine, const nh_request_options *options, nh_request **out, nh_error *error);
/* Ends it at the next step: a DONE event with NH_FINISH_CANCELLED follows. Async-signal-safe; any thread; may come late or twice. */
NH_API void nh_request_cancel(nh_request *request);
/* Cancels if still running and frees it when the engine lets go; also a session that was kept and not taken. NULL is fine. Any thread, but not
 * while another is inside nh_request_next. */
NH_API void nh_request_release(nh_request *request);

#ifdef __cplusplus
}
#endif
#endif
