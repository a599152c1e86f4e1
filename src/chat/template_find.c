/* SPDX-License-Identifier: Apache-2.0
 * template_find.c: see template_find.h. What breaks first: a template's name used as a file name, which must not leave the folder.
 */
#include "chat/template_find.h"

#include <string.h>

#include "base/base_file.h"
#include "base/base_json.h"
#include "base/base_mem.h"

#define TEMPLATE_LIMIT ((size_t)4 << 20)

void template_source_free(template_source *s)
{
	mem_free(s->text);
	mem_free(s->origin);
	*s = (template_source){0};
}

/* dir/a or dir/a/b. */
static char *join(const char *dir, const char *a, const char *b)
{
	char *first = path_join(dir, a), *both = first && b ? path_join(first, b) : NULL;
	if (!b) return first;
	mem_free(first);
	return both;
}

static nh_status read_file(template_source *out, char *path, nh_error *e)
{
	buf b = {0};
	nh_status s = file_read(path, TEMPLATE_LIMIT, &b, e);
	if (s == NH_OK) {
		out->len = b.len;
		out->text = buf_take(&b);
		if (!out->text) s = ERR_NOMEM(e);
	}
	buf_deinit(&b);
	if (s == NH_OK) out->origin = path;
	else mem_free(path);
	return s;
}

static nh_status take_text(template_source *out, const json_t *text, const char *path, const char *which, nh_error *e)
{
	buf origin = {0};
	buf_printf(&origin, "%s: chat_template", path);
	if (which) buf_printf(&origin, "[%s]", which);
	out->len = json_string_length(text);
	out->text = mem_strndup(json_string_value(text), out->len);
	out->origin = buf_take(&origin);
	if (out->text && out->origin) return NH_OK;
	template_source_free(out);
	return ERR_NOMEM(e);
}

/* One of [{"name": ..., "template": ...}, ...], or of {name: template, ...}; NULL when absent. */
static const json_t *named(const json_t *all, const char *name)
{
	if (json_is_object(all)) return json_object_get(all, name);
	for (size_t i = 0; i < json_array_size(all); i++) {
		const json_t *one = json_array_get(all, i);
		const char *its = json_string_value(json_object_get(one, "name"));
		if (its && strcmp(its, name) == 0) return json_object_get(one, "template");
	}
	return NULL;
}

static nh_status none_of_name(const json_t *all, const char *path, const char *which, nh_error *e)
{
	buf list = {0};
	for (size_t i = 0; i < json_array_size(all); i++) {
		const char *its = json_string_value(json_object_get(json_array_get(all, i), "name"));
		buf_printf(&list, "%s%s", list.len ? ", " : "", its ? its : "?");
	}
	nh_status s = ERR(e, NH_ERR_NOTFOUND, "%s: chat_template: has none named %s, only: %s", path, which, list.data ? list.data : "");
	buf_deinit(&list);
	return s;
}

static nh_status from_config(template_source *out, const char *folder, const char *path, const char *which, bool has_tools, nh_error *e)
{
	json_t *config = NULL;
	nh_status s = NH_OK;
	if (file_exists(path)) TRY(jsn_load_path(&config, path, JSON_LIMIT_CONFIG, e));
	const json_t *all = json_object_get(config, "chat_template");
	if (!all || json_is_null(all)) {
		s = ERR(e, NH_ERR_NOTFOUND,
		    "%s: no chat_template.jinja, and no chat_template in tokenizer_config.json: give one with --chat-template", folder);
	} else if (json_is_string(all)) {
		if (which && strcmp(which, "default") != 0)
			s = ERR(e, NH_ERR_NOTFOUND, "%s: chat_template: has none named %s, only one without a name", path, which);
		else s = take_text(out, all, path, NULL, e);
	} else if (json_is_array(all) || json_is_object(all)) {
		if (!which) which = has_tools && named(all, "tool_use") ? "tool_use" : "default";
		const json_t *text = named(all, which);
		if (!text) s = none_of_name(all, path, which, e);
		else if (!json_is_string(text)) s = ERR(e, NH_ERR_CONFIG, "%s: chat_template: the template named %s is not a string", path, which);
		else s = take_text(out, text, path, which, e);
	} else {
		char found[64];
		jsn_brief(all, found);
		s = ERR(e, NH_ERR_CONFIG, "%s: chat_template: is %s, expected a string or a list of named ones", path, found);
	}
	json_decref(config);
	return s;
}

nh_status template_find(template_source *out, const char *folder, const char *which, bool has_tools, nh_error *e)
{
	static const char MORE[] = "additional_chat_templates";
	*out = (template_source){0};
	if (which && (strchr(which, '/') || which[0] == '.' || strlen(which) > 100))
		return ERR(e, NH_ERR_ARG, "chat template name: is \"%.100s\", expected a plain name", which);
	char *path = path_join(folder, "chat_template.jinja");
	if (!path) return ERR_NOMEM(e);
	if (file_exists(path)) {
		const char *other = which ? which : has_tools ? "tool_use" : NULL;
		if (other && strcmp(other, "default") != 0) {
			buf file = {0};
			buf_printf(&file, "%s.jinja", other);
			char *name = buf_take(&file), *more = name ? join(folder, MORE, name) : NULL;
			mem_free(name);
			bool there = more && file_exists(more);
			if (!more || there || which) mem_free(path);
			if (!more) return ERR_NOMEM(e);
			if (there) return read_file(out, more, e);
			nh_status s = which ? ERR(e, NH_ERR_NOTFOUND, "%s: no such chat template", more) : NH_OK;
			mem_free(more);
			if (which) return s;
		}
		return read_file(out, path, e);
	}
	mem_free(path);
	path = path_join(folder, "tokenizer_config.json");
	if (!path) return ERR_NOMEM(e);
	nh_status s = from_config(out, folder, path, which, has_tools, e);
	mem_free(path);
	return s;
}

void chat_tokens_free(chat_tokens *t)
{
	/* chat_tokens holds borrowed text for its other users; these were made by chat_tokens_load. */
	mem_free((void *)(uintptr_t)t->bos);
	mem_free((void *)(uintptr_t)t->eos);
	mem_free((void *)(uintptr_t)t->unk);
	mem_free((void *)(uintptr_t)t->pad);
	*t = (chat_tokens){0};
}

static nh_status token(const json_t *config, const char *path, const char *key, const char **out, nh_error *e)
{
	const json_t *v = json_object_get(config, key), *text = json_is_object(v) ? json_object_get(v, "content") : v;
	if (!v || json_is_null(v)) return NH_OK;
	if (!json_is_string(text)) {
		char found[64];
		jsn_brief(v, found);
		return ERR(e, NH_ERR_CONFIG, "%s: %s: is %s, expected a string or an object with content", path, key, found);
	}
	*out = mem_strndup(json_string_value(text), json_string_length(text));
	return *out ? NH_OK : ERR_NOMEM(e);
}

nh_status chat_tokens_load(chat_tokens *out, const char *folder, nh_error *e)
{
	*out = (chat_tokens){0};
	char *path = path_join(folder, "tokenizer_config.json");
	json_t *config = NULL;
	if (!path) return ERR_NOMEM(e);
	nh_status s = file_exists(path) ? jsn_load_path(&config, path, JSON_LIMIT_CONFIG, e) : NH_OK;
	if (s == NH_OK) s = token(config, path, "bos_token", &out->bos, e);
	if (s == NH_OK) s = token(config, path, "eos_token", &out->eos, e);
	if (s == NH_OK) s = token(config, path, "unk_token", &out->unk, e);
	if (s == NH_OK) s = token(config, path, "pad_token", &out->pad, e);
	if (s != NH_OK) chat_tokens_free(out);
	json_decref(config);
	mem_free(path);
	return s;
}
