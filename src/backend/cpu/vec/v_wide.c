/* SPDX-License-Identifier: Apache-2.0
 * v_wide.c: see vec_wide.h. The invariant that breaks first: product and sum are two roundings in every tier, as in ref.
 */
#include "backend/cpu/vec/vec_wide.h"

#include "backend/cpu/vec/lane.h"

#define WIDTH (VN / 2) /* doubles of a register */
#define REGISTERS (MAT_TILE / WIDTH)
typedef double wd __attribute__((vector_size(8 * WIDTH)));
typedef float wf __attribute__((vector_size(4 * WIDTH)));

static void block(double sums[MAT_TILE], const float *x, const float *panel, int64_t count)
{
	wd acc[REGISTERS];
	memcpy(acc, sums, sizeof acc);
	for (int64_t j = 0; j < count; j++, panel += MAT_TILE) {
		const double a = (double)x[j];
#pragma GCC unroll 8
		for (int i = 0; i < REGISTERS; i++) {
			wf w;
			memcpy(&w, panel + i * WIDTH, sizeof w);
			acc[i] = acc[i] + __builtin_convertvector(w, wd) * a;
		}
	}
	memcpy(sums, acc, sizeof acc);
}

const vec_wide VEC(vec_wide) = {block};
