/* SPDX-License-Identifier: Apache-2.0
 * v_conv.c: the causal convolution. Whole blocks are computed whatever the width is: the columns behind it are zeros and nobody reads them.
 */
#include "backend/cpu/vec/vec_conv.h"

#include "backend/cpu/vec/fun.h"

static void turn(float *out, const float *in, int64_t width, int64_t taps)
{
	memset(out, 0, sizeof *out * (size_t)taps * VEC_CONV_BLOCK);
	if (taps == 4) /* every published model: a constant count of columns becomes shuffles */
		for (int64_t i = 0; i < width; i++)
			for (int64_t j = 0; j < 4; j++) out[j * VEC_CONV_BLOCK + i] = in[i * 4 + j];
	else
		for (int64_t i = 0; i < width; i++)
			for (int64_t j = 0; j < taps; j++) out[j * VEC_CONV_BLOCK + i] = in[i * taps + j];
}

static void advance(float *y, float *const *tap, const float *w, const float *bias, int64_t taps, bool eager)
{
	for (int64_t i = 0; i < VEC_CONV_BLOCK; i += VN) {
		vf sum = v_load(bias + i);
		for (int64_t j = 0; j < taps; j++) {
			const vf in = v_load(tap[j] + i), by = v_load(w + j * VEC_CONV_BLOCK + i);
			sum = eager ? v_add(sum, v_bf16(v_mul(in, by))) : v_fma(in, by, sum);
		}
		v_store(y + i, v_silu(sum));
	}
}

const vec_conv VEC(vec_conv) = {turn, advance};
