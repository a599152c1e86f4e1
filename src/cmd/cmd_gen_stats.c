/* SPDX-License-Identifier: Apache-2.0
 * cmd_gen_stats.c: the engine's statistics for people and as JSON. Knows what the counters are called, not where they come from.
 * The invariant that breaks first: every counter of nh_engine_stats is in both forms.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/base_status.h"
#include "cmd/cmd_gen.h"

static const char *const STAGES[NH_STAGES] = {"admit", "reserve", "inputs", "forward", "pick", "commit", "emit"};

static uint64_t stage_steps(const nh_engine_stats *s, int stage)
{
	uint64_t n = 0;
	for (int b = 0; b < NH_BUCKETS; b++) n += s->step_us[stage][b];
	return n;
}

/* The bound of the bucket in which the given part of all steps is reached, in us. */
static uint64_t stage_reaches(const nh_engine_stats *s, int stage, double part)
{
	uint64_t n = 0, all = stage_steps(s, stage);
	for (int b = 0; b < NH_BUCKETS; b++) {
		n += s->step_us[stage][b];
		if (n > 0 && (double)n >= part * (double)all) return (uint64_t)1 << b;
	}
	return 0;
}

/* Whether the ops were timed: only where --stats asked for it when the model was opened. */
static bool timed(const nh_engine_stats *s)
{
	for (size_t i = 0; i < s->op_count; i++)
		if (s->ops[i].ns > 0) return true;
	return false;
}

static void memory_lines(const nh_engine_stats *s)
{
	char state[32], kv[32], scratch[32], snapshots[32], spilled[32];
	cmd_bytes_text(s->state_bytes, state);
	cmd_bytes_text(s->kv_bytes, kv);
	cmd_bytes_text(s->scratch_bytes, scratch);
	cmd_bytes_text(s->snapshot_bytes, snapshots);
	cmd_bytes_text(s->spill_bytes, spilled);
	fprintf(stderr,
	    "memory     state %s, keys and values %s, scratch %s reserved\n"
	    "slots      %" PRIu64 " of %" PRIu64 " in use; pages %" PRIu64 " of %" PRIu64 " in use, %" PRIu64 " tokens each\n"
	    "prefixes   %" PRIu64 " snapshots, which hold %s; %" PRIu64 " hits, %" PRIu64 " misses, %" PRIu64 " evicted; %" PRIu64
	    " spilled, %" PRIu64 " loaded, %s on disk\n",
	    state, kv, scratch, s->slots_used, s->slots_total, s->pages_used, s->pages_total, s->page_tokens, s->snapshots, snapshots,
	    s->prefix_hits, s->prefix_misses, s->evictions, s->spills, s->spill_loads, spilled);
}

void gen_stats(const gen *g)
{
	nh_engine_stats s;
	nh_engine_get_stats(g->engine, &s, sizeof s);
	fflush(stdout);
	fprintf(stderr,
	    "requests   %" PRIu64 ", %" PRIu64 " cancelled, %" PRIu64 " failed, %" PRIu64 " past their deadline; now %" PRIu64
	    " waiting, %" PRIu64 " running, %" PRIu64 " swapped\n"
	    "tokens     %" PRIu64 " of prompts, %" PRIu64 " computed, %" PRIu64 " reused; %" PRIu64 " generated; %" PRIu64 " drafted, %" PRIu64
	    " accepted\n",
	    s.requests, s.cancelled, s.failed, s.deadline_misses, s.waiting, s.running, s.swapped, s.prompt_tokens, s.computed_tokens,
	    s.reused_tokens, s.generated_tokens, s.drafted_tokens, s.accepted_tokens);
	memory_lines(&s);
	fprintf(stderr,
	    "swaps      %" PRIu64 " preemptions, %" PRIu64 " out, %" PRIu64 " in\n"
	    "work       %" PRIu64 " steps; %" PRIu64 " scans of %" PRIu64 " chunks, %" PRIu64 " state updates; %" PRIu64
	    " conv rows one by one, %" PRIu64 " conv passes; %" PRIu64 " gathers, %" PRIu64 " scatters; %" PRIu64 " expert rows, %" PRIu64
	    " experts read; %" PRIu64 " bytes uploaded; reference-tier calls: %" PRIu64 "; not finite: %" PRIu64 "\n",
	    s.preemptions, s.swaps_out, s.swaps_in, s.steps, s.scan_calls, s.scan_chunks, s.state_update_rows, s.conv_update_rows,
	    s.conv_forward_calls, s.gathers, s.scatters, s.expert_rows, s.experts_read, s.bytes_uploaded, s.reference_calls, s.nan_failures);
	fprintf(stderr, "\n%-10s %10s %12s %12s\n", "stage", "steps", "half < us", "99% < us");
	for (int i = 0; i < NH_STAGES; i++)
		fprintf(stderr, "%-10s %10" PRIu64 " %12" PRIu64 " %12" PRIu64 "\n", STAGES[i], stage_steps(&s, i), stage_reaches(&s, i, 0.5),
		    stage_reaches(&s, i, 0.99));
	fprintf(stderr, "\n%-22s %9s %11s %14s %9s %12s\n", "op", "calls", "rows", "bytes", "reference", "us");
	for (size_t i = 0; i < s.op_count; i++) {
		const nh_op_stat *o = &s.ops[i];
		char us[32] = "not measured";
		if (o->calls == 0) continue;
		if (timed(&s)) snprintf(us, sizeof us, "%" PRIu64, o->ns / 1000);
		fprintf(stderr, "%-22s %9" PRIu64 " %11" PRIu64 " %14" PRIu64 " %9" PRIu64 " %12s\n", o->op, o->calls, o->rows, o->bytes,
		    o->reference_calls, us);
	}
}

static void put(json_t *to, const char *name, uint64_t value) { json_object_set_new(to, name, json_integer((json_int_t)value)); }

json_t *gen_stats_json(const gen *g)
{
	nh_engine_stats s;
	json_t *out = json_object(), *stages = json_object(), *ops = json_object();
	nh_engine_get_stats(g->engine, &s, sizeof s);
#define PUT(name) put(out, #name, s.name)
	PUT(requests), PUT(cancelled), PUT(failed), PUT(deadline_misses), PUT(waiting), PUT(running), PUT(swapped);
	PUT(prompt_tokens), PUT(computed_tokens), PUT(reused_tokens), PUT(generated_tokens), PUT(drafted_tokens), PUT(accepted_tokens);
	PUT(state_bytes), PUT(kv_bytes), PUT(scratch_bytes), PUT(slots_used), PUT(slots_total), PUT(pages_used), PUT(pages_total);
	PUT(page_tokens), PUT(snapshots), PUT(snapshot_bytes), PUT(prefix_hits), PUT(prefix_misses), PUT(evictions), PUT(spills);
	PUT(spill_loads), PUT(spill_bytes), PUT(preemptions), PUT(swaps_out), PUT(swaps_in), PUT(steps), PUT(scan_calls), PUT(scan_chunks);
	PUT(state_update_rows), PUT(conv_update_rows), PUT(conv_forward_calls), PUT(gathers), PUT(scatters), PUT(expert_rows);
	PUT(experts_read), PUT(bytes_uploaded), PUT(reference_calls), PUT(nan_failures);
#undef PUT
	for (int i = 0; i < NH_STAGES; i++) {
		json_t *buckets = json_array();
		for (int b = 0; b < NH_BUCKETS; b++) json_array_append_new(buckets, json_integer((json_int_t)s.step_us[i][b]));
		json_object_set_new(stages, STAGES[i], buckets);
	}
	json_object_set_new(out, "step_us", stages);
	for (size_t i = 0; i < s.op_count; i++) {
		json_t *op = json_object();
		put(op, "calls", s.ops[i].calls);
		put(op, "rows", s.ops[i].rows);
		put(op, "bytes", s.ops[i].bytes);
		put(op, "reference_calls", s.ops[i].reference_calls);
		if (timed(&s)) put(op, "ns", s.ops[i].ns);
		json_object_set_new(ops, s.ops[i].op, op);
	}
	json_object_set_new(out, "ops", ops);
	return out;
}
