/* SPDX-License-Identifier: Apache-2.0
 * request.h: one request: its copied options, its queue of events, and where it stands. Made by the submitting thread; from then on the
 * engine's thread owns everything but the queue, which both sides share under its lock, and the cancel flag, which anyone may set.
 * Two parties hold it (the reader and the engine); the last one to let go frees it.
 * The invariant that breaks first: the last event always finds room, whoever reads or does not.
 */
#ifndef ENGINE_REQUEST_H
#define ENGINE_REQUEST_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/base_arena.h"
#include "base/base_buf.h"
#include "cache/seqmem.h"
#include "engine/engine.h"
#include "sample/sample.h"

/* A place of the ring: the event and the memory that its pointers lead to, reused from event to event. */
typedef struct request_place {
	engine_event event;
	nh_logprob *top, *want;
	buf text; /* own; reasoning, terminator, content, terminator */
} request_place;

struct engine_request {
	/* Immutable after submit. */
	engine_spec spec; /* pointers into mem and tokens; hooks own */
	sample_params sampling;
	arena mem;     /* own; arrays and places */
	int64_t limit; /* most tokens of the sequence, prompt included */
	int64_t submitted_us;

	/* Shared. */
	atomic_bool cancelled;
	atomic_int holders;
	pthread_mutex_t lock;
	pthread_cond_t ready, space;
	request_place *place; /* in mem [places]; one more than may wait, for the last event */
	int places, head, waiting;
	bool taken; /* the reader looks at place[head] */
	bool ended; /* the last event is in the ring */

	/* The engine thread's. */
	engine_request *next; /* in the inbox */
	seqmem memory;        /* own list; slot and pages while running */
	int64_t segment;      /* position at which the running segment began */
	int64_t generated;    /* tokens taken so far; the last of them is not in the memory until another is needed */
	uint64_t step;        /* of this request */
	int32_t *tokens;      /* own [limit]; prompt and what was taken */
	double *trace_row;    /* own; grows */
	size_t trace_room;
	int64_t admitted_us, first_us, prefilled_us;
	nh_request_stats stats;
	nh_error error;
};

/* Checks and copies; the request has two holders. `vocab` bounds ids, `context` the sequence. Hooks stay the caller's on failure. */
nh_status request_create(engine_request **out, const engine_spec *spec, int64_t vocab, int64_t context, int event_limit, nh_error *e);
void request_drop(engine_request *r); /* one holder lets go */
bool request_wants_logprobs(const engine_spec *s);

/* Waits for an empty place, fill it and publish. NULL when the request was cancelled meanwhile; `last` never waits. A place comes with a
 * zeroed event. idle is called now and then while waiting. */
request_place *request_claim(engine_request *r, bool last, void (*idle)(void *user), void *user);
void request_publish(engine_request *r, bool last);

#endif
