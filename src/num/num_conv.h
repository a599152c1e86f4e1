/* SPDX-License-Identifier: Apache-2.0
 * num_conv.h: exact conversions between f64/f32 and the narrow types, one value at a time. Widening is exact. Narrowing rounds to
 * nearest, ties to even, once: the _d forms round the double itself, never through f32. Overflow:
 *   bf16, f16, e5m2   to infinity as IEEE does (a value that rounds past the largest finite one)
 *   e4m3              saturates at 448 (the "satfinite" of model.md 5.1 and 7.1); infinities saturate too
 *   e2m1              saturates at 6; has no NaN: NaN gives +6 as satfinite hardware does
 * NaN stays NaN elsewhere (quiet, sign kept); signed zeros are kept; subnormals are exact, nothing is flushed.
 */
#ifndef NUM_CONV_H
#define NUM_CONV_H

#include <stdint.h>
#include <string.h>

#include "num/num_types.h"

static inline uint32_t num_bits_f32(float x)
{
	uint32_t u;
	memcpy(&u, &x, sizeof u);
	return u;
}

static inline float num_f32_bits(uint32_t u)
{
	float x;
	memcpy(&x, &u, sizeof x);
	return x;
}

static inline float num_bf16_to_f32(uint16_t b) { return num_f32_bits((uint32_t)b << 16); }

/* f32 to bf16: add half an ulp and the tie bit, then cut. Correct for subnormals and for overflow to infinity. */
static inline uint16_t num_f32_to_bf16(float x)
{
	uint32_t u = num_bits_f32(x);
	if ((u & 0x7FFFFFFFu) > 0x7F800000u) return (uint16_t)(u >> 16 | 0x40u);
	return (uint16_t)((u + 0x7FFFu + (u >> 16 & 1u)) >> 16);
}

uint16_t num_f64_to_bf16(double x);
float num_f16_to_f32(uint16_t h);
uint16_t num_f64_to_f16(double x);
float num_e5m2_to_f32(uint8_t b);
uint8_t num_f64_to_e5m2(double x);
uint8_t num_f64_to_e4m3(double x);
uint8_t num_f64_to_e2m1(double x); /* a code 0..15 */

/* Tables: value of each code. */
extern const float num_e4m3_value[256];
extern const float num_e2m1_value[16];

static inline float num_e4m3_to_f32(uint8_t b) { return num_e4m3_value[b]; }

/* The double nearest to x that the type can hold, as a double (for the reference arm's roundings). */
static inline double num_round_f32(double x) { return (double)(float)x; }
static inline double num_round_bf16(double x) { return (double)num_bf16_to_f32(num_f64_to_bf16(x)); }
static inline double num_round_e4m3(double x) { return (double)num_e4m3_value[num_f64_to_e4m3(x)]; }
static inline double num_round_e2m1(double x) { return (double)num_e2m1_value[num_f64_to_e2m1(x)]; }

/* Element i of an array of a float type (F64 F32 F16 BF16 E4M3 E5M2, and E2M1X2 by element), as double. */
double num_load(num_dtype type, const void *data, size_t i);
/* Stores with one rounding. E2M1X2 keeps the other nibble. */
void num_store(num_dtype type, void *data, size_t i, double x);
/* n elements from element i on; data need not be aligned. */
void num_load_row(num_dtype type, const void *data, size_t i, size_t n, double *out);
void num_store_row(num_dtype type, void *data, size_t i, size_t n, const double *x);

/* Distance in representable values between two codes of one type (F32, BF16, F16, E4M3, E5M2), across zero; UINT64_MAX if exactly
 * one is NaN, 0 if both are. */
uint64_t num_ulp_distance(num_dtype type, const void *a, const void *b);

#endif
