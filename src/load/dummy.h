/* SPDX-License-Identifier: Apache-2.0
 * dummy.h: tensors that no file holds, in a file's own layout, for trying the speed of a shape: codes and scales are drawn directly, with the
 * spread that trained weights have. Knows names and layouts, no layer. Internal to the room.
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

#endif
