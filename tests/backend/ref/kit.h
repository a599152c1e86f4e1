/* SPDX-License-Identifier: Apache-2.0
 * kit.h: what the tests of the reference arm share: an exec of a profile, memory that goes away together, seeded tensors and weights.
 * Header only, so that each test stays one program. Values come from rng.h: the same in every run.
 */
#ifndef KIT_H
#define KIT_H

#include <math.h>
#include <string.h>

#include "backend/ref/ref_backend.h"
#include "base/base_arena.h"
#include "base/base_rng.h"
#include "num/num_conv.h"
#include "tensor/paged.h"
#include "test.h"

typedef struct kit {
	exec *x;
	arena mem;
	uint64_t seed, drawn;
} kit;

static const char *const KIT_PROFILES[] = {"exact", "exact-wo", "portable", "hopper"};
#define KIT_PROFILE_COUNT 4

BASE_UNUSED static kit kit_open(const char *profile, uint64_t seed)
{
	kit k = {.seed = seed};
	arena_init(&k.mem);
	nh_error e = {0};
	backend_options o = {.num = num_profile(profile)};
	if (ref_backend.open(&k.x, &o, &e) != NH_OK) fail_msg("open %s: %s", profile, e.text);
	return k;
}

BASE_UNUSED static void kit_close(kit *k)
{
	ref_backend.close(k->x);
	arena_deinit(&k->mem);
}

/* The exec must be well after an op. */
#define KIT_OK(k)                                                                       \
	do {                                                                                \
		nh_error kit_error_ = {0};                                                      \
		if (exec_status((k)->x, &kit_error_) != NH_OK) fail_msg("%s", kit_error_.text); \
	} while (0)

/* The exec must have failed with a text that holds `part`. */
#define KIT_FAILED(k, part)                                                                                \
	do {                                                                                                   \
		nh_error kit_error_ = {0};                                                                         \
		assert_int_not_equal(exec_status((k)->x, &kit_error_), NH_OK);                                     \
		if (!strstr(kit_error_.text, (part))) fail_msg("'%s' does not say '%s'", kit_error_.text, (part)); \
		exec_clear((k)->x);                                                                                \
	} while (0)

/* Between -1 and 1, densest at 0. */
BASE_UNUSED static double kit_rand(kit *k)
{
	uint64_t n = k->drawn++;
	return rng_unit(k->seed, n, 0) + rng_unit(k->seed, n, 1) - 1.0;
}

BASE_UNUSED static int64_t kit_below(kit *k, int64_t n) { return (int64_t)(rng_u64(k->seed, k->drawn++, 2) % (uint64_t)n); }

/* Zeroed. Dimensions end with 0. */
BASE_UNUSED static tensor kit_zeros(kit *k, num_dtype type, int rank, int64_t a, int64_t b, int64_t c, int64_t d)
{
	const int64_t shape[4] = {a, b, c, d};
	size_t bytes = 0;
	assert_true(tensor_size(type, rank, shape, &bytes));
	void *p = arena_alloc(&k->mem, bytes + 1);
	assert_non_null(p);
	memset(p, 0, bytes + 1);
	return tensor_nd(p, type, rank, shape);
}

BASE_UNUSED static tensor kit_2d(kit *k, num_dtype type, int64_t a, int64_t b) { return kit_zeros(k, type, 2, a, b, 1, 1); }
BASE_UNUSED static tensor kit_1d(kit *k, num_dtype type, int64_t a) { return kit_zeros(k, type, 1, a, 1, 1, 1); }

/* Element i in storage order of a contiguous tensor. */
BASE_UNUSED static double kit_get(const tensor *t, int64_t i) { return num_load(t->dtype, t->data, (size_t)i); }
BASE_UNUSED static void kit_set(const tensor *t, int64_t i, double v) { num_store(t->dtype, t->data, (size_t)i, v); }
/* Element [i, j] of any 2-d view. */
BASE_UNUSED static double kit_at(const tensor *t, int64_t i, int64_t j) { return num_load(t->dtype, tensor_row(t, i), (size_t)j); }

BASE_UNUSED static void kit_fill(kit *k, const tensor *t, double scale)
{
	for (int64_t i = 0; i < tensor_count(t); i++) kit_set(t, i, scale * kit_rand(k));
}

BASE_UNUSED static tensor kit_random(kit *k, num_dtype type, int64_t a, int64_t b, double scale)
{
	tensor t = kit_2d(k, type, a, b);
	kit_fill(k, &t, scale);
	return t;
}

BASE_UNUSED static tensor kit_vector(kit *k, num_dtype type, int64_t n, double middle, double scale)
{
	tensor t = kit_1d(k, type, n);
	for (int64_t i = 0; i < n; i++) kit_set(&t, i, middle + scale * kit_rand(k));
	return t;
}

BASE_UNUSED static tensor kit_ints(kit *k, int64_t n, const int32_t *v)
{
	tensor t = kit_1d(k, NUM_I32, n);
	if (n) memcpy(t.data, v, (size_t)n * sizeof *v);
	return t;
}
#define KIT_INTS(k, ...) kit_ints((k), (int64_t)(sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t)), (int32_t[]){__VA_ARGS__})

/* A weight of random codes, imported. Its bytes start at an odd address, as they may in a file. */
BASE_UNUSED static weight kit_weight_raw(kit *k, num_scheme scheme, num_dtype type, int64_t n, int64_t cols)
{
	weight w = {.name = "w", .scheme = scheme, .dtype = type, .n = n, .k = cols, .scale = 1.0f};
	const bool fp4 = type == NUM_E2M1X2;
	size_t bytes = (size_t)(n * cols) * num_bytes(type) / (fp4 ? 2 : 1);
	uint8_t *p = (uint8_t *)arena_alloc(&k->mem, bytes + 8) + 1;
	for (int64_t i = 0; !fp4 && i < n * cols; i++) num_store(type, p, (size_t)i, type == NUM_E4M3 ? 300.0 * kit_rand(k) : kit_rand(k));
	for (size_t i = 0; fp4 && i < bytes; i++) p[i] = (uint8_t)kit_below(k, 256);
	w.data = p;
	if (fp4) {
		uint8_t *s = (uint8_t *)arena_alloc(&k->mem, (size_t)(n * cols / 16) + 8) + 1;
		for (int64_t i = 0; i < n * cols / 16; i++) s[i] = num_f64_to_e4m3(200.0 + 190.0 * kit_rand(k));
		w.block_scale = s;
	}
	if (scheme != NUM_SCHEME_NONE) w.scale = (float)(0.003 * (1.2 + kit_rand(k)));
	if (scheme == NUM_SCHEME_FP8 || scheme == NUM_SCHEME_NVFP4) w.input_scale = (float)(0.01 * (1.2 + kit_rand(k)));
	if (scheme == NUM_SCHEME_NVFP4) w.input_scale *= 0.3f;
	return w;
}

BASE_UNUSED static weight kit_weight(kit *k, num_scheme scheme, int64_t n, int64_t cols)
{
	const num_dtype type = scheme == NUM_SCHEME_NONE ? NUM_BF16 : scheme == NUM_SCHEME_FP8 ? NUM_E4M3 : NUM_E2M1X2;
	weight w = kit_weight_raw(k, scheme, type, n, cols);
	nh_error e = {0};
	if (ref_backend.import(k->x, &w, &e) != NH_OK) fail_msg("%s", e.text);
	return w;
}

BASE_UNUSED static bool kit_eager(const kit *k) { return k->x->num->rounding == NUM_ROUND_EAGER; }

/* As the machines of the eager profiles hold it: f32, then the type. */
BASE_UNUSED static double kit_rounded(num_dtype type, double v)
{
	if (type == NUM_F64) return v;
	uint64_t cell = 0;
	num_store(type, &cell, 0, (double)(float)v);
	return num_load(type, &cell, 0);
}

/* The largest |a - b| over two contiguous tensors relative to the root mean square of b. */
BASE_UNUSED static double kit_far(const tensor *a, const tensor *b)
{
	double worst = 0.0, square = 0.0;
	int64_t n = tensor_count(b);
	assert_int_equal(tensor_count(a), n);
	for (int64_t i = 0; i < n; i++) {
		double d = fabs(kit_get(a, i) - kit_get(b, i));
		if (!(d <= worst)) worst = d;
		square += kit_get(b, i) * kit_get(b, i);
	}
	return n == 0 || worst == 0.0 ? 0.0 : worst / sqrt(square / (double)n);
}

BASE_UNUSED static bool kit_same_bits(const tensor *a, const tensor *b)
{
	return tensor_bytes(a) == tensor_bytes(b) && memcmp(a->data, b->data, tensor_bytes(a)) == 0;
}

#endif
