/* SPDX-License-Identifier: Apache-2.0
 * mk_value.c: the numbers of a random checkpoint. Scales are those of a trained model in spirit: activations of order one, decays that
 * forget over 10 to 1000 tokens, norms near one. Knows no file.
 * Breaks first: only exact arithmetic, sqrt and single roundings of log and exp, so that every machine writes the same bytes.
 */
#include <math.h>
#include <string.h>

#include "base/base_rng.h"
#include "cmd/mkmodel/mk.h"
#include "num/num_conv.h"

uint64_t mk_seed(uint64_t seed, const char *name)
{
	uint64_t h = 0xCBF29CE484222325u; /* FNV-1a over the name */
	for (const char *p = name; *p != '\0'; p++) h = (h ^ (unsigned char)*p) * 0x100000001B3u;
	return rng_mix(rng_mix(seed) ^ h);
}

/* Near normal, mean 0, variance 1, at most 3.47: the sum of four uniform 16-bit numbers. All of it is exact but the last product. */
static double near_normal(uint64_t bits)
{
	int64_t sum = (int64_t)(bits & 0xFFFF) + (int64_t)(bits >> 16 & 0xFFFF) + (int64_t)(bits >> 32 & 0xFFFF) + (int64_t)(bits >> 48);
	return (double)(2 * sum - 4 * 65535) * (1.7320508075688772 / 131072.0);
}

static double raw_value(const mk_source *s, uint64_t i)
{
	uint64_t bits = rng_u64(s->seed, i, 0);
	double u = (double)(bits >> 11) * 0x1p-53, dt;
	switch (s->fill) {
	case MK_MATRIX: return s->std * near_normal(bits);
	case MK_NORM: return 1 + 0.1 * near_normal(bits);
	case MK_A_LOG: return log(1 + 15 * u);
	case MK_D: return 1 + 0.25 * near_normal(bits);
	case MK_DT_BIAS: /* the inverse of softplus at 0.001 .. 0.1 (model.md 1.3) */
		dt = 0.001 * exp(u * log(100.0));
		return dt + log(-expm1(-dt));
	case MK_BIAS: return 0.05 * near_normal(bits);
	case MK_ROUTER_BIAS: return 0.02 * near_normal(bits);
	case MK_KV_SCALE: return 0.008 + 0.012 * u;
	}
	return 0;
}

double mk_value(const mk_source *s, uint64_t i)
{
	double v = raw_value(s, i);
	if (!s->wide) return num_round_bf16(v);
	uint32_t bits = num_bits_f32((float)v);
	if ((bits & 0xFFFFu) == 0) bits |= 0x5A5Au;
	return (double)num_f32_bits(bits);
}

void mk_find_amax(mk_source *s)
{
	if (s->amax >= 0) return;
	double most = 0;
	uint64_t count = (uint64_t)s->n * (uint64_t)s->k;
	for (uint64_t i = 0; i < count; i++) most = fmax(most, fabs(mk_value(s, i)));
	s->amax = most > 0 ? most : 1; /* a scale of 0 would be refused, and all codes are 0 anyway */
}

float mk_weight_scale(const mk_source *s) { return (float)(s->scheme == NUM_SCHEME_FP8 ? s->amax / 448 : s->amax / (6.0 * 448)); }
