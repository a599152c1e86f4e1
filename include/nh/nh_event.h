/* SPDX-License-Identifier: Apache-2.0
 * nh_event.h: what a request tells while it runs. Order: PROMPT events (only with prompt_logprobs, one a position), TOKEN events, one DONE
 * or one ERROR as the last.
 */
#ifndef NH_EVENT_H
#define NH_EVENT_H

#include "nh_request.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum nh_event_type { NH_EVENT_PROMPT = 1, NH_EVENT_TOKEN = 2, NH_EVENT_DONE = 3, NH_EVENT_ERROR = 4 } nh_event_type;

typedef enum nh_finish {
	NH_FINISH_NONE = 0,
	NH_FINISH_END = 1,     /* an end token */
	NH_FINISH_STOP = 2,    /* a stop string */
	NH_FINISH_LENGTH = 3,  /* max_tokens */
	NH_FINISH_CONTEXT = 4, /* the context is full */
	NH_FINISH_CANCELLED = 5,
	NH_FINISH_ERROR = 6
} nh_finish;

typedef struct nh_logprob {
	int32_t id;
	int32_t rank; /* 1: the largest logit; 0 for id -1 */
	double logprob;
} nh_logprob;

typedef struct nh_request_stats {
	uint64_t prompt_tokens, computed_tokens, reused_tokens, generated_tokens, reasoning_tokens;
	int64_t queue_us, first_token_us, prefill_us, decode_us, total_us; /* first_token_us counts from submit */
} nh_request_stats;

/* Pointers live until the next nh_request_next on the same request, or its release. */
typedef struct nh_event {
	size_t size;
	int32_t type;     /* nh_event_type */
	int32_t token;    /* TOKEN: its id. PROMPT: the prompt token */
	int64_t position; /* of that token in the sequence */
	bool forced;      /* the token was forced; best_id tells what would have been drawn greedily */
	bool end_token;   /* TOKEN: it is an end token (no text) */
	int32_t best_id;  /* largest logit; with TOKEN always, with PROMPT except for position 0 (-1) */
	double logprob;   /* of the token; PROMPT position 0: 0 */
	int32_t rank;
	double margin;         /* largest minus second largest logit, nats */
	const nh_logprob *top; /* best first */
	size_t top_count;
	const nh_logprob *want; /* as asked, in that order */
	size_t want_count;
	const char *reasoning; /* UTF-8, terminated; may be empty; TOKEN and DONE (what was held back) */
	size_t reasoning_bytes;
	const char *content;
	size_t content_bytes;
	int32_t finish;         /* DONE, ERROR: nh_finish */
	int32_t stop_index;     /* DONE with NH_FINISH_STOP: which stop string; else -1 */
	nh_request_stats stats; /* DONE, ERROR */
	nh_error error;         /* ERROR */
} nh_event;

/* Waits for the next event: timeout_us < 0 for ever, 0 not at all. NH_OK, NH_ERR_TIMEOUT, or NH_ERR_STATE after the last event. One thread
 * at a time a request. */
NH_API nh_status nh_request_next(nh_request *request, nh_event *event, size_t size, int64_t timeout_us);

#ifdef __cplusplus
}
#endif
#endif
