/* SPDX-License-Identifier: Apache-2.0
 * safetensors.c: the reader. A header is hostile until proven: each number is checked before it is used in arithmetic.
 * Refuses to know what the tensors mean.
 */
#include "fmt/safetensors.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base_arena.h"
#include "base/base_file.h"
#include "base/base_json.h"
#include "base/base_mem.h"

#define META_KEY "__metadata__"

struct st_file {
	file_map map; /* own; data NULL for st_file_parse */
	const uint8_t *data;
	size_t size;
	size_t header_bytes;
	arena text; /* own: path and names */
	const char *path;
	st_tensor *tensors; /* own, sorted by name */
	size_t count;
	json_t *meta; /* own; NULL or an object of strings */
};

static const struct {
	const char *word;
	num_dtype type;
} DTYPES[] = {
    {"F64", NUM_F64},
    {"F32", NUM_F32},
    {"F16", NUM_F16},
    {"BF16", NUM_BF16},
    {"F8_E4M3", NUM_E4M3},
    {"F8_E5M2", NUM_E5M2},
    {"U8", NUM_U8},
    {"I8", NUM_I8},
    {"I16", NUM_I16},
    {"I32", NUM_I32},
    {"I64", NUM_I64},
    {"U16", NUM_U16},
    {"U32", NUM_U32},
    {"U64", NUM_U64},
    {"BOOL", NUM_BOOL},
};

const char *st_dtype_name(num_dtype type)
{
	for (size_t i = 0; i < ARRAY_LEN(DTYPES); i++)
		if (DTYPES[i].type == type) return DTYPES[i].word;
	return NULL;
}

bool st_dtype_parse(const char *word, num_dtype *out)
{
	for (size_t i = 0; i < ARRAY_LEN(DTYPES); i++)
		if (strcmp(DTYPES[i].word, word) == 0) {
			*out = DTYPES[i].type;
			return true;
		}
	return false;
}

#define BAD(f, t, ...) bad_tensor((f)->path, (t)->name, e, __VA_ARGS__)

static nh_status bad_tensor(const char *path, const char *name, nh_error *e, const char *format, ...) BASE_PRINTF(4, 5);

static nh_status bad_tensor(const char *path, const char *name, nh_error *e, const char *format, ...)
{
	char why[512];
	va_list args;
	va_start(args, format);
	vsnprintf(why, sizeof why, format, args);
	va_end(args);
	return ERR(e, NH_ERR_FORMAT, "%s: tensor %.200s: %s", path, name, why);
}

/* Reads an array of integers that must be in 0..INT64_MAX (Jansson has refused larger ones); -1 when the value is no such array. */
static int read_ints(const json_t *v, int64_t *out, int most)
{
	if (!json_is_array(v)) return -1;
	size_t n = json_array_size(v);
	if (n > (size_t)most) return most + 1;
	for (size_t i = 0; i < n; i++) {
		const json_t *x = json_array_get(v, i);
		if (!json_is_integer(x) || json_integer_value(x) < 0) return -1;
		out[i] = (int64_t)json_integer_value(x);
	}
	return (int)n;
}

static nh_status read_tensor(const st_file *f, st_tensor *t, const json_t *v, nh_error *e)
{
	char found[64];
	int64_t span[2];
	if (!json_is_object(v)) {
		jsn_brief(v, found);
		return BAD(f, t, "is %s, expected an object with dtype, shape and data_offsets", found);
	}
	const json_t *type = json_object_get(v, "dtype"), *shape = json_object_get(v, "shape"), *offsets = json_object_get(v, "data_offsets");
	if (!json_is_string(type) || !st_dtype_parse(json_string_value(type), &t->dtype)) {
		jsn_brief(type, found);
		return BAD(f, t, "dtype is %s, expected one of F64 F32 F16 BF16 F8_E4M3 F8_E5M2 U8 I8 I16 I32 I64 U16 U32 U64 BOOL", found);
	}
	t->rank = read_ints(shape, t->shape, ST_MAX_RANK);
	if (t->rank > ST_MAX_RANK)
		return ERR(e, NH_ERR_LIMIT, "%s: tensor %.200s: has more than %d dimensions, which is the limit", f->path, t->name, ST_MAX_RANK);
	if (t->rank < 0) {
		jsn_brief(shape, found);
		return BAD(f, t, "shape is %s, expected an array of integers >= 0", found);
	}
	if (read_ints(offsets, span, 2) != 2) {
		jsn_brief(offsets, found);
		return BAD(f, t, "data_offsets is %s, expected two integers >= 0", found);
	}
	size_t region = f->size - 8 - f->header_bytes, need = num_bytes(t->dtype);
	for (int i = 0; i < t->rank; i++)
		if (!mem_mul(need, (size_t)t->shape[i], &need)) {
			jsn_brief(shape, found);
			return BAD(f, t, "shape %s times the element size does not fit 64 bits", found);
		}
	if (span[0] > span[1]) return BAD(f, t, "data_offsets [%" PRId64 ", %" PRId64 "] are reversed", span[0], span[1]);
	if ((uint64_t)span[1] > region)
		return BAD(f, t, "data_offsets end at %" PRId64 ", but the file has %zu bytes of data", span[1], region);
	t->bytes = (size_t)(span[1] - span[0]);
	if (t->bytes != need) {
		jsn_brief(shape, found);
		return BAD(f, t, "data_offsets give %zu bytes, but shape %s of %s needs %zu", t->bytes, found, st_dtype_name(t->dtype), need);
	}
	t->offset = 8 + f->header_bytes + (size_t)span[0];
	t->data = t->bytes ? f->data + t->offset : (const uint8_t *)"";
	t->aligned = (uintptr_t)t->data % num_bytes(t->dtype) == 0 || t->bytes == 0;
	return NH_OK;
}

static nh_status check_metadata(st_file *f, const json_t *v, nh_error *e)
{
	char found[64];
	const char *key;
	json_t *x;
	if (json_is_null(v)) return NH_OK;
	jsn_brief(v, found);
	if (!json_is_object(v)) return ERR(e, NH_ERR_FORMAT, "%s: " META_KEY ": is %s, expected an object of strings", f->path, found);
	json_object_foreach((json_t *)(uintptr_t)v, key, x)
	{
		if (json_is_string(x)) continue;
		jsn_brief(x, found);
		return ERR(e, NH_ERR_FORMAT, "%s: " META_KEY ": %.200s: is %s, expected a string", f->path, key, found);
	}
	f->meta = json_incref((json_t *)(uintptr_t)v);
	return NH_OK;
}

static int by_name(const void *a, const void *b) { return strcmp(((const st_tensor *)a)->name, ((const st_tensor *)b)->name); }

static int by_offset(const void *a, const void *b)
{
	const st_tensor *x = *(const st_tensor *const *)a, *y = *(const st_tensor *const *)b;
	if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
	return (x->bytes > y->bytes) - (x->bytes < y->bytes); /* empty tensors sit in front of the one that starts there */
}

static nh_status check_tiling(const st_file *f, nh_error *e)
{
	size_t base = 8 + f->header_bytes, at = base;
	const st_tensor **order = mem_array(f->count, sizeof *order);
	if (!order) return ERR_NOMEM(e);
	for (size_t i = 0; i < f->count; i++) order[i] = &f->tensors[i];
	if (f->count) qsort(order, f->count, sizeof *order, by_offset);
	nh_status s = NH_OK;
	for (size_t i = 0; s == NH_OK && i < f->count; i++) {
		const st_tensor *t = order[i];
		if (t->offset < at) s = BAD(f, t, "starts at byte %zu of the data, inside tensor %.200s", t->offset - base, order[i - 1]->name);
		else if (t->offset > at)
			s = BAD(f, t, "starts at byte %zu of the data, but the tensors before it end at %zu", t->offset - base, at - base);
		at = t->offset + t->bytes;
	}
	mem_free(order);
	if (s == NH_OK && at != f->size)
		s = ERR(e, NH_ERR_FORMAT, "%s: has %zu bytes of data, but its tensors end at %zu", f->path, f->size - base, at - base);
	return s;
}

static nh_status read_header(st_file *f, nh_error *e)
{
	uint64_t n = 0;
	if (f->size < 8) return ERR(e, NH_ERR_FORMAT, "%s: has %zu bytes, expected at least the 8 of the header length", f->path, f->size);
	for (int i = 7; i >= 0; i--) n = n << 8 | f->data[i];
	if (n > ST_MAX_HEADER)
		return ERR(e, NH_ERR_LIMIT, "%s: header length is %" PRIu64 ", the limit is %" PRIu64, f->path, n, ST_MAX_HEADER);
	if (n > f->size - 8)
		return ERR(e, NH_ERR_FORMAT, "%s: header length is %" PRIu64 ", but only %zu bytes follow", f->path, n, f->size - 8);
	f->header_bytes = (size_t)n;
	const char *text = (const char *)f->data + 8;
	if (n == 0 || text[0] != '{') return ERR(e, NH_ERR_FORMAT, "%s: the header does not start with '{'", f->path);
	json_t *root = NULL;
	TRY(jsn_load_text(&root, text, f->header_bytes, f->path, e));
	nh_status s = NH_OK;
	size_t entries = json_object_size(root);
	const char *key;
	json_t *v;
	f->tensors = mem_array(entries ? entries : 1, sizeof *f->tensors);
	if (!f->tensors) s = ERR_NOMEM(e);
	json_object_foreach(root, key, v)
	{
		if (s != NH_OK) break;
		if (strcmp(key, META_KEY) == 0) {
			s = check_metadata(f, v, e);
			continue;
		}
		st_tensor *t = &f->tensors[f->count];
		t->name = arena_strndup(&f->text, key, strlen(key));
		if (!t->name) s = ERR_NOMEM(e);
		else s = read_tensor(f, t, v, e);
		f->count += s == NH_OK;
	}
	json_decref(root);
	if (s != NH_OK) return s;
	TRY(check_tiling(f, e));
	if (f->count) qsort(f->tensors, f->count, sizeof *f->tensors, by_name);
	return NH_OK;
}

static st_file *create(const char *path)
{
	st_file *f = mem_alloc(sizeof *f);
	if (!f) return NULL;
	arena_init(&f->text);
	f->path = arena_strndup(&f->text, path, strlen(path));
	if (f->path) return f;
	st_file_close(f);
	return NULL;
}

nh_status st_file_parse(st_file **out, const uint8_t *data, size_t size, const char *name, nh_error *e)
{
	*out = NULL;
	st_file *f = create(name);
	if (!f) return ERR_NOMEM(e);
	f->data = data;
	f->size = size;
	nh_status s = read_header(f, e);
	if (s != NH_OK) st_file_close(f);
	else *out = f;
	return s;
}

nh_status st_file_open(st_file **out, const char *path, nh_error *e)
{
	*out = NULL;
	st_file *f = create(path);
	if (!f) return ERR_NOMEM(e);
	nh_status s = file_map_open(&f->map, path, e);
	f->data = f->map.data;
	f->size = f->map.size;
	if (s == NH_OK) s = read_header(f, e);
	if (s != NH_OK) st_file_close(f);
	else *out = f;
	return s;
}

void st_file_close(st_file *f)
{
	if (!f) return;
	json_decref(f->meta);
	mem_free(f->tensors);
	arena_deinit(&f->text);
	file_map_close(&f->map);
	mem_free(f);
}

const char *st_file_path(const st_file *f) { return f->path; }

size_t st_file_count(const st_file *f) { return f->count; }

const st_tensor *st_file_at(const st_file *f, size_t index) { return index < f->count ? &f->tensors[index] : NULL; }

const st_tensor *st_file_find(const st_file *f, const char *name)
{
	st_tensor key = {.name = name};
	return f->count ? bsearch(&key, f->tensors, f->count, sizeof key, by_name) : NULL;
}

const uint8_t *st_file_header(const st_file *f, size_t *bytes)
{
	*bytes = f->header_bytes;
	return f->data + 8;
}

size_t st_file_data_bytes(const st_file *f) { return f->size - 8 - f->header_bytes; }

const char *st_file_metadata(const st_file *f, const char *key) { return json_string_value(json_object_get(f->meta, key)); }

void st_file_want(const st_file *f, const st_tensor *t, size_t ahead)
{
	size_t bytes;
	if (f->map.size && mem_add(t->bytes, ahead, &bytes)) file_map_want(&f->map, t->offset, bytes);
}

void st_file_drop(const st_file *f, const st_tensor *t)
{
	if (f->map.size && t->bytes) file_map_drop(&f->map, t->offset, t->bytes);
}
