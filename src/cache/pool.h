/* SPDX-License-Identifier: Apache-2.0
 * pool.h: what slots and pages have in common: numbers that are taken, shared and dropped, and tensors in the arm's memory that they
 * index. Knows no layer and no sequence. Not thread-safe: the engine's thread owns it.
 * The invariant that breaks first: a number is free exactly when nobody refers to it.
 */
#ifndef CACHE_POOL_H
#define CACHE_POOL_H

#include "exec/backend.h"
#include "tensor/tensor.h"

typedef struct pool {
	int32_t count, free_count;
	int32_t *stack;  /* own [count]; the free numbers, the next one to be taken last */
	uint32_t *holds; /* own [count]; who refers to it */
} pool;

nh_status pool_init(pool *p, int64_t count, const char *what, nh_error *e); /* `what` names the things in errors */
void pool_deinit(pool *p);                                                  /* safe on a zeroed one */
int32_t pool_take(pool *p);                                                 /* with one reference; -1: none is free */
void pool_share(pool *p, int32_t i);                                        /* one reference more */
void pool_drop(pool *p, int32_t i);                                         /* one reference less; free at zero */

/* A contiguous tensor in fresh, zeroed memory of the arm. Errors name `what`. */
nh_status pool_tensor(
    tensor *out, const backend *arm, exec *x, num_dtype dtype, int rank, const int64_t *shape, const char *what, nh_error *e);
void pool_tensor_free(tensor *t, const backend *arm, exec *x); /* safe on a zeroed one */

/* A view at `offset` bytes into an allocation of `room` bytes, refused when the allocation does not hold it all. */
nh_status pool_view(
    tensor *out, void *base, size_t room, size_t offset, num_dtype dtype, int rank, const int64_t *shape, const char *what, nh_error *e);

#endif
