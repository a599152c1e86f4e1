/* SPDX-License-Identifier: Apache-2.0
 * mat_fp4.h: the stream of a tile of FP4 weights, as packed by v_mat.c and read by every kernel of the tiers that use it.
 * For each MAT_CHUNK columns two halves of 8 rows (MAT_TILE in all), of FP4_HALF bytes each: for each of the 4 blocks of 16 columns two
 * vectors of 32 bytes, then the scales, [block][row]. Of a row's 4 bytes in a vector, byte j holds the codes of column j of the block (low
 * nibble) and 4 + j (high) in the first vector, 8 + j and 12 + j in the second. Scales are not negative: pack moves their sign into the codes.
 */
#ifndef CPU_VEC_MAT_FP4_H
#define CPU_VEC_MAT_FP4_H

#include "backend/cpu/vec/vec_mat.h"

#define FP4_HALF 288 /* 4 * 2 * 32 codes, 32 scales */
#define FP4_STEP (2 * FP4_HALF)
#define FP4_SCALES 256

/* A scale's code, taken as the upper bits of an f32 as fp8's are, is 2^-120 of it. */
#define FP4_SCALE_UNIT 0x1p120f

#endif
