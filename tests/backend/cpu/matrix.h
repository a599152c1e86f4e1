/* SPDX-License-Identifier: Apache-2.0
 * matrix.h: random weights for the tests of packed matrices, on whatever arm the twin holds. All codes occur but NaN, block scales of both
 * signs and subnormal ones among them; data starts at an odd address, as it may in a file.
 */
#ifndef MATRIX_H
#define MATRIX_H

#include "tensor/weight.h"
#include "twin.h"

typedef enum { M_BF16, M_F32, M_FP8, M_W4A16, M_W4A4, M_KINDS } matrix_kind;
BASE_UNUSED static const char *const MATRIX_NAMES[] = {"bf16", "f32", "fp8", "w4a16", "w4a4"};

BASE_UNUSED static uint8_t *matrix_bytes(twin *w, size_t n)
{
	uint8_t *p = arena_alloc(&w->mem, n + 2);
	assert_non_null(p);
	for (size_t i = 0; i < n; i++) p[1 + i] = (uint8_t)(rng_u64(w->seed, w->drawn++, 3) & 0xff);
	return p + 1;
}

/* Not imported yet. */
BASE_UNUSED static weight matrix_made(twin *w, matrix_kind kind, int64_t n, int64_t k)
{
	static const num_scheme SCHEMES[] = {NUM_SCHEME_NONE, NUM_SCHEME_NONE, NUM_SCHEME_FP8, NUM_SCHEME_W4A16, NUM_SCHEME_NVFP4};
	static const num_dtype TYPES[] = {NUM_BF16, NUM_F32, NUM_E4M3, NUM_E2M1X2, NUM_E2M1X2};
	weight m = {.name = "m", .scheme = SCHEMES[kind], .dtype = TYPES[kind], .n = n, .k = k, .scale = 1.0f};
	const size_t elements = (size_t)(n * k);
	if (kind == M_BF16 || kind == M_F32) {
		uint8_t *p = matrix_bytes(w, elements * num_bytes(m.dtype));
		for (size_t i = 0; i < elements; i++)
			num_store(m.dtype, p, i, kind == M_F32 ? 0.1 * (rng_unit(w->seed, w->drawn++, 4) - 0.5) : 0.1 * twin_rand(w));
		m.data = p;
		return m;
	}
	uint8_t *p = matrix_bytes(w, kind == M_FP8 ? elements : elements / 2);
	m.data = p;
	m.scale = (float)(0.001 * (1.5 + twin_rand(w)));
	if (kind != M_W4A16) m.input_scale = (float)(0.004 * (1.5 + twin_rand(w)));
	if (kind == M_FP8) {
		for (size_t i = 0; i < elements; i++)
			if ((p[i] & 0x7f) == 0x7f) p[i]--;
		return m;
	}
	uint8_t *s = matrix_bytes(w, elements / 16);
	for (size_t i = 0; i < elements / 16; i++) { /* mostly of one size, as in models; some small, some negative */
		const unsigned draw = s[i];
		s[i] = (uint8_t)(draw < 16 ? draw : 0x58 + draw % 32);
		if (draw % 7 == 0) s[i] |= 0x80;
	}
	m.block_scale = s;
	return m;
}

BASE_UNUSED static void matrix_import(twin *w, weight *m)
{
	nh_error e = {0};
	if (w->arm->import(w->x, m, &e) != NH_OK) fail_msg("%s", e.text);
}

#endif
