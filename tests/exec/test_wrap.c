/* SPDX-License-Identifier: Apache-2.0
 * test_wrap.c: wrappers change nothing that is computed, mirror what the inner exec says, and say themselves what they are for.
 */
#include "test.h"

#include <string.h>

#include "base/base_buf.h"
#include "base/base_mem.h"
#include "exec/backend.h"
#include "exec/wrap.h"
#include "helper_fake.h"

static void collect(void *user, const char *line)
{
	buf_str(user, line);
	buf_char(user, '\n');
}

typedef struct taps {
	int before, after;
	op_id last;
	exec *x;
	bool fail;
} taps;

static void tapped(void *user, exec *x, op_id op, const void *args, bool after)
{
	taps *t = user;
	assert_non_null(args);
	if (after) {
		t->after++;
		assert_int_equal(op, t->last);
	} else {
		t->before++;
		t->last = op;
		if (t->fail) exec_fail(x, op, NH_ERR_CANCELLED, "the tap says no");
	}
	t->x = x;
}

static void same_memory(const call *a, const call *b)
{
	op_desc d, o;
	op_describe(a->id, &a->a, &d);
	op_describe(b->id, &b->a, &o);
	for (int i = 0; i < d.operands; i++) assert_memory_equal(d.operand[i].t->data, o.operand[i].t->data, tensor_bytes(d.operand[i].t));
}

/* Every op, twice, plain and through all four wrappers: the same bytes in every operand. */
static void nothing_changes(void **state)
{
	(void)state;
	fake plain, f;
	fake_init(&plain);
	fake_init(&f);
	const backend host = {.name = "fake", .host_memory = true};
	f.x.backend = &host;
	f.x.layer = plain.x.layer = 11;
	buf text = {0};
	taps t = {0};
	exec *check = wrap_check_create(&f.x, true), *profile = wrap_profile_create(check);
	exec *trace = wrap_trace_create(profile, true, collect, &text), *x = wrap_tap_create(trace, tapped, &t);
	assert_non_null(x);
	assert_ptr_equal(x->num, f.x.num);
	assert_ptr_equal(x->scratch, f.x.scratch);
	assert_ptr_equal(x->backend, &host);
	assert_int_equal(x->layer, 11);
	assert_memory_equal(&x->types, &f.x.types, sizeof x->types);
	int looked = 0;
	for (int id = 0; id < OP_COUNT; id++) {
		call a, b;
		call_make(&a, (op_id)id);
		call_make(&b, (op_id)id);
		x->layer = plain.x.layer = id;
		for (int i = 0; i < 2; i++) {
			run_call(&plain.x, &a);
			run_call(x, &b);
			nh_error e = {0};
			if (exec_status(x, &e) != NH_OK) fail_msg("%s", e.text);
			same_memory(&a, &b);
			looked++;
		}
		assert_int_equal(f.layer, id);
		const profile_row *row = &wrap_profile_rows(profile)[id];
		assert_int_equal(row->calls, 2);
		assert_int_equal(row->rows, x->counters.op[id].rows);
		op_cost one;
		uint64_t context = id == OP_attn_decode || id == OP_attn_prefill ? 6 + 1 + 4 : 0;
		op_cost_of((op_id)id, &b.a, context, &one);
		assert_int_equal(row->cost.state_bytes, 2 * one.state_bytes);
		assert_int_equal(row->cost.weight_bytes, 2 * one.weight_bytes);
		assert_int_equal(row->cost.activation_bytes, 2 * one.activation_bytes);
		assert_int_equal(row->cost.flops, 2 * one.flops);
		call_free(&a);
		call_free(&b);
	}
	assert_int_equal(looked, 2 * OP_COUNT);
	assert_int_equal(f.calls, 2 * OP_COUNT);
	assert_memory_equal(&x->counters, &f.x.counters, sizeof x->counters);
	assert_memory_equal(&plain.x.counters, &f.x.counters, sizeof x->counters);
	assert_int_equal(t.before, 2 * OP_COUNT);
	assert_int_equal(t.after, 2 * OP_COUNT);
	assert_ptr_equal(t.x, x);
	wrap_profile_reset(profile);
	assert_int_equal(wrap_profile_rows(profile)[OP_linear].calls, 0);
	exec_reset_counters(x);
	assert_int_equal(f.x.counters.op[OP_linear].calls, 0);

	buf_deinit(&text);
	wrap_destroy(x);
	wrap_destroy(trace);
	wrap_destroy(profile);
	wrap_destroy(check);
	wrap_destroy(NULL);
	fake_deinit(&f);
	fake_deinit(&plain);
	assert_int_equal(mem_live(), 0);
}

static void errors_are_mirrored(void **state)
{
	(void)state;
	fake f;
	fake_init(&f);
	taps t = {0};
	exec *profile = wrap_profile_create(&f.x), *x = wrap_tap_create(profile, tapped, &t);
	call c;
	call_make(&c, OP_linear);
	f.fail_at = OP_linear;
	x->layer = 5;
	run_call(x, &c);
	nh_error e;
	assert_int_equal(exec_status(x, &e), NH_ERR_BACKEND);
	assert_string_equal(e.text, "fake: linear, layer 5: told to fail");
	assert_int_equal(exec_status(profile, NULL), NH_ERR_BACKEND);
	assert_int_equal(wrap_profile_rows(profile)[OP_linear].calls, 0);
	assert_int_equal(t.after, 1); /* the op ran, and the tap may look at what it left */
	run_call(x, &c);
	x->ops->linear(x, &c.a.linear); /* even past the macro */
	assert_int_equal(f.calls, 1);

	exec_clear(x); /* clears inwards */
	assert_int_equal(exec_status(&f.x, NULL), NH_OK);
	f.fail_at = OP_COUNT;
	run_call(x, &c);
	assert_int_equal(exec_status(x, NULL), NH_OK);
	assert_int_equal(f.calls, 2);

	/* An inner failure that nobody saw yet is seen at the next call, and the op does not run. */
	exec_fail(&f.x, OP_add, NH_ERR_IO, "elsewhere");
	run_call(x, &c);
	assert_int_equal(exec_status(x, NULL), NH_ERR_IO);
	assert_int_equal(f.calls, 2);
	exec_clear(x);

	t.fail = true;
	run_call(x, &c);
	assert_int_equal(exec_status(x, NULL), NH_ERR_CANCELLED);
	assert_int_equal(f.calls, 2);
	exec_clear(x);
	t.fail = false;

	/* Scratch that runs out inside the arm. */
	f.want_scratch = 5000;
	run_call(x, &c);
	assert_int_equal(exec_status(x, NULL), NH_ERR_NOMEM);
	exec_clear(x);
	arena more;
	assert_true(arena_init_fixed(&more, 8192));
	x->scratch = &more; /* set on the outer end: the arm gets it */
	run_call(x, &c);
	assert_int_equal(exec_status(x, NULL), NH_OK);
	assert_ptr_equal(f.x.scratch, &more);
	arena_deinit(&more);

	call_free(&c);
	wrap_destroy(x);
	wrap_destroy(profile);
	fake_deinit(&f);
	assert_int_equal(mem_live(), 0);
}

static void out_of_memory(void **state)
{
	(void)state;
	fake f;
	fake_init(&f);
	buf text = {0};
	taps t = {0};
	mem_fail_after(0);
	assert_null(wrap_check_create(&f.x, true));
	assert_null(wrap_profile_create(&f.x));
	assert_null(wrap_trace_create(&f.x, true, collect, &text));
	assert_null(wrap_tap_create(&f.x, tapped, &t));
	assert_null(dry_create(f.x.num, NUM_F64));
	mem_fail_after(SIZE_MAX);
	/* A trace line that finds no memory fails the exec. */
	exec *x = wrap_trace_create(&f.x, true, collect, &text);
	call c;
	call_make(&c, OP_add);
	mem_fail_after(0);
	run_call(x, &c);
	mem_fail_after(SIZE_MAX);
	assert_int_equal(exec_status(x, NULL), NH_ERR_NOMEM);
	call_free(&c);
	buf_deinit(&text);
	wrap_destroy(x);
	fake_deinit(&f);
	assert_int_equal(mem_live(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nothing_changes), cmocka_unit_test(errors_are_mirrored), cmocka_unit_test(out_of_memory)};
	return cmocka_run_group_tests_name("wrap", tests, NULL, NULL);
}
