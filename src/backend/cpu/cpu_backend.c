/* SPDX-License-Identifier: Apache-2.0
 * cpu_backend.c: opening the CPU arm, its op table and its memory (the host's, in huge pages where the system gives them). The invariant
 * that breaks first: no slot of the table is empty, and an op that is not native counts its calls as reference calls.
 */
#include "backend/cpu/cpu_backend.h"

#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/ref/ref_backend.h"
#include "base/base_mem.h"

/* Every op as ref computes it, counted. */
#define CPU_INHERIT(name)                                   \
	static void inherit_##name(exec *x, const op_##name *a) \
	{                                                       \
		x->counters.op[OP_##name].reference_calls++;        \
		ref_ops.name(x, a);                                 \
	}
OP_LIST(CPU_INHERIT)
#undef CPU_INHERIT

typedef struct cpu_exec {
	exec x;
	cpu_self self;
	op_table ops;
} cpu_exec;

static void fill_ops(op_table *t)
{
#define CPU_SLOT(name) t->name = inherit_##name;
	OP_LIST(CPU_SLOT)
#undef CPU_SLOT
#define CPU_SLOT(name) t->name = cpu_##name;
	CPU_NATIVE(CPU_SLOT)
#undef CPU_SLOT
}

static nh_status choose_tier(const char *isa, cpu_tier *out, nh_error *e)
{
	const cpu_tier best = cpu_tier_best();
	*out = best;
	if (!isa || strcmp(isa, "auto") == 0) return NH_OK;
	if (!cpu_tier_find(isa, out)) return ERR(e, NH_ERR_ARG, "cpu_isa: is %.40s, expected auto, portable, avx2 or avx512", isa);
	if (*out > best) return ERR(e, NH_ERR_UNSUPPORTED, "cpu_isa: is %s, this processor's highest tier is %s", isa, cpu_tier_name(best));
	return NH_OK;
}

static void cpu_close(exec *x)
{
	if (!x) return;
	cpu_self *s = cpu_self_of(x);
	cpu_pool_destroy(s->pool);
	ref_work_free(&s->ref);
	mem_free((cpu_exec *)x); /* x is its first member */
}

static nh_status cpu_open(exec **out, const backend_options *options, nh_error *e)
{
	*out = NULL;
	const nh_numerics *num = options && options->num ? options->num : num_profile(cpu_backend.default_profile);
	if (num->fp8_sums == NUM_SUMS_HOPPER || num->fp8_attention == NUM_ATTN_FA3)
		return ERR(e, NH_ERR_UNSUPPORTED, "cpu: profile %s: Hopper's FP8 sums and attention are emulated by the ref arm only", num->name);
	if (num->rounding == NUM_ROUND_EAGER && num->w4a4 == NUM_W4A4_NATIVE)
		return ERR(e, NH_ERR_UNSUPPORTED, "cpu: profile %s: expected exact, exact-wo or portable", num->name);
	cpu_tier tier;
	TRY(choose_tier(options ? options->isa : NULL, &tier, e));
	cpu_exec *c = mem_alloc(sizeof *c);
	if (!c) return ERR_NOMEM(e);
	fill_ops(&c->ops);
	c->x = (exec){.ops = &c->ops,
	    .arm = "cpu",
	    .tier = cpu_tier_name(tier),
	    .num = num,
	    .types = exec_types_of(num, NUM_F32),
	    .layer = -1,
	    .self = &c->self,
	    .backend = &cpu_backend};
	c->self.tier = tier;
	nh_status s = cpu_pool_create(&c->self.pool, options ? options->threads : 0, e);
	if (s != NH_OK) cpu_close(&c->x);
	else *out = &c->x;
	return s;
}

/* A large pool costs nothing until it is touched. */
static void *cpu_alloc(exec *x, size_t bytes)
{
	(void)x;
	return mem_pages(bytes);
}

static void cpu_free(exec *x, void *p)
{
	(void)x;
	mem_pages_free(p);
}

static nh_status cpu_upload(exec *x, void *to, const void *from, size_t bytes, nh_error *e)
{
	(void)e;
	if (bytes) memcpy(to, from, bytes);
	x->counters.bytes_uploaded += bytes;
	return NH_OK;
}

static nh_status cpu_download(exec *x, void *to, const void *from, size_t bytes, nh_error *e)
{
	(void)x, (void)e;
	if (bytes) memcpy(to, from, bytes);
	return NH_OK;
}

static const char *cpu_tier_at(int i)
{
	const int best = (int)cpu_tier_best();
	return i >= 0 && i <= best ? cpu_tier_name((cpu_tier)(best - i)) : NULL;
}

const backend cpu_backend = {.name = "cpu",
    .default_profile = "portable",
    .host_memory = true,
    .open = cpu_open,
    .close = cpu_close,
    .import = cpu_pack_import,
    .release = cpu_pack_release,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .upload = cpu_upload,
    .download = cpu_download,
    .tier_at = cpu_tier_at,
    .repacks = true};
