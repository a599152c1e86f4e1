/* SPDX-License-Identifier: Apache-2.0
 * st_set.c: opens the shards and proves that the index describes them. Mismatches are collected before refusing, so that one message
 * shows the whole kind (an index older than its shards, a file that did not finish downloading).
 */
#include "fmt/st_set.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/base_buf.h"
#include "base/base_file.h"
#include "base/base_mem.h"

#define NAMED_MOST 10u

typedef struct entry {
	const st_tensor *tensor;
	size_t file;
} entry;

struct st_set {
	st_file **files; /* own, each own */
	size_t file_count;
	entry *entries; /* own, sorted by name */
	size_t count;
	uint64_t bytes;
};

/* A growing list of at most NAMED_MOST names, and how many there were. */
typedef struct naming {
	buf text;
	size_t count;
} naming;

static void naming_add(naming *n, const char *name, const char *note)
{
	if (n->count++ < NAMED_MOST) buf_printf(&n->text, "%s%.80s%s%s", n->count > 1 ? ", " : "", name, *note ? " in " : "", note);
}

static const char *naming_text(naming *n)
{
	if (n->count > NAMED_MOST) buf_str(&n->text, ", ...");
	return n->text.data && !n->text.failed ? n->text.data : "?";
}

static bool ends_with(const char *s, const char *tail)
{
	size_t n = strlen(s), m = strlen(tail);
	return n >= m && strcmp(s + n - m, tail) == 0;
}

static int by_name(const void *a, const void *b)
{
	const entry *x = a, *y = b;
	int c = strcmp(x->tensor->name, y->tensor->name);
	return c ? c : (x->file > y->file) - (x->file < y->file);
}

static nh_status open_files(st_set *s, const char *dir, const char *const *names, size_t count, nh_error *e)
{
	s->files = mem_array(count, sizeof *s->files);
	if (!s->files) return ERR_NOMEM(e);
	for (size_t i = 0; i < count; i++) {
		char *path = path_join(dir, names[i]);
		if (!path) return ERR_NOMEM(e);
		nh_status st = st_file_open(&s->files[i], path, e);
		mem_free(path);
		if (st != NH_OK) return st;
		s->file_count++;
	}
	return NH_OK;
}

static nh_status merge(st_set *s, const char *dir, nh_error *e)
{
	size_t total = 0;
	for (size_t i = 0; i < s->file_count; i++) total += st_file_count(s->files[i]);
	s->entries = mem_array(total ? total : 1, sizeof *s->entries);
	if (!s->entries) return ERR_NOMEM(e);
	for (size_t i = 0; i < s->file_count; i++)
		for (size_t k = 0; k < st_file_count(s->files[i]); k++) {
			s->entries[s->count] = (entry){st_file_at(s->files[i], k), i};
			s->bytes += s->entries[s->count++].tensor->bytes;
		}
	if (s->count) qsort(s->entries, s->count, sizeof *s->entries, by_name);
	naming twice = {0};
	for (size_t i = 1; i < s->count; i++)
		if (strcmp(s->entries[i].tensor->name, s->entries[i - 1].tensor->name) == 0)
			naming_add(&twice, s->entries[i].tensor->name, path_base(st_file_path(s->files[s->entries[i].file])));
	nh_status st = NH_OK;
	if (twice.count) st = ERR(e, NH_ERR_TENSOR, "%s: %zu tensors are in more than one shard: %s", dir, twice.count, naming_text(&twice));
	buf_deinit(&twice.text);
	return st;
}

static nh_status check_missing_files(const char *dir, const st_index *x, nh_error *e)
{
	naming gone = {0};
	for (size_t i = 0; i < st_index_shards(x); i++) {
		char *path = path_join(dir, st_index_shard(x, i));
		if (!path) {
			buf_deinit(&gone.text);
			return ERR_NOMEM(e);
		}
		if (!file_exists(path)) naming_add(&gone, st_index_shard(x, i), "");
		mem_free(path);
	}
	nh_status st = NH_OK;
	if (gone.count)
		st = ERR(e, NH_ERR_NOTFOUND, "%s: %zu of the %zu files that " ST_INDEX_NAME " names are missing: %s", dir, gone.count,
		    st_index_shards(x), naming_text(&gone));
	buf_deinit(&gone.text);
	return st;
}

/* Both lists are sorted by name, so one walk finds what is in one only, and what is elsewhere than the index says. */
static nh_status check_index(const st_set *s, const st_index *x, const char *dir, nh_error *e)
{
	naming absent = {0}, extra = {0}, moved = {0};
	size_t i = 0, k = 0;
	while (i < st_index_count(x) || k < s->count) {
		const st_index_entry *want = st_index_at(x, i);
		const entry *have = k < s->count ? &s->entries[k] : NULL;
		int c = !want ? 1 : !have ? -1 : strcmp(want->tensor, have->tensor->name);
		if (c < 0 && want) naming_add(&absent, want->tensor, st_index_shard(x, want->shard));
		if (c > 0 && have) naming_add(&extra, have->tensor->name, path_base(st_file_path(s->files[have->file])));
		if (c == 0 && want && have && want->shard != have->file)
			naming_add(&moved, want->tensor, path_base(st_file_path(s->files[have->file])));
		i += c <= 0;
		k += c >= 0;
	}
	nh_status st = NH_OK;
	if (absent.count)
		st = ERR(e, NH_ERR_TENSOR, "%s: " ST_INDEX_NAME " does not match the shards: %zu tensors are not in their file: %s", dir,
		    absent.count, naming_text(&absent));
	else if (extra.count)
		st = ERR(e, NH_ERR_TENSOR, "%s: " ST_INDEX_NAME " does not match the shards: it does not list %zu tensors: %s", dir, extra.count,
		    naming_text(&extra));
	else if (moved.count)
		st = ERR(e, NH_ERR_TENSOR, "%s: " ST_INDEX_NAME " does not match the shards: %zu tensors are in another file: %s", dir, moved.count,
		    naming_text(&moved));
	buf_deinit(&absent.text);
	buf_deinit(&extra.text);
	buf_deinit(&moved.text);
	return st;
}

static void note_strays(const file_list *l, const st_index *x, const char *dir, const logger *log)
{
	naming stray = {0};
	size_t k = 0;
	for (size_t i = 0; i < l->count; i++) {
		if (!ends_with(l->names[i], ".safetensors")) continue;
		while (k < st_index_shards(x) && strcmp(st_index_shard(x, k), l->names[i]) < 0) k++;
		if (k >= st_index_shards(x) || strcmp(st_index_shard(x, k), l->names[i]) != 0) naming_add(&stray, l->names[i], "");
	}
	if (stray.count) log_line(log, NH_LOG_NOTICE, "%s: " ST_INDEX_NAME " wins; not read: %s", dir, naming_text(&stray));
	buf_deinit(&stray.text);
}

static nh_status open_indexed(st_set *s, const char *dir, const char *index_path, const file_list *l, const logger *log, nh_error *e)
{
	st_index *x;
	const char **names = NULL;
	nh_status st = st_index_open(&x, index_path, e);
	if (st != NH_OK) return st;
	TRY_GOTO(st, check_missing_files(dir, x, e), out);
	names = mem_array(st_index_shards(x), sizeof *names);
	if (!names) {
		st = ERR_NOMEM(e);
		goto out;
	}
	for (size_t i = 0; i < st_index_shards(x); i++) names[i] = st_index_shard(x, i);
	TRY_GOTO(st, open_files(s, dir, names, st_index_shards(x), e), out);
	TRY_GOTO(st, merge(s, dir, e), out);
	TRY_GOTO(st, check_index(s, x, dir, e), out);
	note_strays(l, x, dir, log);
	if (st_index_total_bytes(x) >= 0 && (uint64_t)st_index_total_bytes(x) != s->bytes)
		log_line(log, NH_LOG_NOTICE, "%s: metadata.total_size is %" PRId64 ", the tensors have %" PRIu64 " bytes", index_path,
		    st_index_total_bytes(x), s->bytes);
out:
	mem_free(names);
	st_index_close(x);
	return st;
}

static nh_status open_plain(st_set *s, const char *dir, const file_list *l, const logger *log, nh_error *e)
{
	const char *only = NULL;
	naming all = {0};
	for (size_t i = 0; i < l->count; i++) {
		if (!ends_with(l->names[i], ".safetensors")) continue;
		naming_add(&all, l->names[i], "");
		if (!only || strcmp(l->names[i], ST_SINGLE_NAME) == 0) only = l->names[i];
	}
	nh_status st = NH_OK;
	if (!only) st = ERR(e, NH_ERR_NOTFOUND, "%s: has neither " ST_INDEX_NAME " nor a *.safetensors file", dir);
	else if (all.count > 1 && strcmp(only, ST_SINGLE_NAME) != 0)
		st = ERR(e, NH_ERR_CONFIG, "%s: has %zu safetensors files and no " ST_INDEX_NAME ", cannot tell which belong together: %s", dir,
		    all.count, naming_text(&all));
	else if (all.count > 1) log_line(log, NH_LOG_NOTICE, "%s: only " ST_SINGLE_NAME " is read, of: %s", dir, naming_text(&all));
	buf_deinit(&all.text);
	if (st == NH_OK) st = open_files(s, dir, &only, 1, e);
	if (st == NH_OK) st = merge(s, dir, e);
	return st;
}

nh_status st_set_open(st_set **out, const char *dir, const logger *log, nh_error *e)
{
	file_list l = {0};
	*out = NULL;
	TRY(file_list_dir(&l, dir, e));
	st_set *s = mem_alloc(sizeof *s);
	char *index_path = path_join(dir, ST_INDEX_NAME);
	nh_status st = NH_OK;
	if (!s || !index_path) st = ERR_NOMEM(e);
	else if (file_exists(index_path)) st = open_indexed(s, dir, index_path, &l, log, e);
	else st = open_plain(s, dir, &l, log, e);
	mem_free(index_path);
	file_list_free(&l);
	if (st != NH_OK) st_set_close(s);
	else *out = s;
	return st;
}

void st_set_close(st_set *s)
{
	if (!s) return;
	for (size_t i = 0; i < s->file_count; i++) st_file_close(s->files[i]);
	mem_free(s->files);
	mem_free(s->entries);
	mem_free(s);
}

size_t st_set_count(const st_set *s) { return s->count; }

const st_tensor *st_set_at(const st_set *s, size_t i) { return i < s->count ? s->entries[i].tensor : NULL; }

const st_tensor *st_set_find(const st_set *s, const char *name)
{
	size_t lo = 0, hi = s->count;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		int c = strcmp(name, s->entries[mid].tensor->name);
		if (c == 0) return s->entries[mid].tensor;
		if (c < 0) hi = mid;
		else lo = mid + 1;
	}
	return NULL;
}

size_t st_set_files(const st_set *s) { return s->file_count; }

const st_file *st_set_file(const st_set *s, size_t i) { return i < s->file_count ? s->files[i] : NULL; }

const st_file *st_set_file_of(const st_set *s, size_t tensor) { return tensor < s->count ? s->files[s->entries[tensor].file] : NULL; }

uint64_t st_set_bytes(const st_set *s) { return s->bytes; }
