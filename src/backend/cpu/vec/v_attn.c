/* SPDX-License-Identifier: Apache-2.0
 * v_attn.c: attention over a block of keys as small matrix products. The invariant that breaks first: what a query gets depends on its own
 * keys in ascending order only, not on the columns beside it nor on where a block of decoded keys begins.
 */
#include "backend/cpu/vec/vec_attn.h"

#include <math.h>

#include "backend/cpu/vec/fun.h"
#include "backend/cpu/vec/gemm.h"
#include "num/num_conv.h"

static void bf16_row(float *out, const uint16_t *p, int64_t n)
{
	int64_t i = 0;
	for (; i + VN <= n; i += VN) v_store(out + i, v_load_bf16(p + i));
	if (i < n) v_store_part(out + i, v_load_bf16_part(p + i, n - i), n - i);
}

/* By way of bf16, a byte at a time: the upper byte is the sign and 60 more than the upper three bits of the magnitude, the lower byte its
 * lower four; magnitudes below 16 hold the subnormals and come from two tables. No conversion of the processor's takes part, because those
 * slow down over subnormals. */
static void e4m3_row(float *out, const uint8_t *p, int64_t n)
{
	int64_t i = 0;
#if defined VEC_AVX2 || defined VEC_AVX512
	const __m256i order = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7), zero = _mm256_setzero_si256(), limit = _mm256_set1_epi8(16);
	const __m256i seven = _mm256_set1_epi8(7), magnitude = _mm256_set1_epi8(0x7f), bias = _mm256_set1_epi8(60);
	const __m256i upper = _mm256_broadcastsi128_si256(
	    _mm_setr_epi8(0, 0x3b, 0x3b, 0x3b, 0x3c, 0x3c, 0x3c, 0x3c, 0x3c, 0x3c, 0x3c, 0x3c, 0x3c, 0x3c, 0x3c, 0x3c));
	const __m256i lower = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 0, (char)0x80, (char)0xc0, 0, 0x20, 0x40, 0x60, (char)0x80,
	    (char)0x90, (char)0xa0, (char)0xb0, (char)0xc0, (char)0xd0, (char)0xe0, (char)0xf0));
	for (; i + 32 <= n; i += 32) {
		const __m256i code = _mm256_permutevar8x32_epi32(_mm256_loadu_si256((const __m256i *)(const void *)(p + i)), order);
		const __m256i m = _mm256_and_si256(code, magnitude), few = _mm256_cmpgt_epi8(limit, m);
		__m256i h = _mm256_add_epi8(_mm256_and_si256(_mm256_srli_epi16(code, 4), seven), bias);
		__m256i l = _mm256_andnot_si256(_mm256_set1_epi8(15), _mm256_slli_epi16(code, 4));
		h = _mm256_blendv_epi8(h, _mm256_shuffle_epi8(upper, m), few);
		l = _mm256_blendv_epi8(l, _mm256_shuffle_epi8(lower, m), few);
		h = _mm256_or_si256(h, _mm256_and_si256(_mm256_cmpeq_epi8(m, magnitude), magnitude)); /* a NaN */
		h = _mm256_or_si256(h, _mm256_andnot_si256(magnitude, code));
		const __m256i a = _mm256_unpacklo_epi8(l, h), b = _mm256_unpackhi_epi8(l, h);
		_mm256_storeu_si256((__m256i *)(void *)(out + i), _mm256_unpacklo_epi16(zero, a));
		_mm256_storeu_si256((__m256i *)(void *)(out + i + 8), _mm256_unpackhi_epi16(zero, a));
		_mm256_storeu_si256((__m256i *)(void *)(out + i + 16), _mm256_unpacklo_epi16(zero, b));
		_mm256_storeu_si256((__m256i *)(void *)(out + i + 24), _mm256_unpackhi_epi16(zero, b));
	}
#endif
	for (; i < n; i++) out[i] = num_e4m3_value[p[i]];
}

#define PANEL (2 * VN) /* what a tile of gemm.h takes at once */

static void rows(float *out, int64_t pitch, const void *const *at, int64_t n, int64_t hd, vec_kv kind)
{
	for (int64_t j = 0; j < n; j++, out += pitch) {
		if (kind == VEC_KV_BF16) bf16_row(out, at[j], hd);
		else if (kind == VEC_KV_E4M3) e4m3_row(out, at[j], hd);
		else memcpy(out, at[j], sizeof *out * (size_t)hd);
		if (hd < pitch) memset(out + hd, 0, sizeof *out * (size_t)(pitch - hd));
	}
}

static void scores(float *s, const float *k, int64_t pitch, const float *q, int64_t n, int64_t hd, int64_t Q)
{
	for (int64_t i = 0; i < Q; i += PANEL) {
		const int64_t columns = i + PANEL < Q ? PANEL : Q - i;
		gemm_run(n, columns, hd, k, pitch, 1, q + i * hd, columns, s + i, Q, false);
	}
}

#define GROUP 32 /* weights that are summed before they join the row's sum */

static void weigh(float *s, int64_t Q, int64_t L, int64_t n, float scale, bool eager, float *top, float *sum)
{
	const vf by = v_set(scale), none = v_set(-INFINITY);
	for (int64_t i = 0; i < L; i += VN) {
		float *column = s + i;
		vf most = none, all = v_zero();
		for (int64_t j = 0; j < n; j++) {
			const vf v = v_mul(v_load(column + j * Q), by);
			v_store(column + j * Q, v);
			most = v_max(v, most); /* a NaN is passed over: it shows in the sum */
		}
		const vf from = v_pick_gt(most, none, most, v_zero()); /* no score above minus infinity: no weight either */
		for (int64_t j = 0; j < n;) {
			vf part = v_zero();
			for (const int64_t end = j + GROUP < n ? j + GROUP : n; j < end; j++) {
				const vf w = v_exp_down(v_sub(v_load(column + j * Q), from));
				part = v_add(part, w);
				v_store(column + j * Q, eager ? v_bf16(w) : w);
			}
			all = v_add(all, part);
		}
		v_store(top + i, most);
		v_store(sum + i, all);
	}
}

static void values(float *out, const float *p, int64_t Q, int64_t R, const float *v, int64_t pitch, int64_t wide, int64_t n)
{
	gemm_run(R, wide, n, p, 1, Q, v, pitch, out, pitch, true);
}

static void merge(
    float *out, float *top, float *sum, const float *out2, const float *top2, const float *sum2, int64_t R, int64_t L, int64_t pitch)
{
	for (int64_t i = 0; i < L; i += VN) {
		float one[VN], two[VN];
		const vf a = v_load(top + i), b = v_load(top2 + i), most = v_max(a, b);
		const vf by1 = v_exp(v_sub(a, most)), by2 = v_exp(v_sub(b, most));
		v_store(sum + i, v_fma(v_load(sum + i), by1, v_mul(v_load(sum2 + i), by2)));
		v_store(top + i, most);
		v_store(one, by1);
		v_store(two, by2);
		for (int64_t r = i; r < R && r < i + VN; r++) {
			const vf w1 = v_set(one[r - i]), w2 = v_set(two[r - i]);
			float *o = out + r * pitch;
			const float *o2 = out2 + r * pitch;
			for (int64_t d = 0; d < pitch; d += VN) v_store(o + d, v_fma(v_load(o + d), w1, v_mul(v_load(o2 + d), w2)));
		}
	}
}

const vec_attn VEC(vec_attn) = {VN, PANEL, rows, scores, weigh, values, merge};
