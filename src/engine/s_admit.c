/* SPDX-License-Identifier: Apache-2.0
 * s_admit.c: who is in the pools: requests enter when there is room for them, sequences come back from host memory, and go there when a better
 * one needs what they hold. Nothing is ever computed again, so nobody's bits change.
 * The invariant that breaks first: who ranks first always runs, because everybody else can be moved out of its way.
 */
#include <string.h>

#include "base/base_clock.h"
#include "engine/engine_impl.h"
#include "engine/session.h"

int rank_compare(const sequence *a, const sequence *b)
{
	if (a->r->spec.priority != b->r->spec.priority) return a->r->spec.priority > b->r->spec.priority ? -1 : 1;
	if (a->r->serial != b->r->serial) return a->r->serial < b->r->serial ? -1 : 1;
	return a->choice - b->choice;
}

void run_insert(engine *g, sequence *q)
{
	int at = g->running++;
	for (; at > 0 && g->run[at - 1]->r->spec.priority < q->r->spec.priority; at--) g->run[at] = g->run[at - 1];
	g->run[at] = q;
}

void run_remove(engine *g, const sequence *q)
{
	int to = 0;
	for (int i = 0; i < g->running; i++)
		if (g->run[i] != q) g->run[to++] = g->run[i];
	g->running = to;
}

/* Choices that wait for the prompt come and go with it: places that they kept alone could keep it out for ever. */
static void forks_leave(engine *g, engine_request *r)
{
	for (int c = 1; c < r->choices; c++) {
		if (r->seq[c].state != SEQUENCE_FORKS) continue;
		run_remove(g, &r->seq[c]);
		seqmem_release(&r->seq[c].memory);
		r->seq[c].state = SEQUENCE_WAITS;
	}
}

static int forks_waiting(const engine_request *r)
{
	int n = 0;
	for (int c = 1; c < r->choices; c++) n += r->seq[c].state == SEQUENCE_WAITS;
	return n;
}

static nh_status forks_enter(engine *g, engine_request *r)
{
	for (int c = 1; c < r->choices; c++) {
		sequence *q = &r->seq[c];
		if (q->state != SEQUENCE_WAITS) continue;
		TRY(seqmem_begin(&q->memory, &r->error));
		q->state = SEQUENCE_FORKS;
		run_insert(g, q);
	}
	return NH_OK;
}

bool preempt(engine *g, sequence *q)
{
	if (swap_out(&q->swap, &q->memory, NULL) != NH_OK) return false;
	run_remove(g, q);
	if (q->choice == 0) forks_leave(g, q->r);
	q->state = SEQUENCE_SWAPPED;
	q->stats.swaps++;
	sequence **at = &g->swapped;
	while (*at && rank_compare(*at, q) < 0) at = &(*at)->next;
	q->next = *at;
	*at = q;
	g->swapped_count++;
	pthread_mutex_lock(&g->stats_lock);
	g->stats.preemptions++;
	g->stats.swaps_out++;
	pthread_mutex_unlock(&g->stats_lock);
	return true;
}

/* Who makes room for q: somebody whose reader is behind and who can not go on anyway, else whoever ranks lowest if `below` says that it ranks low
 * enough; NULL: nobody. */
static sequence *victim_for(const engine *g, const sequence *q, bool (*below)(const sequence *victim, const sequence *q))
{
	sequence *found = NULL;
	bool paused = false;
	for (int i = 0; i < g->running; i++) {
		sequence *v = g->run[i];
		if (v == q || v->state != SEQUENCE_RUNS || v->memory.length == 0) continue;
		bool behind = request_full(v->r);
		if (found && (behind < paused || (behind == paused && rank_compare(v, found) < 0))) continue;
		found = v;
		paused = behind;
	}
	return found && (paused || below(found, q)) ? found : NULL;
}

static bool ranks_below(const sequence *victim, const sequence *q) { return rank_compare(victim, q) > 0; }
static bool has_less_priority(const sequence *victim, const sequence *q) { return victim->r->spec.priority < q->r->spec.priority; }

static bool has_room(const engine *g, int32_t slots, int64_t room)
{
	return g->states.pool.free_count >= slots && g->pages.pool.free_count >= room;
}

bool make_room(engine *g, int32_t slots, int64_t room, const sequence *q)
{
	for (;;) {
		if (has_room(g, slots, room)) return true;
		if (g->prefixes && prefix_evict(g->prefixes, slots, room)) return true;
		sequence *victim = victim_for(g, q, ranks_below);
		if (!victim || !preempt(g, victim)) return false;
	}
}

/* Whether a newcomer gets in: places among those that run, and room for what it will hold soon without sending the others away. Prefixes are
 * only given up where that can help. */
static bool lets_in(engine *g, const sequence *q, int count, int64_t room)
{
	for (;;) {
		if (g->running + count <= g->limits.sequences) {
			int64_t used = 0, want = room + g->running; /* and a page for each of the others to grow into */
			for (int i = 0; i < g->running; i++) used += g->run[i]->memory.page_count;
			if (want > g->pages.pool.count) want = g->pages.pool.count;
			if (has_room(g, count, want)) return true;
			if (used + want <= g->pages.pool.count && g->prefixes && prefix_evict(g->prefixes, count, want)) return true;
			if (g->running == 0) return has_room(g, count, room);
		}
		sequence *victim = victim_for(g, q, has_less_priority);
		if (!victim || !preempt(g, victim)) return false;
	}
}

/* A sequence's state from host memory, also a session's for the first time. */
static nh_status swap_back(engine *g, sequence *q)
{
	engine_request *r = q->r;
	TRY(swap_in(q->swap ? q->swap : session_of(r->session)->state, &q->memory, &r->error));
	swap_free(q->swap);
	q->swap = NULL;
	engine_session_close(r->session);
	r->session = NULL;
	q->state = SEQUENCE_RUNS;
	run_insert(g, q);
	pthread_mutex_lock(&g->stats_lock);
	g->stats.swaps_in++;
	pthread_mutex_unlock(&g->stats_lock);
	return NH_OK;
}

/* False: there is no room yet. */
static bool resume(engine *g, sequence *q)
{
	int count = 1 + (q->choice == 0 ? forks_waiting(q->r) : 0);
	if (!lets_in(g, q, count, pages_needed(swap_length(q->swap) + 1) + count - 1)) return false;
	nh_status s = swap_back(g, q);
	if (s == NH_ERR_LIMIT) q->r->error = (nh_error){0};
	if (s == NH_ERR_LIMIT) return false;
	if (s == NH_OK) {
		sequence **at = &g->swapped;
		while (*at != q) at = &(*at)->next;
		*at = q->next;
		g->swapped_count--;
		if (count > 1) s = forks_enter(g, q->r);
	}
	if (s != NH_OK) emit_error(g, q->r);
	return true;
}

/* What is known of the prompt's beginning. Who wants to see every row computed neither uses the cache nor feeds it. */
static nh_status adopt(engine *g, engine_request *r)
{
	sequence *q = r->seq;
	bool known = g->prefixes && !r->spec.no_prefix_cache && !r->spec.trace && !r->spec.prompt_logprobs && r->spec.embed != NH_EMBED_MEAN;
	int64_t length = 0;
	if (known) TRY(prefix_adopt(g->prefixes, q->tokens, r->given, &q->memory, &length, &r->error));
	if (length == 0) TRY(seqmem_begin(&q->memory, &r->error));
	q->stats.reused_tokens = (uint64_t)length;
	if (!known) return NH_OK;
	prefix_seen(g->prefixes, q->tokens, r->given);
	q->stop = prefix_next(g->prefixes, q->tokens, r->given, length);
	pthread_mutex_lock(&g->stats_lock);
	g->stats.reused_tokens += (uint64_t)length;
	pthread_mutex_unlock(&g->stats_lock);
	return NH_OK;
}

static void unlink_waiting(engine *g, engine_request *r)
{
	pthread_mutex_lock(&g->lock);
	engine_request **at = &g->first;
	while (*at != r) at = &(*at)->next;
	*at = r->next;
	r->next = NULL;
	g->waiting--;
	pthread_mutex_unlock(&g->lock);
	r->admitted_us = clock_us();
}

/* False: there is no room yet, and it still waits. */
static bool admit(engine *g, engine_request *r)
{
	int64_t soon = r->given + 1 < r->limit ? r->given + 1 : r->limit;
	sequence *q = r->seq;
	nh_status s;
	if (!lets_in(g, q, r->choices, pages_needed(soon) + r->choices - 1)) return false;
	if (r->session) {
		s = swap_back(g, q);
		if (s == NH_ERR_LIMIT) r->error = (nh_error){0};
		if (s == NH_ERR_LIMIT) return false;
		unlink_waiting(g, r);
	} else {
		unlink_waiting(g, r);
		s = adopt(g, r);
		q->state = SEQUENCE_RUNS;
		run_insert(g, q);
	}
	if (s == NH_OK) s = forks_enter(g, r);
	if (s != NH_OK) emit_error(g, r);
	return true;
}

/* Strictly by rank: a big one that waits is not overtaken by small ones for ever. Only this thread takes from the inbox. */
void step_admit(engine *g)
{
	for (;;) {
		pthread_mutex_lock(&g->lock);
		engine_request *fresh = g->first;
		pthread_mutex_unlock(&g->lock);
		sequence *back = g->swapped;
		while (back && request_full(back->r)) back = back->next; /* its reader is behind */
		if (!back && !fresh) return;
		if (back && (!fresh || rank_compare(back, fresh->seq) < 0)) {
			if (!resume(g, back)) return;
		} else if (!admit(g, fresh)) return;
	}
}
