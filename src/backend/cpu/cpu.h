/* SPDX-License-Identifier: Apache-2.0
 * cpu.h: what the files of this room share: the arm's own state, the list of its native ops, how a tier's functions are reached. Internal
 * to the room. An op is native when it stands in CPU_NATIVE; the others are ref's, counted as reference calls.
 * Working memory is ref's (ref_begin, ref_take): one block list an exec, taken by thread 0 before a job starts.
 */
#ifndef CPU_CPU_H
#define CPU_CPU_H

#include "backend/cpu/cpu_isa.h"
#include "backend/cpu/cpu_pool.h"
#include "backend/ref/ref.h"
#include "exec/backend.h"
#include "exec/exec.h"

/* Native ops, one line each; the function is cpu_<name>. */
#define CPU_NATIVE(X) \
	X(embed_rows)     \
	X(rms_norm)       \
	X(add_rms_norm)   \
	X(add)            \
	X(gather_rows)    \
	X(gated_norm)     \
	X(state_copy)     \
	X(page_copy)      \
	X(all_reduce)     \
	X(conv_step)      \
	X(conv_scan)      \
	X(ssm_step)       \
	X(ssm_scan)       \
	X(linear)         \
	X(expert_ffn)     \
	X(route)          \
	X(moe_combine)    \
	X(kv_write)       \
	X(attn_decode)    \
	X(attn_prefill)   \
	X(logit_edit)     \
	X(sample_rows)    \
	X(logprobs)       \
	X(pool_rows)

#define CPU_DECLARE(name) void cpu_##name(exec *x, const op_##name *a);
CPU_NATIVE(CPU_DECLARE)
#undef CPU_DECLARE

typedef struct cpu_self {
	ref_self ref; /* first: inherited ops take their working memory here */
	cpu_pool *pool;
	cpu_tier tier;
	struct cpu_slab *slab; /* cpu_pack.c: where the next matrix goes; its matrices own it */
} cpu_self;

static inline cpu_self *cpu_self_of(const exec *x) { return x->self; }

/* cpu_pack.c: binds the kernels of x's tier and profile to a weight and repacks it for them; see backend.import. */
nh_status cpu_pack_import(exec *x, weight *w, nh_error *e);
void cpu_pack_release(exec *x, weight *w);

#endif
