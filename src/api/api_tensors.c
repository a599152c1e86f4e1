/* SPDX-License-Identifier: Apache-2.0
 * api_tensors.c: nh_tensors.h over fmt's safetensors reader.
 */
#include <string.h>

#include "api/api_impl.h"
#include "base/base_mem.h"
#include "fmt/safetensors.h"

struct nh_tensors {
	st_file *file; /* own */
};

nh_status nh_tensors_open(nh_tensors **out, const char *path, nh_error *e)
{
	*out = NULL;
	nh_tensors *t = mem_alloc(sizeof *t);
	if (!t) return ERR_NOMEM(e);
	nh_status s = st_file_open(&t->file, path, e);
	if (s == NH_OK) *out = t;
	else mem_free(t);
	return s;
}

void nh_tensors_close(nh_tensors *t)
{
	if (!t) return;
	st_file_close(t->file);
	mem_free(t);
}

size_t nh_tensors_count(const nh_tensors *t) { return st_file_count(t->file); }

static bool view(const st_tensor *t, nh_tensor_view *out, size_t size)
{
	if (!t) return false;
	nh_tensor_view v = {.name = t->name, .dtype = num_dtype_name(t->dtype), .rank = t->rank, .data = t->data, .bytes = t->bytes};
	for (int i = 0; i < t->rank && i < 8; i++) v.shape[i] = t->shape[i];
	api_out(out, size, &v, sizeof v);
	return true;
}

bool nh_tensors_at(const nh_tensors *t, size_t index, nh_tensor_view *out, size_t size)
{
	return index < st_file_count(t->file) && view(st_file_at(t->file, index), out, size);
}

bool nh_tensors_find(const nh_tensors *t, const char *name, nh_tensor_view *out, size_t size)
{
	return view(st_file_find(t->file, name), out, size);
}

const char *nh_tensors_metadata(const nh_tensors *t, const char *key) { return st_file_metadata(t->file, key); }
