/* SPDX-License-Identifier: Apache-2.0
 * sched.c: see sched.h. Fairness is in the order of the views, which the commit keeps: who was given a piece goes behind the others of its
 * priority.
 * The invariant that breaks first: a piece ends at an edge or at its stop, never elsewhere.
 */
#include "engine/sched.h"

/* Rows from pos to the last edge that the budget reaches, or to the stop; 0: not even the next edge is reached. */
static int piece_rows(const sched_view *v, int budget, int chunk)
{
	int64_t reach = v->pos + budget;
	if (reach >= v->stop) return (int)(v->stop - v->pos);
	int64_t edge = reach / chunk * chunk;
	return edge > v->pos ? (int)(edge - v->pos) : 0;
}

int sched_plan(const sched_view *view, int n, int budget, int chunk, sched_item *out)
{
	int items = 0, left = budget;
	for (int i = 0; i < n; i++) {
		if (view[i].paused || !view[i].decode) continue;
		out[items++] = (sched_item){.at = i, .rows = 1 + view[i].drafts};
		left -= 1 + view[i].drafts;
	}
	if (left < chunk) left = chunk < budget ? chunk : budget; /* decoding never starves prompts */
	for (int i = 0; i < n && left > 0; i++) {
		if (view[i].paused || view[i].decode) continue;
		int rows = piece_rows(&view[i], left, chunk);
		if (rows == 0) continue;
		out[items++] = (sched_item){.at = i, .rows = rows};
		left -= rows;
	}
	return items;
}
