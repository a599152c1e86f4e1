/* SPDX-License-Identifier: Apache-2.0
 * test_cpu_ssm.c: the recurrence and the chunked scan against ref, in shapes of published models and odd ones; segments alone, cuts, rows
 * that follow one another. Measured distances, over an output: the step 1.2e-7 (exact) and 7e-5 (eager: a bf16 in some thousands on an edge);
 * the scan 1.3e-7 and 4e-5.
 */
#include "twin.h"

typedef struct shape {
	int64_t rows, H, P, N;
	int groups, chunk;
} shape;

typedef struct parts {
	tensor x, b, c, dt, a, d, bias, state, y;
} parts;

static parts parts_of(twin *w, const shape *s, int64_t slots)
{
	const num_dtype act = w->x->types.act;
	parts p = {.x = twin_random(w, act, s->rows, s->H * s->P, 0, 1),
	    .b = twin_random(w, act, s->rows, s->groups * s->N, 0, 1),
	    .c = twin_random(w, act, s->rows, s->groups * s->N, 0, 1),
	    .dt = twin_random(w, act, s->rows, s->H, 0, 3),
	    .a = twin_vector(w, w->x->types.wide, s->H, -0.6, 0.5),
	    .d = twin_vector(w, NUM_BF16, s->H, 1, 0.5),
	    .bias = twin_vector(w, NUM_BF16, s->H, -1.5, 1),
	    .state = twin_zeros(w, w->x->types.ssm_state, 4, slots, s->H, s->P, s->N),
	    .y = twin_zeros(w, act, 2, s->rows, s->H * s->P, 1, 1)};
	twin_fill(w, &p.state, 0, 1);
	return p;
}

/* Row i reads slot i (row 1: none) and writes slot rows + i. */
static void steps(twin *w, const void *shape_)
{
	const shape *s = shape_;
	parts p = parts_of(w, s, 2 * s->rows);
	tensor in = twin_count(w, s->rows, 0, 1), out = twin_count(w, s->rows, (int32_t)s->rows, 1);
	if (s->rows > 1) ((int32_t *)in.data)[1] = -1;
	tensor x = twin_rows(w, &p.x), b = twin_rows(w, &p.b), c = twin_rows(w, &p.c), dt = twin_rows(w, &p.dt), y = twin_rows(w, &p.y);
	in = twin_rows(w, &in), out = twin_rows(w, &out);
	OP(w->x, ssm_step, .y = &y, .x = &x, .b = &b, .c = &c, .dt = &dt, .a = &p.a, .d = &p.d, .dt_bias = &p.bias, .state = &p.state,
	    .slot_in = &in, .slot_out = &out, .groups = s->groups);
	twin_out(w, &y);
	tensor written = tensor_rows(&p.state, s->rows, s->rows);
	written = twin_rows(w, &written);
	twin_out(w, &written);
}

/* Three segments: a third of the rows from slot 0, one row without history at position 0, the rest from slot 2 in the middle of a chunk that
 * began there. `only` counts segments. */
static void scans(twin *w, const void *shape_)
{
	const shape *s = shape_;
	parts p = parts_of(w, s, 6);
	const int32_t third = (int32_t)(s->rows / 3), starts[4] = {0, third, third + 1, (int32_t)s->rows}, L = s->chunk;
	tensor row = twin_count(w, 4, 0, 1), pos = twin_count(w, 3, 0, 0), origin = pos, in = twin_count(w, 3, 0, 1),
	       out = twin_count(w, 3, 3, 1);
	origin.data = arena_alloc(&w->mem, 12);
	for (int i = 0; i < 4; i++) ((int32_t *)row.data)[i] = 50 + starts[i];
	const int32_t at[3] = {2 * L, 0, 3 * L + L / 2};
	memcpy(pos.data, at, sizeof at), memcpy(origin.data, at, sizeof at);
	((int32_t *)in.data)[1] = -1;
	const int64_t from = w->only < 0 ? 0 : starts[w->only], count = w->only < 0 ? s->rows : starts[w->only + 1] - from;
	tensor x = tensor_rows(&p.x, from, count), b = tensor_rows(&p.b, from, count), c = tensor_rows(&p.c, from, count),
	       dt = tensor_rows(&p.dt, from, count), y = tensor_rows(&p.y, from, count),
	       edges = w->only < 0 ? row : tensor_rows(&row, w->only, 2);
	pos = twin_rows(w, &pos), origin = twin_rows(w, &origin), in = twin_rows(w, &in), out = twin_rows(w, &out);
	OP(w->x, ssm_scan, .y = &y, .x = &x, .b = &b, .c = &c, .dt = &dt, .a = &p.a, .d = &p.d, .dt_bias = &p.bias, .state = &p.state,
	    .seg_row = &edges, .seg_pos = &pos, .seg_origin = &origin, .seg_in = &in, .seg_out = &out, .groups = s->groups, .chunk = s->chunk);
	tensor written = tensor_rows(&p.state, 3, 3);
	written = twin_rows(w, &written);
	twin_out(w, &written);
	if (w->only < 0) twin_out(w, &y);
}

static void steps_agree_with_ref(void **state)
{
	(void)state;
	static const shape SHAPES[] = {
	    {1, 64, 64, 128, 8, 0}, {3, 16, 80, 128, 8, 0}, {4, 6, 5, 96, 3, 0}, {2, 1, 1, 1, 1, 0}, {3, 4, 7, 13, 1, 0}};
	static const double BANDS[2] = {5e-7, 2e-4};
	twin_seen seen = {{0}, 0};
	for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++) twin_check(steps, &SHAPES[i], SHAPES[i].rows, BANDS, &seen);
	TWIN_REPORT("ssm_step", seen);
}

static void scans_agree_with_ref(void **state)
{
	(void)state;
	static const shape SHAPES[] = {
	    {140, 8, 64, 128, 2, 128}, {300, 2, 8, 16, 1, 256}, {40, 6, 5, 96, 3, 4}, {9, 2, 1, 1, 2, 1}, {50, 3, 17, 30, 1, 32}};
	static const double BANDS[2] = {1e-6, 2e-4};
	twin_seen seen = {{0}, 0};
	for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++) twin_check(scans, &SHAPES[i], 3, BANDS, &seen);
	TWIN_REPORT("ssm_scan", seen);
}

static void scan(twin *w, const parts *p, const shape *s, int64_t from, int64_t count, int32_t pos, int32_t in, int32_t out)
{
	tensor x = tensor_rows(&p->x, from, count), b = tensor_rows(&p->b, from, count), c = tensor_rows(&p->c, from, count),
	       dt = tensor_rows(&p->dt, from, count), y = tensor_rows(&p->y, from, count), row = twin_count(w, 2, 0, (int32_t)count);
	tensor at = twin_count(w, 1, pos, 0), origin = twin_count(w, 1, 0, 0), slot_in = twin_count(w, 1, in, 0),
	       slot_out = twin_count(w, 1, out, 0);
	OP(w->x, ssm_scan, .y = &y, .x = &x, .b = &b, .c = &c, .dt = &dt, .a = &p->a, .d = &p->d, .dt_bias = &p->bias, .state = &p->state,
	    .seg_row = &row, .seg_pos = &at, .seg_origin = &origin, .seg_in = &slot_in, .seg_out = &slot_out, .groups = s->groups,
	    .chunk = s->chunk);
}

/* A cut at a chunk's edge changes nothing; what a later token holds reaches no earlier row; the counters. */
static void cuts_and_poison(void **state)
{
	(void)state;
	static const shape S = {70, 4, 12, 20, 2, 16};
	const size_t slot = (size_t)(S.H * S.P * S.N) * 4;
	for (int t = 0; t < 3; t++) {
		twin w;
		if (!twin_open(&w, &cpu_backend, TWIN_TIERS[t], 2, "portable", 11)) continue;
		parts p = parts_of(&w, &S, 3);
		scan(&w, &p, &S, 0, 70, 0, -1, 0);
		assert_int_equal(w.x->counters.scan_chunks, 5);
		assert_int_equal(w.x->counters.scan_calls, 1);
		uint8_t whole[70 * 48 * 2];
		memcpy(whole, p.y.data, sizeof whole);
		scan(&w, &p, &S, 0, 32, 0, -1, 1);
		scan(&w, &p, &S, 32, 38, 32, 1, 1);
		twin_well(&w);
		assert_memory_equal(whole, p.y.data, sizeof whole);
		assert_memory_equal(tensor_row(&p.state, 0), tensor_row(&p.state, 1), slot);
		for (int64_t i = 0; i < S.H * S.P; i++) twin_set(&p.x, 19 * S.H * S.P + i, i % 2 ? NAN : INFINITY);
		scan(&w, &p, &S, 0, 70, 0, -1, 2);
		assert_memory_equal(whole, p.y.data, 19 * 48 * 2);
		for (int64_t i = 0; i < 48; i++) assert_false(isfinite(twin_get(&p.y, 19 * 48 + i)));
		scan(&w, &p, &S, 0, 0, 16, 0, 2); /* no tokens: the state moves */
		assert_memory_equal(tensor_row(&p.state, 0), tensor_row(&p.state, 2), slot);
		twin_well(&w);
		scan(&w, &p, &S, 0, 8, 17, 0, 0);
		twin_failed(&w, "segment 0 starts at position 17, neither a multiple of 16 nor its origin 0");
		scan(&w, &p, &S, 0, 8, 16, 3, 0);
		twin_failed(&w, "segment 0 reads slot 3 and writes slot 0");
		twin_close(&w);
	}
}

/* Drafts: rows of one sequence in one call are the same rows one call each. */
static void rows_follow_one_another(void **state)
{
	(void)state;
	static const shape S = {5, 6, 8, 24, 3, 0};
	for (int t = 0; t < 3; t++) {
		twin w;
		if (!twin_open(&w, &cpu_backend, TWIN_TIERS[t], 3, "portable", 12)) continue;
		parts p = parts_of(&w, &S, 10);
		tensor in = twin_count(&w, 5, -1, 1), out = twin_count(&w, 5, 0, 1), y2 = twin_zeros(&w, NUM_BF16, 2, 5, 48, 1, 1);
		OP(w.x, ssm_step, .y = &p.y, .x = &p.x, .b = &p.b, .c = &p.c, .dt = &p.dt, .a = &p.a, .d = &p.d, .dt_bias = &p.bias,
		    .state = &p.state, .slot_in = &in, .slot_out = &out, .groups = 3);
		for (int i = 0; i < 5; i++) {
			tensor x = tensor_rows(&p.x, i, 1), b = tensor_rows(&p.b, i, 1), c = tensor_rows(&p.c, i, 1), dt = tensor_rows(&p.dt, i, 1),
			       y = tensor_rows(&y2, i, 1), from = twin_count(&w, 1, i ? 9 : -1, 0), to = twin_count(&w, 1, 9, 0);
			OP(w.x, ssm_step, .y = &y, .x = &x, .b = &b, .c = &c, .dt = &dt, .a = &p.a, .d = &p.d, .dt_bias = &p.bias, .state = &p.state,
			    .slot_in = &from, .slot_out = &to, .groups = 3);
		}
		twin_well(&w);
		assert_int_equal(w.x->counters.state_update_rows, 10);
		assert_memory_equal(p.y.data, y2.data, 5 * 48 * 2);
		assert_memory_equal(tensor_row(&p.state, 4), tensor_row(&p.state, 9), (size_t)(S.H * S.P * S.N) * 4);
		twin_set(&p.b, 2 * 72 + 71, NAN); /* the last state column of the last group, row 2: heads 4 and 5 from there on */
		OP(w.x, ssm_step, .y = &p.y, .x = &p.x, .b = &p.b, .c = &p.c, .dt = &p.dt, .a = &p.a, .d = &p.d, .dt_bias = &p.bias,
		    .state = &p.state, .slot_in = &in, .slot_out = &out, .groups = 3);
		for (int i = 0; i < 5 * 48; i++) assert_int_equal(isnan(twin_get(&p.y, i)) != 0, i / 48 >= 2 && i % 48 >= 32);
		twin_close(&w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(steps_agree_with_ref), cmocka_unit_test(scans_agree_with_ref),
	    cmocka_unit_test(cuts_and_poison), cmocka_unit_test(rows_follow_one_another)};
	return cmocka_run_group_tests_name("cpu_ssm", tests, NULL, NULL);
}
