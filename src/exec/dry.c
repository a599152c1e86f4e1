/* SPDX-License-Identifier: Apache-2.0
 * dry.c: an arm without arithmetic and without memory: shapes go through, costs and scratch add up. No operand's data is touched, so a
 * step of any size runs in no time.
 */
#include <string.h>

#include "base/base_mem.h"
#include "exec/wrap.h"

typedef struct dry {
	exec x;
	arena scratch; /* own; measuring */
	op_cost cost[OP_COUNT];
	uint64_t context_tokens;
} dry;

static void count(exec *x, op_id op, const void *args)
{
	dry *d = x->self;
	op_cost c;
	op_cost_of(op, args, d->context_tokens, &c);
	d->cost[op].weight_bytes += c.weight_bytes;
	d->cost[op].state_bytes += c.state_bytes;
	d->cost[op].activation_bytes += c.activation_bytes;
	d->cost[op].flops += c.flops;
	exec_count(x, op, args);
}

#define RUN(name) \
	static void run_##name(exec *x, const op_##name *a) { count(x, OP_##name, a); }
OP_LIST(RUN)
#undef RUN

static const op_table TABLE = {
#define ENTRY(name) .name = run_##name,
    OP_LIST(ENTRY)
#undef ENTRY
};

exec *dry_create(const nh_numerics *num, num_dtype exact)
{
	dry *d = mem_alloc(sizeof *d);
	if (!d) return NULL;
	arena_init_measure(&d->scratch);
	d->x =
	    (exec){.ops = &TABLE, .arm = "dry", .num = num, .types = exec_types_of(num, exact), .scratch = &d->scratch, .layer = -1, .self = d};
	return &d->x;
}

void dry_destroy(exec *x)
{
	if (!x) return;
	dry *d = x->self;
	arena_deinit(&d->scratch);
	mem_free(d);
}

size_t dry_scratch_peak(const exec *x) { return ((const dry *)x->self)->scratch.peak; }
const op_cost *dry_cost(const exec *x) { return ((const dry *)x->self)->cost; }
void dry_set_context(exec *x, uint64_t tokens) { ((dry *)x->self)->context_tokens = tokens; }

void dry_reset(exec *x)
{
	dry *d = x->self;
	memset(d->cost, 0, sizeof d->cost);
	arena_reset(&d->scratch);
	d->scratch.peak = 0;
	exec_clear(x);
	exec_reset_counters(x);
}
