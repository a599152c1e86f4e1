/* SPDX-License-Identifier: Apache-2.0
 * dummy.h: tensors that no file holds, in a file's own layout, for trying the speed of a shape: codes and scales are drawn directly, with the
 * spread that trained weights have. Knows names and layouts, no layer. For the loader, and for who writes the same to files.
 * Breaks first: a tensor's bits depend on seed, name and shape only, never on what was made before, on threads or on the arm.
 */
#ifndef LOAD_DUMMY_H
#define LOAD_DUMMY_H

#include "base/base_status.h"
#include "fmt/safetensors.h"
#include "tensor/weight.h"

typedef struct dummy dummy;

/* threads 0: one a processor. One thread may use the object. */
nh_status dummy_open(dummy **out, uint64_t seed, int threads, nh_error *e);
void dummy_close(dummy *d); /* frees every tensor that it made; NULL is fine */

/* Fills data, block_scale, scale and input_scale of a matrix whose name, scheme, dtype and shape are set. keep: the bytes live until
 * dummy_close; else until the next dummy_matrix or dummy_done. */
nh_status dummy_matrix(dummy *d, weight *w, bool keep, nh_error *e);
void dummy_done(dummy *d); /* what was made without keep is no longer needed */

/* A plain tensor of BF16 or F32: parameters by the end of their name, anything else as a matrix. keep: until dummy_close, else until the
 * next dummy_tensor. NULL with *e where memory ends. */
const st_tensor *dummy_tensor(dummy *d, const char *name, num_dtype type, int rank, const int64_t *shape, bool keep, nh_error *e);

/* The same bytes in pieces, for who must not hold a whole tensor: [from, from + bytes), from a multiple of 64, into out, which has room for
 * DUMMY_SLACK bytes more. scales: of a matrix's block scales instead of its codes or values; cols: the last of two or more dimensions, else 0. */
#define DUMMY_SLACK 64
nh_status dummy_scale(dummy *d, weight *w, nh_error *e); /* scale and input_scale of dummy_matrix */
nh_status dummy_matrix_part(dummy *d, const weight *w, bool scales, uint64_t from, size_t bytes, void *out, nh_error *e);
nh_status dummy_tensor_part(dummy *d, const char *name, num_dtype type, int64_t cols, uint64_t from, size_t bytes, void *out, nh_error *e);

#endif
