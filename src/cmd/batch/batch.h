/* SPDX-License-Identifier: Apache-2.0
 * batch.h: what the parts of `nemotron batch` share: the lines of the input with the names of their answers, and the loop that
 * keeps the engine busy. The invariant that breaks first: an answer's name is made of its line, the model and the profile, so that an interrupted batch
 * never goes on with another input or another model.
 */
#ifndef BATCH_H
#define BATCH_H

#include "base/base_file.h"
#include "cmd/batch/batch_out.h"
#include "cmd/cmd.h"
#include "nh/nh.h"

typedef struct batch_line {
	uint64_t number;  /* in the file, from 1 */
	const char *text; /* borrow of the map; no newline */
	size_t len;
	bool answered;
} batch_line;

typedef struct batch_in {
	const char *path;  /* borrow */
	const char *salt;  /* own; the model's identity and how it computes */
	file_map map;      /* own */
	batch_line *lines; /* own; in order, without blank ones */
	size_t count;
} batch_in;

nh_status batch_in_open(batch_in *in, const char *path, nh_error *e);
void batch_in_close(batch_in *in); /* safe on a zeroed one */

/* "<12 digits of the line>_<16 hex digits over salt and text>": what follows "batch_req_", "req_", "chatcmpl-" of an answer. */
#define BATCH_NAME_MAX 40
nh_status batch_name(const batch_in *in, const batch_line *line, char out[BATCH_NAME_MAX], nh_error *e);
/* The seed of a request that names none, from its name: the same whenever the batch is run. */
uint64_t batch_seed(const char *name);
/* The line of that number; NULL where there is none. */
batch_line *batch_line_at(const batch_in *in, uint64_t number);

typedef struct batch_counts {
	size_t kept, answered, failed; /* lines: from an earlier start (failed ones among them count in failed, too), now, now and before */
	uint64_t prompt_tokens, reused_tokens, generated_tokens; /* now */
	int64_t elapsed_us;
} batch_counts;

typedef struct batch_job {
	const cmd_args *a;
	nh_model *model;
	nh_engine *engine;
	nh_model_info info;
	batch_in in;
	batch_out out;
	json_t *ids;   /* own; custom_id -> number of the first line that has it */
	json_t *noted; /* own; unknown members that were mentioned */
	int32_t concurrency;
	batch_counts counts;
	cmd_progress progress;
} batch_job;

/* Answers every line that is not answered yet. NH_OK at the end, NH_ERR_CANCELLED after Ctrl-C; what failed otherwise is the whole batch. */
nh_status batch_run(batch_job *j, nh_error *e);

#endif
