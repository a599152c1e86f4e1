/* SPDX-License-Identifier: Apache-2.0
 * mat_tier.h: the tiers' own kernels for packed weights, as their files define them and as v_mat.c puts them into the tables. Contracts:
 * vec_mat.h. A tier's kernel is called only where the processor has its instructions.
 */
#ifndef CPU_VEC_MAT_TIER_H
#define CPU_VEC_MAT_TIER_H

#include "backend/cpu/vec/vec_mat.h"

#if defined __x86_64__
/* avx2_mat.c */
void avx2_expand_bf16(float *panel, const void *tile, int64_t from, int64_t count);
void avx2_expand_f32(float *panel, const void *tile, int64_t from, int64_t count);
void avx2_expand_fp8(float *panel, const void *tile, int64_t from, int64_t count);
void avx2_expand_fp4(float *panel, const void *tile, int64_t from, int64_t count);
void avx2_block(float *sums, const float *const *x, int m, const float *panel, int64_t count, bool first);
void avx2_gemv_bf16(float *sums, const void *tile, int tiles, const float *x, int64_t pitch, int64_t k);
void avx2_gemv_f32(float *sums, const void *tile, int tiles, const float *x, int64_t pitch, int64_t k);
void avx2_gemv_fp8(float *sums, const void *tile, int tiles, const float *x, int64_t pitch, int64_t k);
/* avx2_few.c */
void avx2_few_bf16(float *sums, const float *const *x, int m, const void *tile, int64_t from, int64_t count);
void avx2_few_fp8(float *sums, const float *const *x, int m, const void *tile, int64_t from, int64_t count);
/* avx2_fp4.c */
bool avx2_narrow(mat_ints *out, int64_t step, const float *x, int64_t pitch, int64_t k);
void avx2_ints(float *sums, const void *tile, const mat_ints *const *x, int m, int64_t step, int64_t k);
/* avx512_mat.c, with a layout of its own for fp8 */
void avx512_pack_fp8(uint8_t *tile, const uint8_t *const rows[MAT_TILE], int64_t k);
void avx512_expand_bf16(float *panel, const void *tile, int64_t from, int64_t count);
void avx512_expand_fp8(float *panel, const void *tile, int64_t from, int64_t count);
void avx512_block2(float *sums, int64_t pitch, const float *const *x, int m, const float *panel, int64_t count, bool first);
void avx512_gemv_bf16(float *sums, const void *tile, int tiles, const float *x, int64_t pitch, int64_t k);
void avx512_gemv_f32(float *sums, const void *tile, int tiles, const float *x, int64_t pitch, int64_t k);
void avx512_gemv_fp8(float *sums, const void *tile, int tiles, const float *x, int64_t pitch, int64_t k);
/* avx512_fp4.c, likewise */
void avx512_pack_fp4(uint8_t *tile, const uint8_t *const rows[MAT_TILE], const uint8_t *const scales[MAT_TILE], int64_t k);
void avx512_expand_fp4(float *panel, const void *tile, int64_t from, int64_t count);
bool avx512_narrow(int16_t *words, float *scales, int64_t n, const float *x, int64_t pitch, int64_t k);
void avx512_words(void *panel, const void *tile, int64_t from, int64_t count);
void avx512_words_block(
    float *sums, int64_t pitch, int tiles, const int16_t *x, const float *scales, int m, const void *panel, int64_t count, bool first);
void avx512_words_gemv(float *sums, const void *tile, const int16_t *x, const float *scales, int64_t n, int64_t k);
#endif

#endif
