/* SPDX-License-Identifier: Apache-2.0
 * s_reserve.c: what the next step computes: the scheduler's plan, and memory for each of its items. Where memory is short, prefixes go first,
 * then the lowest ranked sequence; the others never notice.
 * The invariant that breaks first: an item that is left has every page and slot that its rows write.
 */
#include <string.h>

#include "engine/engine_impl.h"

bool sequence_decodes(const sequence *q) { return q->memory.length >= q->r->given || q->memory.length < q->r->history; }

/* Tokens that may follow the pending one, written behind it. The last of them must leave room for one that is drawn. */
static int drafts(engine *g, sequence *q)
{
	const engine_request *r = q->r;
	int64_t next = q->memory.length + 1, most = r->limit - next - 1;
	bool may = next >= r->given && !r->spec.mask && !r->spec.trace && (size_t)q->generated >= r->spec.forced_tokens;
	if (!may || most <= 0) return 0;
	return draft_propose(q->tokens, next, most < g->limits.drafts ? (int)most : g->limits.drafts, q->tokens + next);
}

/* A traced request has steps of its own, every other one at most: the turn of the one at `traced`, -1: of none, beside others that could run. */
static void traced_turn(engine *g, int traced, bool others)
{
	g->traced_last = traced >= 0 && !(others && g->traced_last);
	for (int i = 0; i < g->running; i++)
		if (g->traced_last ? i != traced : g->run[i]->r->spec.trace != NULL) g->step.view[i].paused = true;
}

static void look(engine *g)
{
	int traced = -1, any = 0, others = 0;
	for (int i = 0; i < g->running; i++) {
		sequence *q = g->run[i];
		sched_view *v = &g->step.view[i];
		*v = (sched_view){.pos = q->memory.length, .stop = q->stop, .decode = sequence_decodes(q)};
		v->paused = q->state != SEQUENCE_RUNS || request_full(q->r);
		const bool trace = q->r->spec.trace != NULL;
		any += trace;
		if (v->paused) continue;
		others += !trace;
		if (trace && traced < 0) traced = i;
	}
	if (any) traced_turn(g, traced, others > 0);
	else g->traced_last = false;
	if (g->limits.drafts == 0) return;
	for (int i = 0; i < g->running; i++) {
		sched_view *v = &g->step.view[i];
		if (v->decode && !v->paused) v->drafts = drafts(g, g->run[i]);
	}
}

void fork_release(const step_item *i)
{
	const engine_request *r = i->q->r;
	for (int c = 1; !i->decode && c < r->choices; c++) {
		seqmem *m = &r->seq[c].memory;
		while (m->length == 0 && m->page_count > 0) pool_drop(&m->pages->pool, m->page[--m->page_count]);
	}
}

/* The other choices share the prompt's full pages and take one of their own for the rest. */
static nh_status fork_pages(engine *g, const step_item *i, nh_error *e)
{
	engine_request *r = i->q->r;
	const seqmem *from = &i->q->memory;
	int64_t full = r->given / PAGES_TOKENS;
	bool rest = r->given % PAGES_TOKENS != 0;
	if (rest && g->pages.pool.free_count < r->choices - 1) return ERR(e, NH_ERR_LIMIT, "KV pages: none is free for a choice");
	for (int c = 1; c < r->choices; c++) {
		seqmem *m = &r->seq[c].memory;
		for (m->page_count = 0; m->page_count < full; m->page_count++) {
			m->page[m->page_count] = from->page[m->page_count];
			pool_share(&g->pages.pool, from->page[m->page_count]);
		}
		if (rest) m->page[m->page_count++] = pool_take(&g->pages.pool);
	}
	g->step.forks += r->choices - 1;
	g->step.page_forks += rest ? r->choices - 1 : 0;
	return NH_OK;
}

static bool forks(const step_item *i)
{
	const engine_request *r = i->q->r;
	return !i->decode && r->choices > 1 && i->pos + i->rows >= r->given && r->given < r->limit;
}

/* Slots for the states after each row: the first replaces the one it reads. Without a free slot there is one draft less. */
static void take_spares(engine *g, step_item *i)
{
	i->slot[0] = i->q->memory.slot;
	for (int k = 1; k < i->rows; k++) {
		i->slot[k] = pool_take(&g->states.pool);
		if (i->slot[k] < 0) i->rows = k;
	}
}

/* Pages for one item; others may lose theirs. False: it is not in this step. */
static bool item_room(engine *g, step_item *i)
{
	sequence *q = i->q;
	const bool parts = forks(i);
	if (!parts && i->pos + i->rows <= q->memory.page_count * PAGES_TOKENS) return true; /* most steps of most sequences */
	for (;;) {
		int64_t more = pages_needed(i->pos + i->rows) - q->memory.page_count,
		        fork = parts && q->r->given % PAGES_TOKENS ? q->r->choices - 1 : 0;
		if (make_room(g, 0, (more > 0 ? more : 0) + fork, q)) break;
		if (i->decode && i->rows > 1) i->rows = 1;
		else return false;
	}
	if (seqmem_reserve(&q->memory, i->pos + i->rows, NULL) != NH_OK) return false;
	return !parts || fork_pages(g, i, NULL) == NH_OK;
}

/* Items whose sequence was moved out to make room are dropped, with what had been taken for them. */
static void drop_moved(engine *g)
{
	step *s = &g->step;
	int to = 0;
	for (int k = 0; k < s->items; k++)
		if (s->item[k].q->state == SEQUENCE_RUNS) {
			if (to != k) s->item[to] = s->item[k];
			to++;
		} else if (forks(&s->item[k])) {
			const engine_request *r = s->item[k].q->r;
			g->step.forks -= r->choices - 1;
			g->step.page_forks -= r->given % PAGES_TOKENS ? r->choices - 1 : 0;
			fork_release(&s->item[k]);
		}
	s->items = to;
}

/* Nobody could be given room: the last resort is to move the lowest ranked one out, and where the host has no memory either, to end it. True:
 * something changed. */
static bool clear_out(engine *g)
{
	sequence *last = NULL;
	for (int k = 0; k < g->running; k++) {
		sequence *q = g->run[k];
		if (q->state == SEQUENCE_RUNS && q->memory.length > 0 && (!last || rank_compare(q, last) > 0)) last = q;
	}
	if (!last || g->running < 2) return false;
	if (preempt(g, last)) return true;
	ERR(&last->r->error, NH_ERR_NOMEM, "KV pages: all are in use, and the host has no memory to move %lld tokens to",
	    (long long)last->memory.length);
	emit_error(g, last->r);
	return true;
}

static bool plan(engine *g)
{
	step *s = &g->step;
	look(g);
	int wanted = sched_plan(s->view, g->running, g->limits.piece, g->parts->m->shape.chunk, s->plan);
	s->items = s->forks = s->page_forks = 0;
	/* The plan speaks of places in the run list, which changes as sequences are moved out: names first. */
	for (int k = 0; k < wanted; k++) {
		step_item *i = &s->item[k];
		i->q = g->run[s->plan[k].at];
		i->rows = s->plan[k].rows;
		i->decode = s->view[s->plan[k].at].decode;
		i->pos = i->q->memory.length;
		i->failed = false;
	}
	for (int k = 0; k < wanted; k++) {
		step_item *i = &s->item[k];
		if (i->q->state != SEQUENCE_RUNS || !item_room(g, i)) continue;
		if (s->items != k) s->item[s->items] = *i;
		s->items++;
	}
	drop_moved(g);
	for (int k = 0; k < s->items; k++)
		if (s->item[k].decode) take_spares(g, &s->item[k]);
	return wanted > 0;
}

bool step_reserve(engine *g)
{
	step *s = &g->step;
	while (plan(g) && s->items == 0)
		if (!clear_out(g)) return false;
	if (s->items == 0) return false;
	step_layout(s, g->parts->m->shape.vocab);
	return true;
}
