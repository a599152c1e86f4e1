/* SPDX-License-Identifier: Apache-2.0
 * api_engine.c: nh_engine.h over the engine.
 */
#include <string.h>

#include "api/api_impl.h"
#include "base/base_mem.h"

void nh_engine_options_init(nh_engine_options *options, size_t size)
{
	nh_engine_options o = {0};
	api_init(options, size, &o, sizeof o);
}

nh_status nh_engine_open(nh_engine **out, nh_model *m, const nh_engine_options *options, nh_error *e)
{
	nh_engine_options o = {0};
	*out = NULL;
	TRY(api_in(&o, sizeof o, options, "nh_engine_options", e));
	nh_engine *g = mem_alloc(sizeof *g);
	if (!g) return ERR_NOMEM(e);
	g->model = m;
	const engine_options inner = {.max_context = o.max_context,
	    .step_tokens = o.step_tokens,
	    .memory_bytes = o.memory_bytes,
	    .max_sequences = o.max_sequences,
	    .queue_limit = o.queue_limit,
	    .no_prefix_cache = o.no_prefix_cache,
	    .spill_dir = o.spill_dir,
	    .spill_bytes = o.spill_bytes,
	    .draft = (nh_draft)o.draft,
	    .draft_tokens = o.draft_tokens};
	nh_status s = o.draft != NH_DRAFT_NONE && o.draft != NH_DRAFT_NGRAM
	                  ? ERR(e, NH_ERR_ARG, "draft: is %d, expected NH_DRAFT_NONE or NH_DRAFT_NGRAM", o.draft)
	                  : engine_open(&g->g, &m->m->parts, &inner, e);
	if (s == NH_OK) *out = g;
	else mem_free(g);
	return s;
}

void nh_engine_close(nh_engine *g)
{
	if (!g) return;
	engine_close(g->g);
	mem_free(g);
}

void nh_engine_get_stats(nh_engine *g, nh_engine_stats *stats, size_t size)
{
	engine_stats s;
	engine_get_stats(g->g, &s);
	nh_engine_stats v = {.requests = s.requests,
	    .cancelled = s.cancelled,
	    .failed = s.failed,
	    .prompt_tokens = s.prompt_tokens,
	    .generated_tokens = s.generated_tokens,
	    .steps = s.steps,
	    .reference_calls = s.reference_calls,
	    .state_update_rows = s.state_update_rows,
	    .scan_calls = s.scan_calls,
	    .scan_chunks = s.scan_chunks,
	    .conv_update_rows = s.conv_update_rows,
	    .conv_forward_calls = s.conv_forward_calls,
	    .gathers = s.gathers,
	    .scatters = s.scatters,
	    .expert_rows = s.expert_rows,
	    .experts_read = s.experts_read,
	    .bytes_uploaded = s.bytes_uploaded,
	    .nan_failures = s.nan_failures,
	    .kv_bytes = s.kv_bytes,
	    .state_bytes = s.state_bytes,
	    .scratch_bytes = s.scratch_bytes,
	    .waiting = s.waiting,
	    .running = s.running,
	    .swapped = s.swapped,
	    .slots_used = s.slots_used,
	    .slots_total = s.slots_total,
	    .pages_used = s.pages_used,
	    .pages_total = s.pages_total,
	    .page_tokens = s.page_tokens,
	    .snapshots = s.snapshots,
	    .snapshot_bytes = s.snapshot_bytes,
	    .computed_tokens = s.computed_tokens,
	    .reused_tokens = s.reused_tokens,
	    .drafted_tokens = s.drafted_tokens,
	    .accepted_tokens = s.accepted_tokens,
	    .prefix_hits = s.prefix_hits,
	    .prefix_misses = s.prefix_misses,
	    .evictions = s.evictions,
	    .spills = s.spills,
	    .spill_loads = s.spill_loads,
	    .spill_bytes = s.spill_bytes,
	    .preemptions = s.preemptions,
	    .swaps_out = s.swaps_out,
	    .swaps_in = s.swaps_in,
	    .deadline_misses = s.deadline_misses,
	    .cost_weight_bytes = s.cost_weight_bytes,
	    .cost_expert_bytes = s.cost_expert_bytes,
	    .cost_state_bytes = s.cost_state_bytes,
	    .cost_kv_bytes = s.cost_kv_bytes,
	    .cost_flops = s.cost_flops};
	_Static_assert(sizeof v.step_us == sizeof s.step_us, "one histogram");
	memcpy(v.step_us, s.step_us, sizeof v.step_us);
	_Static_assert(ARRAY_LEN(v.ops) >= ARRAY_LEN(s.ops), "nh_engine_stats has room for every op");
	v.op_count = ARRAY_LEN(s.ops);
	for (size_t i = 0; i < v.op_count; i++) {
		const engine_op_stat *o = &s.ops[i];
		v.ops[i] = (nh_op_stat){o->op, o->calls, o->rows, o->bytes, o->reference_calls, o->ns};
	}
	api_out(stats, size, &v, sizeof v);
}
