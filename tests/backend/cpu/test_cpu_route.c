/* SPDX-License-Identifier: Apache-2.0
 * test_cpu_route.c: choices are ref's, weights too in eager profiles; the sum over the chosen is ref's to the bit there.
 */
#include "twin.h"

typedef struct shape {
	int64_t rows, E, K;
	int n_group, topk_group;
	int64_t width;
	bool shared, norm;
} shape;

static void routes(twin *w, const void *shape_)
{
	const shape *s = shape_;
	tensor logits = twin_random(w, w->x->types.wide, s->rows, s->E, 0, 3), bias = twin_vector(w, NUM_F32, s->E, 0, 0.2);
	tensor idx = twin_zeros(w, NUM_I32, 2, s->rows, s->K, 1, 1), weights = twin_zeros(w, w->x->types.wide, 2, s->rows, s->K, 1, 1);
	if (s->rows > 2)
		for (int64_t e = 0; e < s->E; e++) twin_set(&logits, 2 * s->E + e, 0.5), twin_set(&bias, e, 0.125 * (double)(e % 2)); /* ties */
	tensor l = twin_rows(w, &logits), i = twin_rows(w, &idx), v = twin_rows(w, &weights);
	OP(w->x, route, .idx = &i, .w = &v, .logits = &l, .bias = &bias, .n_group = s->n_group, .topk_group = s->topk_group, .norm = s->norm);
	twin_out(w, &i);
	twin_out(w, &v);
}

static void sums(twin *w, const void *shape_)
{
	const shape *s = shape_;
	const num_dtype act = w->x->types.act;
	tensor rows = twin_zeros(w, act, 3, s->rows, s->K, s->width, 1), shared = twin_random(w, act, s->rows, s->width, 0, 2),
	       y = twin_zeros(w, act, 2, s->rows, s->width, 1, 1);
	twin_fill(w, &rows, 0, 1);
	tensor r = twin_rows(w, &rows), h = twin_rows(w, &shared), out = twin_rows(w, &y);
	OP(w->x, moe_combine, .y = &out, .rows = &r, .shared = s->shared ? &h : NULL, .factor = 2.5);
	twin_out(w, &out);
}

static const shape SHAPES[] = {{1, 128, 6, 1, 1, 2688, true, true}, {7, 512, 22, 1, 1, 1024, false, true}, {3, 1, 1, 1, 1, 5, true, true},
    {5, 16, 4, 4, 2, 700, true, false}, {4, 12, 3, 12, 5, 33, false, true}, {70, 40, 5, 2, 1, 130, true, true}};

static void agree_with_ref(void **state)
{
	(void)state;
	static const double BANDS[2] = {2e-7, 0};
	twin_seen seen = {{0}, 0};
	for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++) {
		twin_check(routes, &SHAPES[i], SHAPES[i].rows < 10 ? SHAPES[i].rows : 2, BANDS, &seen);
		twin_check(sums, &SHAPES[i], SHAPES[i].rows < 10 ? SHAPES[i].rows : 2, BANDS, &seen);
	}
	TWIN_REPORT("route, moe_combine", seen);
}

static void bad_counts_are_told(void **state)
{
	(void)state;
	twin w;
	assert_true(twin_open(&w, &cpu_backend, NULL, 1, "portable", 1));
	tensor logits = twin_random(&w, NUM_F32, 2, 6, 0, 1), bias = twin_vector(&w, NUM_F32, 6, 0, 1),
	       idx = twin_zeros(&w, NUM_I32, 2, 2, 2, 1, 1), weights = twin_zeros(&w, NUM_F32, 2, 2, 2, 1, 1);
	OP(w.x, route, .idx = &idx, .w = &weights, .logits = &logits, .bias = &bias, .n_group = 4, .topk_group = 1);
	twin_failed(&w, "2 of 6 experts, 1 of 4 groups");
	twin_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(agree_with_ref), cmocka_unit_test(bad_counts_are_told)};
	return cmocka_run_group_tests_name("cpu_route", tests, NULL, NULL);
}
