/* SPDX-License-Identifier: Apache-2.0
 * request.c: the queue of events and the life of a request. Knows neither model nor steps. Checking and copying what was submitted is
 * request_spec.c's. Cancel only stores a flag, because signal handlers call it: the engine looks at it before each step.
 */
#include "engine/request.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/base_clock.h"
#include "base/base_mem.h"

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

bool request_full(engine_request *r)
{
	pthread_mutex_lock(&r->lock);
	bool full = r->waiting >= r->event_limit;
	pthread_mutex_unlock(&r->lock);
	return full;
}

request_place *request_claim(engine_request *r)
{
	pthread_mutex_lock(&r->lock);
	assert(r->waiting + r->composed < r->places);
	int at = (r->head + r->waiting + r->composed++) % r->places;
	pthread_mutex_unlock(&r->lock);
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
	if (r->composed == 0) return;
	pthread_mutex_lock(&r->lock);
	r->waiting += r->composed;
	r->composed = 0;
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
	for (int i = 0; r->seq && i < r->choices; i++) {
		seqmem_deinit(&r->seq[i].memory);
		swap_free(r->seq[i].swap);
		mem_free(r->seq[i].tokens);
	}
	engine_session_close(r->session);
	engine_session_close(r->kept);
	pthread_cond_destroy(&r->ready);
	pthread_mutex_destroy(&r->lock);
	mem_free(r->trace_row);
	arena_deinit(&r->mem);
	mem_free(r);
}
