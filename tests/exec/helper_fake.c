/* SPDX-License-Identifier: Apache-2.0
 * helper_fake.c: see the header. In/out operands are counted up, so that running twice shows.
 */
#include "helper_fake.h"

#include <math.h>
#include <string.h>

#include "num/num_conv.h"

static void write_operand(const fake *f, const op_operand *o)
{
	int64_t n = tensor_count(o->t), keep = f->forget && !o->in ? n - o->t->shape[o->t->rank - 1] : n;
	bool whole = o->t->dtype == NUM_I32 || o->t->dtype == NUM_I64;
	for (int64_t i = 0; i < keep; i++) {
		if (whole) {
			int32_t v = (int32_t)(i % 2);
			memcpy((char *)o->t->data + i * 4, &v, 4);
		} else {
			double old = o->in ? num_load(o->t->dtype, o->t->data, (size_t)i) : 0;
			num_store(o->t->dtype, o->t->data, (size_t)i, f->nan && !o->in ? NAN : old + (double)(i % 5) / 4);
		}
	}
}

static void run(exec *x, op_id op, const void *args)
{
	fake *f = x->self;
	f->calls++;
	f->layer = x->layer;
	exec_count(x, op, args);
	if (op == f->fail_at) {
		exec_fail(x, op, NH_ERR_BACKEND, "told to fail");
		return;
	}
	if (f->want_scratch) {
		size_t mark = arena_mark(x->scratch);
		tensor t = exec_scratch(x, NUM_U8, 1, (int64_t)f->want_scratch);
		if (tensor_absent(&t)) return;
		memset(t.data, 0xEE, f->want_scratch);
		arena_rewind(x->scratch, mark);
	}
	op_desc d;
	op_describe(op, args, &d);
	for (int i = 0; i < d.operands; i++)
		if (d.operand[i].out && !tensor_absent(d.operand[i].t)) write_operand(f, &d.operand[i]);
}

#define RUN(name) \
	static void run_##name(exec *x, const op_##name *a) { run(x, OP_##name, a); }
OP_LIST(RUN)
#undef RUN

static const op_table TABLE = {
#define ENTRY(name) .name = run_##name,
    OP_LIST(ENTRY)
#undef ENTRY
};

void fake_init(fake *f)
{
	memset(f, 0, sizeof *f);
	const nh_numerics *num = num_profile("portable");
	arena_init_fixed(&f->scratch, 4096);
	f->fail_at = OP_COUNT;
	f->x = (exec){
	    .ops = &TABLE, .arm = "fake", .num = num, .types = exec_types_of(num, NUM_F64), .scratch = &f->scratch, .layer = -1, .self = f};
}

void fake_deinit(fake *f) { arena_deinit(&f->scratch); }

void run_call(exec *x, const call *c)
{
	if (x->status != NH_OK) return;
	switch (c->id) {
#define CASE(name) \
	case OP_##name: x->ops->name(x, &c->a.name); return;
		OP_LIST(CASE)
#undef CASE
	case OP_COUNT: break;
	}
}
