/* SPDX-License-Identifier: Apache-2.0
 * nm_pattern.h: the sequence of layer kinds, in any of its spellings: a string of letters, or a list of names.
 * Knows no dimension. Breaks first: an unknown letter or name is refused with its position, never skipped.
 */
#ifndef NM_PATTERN_H
#define NM_PATTERN_H

#include <jansson.h>

#include "base/base_status.h"

#define NM_MAX_LAYERS 4096

/* One sub-layer a layer index (model.md 1.2). */
enum {
	NM_MAMBA = 'M', /* mamba, linear_attention */
	NM_ATTN = '*',  /* attention, full_attention */
	NM_MLP = '-',   /* mlp */
	NM_MOE = 'E',   /* moe */
};

const char *nm_kind_name(char kind);  /* "mamba", "attention", "mlp", "moe"; "?" for another letter */
char nm_kind_parse(const char *name); /* the letter of a name; 0 if there is none */

/* The letters of a string or list value into text[NM_MAX_LAYERS + 1], terminated; *count of them. `name` and `key` are for errors
 * (NH_ERR_CONFIG, NH_ERR_LIMIT). An empty string or list is refused. */
nh_status nm_pattern_read(const json_t *value, const char *name, const char *key, char *text, int *count, nh_error *e);

#endif
