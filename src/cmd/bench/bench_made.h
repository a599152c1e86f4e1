/* SPDX-License-Identifier: Apache-2.0
 * bench_made.h: operands that exist only to be measured: weights with plausible values in any format, imported as a checkpoint's would be,
 * and tensors in the arm's memory. Knows no op.
 * The invariant that breaks first: no value is one that arithmetic treats apart (NaN, infinity, a float's subnormal), so that time is honest.
 */
#ifndef BENCH_MADE_H
#define BENCH_MADE_H

#include "exec/backend.h"

#define MADE_PARTS 64

/* Everything that one case made; freed at once. */
typedef struct made {
	exec *x; /* borrow */
	struct {
		void *p;
		bool pages; /* host pages, else the arm's memory */
	} part[MADE_PARTS];
	int parts;
	weight *imported[8]; /* arrays of imported weights, to be released */
	int64_t imported_count[8];
	int imports;
	uint64_t seed;
	nh_status status; /* sticky */
	nh_error error;
} made;

void made_init(made *m, exec *x);
void made_deinit(made *m);

/* A tensor of the arm, random around 0 with magnitude near `scale` for float types, zeros for others. On failure m->status is set. */
tensor made_tensor(made *m, num_dtype dtype, int rank, const int64_t *shape, double scale);
#define MADE(m, dtype, scale, ...) \
	made_tensor(m, dtype, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__}, scale)
/* The same for indices, from a function of the place. */
tensor made_i32(made *m, int64_t n, int32_t (*at)(void *user, int64_t i), void *user);

/* count weights [n, k] of a format, imported; NULL on failure. Format names: bf16, f32, fp8, nvfp4, w4a16. */
weight *made_weights(made *m, const char *format, int64_t n, int64_t k, int64_t count);
/* Bytes that one of them has; 0 for a name that is no format. */
size_t made_weight_bytes(const char *format, int64_t n, int64_t k);

/* Memory of the arm or of the host that lives as long as m; NULL on failure. Zeroed. */
void *made_alloc(made *m, size_t bytes);

#endif
