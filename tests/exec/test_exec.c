/* SPDX-License-Identifier: Apache-2.0
 * test_exec.c: the first error stays and nothing runs behind it; counters; element types of the profiles; scratch.
 */
#include "test.h"

#include <string.h>

#include "base/base_mem.h"
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

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(sticky), cmocka_unit_test(counters), cmocka_unit_test(types), cmocka_unit_test(scratch)};
	return cmocka_run_group_tests_name("exec", tests, NULL, NULL);
}
