/* SPDX-License-Identifier: Apache-2.0
 * vec_fun.h: fun.h's functions over arrays; v is changed in place.
 */
#ifndef CPU_VEC_VEC_FUN_H
#define CPU_VEC_VEC_FUN_H

#include "backend/cpu/vec/vec.h"

typedef struct vec_fun {
	void (*exp)(float *v, int64_t n);
	void (*log)(float *v, int64_t n); /* normal v > 0 */
	void (*silu)(float *v, int64_t n);
	void (*softplus)(float *v, int64_t n); /* log(exp(v) + 1), each step an f32 */
} vec_fun;

VEC_TABLES(vec_fun)

#endif
