/* SPDX-License-Identifier: Apache-2.0
 * ref_kernel.c: the kernels: format x profile. Weights are decoded onto their own grid, exactly; all scales come after the sum.
 * The invariant that breaks first: each scale of a format is applied once, in `dense` or in `expert_up` and `expert_down`.
 */
#include "backend/ref/ref_kernel.h"

#include <string.h>

#include "backend/ref/ref_math.h"
#include "num/num_conv.h"

#define BLOCK 16 /* elements that share one FP4 scale */

/* -- weights onto their grid, two rows at a time ------------------------------------------------------------------------------------ */

static const uint8_t *at(const weight *w, int64_t row, int64_t from)
{
	return (const uint8_t *)w->data + (size_t)(row * w->k + from) * num_bytes(w->dtype);
}

static double load_bf16(const uint8_t *p)
{
	uint16_t h;
	memcpy(&h, p, 2);
	return (double)num_bf16_to_f32(h);
}

static void decode_bf16(const weight *w, const int64_t row[2], int64_t from, int64_t count, double *restrict out)
{
	const uint8_t *a = at(w, row[0], from), *b = at(w, row[1], from);
	for (int64_t i = 0; i < count; i++, out += REF_TILE) out[0] = load_bf16(a + 2 * i), out[1] = load_bf16(b + 2 * i);
}

static double load_f32(const uint8_t *p)
{
	float f;
	memcpy(&f, p, 4);
	return (double)f;
}

static void decode_f32(const weight *w, const int64_t row[2], int64_t from, int64_t count, double *restrict out)
{
	const uint8_t *a = at(w, row[0], from), *b = at(w, row[1], from);
	for (int64_t i = 0; i < count; i++, out += REF_TILE) out[0] = load_f32(a + 4 * i), out[1] = load_f32(b + 4 * i);
}

/* num_e4m3_value as doubles: a table look-up is the whole decoding. Eight fractions of one exponent field, whose unit is `u`. */
#define LOW(u) 0 * (u), 1 * (u), 2 * (u), 3 * (u), 4 * (u), 5 * (u), 6 * (u), 7 * (u)
#define ROW(u) 8 * (u), 9 * (u), 10 * (u), 11 * (u), 12 * (u), 13 * (u), 14 * (u), 15 * (u)
#define TOP(u) 8 * (u), 9 * (u), 10 * (u), 11 * (u), 12 * (u), 13 * (u), 14 * (u), (double)NAN
#define HALF(s)                                                                                                                            \
	LOW(s 0x1p-9), ROW(s 0x1p-9), ROW(s 0x1p-8), ROW(s 0x1p-7), ROW(s 0x1p-6), ROW(s 0x1p-5), ROW(s 0x1p-4), ROW(s 0x1p-3), ROW(s 0x1p-2), \
	    ROW(s 0x1p-1), ROW(s 0x1p0), ROW(s 0x1p1), ROW(s 0x1p2), ROW(s 0x1p3), ROW(s 0x1p4), TOP(s 0x1p5)
static const double E4M3[256] = {HALF(+), HALF(-)};
/* Both elements of a byte. */
#define PAIRS(high)                                                                                                                     \
	{0.0, high}, {0.5, high}, {1.0, high}, {1.5, high}, {2.0, high}, {3.0, high}, {4.0, high}, {6.0, high}, {-0.0, high}, {-0.5, high}, \
	    {-1.0, high}, {-1.5, high}, {-2.0, high}, {-3.0, high}, {-4.0, high},                                                           \
	{                                                                                                                                   \
		-6.0, high                                                                                                                      \
	}
static const double E2M1X2[256][2] = {PAIRS(0.0), PAIRS(0.5), PAIRS(1.0), PAIRS(1.5), PAIRS(2.0), PAIRS(3.0), PAIRS(4.0), PAIRS(6.0),
    PAIRS(-0.0), PAIRS(-0.5), PAIRS(-1.0), PAIRS(-1.5), PAIRS(-2.0), PAIRS(-3.0), PAIRS(-4.0), PAIRS(-6.0)};

static void decode_fp8(const weight *w, const int64_t row[2], int64_t from, int64_t count, double *restrict out)
{
	const uint8_t *a = at(w, row[0], from), *b = at(w, row[1], from);
	for (int64_t i = 0; i < count; i++, out += REF_TILE) out[0] = E4M3[a[i]], out[1] = E4M3[b[i]];
}

/* from and count are multiples of the block. The product of code and scale has at most 6 significant bits. */
static void decode_fp4(const weight *w, const int64_t row[2], int64_t from, int64_t count, double *restrict out)
{
	const uint8_t *a = (const uint8_t *)w->data + (size_t)(row[0] * (w->k / 2) + from / 2);
	const uint8_t *b = (const uint8_t *)w->data + (size_t)(row[1] * (w->k / 2) + from / 2);
	const uint8_t *sa = (const uint8_t *)w->block_scale + (size_t)(row[0] * (w->k / BLOCK) + from / BLOCK);
	const uint8_t *sb = (const uint8_t *)w->block_scale + (size_t)(row[1] * (w->k / BLOCK) + from / BLOCK);
	for (int64_t block = 0; block < count / BLOCK; block++) {
		const double s = E4M3[sa[block]], t = E4M3[sb[block]];
		for (int j = 0; j < BLOCK / 2; j++, a++, b++, out += 2 * REF_TILE) {
			out[0] = E2M1X2[*a][0] * s, out[1] = E2M1X2[*b][0] * t;
			out[REF_TILE] = E2M1X2[*a][1] * s, out[REF_TILE + 1] = E2M1X2[*b][1] * t;
		}
	}
}

/* -- activations onto the grid ----------------------------------------------------------------------------------------------------- */

/* model.md 7.1. The clamp at 448 is the conversion's saturation. */
static void grid_fp8_exact(double *x, int64_t k, float input_scale)
{
	const double inverse = (double)(1.0f / input_scale);
	for (int64_t i = 0; i < k; i++) x[i] = num_round_e4m3(x[i] * inverse);
}

static void grid_fp8_eager(double *x, int64_t k, float input_scale)
{
	const double inverse = (double)(1.0f / input_scale);
	for (int64_t i = 0; i < k; i++) x[i] = num_round_e4m3(ref_f32(ref_f32(x[i]) * inverse));
}

/* model.md 8.4 without its f32 steps: a block's scale is e4m3(amax / 6 / input_scale), its codes e2m1(x / (scale * input_scale)). */
static void grid_fp4_exact(double *x, int64_t k, float input_scale)
{
	for (int64_t b = 0; b < k; b += BLOCK) {
		double amax = 0.0;
		bool nan = false;
		for (int j = 0; j < BLOCK; j++) {
			amax = fmax(amax, fabs(x[b + j]));
			nan |= isnan(x[b + j]);
		}
		const double s = num_round_e4m3(amax / 6.0 / (double)input_scale), unit = s * (double)input_scale;
		for (int j = 0; j < BLOCK; j++) { /* e2m1 has no NaN: keep it out of the format, so that it is seen */
			if (nan) x[b + j] = NAN;
			else x[b + j] = s > 0.0 ? num_round_e2m1(x[b + j] / unit) * s : 0.0;
		}
	}
}

/* -- from sums to results ---------------------------------------------------------------------------------------------------------- */

static double relu2(double v) { return v < 0.0 ? 0.0 : v * v; } /* NaN stays NaN */

static void exact_weight(double *v, int64_t n, float scale, float input)
{
	(void)input;
	for (int64_t i = 0; i < n; i++) v[i] *= (double)scale;
}

static void exact_weight_up(double *v, int64_t n, float scale, float input)
{
	exact_weight(v, n, scale, input);
	for (int64_t i = 0; i < n; i++) v[i] = relu2(v[i]);
}

static void exact_weight_down(double *v, int64_t n, float scale, float input, double routed)
{
	exact_weight(v, n, scale, input);
	for (int64_t i = 0; i < n; i++) v[i] *= routed;
}

static void exact_both(double *v, int64_t n, float scale, float input)
{
	const double alpha = (double)scale * (double)input;
	for (int64_t i = 0; i < n; i++) v[i] *= alpha;
}

static void exact_both_up(double *v, int64_t n, float scale, float input)
{
	exact_both(v, n, scale, input);
	for (int64_t i = 0; i < n; i++) v[i] = relu2(v[i]);
}

static void exact_both_down(double *v, int64_t n, float scale, float input, double routed)
{
	exact_both(v, n, scale, input);
	for (int64_t i = 0; i < n; i++) v[i] *= routed;
}

static void eager_weight(double *v, int64_t n, float scale, float input)
{
	(void)input;
	for (int64_t i = 0; i < n; i++) v[i] = ref_f32(ref_f32(v[i]) * (double)scale);
}

static void eager_weight_up(double *v, int64_t n, float scale, float input)
{
	eager_weight(v, n, scale, input);
	for (int64_t i = 0; i < n; i++) v[i] = ref_bf16(relu2(ref_bf16(v[i])));
}

/* Triton (model.md 6.6): the routing weight joins in f32. The scale is 1. */
static void eager_plain_down(double *v, int64_t n, float scale, float input, double routed)
{
	eager_weight(v, n, scale, input);
	for (int64_t i = 0; i < n; i++) v[i] = ref_f32(v[i] * routed);
}

/* Marlin (6.8): the sum stops at bf16 before a bf16 product of scale and routing weight. */
static void eager_marlin_down(double *v, int64_t n, float scale, float input, double routed)
{
	(void)input;
	const double factor = ref_bf16(routed * (double)scale);
	for (int64_t i = 0; i < n; i++) v[i] = ref_bf16(ref_bf16(v[i]) * factor);
}

/* 7.3, in the order that more than 64 rows have there. */
static void eager_fp8(double *v, int64_t n, float scale, float input)
{
	for (int64_t i = 0; i < n; i++) v[i] = ref_f32((double)input * ref_f32((double)scale * ref_f32(v[i])));
}

/* Triton's FP8 experts: the activation's scale first (6.6). */
static void eager_fp8_up(double *v, int64_t n, float scale, float input)
{
	for (int64_t i = 0; i < n; i++) v[i] = ref_bf16(relu2(ref_bf16(ref_f32(ref_f32(ref_f32(v[i]) * (double)input) * (double)scale))));
}

static void eager_fp8_down(double *v, int64_t n, float scale, float input, double routed)
{
	for (int64_t i = 0; i < n; i++) v[i] = ref_f32(ref_f32(ref_f32(ref_f32(v[i]) * (double)input) * (double)scale) * routed);
}

/* -- the table --------------------------------------------------------------------------------------------------------------------- */

#define EXACT_WEIGHT exact_weight, exact_weight_up, exact_weight_down
#define EXACT_BOTH exact_both, exact_both_up, exact_both_down
static const ref_kernel EXACT_BF16 = {"bf16", false, decode_bf16, NULL, EXACT_WEIGHT};
static const ref_kernel EXACT_F32 = {"f32", false, decode_f32, NULL, EXACT_WEIGHT};
static const ref_kernel EXACT_FP8 = {"fp8", false, decode_fp8, grid_fp8_exact, EXACT_BOTH};
static const ref_kernel EXACT_W4A16 = {"fp4, weights only", false, decode_fp4, NULL, EXACT_WEIGHT};
static const ref_kernel EXACT_W4A4 = {"fp4", false, decode_fp4, grid_fp4_exact, EXACT_BOTH};

#define EAGER_FP8_ENDS eager_fp8, eager_fp8_up, eager_fp8_down
static const ref_kernel EAGER_BF16 = {"bf16", false, decode_bf16, NULL, eager_weight, eager_weight_up, eager_plain_down};
static const ref_kernel EAGER_F32 = {"f32", false, decode_f32, NULL, eager_weight, eager_weight_up, eager_plain_down};
static const ref_kernel EAGER_FP8 = {"fp8", false, decode_fp8, grid_fp8_eager, EAGER_FP8_ENDS};
static const ref_kernel EAGER_HOPPER = {"fp8, hopper sums", true, NULL, grid_fp8_eager, EAGER_FP8_ENDS};
static const ref_kernel EAGER_W4A16 = {"fp4, weights only", false, decode_fp4, NULL, eager_weight, eager_weight_up, eager_marlin_down};

const ref_kernel *ref_kernel_of(const nh_numerics *num, num_scheme scheme, num_dtype data)
{
	const bool eager = num->rounding == NUM_ROUND_EAGER, native = num->w4a4 == NUM_W4A4_NATIVE;
	switch (scheme) {
	case NUM_SCHEME_NONE:
		if (data == NUM_F32) return eager ? &EAGER_F32 : &EXACT_F32;
		return data != NUM_BF16 ? NULL : eager ? &EAGER_BF16 : &EXACT_BF16;
	case NUM_SCHEME_FP8:
		if (data != NUM_E4M3) return NULL;
		if (!eager) return num->fp8_sums == NUM_SUMS_EXACT ? &EXACT_FP8 : NULL;
		return num->fp8_sums == NUM_SUMS_HOPPER ? &EAGER_HOPPER : &EAGER_FP8;
	case NUM_SCHEME_NVFP4:
		if (data == NUM_E2M1X2 && native) return eager ? NULL : &EXACT_W4A4;
		/* fallthrough */
	case NUM_SCHEME_W4A16: return data != NUM_E2M1X2 ? NULL : eager ? &EAGER_W4A16 : &EXACT_W4A16;
	case NUM_SCHEME_COUNT: break;
	}
	return NULL;
}
