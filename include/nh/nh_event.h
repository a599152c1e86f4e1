/* SPDX-License-Identifier: Apache-2.0
 * nh_event.h: what a request tells while it runs. Order: PROMPT events (only with prompt_logprobs, one a position), TOKEN events, one DONE
 * or one ERROR as the last. A request for embeddings tells one EMBEDDING before its DONE. With n choices each
 * has its own TOKEN events and DONE, mixed; `last` marks the last event of the request.
 */
#ifndef NH_EVENT_H
#define NH_EVENT_H

#include "nh_request.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Pointers live until the next nh_request_next on the same request, or its release. */
typedef struct nh_event {
	size_t size;
	int32_t type;     /* nh_event_type */
	int32_t token;    /* TOKEN: its id. PROMPT: the prompt token */
	int64_t position; /* of that token in the sequence */
	bool forced;      /* the token was forced; best_id tells what would have been drawn greedily */
	bool end_token;   /* TOKEN: it is an end token (no text) */
	/* The next four are told with PROMPT, except for position 0, and with TOKEN where the request asks for log-probabilities of generated
	 * tokens (top_logprobs, want_ids or forced); else -1 and zeros, because they cost a pass over the vocabulary. */
	int32_t best_id; /* largest logit */
	int32_t rank;
	double logprob;        /* of the token, before temperature and penalties */
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

	int32_t choice;         /* which of the request's choices, from 0; ERROR ends all of them */
	bool last;              /* no event follows */
	const float *embedding; /* EMBEDDING; else NULL */
	size_t embedding_size;  /* the model's hidden size */
} nh_event;

/* Waits for the next event: timeout_us < 0 for ever, 0 not at all. NH_OK, NH_ERR_TIMEOUT, or NH_ERR_STATE after the last event. One thread
 * at a time a request. */
NH_API nh_status nh_request_next(nh_request *request, nh_event *event, size_t size, int64_t timeout_us);

#ifdef __cplusplus
}
#endif
#endif
