/* SPDX-License-Identifier: Apache-2.0
 * stats.c: numbers of the engine, copied out under a lock so that any thread may ask while a step runs. The exec's counters belong to the
 * engine's thread: readers see those of the last finished step.
 */
#include "engine/engine_impl.h"
#include "exec/wrap.h"
#include "op/op.h"

void stats_publish(engine *g)
{
	const exec_counters *c = &g->parts->base->counters;
	const profile_row *time = g->parts->profile ? wrap_profile_rows(g->parts->profile) : NULL;
	pthread_mutex_lock(&g->stats_lock);
	engine_stats *s = &g->stats;
	s->reference_calls = 0;
	for (int i = 0; i < OP_COUNT; i++) {
		const op_counter *n = &c->op[i];
		s->ops[i] = (engine_op_stat){.op = op_name((op_id)i),
		    .calls = n->calls,
		    .rows = n->rows,
		    .bytes = n->bytes,
		    .reference_calls = n->reference_calls,
		    .ns = time ? time[i].ns : 0};
		s->reference_calls += n->reference_calls;
	}
	s->state_update_rows = c->state_update_rows;
	s->scan_calls = c->scan_calls;
	s->scan_chunks = c->scan_chunks;
	s->conv_update_rows = c->conv_update_rows;
	s->conv_forward_calls = c->conv_forward_calls;
	s->gathers = c->gathers;
	s->scatters = c->scatters;
	s->expert_rows = c->expert_rows;
	s->experts_read = c->experts_read;
	s->bytes_uploaded = c->bytes_uploaded;
	pthread_mutex_unlock(&g->stats_lock);
}

void engine_get_stats(engine *g, engine_stats *out)
{
	pthread_mutex_lock(&g->stats_lock);
	*out = g->stats;
	pthread_mutex_unlock(&g->stats_lock);
}
