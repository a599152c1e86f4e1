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

request_place *request_claim(engine_request *r)
{
	int at = r->tail + r->composed++;
	assert(request_waiting(r) + r->composed <= r->places);
	request_place *p = &r->place[at < r->places ? at : at - r->places];
	/* Only the last event of a choice has statistics: the place of no other one has anything to clear there. */
	if (p->event.type == NH_EVENT_DONE || p->event.type == NH_EVENT_ERROR) memset(&p->event.stats, 0, sizeof p->event.stats);
	memset(&p->event, 0, offsetof(engine_event, stats));
	p->event.best_id = p->event.token = p->event.stop_index = -1;
	p->event.top = p->top;
	p->event.want = p->want;
	p->event.reasoning = p->event.content = "";
	return p;
}

/* The writer adds, then looks whether the reader sleeps; the reader says that he sleeps, then looks whether something was added. In one order for
 * both (sequentially consistent), so that one of them sees the other. */
void request_publish(engine_request *r, bool last)
{
	if (r->composed == 0) return;
	r->tail = (r->tail + r->composed) % r->places;
	atomic_fetch_add(&r->told, (unsigned)r->composed + (last ? REQUEST_ENDED : 0));
	r->composed = 0;
	if (!atomic_load(&r->sleeps)) return;
	pthread_mutex_lock(&r->lock);
	pthread_cond_signal(&r->ready);
	pthread_mutex_unlock(&r->lock);
}

/* What a reader is told who does not wait. */
static nh_status look(const engine_request *r)
{
	const unsigned told = atomic_load(&r->told);
	if (told & ~REQUEST_ENDED) return NH_OK;
	return told & REQUEST_ENDED ? NH_ERR_STATE : NH_ERR_TIMEOUT;
}

static nh_status wait_for(engine_request *r, int64_t timeout_us)
{
	nh_status s = look(r);
	if (s != NH_ERR_TIMEOUT || timeout_us == 0) return s;
	const struct timespec until = after_us(timeout_us > 0 ? timeout_us : 0);
	int woken = 0;
	pthread_mutex_lock(&r->lock);
	atomic_store(&r->sleeps, true);
	while ((s = look(r)) == NH_ERR_TIMEOUT && woken != ETIMEDOUT)
		woken = timeout_us < 0 ? pthread_cond_wait(&r->ready, &r->lock) : pthread_cond_timedwait(&r->ready, &r->lock, &until);
	atomic_store(&r->sleeps, false);
	pthread_mutex_unlock(&r->lock);
	return s;
}

nh_status engine_request_next(engine_request *r, engine_event *out, int64_t timeout_us)
{
	if (r->taken) {
		r->taken = false;
		r->head = (r->head + 1) % r->places;
		atomic_fetch_sub(&r->told, 1);
	}
	nh_status s = wait_for(r, timeout_us);
	if (s != NH_OK) return s;
	r->taken = true;
	*out = r->place[r->head].event;
	return NH_OK;
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
