/* SPDX-License-Identifier: Apache-2.0
 * ref_fp8.h: sums of FP8 products as Hopper's tensor core makes them (model.md 0.4, point 3). Internal to the room.
 * One step takes 32 products and the accumulator: all are aligned to the largest exponent among them (a product's is the sum of its
 * operands' exponents, a subnormal counting as -6; zeros do not count), truncated toward zero to 13 fraction bits and added exactly;
 * the sum is truncated to 13 fraction bits of its own. The steps of a sum follow one another in ascending k.
 */
#ifndef REF_REF_FP8_H
#define REF_REF_FP8_H

#include <stdbool.h>
#include <stdint.h>

#define REF_FP8_STEP 32
#define REF_FP8_BITS 13

/* m * 2^(e - 13), |m| in [2^13, 2^14); zero has no exponent: e below all others. */
typedef struct ref_fp8_sum {
	int32_t m;
	int32_t e;
} ref_fp8_sum;
#define REF_FP8_NONE (-1000)
#define REF_FP8_ZERO ((ref_fp8_sum){0, REF_FP8_NONE})

/* Codes to values and to exponents e + 22 (so 16..30), 0 for zero. NaN codes become zero; returns whether there was one. */
bool ref_fp8_split(const uint8_t *codes, int64_t n, float *f, uint8_t *e);
/* The same for one code. */
bool ref_fp8_split1(uint8_t code, float *f, uint8_t *e);

void ref_fp8_add(ref_fp8_sum *s, const float *f, const uint8_t *e, const float *wf, const uint8_t *we);
double ref_fp8_value(const ref_fp8_sum *s);
/* n a multiple of REF_FP8_STEP; zeros pad. */
double ref_fp8_dot(const float *f, const uint8_t *e, const float *wf, const uint8_t *we, int64_t n);

#endif
