/* SPDX-License-Identifier: Apache-2.0
 * test_wrap_uniform.c: experts drawn instead of routed are distinct, in range, equally likely, others in the next call, and the same in the next run;
 * no other op is touched.
 */
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base_mem.h"
#include "exec/wrap.h"
#include "helper_fake.h"
#include "num/num_conv.h"

enum { ROWS = 512, EXPERTS = 32, CHOSEN = 6 };

static void route(exec *x, int32_t idx[ROWS][CHOSEN], double w[ROWS][CHOSEN])
{
	static double logits[ROWS * EXPERTS], bias[EXPERTS];
	tensor i = tensor_2d(idx, NUM_I32, ROWS, CHOSEN), v = tensor_2d(w, NUM_F64, ROWS, CHOSEN);
	tensor l = tensor_2d(logits, NUM_F64, ROWS, EXPERTS), b = tensor_1d(bias, NUM_F64, EXPERTS);
	const op_route a = {.idx = &i, .w = &v, .logits = &l, .bias = &b, .n_group = 1, .topk_group = 1, .norm = true};
	x->ops->route(x, &a);
	assert_int_equal(x->status, NH_OK);
}

static void experts_are_distinct_and_as_likely(void **state)
{
	(void)state;
	static int32_t a[ROWS][CHOSEN], b[ROWS][CHOSEN], again[ROWS][CHOSEN], other[ROWS][CHOSEN];
	static double w[ROWS][CHOSEN];
	fake f;
	fake_init(&f);
	exec *x = wrap_uniform_create(&f.x, 1), *y = wrap_uniform_create(&f.x, 1), *z = wrap_uniform_create(&f.x, 2);
	route(x, a, w);
	route(x, b, w);
	route(y, again, w);
	route(z, other, w);
	assert_memory_equal(a, again, sizeof a);
	assert_memory_not_equal(a, b, sizeof a);
	assert_memory_not_equal(a, other, sizeof a);
	int hits[EXPERTS] = {0}, first[EXPERTS] = {0};
	for (int t = 0; t < ROWS; t++) {
		bool seen[EXPERTS] = {false};
		for (int k = 0; k < CHOSEN; k++) {
			assert_in_range(a[t][k], 0, EXPERTS - 1);
			assert_false(seen[a[t][k]]);
			seen[a[t][k]] = true;
			hits[a[t][k]]++;
			assert_true(w[t][k] == 1.0 / CHOSEN);
		}
		first[a[t][0]]++;
	}
	/* 96 expected, deviation sqrt(512 * 6/32 * 26/32) = 8.8; five of them */
	for (int i = 0; i < EXPERTS; i++)
		if (abs(hits[i] - ROWS * CHOSEN / EXPERTS) > 44) fail_msg("expert %d: %d hits", i, hits[i]);
	/* Distinct experts over 8 rows: 32 (1 - (26/32)^8) = 25.9 */
	double distinct = 0;
	for (int at = 0; at < ROWS; at += 8) {
		bool seen[EXPERTS] = {false};
		for (int t = at; t < at + 8; t++)
			for (int k = 0; k < CHOSEN; k++) seen[a[t][k]] = true;
		for (int i = 0; i < EXPERTS; i++) distinct += seen[i];
	}
	distinct /= ROWS / 8.0;
	printf("distinct experts over 8 rows: %.2f\n", distinct);
	assert_true(fabs(distinct - 25.93) < 0.8);
	wrap_destroy(x);
	wrap_destroy(y);
	wrap_destroy(z);
	fake_deinit(&f);
	assert_int_equal(mem_live(), 0);
}

static void nothing_else_is_touched(void **state)
{
	(void)state;
	fake plain, f;
	fake_init(&plain);
	fake_init(&f);
	exec *x = wrap_uniform_create(&f.x, 3);
	for (int id = 0; id < OP_COUNT; id++) {
		if (id == OP_route) continue;
		call a, b;
		call_make(&a, (op_id)id);
		call_make(&b, (op_id)id);
		run_call(&plain.x, &a);
		run_call(x, &b);
		op_desc d, o;
		op_describe(a.id, &a.a, &d);
		op_describe(b.id, &b.a, &o);
		for (int i = 0; i < d.operands; i++) assert_memory_equal(d.operand[i].t->data, o.operand[i].t->data, tensor_bytes(d.operand[i].t));
		call_free(&a);
		call_free(&b);
	}
	f.fail_at = OP_route; /* a failed route is left alone */
	call c;
	call_make(&c, OP_route);
	run_call(x, &c);
	assert_int_equal(exec_status(x, NULL), NH_ERR_BACKEND);
	call_free(&c);
	wrap_destroy(x);
	fake_deinit(&f);
	fake_deinit(&plain);
	assert_int_equal(mem_live(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(experts_are_distinct_and_as_likely), cmocka_unit_test(nothing_else_is_touched)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
