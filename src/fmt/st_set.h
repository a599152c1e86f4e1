/* SPDX-License-Identifier: Apache-2.0
 * st_set.h: all tensors of a model folder: the shards that model.safetensors.index.json names, or the one safetensors file.
 * Knows file names, not what a tensor is for. Breaks first: index and shards must agree exactly, tensor by tensor.
 */
#ifndef FMT_ST_SET_H
#define FMT_ST_SET_H

#include <stddef.h>
#include <stdint.h>

#include "base/base_log.h"
#include "fmt/safetensors.h"

#define ST_INDEX_NAME "model.safetensors.index.json"
#define ST_SINGLE_NAME "model.safetensors"

/* The index alone, for work on config + index without shards. */
typedef struct st_index_entry {
	const char *tensor; /* borrow */
	size_t shard;       /* into shards */
} st_index_entry;

typedef struct st_index st_index;

/* Errors: NH_ERR_FORMAT when weight_map is absent, empty or not an object of strings, or a file name holds a separator or is "." or "..". */
nh_status st_index_open(st_index **out, const char *path, nh_error *e);
nh_status st_index_parse(st_index **out, const char *text, size_t len, const char *name, nh_error *e);
void st_index_close(st_index *x); /* NULL is fine */
size_t st_index_count(const st_index *x);
const st_index_entry *st_index_at(const st_index *x, size_t i);             /* sorted by tensor name */
const st_index_entry *st_index_find(const st_index *x, const char *tensor); /* NULL if absent */
size_t st_index_shards(const st_index *x);
const char *st_index_shard(const st_index *x, size_t i); /* file name, sorted */
int64_t st_index_total_bytes(const st_index *x);         /* metadata.total_size, -1 if absent */

typedef struct st_set st_set;

/* Opens every shard. With an index: it wins (other safetensors files in the folder get a notice); a shard that is not there is NH_ERR_NOTFOUND
 * and all missing ones are listed; a tensor that index and shard disagree about, or that two shards hold, is NH_ERR_TENSOR with up to ten names;
 * a wrong total_size is a notice. Without: model.safetensors, else the only *.safetensors; several are NH_ERR_CONFIG and named.
 * log may be NULL. Immutable afterwards: any number of threads may read. */
nh_status st_set_open(st_set **out, const char *dir, const logger *log, nh_error *e);
void st_set_close(st_set *s); /* NULL is fine */

size_t st_set_count(const st_set *s);
const st_tensor *st_set_at(const st_set *s, size_t i);           /* sorted by name; NULL past the end */
const st_tensor *st_set_find(const st_set *s, const char *name); /* NULL if absent */
size_t st_set_files(const st_set *s);
const st_file *st_set_file(const st_set *s, size_t i);         /* sorted by file name */
const st_file *st_set_file_of(const st_set *s, size_t tensor); /* of st_set_at(tensor) */
uint64_t st_set_bytes(const st_set *s);                        /* sum of all tensors */

#endif
