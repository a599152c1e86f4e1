/* SPDX-License-Identifier: Apache-2.0
 * model_dir.c: the layout of the Hugging Face cache: <root>/models--org--name/{refs/main, snapshots/<revision>/file -> ../../blobs/<hash>}.
 */
#include "fmt/model_dir.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/base_buf.h"
#include "base/base_file.h"
#include "base/base_mem.h"

#define REF_LIMIT 1024u

static bool ends_with(const char *s, const char *tail)
{
	size_t n = strlen(s), m = strlen(tail);
	return n >= m && strcmp(s + n - m, tail) == 0;
}

static bool is_file(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static bool is_dangling(const char *path)
{
	struct stat st;
	return lstat(path, &st) == 0 && S_ISLNK(st.st_mode) && stat(path, &st) != 0;
}

/* The small files are optional one by one, so a link to nothing would pass for "not published": end tokens, the template or the quantisation
 * would be lost without a word. Links of shards may dangle: config and index alone can be inspected, and st_set names what it misses. */
static nh_status check_link(const char *dir, const char *name, nh_error *e)
{
	if (!ends_with(name, ".json") && !ends_with(name, ".jinja")) return NH_OK;
	char *path = path_join(dir, name);
	if (!path) return ERR_NOMEM(e);
	nh_status s = NH_OK;
	if (is_dangling(path)) s = ERR(e, NH_ERR_NOTFOUND, "%s: is a link to a file that is not there (an unfinished download?)", path);
	mem_free(path);
	return s;
}

static nh_status look(model_dir *m, bool siblings, nh_error *e)
{
	file_list l = {0};
	nh_status s = NH_OK;
	m->kind = MODEL_DIR_CONFIG_ONLY;
	if (!siblings) return NH_OK;
	TRY(file_list_dir(&l, m->dir, e));
	for (size_t i = 0; s == NH_OK && i < l.count; i++) {
		s = check_link(m->dir, l.names[i], e);
		if (strcmp(l.names[i], "model.safetensors.index.json") == 0 && m->kind == MODEL_DIR_CONFIG_ONLY) m->kind = MODEL_DIR_INDEX_ONLY;
		if (ends_with(l.names[i], ".safetensors")) m->kind = MODEL_DIR_FULL;
	}
	file_list_free(&l);
	return s;
}

/* A file was named. Only one that is called config.json speaks for its folder; any other name stands alone. */
static nh_status from_file(const char *path, model_dir *m, nh_error *e)
{
	const char *base = path_base(path);
	if (!ends_with(base, ".json")) return ERR(e, NH_ERR_ARG, "%s: is a file, expected a model folder, a config.json or org/name", path);
	m->config = mem_strdup(path);
	m->dir = base == path ? mem_strdup(".") : mem_strndup(path, base - path > 1 ? (size_t)(base - path) - 1 : 1);
	if (!m->config || !m->dir) return ERR_NOMEM(e);
	return look(m, strcmp(base, "config.json") == 0, e);
}

static nh_status from_folder(const char *path, model_dir *m, nh_error *e)
{
	char *config = path_join(path, "config.json");
	if (!config) return ERR_NOMEM(e);
	nh_status s = NH_OK;
	if (is_dangling(config)) s = ERR(e, NH_ERR_NOTFOUND, "%s: is a link to a file that is not there (an unfinished download?)", config);
	else if (!is_file(config)) s = ERR(e, NH_ERR_NOTFOUND, "%s: has no config.json", path);
	if (s != NH_OK) {
		mem_free(config);
		return s;
	}
	m->config = config;
	m->dir = mem_strdup(path);
	if (!m->dir) return ERR_NOMEM(e);
	return look(m, true, e);
}

/* The word in refs/main, in fresh memory; NULL when there is none. It is only compared with names, never made part of a path. */
static char *read_ref(const char *repo)
{
	char *path = path_join(repo, "refs/main");
	buf b = {0};
	char *rev = NULL;
	if (path && file_read(path, REF_LIMIT, &b, NULL) == NH_OK) {
		size_t n = strcspn(b.data, " \t\r\n");
		b.data[n] = 0;
		if (n) rev = mem_strdup(b.data);
	}
	buf_deinit(&b);
	mem_free(path);
	return rev;
}

/* Folders only: the cache also keeps lock files. */
static void keep_folders(file_list *l, const char *dir)
{
	size_t kept = 0;
	for (size_t i = 0; i < l->count; i++) {
		char *path = path_join(dir, l->names[i]);
		bool keep = path && file_is_dir(path);
		mem_free(path);
		if (keep) l->names[kept++] = l->names[i];
		else mem_free(l->names[i]);
	}
	l->count = kept;
}

static nh_status pick_snapshot(const char *repo, const char *snapshots, model_dir *m, nh_error *e)
{
	file_list l = {0};
	TRY(file_list_dir(&l, snapshots, e));
	keep_folders(&l, snapshots);
	char *rev = read_ref(repo);
	const char *pick = l.count == 1 ? l.names[0] : NULL;
	for (size_t i = 0; rev && i < l.count; i++)
		if (strcmp(l.names[i], rev) == 0) pick = l.names[i];
	nh_status s = NH_OK;
	if (pick) {
		char *path = path_join(snapshots, pick);
		s = path ? from_folder(path, m, e) : ERR_NOMEM(e);
		mem_free(path);
	} else if (l.count == 0) s = ERR(e, NH_ERR_NOTFOUND, "%s: has no snapshot", snapshots);
	else {
		buf b = {0};
		for (size_t i = 0; i < l.count && i < 10; i++) buf_printf(&b, "%s%s", i ? ", " : "", l.names[i]);
		s = ERR(e, NH_ERR_CONFIG, "%s: has %zu snapshots and refs/main names none of them; name one: %s%s", repo, l.count,
		    b.data && !b.failed ? b.data : "?", l.count > 10 ? ", ..." : "");
		buf_deinit(&b);
	}
	mem_free(rev);
	file_list_free(&l);
	return s;
}

static nh_status from_repo(const char *repo, model_dir *m, nh_error *e)
{
	char *snapshots = path_join(repo, "snapshots");
	if (!snapshots) return ERR_NOMEM(e);
	nh_status s = pick_snapshot(repo, snapshots, m, e);
	mem_free(snapshots);
	return s;
}

/* "org/name" or "name" in the alphabet of the hub: a path can hide in nothing else. */
static bool is_repo_name(const char *s)
{
	size_t slashes = 0;
	if (strstr(s, "..") || *s == '/' || *s == '.' || *s == 0 || strlen(s) > 200) return false;
	for (const char *p = s; *p; p++) {
		if (*p == '/') {
			slashes++;
			if (p[1] == 0 || p[1] == '.') return false;
		} else if (!(*p >= 'a' && *p <= 'z') && !(*p >= 'A' && *p <= 'Z') && !(*p >= '0' && *p <= '9') && !strchr("-_.", *p)) return false;
	}
	return slashes <= 1;
}

static nh_status from_cache(const char *arg, const char *root, model_dir *m, nh_error *e)
{
	buf b = {0};
	buf_printf(&b, "%s/models--", root);
	for (const char *p = arg; *p; p++) {
		if (*p == '/') buf_str(&b, "--");
		else buf_char(&b, *p);
	}
	nh_status s;
	if (b.failed) s = ERR_NOMEM(e);
	else if (!file_is_dir(b.data)) s = ERR(e, NH_ERR_NOTFOUND, "%s: is no folder, and %s is not there either", arg, b.data);
	else s = from_repo(b.data, m, e);
	buf_deinit(&b);
	return s;
}

static nh_status resolve(const char *arg, const char *root, model_dir *m, nh_error *e)
{
	if (is_file(arg)) return from_file(arg, m, e);
	if (file_is_dir(arg)) {
		char *config = path_join(arg, "config.json"), *snapshots = path_join(arg, "snapshots");
		nh_status s = ERR_NOMEM(e);
		if (config && snapshots) s = !is_file(config) && file_is_dir(snapshots) ? from_repo(arg, m, e) : from_folder(arg, m, e);
		mem_free(config);
		mem_free(snapshots);
		return s;
	}
	if (is_dangling(arg)) return ERR(e, NH_ERR_NOTFOUND, "%s: is a link to nothing", arg);
	if (file_exists(arg)) return ERR(e, NH_ERR_ARG, "%s: is neither a folder nor a regular file", arg);
	if (!is_repo_name(arg)) return ERR(e, NH_ERR_NOTFOUND, "%s: no such folder, and not of the form org/name", arg);
	if (!root) return ERR(e, NH_ERR_NOTFOUND, "%s: no such folder, and no cache to look into", arg);
	return from_cache(arg, root, m, e);
}

nh_status model_dir_resolve(const char *arg, const char *cache_root, model_dir *out, nh_error *e)
{
	memset(out, 0, sizeof *out);
	if (!*arg) return ERR(e, NH_ERR_ARG, "the model argument is empty");
	nh_status s = resolve(arg, cache_root, out, e);
	if (s != NH_OK) model_dir_free(out);
	return s;
}

void model_dir_free(model_dir *m)
{
	mem_free(m->dir);
	mem_free(m->config);
	memset(m, 0, sizeof *m);
}

char *model_dir_file(const model_dir *m, const char *name)
{
	char *path = path_join(m->dir, name);
	if (path && is_file(path)) return path;
	mem_free(path);
	return NULL;
}
