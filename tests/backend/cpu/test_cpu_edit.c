/* SPDX-License-Identifier: Apache-2.0
 * test_cpu_edit.c: edited logits and pooled rows are ref's, rounded once to the arm's type.
 */
#include "twin.h"

typedef struct shape {
	int64_t rows, V;
	bool all; /* every kind of edit */
} shape;

static void edits(twin *w, const void *shape_)
{
	const shape *s = shape_;
	tensor l = twin_random(w, w->x->types.wide, s->rows, s->V, 0, 5), counts = twin_zeros(w, NUM_I32, 2, s->rows, s->V, 1, 1),
	       seen = twin_zeros(w, NUM_U8, 2, s->rows, s->V, 1, 1), mask = twin_zeros(w, NUM_I32, 2, s->rows, (s->V + 31) / 32, 1, 1);
	float *by = arena_alloc(&w->mem, (size_t)s->rows * 3 * sizeof *by);
	op_logit_bias bias[64];
	for (int64_t i = 0; i < s->rows * s->V; i++) {
		((int32_t *)counts.data)[i] = (int32_t)(twin_rand(w) * 4);
		((uint8_t *)seen.data)[i] = ((int32_t *)counts.data)[i] != 0;
	}
	for (int64_t i = 0; i < tensor_count(&mask); i++) ((int32_t *)mask.data)[i] = (int32_t)rng_u64(w->seed, (uint64_t)i, 9);
	for (int64_t r = 0; r < s->rows; r++) by[r] = r % 3 ? 1.3f : 1.0f, by[s->rows + r] = 0.4f, by[2 * s->rows + r] = 0.07f * (float)r;
	for (int i = 0; i < 64; i++)
		bias[i] =
		    (op_logit_bias){.row = (int32_t)(i % s->rows), .id = (int32_t)(i * 97 % s->V), .add = i % 9 ? 0.3f * (float)i : -INFINITY};
	if (s->all)
		OP(w->x, logit_edit, .logits = &l, .counts = &counts, .seen = &seen, .repetition = by, .presence = by + s->rows,
		    .frequency = by + 2 * s->rows, .bias = bias, .biases = 64, .mask = &mask);
	else OP(w->x, logit_edit, .logits = &l, .counts = &counts, .frequency = by + 2 * s->rows, .bias = bias, .biases = 3);
	twin_out(w, &l);
	bias[1].id = (int32_t)s->V;
}

static void pools(twin *w, const void *shape_)
{
	const shape *s = shape_;
	tensor x = twin_random(w, w->x->types.act, 9, s->V, 0, 3), start = twin_count(w, 4, 0, 3), y = twin_zeros(w, NUM_F32, 2, 3, s->V, 1, 1),
	       y2 = y;
	y2.data = arena_alloc(&w->mem, tensor_bytes(&y));
	((int32_t *)start.data)[1] = 1;
	OP(w->x, pool_rows, .y = &y, .x = &x, .start = &start, .how = OP_POOL_MEAN, .normalise = true);
	OP(w->x, pool_rows, .y = &y2, .x = &x, .start = &start, .how = OP_POOL_LAST);
	twin_out(w, &y);
	twin_out(w, &y2);
}

static void agree_with_ref(void **state)
{
	(void)state;
	static const shape SHAPES[] = {{1, 33, true}, {4, 50000, true}, {7, 1000, false}};
	static const double BANDS[2] = {1e-7, 0}, POOLS[2] = {0, 0};
	twin_seen seen = {{0}, 0}, pooled = {{0}, 0};
	for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++) {
		twin_check(edits, &SHAPES[i], 0, BANDS, &seen);
		twin_check(pools, &SHAPES[i], 0, POOLS, &pooled);
	}
	TWIN_REPORT("logit_edit", seen);
}

static void bad_values_are_told(void **state)
{
	(void)state;
	twin w;
	assert_true(twin_open(&w, &cpu_backend, NULL, 1, "portable", 1));
	tensor l = twin_random(&w, NUM_F32, 2, 10, 0, 1), start = twin_count(&w, 2, 1, 2), y = twin_zeros(&w, NUM_F32, 2, 1, 10, 1, 1);
	OP(w.x, logit_edit, .logits = &l, .bias = (op_logit_bias[]){{.row = 2, .id = 3, .add = 1}}, .biases = 1);
	twin_failed(&w, "bias 0 is for row 2, id 3, expected rows below 2 and ids below 10");
	OP(w.x, pool_rows, .y = &y, .x = &l, .start = &start);
	twin_failed(&w, "pool 0 takes rows 1 to 3 of 2");
	twin_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(agree_with_ref), cmocka_unit_test(bad_values_are_told)};
	return cmocka_run_group_tests_name("cpu_edit", tests, NULL, NULL);
}
