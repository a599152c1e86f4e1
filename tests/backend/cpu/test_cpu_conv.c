/* SPDX-License-Identifier: Apache-2.0
 * test_cpu_conv.c: the convolution in both forms against ref; rows and segments alone; a row that reads what the row before it wrote.
 */
#include "twin.h"

typedef struct shape {
	int64_t rows, width, taps;
	bool bias;
} shape;

static const shape SHAPES[] = {
    {1, 6144, 4, true}, {5, 6144, 4, false}, {5, 928, 4, true}, {3, 129, 3, true}, {2, 5, 1, false}, {9, 300, 16, true}};
#define SHAPE_COUNT (sizeof SHAPES / sizeof *SHAPES)

static tensor taps_of(twin *w, const shape *s) { return twin_random(w, NUM_BF16, s->width, s->taps, 0, 0.7); }

/* Row i reads slot i (row 1: none) and writes slot rows + i. */
static void steps(twin *w, const void *p)
{
	const shape *s = p;
	const num_dtype act = w->x->types.act;
	tensor all = twin_random(w, act, s->rows, s->width + 9, 0, 2), x = tensor_cols(&all, 9, s->width);
	tensor state = twin_zeros(w, w->x->types.conv_state, 3, 2 * s->rows, s->taps - 1, s->width, 1),
	       y = twin_zeros(w, act, 2, s->rows, s->width, 1, 1);
	twin_fill(w, &state, 0, 2);
	tensor weights = taps_of(w, s), bias = twin_vector(w, NUM_BF16, s->width, 0, 0.5);
	tensor in = twin_count(w, s->rows, 0, 1), out = twin_count(w, s->rows, (int32_t)s->rows, 1);
	if (s->rows > 1) ((int32_t *)in.data)[1] = -1;
	tensor x1 = twin_rows(w, &x), y1 = twin_rows(w, &y), in1 = twin_rows(w, &in), out1 = twin_rows(w, &out);
	OP(w->x, conv_step, .y = &y1, .x = &x1, .state = &state, .w = &weights, .bias = s->bias ? &bias : NULL, .slot_in = &in1,
	    .slot_out = &out1);
	twin_out(w, &y1);
	if (s->taps == 1) return;
	tensor written = tensor_rows(&state, s->rows, s->rows);
	written = twin_rows(w, &written);
	twin_out(w, &written);
}

/* Three segments of 1, 2 and the other rows (a row is a segment here: `only` counts segments). */
static void scans(twin *w, const void *p)
{
	const shape *s = p;
	const num_dtype act = w->x->types.act;
	const int64_t n = s->rows + 3, starts[4] = {0, 1, 3, n};
	tensor x = twin_random(w, act, n, s->width, 0, 2), state = twin_zeros(w, w->x->types.conv_state, 3, 6, s->taps - 1, s->width, 1);
	tensor y = twin_zeros(w, act, 2, n, s->width, 1, 1), weights = taps_of(w, s), bias = twin_vector(w, NUM_F32, s->width, 0, 0.5);
	twin_fill(w, &state, 0, 2);
	tensor row = twin_count(w, 4, 0, 1), in = twin_count(w, 3, 0, 1), out = twin_count(w, 3, 3, 1);
	for (int i = 0; i < 4; i++) ((int32_t *)row.data)[i] = 100 + (int32_t)starts[i];
	((int32_t *)in.data)[1] = -1;
	tensor x1 = x, y1 = y, row1 = row, in1 = twin_rows(w, &in), out1 = twin_rows(w, &out);
	if (w->only >= 0) {
		const int64_t from = starts[w->only], count = starts[w->only + 1] - from;
		x1 = tensor_rows(&x, from, count), y1 = tensor_rows(&y, from, count), row1 = tensor_rows(&row, w->only, 2);
	}
	OP(w->x, conv_scan, .y = &y1, .x = &x1, .state = &state, .w = &weights, .bias = s->bias ? &bias : NULL, .seg_row = &row1,
	    .seg_in = &in1, .seg_out = &out1);
	tensor written = tensor_rows(&state, 3, 3);
	written = twin_rows(w, &written);
	if (s->taps > 1) twin_out(w, &written);
	if (w->only < 0) twin_out(w, &y1);
}

/* Measured: exact 1e-7; eager one product in some thousands on the edge of a bf16. */
static const double BANDS[2] = {1e-6, 1e-4};

static void steps_agree_with_ref(void **state)
{
	(void)state;
	twin_seen seen = {{0}, 0};
	for (size_t i = 0; i < SHAPE_COUNT; i++) twin_check(steps, &SHAPES[i], SHAPES[i].rows, BANDS, &seen);
	TWIN_REPORT("conv_step", seen);
}

static void scans_agree_with_ref(void **state)
{
	(void)state;
	twin_seen seen = {{0}, 0};
	for (size_t i = 0; i < SHAPE_COUNT; i++) twin_check(scans, &SHAPES[i], 3, BANDS, &seen);
	TWIN_REPORT("conv_scan", seen);
}

/* A sequence's rows in one call, each from the slot that the row before it wrote, are the scan of them. */
static void rows_follow_one_another(void **state)
{
	(void)state;
	enum { N = 6, C = 700 };
	for (int t = 0; t < 3; t++) {
		twin w;
		if (!twin_open(&w, &cpu_backend, TWIN_TIERS[t], 3, "portable", 5)) continue;
		tensor x = twin_random(&w, NUM_BF16, N, C, 0, 2), weights = twin_random(&w, NUM_BF16, C, 4, 0, 0.7);
		tensor state_ = twin_zeros(&w, NUM_BF16, 3, 8, 3, C, 1), y = twin_zeros(&w, NUM_BF16, 2, N, C, 1, 1),
		       y2 = twin_zeros(&w, NUM_BF16, 2, N, C, 1, 1);
		tensor in = twin_count(&w, N, -1, 1), out = twin_count(&w, N, 0, 1), row = twin_count(&w, 2, 0, N), none = twin_count(&w, 1, -1, 0),
		       last = twin_count(&w, 1, 7, 0);
		OP(w.x, conv_step, .y = &y, .x = &x, .state = &state_, .w = &weights, .slot_in = &in, .slot_out = &out);
		OP(w.x, conv_scan, .y = &y2, .x = &x, .state = &state_, .w = &weights, .seg_row = &row, .seg_in = &none, .seg_out = &last);
		twin_well(&w);
		assert_memory_equal(y.data, y2.data, tensor_bytes(&y));
		assert_memory_equal(tensor_row(&state_, N - 1), tensor_row(&state_, 7), 3 * C * 2);
		assert_int_equal(w.x->counters.conv_update_rows, N);
		assert_int_equal(w.x->counters.conv_forward_calls, 1);
		((int32_t *)out.data)[4] = 8;
		OP(w.x, conv_step, .y = &y, .x = &x, .state = &state_, .w = &weights, .slot_in = &in, .slot_out = &out);
		twin_failed(&w, "row 4 reads slot 3 and writes slot 8");
		((int32_t *)row.data)[1] = N + 1;
		OP(w.x, conv_scan, .y = &y2, .x = &x, .state = &state_, .w = &weights, .seg_row = &row, .seg_in = &none, .seg_out = &last);
		twin_failed(&w, "segment 0 has rows 0 to 7 of 6");
		twin_close(&w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(steps_agree_with_ref), cmocka_unit_test(scans_agree_with_ref), cmocka_unit_test(rows_follow_one_another)};
	return cmocka_run_group_tests_name("cpu_conv", tests, NULL, NULL);
}
