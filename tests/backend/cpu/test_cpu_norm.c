/* SPDX-License-Identifier: Apache-2.0
 * test_cpu_norm.c: the norms against ref. Sums of squares are in double on both arms, so eager results are ref's but for a silu one ulp off
 * in the gated norm; exact ones are f32 against f64.
 */
#include "twin.h"

typedef struct shape {
	int64_t rows, width;
	int groups;
} shape;

static const shape SHAPES[] = {{1, 2688, 8}, {5, 2688, 8}, {9, 4096, 4}, {3, 1, 1}, {4, 7, 1}, {6, 33, 3}, {2, 960, 2}, {40, 130, 10}};
#define SHAPE_COUNT (sizeof SHAPES / sizeof *SHAPES)

static void norms(twin *w, const void *p)
{
	const shape *s = p;
	const num_dtype act = w->x->types.act;
	tensor x = twin_random(w, act, s->rows, s->width, 0.1, 2), res = twin_random(w, act, s->rows, s->width, 0, 4);
	tensor wide = twin_random(w, act, s->rows, s->width + 5, 0, 4), gate = tensor_cols(&wide, 3, s->width);
	tensor weights = twin_vector(w, NUM_BF16, s->width, 1, 0.5), weights32 = twin_vector(w, NUM_F32, s->width, 1, 0.5);
	tensor y = twin_zeros(w, act, 2, s->rows, s->width, 1, 1), y2 = y, y3 = y;
	y2.data = arena_alloc(&w->mem, tensor_bytes(&y)), y3.data = arena_alloc(&w->mem, tensor_bytes(&y));
	x = twin_rows(w, &x), res = twin_rows(w, &res), gate = twin_rows(w, &gate);
	y = twin_rows(w, &y), y2 = twin_rows(w, &y2), y3 = twin_rows(w, &y3);
	OP(w->x, rms_norm, .y = &y, .x = &x, .w = &weights, .eps = 1e-5);
	OP(w->x, add_rms_norm, .y = &y2, .residual = &res, .x = &x, .w = &weights32, .eps = 1e-5);
	OP(w->x, gated_norm, .y = &y3, .x = &x, .gate = &gate, .w = &weights, .groups = s->groups, .eps = 1e-5);
	twin_out(w, &y);
	twin_out(w, &y2);
	twin_out(w, &res);
	twin_out(w, &y3);
}

static void agree_with_ref(void **state)
{
	(void)state;
	static const double BANDS[2] = {4e-7, 3e-4};
	twin_seen seen = {{0}, 0};
	for (size_t i = 0; i < SHAPE_COUNT; i++) twin_check(norms, &SHAPES[i], SHAPES[i].rows < 10 ? SHAPES[i].rows : 3, BANDS, &seen);
	TWIN_REPORT("norms", seen);
}

static void plain(twin *w, const void *p)
{
	const shape *s = p;
	tensor x = twin_random(w, w->x->types.act, s->rows, s->width, 0.1, 2), y = twin_zeros(w, w->x->types.act, 2, s->rows, s->width, 1, 1);
	tensor weights = twin_vector(w, NUM_BF16, s->width, 1, 0.5);
	OP(w->x, rms_norm, .y = &y, .x = &x, .w = &weights, .eps = 1e-5);
	twin_out(w, &y);
}

/* No silu here: to the bit in eager profiles. */
static void eager_norms_are_refs(void **state)
{
	(void)state;
	static const double BANDS[2] = {4e-7, 0};
	twin_seen seen = {{0}, 0};
	for (size_t i = 0; i < SHAPE_COUNT; i++) twin_check(plain, &SHAPES[i], 0, BANDS, &seen);
}

static void numbers_that_are_none_stay_so(void **state)
{
	(void)state;
	for (int t = 0; t < 3; t++) {
		twin w;
		if (!twin_open(&w, &cpu_backend, TWIN_TIERS[t], 1, "portable", 3)) continue;
		tensor x = twin_random(&w, NUM_BF16, 3, 37, 0, 1), y = twin_zeros(&w, NUM_BF16, 2, 3, 37, 1, 1),
		       weights = twin_vector(&w, NUM_BF16, 37, 1, 0.5);
		twin_set(&x, 37 + 36, NAN); /* in the tail of the second row */
		OP(w.x, rms_norm, .y = &y, .x = &x, .w = &weights, .eps = 1e-5);
		for (int i = 0; i < 3 * 37; i++) assert_int_equal(isnan(twin_get(&y, i)) != 0, i / 37 == 1);
		OP(w.x, gated_norm, .y = &y, .x = &y, .gate = &x, .w = &weights, .groups = 1, .eps = 1e-5);
		for (int i = 0; i < 3 * 37; i++) assert_int_equal(isnan(twin_get(&y, i)) != 0, i / 37 == 1);
		OP(w.x, gated_norm, .y = &y, .x = &x, .gate = &x, .w = &weights, .groups = 2, .eps = 1e-5);
		twin_failed(&w, "37 channels in 2 groups");
		twin_close(&w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(agree_with_ref), cmocka_unit_test(eager_norms_are_refs), cmocka_unit_test(numbers_that_are_none_stay_so)};
	return cmocka_run_group_tests_name("cpu_norm", tests, NULL, NULL);
}
