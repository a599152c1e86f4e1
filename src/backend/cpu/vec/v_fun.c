/* SPDX-License-Identifier: Apache-2.0
 * v_fun.c: fun.h over arrays. The invariant that breaks first: a tail is computed as the body is, so a value's bits do not depend on where
 * it stands.
 */
#include "backend/cpu/vec/vec_fun.h"

#include "backend/cpu/vec/fun.h"

#define FUN_EACH(name)                                                              \
	static void each_##name(float *v, int64_t n)                                    \
	{                                                                               \
		int64_t i = 0;                                                              \
		for (; i + VN <= n; i += VN) v_store(v + i, v_##name(v_load(v + i)));       \
		if (i < n) v_store_part(v + i, v_##name(v_load_part(v + i, n - i)), n - i); \
	}
FUN_EACH(exp)
FUN_EACH(log)
FUN_EACH(silu)
FUN_EACH(softplus)

const vec_fun VEC(vec_fun) = {each_exp, each_log, each_silu, each_softplus};
