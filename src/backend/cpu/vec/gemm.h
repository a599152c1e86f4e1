/* SPDX-License-Identifier: Apache-2.0
 * gemm.h: products of small f32 matrices that lie in the nearest caches, for files that are compiled per tier. Knows no op.
 * c[m, n] = (add ? c[m, n] : 0) + sum over k of a[m * am + k * ak] * b[k * ldb + n], n a multiple of VN. The invariant that breaks first:
 * each element is one chain of v_fma with k ascending, whatever tile it falls in, so its bits depend on its row and column alone.
 */
#ifndef CPU_VEC_GEMM_H
#define CPU_VEC_GEMM_H

#include <stdbool.h>

#include "backend/cpu/vec/lane.h"

#define GEMM_ROWS 6 /* by two vectors: twelve sums, which sixteen registers hold */

/* M and V are constants at each call. */
VOP void gemm_tile(
    int M, int V, int64_t K, const float *a, int64_t am, int64_t ak, const float *b, int64_t ldb, float *c, int64_t ldc, bool add)
{
	vf s[GEMM_ROWS][2];
#pragma GCC unroll 6
	for (int m = 0; m < M; m++)
#pragma GCC unroll 2
		for (int v = 0; v < V; v++) s[m][v] = add ? v_load(c + m * ldc + v * VN) : v_zero();
	for (int64_t k = 0; k < K; k++, a += ak, b += ldb) {
		const vf b0 = v_load(b), b1 = V > 1 ? v_load(b + VN) : b0;
#pragma GCC unroll 6
		for (int m = 0; m < M; m++) {
			const vf by = v_set(a[m * am]);
			s[m][0] = v_fma(by, b0, s[m][0]);
			if (V > 1) s[m][1] = v_fma(by, b1, s[m][1]);
		}
	}
#pragma GCC unroll 6
	for (int m = 0; m < M; m++)
#pragma GCC unroll 2
		for (int v = 0; v < V; v++) v_store(c + m * ldc + v * VN, s[m][v]);
}

/* Rows [0, M) of one column of vectors. */
#define GEMM_COLUMN(V)                                                                                                \
	do {                                                                                                              \
		int64_t m_ = 0;                                                                                               \
		for (; m_ + 6 <= M; m_ += 6) gemm_tile(6, V, K, a + m_ * am, am, ak, b + n, ldb, c + m_ * ldc + n, ldc, add); \
		if (m_ + 4 <= M) gemm_tile(4, V, K, a + m_ * am, am, ak, b + n, ldb, c + m_ * ldc + n, ldc, add), m_ += 4;    \
		if (m_ + 2 <= M) gemm_tile(2, V, K, a + m_ * am, am, ak, b + n, ldb, c + m_ * ldc + n, ldc, add), m_ += 2;    \
		if (m_ < M) gemm_tile(1, V, K, a + m_ * am, am, ak, b + n, ldb, c + m_ * ldc + n, ldc, add);                  \
	} while (0)

static inline void gemm_run(
    int64_t M, int64_t N, int64_t K, const float *a, int64_t am, int64_t ak, const float *b, int64_t ldb, float *c, int64_t ldc, bool add)
{
	int64_t n = 0;
	for (; n + 2 * VN <= N; n += 2 * VN) GEMM_COLUMN(2);
	for (; n < N; n += VN) GEMM_COLUMN(1);
}

/* out[j, i] = in[i, j], i < rows, j < cols. */
static inline void gemm_turn(float *out, int64_t ldo, const float *in, int64_t ldi, int64_t rows, int64_t cols)
{
	int64_t i = 0;
#if defined VEC_AVX2 || defined VEC_AVX512
	for (; i + 8 <= rows; i += 8) {
		int64_t j = 0;
		for (; j + 8 <= cols; j += 8) {
			__m256 r[8], s[8];
			for (int l = 0; l < 8; l++) r[l] = _mm256_loadu_ps(in + (i + l) * ldi + j);
			for (int l = 0; l < 8; l += 2) s[l] = _mm256_unpacklo_ps(r[l], r[l + 1]), s[l + 1] = _mm256_unpackhi_ps(r[l], r[l + 1]);
			for (int l = 0; l < 8; l += 4)
				for (int h = 0; h < 2; h++) {
					r[l + 2 * h] = _mm256_shuffle_ps(s[l + h], s[l + h + 2], 0x44);
					r[l + 2 * h + 1] = _mm256_shuffle_ps(s[l + h], s[l + h + 2], 0xee);
				}
			for (int l = 0; l < 4; l++) {
				_mm256_storeu_ps(out + (j + l) * ldo + i, _mm256_permute2f128_ps(r[l], r[l + 4], 0x20));
				_mm256_storeu_ps(out + (j + l + 4) * ldo + i, _mm256_permute2f128_ps(r[l], r[l + 4], 0x31));
			}
		}
		for (; j < cols; j++)
			for (int64_t l = 0; l < 8; l++) out[j * ldo + i + l] = in[(i + l) * ldi + j];
	}
#endif
	for (; i < rows; i++)
		for (int64_t j = 0; j < cols; j++) out[j * ldo + i] = in[i * ldi + j];
}

#endif
