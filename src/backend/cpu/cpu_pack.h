/* SPDX-License-Identifier: Apache-2.0
 * cpu_pack.h: a weight as this arm holds it: packed in tiles by its tier (vec_mat.h), with the kernels of its format and profile. Internal
 * to the room. After import nobody reads the file's bytes of a matrix.
 */
#ifndef CPU_CPU_PACK_H
#define CPU_CPU_PACK_H

#include "backend/cpu/cpu.h"
#include "backend/cpu/vec/vec_mat.h"
#include "backend/ref/ref_kernel.h"

typedef struct cpu_mat {
	const vec_mat *vec;
	const ref_kernel *kernel; /* the definition: its name, and the grid of the exact profiles */
	mat_format format;
	bool eager;
	bool ints;  /* rows in decode form are multiplied as integers */
	bool words; /* rows of both forms are, by the tier's mat_words */
	int64_t n, k, tiles;
	size_t tile_bytes;
	uint8_t *data;         /* tiles * tile_bytes */
	struct cpu_slab *slab; /* holds data; NULL: own pages */
	uint8_t *nan;          /* own; [tiles * MAT_TILE], 1 for a row with a NaN that the layout cannot hold; NULL where there is none */
} cpu_mat;

/* NULL, and the exec has failed, for a weight that was not imported. */
const cpu_mat *cpu_mat_of(exec *x, op_id op, const weight *w);
static inline const uint8_t *cpu_mat_tile(const cpu_mat *m, int64_t t) { return m->data + (size_t)t * m->tile_bytes; }

#endif
