/* SPDX-License-Identifier: Apache-2.0
 * vec_attn.h: the pieces of attention over one block of keys. Queries are lanes: those of one row of one KV head lie side by side, padded to
 * a multiple of `lanes`, and rows stand beside one another: Q columns in all. Keys and values are decoded VEC_ATTN_KEYS at a time to f32
 * rows `pitch` apart, a multiple of VEC_ATTN_PAD.
 */
#ifndef CPU_VEC_VEC_ATTN_H
#define CPU_VEC_VEC_ATTN_H

#include <stdbool.h>

#include "backend/cpu/vec/vec.h"

#define VEC_ATTN_KEYS 24 /* four tiles of six; with the queries they fit the nearest cache */
#define VEC_ATTN_PAD 16

typedef enum { VEC_KV_F32, VEC_KV_BF16, VEC_KV_E4M3 } vec_kv;

typedef struct vec_attn {
	int lanes, panel;
	/* n rows of hd elements to f32 (codes without their scale); columns from hd to pitch are zeros */
	void (*rows)(float *out, int64_t pitch, const void *const *at, int64_t n, int64_t hd, vec_kv kind);
	/* s[j, i] = sum over d of k[j, d] q[d, i]. Columns of q lie in panels of `panel`, the last one perhaps narrower, one behind the other:
	 * a panel's rows lie close, where rows of all columns would meet in few sets of the nearest cache. */
	void (*scores)(float *s, const float *k, int64_t pitch, const float *q, int64_t n, int64_t hd, int64_t Q);
	/* One row's L columns of n keys: scores to weights exp(s * scale - top), in place; top: their largest, sum: of the weights before
	 * `eager` rounds them to bf16. */
	void (*weigh)(float *s, int64_t Q, int64_t L, int64_t n, float scale, bool eager, float *top, float *sum);
	/* out[r, d] += sum over j of p[j, r] v[j, d], d < wide, a multiple of VEC_ATTN_PAD; rows of out and v are `pitch` apart */
	void (*values)(float *out, const float *p, int64_t Q, int64_t R, const float *v, int64_t pitch, int64_t wide, int64_t n);
	/* Two parts of one row into the first: R rows of `pitch`, L columns of top and sum. */
	void (*merge)(
	    float *out, float *top, float *sum, const float *out2, const float *top2, const float *sum2, int64_t R, int64_t L, int64_t pitch);
} vec_attn;

VEC_TABLES(vec_attn)

#endif
