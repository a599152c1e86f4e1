/* SPDX-License-Identifier: Apache-2.0
 * v_row.c: bf16 and f32. The invariant that breaks first: the tail is rounded as the body is.
 */
#include "backend/cpu/vec/vec_row.h"

#include "backend/cpu/vec/lane.h"

static void from_bf16(float *out, const void *in, int64_t n)
{
	const uint16_t *p = in;
	int64_t i = 0;
	for (; i + VN <= n; i += VN) v_store(out + i, v_load_bf16(p + i));
	if (i < n) v_store_part(out + i, v_load_bf16_part(p + i, n - i), n - i);
}

static void to_bf16(void *out, const float *in, int64_t n)
{
	uint16_t *p = out;
	int64_t i = 0;
	for (; i + VN <= n; i += VN) v_store_bf16(p + i, v_load(in + i));
	if (i < n) v_store_bf16_part(p + i, v_load_part(in + i, n - i), n - i);
}

static void round_bf16(float *v, int64_t n)
{
	int64_t i = 0;
	for (; i + VN <= n; i += VN) v_store(v + i, v_bf16(v_load(v + i)));
	if (i < n) v_store_part(v + i, v_bf16(v_load_part(v + i, n - i)), n - i);
}

const vec_row VEC(vec_row) = {from_bf16, to_bf16, round_bf16};
