/* SPDX-License-Identifier: Apache-2.0
 * test_qz_codes.c: scales and codes of single matrices, judged in doubles by the tables of num: nearest codes, scales no worse than the plain ones, the same
 * bytes on any number of threads, and matrices that have no scale.
 */
#include "test.h"

#include <math.h>
#include <string.h>

#include "base/base_mem.h"
#include "base/base_rng.h"
#include "cmd/quantize/qz.h"
#include "num/num_conv.h"

static jobs *pool(int threads)
{
	jobs *p;
	assert_int_equal(jobs_create(&p, threads, NULL), NH_OK);
	return p;
}

/* Nearly normal values with some large ones, so that blocks differ; type bf16 or f32. */
static qz_matrix made(num_dtype type, int64_t n, int64_t k, double size)
{
	uint8_t *data = mem_alloc((size_t)(n * k) * num_bytes(type));
	for (int64_t i = 0; i < n * k; i++) {
		double v = 0;
		for (uint64_t j = 0; j < 6; j++) v += rng_unit(7, (uint64_t)i, j) - 0.5;
		num_store(type, data, (size_t)i, v * size * (i % 97 == 0 ? 5 : 1));
	}
	return (qz_matrix){.name = "m.weight", .dtype = type, .data = data, .n = n, .k = k};
}

static double value(const qz_matrix *m, int64_t i) { return num_load(m->dtype, m->data, (size_t)i); }

/* Distance to the nearest value of the grid times unit, over the unit. */
static double nearest_e2m1(double v)
{
	double least = INFINITY;
	for (int c = 0; c < 16; c++) least = fmin(least, fabs(v - (double)num_e2m1_value[c]));
	return least;
}

static void fp4_is_nearest_and_no_worse_than_plain(void **state)
{
	(void)state;
	jobs *p = pool(3);
	qz_matrix m = made(NUM_BF16, 37, 208, 0.02);
	float amax;
	size_t bytes = (size_t)(m.n * m.k), moved = 0, up = 0;
	assert_int_equal(qz_amax(p, &m, &amax, NULL), NH_OK);
	float second = qz_fp4_second(amax);
	assert_true(second == amax / 2688.0f);
	uint8_t *codes = mem_alloc(bytes / 2), *scales = mem_alloc(bytes / 16);
	qz_fp4_codes(p, &m, second, codes, scales);
	double searched = 0, plain = 0;
	for (int64_t b = 0; b < m.n * m.k / 16; b++) {
		double most = 0, own = 0, other = 0;
		for (int64_t i = 16 * b; i < 16 * b + 16; i++) most = fmax(most, fabs(value(&m, i)));
		uint8_t before = num_f64_to_e4m3(most / 6 / (double)second);
		double unit = (double)num_e4m3_to_f32(scales[b]) * (double)second, plain_unit = (double)num_e4m3_to_f32(before) * (double)second;
		for (int64_t i = 16 * b; i < 16 * b + 16; i++) {
			uint8_t code = i % 2 == 0 ? codes[i / 2] & 15 : codes[i / 2] >> 4;
			double v = value(&m, i) / unit, d = v - (double)num_e2m1_value[code];
			assert_true(fabs(d) <= nearest_e2m1(v) + 1e-12);
			own += d * d * unit * unit;
			other += pow(nearest_e2m1(value(&m, i) / plain_unit) * plain_unit, 2);
		}
		assert_true(own <= other * (1 + 1e-5)); /* the choice is made in f32 */
		searched += own;
		plain += other;
		moved += scales[b] != before;
		up += scales[b] > before;
	}
	print_message("%zu scales moved, %zu of them up; squared error %.4f of the plain scales'\n", moved, up, searched / plain);
	assert_true(moved > 50 && up > 20 && up < moved && searched < 0.95 * plain);
	mem_free(codes);
	mem_free(scales);
	mem_free((void *)(uintptr_t)m.data);
	jobs_destroy(p);
}

static void fp8_is_nearest_and_no_worse_than_plain(void **state)
{
	(void)state;
	jobs *p = pool(2);
	qz_matrix m = made(NUM_BF16, 50, 100, 0.3);
	float amax, scale;
	uint8_t codes[5000];
	assert_int_equal(qz_amax(p, &m, &amax, NULL), NH_OK);
	assert_int_equal(qz_fp8_scale(p, &m, amax, &scale, NULL), NH_OK);
	qz_fp8_codes(p, &m, scale, codes);
	double own = 0, plain = 0, unit = (double)(amax / 448.0f);
	bool candidate = false;
	for (int j = -4; j <= 4; j++) candidate |= scale == (float)(unit * exp2(j / 8.0));
	assert_true(candidate);
	for (int64_t i = 0; i < m.n * m.k; i++) {
		double v = value(&m, i);
		assert_int_equal(codes[i], num_f64_to_e4m3(v / (double)scale));
		own += pow(v - (double)num_e4m3_to_f32(codes[i]) * (double)scale, 2);
		plain += pow(v - num_round_e4m3(v / unit) * unit, 2);
	}
	print_message("squared error %.4f of the plain scale's\n", own / plain);
	assert_true(own <= plain * (1 + 1e-5));
	mem_free((void *)(uintptr_t)m.data);
	jobs_destroy(p);
}

/* What was on the grid comes back as it was. */
static void values_of_the_grid_are_kept(void **state)
{
	(void)state;
	jobs *p = pool(1);
	float x[64], amax, scale, second = 0x1p-5f;
	uint8_t codes[64], scales[4];
	qz_matrix m = {.name = "m", .dtype = NUM_F32, .data = (const uint8_t *)x, .n = 2, .k = 32};
	for (int i = 0; i < 64; i++) x[i] = num_e2m1_value[i % 16] * (float)(1 << (i / 16)) * second;
	qz_fp4_codes(p, &m, second, codes, scales);
	for (int i = 0; i < 64; i++) {
		uint8_t code = i % 2 == 0 ? codes[i / 2] & 15 : codes[i / 2] >> 4;
		assert_true(num_e2m1_value[code] * num_e4m3_to_f32(scales[i / 16]) * second == x[i]);
	}
	for (int i = 0; i < 64; i++) x[i] = num_e4m3_to_f32((uint8_t)(i == 0 ? 0x7E : 2 * i)) * 0x1p-3f;
	assert_int_equal(qz_amax(p, &m, &amax, NULL), NH_OK);
	assert_true(amax == 56.0f);
	assert_int_equal(qz_fp8_scale(p, &m, amax, &scale, NULL), NH_OK);
	assert_true(scale == 0x1p-3f);
	qz_fp8_codes(p, &m, scale, codes);
	for (int i = 0; i < 64; i++) assert_int_equal(codes[i], i == 0 ? 0x7E : 2 * i);
	jobs_destroy(p);
}

static void threads_change_no_byte(void **state)
{
	(void)state;
	qz_matrix m = made(NUM_F32, 1200, 336, 1); /* several pieces */
	size_t n = (size_t)(m.n * m.k);
	uint8_t *a = mem_alloc(n), *b = mem_alloc(n), *sa = mem_alloc(n / 16), *sb = mem_alloc(n / 16);
	float scale[2], amax[2];
	for (int t = 0; t < 2; t++) {
		jobs *p = pool(t == 0 ? 1 : 5);
		assert_int_equal(qz_amax(p, &m, &amax[t], NULL), NH_OK);
		assert_int_equal(qz_fp8_scale(p, &m, amax[t], &scale[t], NULL), NH_OK);
		qz_fp4_codes(p, &m, qz_fp4_second(amax[t]), t ? b : a, t ? sb : sa);
		jobs_destroy(p);
	}
	assert_true(scale[0] == scale[1] && amax[0] == amax[1]);
	assert_memory_equal(a, b, n / 2);
	assert_memory_equal(sa, sb, n / 16);
	jobs *p = pool(4);
	qz_fp8_codes(p, &m, scale[0], a);
	jobs_destroy(p);
	for (size_t i = 0; i < n; i += 997) assert_int_equal(a[i], num_f64_to_e4m3(value(&m, (int64_t)i) / (double)scale[0]));
	mem_free(a);
	mem_free(b);
	mem_free(sa);
	mem_free(sb);
	mem_free((void *)(uintptr_t)m.data);
}

static void odd_matrices(void **state)
{
	(void)state;
	jobs *p = pool(2);
	float x[32] = {0}, amax, scale;
	uint8_t codes[32], scales[2];
	nh_error e = {0};
	qz_matrix m = {.name = "odd.weight", .dtype = NUM_F32, .data = (const uint8_t *)x, .n = 2, .k = 16};
	/* all zero */
	assert_int_equal(qz_amax(p, &m, &amax, &e), NH_OK);
	assert_true(amax == 0 && qz_fp4_second(amax) == 1);
	assert_int_equal(qz_fp8_scale(p, &m, amax, &scale, &e), NH_OK);
	assert_true(scale == 1);
	qz_fp4_codes(p, &m, 1, codes, scales);
	assert_true(scales[0] == 0 && scales[1] == 0 && codes[0] == 0 && codes[15] == 0);
	/* values whose scales are no normal f32 */
	x[3] = 0x1p-140f;
	assert_int_equal(qz_amax(p, &m, &amax, &e), NH_OK);
	assert_true(isfinite(1 / qz_fp4_second(amax)));
	assert_int_equal(qz_fp8_scale(p, &m, amax, &scale, &e), NH_OK);
	assert_true(scale > 0 && isfinite(1 / scale));
	/* a block of ordinary and one of very small values: the second has a scale too, the smallest ones */
	for (int i = 0; i < 16; i++) x[i] = 3.0f;
	for (int i = 16; i < 32; i++) x[i] = 0x1p-12f;
	qz_fp4_codes(p, &m, qz_fp4_second(3), codes, scales);
	assert_true(scales[1] >= 1);
	/* the first that is not finite is named */
	x[21] = NAN;
	x[30] = INFINITY;
	assert_int_equal(qz_amax(p, &m, &amax, &e), NH_ERR_NUMERIC);
	assert_non_null(strstr(e.text, "tensor odd.weight: element [1, 5] is not finite"));
	x[21] = 0;
	assert_int_equal(qz_amax(p, &m, &amax, &e), NH_ERR_NUMERIC);
	assert_non_null(strstr(e.text, "element [1, 14]"));
	jobs_destroy(p);
	assert_true(
	    qz_input_scale(NUM_SCHEME_FP8, 896) == 2 && qz_input_scale(NUM_SCHEME_NVFP4, 2688) == 1 && qz_input_scale(NUM_SCHEME_FP8, 0) == 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(fp4_is_nearest_and_no_worse_than_plain),
	    cmocka_unit_test(fp8_is_nearest_and_no_worse_than_plain), cmocka_unit_test(values_of_the_grid_are_kept),
	    cmocka_unit_test(threads_change_no_byte), cmocka_unit_test(odd_matrices)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
