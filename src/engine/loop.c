/* SPDX-License-Identifier: Apache-2.0
 * loop.c: the engine's thread and its inbox: what is submitted waits in order, steps run until nothing is left. Knows nothing of what a
 * step does.
 * The invariant that breaks first: a request is in the inbox, active, or ended; one holder is the engine's until it has ended.
 */
#include "base/base_clock.h"
#include "engine/engine_impl.h"

nh_status engine_submit(engine *g, const engine_spec *spec, engine_request **out, nh_error *e)
{
	engine_request *r;
	*out = NULL;
	nh_status s = request_create(&r, spec, g->parts->m->shape.vocab, g->context, g->event_limit, e);
	if (s == NH_OK) s = seqmem_init(&r->memory, &g->states, &g->pages, r->limit, e);
	if (s == NH_OK) {
		pthread_mutex_lock(&g->lock);
		if (g->closing) s = ERR(e, NH_ERR_STATE, "the engine is closing");
		else if (g->waiting >= ENGINE_QUEUE_MAX) s = ERR(e, NH_ERR_LIMIT, "queue: %d requests wait already", g->waiting);
		if (s == NH_OK) {
			/* Before the thread can see it: whoever has read the last event finds it counted. */
			pthread_mutex_lock(&g->stats_lock);
			g->stats.requests++;
			pthread_mutex_unlock(&g->stats_lock);
			*(g->last ? &g->last->next : &g->first) = r;
			g->last = r;
			g->waiting++;
			pthread_cond_signal(&g->wake);
		}
		pthread_mutex_unlock(&g->lock);
	}
	if (s == NH_OK) {
		*out = r;
		return NH_OK;
	}
	if (spec->hooks.close) spec->hooks.close(spec->hooks.self);
	if (r) {
		request_drop(r);
		request_drop(r);
	}
	return s;
}

/* Takes the first request that waits and was cancelled, or (any) just the first. */
static engine_request *take(engine *g, bool any)
{
	engine_request *before = NULL, *r;
	pthread_mutex_lock(&g->lock);
	for (r = g->first; r && !any && !atomic_load(&r->cancelled); r = r->next) before = r;
	if (r) {
		*(before ? &before->next : &g->first) = r->next;
		if (g->last == r) g->last = before;
		r->next = NULL;
		g->waiting--;
		if (any) g->active = r;
	}
	pthread_mutex_unlock(&g->lock);
	return r;
}

void loop_sweep(void *user)
{
	engine *g = user;
	for (engine_request *r; (r = take(g, false)) != NULL;) emit_done(g, r, NH_FINISH_CANCELLED, -1);
}

bool step_admit(engine *g)
{
	engine_request *r = g->active;
	if (!r) {
		r = take(g, true);
		if (!r) return false;
		r->admitted_us = clock_us();
		r->stats.queue_us = r->admitted_us - r->submitted_us;
		if (!atomic_load(&r->cancelled) && seqmem_begin(&r->memory, &r->error) != NH_OK) {
			emit_error(g, r);
			return false;
		}
	}
	if (!atomic_load(&r->cancelled)) return true;
	emit_done(g, r, NH_FINISH_CANCELLED, -1);
	return false;
}

void loop_forget(engine *g, engine_request *r)
{
	seqmem_release(&r->memory);
	if (r->spec.hooks.close) r->spec.hooks.close(r->spec.hooks.self);
	r->spec.hooks = (engine_hooks){0};
	pthread_mutex_lock(&g->lock);
	if (g->active == r) g->active = NULL;
	pthread_mutex_unlock(&g->lock);
}

/* Waits for work; false: the engine closes and everything has ended. */
static bool wait_for_work(engine *g)
{
	pthread_mutex_lock(&g->lock);
	while (!g->closing && !g->active && !g->first) pthread_cond_wait(&g->wake, &g->lock);
	bool work = g->active || g->first;
	pthread_mutex_unlock(&g->lock);
	return work;
}

void *loop_run(void *user)
{
	engine *g = user;
	while (wait_for_work(g)) {
		loop_sweep(g);
		step_run(g);
	}
	return NULL;
}
