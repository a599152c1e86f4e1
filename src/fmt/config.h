/* SPDX-License-Identifier: Apache-2.0
 * config.h: config.json as a document of a family that this program knows, and generation_config.json as sampling defaults.
 * Knows names of architectures, no dimension: those are the model room's. Breaks first: an end token of either file must end a text.
 */
#ifndef FMT_CONFIG_H
#define FMT_CONFIG_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/base_status.h"

/* Loads config.json (the bare words Infinity and NaN are fine) and refuses, by name: an architecture or model_type that is not Nemotron-H, a
 * wrapper that keeps the language model below another key. The caller owns *out (json_decref). */
nh_status config_load(json_t **out, const char *path, nh_error *e);

/* The checks alone, over a document that is already there; `name` is what errors call it. */
nh_status config_check(const json_t *config, const char *name, nh_error *e);
bool config_is_puzzle(const json_t *config); /* model_type or architecture of the Puzzle variant */

#define GENERATION_MAX_END 256

/* A field without its has_ flag holds the neutral value (which changes nothing). */
typedef struct generation {
	int32_t end[GENERATION_MAX_END]; /* ids that end a text: config.json's first, then generation_config.json's; no duplicates */
	int end_count;
	int32_t bos, pad; /* -1 if neither file has it; generation_config.json wins */
	bool has_do_sample, has_temperature, has_top_p, has_top_k, has_min_p, has_repetition_penalty, has_max_new_tokens;
	bool do_sample;            /* false */
	double temperature;        /* >= 0; 1 */
	double top_p;              /* 0 < p <= 1; 1 */
	int32_t top_k;             /* >= 0; 0 = all (-1 in a file means the same) */
	double min_p;              /* 0 <= p <= 1; 0 */
	double repetition_penalty; /* > 0; 1 */
	int64_t max_new_tokens;    /* >= 1; 0 = not given */
	char unserved[256];        /* keys of generation_config.json that ask for what is not done here, "a, b"; "": none */
} generation;

/* gen_config (the parsed generation_config.json) may be NULL. Ids are checked to be in 0..vocab-1 when config.json has a vocab_size. */
nh_status generation_read(
    generation *out, const json_t *config, const char *config_name, const json_t *gen_config, const char *gen_name, nh_error *e);

/* Names what generation.unserved says, into size bytes (at least 8); a list that is too long ends with "...". */
void generation_unserved(const json_t *gen_config, char *names, size_t size);

/* The same as generation_read with the file at `path`; a file that is not there (or path NULL) leaves config.json's facts. */
nh_status generation_load(generation *out, const json_t *config, const char *config_name, const char *path, nh_error *e);

#endif
