/* SPDX-License-Identifier: Apache-2.0
 * weight.h: a weight matrix in the format of its file, and what is known of each format (wfmt_<name>.c, one file a format).
 * A matrix W is [n, k]: y = x W^T, n outputs. The arm binds its kernel set to the object when it imports it, so step code never
 * looks at the scheme. Nothing here multiplies.
 */
#ifndef TENSOR_WEIGHT_H
#define TENSOR_WEIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "num/num_types.h"

typedef struct weight {
	const char *name; /* borrow; the module, e.g. backbone.layers.0.mixer.in_proj */
	num_scheme scheme;
	num_dtype dtype; /* of data: BF16 or F32 (unquantised), E4M3, E2M1X2 */
	int64_t n, k;
	const void
	    *data; /* borrow; [n, k] rows; E2M1X2: k / 2 bytes a row, element 2j in the low nibble. May be unaligned. NULL: shapes only */
	const void *block_scale; /* borrow; E4M3 [n, k / 16], FP4 only */
	float scale;             /* weight_scale (FP8) or weight_scale_2 (FP4), multiplied; 1 where unquantised */
	float input_scale;       /* of the activation; 0 where the file has none */
	const void *bound;       /* the arm's kernel set and repacked form, or NULL */
} weight;

/* The routed experts of one layer: E pairs of one shape. */
typedef struct weight_experts {
	int E;
	weight *up, *down;          /* borrow; [E] each; up [F, W], down [W, F] */
	float up_input, down_input; /* largest input_scale over the experts (model.md 6.6, 8.4): one activation scale a layer; 0 = none */
} weight_experts;

/* What a format's file layout needs next to "<module>.weight". */
typedef struct wfmt_part {
	const char *suffix;   /* ".weight", ".weight_scale", ... */
	num_dtype file_dtype; /* as the file stores it (FP4 data: U8) */
	int rank;             /* 0: scalar, [] or [1] in the file */
	int64_t shape[2];     /* filled for an [n, k] matrix */
	bool optional;
} wfmt_part;

#define WFMT_PARTS 4

typedef struct wfmt {
	num_scheme scheme;
	const char *name;
	int64_t k_multiple; /* k must divide by this */
	/* Parts of an [n, k] matrix: parts[0] is the data. Returns how many. */
	int (*parts)(int64_t n, int64_t k, wfmt_part parts[WFMT_PARTS]);
	/* Row `row` as doubles on the weight's own grid, without the per-tensor scale: e4m3 value, or e2m1 * block scale; exact. */
	void (*decode_row)(const weight *w, int64_t row, double *out);
	/* Bytes that one pass over the matrix reads, scales included. */
	size_t (*bytes)(int64_t n, int64_t k);
} wfmt;

const wfmt *wfmt_of(num_scheme scheme); /* never NULL for a scheme of the list */
size_t weight_bytes(const weight *w);   /* wfmt bytes of the object; honours F32 data */
void weight_decode_row(const weight *w, int64_t row, double *out);

#endif
