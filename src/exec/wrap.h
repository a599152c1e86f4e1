/* SPDX-License-Identifier: Apache-2.0
 * wrap.h: execs around execs. Each wrapper forwards to `inner`, shares its types, profile and scratch, and mirrors its sticky error. A
 * wrapper owns neither the inner exec nor its memory; destroy wrappers from the outside in. NULL when out of memory.
 */
#ifndef EXEC_WRAP_H
#define EXEC_WRAP_H

#include "base/base_buf.h"
#include "exec/exec.h"

/* check: the contract of every call by op_check, the grid rule of ssm_scan and slot ranges (values too, on arms with host memory),
 * and NaN poison left in outputs; a violation fails the exec with op, layer and field. */
exec *wrap_check_create(exec *inner, bool host_memory);

/* profile: time against cost, per op. */
typedef struct profile_row {
	uint64_t calls, rows, ns;
	op_cost cost; /* sums */
} profile_row;
exec *wrap_profile_create(exec *inner);
const profile_row *wrap_profile_rows(const exec *x); /* [OP_COUNT] */
void wrap_profile_reset(exec *x);

/* trace: the step as text, one line an op: name, layer, operand shapes and types, and a digest of each output where memory is the host's.
 * Lines go to fn as they happen. */
typedef void (*wrap_trace_fn)(void *user, const char *line);
exec *wrap_trace_create(exec *inner, bool host_memory, wrap_trace_fn fn, void *user);

/* tap: calls fn before and after each op with its arguments; for tests and for the layer-trace sink. */
typedef void (*wrap_tap_fn)(void *user, exec *x, op_id op, const void *args, bool after);
exec *wrap_tap_create(exec *inner, wrap_tap_fn fn, void *user);

/* uniform: after each route, K distinct experts by a hash of (seed, call, row) and weights of 1 / K, so that experts are touched as if routing were
 * uniform and independent. Host memory only. */
exec *wrap_uniform_create(exec *inner, uint64_t seed);

void wrap_destroy(exec *x); /* any of the above; NULL is fine */

/* dry: an arm without arithmetic. Ops only count and add cost; scratch is measured by a measuring arena that it owns. Types as `like`
 * would have them under `num`. */
exec *dry_create(const nh_numerics *num, num_dtype exact);
void dry_destroy(exec *x);
size_t dry_scratch_peak(const exec *x); /* bytes */
const op_cost *dry_cost(const exec *x); /* [OP_COUNT] sums since creation or dry_reset */
void dry_reset(exec *x);
void dry_set_context(exec *x, uint64_t tokens); /* context tokens for attention's cost */

#endif
