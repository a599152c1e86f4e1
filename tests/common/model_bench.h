/* SPDX-License-Identifier: Apache-2.0
 * model_bench.h: a model and its state pools without an engine, for tests that want to say exactly which rows a step has. One bench, one arm,
 * one profile; slots and pages are numbered by the test. Failures end the running test.
 */
#ifndef TESTS_COMMON_MODEL_BENCH_H
#define TESTS_COMMON_MODEL_BENCH_H

#include "cmd/mkmodel/mk.h"
#include "common/arms.h"
#include "exec/wrap.h"
#include "model/nemotron_h/nm_model.h"

#define BENCH_ROWS 512
#define BENCH_SEQS 4

typedef struct model_bench {
	const backend *be;
	exec *arm, *x; /* x: the arm, or the check wrapper around it */
	arena scratch;
	st_set *set;
	quant_config *quant;
	json_t *config;
	loader *l;
	model *m;
	mamba_state *mamba;
	kv_pages *kv;
	int slots, pages, page_tokens;
	int32_t table[BENCH_SEQS][64]; /* page table: sequence s, page p; set by the test or by bench_open: s * (pages / BENCH_SEQS) + p */
} model_bench;

/* A run of given tokens of one sequence. */
typedef struct bench_segment {
	int seq, slot_in, slot_out; /* slot_in -1: fresh */
	int origin, pos, count;
	const int32_t *ids; /* of the first row */
} bench_segment;

/* One row in decode form. */
typedef struct bench_row {
	int seq, slot_in, slot_out, pos;
	int32_t id;
} bench_row;

/* On the definition, ref. */
void bench_open(model_bench *b, const char *dir, const char *profile, int slots, int pages, int page_tokens, bool check);
/* The same on any arm and tier; threads 0: the arm decides. */
void bench_open_on(model_bench *b, const test_arm *on, int threads, const char *dir, const char *profile, int slots, int pages,
    int page_tokens, bool check);
void bench_close(model_bench *b);
void bench_clear(model_bench *b); /* all state to 0xFF bytes: NaN where floats are read that nobody wrote */

/* Computes one step; logits[r * V + v] as doubles for every row, decode rows first. */
void bench_step(model_bench *b, const bench_row *rows, int row_count, const bench_segment *segs, int seg_count, double *logits);
/* The whole of ids as one fresh segment in pieces that end at the given positions (ascending, the last one = count). */
void bench_prefill(
    model_bench *b, int seq, int slot, int origin, const int32_t *ids, int count, const int *ends, int pieces, double *logits);

/* A random checkpoint in a folder of the build tree, made once a test program and name; returns its path (static). */
const char *bench_checkpoint(const char *name, const mk_options *o);

#endif
