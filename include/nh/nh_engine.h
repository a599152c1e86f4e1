/* SPDX-License-Identifier: Apache-2.0
 * nh_engine.h: runs requests on a model. One internal thread owns all mutable state; every function here may be called from any thread.
 * This version runs one request at a time; further ones wait in order.
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
} nh_engine_options;

NH_API void nh_engine_options_init(nh_engine_options *options, size_t size);
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
} nh_engine_stats;
NH_API void nh_engine_get_stats(nh_engine *engine, nh_engine_stats *stats, size_t size);

#ifdef __cplusplus
}
#endif
#endif
