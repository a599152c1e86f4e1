/* SPDX-License-Identifier: Apache-2.0
 * helper_toy.h: a model small enough to be understood: its state is one number that every token changes (differently in the two forms), its
 * keys are the tokens themselves, its logits follow from both. It runs on the real pools, checks what the engine promises about a step, and
 * keeps a list of the steps it saw.
 */
#ifndef HELPER_TOY_H
#define HELPER_TOY_H

#include <stdatomic.h>

#include "engine/engine.h"

#define TOY_VOCAB 50
#define TOY_CHUNK 8
#define TOY_STEPS 4096
#define TOY_ROWS 4096 /* most of a step */

typedef struct toy_step {
	int T, D, S, R, pages;
	int64_t pos, origin;
} toy_step;

typedef struct toy {
	model m;
	engine_parts parts;
	backend arm; /* ref, or a copy of it that hides its memory */
	exec *base;
	/* What it does. */
	int64_t nan_at;        /* the logits of this position are not numbers; -1: none */
	int64_t fail_at;       /* an op fails at this position; -1 */
	const int32_t *script; /* token p is followed by script[p + 1] with a margin of 50; NULL: pseudo-random */
	int64_t script_len;
	int32_t nan_id;      /* the logits after this id are not numbers; 0: none */
	int cycle;           /* most ids are followed by the next of so many, so that drafts hold, but not always; 0: off */
	atomic_int sleep_us; /* per step */
	atomic_bool hold;    /* a step does not end while this is set */
	/* What it saw. Written on the engine's thread. */
	toy_step steps[TOY_STEPS];
	atomic_int count;
	atomic_int mixed;      /* steps with rows of both forms */
	atomic_int most;       /* sequences in one step */
	atomic_int draft_rows; /* decode rows that follow another of their sequence */
	double state[TOY_ROWS], keys[TOY_ROWS];
	atomic_int complaints; /* promises broken */
	char complaint[256];   /* the first */
} toy;

void toy_open(toy *t, const char *profile, bool host_memory); /* asserts */
void toy_close(toy *t);

/* The request that everybody starts from: greedy, no logprobs. */
engine_spec toy_spec(const int32_t *prompt, size_t count, int64_t max_tokens);

/* All events of a request until its last, in one list. Text is copied. */
typedef struct toy_run {
	engine_event *event; /* top, want and error point into `extra` copies */
	size_t count;
	nh_error error;
	nh_finish finish;
	int stop_index;
	nh_request_stats stats;
	int32_t *token; /* generated, by choice 0 */
	size_t tokens;
	char reasoning[4096], content[4096];
} toy_run;

void toy_collect(toy_run *out, engine_request *r); /* reads to the end and releases */
void toy_collect_session(toy_run *out, engine_request *r, engine_session **kept);
void toy_run_free(toy_run *r);
void toy_do(toy_run *out, engine *g, const engine_spec *spec); /* submits and collects */

/* Positions, tokens and numbers of two runs are the same, bit for bit; times are not looked at. */
void toy_same_events(const toy_run *a, const toy_run *b);

/* Token lists. */
int32_t *toy_prompt(size_t count, unsigned seed); /* mem_free */

#endif
