/* SPDX-License-Identifier: Apache-2.0
 * exec.h: what an arm is to everyone above it: a table of ops, the element types that its profile asks for, scratch, counters, and one
 * sticky error. Model code holds an exec and nothing else. One thread uses an exec at a time.
 * The invariant that breaks first: after a failure nothing runs any more until exec_clear, so the first error is the one that is told.
 */
#ifndef EXEC_EXEC_H
#define EXEC_EXEC_H

#include "base/base_arena.h"
#include "base/base_status.h"
#include "num/num_numerics.h"
#include "op/op.h"

typedef struct exec exec;

typedef struct op_table {
#define OP_SLOT(name) void (*name)(exec * x, const op_##name *a);
	OP_LIST(OP_SLOT)
#undef OP_SLOT
} op_table;

/* Element types, from profile and arm (architecture 6). */
typedef struct exec_types {
	num_dtype act;        /* activations, residual, logits: BF16 eager; F64 exact on ref, F32 exact elsewhere */
	num_dtype wide;       /* router logits and weights: F32 eager */
	num_dtype conv_state; /* BF16 eager */
	num_dtype ssm_state;  /* F32 eager */
	num_dtype kv;         /* unquantised KV pages: BF16 eager */
} exec_types;

typedef struct op_counter {
	uint64_t calls, rows, bytes; /* bytes: weights, state and activations by op_cost */
	uint64_t reference_calls;    /* of the calls, those that ran an op inherited from ref */
} op_counter;

typedef struct exec_counters {
	op_counter op[OP_COUNT];
	uint64_t state_update_rows, scan_calls, scan_chunks, conv_update_rows, conv_forward_calls;
	uint64_t gathers, scatters; /* state moved instead of used in place */
	uint64_t expert_rows;       /* (token, k) pairs computed */
	uint64_t experts_read;      /* distinct experts, added up over calls */
	uint64_t bytes_uploaded;
} exec_counters;

struct exec {
	const op_table *ops;
	const char *arm; /* static; "ref" */
	const char
	    *tier; /* static; the kernels within the arm, "avx2": bits are promised within one tier. The arm's name where it has one only */
	const nh_numerics *num;
	exec_types types;
	arena *scratch; /* borrow; fixed or measuring; the step rewinds it */
	exec_counters counters;
	int layer; /* set by the model for error texts and traces; -1 outside layers */

	nh_status status; /* sticky */
	nh_error error;

	exec *inner;                   /* wrappers: who does the work */
	void *self;                    /* the arm's or wrapper's own state */
	const struct backend *backend; /* who opened it */
};

/* Runs an op unless the exec has failed. The only macro in model code. */
#define OP(x, name, ...) ((x)->status == NH_OK ? (x)->ops->name((x), &(op_##name){__VA_ARGS__}) : (void)0)

/* Remembers the first failure as "<arm>: <op>, layer <n>: <text>". Called by arms. */
void exec_fail(exec *x, op_id op, nh_status status, const char *format, ...) BASE_PRINTF(4, 5);
/* The sticky status; copies the error out. Clears nothing. */
nh_status exec_status(const exec *x, nh_error *e);
void exec_clear(exec *x);
void exec_reset_counters(exec *x);
/* Adds one call of `op` to the counters, bytes by op_cost; arms call it once a call. */
void exec_count(exec *x, op_id op, const void *args);

/* Types that a profile asks of an arm whose exact arithmetic is `exact` (F64 on ref, F32 elsewhere). */
exec_types exec_types_of(const nh_numerics *num, num_dtype exact);

/* Type of expert_ffn's rows: they are rounded to act by every expert kernel but the native FP4 one (model.md 6.6-6.8). */
static inline num_dtype exec_expert_type(const exec *x, const weight_experts *experts)
{
	return x->num->w4a4 == NUM_W4A4_NATIVE && experts->down[0].scheme == NUM_SCHEME_NVFP4 ? x->types.wide : x->types.act;
}

/* A contiguous scratch tensor, not cleared; on failure the exec fails and an absent tensor is returned. */
tensor exec_scratch(exec *x, num_dtype dtype, int64_t rows, int64_t cols);
tensor exec_scratch3(exec *x, num_dtype dtype, int64_t a, int64_t b, int64_t c);

#endif
