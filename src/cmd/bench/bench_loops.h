/* SPDX-License-Identifier: Apache-2.0
 * bench_loops.h: the inner loops of the probes: reading memory in several ways, and arithmetic that waits for nothing. Each needs a part of the
 * instruction set; which ones run here is asked of the processor. Knows no threads and no clock.
 * The invariant that breaks first: what a loop reads or computes reaches its result, so that no compiler drops it.
 */
#ifndef BENCH_LOOPS_H
#define BENCH_LOOPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads all of p[bytes]; bytes is a multiple of LOOP_UNIT, p aligned to 64. The result depends on every byte. */
#define LOOP_UNIT ((size_t)4096)
typedef uint64_t (*loop_read_fn)(const void *p, size_t bytes);

typedef struct loop_read {
	const char *name; /* "avx2, 4 streams" */
	loop_read_fn run;
} loop_read;

/* The read loops that this processor can run, at least four; false past the end. */
bool loop_read_at(int i, loop_read *out);

typedef enum { LOOP_F32, LOOP_BF16, LOOP_MATHS } loop_maths_kind;

/* Dependent chains side by side, `rounds` times; returns the operations done (a multiplication and an addition are two). */
typedef struct loop_maths {
	const char *name; /* "f32 fma, avx2" */
	loop_maths_kind kind;
	double (*run)(uint64_t rounds, float *sink);
} loop_maths;

/* Those that this processor can run; false past the end. */
bool loop_maths_at(int i, loop_maths *out);

#endif
