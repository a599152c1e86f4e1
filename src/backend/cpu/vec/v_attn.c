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

/* An e4m3 code with its fields moved is an f16 of 1/256 its value, whose conversion costs nothing extra for subnormals; NaNs need their
 * exponent. */
static void e4m3_row(float *out, const uint8_t *p, int64_t n)
{
	int64_t i = 0;
#if defined VEC_AVX2 || defined VEC_AVX512
	const __m256i fields = _mm256_set1_epi16((short)0xbf80), magnitude = _mm256_set1_epi16(0x3f80), exponent = _mm256_set1_epi16(0x7c00);
	for (; i + 16 <= n; i += 16) {
		const __m256i code = _mm256_slli_epi16(_mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(p + i))), 8);
		const __m256i h = _mm256_and_si256(_mm256_srai_epi16(code, 1), fields);
		const __m256i nan = _mm256_cmpeq_epi16(_mm256_and_si256(h, magnitude), magnitude);
		const __m256i f16 = _mm256_or_si256(h, _mm256_and_si256(nan, exponent));
		const __m256 by = _mm256_set1_ps(256.0f);
		_mm256_storeu_ps(out + i, _mm256_mul_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(f16)), by));
		_mm256_storeu_ps(out + i + 8, _mm256_mul_ps(_mm256_cvtph_ps(_mm256_extracti128_si256(f16, 1)), by));
	}
#endif
	for (; i < n; i++) out[i] = num_e4m3_value[p[i]];
}

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
	gemm_run(n, Q, hd, k, pitch, 1, q, Q, s, Q, false);
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
				const vf w = v_exp(v_sub(v_load(column + j * Q), from));
				part = v_add(part, w);
				v_store(column + j * Q, eager ? v_bf16(w) : w);
			}
			all = v_add(all, part);
		}
		v_store(top + i, most);
		v_store(sum + i, all);
	}
}

static void values(float *out, const float *p, int64_t Q, int64_t R, const float *v, int64_t pitch, int64_t n)
{
	gemm_run(R, pitch, n, p, 1, Q, v, pitch, out, pitch, true);
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

const vec_attn VEC(vec_attn) = {VN, rows, scores, weigh, values, merge};
