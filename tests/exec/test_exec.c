/* SPDX-License-Identifier: Apache-2.0
 * test_exec.c: the first error stays and nothing runs behind it; counters; element types of the profiles; scratch; the dry arm.
 */
#include "test.h"

#include <string.h>

#include "base/base_mem.h"
#include "exec/wrap.h"
#include "helper_fake.h"

static void sticky(void **state)
{
	(void)state;
	fake f;
	fake_init(&f);
	exec *x = &f.x;
	call c;
	call_make(&c, OP_add);
	const op_add *a = &c.a.add;
	OP(x, add, .y = a->y, .a = a->a, .b = a->b);
	assert_int_equal(f.calls, 1);
	assert_int_equal(exec_status(x, NULL), NH_OK);

	x->layer = 3;
	exec_fail(x, OP_linear, NH_ERR_NUMERIC, "row %d", 7);
	exec_fail(x, OP_add, NH_ERR_IO, "too late");
	OP(x, add, .y = a->y, .a = a->a, .b = a->b);
	assert_int_equal(f.calls, 1);
	nh_error e;
	assert_int_equal(exec_status(x, &e), NH_ERR_NUMERIC);
	assert_int_equal(e.code, NH_ERR_NUMERIC);
	assert_string_equal(e.text, "fake: linear, layer 3: row 7");

	exec_clear(x);
	assert_int_equal(exec_status(x, NULL), NH_OK);
	OP(x, add, .y = a->y, .a = a->a, .b = a->b);
	assert_int_equal(f.calls, 2);
	x->layer = -1;
	exec_fail(x, OP_all_reduce, NH_OK, "a failure without a code is still a failure");
	assert_int_equal(exec_status(x, &e), NH_ERR_INTERNAL);
	assert_string_equal(e.text, "fake: all_reduce: a failure without a code is still a failure");
	exec_clear(x);

	/* A text of any length is cut, not overrun. */
	char longest[3000];
	memset(longest, 'x', sizeof longest);
	longest[sizeof longest - 1] = 0;
	exec_fail(x, OP_add, NH_ERR_IO, "%s", longest);
	exec_status(x, &e);
	assert_true(strlen(e.text) < sizeof e.text);
	call_free(&c);
	fake_deinit(&f);
	assert_int_equal(mem_live(), 0);
}

static void counters(void **state)
{
	(void)state;
	fake f;
	fake_init(&f);
	int looked = 0;
	for (int id = 0; id < OP_COUNT; id++, looked++) {
		call c;
		call_make(&c, (op_id)id);
		run_call(&f.x, &c);
		run_call(&f.x, &c);
		op_desc d;
		op_cost cost;
		op_describe((op_id)id, &c.a, &d);
		op_cost_of((op_id)id, &c.a, 0, &cost);
		const op_counter *n = &f.x.counters.op[id];
		assert_int_equal(n->calls, 2);
		assert_int_equal(n->rows, 2 * d.rows);
		assert_int_equal(n->bytes, 2 * (cost.weight_bytes + cost.state_bytes + cost.activation_bytes));
		assert_true(n->bytes > 0);
		call_free(&c);
	}
	assert_int_equal(looked, OP_COUNT);
	exec_count(&f.x, OP_COUNT, NULL); /* no such op: nothing */
	exec_reset_counters(&f.x);
	exec_counters none;
	memset(&none, 0, sizeof none);
	assert_memory_equal(&f.x.counters, &none, sizeof none);
	fake_deinit(&f);
}

static void types(void **state)
{
	(void)state;
	const struct {
		const char *profile;
		bool exact;
	} profiles[] = {{"exact", true}, {"exact-wo", true}, {"portable", false}, {"hopper", false}, {"blackwell", false}};
	for (size_t i = 0; i < ARRAY_LEN(profiles); i++)
		for (int arm = 0; arm < 2; arm++) {
			num_dtype wide = arm ? NUM_F32 : NUM_F64;
			exec_types t = exec_types_of(num_profile(profiles[i].profile), wide);
			assert_int_equal(t.act, profiles[i].exact ? wide : NUM_BF16);
			assert_int_equal(t.wide, profiles[i].exact ? wide : NUM_F32);
			assert_int_equal(t.conv_state, profiles[i].exact ? wide : NUM_BF16);
			assert_int_equal(t.ssm_state, profiles[i].exact ? wide : NUM_F32);
			assert_int_equal(t.kv, profiles[i].exact ? wide : NUM_BF16);
		}
	assert_null(num_profile_at((int)ARRAY_LEN(profiles)));
}

static void scratch(void **state)
{
	(void)state;
	fake f;
	fake_init(&f);
	exec *x = &f.x;
	tensor a = exec_scratch(x, NUM_BF16, 3, 5), b = exec_scratch3(x, NUM_F32, 2, 3, 4);
	assert_int_equal(a.rank, 2);
	assert_int_equal(a.stride[0], 5);
	assert_int_equal(a.room, 30);
	assert_int_equal(b.rank, 3);
	assert_true(tensor_fits(&a) && tensor_fits(&b));
	assert_true((char *)b.data >= (char *)a.data + a.room);
	assert_int_equal((uintptr_t)b.data % ARENA_ALIGN, 0);
	memset(a.data, 1, a.room);
	memset(b.data, 2, b.room);
	tensor none = exec_scratch(x, NUM_BF16, 0, 5);
	assert_non_null(none.data);
	assert_int_equal(exec_status(x, NULL), NH_OK);

	/* Full: the exec fails, and the tensor is absent but has its shape, so that views into it stay legal. */
	nh_error e;
	tensor big = exec_scratch(x, NUM_F32, 100, 100);
	assert_true(tensor_absent(&big));
	tensor part = tensor_cols(&big, 10, 50), row = tensor_rows(&part, 99, 1);
	assert_true(tensor_absent(&row));
	assert_int_equal(exec_status(x, &e), NH_ERR_NOMEM);
	assert_string_equal(e.text, "fake: scratch: 40000 bytes wanted, 256 of 4096 in use");
	/* After a failure nothing is handed out. */
	tensor after = exec_scratch(x, NUM_U8, 1, 1);
	assert_true(tensor_absent(&after));
	exec_clear(x);

	const int64_t mad[][2] = {{-1, 4}, {INT64_MAX, 2}, {INT64_MAX, INT64_MAX}};
	for (size_t i = 0; i < ARRAY_LEN(mad); i++) {
		tensor t = exec_scratch(x, NUM_F32, mad[i][0], mad[i][1]);
		assert_true(tensor_absent(&t));
		assert_int_equal(exec_status(x, NULL), NH_ERR_LIMIT);
		exec_clear(x);
	}
	x->scratch = NULL;
	tensor t = exec_scratch(x, NUM_F32, 1, 1);
	assert_true(tensor_absent(&t));
	assert_int_equal(exec_status(x, NULL), NH_ERR_STATE);
	fake_deinit(&f);
	assert_int_equal(mem_live(), 0);
}

/* A made-up step: scratch of several shapes and lives around ops. Runs on any exec. */
static void step(exec *x, int64_t rows)
{
	for (int layer = 0; layer < 3; layer++) {
		x->layer = layer;
		size_t mark = arena_mark(x->scratch);
		tensor a = exec_scratch(x, x->types.act, rows, 48 + 16 * layer), b = exec_scratch3(x, x->types.wide, rows, 2, 5);
		tensor y = tensor_cols(&a, 0, 16), v = tensor_cols(&a, 16, 16), u = tensor_cols(&a, 32, 16);
		OP(x, add, .y = &y, .a = &v, .b = &u);
		OP(x, all_reduce, .y = &b);
		arena_rewind(x->scratch, mark);
	}
	x->layer = -1;
}

/* What the dry arm measures is what a fixed arena needs: to the byte enough, and one byte less is too little. */
static void dry_measures(void **state)
{
	(void)state;
	const int64_t rows[] = {1, 3, 17};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		exec *d = dry_create(num_profile("portable"), NUM_F64);
		assert_non_null(d);
		step(d, rows[i]);
		size_t peak = dry_scratch_peak(d);
		assert_int_equal(exec_status(d, NULL), NH_OK);
		assert_true(peak > 0);

		fake f;
		fake_init(&f);
		arena fixed;
		assert_true(arena_init_fixed(&fixed, peak));
		f.x.scratch = &fixed;
		step(&f.x, rows[i]);
		assert_int_equal(exec_status(&f.x, NULL), NH_OK);
		assert_int_equal(fixed.peak, peak);
		arena_deinit(&fixed);
		assert_true(arena_init_fixed(&fixed, peak - 1));
		exec_clear(&f.x);
		step(&f.x, rows[i]);
		assert_int_equal(exec_status(&f.x, NULL), NH_ERR_NOMEM);
		arena_deinit(&fixed);
		fake_deinit(&f);

		assert_int_equal(d->counters.op[OP_add].calls, 3);
		assert_int_equal(d->counters.op[OP_add].rows, 3 * rows[i]);
		dry_reset(d);
		assert_int_equal(dry_scratch_peak(d), 0);
		assert_int_equal(d->counters.op[OP_add].calls, 0);
		dry_destroy(d);
	}
	dry_destroy(NULL);
	assert_int_equal(mem_live(), 0);
}

/* Every op, nothing of it in memory: the check wrapper agrees with the shapes, costs add up, attention by the context given. */
static void dry_costs(void **state)
{
	(void)state;
	exec *d = dry_create(num_profile("exact"), NUM_F64), *x = wrap_check_create(d, false);
	assert_non_null(x);
	assert_int_equal(d->types.act, NUM_F64);
	dry_set_context(d, 1000);
	int looked = 0;
	for (int id = 0; id < OP_COUNT; id++) {
		call c;
		call_make(&c, (op_id)id);
		op_cost one;
		op_cost_of((op_id)id, &c.a, 1000, &one);
		for (int i = 0; i < c.tensors; i++) c.t[i].data = NULL;
		c.pages.k.data = c.pages.v.data = NULL;
		c.w.data = NULL;
		for (int i = 0; i < EX; i++) c.up[i].data = c.down[i].data = NULL;
		run_call(x, &c);
		run_call(x, &c);
		nh_error e = {0};
		if (exec_status(x, &e) != NH_OK) fail_msg("%s", e.text);
		const op_cost *sum = &dry_cost(d)[id];
		assert_int_equal(sum->weight_bytes, 2 * one.weight_bytes);
		assert_int_equal(sum->state_bytes, 2 * one.state_bytes);
		assert_int_equal(sum->activation_bytes, 2 * one.activation_bytes);
		assert_int_equal(sum->flops, 2 * one.flops);
		assert_true(sum->weight_bytes + sum->state_bytes + sum->activation_bytes > 0);
		looked++;
		call_free(&c);
	}
	assert_int_equal(looked, OP_COUNT);
	assert_int_equal(dry_cost(d)[OP_attn_decode].flops, 2 * 4 * 1000 * QH * HD);
	dry_reset(d);
	assert_int_equal(dry_cost(d)[OP_attn_decode].flops, 0);
	wrap_destroy(x);
	dry_destroy(d);
	assert_int_equal(mem_live(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(sticky), cmocka_unit_test(counters), cmocka_unit_test(types),
	    cmocka_unit_test(scratch), cmocka_unit_test(dry_measures), cmocka_unit_test(dry_costs)};
	return cmocka_run_group_tests_name("exec", tests, NULL, NULL);
}
