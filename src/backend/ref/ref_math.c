/* SPDX-License-Identifier: Apache-2.0
 * ref_math.c: rows in and out of double. The common types have loops of their own, which the compiler vectorises; the values are those of
 * num_load_row and, through f32, of num_store_row. Nothing here knows an op.
 */
#include "backend/ref/ref_math.h"

#include <string.h>

void ref_load_at(num_dtype type, const void *p, int64_t n, double *out)
{
	const uint8_t *b = p;
	if (type == NUM_BF16) {
		for (int64_t i = 0; i < n; i++) {
			uint16_t h;
			memcpy(&h, b + 2 * i, 2);
			out[i] = (double)num_bf16_to_f32(h);
		}
	} else if (type == NUM_F32) {
		for (int64_t i = 0; i < n; i++) {
			float f;
			memcpy(&f, b + 4 * i, 4);
			out[i] = (double)f;
		}
	} else num_load_row(type, p, 0, (size_t)n, out);
}

void ref_store_at(num_dtype type, void *p, int64_t n, const double *v)
{
	uint8_t *b = p;
	if (type == NUM_BF16) {
		for (int64_t i = 0; i < n; i++) {
			uint16_t h = num_f32_to_bf16((float)v[i]);
			memcpy(b + 2 * i, &h, 2);
		}
	} else if (type == NUM_F32) {
		for (int64_t i = 0; i < n; i++) {
			float f = (float)v[i];
			memcpy(b + 4 * i, &f, 4);
		}
	} else num_store_row(type, p, 0, (size_t)n, v);
}

static void *at(const tensor *t, int64_t i, int64_t from) { return (char *)tensor_row(t, i) + (size_t)from * num_bytes(t->dtype); }

void ref_load(const tensor *t, int64_t i, int64_t from, int64_t n, double *out) { ref_load_at(t->dtype, at(t, i, from), n, out); }

void ref_store(const tensor *t, int64_t i, int64_t from, int64_t n, const double *v) { ref_store_at(t->dtype, at(t, i, from), n, v); }

void ref_round_row(num_dtype type, double *v, int64_t n)
{
	if (type == NUM_F64) return;
	if (type == NUM_BF16)
		for (int64_t i = 0; i < n; i++) v[i] = ref_bf16(v[i]);
	else
		for (int64_t i = 0; i < n; i++) v[i] = ref_round(type, v[i]);
}
