/* SPDX-License-Identifier: Apache-2.0
 * st_writer.c: writes one safetensors file. Sizes are fixed by the declarations, so the data can stream without being held.
 * Invariant that breaks first: bytes put == bytes declared; commit refuses otherwise and leaves no file.
 */
#include <inttypes.h>
#include <string.h>

#include "base/base_file.h"
#include "base/base_json.h"
#include "base/base_mem.h"
#include "fmt/safetensors.h"

struct st_writer {
	file_writer file; /* own */
	json_t *header;   /* own */
	json_t *meta;     /* own */
	size_t declared;  /* bytes */
	size_t put;       /* bytes */
	bool begun;
};

nh_status st_writer_open(st_writer **out, const char *path, nh_error *e)
{
	*out = NULL;
	st_writer *w = mem_alloc(sizeof *w);
	if (!w) return ERR_NOMEM(e);
	w->header = json_object();
	w->meta = json_object();
	nh_status s = w->header && w->meta ? file_writer_open(&w->file, path, e) : ERR_NOMEM(e);
	if (s != NH_OK) st_writer_abort(w);
	else *out = w;
	return s;
}

nh_status st_writer_meta(st_writer *w, const char *key, const char *value, nh_error *e)
{
	if (w->begun) return ERR(e, NH_ERR_STATE, "%s: metadata %s: the header is already written", w->file.path, key);
	if (json_object_set_new(w->meta, key, json_string(value)) != 0)
		return ERR(e, NH_ERR_ARG, "%s: metadata %.200s: key or value is not valid UTF-8", w->file.path, key);
	return NH_OK;
}

nh_status st_writer_add(st_writer *w, const char *name, num_dtype type, int rank, const int64_t *shape, nh_error *e)
{
	const char *word = st_dtype_name(type);
	size_t bytes = num_bytes(type), end;
	if (w->begun) return ERR(e, NH_ERR_STATE, "%s: tensor %.200s: the header is already written", w->file.path, name);
	if (!word) return ERR(e, NH_ERR_ARG, "%s: tensor %.200s: type %s has no name in this format", w->file.path, name, num_dtype_name(type));
	if (rank < 0 || rank > ST_MAX_RANK) return ERR(e, NH_ERR_ARG, "%s: tensor %.200s: rank %d", w->file.path, name, rank);
	if (strcmp(name, "__metadata__") == 0 || json_object_get(w->header, name))
		return ERR(e, NH_ERR_ARG, "%s: tensor %.200s: the name is reserved or already declared", w->file.path, name);
	json_t *dims = json_array();
	bool ok = dims != NULL;
	for (int i = 0; ok && i < rank; i++)
		ok = shape[i] >= 0 && mem_mul(bytes, (size_t)shape[i], &bytes) && json_array_append_new(dims, json_integer(shape[i])) == 0;
	if (!ok || !mem_add(w->declared, bytes, &end) || end > (size_t)INT64_MAX) {
		json_decref(dims);
		return ERR(e, NH_ERR_ARG, "%s: tensor %.200s: the shape is negative or its size does not fit 64 bits", w->file.path, name);
	}
	json_t *t = json_pack("{s:s, s:o, s:[I, I]}", "dtype", word, "shape", dims, "data_offsets", (json_int_t)w->declared, (json_int_t)end);
	if (!t) return ERR_NOMEM(e);
	if (json_object_set_new(w->header, name, t) != 0)
		return ERR(e, NH_ERR_ARG, "%s: tensor %.200s: the name is not valid UTF-8", w->file.path, name);
	w->declared = end;
	return NH_OK;
}

static int collect(const char *text, size_t size, void *b)
{
	buf_append(b, text, size);
	return ((buf *)b)->failed ? -1 : 0;
}

nh_status st_writer_begin(st_writer *w, nh_error *e)
{
	if (w->begun) return ERR(e, NH_ERR_STATE, "%s: the header is already written", w->file.path);
	json_t *root = json_object();
	bool ok = root != NULL;
	if (json_object_size(w->meta)) ok = ok && json_object_set(root, "__metadata__", w->meta) == 0;
	ok = ok && json_object_update(root, w->header) == 0;
	buf b = {.limit = (size_t)ST_MAX_HEADER + 1};
	ok = ok && json_dump_callback(root, collect, &b, JSON_COMPACT) == 0;
	json_decref(root);
	if (!ok) {
		bool large = b.len > (size_t)ST_MAX_HEADER / 2;
		buf_deinit(&b);
		if (large) return ERR(e, NH_ERR_LIMIT, "%s: the header would exceed %" PRIu64 " bytes", w->file.path, ST_MAX_HEADER);
		return ERR_NOMEM(e);
	}
	while (b.len % 8 != 0 && !b.failed) buf_char(&b, ' ');
	nh_status s = NH_OK;
	if (b.failed || b.len > (size_t)ST_MAX_HEADER)
		s = ERR(e, NH_ERR_LIMIT, "%s: the header would exceed %" PRIu64 " bytes", w->file.path, ST_MAX_HEADER);
	if (s == NH_OK) {
		uint8_t length[8];
		for (int i = 0; i < 8; i++) length[i] = (uint8_t)((uint64_t)b.len >> (8 * i));
		file_writer_put(&w->file, length, sizeof length);
		file_writer_put(&w->file, b.data, b.len);
		w->begun = true;
	}
	buf_deinit(&b);
	return s;
}

void st_writer_put(st_writer *w, const void *data, size_t bytes)
{
	size_t sum;
	if (!w->begun || !mem_add(w->put, bytes, &sum) || sum > w->declared) {
		w->put = SIZE_MAX; /* too many: commit will say so */
		return;
	}
	w->put = sum;
	file_writer_put(&w->file, data, bytes);
}

nh_status st_writer_commit(st_writer *w, nh_error *e)
{
	nh_status s;
	if (!w->begun) s = ERR(e, NH_ERR_STATE, "%s: the header was never written", w->file.path);
	else if (w->put == SIZE_MAX) s = ERR(e, NH_ERR_STATE, "%s: more data came than the %zu bytes declared", w->file.path, w->declared);
	else if (w->put != w->declared) s = ERR(e, NH_ERR_STATE, "%s: %zu of %zu declared bytes came", w->file.path, w->put, w->declared);
	else s = file_writer_commit(&w->file, e);
	st_writer_abort(w);
	return s;
}

void st_writer_abort(st_writer *w)
{
	if (!w) return;
	file_writer_abort(&w->file);
	json_decref(w->header);
	json_decref(w->meta);
	mem_free(w);
}
