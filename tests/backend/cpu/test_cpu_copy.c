/* SPDX-License-Identifier: Apache-2.0
 * test_cpu_copy.c: slots and pages move whole, larger than a thread's piece too; a refused pair moves nothing.
 */
#include "twin.h"

typedef struct shape {
	int64_t slots, a, b, c;
} shape;

static void copies(twin *w, const void *shape_)
{
	const shape *s = shape_;
	tensor pool = twin_zeros(w, NUM_F32, 4, s->slots, s->a, s->b, s->c), bytes = twin_zeros(w, NUM_BF16, 4, s->slots, s->a, s->b, s->c);
	twin_fill(w, &pool, 0, 1), twin_fill(w, &bytes, 0, 1);
	tensor from = twin_count(w, 3, 0, 1), to = twin_count(w, 3, 3, 1);
	((int32_t *)from.data)[1] = -1, ((int32_t *)from.data)[2] = 5; /* 5 to 5: nothing */
	OP(w->x, state_copy, .pool = &pool, .from = &from, .to = &to);
	OP(w->x, page_copy, .pool = &bytes, .from = &from, .to = &to);
	OP(w->x, all_reduce, .y = &pool);
	twin_out(w, &pool);
	twin_out(w, &bytes);
}

static void agree_with_ref(void **state)
{
	(void)state;
	static const shape SHAPES[] = {{6, 1, 1, 1}, {7, 3, 5, 11}, {6, 4, 100, 101}};
	static const double BANDS[2] = {0, 0};
	twin_seen seen = {{0}, 0};
	for (size_t i = 0; i < 3; i++) twin_check(copies, &SHAPES[i], 0, BANDS, &seen);
}

static void a_bad_pair_moves_nothing(void **state)
{
	(void)state;
	twin w;
	assert_true(twin_open(&w, &cpu_backend, NULL, 2, "portable", 1));
	tensor pool = twin_random(&w, NUM_F32, 4, 8, 0, 1), from = twin_count(&w, 2, 0, 1), to = twin_count(&w, 2, 3, 1);
	const double first = twin_get(&pool, 3 * 8);
	OP(w.x, state_copy, .pool = &pool, .from = &from, .to = &to);
	twin_failed(&w, "pair 1 copies 1 to 4, expected -1 or 0 .. 3 to 0 .. 3");
	assert_true(twin_get(&pool, 3 * 8) == first);
	tensor view = tensor_split(&pool, 2);
	view.stride[1] = 4;
	view.shape[1] = 2;
	OP(w.x, page_copy, .pool = &view, .from = &from, .to = &to);
	twin_failed(&w, "not contiguous");
	twin_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(agree_with_ref), cmocka_unit_test(a_bad_pair_moves_nothing)};
	return cmocka_run_group_tests_name("cpu_copy", tests, NULL, NULL);
}
