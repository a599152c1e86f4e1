/* SPDX-License-Identifier: Apache-2.0
 * num_conv.c: narrowing by integer arithmetic on the double's bits, so that no rounding mode, flag or compiler option can change it.
 * The invariant that breaks first: one rounding. A double goes straight to the target's grid.
 */
#include "num/num_conv.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* A small binary float: ebits exponent bits with the given bias, mbits fraction bits. Returns the magnitude code of |x| before any
 * overflow rule, that is: the code the format would have with unlimited exponents upward. x must be finite. */
static uint32_t round_code(double x, int bias, int mbits)
{
	uint64_t u;
	memcpy(&u, &x, sizeof u);
	uint64_t frac = u & ((1ull << 52) - 1);
	int exp = (int)(u >> 52 & 0x7FF);
	if (exp == 0) return 0; /* a subnormal double is far below half the smallest value of every narrow type here */
	frac |= 1ull << 52;
	int e = exp - 1023 + bias; /* biased exponent in the target; < 1 means subnormal there */
	int shift = 52 - mbits;
	if (e < 1) {
		shift += 1 - e;
		e = 0;
		if (shift > 54) return 0; /* less than half of the smallest subnormal */
	}
	uint64_t kept = frac >> shift, rest = frac & ((1ull << shift) - 1), half = 1ull << (shift - 1);
	if (rest > half || (rest == half && (kept & 1))) kept++;
	/* A normal significand carries its leading one, which adds 1 to the exponent field e - 1; a carry moves up by itself. */
	return (uint32_t)kept + (e > 0 ? (uint32_t)(e - 1) << mbits : 0);
}

static uint32_t sign_of(double x, int at) { return signbit(x) ? 1u << at : 0u; }

uint16_t num_f64_to_bf16(double x)
{
	uint32_t s = sign_of(x, 15);
	if (isnan(x)) return (uint16_t)(s | 0x7FC0u);
	if (isinf(x)) return (uint16_t)(s | 0x7F80u);
	uint32_t c = round_code(x, 127, 7);
	return (uint16_t)(s | (c < 0x7F80u ? c : 0x7F80u));
}

uint16_t num_f64_to_f16(double x)
{
	uint32_t s = sign_of(x, 15);
	if (isnan(x)) return (uint16_t)(s | 0x7E00u);
	if (isinf(x)) return (uint16_t)(s | 0x7C00u);
	uint32_t c = round_code(x, 15, 10);
	return (uint16_t)(s | (c < 0x7C00u ? c : 0x7C00u));
}

uint8_t num_f64_to_e5m2(double x)
{
	uint32_t s = sign_of(x, 7);
	if (isnan(x)) return (uint8_t)(s | 0x7Eu);
	if (isinf(x)) return (uint8_t)(s | 0x7Cu);
	uint32_t c = round_code(x, 15, 2);
	return (uint8_t)(s | (c < 0x7Cu ? c : 0x7Cu));
}

uint8_t num_f64_to_e4m3(double x)
{
	uint32_t s = sign_of(x, 7);
	if (isnan(x)) return (uint8_t)(s | 0x7Fu);
	uint32_t c = isinf(x) ? 0x7Eu : round_code(x, 7, 3);
	return (uint8_t)(s | (c < 0x7Eu ? c : 0x7Eu));
}

uint8_t num_f64_to_e2m1(double x)
{
	uint32_t s = sign_of(x, 3);
	if (isnan(x)) return 7u;
	uint32_t c = isinf(x) ? 7u : round_code(x, 1, 1);
	return (uint8_t)(s | (c < 7u ? c : 7u));
}

static float small_to_f32(uint32_t code, int sign_at, int bias, int mbits)
{
	uint32_t mag = code & ((1u << sign_at) - 1), e = mag >> mbits, m = mag & ((1u << mbits) - 1);
	float v = e ? ldexpf((float)(m | 1u << mbits), (int)e - bias - mbits) : ldexpf((float)m, 1 - bias - mbits);
	return code >> sign_at ? -v : v;
}

float num_f16_to_f32(uint16_t h)
{
	if ((h & 0x7C00u) == 0x7C00u)
		return num_f32_bits((uint32_t)(h & 0x8000u) << 16 | 0x7F800000u | (h & 0x3FFu ? 0x400000u | (uint32_t)(h & 0x3FFu) << 13 : 0u));
	return small_to_f32(h, 15, 15, 10);
}

float num_e5m2_to_f32(uint8_t b)
{
	if ((b & 0x7Cu) == 0x7Cu) return num_f32_bits((uint32_t)(b & 0x80u) << 24 | 0x7F800000u | (b & 3u ? 0x400000u : 0u));
	return small_to_f32(b, 7, 15, 2);
}

const float num_e2m1_value[16] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f, -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

/* The eight fractions (in eighths) of one exponent field whose unit is `u`: field e > 0 has u = 2^(e-10) and a leading one. */
#define LOW(u) 0 * (u), 1 * (u), 2 * (u), 3 * (u), 4 * (u), 5 * (u), 6 * (u), 7 * (u)
#define ROW(u) 8 * (u), 9 * (u), 10 * (u), 11 * (u), 12 * (u), 13 * (u), 14 * (u), 15 * (u)
#define TOP(u) 8 * (u), 9 * (u), 10 * (u), 11 * (u), 12 * (u), 13 * (u), 14 * (u), NAN
const float num_e4m3_value[256] = {
    LOW(0x1p-9f),
    ROW(0x1p-9f),
    ROW(0x1p-8f),
    ROW(0x1p-7f),
    ROW(0x1p-6f),
    ROW(0x1p-5f),
    ROW(0x1p-4f),
    ROW(0x1p-3f),
    ROW(0x1p-2f),
    ROW(0x1p-1f),
    ROW(0x1p0f),
    ROW(0x1p1f),
    ROW(0x1p2f),
    ROW(0x1p3f),
    ROW(0x1p4f),
    TOP(0x1p5f),
    LOW(-0x1p-9f),
    ROW(-0x1p-9f),
    ROW(-0x1p-8f),
    ROW(-0x1p-7f),
    ROW(-0x1p-6f),
    ROW(-0x1p-5f),
    ROW(-0x1p-4f),
    ROW(-0x1p-3f),
    ROW(-0x1p-2f),
    ROW(-0x1p-1f),
    ROW(-0x1p0f),
    ROW(-0x1p1f),
    ROW(-0x1p2f),
    ROW(-0x1p3f),
    ROW(-0x1p4f),
    TOP(-0x1p5f),
};
#undef LOW
#undef ROW
#undef TOP

double num_load(num_dtype type, const void *data, size_t i)
{
	double x;
	num_load_row(type, data, i, 1, &x);
	return x;
}

void num_store(num_dtype type, void *data, size_t i, double x) { num_store_row(type, data, i, 1, &x); }

void num_load_row(num_dtype type, const void *data, size_t i, size_t n, double *out)
{
	const uint8_t *p = (const uint8_t *)data + (type == NUM_E2M1X2 ? 0 : i * num_bytes(type));
	switch (type) {
	case NUM_F64: memcpy(out, p, n * sizeof *out); return;
	case NUM_F32:
		for (size_t k = 0; k < n; k++) {
			float f;
			memcpy(&f, p + 4 * k, 4);
			out[k] = (double)f;
		}
		return;
	case NUM_F16:
	case NUM_BF16:
		for (size_t k = 0; k < n; k++) {
			uint16_t h;
			memcpy(&h, p + 2 * k, 2);
			out[k] = (double)(type == NUM_BF16 ? num_bf16_to_f32(h) : num_f16_to_f32(h));
		}
		return;
	case NUM_E4M3:
		for (size_t k = 0; k < n; k++) out[k] = (double)num_e4m3_value[p[k]];
		return;
	case NUM_E5M2:
		for (size_t k = 0; k < n; k++) out[k] = (double)num_e5m2_to_f32(p[k]);
		return;
	case NUM_E2M1X2:
		for (size_t k = i; k < i + n; k++) out[k - i] = (double)num_e2m1_value[p[k / 2] >> (k % 2 * 4) & 15];
		return;
	default: assert(!"a float type"); return;
	}
}

void num_store_row(num_dtype type, void *data, size_t i, size_t n, const double *x)
{
	uint8_t *p = (uint8_t *)data + (type == NUM_E2M1X2 ? 0 : i * num_bytes(type));
	switch (type) {
	case NUM_F64: memcpy(p, x, n * sizeof *x); return;
	case NUM_F32:
		for (size_t k = 0; k < n; k++) {
			float f = (float)x[k];
			memcpy(p + 4 * k, &f, 4);
		}
		return;
	case NUM_F16:
	case NUM_BF16:
		for (size_t k = 0; k < n; k++) {
			uint16_t h = type == NUM_BF16 ? num_f64_to_bf16(x[k]) : num_f64_to_f16(x[k]);
			memcpy(p + 2 * k, &h, 2);
		}
		return;
	case NUM_E4M3:
		for (size_t k = 0; k < n; k++) p[k] = num_f64_to_e4m3(x[k]);
		return;
	case NUM_E5M2:
		for (size_t k = 0; k < n; k++) p[k] = num_f64_to_e5m2(x[k]);
		return;
	case NUM_E2M1X2:
		for (size_t k = i; k < i + n; k++) {
			uint8_t code = num_f64_to_e2m1(x[k - i]);
			p[k / 2] = (uint8_t)(k % 2 ? (p[k / 2] & 0x0F) | code << 4 : (p[k / 2] & 0xF0) | code);
		}
		return;
	default: assert(!"a float type"); return;
	}
}

uint64_t num_ulp_distance(num_dtype type, const void *a, const void *b)
{
	int bits = (int)num_bytes(type) * 8;
	uint32_t u[2] = {0, 0};
	double v[2] = {num_load(type, a, 0), num_load(type, b, 0)};
	if (isnan(v[0]) || isnan(v[1])) return isnan(v[0]) && isnan(v[1]) ? 0 : UINT64_MAX;
	memcpy(&u[0], a, (size_t)bits / 8); /* little-endian, as every file format here */
	memcpy(&u[1], b, (size_t)bits / 8);
	int64_t at[2];
	for (int i = 0; i < 2; i++) {
		int64_t mag = (int64_t)(u[i] & (uint32_t)((1ull << (bits - 1)) - 1));
		at[i] = u[i] >> (bits - 1) ? -mag : mag;
	}
	return (uint64_t)(at[0] > at[1] ? at[0] - at[1] : at[1] - at[0]);
}
