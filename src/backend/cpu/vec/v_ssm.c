/* SPDX-License-Identifier: Apache-2.0
 * v_ssm.c: one token of a head, and one chunk of a head as matrix products with their three roundings to bf16 (decayed B, the entering
 * state, decayed C B). The invariant that breaks first: row m of a chunk reads nothing of the tokens after it, not even times zero.
 */
#include "backend/cpu/vec/vec_ssm.h"

#include "backend/cpu/vec/fun.h"
#include "backend/cpu/vec/gemm.h"

/* Rows p .. p + M of the state; M is a constant at each call. */
VOP void step_rows(int M, float *out, const float *in, int64_t pitch, const float *db, const float *c, float da, float d, const float *x,
    float *y, int64_t N)
{
	const vf decay = v_set(da);
	vf sum[4], xp[4];
#pragma GCC unroll 4
	for (int m = 0; m < M; m++) sum[m] = v_zero(), xp[m] = v_set(x[m]);
	int64_t n = 0;
	for (; n + VN <= N; n += VN) {
		const vf dbn = v_load(db + n), cn = v_load(c + n);
#pragma GCC unroll 4
		for (int m = 0; m < M; m++) {
			const vf fresh = v_mul(dbn, xp[m]), s = in ? v_fma(v_load(in + m * pitch + n), decay, fresh) : fresh;
			v_store(out + m * pitch + n, s);
			sum[m] = v_fma(s, cn, sum[m]);
		}
	}
	if (n < N) {
		const vf dbn = v_load_part(db + n, N - n), cn = v_load_part(c + n, N - n);
		for (int m = 0; m < M; m++) {
			const vf fresh = v_mul(dbn, xp[m]), s = in ? v_fma(v_load_part(in + m * pitch + n, N - n), decay, fresh) : fresh;
			v_store_part(out + m * pitch + n, s, N - n);
			sum[m] = v_fma(s, cn, sum[m]);
		}
	}
	for (int m = 0; m < M; m++) y[m] = v_sum(sum[m]) + d * x[m];
}

static void step(float *out, const float *in, int64_t pitch, const float *db, const float *c, float da, float d, const float *x, float *y,
    int64_t P, int64_t N)
{
	int64_t p = 0;
	for (; p + 4 <= P; p += 4) step_rows(4, out + p * pitch, in ? in + p * pitch : NULL, pitch, db, c, da, d, x + p, y + p, N);
	for (; p < P; p++) step_rows(1, out + p * pitch, in ? in + p * pitch : NULL, pitch, db, c, da, d, x + p, y + p, N);
}

static void scaled(float *out, const float *in, float by, int64_t n)
{
	for (int64_t i = 0; i < n; i++) out[i] = in[i] * by;
}

static void chunk_group(const vec_chunk *k)
{
	memset(k->turned, 0, sizeof(float) * (size_t)(k->N * k->lenp));
	gemm_turn(k->turned, k->lenp, k->b, k->Np, k->len, k->N);
	for (int64_t m = 0; m < k->len; m += GEMM_ROWS) {
		const int64_t rows = k->len - m < GEMM_ROWS ? k->len - m : GEMM_ROWS;
		gemm_run(rows, vec_ssm_up(m + rows), k->N, k->c + m * k->Np, k->Np, 1, k->turned, k->lenp, k->cb + m * k->lenp, k->lenp, false);
	}
}

/* w[r, k] for the row m of the chunk: bf16(CB * exp(min(cs[m] - cs[k], 0)) * dt[k]); columns after m are filled and not used. */
static void decayed(const vec_chunk *k, int64_t m, float *w)
{
	const vf at = v_set(k->cs[m]);
	for (int64_t j = 0; j <= m; j += VN) {
		const vf decay = v_exp(v_min(v_zero(), v_sub(at, v_load(k->cs + j))));
		v_store(w + j, v_bf16(v_mul(v_mul(v_load(k->cb + m * k->lenp + j), decay), v_load(k->dt + j))));
	}
}

/* Rows m .. m + rows of the outputs: C S first, scaled, then w x with k ascending: up to m for all rows at once, the rest row by row. */
static void outputs(const vec_chunk *k, int64_t m, int64_t rows, float d)
{
	float *y = k->y + m * k->Pp, scale[VN];
	gemm_run(rows, k->Pp, k->N, k->c + m * k->Np, k->Np, 1, k->turned, k->Pp, y, k->Pp, false);
	for (int64_t r = 0; r < rows; r++) {
		decayed(k, m + r, k->w + r * k->lenp);
		v_store(scale, v_exp(v_set(k->cs[m + r])));
		scaled(y + r * k->Pp, y + r * k->Pp, scale[0], k->Pp);
	}
	gemm_run(rows, k->Pp, m + 1, k->w, k->lenp, 1, k->x, k->Pp, y, k->Pp, true);
	for (int64_t r = 0; r < rows; r++) {
		if (r > 0) gemm_run(1, k->Pp, r, k->w + r * k->lenp + m + 1, 0, 1, k->x + (m + 1) * k->Pp, k->Pp, y + r * k->Pp, k->Pp, true);
		const float *x = k->x + (m + r) * k->Pp;
		for (int64_t p = 0; p < k->Pp; p += VN) v_store(y + r * k->Pp + p, v_fma(v_set(d), v_load(x + p), v_load(y + r * k->Pp + p)));
	}
}

static void chunk_head(const vec_chunk *k, float d)
{
	const vf last = v_set(k->cs[k->len - 1]);
	/* the entering state as bf16, turned: [N, Pp] */
	for (int64_t i = 0; i < k->P * k->Np; i += VN) v_store(k->add + i, v_bf16(v_load(k->S + i)));
	memset(k->turned, 0, sizeof(float) * (size_t)(k->N * k->Pp));
	gemm_turn(k->turned, k->Pp, k->add, k->Np, k->P, k->N);
	for (int64_t m = 0; m < k->len; m += GEMM_ROWS) outputs(k, m, k->len - m < GEMM_ROWS ? k->len - m : GEMM_ROWS, d);
	float *decay = k->w;
	for (int64_t j = 0; j < k->len; j += VN)
		v_store(decay + j, v_mul(v_exp(v_min(v_zero(), v_sub(last, v_load(k->cs + j)))), v_load(k->dt + j)));
	for (int64_t t = 0; t < k->len; t++) {
		const vf by = v_set(decay[t]);
		for (int64_t n = 0; n < k->Np; n += VN) v_store(k->bs + t * k->Np + n, v_bf16(v_mul(v_load(k->b + t * k->Np + n), by)));
	}
	gemm_run(k->P, k->Np, k->len, k->x, 1, k->Pp, k->bs, k->Np, k->add, k->Np, false);
	const vf carry = v_exp(last);
	for (int64_t i = 0; i < k->P * k->Np; i += VN) v_store(k->S + i, v_fma(carry, v_load(k->S + i), v_load(k->add + i)));
}

const vec_ssm VEC(vec_ssm) = {step, scaled, chunk_group, chunk_head};
