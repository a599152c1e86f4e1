/* SPDX-License-Identifier: Apache-2.0
 * test_cpu_sample.c: tokens are ref's for hundreds of seeds, with every filter, with ties, without choice; log-probabilities to 1e-14.
 */
#include "twin.h"

typedef struct shape {
	int64_t rows, V;
	int kind; /* 0: like a model's; 1: few values, many ties; 2: flat; 3: one best, and a tail of small weights that hold most of the sum */
} shape;

static tensor logits_of(twin *w, const shape *s, num_dtype type)
{
	tensor l = twin_random(w, type, s->rows, s->V, 0, s->kind == 2 ? 0.01 : 9);
	for (int64_t i = 0; s->kind == 1 && i < tensor_count(&l); i++) twin_set(&l, i, (double)(int)(twin_get(&l, i) / 3));
	for (int64_t i = 0; s->kind == 3 && i < tensor_count(&l); i++) twin_set(&l, i, i % s->V == 7 ? 9 : 0.05 * twin_get(&l, i));
	return l;
}

static void draws(twin *w, const void *shape_)
{
	const shape *s = shape_;
	tensor l = logits_of(w, s, w->x->types.act), ids = twin_zeros(w, NUM_I32, 2, s->rows, 1, 1, 1),
	       id = tensor_1d(ids.data, NUM_I32, s->rows);
	op_sample_row *o = arena_alloc(&w->mem, (size_t)s->rows * sizeof *o);
	static const double T[] = {1, 0, 0.3, 2.5, 1e30}, TOP_P[] = {1, 0.9, 0.5, 0.999}, MIN_P[] = {0, 0, 0.02};
	static const int32_t TOP_K[] = {0, 0, 5, 50, 1};
	for (int64_t r = 0; r < s->rows; r++)
		o[r] = (op_sample_row){.temperature = T[r % 5],
		    .top_p = TOP_P[r / 2 % 4],
		    .min_p = MIN_P[r / 3 % 3],
		    .top_k = TOP_K[r / 4 % 5],
		    .seed = (uint64_t)r * 77,
		    .position = r};
	for (int64_t r = 0; s->kind == 3 && r < s->rows; r++) o[r].temperature = o[r].top_p = 1, o[r].min_p = 0, o[r].top_k = 0;
	if (s->rows > 7) {
		for (int64_t i = 0; i < s->V; i++) twin_set(&l, 3 * s->V + i, -INFINITY), twin_set(&l, 5 * s->V + i, i % 3 ? -INFINITY : 1);
		twin_set(&l, 4 * s->V + s->V - 1, NAN);
		twin_set(&l, 6 * s->V + s->V / 2, INFINITY);
		twin_set(&l, 7 * s->V + s->V / 3, 40); /* all others are far below */
	}
	l = twin_rows(w, &l), id = twin_rows(w, &id), ids = twin_rows(w, &ids);
	OP(w->x, sample_rows, .ids = &id, .logits = &l, .rows = w->only < 0 ? o : o + w->only);
	twin_out(w, &ids);
}

static void tokens_are_refs(void **state)
{
	(void)state;
	static const shape SHAPES[] = {
	    {60, 1000, 0}, {60, 997, 1}, {10, 4100, 2}, {9, 4096, 0}, {300, 33, 0}, {6, 1, 0}, {2, 9000, 0}, {12, 8000, 3}};
	static const double BANDS[2] = {0, 0};
	twin_seen seen = {{0}, 0};
	for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++)
		twin_check(draws, &SHAPES[i], SHAPES[i].rows < 10 ? SHAPES[i].rows : 10, BANDS, &seen);
}

static void log_probabilities(twin *w, const void *shape_)
{
	const shape *s = shape_;
	const int64_t best = 7;
	tensor l = logits_of(w, s, w->x->types.act), ids = twin_zeros(w, NUM_I32, 2, s->rows, 3, 1, 1),
	       lp = twin_zeros(w, NUM_F64, 2, s->rows, 3, 1, 1), rank = twin_zeros(w, NUM_I32, 2, s->rows, 3, 1, 1),
	       top = twin_zeros(w, NUM_I32, 2, s->rows, best, 1, 1), top_lp = twin_zeros(w, NUM_F64, 2, s->rows, best, 1, 1);
	for (int64_t i = 0; i < s->rows * 3; i++) ((int32_t *)ids.data)[i] = (int32_t)(i * 31 % (s->V + 1)) - 1;
	if (s->rows > 2) twin_set(&l, s->V, NAN), twin_set(&l, 2 * s->V, -INFINITY);
	l = twin_rows(w, &l), ids = twin_rows(w, &ids), lp = twin_rows(w, &lp), rank = twin_rows(w, &rank), top = twin_rows(w, &top),
	top_lp = twin_rows(w, &top_lp);
	OP(w->x, logprobs, .logits = &l, .ids = &ids, .lp = &lp, .rank = &rank, .top_ids = &top, .top_lp = &top_lp);
	twin_out(w, &lp);
	twin_out(w, &rank);
	twin_out(w, &top);
	twin_out(w, &top_lp);
}

static void log_probabilities_are_refs(void **state)
{
	(void)state;
	static const shape SHAPES[] = {{5, 1000, 0}, {6, 4099, 1}, {3, 5, 0}, {1, 20000, 2}};
	static const double BANDS[2] = {1e-14, 1e-14};
	twin_seen seen = {{0}, 0};
	for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++) twin_check(log_probabilities, &SHAPES[i], 1, BANDS, &seen);
	TWIN_REPORT("logprobs", seen);
}

static void bad_ids_are_told(void **state)
{
	(void)state;
	twin w;
	assert_true(twin_open(&w, &cpu_backend, NULL, 1, "portable", 1));
	tensor l = twin_random(&w, NUM_BF16, 1, 10, 0, 1), ids = twin_zeros(&w, NUM_I32, 2, 1, 1, 1, 1),
	       lp = twin_zeros(&w, NUM_F64, 2, 1, 1, 1, 1), rank = twin_zeros(&w, NUM_I32, 2, 1, 1, 1, 1);
	((int32_t *)ids.data)[0] = 10;
	OP(w.x, logprobs, .logits = &l, .ids = &ids, .lp = &lp, .rank = &rank);
	twin_failed(&w, "ids[0, 0] = 10, expected -1 <= id < 10");
	twin_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(tokens_are_refs), cmocka_unit_test(log_probabilities_are_refs), cmocka_unit_test(bad_ids_are_told)};
	return cmocka_run_group_tests_name("cpu_sample", tests, NULL, NULL);
}
