/* SPDX-License-Identifier: Apache-2.0
 * op_sample.h: from logits to tokens. Each row carries its own parameters; a draw is a pure function of (logits, parameters, seed,
 * position). Parameter arrays lie in the arm's memory.
 */
#ifndef OP_OP_SAMPLE_H
#define OP_OP_SAMPLE_H

#include "tensor/tensor.h"

typedef struct op_sample_row {
	double temperature; /* 0: greedy */
	double top_p;       /* 1: off */
	double min_p;       /* 0: off; keeps p >= min_p * p_max */
	int32_t top_k;      /* 0: off */
	int32_t pad;
	uint64_t seed;
	int64_t position; /* of the token being drawn */
} op_sample_row;

typedef struct op_logit_bias {
	int32_t row, id;
	float add; /* added to the logit; -inf bans */
} op_logit_bias;

/* logits[r, id] edited in place, in this order: repetition penalty (positive logits divided, others multiplied, ids in prompt or output),
 * then presence (once) and frequency (times count in the output) subtracted, then biases added, then masked ids set to -inf. */
typedef struct op_logit_edit {
	const tensor *logits;      /* in/out [R, V] wide (a copy of the model's) */
	const tensor *counts;      /* [R, V] i32 occurrences in the output, or NULL */
	const tensor *seen;        /* [R, V] u8 id occurs in prompt or output, or NULL */
	const float *repetition;   /* [R] or NULL; 1 = off */
	const float *presence;     /* [R] or NULL */
	const float *frequency;    /* [R] or NULL */
	const op_logit_bias *bias; /* [biases] or NULL */
	int biases;
	const tensor *mask; /* [R, ceil(V / 32)] i32 bits, 1 = allowed; or NULL */
} op_logit_edit;

/* ids[r]: greedy takes the largest logit, the lowest id among equals. Otherwise: logits / temperature; top-k, then top-p (smallest set of
 * descending probabilities whose sum reaches top_p, at least one), then min-p; the draw walks the kept tokens in descending probability,
 * lower id first among equals, with u from rng_unit(seed, position, 0). A row with a NaN or without any finite logit gives -1. */
typedef struct op_sample_rows {
	const tensor *ids;         /* out [R] i32 */
	const tensor *logits;      /* [R, V] any float type */
	const op_sample_row *rows; /* [R] */
} op_sample_rows;

/* log softmax in f64 over the logits as given (raw, before temperature). rank: 1 + number of ids with a larger logit, or with an equal one
 * and a lower id. */
typedef struct op_logprobs {
	const tensor *logits;  /* [R, V] */
	const tensor *ids;     /* [R, M] i32 wanted ids, -1: none; or NULL */
	const tensor *lp;      /* out [R, M] f64 (-inf kept; 0 for id -1) */
	const tensor *rank;    /* out [R, M] i32 (0 for id -1) */
	const tensor *top_ids; /* out [R, K] i32 best first; or NULL */
	const tensor *top_lp;  /* out [R, K] f64 */
} op_logprobs;

typedef enum { OP_POOL_LAST, OP_POOL_MEAN } op_pool;

/* y[s] = last row or mean of the rows [start[s], start[s+1]); normalised to length 1 where asked. */
typedef struct op_pool_rows {
	const tensor *y;     /* out [S, D] f32 or f64 */
	const tensor *x;     /* [T, D] */
	const tensor *start; /* [S+1] i32 */
	op_pool how;
	bool normalise;
} op_pool_rows;

#endif
