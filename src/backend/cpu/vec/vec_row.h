/* SPDX-License-Identifier: Apache-2.0
 * vec_row.h: rows of elements to rows of f32 and back: what every op begins and ends with. Lengths are any; addresses need no alignment.
 */
#ifndef CPU_VEC_VEC_ROW_H
#define CPU_VEC_VEC_ROW_H

#include "backend/cpu/vec/vec.h"

typedef struct vec_row {
	void (*from_bf16)(float *out, const void *in, int64_t n);
	void (*to_bf16)(void *out, const float *in, int64_t n); /* nearest even */
	void (*round_bf16)(float *v, int64_t n);                /* in place: to bf16 values */
} vec_row;

VEC_TABLES(vec_row)

#endif
