/* SPDX-License-Identifier: Apache-2.0
 * avx2_word.h: what the AVX2 files for packed weights share: words of the stream to columns of f32, and lists of rows for macros. Knows no
 * sums. The invariant that breaks first: a word's value does not depend on which file takes it apart.
 */
#ifndef CPU_VEC_AVX2_WORD_H
#define CPU_VEC_AVX2_WORD_H

#include <immintrin.h>
#include <stdint.h>

#define OP static inline __attribute__((always_inline))

OP __m256i load(const uint8_t *p) { return _mm256_loadu_si256((const __m256i *)p); }
OP __m256 bits(__m256i v) { return _mm256_castsi256_ps(v); }

/* -- a word of each of 8 rows to columns ------------------------------------------------------------------------------------------- */

/* Two bf16. */
OP __m256 bf16_low(__m256i v) { return bits(_mm256_slli_epi32(v, 16)); }
OP __m256 bf16_high(__m256i v) { return bits(_mm256_and_si256(v, _mm256_set1_epi32((int)0xffff0000))); }

/* Four e4m3, as bf16 halves first: sign and the seven other bits below it, moved to where a bf16 has them. */
OP __m256i fp8_odd(__m256i v) { return _mm256_and_si256(_mm256_srai_epi16(v, 4), _mm256_set1_epi16((short)0x87f0)); }
OP __m256i fp8_even(__m256i v) { return fp8_odd(_mm256_slli_epi16(v, 8)); }

/* So far in front of its reading a stream is asked for (avx2_fp4.c). */
#define AHEAD 6144

/* Sums have names: one for each row of a block. */
#define ROWS1(X) X(0)
#define ROWS2(X) ROWS1(X) X(1)
#define ROWS3(X) ROWS2(X) X(2)
#define ROWS4(X) ROWS3(X) X(3)
#define ROWS5(X) ROWS4(X) X(4)
#define ROWS6(X) ROWS5(X) X(5)

#endif
