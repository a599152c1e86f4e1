/* SPDX-License-Identifier: Apache-2.0
 * model_dir.h: from what a person typed to the folder that holds the model. Takes a folder, a folder of the Hugging Face cache
 * (models--org--name, or one of its snapshots), org/name that is in that cache, or a config.json.
 * Reads no environment: the caller says where the cache is. Never touches the network. Breaks first: a choice that is not certain is
 * refused with the candidates, never guessed.
 */
#ifndef FMT_MODEL_DIR_H
#define FMT_MODEL_DIR_H

#include <stdbool.h>

#include "base/base_status.h"

typedef enum model_dir_kind {
	MODEL_DIR_FULL,        /* config.json and at least one safetensors file */
	MODEL_DIR_INDEX_ONLY,  /* config.json and an index, no safetensors file: shapes come from the configuration */
	MODEL_DIR_CONFIG_ONLY, /* config.json alone */
} model_dir_kind;

typedef struct model_dir {
	char *dir;    /* own: the folder that holds the files */
	char *config; /* own: path of config.json (the very file that was named, when one was) */
	model_dir_kind kind;
} model_dir;

/* cache_root (…/huggingface/hub) may be NULL: then org/name is only a folder. out must not own anything. Errors: NH_ERR_NOTFOUND says what was
 * looked for and where, or which small file is a link to nothing; NH_ERR_CONFIG lists several snapshots of which none is refs/main; NH_ERR_ARG for a file that is no config.json. */
nh_status model_dir_resolve(const char *arg, const char *cache_root, model_dir *out, nh_error *e);
void model_dir_free(model_dir *m); /* safe on a zeroed one */

/* Path of `name` in the folder if it is there, in fresh memory (mem_free); NULL if it is not there or out of memory. */
char *model_dir_file(const model_dir *m, const char *name);

#endif
