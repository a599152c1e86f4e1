/* SPDX-License-Identifier: Apache-2.0
 * vec_norm.h: the pieces of RMS norms over rows of f32. Sums of squares are in double, sixteen partial sums in a fixed order, so that the
 * scale of a row is nearly always the one that ref finds.
 */
#ifndef CPU_VEC_VEC_NORM_H
#define CPU_VEC_VEC_NORM_H

#include <stdbool.h>

#include "backend/cpu/vec/vec.h"

typedef struct vec_norm {
	double (*squares)(const float *v, int64_t n);
	void (*scale)(float *v, const float *w, float s, int64_t n); /* v = (v * s) * w */
	void (*add)(float *v, const float *a, int64_t n);            /* v += a */
	void (*gate)(float *v, const float *gate, int64_t n);        /* v *= silu(gate) */
	/* v = w * (v * s); eager: the inner product rounded to bf16 */
	void (*gated)(float *v, const float *w, float s, int64_t n, bool eager);
} vec_norm;

VEC_TABLES(vec_norm)

#endif
