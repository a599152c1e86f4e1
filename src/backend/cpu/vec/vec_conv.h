/* SPDX-License-Identifier: Apache-2.0
 * vec_conv.h: the causal convolution over a block of channels. A block's arrays have VEC_CONV_BLOCK columns, of which `width` count.
 */
#ifndef CPU_VEC_VEC_CONV_H
#define CPU_VEC_VEC_CONV_H

#include <stdbool.h>

#include "backend/cpu/vec/vec.h"

#define VEC_CONV_BLOCK 128
#define VEC_CONV_TAPS 16

typedef struct vec_conv {
	/* [width, taps] to [taps, VEC_CONV_BLOCK] */
	void (*turn)(float *out, const float *in, int64_t width, int64_t taps);
	/* y = silu(bias + sum over taps of tap[j] * w[j]), tap 0 first; eager: each product rounded to bf16, each sum to f32 */
	void (*advance)(float *y, float *const *tap, const float *w, const float *bias, int64_t taps, bool eager);
} vec_conv;

VEC_TABLES(vec_conv)

#endif
