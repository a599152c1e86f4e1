/* SPDX-License-Identifier: Apache-2.0
 * op_basic.h: rows in, rows out. Common contract of every op: tensors are views in the arm's memory; outputs never overlap inputs
 * unless the field says in/out; a row's result depends on that row (and, for the stateful ops, its own sequence) alone. "eager" and
 * "exact" are the two roundings of nh_numerics; rounded(v) means: in eager profiles stored with one rounding to the output's type, in
 * exact profiles not rounded. Sums have no prescribed order; ref sums in double.
 */
#ifndef OP_OP_BASIC_H
#define OP_OP_BASIC_H

#include "tensor/tensor.h"
#include "tensor/weight.h"

/* y[t] = table[ids[t]]. Ids outside [0, V) fail the step. */
typedef struct op_embed_rows {
	const tensor *y;     /* out [T, D] act */
	const tensor *table; /* [V, D] BF16 or F32, as in the file */
	const tensor *ids;   /* [T] i32 */
} op_embed_rows;

/* y = rounded(x * s * w), s = 1 / sqrt(mean(x^2) + eps); eager: s an f32, products (x * s) * w in f32, one rounding (model.md 3.2). */
typedef struct op_rms_norm {
	const tensor *y; /* out [T, D] act */
	const tensor *x; /* [T, D] act */
	const tensor *w; /* [D] any float */
	double eps;      /* eager: used as the f32 that it rounds to */
} op_rms_norm;

/* residual += x, rounded to act FIRST in eager; then y = rms_norm(residual) (model.md 3.2). */
typedef struct op_add_rms_norm {
	const tensor *y;        /* out [T, D] act */
	const tensor *residual; /* in/out [T, D] act */
	const tensor *x;        /* [T, D] act */
	const tensor *w;        /* [D] */
	double eps;             /* eager: used as the f32 that it rounds to */
} op_add_rms_norm;

typedef enum { OP_ACT_NONE, OP_ACT_RELU2 } op_act;

/* y = act(x W^T + bias). By scheme of w (model.md 3.7, 7, 8; docs/NUMERICS.md):
 *   bf16   eager: f32 sum, rounded to y's type. y may be F32: then nothing narrower happens (router logits).
 *   fp8    x is quantised: q = e4m3(clamp(f32(x) * (1 / input_scale))), reciprocal an f32, in EVERY profile;
 *          eager: rounded(input_scale * f32(scale * f32(sum q*w))); sums per nh_numerics.fp8_sums
 *   w4a16  rounded(f32(sum x*w) * scale), w the exact e2m1 * block scale
 *   w4a4   native: x to the FP4 grid per 16 (model.md 8.4), rounded(f32(sum) * f32(scale * input_scale)); weight_only: as w4a16
 * Then, where act is RELU2: max(v, 0)^2 of the ROUNDED v, rounded again (model.md 6.1). bias is added to the rounded product and
 * rounded (no published checkpoint has one). Rows [0, decode_rows) are in decode form, the others in prefill form; an arm may run
 * different kernels for them but within a form never depends on the number of rows. */
typedef struct op_linear {
	const tensor *y;    /* out [T, n] */
	const tensor *x;    /* [T, k] act */
	const weight *w;    /* [n, k] */
	const tensor *bias; /* [n] or NULL */
	op_act act;
	int decode_rows;
} op_linear;

/* y = rounded(a + b). */
typedef struct op_add {
	const tensor *y; /* out [T, D] act; may be a or b */
	const tensor *a, *b;
} op_add;

/* y[r] = x[rows[r]]. */
typedef struct op_gather_rows {
	const tensor *y;    /* out [R, D] type of x */
	const tensor *x;    /* [T, D] */
	const tensor *rows; /* [R] i32 */
} op_gather_rows;

#endif
