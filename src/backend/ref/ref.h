/* SPDX-License-Identifier: Apache-2.0
 * ref.h: what the files of this room share: the op functions, the arm's own working memory, small accessors. Internal to the room.
 * Working memory: an op calls ref_begin once and then ref_take; what it took dies at the next ref_begin. It lives in exec->self and not
 * in exec->scratch, because the dry run sizes that from the model's needs alone. It grows during the first steps and never shrinks, so
 * a step of a shape that has been seen allocates nothing.
 */
#ifndef REF_REF_H
#define REF_REF_H

#include "exec/exec.h"
#include "op/op.h"

#define REF_DECLARE(name) void ref_##name(exec *x, const op_##name *a);
OP_LIST(REF_DECLARE)
#undef REF_DECLARE

typedef struct ref_block ref_block;

typedef struct ref_self {
	ref_block *work; /* own; newest first */
} ref_self;

void ref_begin(exec *x);
/* count * size bytes, 64-byte aligned, not cleared; on failure the exec fails and NULL is returned. */
void *ref_take(exec *x, op_id op, int64_t count, size_t size);
/* Gives back what was taken after the mark, for the loops of an op. */
typedef struct ref_mark {
	ref_block *block;
	size_t used;
} ref_mark;
ref_mark ref_work_mark(exec *x);
void ref_work_rewind(exec *x, ref_mark mark);
void ref_work_free(ref_self *s);
size_t ref_work_bytes(const ref_self *s);

static inline bool ref_eager(const exec *x) { return x->num->rounding == NUM_ROUND_EAGER; }
/* A scalar argument as the profile uses it: vLLM holds eps and factors in f32. */
static inline double ref_param(const exec *x, double v) { return ref_eager(x) ? (double)(float)v : v; }
static inline int64_t ref_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t ref_max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t ref_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

/* Element i of a vector of 32-bit integers. */
static inline int32_t ref_i32(const tensor *t, int64_t i) { return ((const int32_t *)t->data)[i * t->stride[0]]; }

/* Address of [i, j, k, 0] (rank 4) or [i, j, 0] (rank 3). */
static inline void *ref_at(const tensor *t, int64_t i, int64_t j, int64_t k)
{
	int64_t at = i * t->stride[0] + j * t->stride[1] + (t->rank > 3 ? k * t->stride[2] : 0);
	return (char *)t->data + (size_t)at * num_bytes(t->dtype);
}

#endif
