/* SPDX-License-Identifier: Apache-2.0
 * engine.h: runs requests on an opened model, many in one step. One thread owns the caches, the exec and all sequences; everybody else posts
 * requests to its inbox and reads their events. Knows token ids and no text: what turns ids into text is a hook that the caller gives with the
 * request.
 * The invariant that breaks first: between two commits of a step nothing that a later step reads has changed.
 */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include <stdatomic.h>

#include "base/base_log.h"
#include "exec/backend.h"
#include "model/model.h"
#include "op/op_list.h"

#define ENGINE_TOP_MAX 64      /* best tokens listed with a token */
#define ENGINE_WANT_MAX 256    /* ids asked for by name with a token */
#define ENGINE_QUEUE_MAX 1024  /* default bound of the requests that wait */
#define ENGINE_STEP_TOKENS 512 /* default prompt tokens a step */
#define ENGINE_CONTEXT 32768   /* default bound of the context */
#define ENGINE_SEQUENCES 64    /* default bound of the sequences that run at once */
#define ENGINE_SEQUENCES_MAX 1024
#define ENGINE_DRAFT_MAX 16 /* drafts a step and sequence */
#define ENGINE_STAGES NH_STAGES
#define ENGINE_BUCKETS NH_BUCKETS

/* What an engine runs on. Immutable but for in_use; outlives the engine. */
typedef struct engine_parts {
	const backend *arm;
	exec *base;          /* the arm's own exec: memory goes through it */
	exec *x;             /* the outermost exec: ops go through it */
	const exec *profile; /* the profile wrapper in between, or NULL */
	const model *m;
	num_dtype kv;       /* type of KV pages */
	const int32_t *end; /* [end_count] end tokens */
	size_t end_count;
	const logger *log;  /* may be NULL */
	atomic_bool in_use; /* an engine holds the exec */

	/* Who the weights are, for files of state. NULL: sessions can not be saved or loaded, and nothing is spilled. Any thread. */
	nh_status (*identity)(const void *self, char hex[65], nh_error *e);
	const void *identity_self; /* borrow */
	const char *name;          /* of the checkpoint, for people; may be NULL */
} engine_parts;

typedef struct engine_options {
	int64_t max_context; /* tokens a sequence may have; 0: the model's maximum, at most ENGINE_CONTEXT */
	int64_t step_tokens; /* 0: ENGINE_STEP_TOKENS; rounded down to scan edges, raised to one chunk with a notice */
	int event_limit;     /* events that may wait for the reader of one request before it pauses; 0: 64 */

	/* As nh_engine_options, which has the meaning of each field. */
	uint64_t memory_bytes;
	int max_sequences;
	int queue_limit; /* 0: ENGINE_QUEUE_MAX */
	bool no_prefix_cache;
	const char *spill_dir; /* copied */
	uint64_t spill_bytes;
	nh_draft draft;
	int draft_tokens; /* 0: 4; at most ENGINE_DRAFT_MAX */
} engine_options;

/* The whole state of one sequence whose request has ended, in host memory; immutable, so a fork costs nothing. */
typedef struct engine_session engine_session;

/* Text made of one token, or what was held back. Pointers live until the next call of the hook. */
typedef struct engine_text {
	const char *reasoning, *content; /* UTF-8, not terminated; may be NULL when empty */
	size_t reasoning_bytes, content_bytes;
	bool in_reasoning; /* push: the token belongs to the thought */
	bool stopped;      /* push: a stop string is complete */
	int stop_index;    /* which */
} engine_text;

/* Called on the engine's thread, close also where the request never ran. */
typedef struct engine_hooks {
	void *self; /* own */
	nh_status (*push)(void *self, int32_t id, engine_text *out, nh_error *e);
	nh_status (*finish)(void *self, engine_text *out, nh_error *e); /* the text has ended: what was held back */
	void (*close)(void *self);
} engine_hooks;

/* As nh_request_options, which has the meaning of each field. Arrays are copied. */
typedef struct engine_spec {
	const int32_t *prompt;
	size_t prompt_tokens;
	int64_t max_tokens;
	double temperature, top_p, min_p, repetition_penalty;
	int32_t top_k;
	uint64_t seed;
	bool ignore_end;
	const int32_t *end_ids;
	size_t end_id_count;
	int32_t top_logprobs;
	const int32_t *want_ids;
	size_t want_steps, want_per_step;
	bool prompt_logprobs;
	int32_t prompt_top_logprobs;
	const int32_t *prompt_want_ids;
	size_t prompt_want_per_position;
	const int32_t *forced;
	size_t forced_tokens;
	nh_trace_fn trace;
	void *trace_user;
	engine_hooks hooks; /* of choice 0; push NULL: no text */

	double presence_penalty, frequency_penalty;
	const nh_bias *bias;
	size_t bias_count;
	const int32_t *bad_words; /* [sum of bad_word_lengths] */
	const size_t *bad_word_lengths;
	size_t bad_word_count;
	const int32_t *allowed_ids;
	size_t allowed_count;
	int64_t min_tokens;
	int choices;                      /* 0 or 1: one */
	const engine_hooks *choice_hooks; /* [choices - 1], of the others; NULL: they tell no text. Taken as hooks are; the array is copied */
	int priority;
	int64_t deadline_us; /* from submit; 0: none */
	nh_embed embed;
	bool embed_normalise;
	nh_mask_fn mask;
	void *mask_user;
	bool keep_session;
	const engine_session *session; /* borrow: shared by success, the caller still closes his */
	bool no_prefix_cache;
} engine_spec;

/* As nh_event. Pointers live until the next engine_request_next on the same request, or its release. */
typedef struct engine_event {
	nh_event_type type;
	int32_t token;
	int64_t position;
	bool forced, end_token;
	int32_t best_id, rank;
	double logprob, margin;
	nh_logprob *top, *want;
	size_t top_count, want_count;
	const char *reasoning, *content; /* terminated */
	size_t reasoning_bytes, content_bytes;
	nh_finish finish;
	int stop_index;
	const nh_error *error; /* ERROR */
	int choice;
	bool last;              /* nothing comes after it */
	const float *embedding; /* EMBEDDING: [embedding_count] */
	size_t embedding_count;
	nh_request_stats stats; /* DONE, ERROR; in the last place, because events are cleared up to here */
} engine_event;

typedef struct engine_op_stat {
	const char *op;
	uint64_t calls, rows, bytes, reference_calls, ns;
} engine_op_stat;

typedef struct engine_stats {
	uint64_t requests, cancelled, failed, nan_failures;
	uint64_t prompt_tokens, generated_tokens, steps;
	uint64_t reference_calls, state_update_rows, scan_calls, scan_chunks, conv_update_rows, conv_forward_calls, gathers, scatters,
	    expert_rows, experts_read, bytes_uploaded;
	uint64_t kv_bytes, state_bytes, scratch_bytes;
	engine_op_stat ops[OP_COUNT];

	uint64_t waiting, running, swapped;                                       /* requests that wait; sequences in the pools; out of them */
	uint64_t slots_used, slots_total, pages_used, pages_total, page_tokens;   /* snapshots count as users */
	uint64_t snapshots, snapshot_bytes;                                       /* kept prompt prefixes, and what only they hold */
	uint64_t computed_tokens, reused_tokens, drafted_tokens, accepted_tokens; /* computed: of prompts */
	uint64_t prefix_hits, prefix_misses, evictions, spills, spill_loads, spill_bytes;
	uint64_t preemptions, swaps_out, swaps_in, deadline_misses;
	uint64_t step_us[ENGINE_STAGES][ENGINE_BUCKETS];
	uint64_t cost_weight_bytes, cost_expert_bytes, cost_state_bytes, cost_kv_bytes, cost_flops; /* as nh_engine_stats */
} engine_stats;

typedef struct engine engine;
typedef struct engine_request engine_request;

/* NH_ERR_STATE while another engine is open on the parts. *out is NULL on failure. */
nh_status engine_open(engine **out, engine_parts *parts, const engine_options *options, nh_error *e);
/* Cancels everything and joins the thread. Requests stay readable until they are released. NULL is fine. */
void engine_close(engine *g);
/* Takes the hooks (and choice_hooks) in every case, also on failure. NH_ERR_ARG for what can never run, NH_ERR_LIMIT when it needs more than
 * the pools have or queue_limit requests wait. Any thread. */
nh_status engine_submit(engine *g, const engine_spec *spec, engine_request **out, nh_error *e);
void engine_get_stats(engine *g, engine_stats *out); /* as of the last step; any thread */

/* NH_OK, NH_ERR_TIMEOUT, or NH_ERR_STATE after the last event. timeout_us < 0: for ever. One thread at a time a request. */
nh_status engine_request_next(engine_request *r, engine_event *out, int64_t timeout_us);
void engine_request_cancel(engine_request *r);  /* async-signal-safe */
void engine_request_release(engine_request *r); /* cancels; NULL is fine */

/* What a session says of itself. */
typedef struct engine_session_info {
	uint32_t version;
	char identity[68], model[64], arm[32], tier[32], numerics[32], kv_dtype[16];
	int64_t tokens;    /* history, the pending token included */
	int64_t computed;  /* tokens that the state covers */
	int64_t generated; /* of the history, tokens that the model chose */
	int64_t created;   /* Unix seconds */
	uint64_t bytes;    /* of state and pages */
} engine_session_info;

#define ENGINE_SESSION_OTHER_ARM 1u /* accept a file of another arm or tier */

/* Sessions: any thread; they belong to one engine, and are closed before it. take: NH_ERR_STATE when the request did not keep one, has not
 * ended, or it was taken. */
nh_status engine_session_take(engine_request *r, engine_session **out, nh_error *e);
nh_status engine_session_fork(const engine_session *s, engine_session **out, nh_error *e);
void engine_session_close(engine_session *s); /* NULL is fine */
nh_status engine_session_save(const engine_session *s, const char *path, nh_error *e);
/* NH_ERR_UNSUPPORTED, by name: another checkpoint, profile, KV type, arm or tier; NH_ERR_FORMAT: a damaged or newer file. */
nh_status engine_session_load(engine *g, const char *path, uint32_t flags, engine_session **out, nh_error *e);
void engine_session_get_info(const engine_session *s, engine_session_info *out);
nh_status engine_session_read_info(const char *path, engine_session_info *out, nh_error *e);
const int32_t *engine_session_tokens(const engine_session *s, size_t *count); /* borrow: lives as long as the session */

/* Scratch that an engine with these options would reserve, by a dry run: touches no weights, state or pages. */
nh_status engine_measure(const engine_parts *parts, const engine_options *options, size_t *scratch_bytes, nh_error *e);

#endif
