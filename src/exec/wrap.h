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

/* lockstep: the same step on two arms or more, op by op. The first exec records what goes into and comes out of each op; any other, run over the same
 * batch afterwards, is compared op by op. Values never decide which ops run, so call n of one is call n of the other. LOCKSTEP_OWN (mode A): each arm
 * keeps its own values and state, and an op is judged with what it was handed. LOCKSTEP_SEEDED (mode B): before each op the other arm's operands become
 * the first one's, so that a difference is that op's own; `f32`: the first arm's doubles are rounded to f32 before it computes, for arms that hold no
 * doubles. Host memory only; each arm has its own model, opened from the same files. */
typedef struct lockstep lockstep;
typedef enum { LOCKSTEP_OWN, LOCKSTEP_SEEDED } lockstep_mode;
typedef struct lockstep_finding { /* one output of one call */
	op_id op;
	int layer, call;            /* call: from 0 in this step */
	const char *field, *weight; /* of the op's struct; the matrix's name, "" where there is none */
	bool integers;
	int64_t lines, width, rows; /* of the output; rows of the call */
	uint64_t differ;            /* elements */
	int64_t first;              /* line of the first element that differs; -1: none */
	double error;               /* the largest over lines of |difference| / |the first arm's line| */
	int64_t line;               /* of the largest */
	/* [lines], borrow for the call. A line far quieter than the tensor is measured against the tensor; 1 where a value is finite on one side only, or an
	 * integer differs. */
	const double *errors;
} lockstep_finding;
typedef void (*lockstep_fn)(void *user, const lockstep_finding *f);
/* fn is told of every output of the other arms, equal ones too. */
lockstep *lockstep_create(lockstep_mode mode, bool f32, lockstep_fn fn, void *user);
exec *lockstep_first(lockstep *l, exec *inner); /* wrappers: wrap_destroy them before lockstep_destroy */
exec *lockstep_other(lockstep *l, exec *inner);
/* An arm has run the whole step: the next one starts at its first op. False where it has not run as many ops as the first arm. */
bool lockstep_rewind(lockstep *l);
void lockstep_forget(lockstep *l);  /* the step; before the first arm runs the next one */
void lockstep_destroy(lockstep *l); /* NULL is fine */

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
