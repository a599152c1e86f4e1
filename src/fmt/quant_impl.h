/* SPDX-License-Identifier: Apache-2.0
 * quant_impl.h: what quant_read.c fills and quant.c searches. For these two files only.
 */
#ifndef FMT_QUANT_IMPL_H
#define FMT_QUANT_IMPL_H

#include "base/base_arena.h"
#include "fmt/quant.h"

#define QUANT_NAME_MAX 400 /* bytes of a module name or pattern */

typedef struct quant_entry {
	const char *name; /* without its style prefix */
	num_scheme scheme;
} quant_entry;

struct quant_config {
	arena text;         /* own */
	const char *source; /* in text; NULL: no quantisation */
	bool mixed;
	num_scheme all; /* when not mixed */
	num_dtype kv;
	int64_t group;       /* 0: not given */
	quant_entry *layers; /* own, sorted by name */
	size_t layer_count;
	const char **patterns; /* own, as in the file, in its order */
	size_t pattern_count;
};

const char *quant_plain_name(const char *module); /* the part after backbone., model. or model.backbone. */

#endif
