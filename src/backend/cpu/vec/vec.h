/* SPDX-License-Identifier: Apache-2.0
 * vec.h: how the kernels of the CPU arm are named and found. A kernel is a function over plain pointers that one thread runs; it knows no
 * exec, no tensor, no thread. Each file v_<family>.c is compiled once a tier (VEC_TIER is portable, avx2 or avx512) and defines a constant
 * table VEC(vec_<family>), e.g. vec_norm_avx2, declared in vec_<family>.h with VEC_TABLES; the arm above takes the table of its tier once.
 * The invariant that breaks first: a row's bits depend on the row and the tier only, never on how many rows a call has. So products are
 * contracted explicitly (v_fma) and never by the compiler, and sums run in a fixed order.
 */
#ifndef CPU_VEC_VEC_H
#define CPU_VEC_VEC_H

#include <stdint.h>

#define VEC_PASTE2(a, b) a##_##b
#define VEC_PASTE(a, b) VEC_PASTE2(a, b)
/* The name of this tier's copy. Only in files that are compiled per tier. */
#define VEC(name) VEC_PASTE(name, VEC_TIER)

/* Declares the tables of a family in all tiers of this build, and a constant array by cpu_tier. */
#if defined __x86_64__
#define VEC_TABLES(family)                                                                     \
	extern const family family##_portable;                                                     \
	extern const family family##_avx2;                                                         \
	extern const family family##_avx512;                                                       \
	static inline const family *family##_of(int tier)                                          \
	{                                                                                          \
		return tier == 2 ? &family##_avx512 : tier == 1 ? &family##_avx2 : &family##_portable; \
	}
#else
#define VEC_TABLES(family)                 \
	extern const family family##_portable; \
	static inline const family *family##_of(int tier) { return (void)tier, &family##_portable; }
#endif

#endif
