/* SPDX-License-Identifier: Apache-2.0
 * vec_sample.h: passes over a vocabulary of logits. Exponentials are in double, as ref's are: a draw must not turn on f32 noise.
 */
#ifndef CPU_VEC_VEC_SAMPLE_H
#define CPU_VEC_VEC_SAMPLE_H

#include <stdbool.h>

#include "backend/cpu/vec/vec.h"

typedef struct vec_sample {
	/* The largest of n logits (minus infinity where there is none), NaNs passed over; whether there are NaNs, and any finite logit. */
	float (*look)(const float *l, int64_t n, bool *nan, bool *finite);
	/* p[i] = exp((l[i] - best) / temperature), 1 where l is best, 0 where it is infinite; their sum. p NULL: the sum only. */
	double (*weights)(double *p, const float *l, int64_t n, double best, double temperature);
} vec_sample;

VEC_TABLES(vec_sample)

#endif
