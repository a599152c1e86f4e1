/* SPDX-License-Identifier: Apache-2.0
 * test_cpu_basic.c: embedding rows, sums of rows and chosen rows are ref's to the bit where the types are; ids are checked.
 */
#include "twin.h"

typedef struct shape {
	int64_t rows, width, vocabulary;
	num_dtype table;
} shape;

static void rows_of_all_kinds(twin *w, const void *p)
{
	const shape *s = p;
	const num_dtype act = w->x->types.act;
	tensor table = twin_random(w, s->table, s->vocabulary, s->width, 0, 1), ids = twin_count(w, s->rows, 0, 1);
	for (int64_t i = 0; i < s->rows; i++) ((int32_t *)ids.data)[i] = (int32_t)(i * 7 % s->vocabulary);
	tensor a = twin_random(w, act, s->rows, s->width, 0, 3), b = twin_random(w, act, s->rows, s->width, 0, 3);
	tensor y = twin_zeros(w, act, 2, s->rows, s->width, 1, 1), y2 = y, y3 = y;
	y2.data = arena_alloc(&w->mem, tensor_bytes(&y)), y3.data = arena_alloc(&w->mem, tensor_bytes(&y));
	tensor pick = twin_count(w, s->rows, (int32_t)s->rows - 1, -1);
	tensor part = twin_rows(w, &y), part2 = twin_rows(w, &y2), part3 = twin_rows(w, &y3), some = twin_rows(w, &ids), one = twin_rows(w, &a),
	       two = twin_rows(w, &b), chosen = twin_rows(w, &pick);
	OP(w->x, embed_rows, .y = &part, .table = &table, .ids = &some);
	OP(w->x, add, .y = &part2, .a = &one, .b = &two);
	OP(w->x, gather_rows, .y = &part3, .x = &a, .rows = &chosen);
	twin_out(w, &part);
	twin_out(w, &part2);
	twin_out(w, &part3);
}

static void agree_with_ref(void **state)
{
	(void)state;
	static const shape SHAPES[] = {{1, 2688, 9, NUM_BF16}, {70, 300, 50, NUM_F32}, {3, 1, 2, NUM_BF16}, {5, 31, 1, NUM_F16}};
	static const double BANDS[2] = {1e-7, 0};
	twin_seen seen = {{0}, 0};
	for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++) twin_check(rows_of_all_kinds, &SHAPES[i], 1, BANDS, &seen);
	TWIN_REPORT("rows", seen);
}

static void bad_ids_are_told(void **state)
{
	(void)state;
	twin w;
	assert_true(twin_open(&w, &cpu_backend, NULL, 2, "portable", 1));
	tensor table = twin_random(&w, NUM_BF16, 4, 8, 0, 1), y = twin_zeros(&w, NUM_BF16, 2, 3, 8, 1, 1), ids = twin_count(&w, 3, 2, 1);
	OP(w.x, embed_rows, .y = &y, .table = &table, .ids = &ids);
	twin_failed(&w, "ids[2] = 4, expected 0 <= id < 4");
	ids = twin_count(&w, 3, -1, 1);
	OP(w.x, gather_rows, .y = &y, .x = &table, .rows = &ids);
	twin_failed(&w, "rows[0] = -1, expected 0 <= row < 4");
	for (int i = 0; i < 24; i++) assert_true(twin_get(&y, i) == 0); /* nothing moved */
	twin_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(agree_with_ref), cmocka_unit_test(bad_ids_are_told)};
	return cmocka_run_group_tests_name("cpu_basic", tests, NULL, NULL);
}
