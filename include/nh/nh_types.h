/* SPDX-License-Identifier: Apache-2.0
 * nh_types.h: status codes, the error record, callback types, and the small records that events are made of.
 * Knows nothing of models or engines. Every function of the library that can fail returns an nh_status;
 * where a human needs more than the code, the last argument is a caller-owned nh_error (may be NULL).
 */
#ifndef NH_TYPES_H
#define NH_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define NH_API __attribute__((visibility("default")))
#else
#define NH_API
#endif

/* The one list of outcomes: name, value, message. Values never change; new ones are appended. */
#define NH_STATUS_LIST(X)                                                              \
	X(NH_OK, 0, "success")                                                             \
	X(NH_ERR_ARG, -1, "an argument is not valid")                                      \
	X(NH_ERR_NOMEM, -2, "out of memory")                                               \
	X(NH_ERR_IO, -3, "a file could not be read or written")                            \
	X(NH_ERR_FORMAT, -4, "a file is malformed")                                        \
	X(NH_ERR_CONFIG, -5, "a configuration is contradictory or not understood")         \
	X(NH_ERR_TENSOR, -6, "the tensors of a checkpoint do not match its configuration") \
	X(NH_ERR_UNSUPPORTED, -7, "valid, but this build or arm cannot do it")             \
	X(NH_ERR_LIMIT, -8, "a limit was exceeded")                                        \
	X(NH_ERR_NOTFOUND, -9, "not found")                                                \
	X(NH_ERR_CANCELLED, -10, "cancelled")                                              \
	X(NH_ERR_BACKEND, -11, "the compute arm failed")                                   \
	X(NH_ERR_NUMERIC, -12, "a value that must be finite is not")                       \
	X(NH_ERR_STATE, -13, "the call is not allowed in this state")                      \
	X(NH_ERR_TIMEOUT, -14, "timed out")                                                \
	X(NH_ERR_TEMPLATE, -15, "the chat template refused or failed")                     \
	X(NH_ERR_INTERNAL, -16, "a fault of this program")

typedef enum nh_status {
#define NH_STATUS_ENUM(name, value, message) name = value,
	NH_STATUS_LIST(NH_STATUS_ENUM)
#undef NH_STATUS_ENUM
} nh_status;

/* Filled on failure only. `text` is one line of UTF-8 without a trailing newline, always terminated. */
typedef struct nh_error {
	int32_t code; /* an nh_status */
	char text[1020];
} nh_error;

typedef enum nh_log_level { NH_LOG_ERROR = 0, NH_LOG_WARN = 1, NH_LOG_NOTICE = 2, NH_LOG_DEBUG = 3 } nh_log_level;

/* Called with one line of text (no newline), valid during the call only. May be called from any library thread,
 * never from two at once for one model. Must not call back into the library. */
typedef void (*nh_log_fn)(void *user, nh_log_level level, const char *text);

/* Progress of long work: `done` of `total` in units named by `what` ("bytes", "tokens", ...); total 0 = unknown.
 * Return false to cancel; the work then ends with NH_ERR_CANCELLED. */
typedef bool (*nh_progress_fn)(void *user, const char *what, uint64_t done, uint64_t total);

/* What an event tells; nh_event.h has the event. */
typedef enum nh_event_type {
	NH_EVENT_PROMPT = 1,
	NH_EVENT_TOKEN = 2,
	NH_EVENT_DONE = 3,
	NH_EVENT_ERROR = 4,
	NH_EVENT_EMBEDDING = 5
} nh_event_type;

typedef enum nh_finish {
	NH_FINISH_NONE = 0,
	NH_FINISH_END = 1,     /* an end token */
	NH_FINISH_STOP = 2,    /* a stop string */
	NH_FINISH_LENGTH = 3,  /* max_tokens */
	NH_FINISH_CONTEXT = 4, /* the context is full */
	NH_FINISH_CANCELLED = 5,
	NH_FINISH_ERROR = 6,
	NH_FINISH_DEADLINE = 7 /* deadline_us has passed */
} nh_finish;

typedef struct nh_logprob {
	int32_t id;
	int32_t rank; /* 1: the largest logit; 0 for id -1 */
	double logprob;
} nh_logprob;

typedef struct nh_request_stats {
	uint64_t prompt_tokens, computed_tokens, reused_tokens, generated_tokens, reasoning_tokens;
	int64_t queue_us, first_token_us, prefill_us, decode_us, total_us; /* first_token_us counts from submit; 0: no token came */
	uint64_t drafted_tokens, accepted_tokens;                          /* proposed by the drafter; kept, because they equal the draw */
	uint64_t swaps;                                                    /* times its state went to host memory and came back */
	uint64_t snapshot_bytes;                                           /* held by the engine's prefix snapshots when it ended */
	uint64_t reserved[8]; /* zero; room for later counters, because an event holds this struct by value */
} nh_request_stats;

/* Added to a logit before each draw; -INFINITY: never drawn. */
typedef struct nh_bias {
	int32_t id;
	float add;
} nh_bias;

/* Which tokens may come at `position` (of the sequence): bit id % 32 of word id / 32. All bits come set; clear those that are forbidden. Called on
 * the engine's thread before each draw; must not call back into the library. False fails the request. */
typedef bool (*nh_mask_fn)(void *user, int32_t choice, int64_t position, uint32_t *bits, size_t words);

/* What an EMBEDDING event carries of the last layer's normed output: the row of the last prompt token, or the mean over all. */
typedef enum nh_embed { NH_EMBED_NONE = 0, NH_EMBED_LAST = 1, NH_EMBED_MEAN = 2 } nh_embed;

/* Who proposes tokens that the model then confirms; drafts never change what is drawn. */
typedef enum nh_draft { NH_DRAFT_NONE = 0, NH_DRAFT_NGRAM = 1 } nh_draft;

/* Stages of a step, in order: admit, reserve, inputs, forward, pick, commit, emit. */
#define NH_STAGES 7
#define NH_BUCKETS 24

/* Rows of one traced tensor of one step, as doubles, valid during the call (on the engine's thread). name: "embedding", "layer.3.input" (the
 * mixer's input, after its norm), "layer.3.hidden" (the mixer's output), "layer.3.residual_in" (the stream before it is added),
 * "layer.3.residual" (after), "layer.3.router_logits", "final_norm", "logits"; and what the matrices inside a mixer see:
 * "layer.3.out_input" (Mamba, before the projection out), "layer.3.keys", "layer.3.values" (attention, before they are stored),
 * "layer.3.mlp_hidden" (dense layer and shared expert, before the projection down), "layer.3.experts_input", "layer.3.experts_chosen" (ids).
 * step 0 is the first step of the request. */
typedef void (*nh_trace_fn)(
    void *user, uint64_t step, const char *name, int64_t first_position, size_t rows, size_t columns, const double *values);

/* Name ("NH_ERR_IO") and message of a status; unknown codes give "NH_ERR_?" and "unknown status". Never NULL, static. */
NH_API const char *nh_status_name(nh_status status);
NH_API const char *nh_status_message(nh_status status);

#ifdef __cplusplus
}
#endif
#endif
