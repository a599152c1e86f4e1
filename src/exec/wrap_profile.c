/* SPDX-License-Identifier: Apache-2.0
 * wrap_profile.c: wall time and cost of each op. Where the arm's memory is the host's, attention's context is read from positions; elsewhere
 * it counts 0. Time is what the call took here: an arm that only queues work must be profiled by its own means.
 */
#include <assert.h>
#include <string.h>

#include "base/base_clock.h"
#include "exec/wrap_core.h"

typedef struct profile {
	wrapper w;
	profile_row rows[OP_COUNT];
	int64_t began; /* ns */
	bool host_memory;
} profile;

static void before(wrapper *w, op_id op, const void *args)
{
	(void)op, (void)args;
	((profile *)w)->began = clock_ns();
}

static void after(wrapper *w, op_id op, const void *args)
{
	profile *p = (profile *)w;
	int64_t ns = clock_ns() - p->began;
	if (w->x.status != NH_OK) return;
	op_desc d;
	op_cost c;
	op_describe(op, args, &d);
	op_cost_of(op, args, p->host_memory ? wrap_context(op, args) : 0, &c);
	profile_row *r = &p->rows[op];
	r->calls++;
	r->rows += (uint64_t)d.rows;
	r->ns += (uint64_t)ns;
	r->cost.weight_bytes += c.weight_bytes;
	r->cost.state_bytes += c.state_bytes;
	r->cost.activation_bytes += c.activation_bytes;
	r->cost.flops += c.flops;
}

exec *wrap_profile_create(exec *inner)
{
	profile *p = wrap_new(inner, sizeof *p);
	if (!p) return NULL;
	p->host_memory = wrap_host_memory(inner);
	p->w.before = before;
	p->w.after = after;
	return &p->w.x;
}

static profile *profile_of(const exec *x)
{
	profile *p = x->self;
	assert(p->w.after == after);
	return p;
}

const profile_row *wrap_profile_rows(const exec *x) { return profile_of(x)->rows; }

void wrap_profile_reset(exec *x) { memset(profile_of(x)->rows, 0, sizeof profile_of(x)->rows); }
