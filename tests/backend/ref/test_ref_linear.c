/* SPDX-License-Identifier: Apache-2.0
 * test_ref_linear.c: rows times weights, every profile and scheme, against a formula of its own: reversed long double sums, e4m3 and e2m1
 * by search over their values, Hopper's sums by ldexp and trunc.
 */
#include "kit.h"

#include "backend/ref/ref.h"
#include "tensor/weight.h"

/* The nearest of a format's values, ties to the even code, saturating. */
static double nearest(double x, const float *value, int codes)
{
	int best = 0;
	for (int c = 1; c < codes; c++) {
		double d = fabs(fabs(x) - (double)value[c]), b = fabs(fabs(x) - (double)value[best]);
		if (d < b || (d == b && c % 2 == 0)) best = c;
	}
	return copysign((double)value[best], x);
}

static void on_grid(const kit *k, const weight *w, double *x)
{
	const bool native = w->scheme == NUM_SCHEME_NVFP4 && k->x->num->w4a4 == NUM_W4A4_NATIVE;
	if (w->scheme == NUM_SCHEME_FP8) {
		float inverse = 1.0f / w->input_scale;
		for (int64_t i = 0; i < w->k; i++)
			x[i] = nearest(kit_eager(k) ? (double)((float)x[i] * inverse) : x[i] * (double)inverse, num_e4m3_value, 127);
	}
	for (int64_t b = 0; native && b < w->k; b += 16) {
		double amax = 0;
		for (int j = 0; j < 16; j++) amax = fabs(x[b + j]) > amax ? fabs(x[b + j]) : amax;
		double s = nearest(amax / 6 / (double)w->input_scale, num_e4m3_value, 127);
		for (int j = 0; j < 16; j++) x[b + j] = s > 0 ? nearest(x[b + j] / (s * (double)w->input_scale), num_e2m1_value, 8) * s : 0.0;
	}
}

static int exponent(double v) /* floor(log2 |v|) */
{
	int e;
	frexp(v, &e);
	return e - 1;
}

static double hopper_sum(const double *x, const double *w, int64_t n)
{
	double acc = 0;
	for (int64_t from = 0; from < n; from += 32) {
		int64_t to = from + 32 < n ? from + 32 : n;
		int top = acc != 0 ? exponent(acc) : -1000;
		for (int64_t i = from; i < to; i++) {
			if (x[i] == 0 || w[i] == 0) continue;
			int a = exponent(x[i]), b = exponent(w[i]), e = (a < -6 ? -6 : a) + (b < -6 ? -6 : b);
			top = e > top ? e : top;
		}
		double unit = ldexp(1, top - 13), sum = trunc(acc / unit);
		for (int64_t i = from; i < to; i++) sum += trunc(x[i] * w[i] / unit);
		acc = sum * unit;
		if (acc != 0) {
			unit = ldexp(1, exponent(acc) - 13);
			acc = trunc(acc / unit) * unit;
		}
	}
	return acc;
}

static double expected(const kit *k, const weight *w, const double *x, const double *row, double bias, op_act act, num_dtype type)
{
	long double sum = 0;
	double magnitude = 0;
	for (int64_t i = w->k - 1; i >= 0; i--) sum += (long double)x[i] * row[i], magnitude += fabs(x[i] * row[i]);
	double v = (double)sum;
	const bool native = w->scheme == NUM_SCHEME_NVFP4 && k->x->num->w4a4 == NUM_W4A4_NATIVE;
	if (!kit_eager(k)) {
		v *= w->scheme == NUM_SCHEME_FP8 || native ? (double)w->scale * (double)w->input_scale : (double)w->scale;
	} else if (w->scheme == NUM_SCHEME_FP8) {
		if (k->x->num->fp8_sums == NUM_SUMS_HOPPER) v = hopper_sum(x, row, w->k);
		v = (double)(w->input_scale * (w->scale * (float)v));
	} else v = (double)((float)v * w->scale);
	v = kit_rounded(type, v);
	if (bias != 0) v = kit_rounded(type, v + bias);
	if (act == OP_ACT_RELU2) v = kit_rounded(type, v > 0 ? v * v : 0);
	return v;
}

static const struct {
	int64_t T, n, k;
} SHAPES[] = {{1, 1, 16}, {3, 7, 48}, {5, 33, 16}, {2, 16, 160}, {9, 17, 272}};

static void matches_formula(void **state)
{
	(void)state;
	int checked = 0;
	for (int p = 0; p < KIT_PROFILE_COUNT; p++)
		for (int scheme = 0; scheme < NUM_SCHEME_COUNT; scheme++)
			for (size_t s = 0; s < sizeof SHAPES / sizeof *SHAPES; s++)
				for (int form = 0; form < 4; form++) {
					kit k = kit_open(KIT_PROFILES[p], 100u + (uint64_t)s);
					const int64_t T = SHAPES[s].T, n = SHAPES[s].n, cols = SHAPES[s].k;
					const num_dtype act = k.x->types.act, type = form == 1 ? k.x->types.wide : act;
					weight w = kit_weight(&k, (num_scheme)scheme, n, cols);
					tensor wide = kit_random(&k, act, T, cols + 5, 2.0), x = tensor_cols(&wide, 3, cols), y = kit_2d(&k, type, T, n);
					tensor bias = kit_vector(&k, NUM_BF16, n, 2, 1);
					OP(k.x, linear, .y = &y, .x = &x, .w = &w, .bias = form == 2 ? &bias : NULL,
					    .act = form >= 2 ? OP_ACT_RELU2 : OP_ACT_NONE);
					KIT_OK(&k);
					double *in = arena_array(&k.mem, (size_t)cols, sizeof *in), *row = arena_array(&k.mem, (size_t)cols, sizeof *row);
					for (int64_t t = 0; t < T; t++) {
						for (int64_t i = 0; i < cols; i++) in[i] = kit_at(&x, t, i);
						on_grid(&k, &w, in);
						for (int64_t o = 0; o < n; o++) {
							weight_decode_row(&w, o, row);
							double want =
							    expected(&k, &w, in, row, form == 2 ? kit_get(&bias, o) : 0, form >= 2 ? OP_ACT_RELU2 : OP_ACT_NONE, type);
							double got = kit_at(&y, t, o);
							if (kit_eager(&k) ? got != want : !(fabs(got - want) <= 1e-12 * (1 + fabs(want))))
								fail_msg("%s %s [%lld, %lld] form %d at %lld, %lld: %.17g, want %.17g", KIT_PROFILES[p],
								    num_scheme_name((num_scheme)scheme), (long long)n, (long long)cols, form, (long long)t, (long long)o,
								    got, want);
							checked++;
						}
					}
					kit_close(&k);
				}
	print_message("%d elements\n", checked);
	assert_true(checked > 10000);
}

/* A row of a batch is the row alone, bit for bit, in either form, for every format. */
static void row_is_alone(void **state)
{
	(void)state;
	int rows = 0;
	for (int p = 0; p < KIT_PROFILE_COUNT; p++)
		for (int scheme = 0; scheme < NUM_SCHEME_COUNT; scheme++) {
			kit k = kit_open(KIT_PROFILES[p], 7);
			weight w = kit_weight(&k, (num_scheme)scheme, 37, 304);
			tensor x = kit_random(&k, k.x->types.act, 11, 304, 1), y = kit_2d(&k, k.x->types.act, 11, 37),
			       one = kit_2d(&k, k.x->types.act, 1, 37);
			OP(k.x, linear, .y = &y, .x = &x, .w = &w, .decode_rows = 4);
			for (int64_t t = 0; t < 11; t++) {
				tensor xt = tensor_rows(&x, t, 1), yt = tensor_rows(&y, t, 1);
				yt.room = tensor_bytes(&yt);
				OP(k.x, linear, .y = &one, .x = &xt, .w = &w, .decode_rows = (int)(t % 2));
				assert_true(kit_same_bits(&one, &yt));
				rows++;
			}
			KIT_OK(&k);
			kit_close(&k);
		}
	assert_int_equal(rows, 4 * NUM_SCHEME_COUNT * 11);
}

/* F32 weights (routers), and F32 outputs that stay wide under eager. */
static void wide_router(void **state)
{
	(void)state;
	kit k = kit_open("portable", 3);
	weight w = kit_weight_raw(&k, NUM_SCHEME_NONE, NUM_F32, 5, 24);
	nh_error e;
	assert_int_equal(ref_backend.import(k.x, &w, &e), NH_OK);
	tensor x = kit_random(&k, NUM_BF16, 2, 24, 1), y = kit_2d(&k, NUM_F32, 2, 5);
	OP(k.x, linear, .y = &y, .x = &x, .w = &w);
	KIT_OK(&k);
	int narrow = 0;
	for (int64_t t = 0; t < 2; t++)
		for (int64_t o = 0; o < 5; o++) {
			double row[24], sum = 0;
			weight_decode_row(&w, o, row);
			for (int i = 0; i < 24; i++) sum += row[i] * kit_at(&x, t, i);
			assert_true(kit_at(&y, t, o) == (double)(float)sum);
			narrow += kit_at(&y, t, o) == num_round_bf16(kit_at(&y, t, o));
		}
	assert_true(narrow < 5);
	kit_close(&k);
}

/* x * (1 / s) and x / s differ where one of them is a tie of the grid: look for such x, and see which one is taken. */
static void reciprocal_is_multiplied(void **state)
{
	(void)state;
	int found = 0;
	for (int p = 0; p < KIT_PROFILE_COUNT; p++) {
		kit k = kit_open(KIT_PROFILES[p], 17);
		weight w = kit_weight(&k, NUM_SCHEME_FP8, 1, 16);
		memset((void *)(uintptr_t)w.data, 0x38, 16);
		tensor x = kit_2d(&k, k.x->types.act, 1, 16), y = kit_2d(&k, k.x->types.act, 1, 1);
		for (int round = 0; round < 2000; round++) {
			const double v = num_round_bf16(1.5 + 0.4 * kit_rand(&k)), tie = 17.0 + 2.0 * (double)kit_below(&k, 8);
			w.input_scale = (float)(v / tie); /* between 16 and 32 the grid is even */
			const float inverse = 1.0f / w.input_scale;
			const double want = num_round_e4m3(kit_eager(&k) ? (double)((float)v * inverse) : v * (double)inverse);
			if (want == num_round_e4m3(kit_eager(&k) ? (double)((float)v / w.input_scale) : v / (double)w.input_scale)) continue;
			kit_set(&x, 3, v);
			OP(k.x, linear, .y = &y, .x = &x, .w = &w);
			assert_true(kit_get(&y, 0) == (kit_eager(&k) ? num_round_bf16((double)(w.input_scale * (w.scale * (float)want)))
			                                             : want * ((double)w.scale * (double)w.input_scale)));
			found++;
		}
		KIT_OK(&k);
		kit_close(&k);
	}
	print_message("%d such inputs\n", found);
	assert_true(found > 100);
}

/* A NaN in an activation or a weight is seen in the output, on every format's path, and only where it belongs. */
static void nan_is_seen(void **state)
{
	(void)state;
	for (int p = 0; p < KIT_PROFILE_COUNT; p++)
		for (int scheme = 0; scheme < NUM_SCHEME_COUNT; scheme++) {
			kit k = kit_open(KIT_PROFILES[p], 7);
			weight w = kit_weight(&k, (num_scheme)scheme, 3, 48);
			tensor x = kit_random(&k, k.x->types.act, 3, 48, 1), y = kit_2d(&k, k.x->types.act, 3, 3);
			kit_set(&x, 48 + 20, NAN);
			if (scheme == NUM_SCHEME_FP8) ((uint8_t *)(uintptr_t)w.data)[48 * 2 + 5] = 0xFF;
			OP(k.x, linear, .y = &y, .x = &x, .w = &w);
			for (int64_t t = 0; t < 3; t++)
				for (int64_t o = 0; o < 3; o++)
					assert_int_equal(isnan(kit_at(&y, t, o)) != 0, t == 1 || (scheme == NUM_SCHEME_FP8 && o == 2));
			kit_close(&k);
		}
}

static void empty_and_unbound(void **state)
{
	(void)state;
	kit k = kit_open("portable", 1);
	weight w = kit_weight(&k, NUM_SCHEME_NONE, 3, 4);
	tensor x = kit_2d(&k, NUM_BF16, 0, 4), y = kit_2d(&k, NUM_BF16, 0, 3);
	OP(k.x, linear, .y = &y, .x = &x, .w = &w);
	KIT_OK(&k);
	ref_backend.release(k.x, &w);
	OP(k.x, linear, .y = &y, .x = &x, .w = &w);
	KIT_FAILED(&k, "not imported");
	kit_close(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(matches_formula), cmocka_unit_test(row_is_alone), cmocka_unit_test(wide_router),
	    cmocka_unit_test(reciprocal_is_multiplied), cmocka_unit_test(nan_is_seen), cmocka_unit_test(empty_and_unbound)};
	return cmocka_run_group_tests_name("ref_linear", tests, NULL, NULL);
}
