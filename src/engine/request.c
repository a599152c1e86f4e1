/* SPDX-License-Identifier: Apache-2.0
 * request.c: the queue of events and the life of a request. Knows neither model nor steps. Checking and copying what was submitted is
 * request_spec.c's.
 * Cancel only stores a flag, because signal handlers call it; so the engine, when it waits for a slow reader, looks at the flag in
 * short intervals instead of being woken.
 */
#include "engine/request.h"

#include <errno.h>
#include <string.h>

#include "base/base_clock.h"
#include "base/base_mem.h"

#define LOOK_US 5000

/* Absolute monotonic time for pthread_cond_timedwait. */
static struct timespec after_us(int64_t us)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec += (time_t)(us / 1000000);
	t.tv_nsec += (long)(us % 1000000) * 1000;
	if (t.tv_nsec >= 1000000000) {
		t.tv_sec++;
		t.tv_nsec -= 1000000000;
	}
	return t;
}

request_place *request_claim(engine_request *r, bool last, void (*idle)(void *user), void *user)
{
	pthread_mutex_lock(&r->lock);
	while (!last && r->waiting >= r->places - 1 && !atomic_load(&r->cancelled)) {
		struct timespec until = after_us(LOOK_US);
		if (pthread_cond_timedwait(&r->space, &r->lock, &until) != ETIMEDOUT || !idle) continue;
		pthread_mutex_unlock(&r->lock);
		idle(user);
		pthread_mutex_lock(&r->lock);
	}
	bool full = r->waiting >= r->places - (last ? 0 : 1);
	int at = (r->head + r->waiting) % r->places;
	pthread_mutex_unlock(&r->lock);
	if (full) return NULL;
	request_place *p = &r->place[at];
	memset(&p->event, 0, sizeof p->event);
	p->event.best_id = p->event.token = p->event.stop_index = -1;
	p->event.top = p->top;
	p->event.want = p->want;
	p->event.reasoning = p->event.content = "";
	return p;
}

void request_publish(engine_request *r, bool last)
{
	pthread_mutex_lock(&r->lock);
	r->waiting++;
	r->ended = last;
	pthread_cond_signal(&r->ready);
	pthread_mutex_unlock(&r->lock);
}

nh_status engine_request_next(engine_request *r, engine_event *out, int64_t timeout_us)
{
	nh_status s = NH_OK;
	struct timespec until = after_us(timeout_us > 0 ? timeout_us : 0);
	pthread_mutex_lock(&r->lock);
	if (r->taken) {
		r->taken = false;
		r->head = (r->head + 1) % r->places;
		r->waiting--;
		pthread_cond_signal(&r->space);
	}
	while (s == NH_OK && r->waiting == 0) {
		if (r->ended) s = NH_ERR_STATE;
		else if (timeout_us < 0) pthread_cond_wait(&r->ready, &r->lock);
		else if (timeout_us == 0 || pthread_cond_timedwait(&r->ready, &r->lock, &until) == ETIMEDOUT)
			s = r->waiting ? NH_OK : NH_ERR_TIMEOUT;
	}
	if (s == NH_OK) {
		r->taken = true;
		*out = r->place[r->head].event;
	}
	pthread_mutex_unlock(&r->lock);
	return s;
}

void engine_request_cancel(engine_request *r) { atomic_store(&r->cancelled, true); }

void engine_request_release(engine_request *r)
{
	if (!r) return;
	engine_request_cancel(r);
	request_drop(r);
}

void request_drop(engine_request *r)
{
	if (atomic_fetch_sub(&r->holders, 1) > 1) return;
	for (int i = 0; i < r->places; i++) buf_deinit(&r->place[i].text);
	pthread_cond_destroy(&r->space);
	pthread_cond_destroy(&r->ready);
	pthread_mutex_destroy(&r->lock);
	seqmem_deinit(&r->memory);
	mem_free(r->trace_row);
	mem_free(r->tokens);
	arena_deinit(&r->mem);
	mem_free(r);
}
