/* SPDX-License-Identifier: Apache-2.0
 * op_attn.h: attention over pages. No position encoding. Query head h reads KV head h / (heads / KV heads). Causal: row t of sequence s
 * sees the keys at positions max(0, pos - window + 1) .. pos.
 */
#ifndef OP_OP_ATTN_H
#define OP_OP_ATTN_H

#include "tensor/paged.h"
#include "tensor/tensor.h"

/* Stores k and v of each row at kv_slot (page * page_tokens + offset; -1: nothing). e4m3 pages: code = e4m3(satfinite(k / k_scale)),
 * a division (eager: in f32); other pages: rounded to their type. */
typedef struct op_kv_write {
	const kv_pages *pages; /* in/out */
	const tensor *k, *v;   /* [T, KV * hd] act */
	const tensor *kv_slot; /* [T] i64 */
} op_kv_write;

/* y = softmax(q K^T * scale) V per head (model.md 5; 0.4 for fa3).
 *   exact          nothing rounded
 *   eager, kv      scores an f32 (the dequantised K and V enter exactly: code * scale); P = exp(s - max) rounded to bf16 for the product with V,
 *                  its sum unrounded; y = bf16(o / sum)
 *   eager, fa3     with e4m3 pages: q on the e4m3 grid (scale 1); P = e4m3(exp2(s*c - max*c + 8)), c = f32(scale * log2 e) * k_scale, its sum
 *                  unrounded; o * (v_scale / sum); both products per nh_numerics.fp8_sums; with other pages as kv
 * Decode form and prefill form have the same definition on ref; arms may differ inside their band. */
typedef struct op_attn_decode {
	const tensor *y; /* out [n, H * hd] act */
	const tensor *q; /* [n, H * hd] act */
	const kv_pages *pages;
	const tensor *pos;        /* [n] i32 */
	const tensor *row_seq;    /* [n] i32: line of page_table */
	const tensor *page_table; /* [sequences, pages] i32 */
	int page_tokens;
	int kv_heads, head_dim;
	int window;   /* 0: unlimited */
	double scale; /* head_dim^-0.5 */
} op_attn_decode;

typedef struct op_attn_prefill {
	const tensor *y; /* out [n, H * hd] act */
	const tensor *q; /* [n, H * hd] act */
	const kv_pages *pages;
	const tensor *pos;        /* [n] i32 */
	const tensor *row_seq;    /* [n] i32 */
	const tensor *page_table; /* [sequences, pages] i32 */
	int page_tokens;
	int kv_heads, head_dim;
	int window;
	double scale;
} op_attn_prefill;

#endif
