/* SPDX-License-Identifier: Apache-2.0
 * request.h: one request: its copied options, its queue of events, and the sequences that it computes, one a choice. Made by the submitting
 * thread; from then on the engine's thread owns everything but the queue, which both sides share under its lock, and the cancel flag, which
 * anyone may set. Two parties hold it (the reader and the engine); the last one to let go frees it.
 * The invariant that breaks first: a step finds room for every event that it tells, whoever reads or does not.
 */
#ifndef ENGINE_REQUEST_H
#define ENGINE_REQUEST_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/base_arena.h"
#include "base/base_buf.h"
#include "cache/swap.h"
#include "engine/engine.h"
#include "sample/sample.h"

/* A place of the ring: the event and the memory that its pointers lead to, reused from event to event. */
typedef struct request_place {
	engine_event event;
	nh_logprob *top, *want;
	buf text; /* own; reasoning, terminator, content, terminator */
} request_place;

typedef enum sequence_state {
	SEQUENCE_WAITS,   /* its request is in the inbox */
	SEQUENCE_FORKS,   /* holds a slot until the prompt is computed by choice 0 */
	SEQUENCE_RUNS,    /* in the pools */
	SEQUENCE_SWAPPED, /* in host memory */
	SEQUENCE_ENDED
} sequence_state;

/* One continuation of a request's prompt. The engine thread's. */
typedef struct sequence {
	engine_request *r; /* borrow */
	int choice;
	sequence_state state;
	struct sequence *next; /* among the swapped */
	seqmem memory;         /* own list; slot and pages while in the pools */
	swapped *swap;         /* own; while swapped, unless the state is still the session's */
	int32_t *tokens;       /* own [limit]; given, then taken, then drafts of the running step */
	int64_t segment;       /* position at which the running segment began */
	int64_t stop;          /* where a piece should end next: a snapshot's position, or the end of what was given */
	int64_t generated;     /* tokens taken so far; the last of them is not in the memory until another is needed */
	engine_hooks hooks;    /* own */
	int took;              /* tokens of the running step that hold */
	nh_finish ends;        /* why it ends with this step; NONE: it goes on */
	int stop_index;
	int64_t prefilled_us, first_us;
	nh_request_stats stats;
} sequence;

struct engine_request {
	/* What every step of every request looks at lies together, in the first lines. The ring has one writer and one reader: `told` is all that
	 * both write, so a step takes no lock unless the reader sleeps. */
	int64_t given;   /* history and prompt */
	int64_t limit;   /* most tokens of a sequence */
	int64_t history; /* tokens of the session; of them, all but a pending one are computed */
	int choices, event_limit;
	bool bare;     /* asks for tokens and nothing else: no log-probabilities, no trace, no hidden state, none forced */
	bool logprobs; /* tokens are told with theirs */
	bool edits;    /* logits are always edited before a draw */
	atomic_bool cancelled;
	atomic_bool sleeps; /* the reader waits under the lock, or is about to */
	atomic_uint told;   /* events that the reader has not given back; with REQUEST_ENDED from the last one on */
	int places;
	request_place *place; /* in mem [places] */
	/* Of these, the engine thread's. */
	sequence *seq;     /* in mem [choices] */
	int live;          /* sequences that have not ended */
	int tail;          /* the place behind those that were told */
	int composed;      /* events that are written and not told yet */
	uint64_t step;     /* of this request, for traces */
	op_sample_row row; /* of a draw of choice 0 at position 0; immutable */
	nh_error error;

	/* The reader's. */
	int head;
	bool taken; /* the reader looks at place[head] */

	/* Shared. */
	atomic_int holders;
	pthread_mutex_t lock;
	pthread_cond_t ready;

	/* Immutable after submit. */
	engine_spec spec;                  /* pointers into mem and tokens; hooks are the sequences' */
	sample_params sampling;            /* of choice 0 */
	arena mem;                         /* own; arrays and places */
	engine_session *session;           /* own; where it continues, until it is in the pools */
	int64_t history_generated;         /* of the history, tokens that the model chose */
	int64_t submitted_us, deadline_us; /* deadline: on the clock; 0: none */

	/* The engine thread's. */
	engine_request *next; /* in the inbox */
	uint64_t serial;      /* of arrival */
	double *trace_row;    /* own; grows */
	size_t trace_room;
	double *hidden; /* in mem [D]; sum of an embedding */
	float *embedding;
	int64_t admitted_us;
	engine_session *kept; /* own; the reader's after the end, under the lock */
};

#define REQUEST_ENDED (1u << 30)

/* What a request is checked against and sized by. */
typedef struct request_bounds {
	int64_t vocab, hidden, context, pool_pages;
	int event_limit, sequences, piece, drafts;
	const int32_t *end;
	size_t end_count;
} request_bounds;

/* Checks and copies; the request has two holders. Hooks stay the caller's on failure. */
nh_status request_create(engine_request **out, const engine_spec *spec, const request_bounds *b, nh_error *e);
nh_status request_init_memory(engine_request *r, states *s, pages *p, nh_error *e);
void request_drop(engine_request *r); /* one holder lets go */
bool request_wants_logprobs(const engine_spec *s);

static inline bool request_ended(const engine_request *r) { return atomic_load(&r->told) & REQUEST_ENDED; }
static inline int request_waiting(const engine_request *r)
{
	return (int)(atomic_load_explicit(&r->told, memory_order_acquire) & ~REQUEST_ENDED);
}
/* The reader is behind: nothing is computed for the request until he catches up. */
static inline bool request_full(const engine_request *r) { return request_waiting(r) >= r->event_limit; }
/* The next place that is neither told nor composed, with a zeroed event; counts as composed. There is always one: steps are not planned without. */
request_place *request_claim(engine_request *r);
/* Tells what was composed. */
void request_publish(engine_request *r, bool last);

#endif
