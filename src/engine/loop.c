/* SPDX-License-Identifier: Apache-2.0
 * loop.c: the engine's thread and its inbox: what is submitted waits by rank, steps run until nothing is left. Knows nothing of what a step
 * does.
 * The invariant that breaks first: a request is in the inbox, admitted, or ended; one holder is the engine's until it has ended.
 */
#include <errno.h>

#include "base/base_clock.h"
#include "base/base_mem.h"
#include "engine/engine_impl.h"
#include "engine/session.h"

#define LOOK_US 1000 /* how often the engine looks at readers that are behind */

static request_bounds bounds(const engine *g)
{
	const model_shape *m = &g->parts->m->shape;
	return (request_bounds){.vocab = m->vocab,
	    .hidden = m->hidden,
	    .context = g->limits.context,
	    .pool_pages = g->limits.pages,
	    .event_limit = g->limits.events,
	    .sequences = g->limits.sequences,
	    .piece = g->limits.piece,
	    .drafts = g->limits.drafts,
	    .end = g->parts->end,
	    .end_count = g->parts->end_count};
}

static nh_status enqueue(engine *g, engine_request *r, nh_error *e)
{
	nh_status s = NH_OK;
	pthread_mutex_lock(&g->lock);
	if (g->closing) s = ERR(e, NH_ERR_STATE, "the engine is closing");
	else if (g->waiting >= g->limits.queue) s = ERR(e, NH_ERR_LIMIT, "queue: %d requests wait already", g->waiting);
	if (s == NH_OK) {
		/* Before the thread can see it: whoever has read the last event finds it counted. */
		pthread_mutex_lock(&g->stats_lock);
		g->stats.requests++;
		pthread_mutex_unlock(&g->stats_lock);
		r->serial = ++g->serial;
		engine_request **at = &g->first;
		while (*at && rank_compare((*at)->seq, r->seq) < 0) at = &(*at)->next;
		r->next = *at;
		*at = r;
		g->waiting++;
		pthread_cond_signal(&g->wake);
	}
	pthread_mutex_unlock(&g->lock);
	return s;
}

static void close_hooks(const engine_spec *spec)
{
	if (spec->hooks.close) spec->hooks.close(spec->hooks.self);
	for (int i = 0; spec->choice_hooks && i + 1 < spec->choices; i++)
		if (spec->choice_hooks[i].close) spec->choice_hooks[i].close(spec->choice_hooks[i].self);
}

nh_status engine_submit(engine *g, const engine_spec *spec, engine_request **out, nh_error *e)
{
	engine_request *r;
	*out = NULL;
	const request_bounds b = bounds(g);
	nh_status s = NH_OK;
	if (spec->session && !session_belongs(spec->session, g)) s = ERR(e, NH_ERR_ARG, "session: is another engine's");
	if (s == NH_OK) s = request_create(&r, spec, &b, e);
	else r = NULL;
	if (s == NH_OK) s = request_init_memory(r, &g->states, &g->pages, e);
	if (s == NH_OK) s = enqueue(g, r, e);
	if (s == NH_OK) {
		*out = r;
		return NH_OK;
	}
	close_hooks(spec);
	if (r) {
		request_drop(r);
		request_drop(r);
	}
	return s;
}

static void end_all(engine *g, engine_request *r, nh_finish finish)
{
	for (int c = 0; c < r->choices; c++) {
		if (r->live == 0) return; /* an error on the way ended them all */
		if (r->seq[c].state != SEQUENCE_ENDED) emit_done(g, &r->seq[c], finish, -1);
	}
}

/* Why a request has to end now; NONE: it may go on. */
static nh_finish due(const engine *g, const engine_request *r, int64_t now)
{
	if (g->closing || atomic_load(&r->cancelled)) return NH_FINISH_CANCELLED;
	return r->deadline_us && now >= r->deadline_us ? NH_FINISH_DEADLINE : NH_FINISH_NONE;
}

/* The first request of the inbox that has to end, taken out of it. */
static engine_request *take_due(engine *g, int64_t now, nh_finish *why)
{
	pthread_mutex_lock(&g->lock);
	engine_request **at = &g->first, *r;
	while (*at && (*why = due(g, *at, now)) == NH_FINISH_NONE) at = &(*at)->next;
	r = *at;
	if (r) {
		*at = r->next;
		r->next = NULL;
		g->waiting--;
	}
	pthread_mutex_unlock(&g->lock);
	return r;
}

void engine_sweep(engine *g)
{
	int64_t now = clock_us();
	nh_finish why;
	for (engine_request *r; (r = take_due(g, now, &why)) != NULL;) end_all(g, r, why);
	for (int i = 0; i < g->running;) {
		engine_request *r = g->run[i]->r;
		why = due(g, r, now);
		if (why == NH_FINISH_NONE) i++;
		else {
			end_all(g, r, why);
			i = 0; /* the list has changed */
		}
	}
	for (sequence *q = g->swapped; q;) {
		why = due(g, q->r, now);
		if (why == NH_FINISH_NONE) q = q->next;
		else {
			end_all(g, q->r, why);
			q = g->swapped;
		}
	}
	loop_drop_ended(g);
}

void loop_leave(engine *g, sequence *q)
{
	if (q->state == SEQUENCE_ENDED) return;
	if (q->state == SEQUENCE_SWAPPED) {
		sequence **at = &g->swapped;
		while (*at != q) at = &(*at)->next;
		*at = q->next;
		g->swapped_count--;
	}
	run_remove(g, q);
	seqmem_release(&q->memory);
	swap_free(q->swap);
	q->swap = NULL;
	if (q->hooks.close) q->hooks.close(q->hooks.self);
	q->hooks = (engine_hooks){0};
	q->state = SEQUENCE_ENDED;
	q->r->live--;
}

void loop_drop_ended(engine *g)
{
	for (engine_request *r = g->ended, *next; r; r = next) {
		next = r->next;
		request_drop(r);
	}
	g->ended = NULL;
}

/* Waits for work, or a while for readers to catch up; false: the engine closes and everything has ended. */
static bool wait_for_work(engine *g, bool stuck)
{
	struct timespec until;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += LOOK_US * 1000;
	if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
	bool held = g->running > 0 || g->swapped;
	pthread_mutex_lock(&g->lock);
	while (!g->closing && !held && !g->first) pthread_cond_wait(&g->wake, &g->lock);
	while (stuck && !g->closing && pthread_cond_timedwait(&g->wake, &g->lock, &until) != ETIMEDOUT && !g->first) continue;
	bool work = held || g->first;
	pthread_mutex_unlock(&g->lock);
	return work;
}

void *loop_run(void *user)
{
	engine *g = user;
	bool stuck = false;
	while (wait_for_work(g, stuck)) {
		engine_sweep(g);
		stuck = !step_run(g) && (g->running > 0 || g->swapped);
		if (g->spill) spill_adopt(g->spill);
	}
	return NULL;
}
