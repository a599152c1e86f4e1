/* SPDX-License-Identifier: Apache-2.0
 * vec_wide.h: sums in doubles, for results that stay f32 and decide something: which experts a token goes to. The products of bf16 values are
 * exact there, and the sum runs over ascending columns as ref's does, so the result is ref's.
 */
#ifndef CPU_VEC_VEC_WIDE_H
#define CPU_VEC_VEC_WIDE_H

#include "backend/cpu/vec/vec_mat.h"

typedef struct vec_wide {
	/* sums[r] += x[j] * panel[j * MAT_TILE + r] for j = 0 .. count - 1 */
	void (*block)(double sums[MAT_TILE], const float *x, const float *panel, int64_t count);
} vec_wide;

VEC_TABLES(vec_wide)

#endif
