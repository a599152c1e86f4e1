/* SPDX-License-Identifier: Apache-2.0
 * mk.c: the folder of a random checkpoint: checks, order of files, and how it appears. Everything is written into a folder beside the
 * target, which takes the target's name at the end; with --force on a folder that has files, they move in one by one, config.json last.
 * Breaks first: a run that fails or is stopped leaves the target as it was.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base_file.h"
#include "base/base_mem.h"
#include "cmd/mkmodel/mk.h"
#include "fmt/config.h"

static nh_status write_all(const char *dir, const mk_options *o, const json_t *config, const nm_config *c, nh_error *e)
{
	mk_plan plan;
	TRY(mk_plan_open(&plan, c, o, e));
	json_t *in_config = NULL, *hf = NULL, *whole = json_copy((json_t *)(uintptr_t)config);
	nh_status s = whole == NULL ? ERR_NOMEM(e) : mk_quant(&plan, o->format, &in_config, &hf, e);
	if (s == NH_OK && in_config != NULL) json_object_set(whole, "quantization_config", in_config);
	if (s == NH_OK) s = mk_tensor_files(dir, &plan, o, e);
	if (s == NH_OK) s = mk_text_files(dir, c, o, e);
	if (s == NH_OK && hf != NULL) s = mk_put_json(dir, "hf_quant_config.json", hf, e);
	if (s == NH_OK) s = mk_put_json(dir, "config.json", whole, e);
	json_decref(in_config);
	json_decref(hf);
	json_decref(whole);
	mk_plan_close(&plan);
	return s;
}

/* Every file that mk writes; a folder with others in it is not ours to empty. */
static bool is_model_file(const char *name)
{
	static const char *const names[] = {"config.json", "hf_quant_config.json", "generation_config.json", "tokenizer.json",
	    "tokenizer_config.json", "chat_template.jinja", "model.safetensors.index.json"};
	size_t n = strlen(name);
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strcmp(name, names[i]) == 0) return true;
	return strncmp(name, "model", 5) == 0 && n > 12 && strcmp(name + n - 12, ".safetensors") == 0;
}

static void remove_files(const char *dir)
{
	file_list l = {0};
	if (file_list_dir(&l, dir, NULL) != NH_OK) return;
	for (size_t i = 0; i < l.count; i++) {
		char *path = is_model_file(l.names[i]) ? path_join(dir, l.names[i]) : NULL;
		if (path != NULL) unlink(path);
		mem_free(path);
	}
	file_list_free(&l);
}

static nh_status move_files(const char *from, const char *to, nh_error *e)
{
	file_list l = {0};
	nh_status s = file_list_dir(&l, from, e);
	for (int last = 0; last < 2; last++) {
		for (size_t i = 0; s == NH_OK && i < l.count; i++) {
			if ((strcmp(l.names[i], "config.json") == 0) != (last == 1)) continue;
			char *a = path_join(from, l.names[i]), *b = path_join(to, l.names[i]);
			if (a == NULL || b == NULL) s = ERR_NOMEM(e);
			else if (rename(a, b) != 0) s = ERR(e, NH_ERR_IO, "%s: %s", b, strerror(errno));
			mem_free(a);
			mem_free(b);
		}
	}
	file_list_free(&l);
	return s;
}

static nh_status check_target(const char *out, bool force, bool *exists, nh_error *e)
{
	*exists = false;
	if (!file_exists(out)) return NH_OK;
	if (!file_is_dir(out)) return ERR(e, NH_ERR_IO, "%s: is there and is not a folder", out);
	*exists = true;
	file_list l = {0};
	TRY(file_list_dir(&l, out, e));
	size_t count = l.count;
	file_list_free(&l);
	if (count > 0 && !force) return ERR(e, NH_ERR_IO, "%s: has %zu files; use --force to write into it", out, count);
	return NH_OK;
}

static nh_status place(const char *temp, const char *out, bool exists, nh_error *e)
{
	if (!exists) return rename(temp, out) == 0 ? NH_OK : ERR(e, NH_ERR_IO, "%s: %s", out, strerror(errno));
	remove_files(out); /* shards of another number would be taken for part of the new model */
	TRY(move_files(temp, out, e));
	rmdir(temp);
	return NH_OK;
}

nh_status mk_write(const char *out, const mk_options *o, nh_error *e)
{
	bool exists;
	size_t n = strlen(out);
	while (n > 1 && out[n - 1] == '/') n--; /* "name/" and "name" are the same folder */
	buf target = {0}, temp = {0};
	buf_append(&target, out, n);
	buf_printf(&temp, "%.*s.tmp.%ld", (int)n, out, (long)getpid());
	if (target.failed || temp.failed || n == 0) {
		buf_deinit(&target);
		buf_deinit(&temp);
		return n == 0 ? ERR(e, NH_ERR_ARG, "the name of the folder is empty") : ERR_NOMEM(e);
	}
	json_t *config = NULL;
	const char *source = o->like != NULL ? o->like : o->from != NULL ? o->from : "config";
	nm_config c = {0};
	nh_status s = check_target(target.data, o->force, &exists, e);
	if (s == NH_OK) s = mk_config(&config, o, e);
	if (s == NH_OK) s = config_check(config, source, e);
	if (s == NH_OK) s = nm_config_read(&c, config, source, o->log, e);
	generation tokens; /* only whether they can be read: an end token outside the vocabulary would make a folder that nothing opens */
	if (s == NH_OK) s = generation_read(&tokens, config, source, NULL, NULL, e);
	if (s == NH_OK && mkdir(temp.data, 0777) != 0) s = ERR(e, NH_ERR_IO, "%s: %s", temp.data, strerror(errno));
	if (s == NH_OK) {
		s = write_all(temp.data, o, config, &c, e);
		if (s == NH_OK) s = place(temp.data, target.data, exists, e);
		if (s != NH_OK) {
			remove_files(temp.data);
			rmdir(temp.data);
		}
	}
	nm_config_deinit(&c);
	json_decref(config);
	buf_deinit(&target);
	buf_deinit(&temp);
	return s;
}
