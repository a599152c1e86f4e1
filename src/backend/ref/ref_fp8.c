/* SPDX-License-Identifier: Apache-2.0
 * ref_fp8.c: Hopper's FP8 sums. A product of two e4m3 values has at most 8 significant bits, so it is exact in f32, and so is its
 * product with a power of two; the conversion to int is the truncation toward zero. Hence the two loops over a step are plain array
 * loops that vectorise. The invariant that breaks first: the scaled products stay below 2^15, because none has a larger exponent than
 * the one that they are aligned to.
 */
#include "backend/ref/ref_fp8.h"

#include <math.h>

#include "num/num_conv.h"

#define BIAS 22                /* stored exponent of a value with exponent 0 */
#define LEAST (2 * (BIAS - 6)) /* smallest stored exponent of a product that is not zero; a zero operand leaves less */

/* Stored exponents by code: a field e > 0 has exponent e - 7, the subnormals' field 0 has -6; zeros and NaNs have none. */
#define SAME(v) v, v, v, v, v, v, v, v
#define HALF                                                                                                                           \
	0, 16, 16, 16, 16, 16, 16, 16, SAME(16), SAME(17), SAME(18), SAME(19), SAME(20), SAME(21), SAME(22), SAME(23), SAME(24), SAME(25), \
	    SAME(26), SAME(27), SAME(28), SAME(29), 30, 30, 30, 30, 30, 30, 30, 0
static const uint8_t EXPONENT[256] = {HALF, HALF};

bool ref_fp8_split1(uint8_t code, float *f, uint8_t *e)
{
	bool nan = (code & 0x7F) == 0x7F;
	*f = nan ? 0.0f : num_e4m3_value[code];
	*e = EXPONENT[code];
	return nan;
}

bool ref_fp8_split(const uint8_t *codes, int64_t n, float *restrict f, uint8_t *restrict e)
{
	uint8_t most = 0;
	for (int64_t i = 0; i < n; i++) f[i] = num_e4m3_value[codes[i]];
	for (int64_t i = 0; i < n; i++) { /* EXPONENT in a form that vectorises */
		uint8_t mag = codes[i] & 0x7F, field = mag >> 3;
		most = mag > most ? mag : most;
		field = field < 1 ? 1 : field;
		e[i] = mag == 0 || mag == 0x7F ? 0 : (uint8_t)(field + BIAS - 7);
	}
	for (int64_t i = 0; most == 0x7F && i < n; i++)
		if ((codes[i] & 0x7F) == 0x7F) f[i] = 0.0f;
	return most == 0x7F;
}

/* m / 2^shift toward zero, without a branch: the signs of sums are as good as random. */
static int32_t cut(int32_t m, int32_t shift)
{
	const int32_t sign = -(m < 0);
	return (((m ^ sign) - sign) >> (shift < 31 ? shift : 31) ^ sign) - sign;
}

void ref_fp8_add(ref_fp8_sum *s, const float *restrict f, const uint8_t *restrict e, const float *restrict wf, const uint8_t *restrict we)
{
	uint8_t top = 0;
	for (int i = 0; i < REF_FP8_STEP; i++) {
		uint8_t p = (uint8_t)(e[i] + we[i]);
		top = p > top ? p : top;
	}
	if (top < LEAST) return; /* all products are zero, and the accumulator is on its own grid already */
	int32_t exp = (int32_t)top - 2 * BIAS;
	exp = s->e > exp ? s->e : exp;
	const float unit = num_f32_bits((uint32_t)(127 + REF_FP8_BITS - exp) << 23);
	int32_t sum = cut(s->m, exp - s->e);
	for (int i = 0; i < REF_FP8_STEP; i++) sum += (int32_t)(f[i] * wf[i] * unit);
	const int32_t sign = -(sum < 0), mag = (sum ^ sign) - sign, bits = 31 - __builtin_clz((uint32_t)mag | 1u);
	const int32_t right = bits > REF_FP8_BITS ? bits - REF_FP8_BITS : 0, left = bits < REF_FP8_BITS ? REF_FP8_BITS - bits : 0;
	s->m = ((mag >> right << left) ^ sign) - sign;
	s->e = mag ? exp - REF_FP8_BITS + bits : REF_FP8_NONE;
}

double ref_fp8_value(const ref_fp8_sum *s) { return s->m ? ldexp((double)s->m, s->e - REF_FP8_BITS) : 0.0; }

double ref_fp8_dot(const float *f, const uint8_t *e, const float *wf, const uint8_t *we, int64_t n)
{
	ref_fp8_sum s = REF_FP8_ZERO;
	for (int64_t i = 0; i < n; i += REF_FP8_STEP) ref_fp8_add(&s, f + i, e + i, wf + i, we + i);
	return ref_fp8_value(&s);
}
