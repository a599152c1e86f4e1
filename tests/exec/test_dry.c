/* SPDX-License-Identifier: Apache-2.0
 * test_dry.c: what the dry arm measures is what a real arena needs, and what it counts is what the ops cost.
 */
#include "test.h"

#include "base/base_mem.h"
#include "exec/wrap.h"
#include "helper_fake.h"

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
	const struct CMUnitTest tests[] = {cmocka_unit_test(dry_measures), cmocka_unit_test(dry_costs)};
	return cmocka_run_group_tests_name("dry", tests, NULL, NULL);
}
