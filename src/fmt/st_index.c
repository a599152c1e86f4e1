/* SPDX-License-Identifier: Apache-2.0
 * st_index.c: model.safetensors.index.json. A shard name comes from a file of unknown origin, so it must stay inside the model's folder.
 */
#include <stdlib.h>
#include <string.h>

#include "base/base_arena.h"
#include "base/base_json.h"
#include "base/base_mem.h"
#include "fmt/st_set.h"

struct st_index {
	arena text;              /* own */
	st_index_entry *entries; /* own, sorted */
	size_t count;
	const char **shards; /* own, sorted, distinct */
	size_t shard_count;
	int64_t total_bytes;
};

static bool safe_name(const char *s) { return *s && strcmp(s, ".") != 0 && strcmp(s, "..") != 0 && !strpbrk(s, "/\\") && strlen(s) < 256; }

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static int by_tensor(const void *a, const void *b)
{
	return strcmp(((const st_index_entry *)a)->tensor, ((const st_index_entry *)b)->tensor);
}

static nh_status read_shards(st_index *x, const json_t *map, const char *name, nh_error *e)
{
	const char *key;
	json_t *v;
	char found[64];
	size_t n = 0;
	json_object_foreach((json_t *)(uintptr_t)map, key, v)
	{
		const char *file = json_string_value(v);
		jsn_brief(v, found);
		if (!file) return ERR(e, NH_ERR_FORMAT, "%s: weight_map: %.200s: is %s, expected a file name", name, key, found);
		if (!safe_name(file))
			return ERR(e, NH_ERR_FORMAT, "%s: weight_map: %.200s: is %s, expected a file name without a path", name, key, found);
		x->shards[n++] = file;
	}
	qsort(x->shards, n, sizeof *x->shards, by_text);
	for (size_t i = 0; i < n; i++)
		if (i == 0 || strcmp(x->shards[i], x->shards[x->shard_count - 1]) != 0) x->shards[x->shard_count++] = x->shards[i];
	for (size_t i = 0; i < x->shard_count; i++) {
		x->shards[i] = arena_strndup(&x->text, x->shards[i], strlen(x->shards[i]));
		if (!x->shards[i]) return ERR_NOMEM(e);
	}
	return NH_OK;
}

static nh_status read_entries(st_index *x, const json_t *map, nh_error *e)
{
	const char *key;
	json_t *v;
	json_object_foreach((json_t *)(uintptr_t)map, key, v)
	{
		const char *file = json_string_value(v);
		const char **hit = bsearch(&file, x->shards, x->shard_count, sizeof file, by_text);
		st_index_entry *t = &x->entries[x->count];
		t->tensor = arena_strndup(&x->text, key, strlen(key));
		if (!t->tensor) return ERR_NOMEM(e);
		t->shard = (size_t)(hit - x->shards);
		x->count++;
	}
	qsort(x->entries, x->count, sizeof *x->entries, by_tensor);
	return NH_OK;
}

static nh_status read_root(st_index *x, const json_t *root, const char *name, nh_error *e)
{
	char found[64];
	const json_t *map = json_object_get(root, "weight_map");
	if (!json_is_object(map) || json_object_size(map) == 0) {
		jsn_brief(map, found);
		return ERR(e, NH_ERR_FORMAT, "%s: weight_map: is %s, expected an object from tensor to file name", name, found);
	}
	x->entries = mem_array(json_object_size(map), sizeof *x->entries);
	x->shards = mem_array(json_object_size(map), sizeof *x->shards);
	if (!x->entries || !x->shards) return ERR_NOMEM(e);
	TRY(read_shards(x, map, name, e));
	TRY(read_entries(x, map, e));
	x->total_bytes = -1;
	const json_t *total = json_object_get(json_object_get(root, "metadata"), "total_size");
	if (json_is_integer(total) && json_integer_value(total) >= 0) x->total_bytes = (int64_t)json_integer_value(total);
	else if (json_is_real(total) && json_real_value(total) >= 0 && json_real_value(total) < 9e15)
		x->total_bytes = (int64_t)json_real_value(total); /* some writers divide */
	return NH_OK;
}

static nh_status from_json(st_index **out, json_t *root, const char *name, nh_error *e)
{
	st_index *x = mem_alloc(sizeof *x);
	nh_status s = NH_OK;
	if (!x) s = ERR_NOMEM(e);
	else {
		arena_init(&x->text);
		s = read_root(x, root, name, e);
	}
	json_decref(root);
	if (s != NH_OK) st_index_close(x);
	else *out = x;
	return s;
}

nh_status st_index_open(st_index **out, const char *path, nh_error *e)
{
	json_t *root;
	*out = NULL;
	TRY(jsn_load_path(&root, path, JSON_LIMIT_CONFIG, e));
	return from_json(out, root, path, e);
}

nh_status st_index_parse(st_index **out, const char *text, size_t len, const char *name, nh_error *e)
{
	json_t *root;
	*out = NULL;
	TRY(jsn_load_text(&root, text, len, name, e));
	return from_json(out, root, name, e);
}

void st_index_close(st_index *x)
{
	if (!x) return;
	mem_free(x->entries);
	mem_free(x->shards);
	arena_deinit(&x->text);
	mem_free(x);
}

size_t st_index_count(const st_index *x) { return x->count; }

const st_index_entry *st_index_at(const st_index *x, size_t i) { return i < x->count ? &x->entries[i] : NULL; }

const st_index_entry *st_index_find(const st_index *x, const char *tensor)
{
	st_index_entry key = {.tensor = tensor};
	return bsearch(&key, x->entries, x->count, sizeof key, by_tensor);
}

size_t st_index_shards(const st_index *x) { return x->shard_count; }

const char *st_index_shard(const st_index *x, size_t i) { return i < x->shard_count ? x->shards[i] : NULL; }

int64_t st_index_total_bytes(const st_index *x) { return x->total_bytes; }
