/* SPDX-License-Identifier: Apache-2.0
 * safetensors.h: one safetensors file: 8 bytes of header length (little-endian), a JSON header, then the data region.
 * Reading maps the file and checks every fact of the header before it hands out a pointer. Writing streams the data in declared order.
 * Knows nothing of models. Breaks first: the tensors must tile the data region exactly (no gap, no overlap, nothing left over).
 */
#ifndef FMT_SAFETENSORS_H
#define FMT_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base_status.h"
#include "num/num_types.h"

#define ST_MAX_RANK 8
#define ST_MAX_HEADER ((uint64_t)100000000) /* bytes; the limit of the format's reference reader */

typedef struct st_tensor {
	const char *name; /* borrow from the file object */
	num_dtype dtype;  /* never NUM_NONE, never NUM_E2M1X2 (FP4 weights are stored as U8) */
	int rank;         /* 0..ST_MAX_RANK; rank 0 has one element */
	int64_t shape[ST_MAX_RANK];
	const uint8_t *data; /* borrow from the mapping; "" for zero bytes */
	size_t bytes;        /* == product(shape) * num_bytes(dtype) */
	size_t offset;       /* of data, from the start of the file */
	bool aligned;        /* data is a multiple of the element size; if not, read it with memcpy only */
} st_tensor;

typedef struct st_file st_file;

/* Errors: NH_ERR_IO / NH_ERR_NOTFOUND from the file, NH_ERR_FORMAT for every broken rule, NH_ERR_LIMIT for the header or rank limit;
 * the text names file and tensor. The object is immutable afterwards: any number of threads may read it. */
nh_status st_file_open(st_file **out, const char *path, nh_error *e);

/* The same over bytes that the caller keeps alive; `name` stands for the path in errors. */
nh_status st_file_parse(st_file **out, const uint8_t *data, size_t size, const char *name, nh_error *e);
void st_file_close(st_file *f); /* NULL is fine; ends the life of every st_tensor */

const char *st_file_path(const st_file *f);
size_t st_file_count(const st_file *f);
const st_tensor *st_file_at(const st_file *f, size_t index);           /* sorted by name (bytes) */
const st_tensor *st_file_find(const st_file *f, const char *name);     /* NULL if absent */
const uint8_t *st_file_header(const st_file *f, size_t *bytes);        /* the JSON with its padding, without the length */
size_t st_file_data_bytes(const st_file *f);                           /* of the data region */
const char *st_file_metadata(const st_file *f, const char *key);       /* NULL if absent */
void st_file_drop(const st_file *f, const st_tensor *t);               /* hint: the tensor's pages are not needed soon */
void st_file_want(const st_file *f, const st_tensor *t, size_t ahead); /* hint: it is needed now, and `ahead` bytes behind it soon */
const char *st_dtype_name(num_dtype type);                             /* the format's word, "BF16"; NULL where it has none */
bool st_dtype_parse(const char *word, num_dtype *out);                 /* false if unknown */

/* Writer. Order: open, meta and add in any order, begin, put..., commit. Failures are remembered; commit reports the first.
 * Nothing appears under `path` before commit succeeded. The header is padded with spaces to a multiple of 8. */
typedef struct st_writer st_writer;

nh_status st_writer_open(st_writer **out, const char *path, nh_error *e);
nh_status st_writer_meta(st_writer *w, const char *key, const char *value, nh_error *e);
nh_status st_writer_add(st_writer *w, const char *name, num_dtype type, int rank, const int64_t *shape, nh_error *e);
nh_status st_writer_begin(st_writer *w, nh_error *e);
void st_writer_put(st_writer *w, const void *data, size_t bytes); /* any cut; all tensors' bytes in the order of st_writer_add */
nh_status st_writer_commit(st_writer *w, nh_error *e); /* destroys w in every case; NH_ERR_STATE when too few or too many bytes came */
void st_writer_abort(st_writer *w);                    /* destroys w and leaves no file; NULL is fine */

#endif
