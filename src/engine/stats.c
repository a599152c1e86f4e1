/* SPDX-License-Identifier: Apache-2.0
 * stats.c: numbers of the engine, copied out under a lock so that any thread may ask while a step runs. The exec's counters belong to the
 * engine's thread: readers see those of the last finished step.
 */
#include "engine/engine_impl.h"
#include "exec/wrap.h"
#include "op/op.h"

static void exec_numbers(engine_stats *s, const exec_counters *c, const profile_row *time)
{
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
}

/* From the profile's rows: it reads how many keys a call sees, which the counters do not know. */
static void cost_numbers(engine_stats *s, const profile_row *row)
{
	s->cost_weight_bytes = s->cost_expert_bytes = s->cost_state_bytes = s->cost_kv_bytes = s->cost_flops = 0;
	for (int i = 0; row && i < OP_COUNT; i++) {
		const op_cost *c = &row[i].cost;
		const bool keys = i == OP_attn_decode || i == OP_attn_prefill || i == OP_kv_write;
		*(i == OP_expert_ffn ? &s->cost_expert_bytes : &s->cost_weight_bytes) += c->weight_bytes;
		*(keys ? &s->cost_kv_bytes : &s->cost_state_bytes) += c->state_bytes;
		s->cost_flops += c->flops;
	}
}

static void pool_numbers(const engine *g, engine_stats *s)
{
	s->running = (uint64_t)g->running;
	s->swapped = (uint64_t)g->swapped_count;
	s->slots_total = (uint64_t)g->states.pool.count;
	s->slots_used = s->slots_total - (uint64_t)g->states.pool.free_count;
	s->pages_total = (uint64_t)g->pages.pool.count;
	s->pages_used = s->pages_total - (uint64_t)g->pages.pool.free_count;
	s->page_tokens = PAGES_TOKENS;
	if (g->prefixes) {
		prefix_stats p;
		prefix_get_stats(g->prefixes, &p);
		s->snapshots = (uint64_t)p.snapshots;
		s->snapshot_bytes = p.bytes;
		s->prefix_hits = p.hits;
		s->prefix_misses = p.misses;
		s->evictions = p.evictions;
	}
	if (g->spill) {
		spill_stats p;
		spill_get_stats(g->spill, &p);
		s->spills = p.stored;
		s->spill_loads = p.loaded;
		s->spill_bytes = p.bytes;
	}
}

static void add_time(engine_stats *s, int stage, int64_t us)
{
	int bucket = 0;
	while (bucket + 1 < ENGINE_BUCKETS && us >= (int64_t)1 << bucket) bucket++;
	s->step_us[stage][bucket]++;
}

void stats_time(engine *g, int stage, int64_t us)
{
	pthread_mutex_lock(&g->stats_lock);
	add_time(&g->stats, stage, us);
	pthread_mutex_unlock(&g->stats_lock);
}

void stats_publish(engine *g, const int64_t *stage_us)
{
	const profile_row *time = g->parts->profile ? wrap_profile_rows(g->parts->profile) : NULL;
	pthread_mutex_lock(&g->stats_lock);
	exec_numbers(&g->stats, &g->parts->base->counters, time);
	cost_numbers(&g->stats, time);
	pool_numbers(g, &g->stats);
	for (int i = 0; stage_us && i + 1 < ENGINE_STAGES; i++) add_time(&g->stats, i, stage_us[i]);
	pthread_mutex_unlock(&g->stats_lock);
}

void engine_get_stats(engine *g, engine_stats *out)
{
	pthread_mutex_lock(&g->lock);
	uint64_t waiting = (uint64_t)g->waiting;
	pthread_mutex_unlock(&g->lock);
	pthread_mutex_lock(&g->stats_lock);
	*out = g->stats;
	pthread_mutex_unlock(&g->stats_lock);
	out->waiting = waiting;
}
