/* SPDX-License-Identifier: Apache-2.0
 * op_ssm.h: the Mamba-2 mixer between its projections. Two forms of one recurrence (architecture 6.1): *_step takes rows that are
 * computed one after another from a state slot, *_scan takes segments of given tokens and cuts them into chunks at absolute multiples of
 * `chunk` and at the segment's origin. The forms round differently, on purpose: model.md 4.4 against 4.5.
 * The invariant that breaks first: a slot holds the state AFTER the last row that wrote it, and nobody else's.
 */
#ifndef OP_OP_SSM_H
#define OP_OP_SSM_H

#include "tensor/tensor.h"

/* Depthwise causal convolution over time with SiLU (model.md 4.3). Tap j of K sees input t - (K-1) + j:
 *   acc = bias; acc += x[t-K+1+j] * w[:, j], oldest first; y = rounded(acc / (1 + exp(-acc)))
 *   eager: each product is rounded to bf16, each addition to f32; silu in f32, one rounding to act.
 * The state keeps the last K-1 raw inputs, oldest first; no history is zeros. */
typedef struct op_conv_step {
	const tensor *y;        /* out [D, C] act */
	const tensor *x;        /* [D, C] act, may be a column view */
	const tensor *state;    /* in/out [slots, K-1, C] */
	const tensor *w;        /* [C, K] */
	const tensor *bias;     /* [C] or NULL */
	const tensor *slot_in;  /* [D] i32; -1: zeros */
	const tensor *slot_out; /* [D] i32 */
} op_conv_step;

typedef struct op_conv_scan {
	const tensor *y;                /* out [n, C] act: the prefill rows only */
	const tensor *x;                /* [n, C] act */
	const tensor *state;            /* in/out [slots, K-1, C] */
	const tensor *w;                /* [C, K] */
	const tensor *bias;             /* [C] or NULL */
	const tensor *seg_row;          /* [S+1] i32, first row of each segment counted in the whole step; row 0 of x is row seg_row[0] */
	const tensor *seg_in, *seg_out; /* [S] i32 slots */
} op_conv_scan;

/* One step of the selective state update, per head h with group g = h / (H / G) (model.md 4.5):
 *   dt = softplus(dt + dt_bias), softplus(v) = log(exp(v) + 1) for v <= 20, v above (eager: each op in f32; exact: the true function)
 *   dA = exp(dt * a);  S[p,n] = S[p,n] * dA + (B[n] * dt) * x[p];  y[p] = sum_n S[p,n] * C[n] + D * x[p]
 *   eager: S is an f32 after every token and y uses that rounded S; y rounded to act once. */
typedef struct op_ssm_step {
	const tensor *y;                  /* out [D, H*P] act */
	const tensor *x;                  /* [D, H*P] act, after the conv */
	const tensor *b, *c;              /* [D, G*N] act */
	const tensor *dt;                 /* [D, H] act, raw */
	const tensor *a;                  /* [H] = -exp(A_log), wide */
	const tensor *d;                  /* [H] */
	const tensor *dt_bias;            /* [H] */
	const tensor *state;              /* in/out [slots, H, P, N] */
	const tensor *slot_in, *slot_out; /* [D] i32 */
	int groups;
} op_ssm_step;

/* The same recurrence over segments, chunk by chunk (model.md 4.4), cs = inclusive cumulative sum of dt * a inside the chunk:
 *   Bs[k] = bf16(B[k] * (exp(min(cs_last - cs[k], 0)) * dt[k]))
 *   y[m]  = exp(cs[m]) * (C[m] . bf16(S)) + sum_{k<=m} bf16(CB[m,k] * exp(min(cs[m] - cs[k], 0)) * dt[k]) * x[k] + D * x[m]
 *   S     = exp(cs_last) * S + sum_k x[k] Bs[k], an f32 at every edge
 * In exact profiles nothing is rounded, and the result is the recurrence's. A prefill piece starts at an absolute multiple of `chunk` or at
 * its segment's origin, and ends there or at its segment's end: seg_pos % chunk == 0 or seg_pos == seg_origin (checked). */
typedef struct op_ssm_scan {
	const tensor *y;                    /* out [n, H*P] act: the prefill rows only */
	const tensor *x;                    /* [n, H*P] */
	const tensor *b, *c;                /* [n, G*N] */
	const tensor *dt;                   /* [n, H] */
	const tensor *a, *d, *dt_bias;      /* [H] */
	const tensor *state;                /* in/out [slots, H, P, N] */
	const tensor *seg_row;              /* [S+1] i32 */
	const tensor *seg_pos, *seg_origin; /* [S] i32 */
	const tensor *seg_in, *seg_out;     /* [S] i32 */
	int groups, chunk;
} op_ssm_scan;

/* Gate first, then norm by group of I / G channels (model.md 4.6): t = x * silu(gate); t *= 1 / sqrt(mean_group(t^2) + eps);
 * eager: t an f32 before the norm, out = bf16(w * bf16(t)): two roundings. */
typedef struct op_gated_norm {
	const tensor *y;    /* out [T, I] act */
	const tensor *x;    /* [T, I] act */
	const tensor *gate; /* [T, I] act, may be a column view */
	const tensor *w;    /* [I] */
	int groups;
	double eps; /* eager: used as the f32 that it rounds to */
} op_gated_norm;

#endif
