/* SPDX-License-Identifier: Apache-2.0
 * nh_engine.h: runs requests on a model. One internal thread owns all mutable state; every function here may be called from any thread.
 * Requests run side by side, in steps; what a request answers never depends on its company. Those that find no room wait, by priority and then in
 * order; none is dropped.
 */
#ifndef NH_ENGINE_H
#define NH_ENGINE_H

#include "nh_model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nh_engine nh_engine;

typedef struct nh_engine_options {
	size_t size;
	int64_t max_context; /* tokens a sequence may have; 0: the model's maximum, at most 32768 */
	int32_t step_tokens; /* prompt tokens a step computes, rounded down to scan edges; 0: 512 */

	uint64_t
	    memory_bytes; /* budget of state slots, KV pages and snapshots; 0: half of the memory that is free at open, at least what one sequence of
	                        * max_context needs */
	int32_t max_sequences; /* that run at once, 1..1024; lowered to what the budget holds, with a notice; 0: that, at most 64. More wait */
	int32_t queue_limit;   /* requests that wait; 0: 1024; one more is refused with NH_ERR_LIMIT */
	bool no_prefix_cache;  /* do not reuse prompt prefixes */
	const char *spill_dir; /* folder to which evicted prefix snapshots go; NULL: none; copied */
	uint64_t spill_bytes;  /* most that lies there; 0: 8 GiB */
	int32_t draft;         /* nh_draft: who proposes tokens */
	int32_t draft_tokens;  /* most drafts a step and sequence; 0: 4 */
} nh_engine_options;

/* All zero. */
NH_API void nh_engine_options_init(nh_engine_options *options, size_t size);
/* *out is NULL on failure. One engine a model at a time: NH_ERR_STATE. A budget that cannot hold one sequence is refused with the arithmetic. */
NH_API nh_status nh_engine_open(nh_engine **out, nh_model *model, const nh_engine_options *options, nh_error *error);
/* Cancels what runs and waits for the thread. Requests stay valid (and ended) until released. NULL is fine. */
NH_API void nh_engine_close(nh_engine *engine);

typedef struct nh_op_stat {
	const char *op;
	uint64_t calls, rows, bytes, reference_calls, ns; /* ns: 0 unless the model was opened with profile */
} nh_op_stat;

typedef struct nh_engine_stats {
	size_t size;
	uint64_t requests, cancelled, failed;
	uint64_t prompt_tokens, generated_tokens, steps;
	uint64_t reference_calls; /* op calls that ran an op inherited from ref */
	uint64_t state_update_rows, scan_calls, scan_chunks, conv_update_rows, conv_forward_calls, gathers, scatters, expert_rows, experts_read,
	    bytes_uploaded;
	uint64_t nan_failures;
	uint64_t kv_bytes, state_bytes, scratch_bytes; /* reserved */
	nh_op_stat ops[40];
	size_t op_count;

	uint64_t waiting, running, swapped; /* requests now */
	uint64_t slots_used, slots_total;   /* state slots: a running sequence has one, a snapshot has one */
	uint64_t pages_used, pages_total, page_tokens;
	uint64_t snapshots, snapshot_bytes; /* prefix snapshots now, and what only they hold */
	uint64_t computed_tokens, reused_tokens, drafted_tokens, accepted_tokens;
	uint64_t prefix_hits, prefix_misses, evictions, spills, spill_loads, spill_bytes;
	uint64_t preemptions, swaps_out, swaps_in, deadline_misses;
	uint64_t step_us[NH_STAGES]
	                [NH_BUCKETS]; /* steps whose stage took less than 2^b us and no less than 2^(b-1); the last bucket has the rest */
	/* What the ops had to move and compute at least, added up; 0 unless the model was opened with profile. A call's experts count as if no two of
	 * its rows had chosen the same one (at most all): experts_read tells how many it was. Keys count for each row that sees them. */
	uint64_t cost_weight_bytes, cost_expert_bytes, cost_state_bytes, cost_kv_bytes, cost_flops; /* weights: without the experts' */
} nh_engine_stats;
/* As of the last step. */
NH_API void nh_engine_get_stats(nh_engine *engine, nh_engine_stats *stats, size_t size);

#ifdef __cplusplus
}
#endif
#endif
