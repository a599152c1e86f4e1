/* SPDX-License-Identifier: Apache-2.0
 * qz_state.c: the folder of a run that may be stopped, and the file in it that says what was asked and measured. Knows names, no tensor.
 * Breaks first: a folder is continued only by a run that would have written the same bytes; a file under its final name is whole.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base_file.h"
#include "base/base_json.h"
#include "base/base_mem.h"
#include "cmd/quantize/qz.h"

/* What a killed run was writing. */
static void remove_temporaries(const char *dir)
{
	file_list l = {0};
	if (file_list_dir(&l, dir, NULL) != NH_OK) return;
	for (size_t i = 0; i < l.count; i++) {
		char *path = strstr(l.names[i], ".tmp.") != NULL ? path_join(dir, l.names[i]) : NULL;
		if (path != NULL) unlink(path);
		mem_free(path);
	}
	file_list_free(&l);
}

static nh_status same_facts(const json_t *now, const json_t *then, const char *path, nh_error *e)
{
	const char *key;
	json_t *v;
	json_object_foreach((json_t *)(uintptr_t)now, key, v)
	{
		const json_t *old = json_object_get(then, key);
		char a[64], b[64];
		if (json_equal(v, old)) continue;
		jsn_brief(old, a);
		jsn_brief(v, b);
		return ERR(
		    e, NH_ERR_CONFIG, "%s: %s: is %s, this run has %s: the folder was begun with another source or other options", path, key, a, b);
	}
	return NH_OK;
}

static nh_status read_amax(qz_state *s, const json_t *doc, const char *path, nh_error *e)
{
	const json_t *list = json_object_get(doc, "amax");
	if (json_array_size(list) != s->amax_count)
		return ERR(e, NH_ERR_CONFIG, "%s: amax: has %zu numbers, expected %zu", path, json_array_size(list), s->amax_count);
	if (s->amax_count == 0) return NH_OK;
	s->amax = mem_array(s->amax_count, sizeof *s->amax);
	if (s->amax == NULL) return ERR_NOMEM(e);
	for (size_t i = 0; i < s->amax_count; i++) s->amax[i] = jsn_number(json_array_get(list, i));
	return jsn_get_int(doc, path, "tokens_read", 0, 0, INT64_MAX, &s->tokens, e);
}

static nh_status resume_from(qz_state *s, const char *path, nh_error *e)
{
	json_t *doc = NULL;
	TRY(jsn_load_path(&doc, path, JSON_LIMIT_CONFIG, e));
	nh_status st = same_facts(s->facts, json_object_get(doc, "facts"), path, e);
	if (st == NH_OK) st = read_amax(s, doc, path, e);
	json_decref(doc);
	if (st == NH_OK) remove_temporaries(s->out);
	return st;
}

nh_status qz_state_open(qz_state *s, const char *out, json_t *facts, bool resume, size_t amax_count, nh_error *e)
{
	file_list l = {0};
	*s = (qz_state){.out = mem_strdup(out), .facts = facts, .amax_count = amax_count};
	char *path = path_join(out, QZ_STATE), *config = path_join(out, "config.json");
	nh_status st = s->out != NULL && path != NULL && config != NULL && facts != NULL ? NH_OK : ERR_NOMEM(e);
	if (st == NH_OK && file_exists(out)) {
		if (!file_is_dir(out)) st = ERR(e, NH_ERR_IO, "%s: is there and is not a folder", out);
		else st = file_list_dir(&l, out, e);
	}
	if (st == NH_OK && l.count > 0) {
		bool begun = file_exists(path);
		if (begun && resume) st = resume_from(s, path, e);
		else if (begun) st = ERR(e, NH_ERR_STATE, "%s: a run was stopped here: --resume continues it", out);
		else if (resume && file_exists(config)) st = ERR(e, NH_ERR_STATE, "%s: is complete, there is nothing to resume", out);
		else st = ERR(e, NH_ERR_STATE, "%s: has %zu files, expected a new or empty folder", out, l.count);
	}
	file_list_free(&l);
	mem_free(path);
	mem_free(config);
	return st;
}

nh_status qz_state_save(const qz_state *s, nh_error *e)
{
	if (mkdir(s->out, 0777) != 0 && errno != EEXIST) return ERR(e, NH_ERR_IO, "%s: %s", s->out, strerror(errno));
	json_t *list = json_array();
	for (size_t i = 0; s->amax != NULL && i < s->amax_count; i++) json_array_append_new(list, json_real(s->amax[i]));
	json_t *doc = json_pack("{s:O, s:I, s:o}", "facts", s->facts, "tokens_read", (json_int_t)s->tokens, "amax", list);
	char *text = doc != NULL ? json_dumps(doc, JSON_INDENT(1) | JSON_REAL_PRECISION(17)) : NULL, *path = path_join(s->out, QZ_STATE);
	file_writer w;
	nh_status st = text != NULL && path != NULL ? file_writer_open(&w, path, e) : ERR_NOMEM(e);
	if (st == NH_OK) {
		file_writer_put(&w, text, strlen(text));
		st = file_writer_commit(&w, e);
	}
	json_decref(doc);
	free(text);
	mem_free(path);
	return st;
}

void qz_state_finish(const qz_state *s)
{
	char *path = path_join(s->out, QZ_STATE);
	if (path != NULL) unlink(path);
	mem_free(path);
}

void qz_state_close(qz_state *s)
{
	mem_free(s->out);
	mem_free(s->amax);
	json_decref(s->facts);
	*s = (qz_state){0};
}
