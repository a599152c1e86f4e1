/* SPDX-License-Identifier: Apache-2.0
 * sched.h: which sequences have rows in the next step, and how many: a pure function of what is told here. Knows no request, no memory and no
 * clock. What it decides never changes anyone's bits, only when they come.
 */
#ifndef ENGINE_SCHED_H
#define ENGINE_SCHED_H

#include <stdbool.h>
#include <stdint.h>

/* A sequence as the scheduler sees it, in order: higher priority first, then who waited longest for a piece. */
typedef struct sched_view {
	int64_t pos;  /* of its next row */
	int64_t stop; /* prefill: a piece ends here at the latest */
	int drafts;   /* decode: rows beyond the pending token's */
	bool decode;
	bool paused; /* its reader is behind, or it waits for its prompt */
} sched_view;

typedef struct sched_item {
	int at; /* of the view */
	int rows;
} sched_item;

/* All decode rows, then pieces while `budget` rows last: each ends at an edge (a multiple of chunk) or at its stop; the first always gets one.
 * Decode items come first. Returns the number of items, at most n. Allocates nothing, linear in n. */
int sched_plan(const sched_view *view, int n, int budget, int chunk, sched_item *out);

#endif
