/* SPDX-License-Identifier: Apache-2.0
 * cpu_kit.h: what the native ops share: rows of any element type to f32 and back, jobs that go to the pool only where they are worth it,
 * and the way back to ref's op for element types that no published model brings here. Internal to the room.
 */
#ifndef CPU_CPU_KIT_H
#define CPU_CPU_KIT_H

#include <math.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/vec/vec_row.h"
#include "num/num_conv.h"

/* A job of less work than this stays with the caller. The unit is about one element loaded, changed and stored, so that the limit is a few
 * microseconds: what waking and gathering the threads costs. */
#define CPU_WORK_MIN 16384
#define CPU_WORK_LARGE (128 * (int64_t)CPU_WORK_MIN) /* worth waiting for threads whose processors others use */

static inline void cpu_go(exec *x, int64_t work, cpu_job_fn fn, void *user)
{
	if (work < CPU_WORK_MIN) fn(user, 0, 1);
	else if (work < CPU_WORK_LARGE) cpu_pool_run_some(cpu_self_of(x)->pool, fn, user);
	else cpu_pool_run(cpu_self_of(x)->pool, fn, user);
}

static inline int64_t cpu_threads(const exec *x) { return cpu_pool_threads(cpu_self_of(x)->pool); }
static inline const vec_row *cpu_row(const exec *x) { return vec_row_of((int)cpu_self_of(x)->tier); }

static inline bool cpu_fast_type(const tensor *t) { return tensor_absent(t) || t->dtype == NUM_BF16 || t->dtype == NUM_F32; }

/* n elements at p. Narrow types enter exactly; an F64 is rounded. */
static inline void cpu_load(const vec_row *v, num_dtype type, const void *p, int64_t n, float *out)
{
	if (type == NUM_BF16) v->from_bf16(out, p, n);
	else if (type == NUM_F32) memcpy(out, p, (size_t)n * sizeof *out);
	else
		for (int64_t i = 0; i < n; i++) out[i] = (float)num_load(type, p, (size_t)i);
}

static inline void cpu_store(const vec_row *v, num_dtype type, void *p, int64_t n, const float *in)
{
	if (type == NUM_BF16) v->to_bf16(p, in, n);
	else if (type == NUM_F32) memcpy(p, in, (size_t)n * sizeof *in);
	else
		for (int64_t i = 0; i < n; i++) num_store(type, p, (size_t)i, (double)in[i]);
}

/* Column `from` of row i of a [rows, n] view. */
static inline void *cpu_at(const tensor *t, int64_t i, int64_t from)
{
	return (char *)tensor_row(t, i) + (size_t)from * num_bytes(t->dtype);
}

/* A whole vector as f32: the tensor's own memory where it is that already. NULL: the exec has failed. */
static inline const float *cpu_vector(exec *x, op_id op, const tensor *t)
{
	if (t->dtype == NUM_F32) return t->data;
	float *v = ref_take(x, op, t->shape[0], sizeof *v);
	if (v) cpu_load(cpu_row(x), t->dtype, t->data, t->shape[0], v);
	return v;
}

/* Ref's op, counted as such. */
#define CPU_REFERENCE(x, name, a) ((x)->counters.op[OP_##name].reference_calls++, ref_##name((x), (a)))

#endif
