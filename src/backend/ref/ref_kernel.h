/* SPDX-License-Identifier: Apache-2.0
 * ref_kernel.h: how one weight format is multiplied under one profile: a constant table that import binds to the weight, so that no op
 * looks at a format. Also the multiplication itself, which linear and expert_ffn share. Internal to the room.
 */
#ifndef REF_REF_KERNEL_H
#define REF_REF_KERNEL_H

#include "backend/ref/ref.h"

typedef struct ref_kernel {
	const char *name;
	bool hopper; /* sums as Hopper's FP8 tensor core (ref_fp8.h); both operands are e4m3 codes then */
	/* Elements [from, from + count) of two rows on the weight's grid, to out[0] and out[1], out[REF_TILE] and out[REF_TILE + 1], ... */
	void (*decode)(const weight *w, const int64_t row[2], int64_t from, int64_t count, double *out);
	/* A row of activations onto the format's grid, in place; NULL: taken as they are. */
	void (*grid)(double *x, int64_t k, float input_scale);
	/* From n sums to products, in place; eager: as the f32 that is then rounded to the output's type. */
	void (*dense)(double *v, int64_t n, float scale, float input_scale);
	/* An expert's up projection and squared ReLU, and its down projection times the routing weight (op_moe.h). */
	void (*expert_up)(double *v, int64_t n, float scale, float input_scale);
	void (*expert_down)(double *v, int64_t n, float scale, float input_scale, double routed);
} ref_kernel;

/* NULL where the profile cannot multiply the format. */
const ref_kernel *ref_kernel_of(const nh_numerics *num, num_scheme scheme, num_dtype data);

/* What an arm on the host asks of a weight before it binds anything to it: the kernel, or a refusal in the name of x's arm. */
nh_status ref_kernel_check(const exec *x, const weight *w, const ref_kernel **out, nh_error *e);

/* Activations ready to be multiplied: n rows of k. */
typedef struct ref_rows {
	int64_t n, k, pitch;
	double *v;  /* [n, k] */
	float *f;   /* hopper: [n, pitch] values, */
	uint8_t *e; /* exponents */
	bool *nan;  /* [n] the row holds a NaN */
} ref_rows;

/* Takes the memory. False: the exec has failed. */
bool ref_rows_take(exec *x, op_id op, const ref_kernel *kernel, int64_t n, int64_t k, ref_rows *rows);
/* Row i from k doubles, which the call may change. */
void ref_rows_put(const ref_kernel *kernel, const ref_rows *rows, int64_t i, double *v, float input_scale);

/* Sums of `count` (at most REF_TILE) outputs from `first` on of the i-th chosen row; the sink may change them. */
typedef void (*ref_sink)(void *user, int64_t i, int64_t first, int64_t count, double *sums);

/* sums = rows W^T for the rows pick[0 .. n) (NULL: all n of them), given to `sink` piece by piece. Each weight row is decoded once. */
bool ref_multiply(exec *x, op_id op, const weight *w, const ref_rows *rows, const int32_t *pick, int64_t n, ref_sink sink, void *user);

#endif
