/* SPDX-License-Identifier: Apache-2.0
 * ref_math.h: the scalar functions of the ops and the inner loops of the sums. Internal to the room.
 * A value that the contract calls an f32 is a double that went through ref_f32; since a product, sum, quotient or root of two f32 values
 * that is rounded first to double and then to f32 equals the f32 operation, "in f32" is written as ref_f32 of the double operation.
 * In eager profiles a bf16 is rounded from the f32 that holds it, as the machines do that the contracts were read from.
 */
#ifndef REF_REF_MATH_H
#define REF_REF_MATH_H

#include <math.h>
#include <stdbool.h>

#include "num/num_conv.h"
#include "tensor/tensor.h"

static inline double ref_f32(double v) { return (double)(float)v; }
static inline double ref_bf16(double v) { return (double)num_bf16_to_f32(num_f32_to_bf16((float)v)); }

/* v as a tensor of this type would hold it. */
static inline double ref_round(num_dtype type, double v)
{
	switch (type) {
	case NUM_F64: return v;
	case NUM_F32: return ref_f32(v);
	case NUM_BF16: return ref_bf16(v);
	default: {
		uint64_t cell = 0;
		num_store(type, &cell, 0, v);
		return num_load(type, &cell, 0);
	}
	}
}

static inline double ref_silu(double v, bool eager) { return eager ? ref_f32(v / ref_f32(1.0 + ref_f32(exp(-v)))) : v / (1.0 + exp(-v)); }

/* Eager: log(exp(v) + 1) with each step an f32, v itself above 20 (coarse for very negative v, on purpose: model.md 4.4). */
static inline double ref_softplus(double v, bool eager)
{
	if (!eager) return v > 0 ? v + log1p(exp(-v)) : log1p(exp(v));
	return v > 20.0 ? v : ref_f32(log(ref_f32(ref_f32(exp(v)) + 1.0)));
}

/* n elements of row i of a [rows, n] view, from column `from` on. Loading is exact; storing rounds once per ref_round. */
void ref_load(const tensor *t, int64_t i, int64_t from, int64_t n, double *out);
void ref_store(const tensor *t, int64_t i, int64_t from, int64_t n, const double *v);
/* The same at an address. */
void ref_load_at(num_dtype type, const void *p, int64_t n, double *out);
void ref_store_at(num_dtype type, void *p, int64_t n, const double *v);
/* ref_round in place. */
void ref_round_row(num_dtype type, double *v, int64_t n);
/* All of a vector. */
static inline void ref_load_vector(const tensor *t, double *out) { ref_load_at(t->dtype, t->data, t->shape[0], out); }

/* Outputs are computed REF_TILE at a time: acc[j] += x[i] * w[i * ldw + j] for i = 0 .. k - 1 in this order. Each sum is the plain
 * left-to-right sum of its own products, whatever stands beside it; the compiler's vectors run over j. */
#define REF_TILE 16
void ref_accumulate(double acc[REF_TILE], const double *x, const double *w, int64_t ldw, int64_t k);

/* One token of one head: S = S * da + db in[p], an f32 where eager; y[p] = sum over n of S[p, n] c[n]. S is [P, N]. */
void ref_recur(double *S, const double *db, const double *c, double da, const double *in, double *y, int64_t P, int64_t N, bool eager);

#endif
