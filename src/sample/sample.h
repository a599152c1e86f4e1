/* SPDX-License-Identifier: Apache-2.0
 * sample.h: what a request asks of sampling, checked once, and turned into the arguments of the ops logit_edit and sample_rows. Draws
 * nothing and edits nothing: that is the arm's. Knows no tokenizer, no JSON and no default of any file.
 * The invariant that breaks first: what reaches an op has passed sample_check, so ops need not doubt it.
 */
#ifndef SAMPLE_SAMPLE_H
#define SAMPLE_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base_status.h"
#include "op/op_sample.h"

/* Limits of one request. They bound what one row can add to a step's list of biases. */
#define SAMPLE_BIAS_MAX 1024
#define SAMPLE_END_MAX 128 /* end ids and stop ids each */
#define SAMPLE_WORDS_MAX 256
#define SAMPLE_WORD_IDS_MAX 64

/* Below this a temperature is taken for 0: logits divided by it leave no choice, and may overflow. */
#define SAMPLE_GREEDY_BELOW 1e-5

typedef struct sample_bias {
	int32_t id;
	float add; /* finite, or -inf: never this id */
} sample_bias;

/* A sequence of ids that the output must not contain: its last id is banned wherever the output ends in the ids before. */
typedef struct sample_word {
	const int32_t *ids; /* borrow [count] */
	int count;
} sample_word;

/* All arrays are borrowed and must outlive the request. */
typedef struct sample_params {
	double temperature; /* 0: greedy */
	double top_p;       /* 0 < p <= 1; 1: off */
	double min_p;       /* 0 to 1; 0: off */
	int64_t top_k;      /* 0 or -1: off */
	uint64_t seed;

	double repetition; /* > 0; 1: off. Ids in prompt or output */
	double presence;   /* -2 to 2; 0: off. Once, for ids in the output */
	double frequency;  /* -2 to 2; 0: off. Times the count in the output */

	const sample_bias *bias;
	int biases;
	const sample_word *bad_words;
	int bad_word_count;
	const int32_t *allowed; /* only these ids; NULL: all */
	int64_t allowed_count;

	const int32_t *end_ids; /* the model's end tokens */
	int end_count;
	const int32_t *stop_ids; /* the request's own; end it even with ignore_eos */
	int stop_count;
	int64_t min_tokens; /* no end or stop id among the first so many output tokens */
	bool ignore_eos;    /* end ids are tokens like others */
} sample_params;

/* Greedy, everything else off. */
sample_params sample_default(void);

/* NH_ERR_ARG "<parameter>: is <value>, expected <range>"; NH_ERR_LIMIT for lists that are too long. vocab: V of the logits. */
nh_status sample_check(const sample_params *p, int64_t vocab, nh_error *e);

bool sample_greedy(const sample_params *p);
/* Arguments of sample_rows for a token drawn at `position`. Greedy rows carry no filters. */
op_sample_row sample_row(const sample_params *p, int64_t position);
/* Which tables the request's edits read. */
bool sample_needs_seen(const sample_params *p);
bool sample_needs_counts(const sample_params *p);
/* Whether output token `id` ends the request; outputs: tokens of the output, this one included. */
bool sample_ends(const sample_params *p, int32_t id, int64_t outputs);

/* What a draw looks back on: ids[0, prompt) were given, ids[prompt, total) are output (drafts of it included). */
typedef struct sample_history {
	const int32_t *ids; /* borrow; 0 <= id < V */
	int64_t prompt, total;
} sample_history;

/* The arguments of one step's rows, in host memory reserved at creation. An arm whose memory is elsewhere is given copies.
 * One thread. */
typedef struct sample_batch sample_batch;

/* NULL when out of memory. Tables of rows * vocab are touched only by rows that need them. */
sample_batch *sample_batch_create(int rows, int64_t vocab);
void sample_batch_destroy(sample_batch *b); /* NULL is fine */
void sample_batch_begin(sample_batch *b);
/* Adds a row whose parameters have passed sample_check. mask: [ceil(V / 32)] bits, 1 = allowed (a grammar's), or NULL. O(V + history)
 * where a table is needed, else O(lists). NH_ERR_LIMIT when all rows are taken, NH_ERR_ARG for an id of the history outside [0, V). */
nh_status sample_batch_add(
    sample_batch *b, const sample_params *p, const sample_history *h, int64_t position, const uint32_t *mask, nh_error *e);
int sample_batch_rows(const sample_batch *b);
/* Fills the op's arguments for logits [rows, V] (wide, edited in place). False when no row asks for an edit. Pointers lead into b until the
 * next begin. */
bool sample_batch_edit(sample_batch *b, const tensor *logits, op_logit_edit *out);
op_sample_rows sample_batch_draw(const sample_batch *b, const tensor *ids, const tensor *logits);

#endif
