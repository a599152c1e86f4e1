/* SPDX-License-Identifier: Apache-2.0
 * test_cpu_linear.c: rows times packed weights, over formats, tiers, profiles and shapes that do not fill their tiles. Products are compared
 * as f32, unrounded; the bands are a few times what was seen, which is the rounding of a chain of f32 sums, and of a row held as 16-bit
 * integers for W4A16 in decode form. A row alone, or among others, or with other threads, is the same to the bit (twin.h).
 */
#include "matrix.h"

typedef struct shape {
	matrix_kind kind;
	int64_t rows, n, k;
	int decode_rows;
	bool bias, relu2, narrow; /* narrow: y is of the activations' type */
} shape;

static void product(twin *w, const void *shape_)
{
	const shape *s = shape_;
	weight m = matrix_made(w, s->kind, s->n, s->k);
	matrix_import(w, &m);
	const num_dtype act = w->x->types.act;
	tensor x = twin_random(w, act, s->rows, s->k, 0, 1), bias = twin_vector(w, NUM_BF16, s->n, 0, 0.5);
	tensor y = twin_zeros(w, s->narrow ? act : act == NUM_F64 ? NUM_F64 : NUM_F32, 2, s->rows, s->n, 1, 1);
	tensor rx = twin_rows(w, &x), ry = twin_rows(w, &y);
	int decode = s->decode_rows;
	if (w->only >= 0) decode = w->only < s->decode_rows;
	OP(w->x, linear, .y = &ry, .x = &rx, .w = &m, .bias = s->bias ? &bias : NULL, .act = s->relu2 ? OP_ACT_RELU2 : OP_ACT_NONE,
	    .decode_rows = decode);
	twin_out(w, &ry);
	w->arm->release(w->x, &m);
}

static void agree(const char *name, const shape *shapes, size_t count, const double bands[2])
{
	twin_seen seen = {{0}, 0};
	for (size_t i = 0; i < count; i++) twin_check(product, &shapes[i], shapes[i].rows < 10 ? shapes[i].rows : 3, bands, &seen);
	TWIN_REPORT(name, seen);
}

#define LEN(a) (sizeof(a) / sizeof *(a))

static void plain_weights(void **state)
{
	(void)state;
	static const shape SHAPES[] = {{M_BF16, 1, 40, 2688, 1, false, false, false}, {M_BF16, 9, 33, 97, 4, false, false, false},
	    {M_BF16, 3, 1, 1, 1, true, false, false}, {M_BF16, 33, 17, 131, 0, true, true, false}, {M_BF16, 2, 50, 928, 2, false, true, false},
	    {M_F32, 1, 128, 2688, 1, false, false, false}, {M_F32, 14, 20, 129, 3, false, false, false},
	    {M_BF16, 530, 16, 16, 5, false, false, false}};
	static const double BANDS[2] = {3e-6, 3e-6};
	agree("linear bf16, f32", SHAPES, LEN(SHAPES), BANDS);
}

static void fp8_weights(void **state)
{
	(void)state;
	static const shape SHAPES[] = {{M_FP8, 1, 40, 2688, 1, false, false, false}, {M_FP8, 9, 33, 16, 4, false, false, false},
	    {M_FP8, 7, 17, 928, 7, true, true, false}, {M_FP8, 33, 15, 256, 0, false, true, false}, {M_FP8, 3, 20, 83, 1, false, false, false}};
	static const double BANDS[2] = {3e-6, 3e-6};
	agree("linear fp8", SHAPES, LEN(SHAPES), BANDS);
}

static void fp4_weights(void **state)
{
	(void)state;
	static const shape SHAPES[] = {{M_W4A16, 1, 40, 2688, 1, false, false, false}, {M_W4A16, 9, 33, 16, 4, false, false, false},
	    {M_W4A16, 7, 17, 928, 7, true, true, false}, {M_W4A16, 33, 15, 256, 20, false, true, false},
	    {M_W4A16, 13, 20, 80, 0, false, false, false}, {M_W4A4, 3, 40, 2688, 2, false, false, false},
	    {M_W4A4, 8, 17, 144, 0, false, true, false}};
	static const double BANDS[2] = {3e-6, 1e-5}; /* the second is the promise for ordinary rows */
	agree("linear fp4", SHAPES, LEN(SHAPES), BANDS);
}

/* As a model calls it: bf16 in, bf16 out. Where two sums lie on two sides of a rounding, an output is off by one step of 2^-8. */
static void narrow_results(void **state)
{
	(void)state;
	static const shape SHAPES[] = {{M_BF16, 5, 40, 2688, 2, false, true, true}, {M_FP8, 5, 40, 1856, 2, false, true, true},
	    {M_W4A16, 5, 40, 1856, 2, true, true, true}};
	static const double BANDS[2] = {3e-6, 3e-4};
	agree("linear to activations", SHAPES, LEN(SHAPES), BANDS);
}

/* Plain and FP8 weights are multiplied alike in both forms. */
static void forms_agree_where_promised(void **state)
{
	(void)state;
	for (int t = 0; t < 3; t++)
		for (int kind = 0; kind <= M_FP8; kind++) {
			twin a, b;
			if (!twin_open(&a, &cpu_backend, TWIN_TIERS[t], 1, "portable", 5)) continue;
			assert_true(twin_open(&b, &cpu_backend, TWIN_TIERS[t], 1, "portable", 5));
			product(&a, &(shape){(matrix_kind)kind, 8, 40, 333, 8, false, false, false});
			product(&b, &(shape){(matrix_kind)kind, 8, 40, 333, 0, false, false, false});
			assert_memory_equal(a.out[0], b.out[0], 8 * 40 * sizeof(double));
			twin_close(&a), twin_close(&b);
		}
}

/* One element of one row is no number, or too large for an integer: that row is ref's, and the others are what they were. */
static void not_a_number_stays(void **state)
{
	(void)state;
	static const double BAD[] = {NAN, INFINITY, -INFINITY};
	for (int t = 0; t < 3; t++)
		for (int kind = 0; kind < M_KINDS; kind++)
			for (int bad = 0; bad < 3; bad++) {
				twin w;
				if (!twin_open(&w, &cpu_backend, TWIN_TIERS[t], 2, "exact-wo", 3)) continue;
				weight m = matrix_made(&w, (matrix_kind)kind, 24, 96);
				matrix_import(&w, &m);
				tensor x = twin_random(&w, NUM_F32, 3, 96, 0, 1), y = twin_zeros(&w, NUM_F32, 2, 3, 24, 1, 1);
				twin_set(&x, 96 + 50, BAD[bad]);
				OP(w.x, linear, .y = &y, .x = &x, .w = &m, .decode_rows = 3);
				twin_well(&w);
				for (int64_t i = 0; i < 24; i++) {
					assert_true(isfinite(twin_get(&y, i)) && isfinite(twin_get(&y, 48 + i)));
					if (bad == 0) assert_true(isnan(twin_get(&y, 24 + i)));
				}
				w.arm->release(w.x, &m);
				twin_close(&w);
				assert_true(twin_open(&w, &cpu_backend, TWIN_TIERS[t], 1, "portable", 3));
				m = matrix_made(&w, (matrix_kind)kind, 24, 96);
				matrix_import(&w, &m);
				x = twin_random(&w, NUM_BF16, 3, 96, 0, 1), y = twin_zeros(&w, NUM_BF16, 2, 3, 24, 1, 1);
				twin_set(&x, 96 + 50, BAD[bad]);
				OP(w.x, linear, .y = &y, .x = &x, .w = &m, .act = OP_ACT_RELU2, .decode_rows = 3);
				for (int64_t i = 0; i < 24; i++) {
					assert_true(isfinite(twin_get(&y, i)) && isfinite(twin_get(&y, 48 + i)));
					if (bad == 0) assert_true(isnan(twin_get(&y, 24 + i)));
				}
				w.arm->release(w.x, &m);
				twin_close(&w);
			}
}

/* A weight that is no number reaches all results of its row of the matrix. */
static void bad_codes_are_kept(void **state)
{
	(void)state;
	for (int t = 0; t < 3; t++)
		for (int kind = M_FP8; kind < M_KINDS; kind++) {
			twin w;
			if (!twin_open(&w, &cpu_backend, TWIN_TIERS[t], 1, "portable", 3)) continue;
			weight m = matrix_made(&w, (matrix_kind)kind, 20, 64);
			if (kind == M_FP8) ((uint8_t *)m.data)[18 * 64 + 5] = 0xff;
			else ((uint8_t *)m.block_scale)[18 * 4 + 1] = 0x7f;
			matrix_import(&w, &m);
			tensor x = twin_random(&w, NUM_BF16, 2, 64, 0, 1), y = twin_zeros(&w, NUM_BF16, 2, 2, 20, 1, 1);
			OP(w.x, linear, .y = &y, .x = &x, .w = &m, .decode_rows = 1);
			for (int64_t i = 0; i < 40; i++) assert_int_equal(isnan(twin_get(&y, i)) != 0, i % 20 == 18);
			w.arm->release(w.x, &m);
			assert_null(m.bound);
			twin_close(&w);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(plain_weights), cmocka_unit_test(fp8_weights), cmocka_unit_test(fp4_weights),
	    cmocka_unit_test(narrow_results), cmocka_unit_test(forms_agree_where_promised), cmocka_unit_test(not_a_number_stays),
	    cmocka_unit_test(bad_codes_are_kept)};
	return cmocka_run_group_tests_name("cpu_linear", tests, NULL, NULL);
}
