/* SPDX-License-Identifier: Apache-2.0
 * cpu_act.h: activations made ready for packed weights, and the multiplication itself, which linear and expert_ffn share. Internal to the
 * room. All of it runs inside a job: the caller splits rows and tiles over the threads and puts barriers between.
 */
#ifndef CPU_CPU_ACT_H
#define CPU_CPU_ACT_H

#include "backend/cpu/cpu_pack.h"

/* n rows of k columns. Block b of row i stands at f + (b * n + i) * MAT_BLOCK; columns behind k are zero. */
typedef struct cpu_rows {
	int64_t n, k, blocks;
	float *f;
	mat_ints *ints; /* [chunks, n]; NULL where the kernels take none */
	int16_t *words; /* as f, and scales of their chunks; NULL where the kernels take none */
	float *scales;
	uint8_t *narrow; /* [n] the row stands in ints or words */
} cpu_rows;

/* Takes the memory for n rows of m's activations. decode: some may be in decode form. False: the exec has failed. */
bool cpu_rows_take(exec *x, op_id op, int64_t n, const cpu_mat *m, bool decode, cpu_rows *rows);
static inline float *cpu_rows_at(const cpu_rows *rows, int64_t i, int64_t block) { return rows->f + (block * rows->n + i) * MAT_BLOCK; }
/* Clears the columns behind k of row i. */
void cpu_rows_pad(const cpu_rows *rows, int64_t i);
/* Row i, whose columns stand there as the op gave them, onto the grid of m's activations, and to integers where `decode` asks for them and m
 * takes them. `work`: k doubles, used in exact profiles. */
void cpu_rows_ready(const cpu_mat *m, const cpu_rows *rows, int64_t i, float input_scale, bool decode, double *work);

/* The rows of one matrix: pick[0 .. n) of `rows`, the first n_decode of them in decode form. */
typedef struct cpu_pick {
	const cpu_rows *rows;
	const int32_t *pick;
	int64_t n, n_decode;
} cpu_pick;

/* Working memory of one thread for products of at most n rows. */
typedef struct cpu_space {
	float *panel, *sums;
	int32_t *order;
	int64_t n; /* rows at a time */
	int tiles; /* at a time */
} cpu_space;

/* `threads` of them. NULL: the exec has failed. */
cpu_space *cpu_space_take(exec *x, op_id op, int64_t n);

/* `count` rows of one tile: sums[j * MAT_TILE + r] is that of the row which is order[j]-th in the pick. The sink may change them. */
typedef void (*cpu_sink)(void *user, int64_t tile, const int32_t *order, int64_t count, float *sums);

/* Tiles [from, to) of m for the picked rows. */
void cpu_multiply(const cpu_mat *m, const cpu_pick *pick, int64_t from, int64_t to, const cpu_space *space, cpu_sink sink, void *user);

#endif
