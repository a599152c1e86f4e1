/* SPDX-License-Identifier: Apache-2.0
 * s_commit.c: the one place where a step takes effect: lengths, tokens, slots, forks and snapshots.
 * The invariant that breaks first: after it a sequence's slot holds the state after its last computed row, and all before that row are in pages.
 */
#include <string.h>

#include "base/base_clock.h"
#include "engine/engine_impl.h"

void spares_release(engine *g, step_item *i, int32_t keep)
{
	if (!i->decode) return;
	for (int k = 0; k < i->rows; k++)
		if (i->slot[k] != keep) pool_drop(&g->states.pool, i->slot[k]);
}

static void commit_decode(engine *g, step_item *i)
{
	sequence *q = i->q;
	/* The pending token's row always holds; each further one if the token before it was taken and did not end the sequence. */
	int kept = q->took > 1 ? q->took : 1;
	q->memory.slot = i->slot[kept - 1];
	spares_release(g, i, q->memory.slot);
	q->memory.length = i->pos + kept;
	q->stats.drafted_tokens += (uint64_t)(i->rows - 1);
	q->stats.accepted_tokens += (uint64_t)(kept - 1);
}

/* The other choices go on from the prompt's end, each on its own copy of the state. */
static void commit_forks(const step_item *i)
{
	engine_request *r = i->q->r;
	for (int c = 1; c < r->choices; c++) {
		sequence *q = &r->seq[c];
		q->memory.length = i->q->memory.length;
		q->state = SEQUENCE_RUNS;
		q->prefilled_us = i->q->prefilled_us;
		q->stats.computed_tokens = i->q->stats.computed_tokens;
		q->stats.reused_tokens = i->q->stats.reused_tokens;
	}
}

/* Who was given a piece and wants another lets the others of its priority go first. */
static void rotate(engine *g, sequence *q)
{
	int at = 0;
	while (at < g->running && g->run[at] != q) at++;
	for (; at + 1 < g->running && g->run[at + 1]->r->spec.priority == q->r->spec.priority; at++) {
		g->run[at] = g->run[at + 1];
		g->run[at + 1] = q;
	}
}

static void commit_piece(engine *g, const step_item *i, int64_t now)
{
	sequence *q = i->q;
	engine_request *r = q->r;
	q->memory.length = i->pos + i->rows;
	q->stats.computed_tokens += (uint64_t)i->rows;
	if (q->memory.length < r->given) {
		if (q->memory.length == q->stop) {
			prefix_publish(g->prefixes, q->tokens, r->given, &q->memory);
			q->stop = prefix_next(g->prefixes, q->tokens, r->given, q->stop);
		}
		rotate(g, q);
		return;
	}
	q->prefilled_us = now;
	if (i->draws) commit_forks(i);
}

static void commit_tokens(sequence *q, const step_item *i, int at, int64_t now)
{
	for (int k = 0; k < q->took; k++) {
		if (q->generated == 0) q->first_us = now;
		q->tokens[q->r->given + q->generated++] = item_token(i, at + k);
	}
	q->stats.generated_tokens += (uint64_t)q->took;
}

static void count(engine *g, const step_item *i)
{
	const sequence *q = i->q;
	engine_stats *s = &g->stats;
	s->prompt_tokens += i->decode ? 0 : (uint64_t)i->rows;
	s->computed_tokens += i->decode ? 0 : (uint64_t)i->rows;
	if (!i->decode) {
		for (int c = 0; c < q->r->choices; c++) s->generated_tokens += (uint64_t)q->r->seq[c].took;
		return;
	}
	s->generated_tokens += (uint64_t)q->took;
	s->drafted_tokens += (uint64_t)(i->rows - 1);
	s->accepted_tokens += (uint64_t)(q->took > 1 ? q->took - 1 : 0);
}

void step_commit(engine *g)
{
	step *s = &g->step;
	int64_t now = clock_us();
	for (int k = 0; k < s->items; k++) {
		step_item *i = &s->item[k];
		sequence *q = i->q;
		if (i->failed) {
			spares_release(g, i, q->memory.slot);
			continue;
		}
		if (i->decode) {
			commit_decode(g, i);
			commit_tokens(q, i, 0, now);
			if (q->prefilled_us == 0 && q->memory.length >= q->r->given) q->prefilled_us = now;
		} else {
			commit_piece(g, i, now);
			for (int c = 0; c < q->r->choices; c++) commit_tokens(&q->r->seq[c], i, c, now);
		}
		q->r->step++;
	}
	pthread_mutex_lock(&g->stats_lock);
	g->stats.steps++;
	for (int k = 0; k < s->items; k++)
		if (!s->item[k].failed) count(g, &s->item[k]);
	pthread_mutex_unlock(&g->stats_lock);
}
