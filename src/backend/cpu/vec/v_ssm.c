/* SPDX-License-Identifier: Apache-2.0
 * v_ssm.c: one token of a head, and one chunk of a head as matrix products with their three roundings to bf16 (decayed B, the entering
 * state, decayed C B). The invariant that breaks first: row m of a chunk reads nothing of the tokens after it, not even times zero.
 */
#include "backend/cpu/vec/vec_ssm.h"

#include "backend/cpu/vec/fun.h"
#include "backend/cpu/vec/gemm.h"

#define SUMS 4    /* of a row, so that one does not wait for the other */
#define AHEAD 512 /* floats of the state that are asked for before they are needed: the state comes from memory */

/* One row of the state; `fresh`: it starts from zeros, and `in` is not read. */
VOP float step_row(bool fresh, float *out, const float *in, const float *db, const float *c, float da, float x, int64_t N)
{
	const vf decay = v_set(da), by = v_set(x);
	vf sum[SUMS];
#pragma GCC unroll 4
	for (int k = 0; k < SUMS; k++) sum[k] = v_zero();
	int64_t n = 0;
	for (; n + SUMS * VN <= N; n += SUMS * VN) {
#pragma GCC unroll 4
		for (int k = 0; k < SUMS; k++) {
			const int64_t at = n + k * VN;
			const vf add = v_mul(v_load(db + at), by), s = fresh ? add : v_fma(v_load(in + at), decay, add);
			if (!fresh && k * VN % 16 == 0) __builtin_prefetch(in + at + AHEAD, 1);
			v_store(out + at, s);
			sum[k] = v_fma(s, v_load(c + at), sum[k]);
		}
	}
	for (; n < N; n += VN) {
		const bool whole = n + VN <= N;
		const vf add = v_mul(whole ? v_load(db + n) : v_load_part(db + n, N - n), by);
		const vf s = fresh ? add : v_fma(whole ? v_load(in + n) : v_load_part(in + n, N - n), decay, add);
		if (whole) v_store(out + n, s);
		else v_store_part(out + n, s, N - n);
		sum[0] = v_fma(s, whole ? v_load(c + n) : v_load_part(c + n, N - n), sum[0]);
	}
	return v_sum(v_add(v_add(sum[0], sum[1]), v_add(sum[2], sum[3])));
}

static void step(float *out, const float *in, int64_t pitch, const float *db, const float *c, float da, float d, const float *x, float *y,
    int64_t P, int64_t N)
{
	for (int64_t p = 0; p < P; p++)
		y[p] = (in ? step_row(false, out + p * pitch, in + p * pitch, db, c, da, x[p], N)
		           : step_row(true, out + p * pitch, out, db, c, da, x[p], N)) +
		       d * x[p];
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
