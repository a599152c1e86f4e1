/* SPDX-License-Identifier: Apache-2.0
 * test_null_backend.c: the null arm counts, draws by position, and touches nothing.
 */
#include "test.h"

#include <string.h>

#include "backend/null/null_backend.h"
#include "base/base_mem.h"

static void it_draws_by_position_and_touches_nothing(void **state)
{
	(void)state;
	exec *x;
	nh_error e = {0};
	const backend_options o = {0};
	assert_int_equal(null_backend.open(&x, &o, &e), NH_OK);
	int32_t drawn[2] = {-1, -1};
	float logits[2 * 40];
	memset(logits, 0x5A, sizeof logits);
	tensor ids = tensor_1d(drawn, NUM_I32, 2), rows = tensor_2d(logits, NUM_F32, 2, 40);
	const op_sample_row params[2] = {{.position = 3}, {.position = 11}};
	OP(x, sample_rows, .ids = &ids, .logits = &rows, .rows = params);
	assert_int_equal(drawn[0], 32 + 3);
	assert_int_equal(drawn[1], 32 + 11 % 8);
	OP(x, add, .y = &rows, .a = &rows, .b = &rows);
	for (int i = 0; i < 80; i++) assert_memory_equal(&logits[i], "\x5A\x5A\x5A\x5A", 4);
	assert_int_equal(x->counters.op[OP_sample_rows].calls, 1);
	assert_int_equal(x->counters.op[OP_add].calls, 1);
	void *p = null_backend.alloc(x, 100);
	assert_non_null(p);
	null_backend.free(x, p);
	null_backend.close(x);
	assert_int_equal(mem_live(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(it_draws_by_position_and_touches_nothing)};
	return cmocka_run_group_tests_name("null_backend", tests, NULL, NULL);
}
