/* SPDX-License-Identifier: Apache-2.0
 * tensor.h: a view of elements in an arm's memory. Owns nothing, computes nothing: whether `data` may be touched from here depends
 * on the arm (ref and cpu: host memory). The invariant that breaks first: every element of the view lies inside `room`.
 * Dimension letters mean one thing everywhere: T tokens (rows), S sequences or segments, D hidden, H heads, P head dim, N state,
 * G groups, E experts, K chosen experts, V vocabulary, C conv channels, R output rows.
 */
#ifndef TENSOR_TENSOR_H
#define TENSOR_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "num/num_types.h"

#define TENSOR_RANK 4

typedef struct tensor {
	void *data; /* borrow */
	num_dtype dtype;
	int rank;
	int64_t shape[TENSOR_RANK];
	int64_t stride[TENSOR_RANK]; /* in elements; the last is 1 */
	size_t room;                 /* bytes from data to the end of its allocation */
} tensor;

/* Contiguous views. `room` is set to the exact size; tensor_over sets it from the allocation. */
tensor tensor_1d(void *data, num_dtype dtype, int64_t n);
tensor tensor_2d(void *data, num_dtype dtype, int64_t rows, int64_t cols);
tensor tensor_nd(void *data, num_dtype dtype, int rank, const int64_t *shape);

/* Views into a view. Bounds are the caller's promise (asserted). */
tensor tensor_rows(const tensor *t, int64_t from, int64_t count); /* of the first dimension */
tensor tensor_cols(const tensor *t, int64_t from, int64_t count); /* of the last dimension */
tensor tensor_split(const tensor *t, int64_t inner);              /* last dimension n -> [n / inner, inner]; rank + 1 */

static inline bool tensor_absent(const tensor *t) { return t == NULL || t->data == NULL; }
int64_t tensor_count(const tensor *t); /* elements; product of the shape */
size_t tensor_bytes(const tensor *t);  /* bytes of the elements themselves, without gaps between rows */
bool tensor_fits(const tensor *t);     /* the view lies inside its room */
bool tensor_size(num_dtype dtype, int rank, const int64_t *shape, size_t *bytes); /* contiguous size; false on overflow or negative */

/* Address of row i of the first dimension (rank 1: element i). Byte types and wider only. */
static inline void *tensor_row(const tensor *t, int64_t i) { return (char *)t->data + (size_t)(i * t->stride[0]) * num_bytes(t->dtype); }

#endif
