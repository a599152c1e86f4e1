/* SPDX-License-Identifier: Apache-2.0
 * golden_file.h: a golden in memory: what some oracle said about a checkpoint, with the choices it used. Knows the schema nemotron-golden/1, judges
 * nothing. The invariant that breaks first: arrays that belong to one step have one length; a file where they do not is refused.
 */
#ifndef CMD_GOLDEN_FILE_H
#define CMD_GOLDEN_FILE_H

#include <jansson.h>

#include "nh/nh.h"

#define GOLDEN_TOP 32 /* most listed log-probabilities of a step that are kept */

#define GOLDEN_TOLERANCE 1e-6 /* exact: of a log-probability */

typedef enum { GOLDEN_EXACT, GOLDEN_STRICT, GOLDEN_DISTANCE } golden_gate;

typedef struct golden_top {
	int32_t id;
	double logprob;
} golden_top;

/* What the oracle listed at one position, best first. count 0: nothing. */
typedef struct golden_step {
	golden_top top[GOLDEN_TOP];
	int count;
	double margin; /* largest minus second largest logit, nats; -1 where the file does not say */
} golden_step;

typedef struct golden_entry {
	const char *name; /* borrow */
	int32_t *prompt;  /* own */
	size_t prompt_tokens;
	int32_t *ids;       /* own; what the oracle generated; NULL for teacher-forced text */
	golden_step *steps; /* own; [tokens], or [prompt_tokens] for teacher-forced text (0: nothing) */
	size_t tokens;
	bool has_logprobs; /* teacher-forced: steps[i].top[0] is the log-probability of prompt token i alone */
} golden_entry;

typedef struct golden {
	json_t *document;   /* own */
	const char *path;   /* borrow */
	const char *oracle; /* its name and version, "vllm 0.26.0" */
	char oracle_text[128];
	nh_profile numerics; /* the fields the oracle used; name "" */
	golden_gate gate;
	double tolerance;       /* exact: of a log-probability */
	const json_t *profiles; /* strict: names it may be run under; NULL: any */
	bool ignore_end;
	int64_t max_tokens;
	golden_entry *entries; /* own */
	size_t entry_count;
	golden_entry forced; /* teacher-forced text, prefill form; prompt_tokens 0: none */
} golden;

/* Errors name file, entry and key. */
nh_status golden_load(golden *g, const char *path, nh_error *e);
void golden_free(golden *g); /* safe on a zeroed one */

/* Compares the digests in `m`, the "model" object of a golden or a trace that `path` names, with the model's files: NH_ERR_CONFIG tells the
 * first that differs, is not there, or is a file of weights that `m` does not vouch for. */
nh_status golden_same_files(const char *path, const json_t *m, const nh_model *model, nh_progress_fn progress, void *user, nh_error *e);

#endif
