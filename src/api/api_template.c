/* SPDX-License-Identifier: Apache-2.0
 * api_template.c: chat templates of nh_text.h: found, parsed once, rendered with a request. Where a folder keeps one template for requests
 * with tools and one for the others, both are one nh_template.
 */
#include <string.h>

#include "api/api_impl.h"
#include "base/base_json.h"
#include "base/base_mem.h"

#define TEMPLATE_LIMIT ((size_t)16 << 20)

static nh_status from_file(nh_template *t, const char *path, nh_error *e)
{
	buf text = {0};
	nh_status s = file_read(path, TEMPLATE_LIMIT, &text, e);
	if (s == NH_OK) s = template_open(&t->plain, text.data ? text.data : "", text.len, path, e);
	buf_deinit(&text);
	return s;
}

static nh_status from_folder(nh_template *t, const char *folder, const char *name, nh_error *e)
{
	template_source plain, tools = {0};
	TRY(template_find(&plain, folder, name, false, e));
	nh_status s = template_open(&t->plain, plain.text, plain.len, plain.origin, e);
	if (s == NH_OK && !name) s = template_find(&tools, folder, NULL, true, e);
	if (s == NH_OK && !name && strcmp(plain.origin, tools.origin) != 0)
		s = template_open(&t->tools, tools.text, tools.len, tools.origin, e);
	template_source_free(&plain);
	template_source_free(&tools);
	return s;
}

/* The folder that a file lies in, in fresh memory. */
static char *folder_of(const char *path)
{
	const char *base = path_base(path);
	if (base == path) return mem_strdup(".");
	return mem_strndup(path, base - path > 1 ? (size_t)(base - path) - 1 : 1);
}

nh_status nh_template_open(nh_template **out, const char *path, const char *name, nh_error *e)
{
	*out = NULL;
	bool is_folder = file_is_dir(path);
	if (!is_folder && name) return ERR(e, NH_ERR_ARG, "%s: is a file, which holds one template: it has no %.60s", path, name);
	nh_template *t = mem_alloc(sizeof *t);
	char *folder = is_folder ? mem_strdup(path) : folder_of(path);
	nh_status s = t && folder ? NH_OK : ERR_NOMEM(e);
	if (s == NH_OK) s = is_folder ? from_folder(t, folder, name, e) : from_file(t, path, e);
	if (s == NH_OK) s = chat_tokens_load(&t->special, folder, e);
	mem_free(folder);
	if (s == NH_OK) *out = t;
	else nh_template_close(t);
	return s;
}

nh_status api_template_of_model(nh_template **out, const char *folder, const char *path, nh_error *e)
{
	*out = NULL;
	nh_template *t = mem_alloc(sizeof *t);
	if (!t) return ERR_NOMEM(e);
	nh_status s = path ? from_file(t, path, e) : from_folder(t, folder, NULL, &t->error);
	if (s == NH_OK) s = chat_tokens_load(&t->special, folder, path ? e : &t->error);
	if (s == NH_ERR_NOMEM || (path && s != NH_OK)) {
		nh_template_close(t);
		return path ? s : ERR_NOMEM(e);
	}
	if (s == NH_ERR_NOTFOUND) nh_template_close(t);
	else *out = t;
	return NH_OK;
}

void nh_template_close(nh_template *t)
{
	if (!t) return;
	template_close(t->plain);
	template_close(t->tools);
	chat_tokens_free(&t->special);
	mem_free(t);
}

const nh_template *nh_model_template(const nh_model *m) { return m->chat; }

static nh_status print(const chat_template *c, const nh_template *t, const nh_tokenizer *marks, const json_t *request, int64_t now_seconds,
    buf *out, nh_error *e)
{
	return marks ? chat_render_marked(c, request, &t->special, now_seconds, marks->tok, out, e)
	             : chat_render(c, request, &t->special, now_seconds, out, e);
}

static nh_status render(
    const nh_template *t, const nh_tokenizer *marks, const json_t *request, uint32_t flags, int64_t now_seconds, buf *out, nh_error *e)
{
	const json_t *tools = json_object_get(request, "tools");
	const chat_template *c = t->tools && json_array_size(tools) > 0 ? t->tools : t->plain;
	if (!(flags & NH_TEMPLATE_ADAPT)) return print(c, t, marks, request, now_seconds, out, e);
	json_t *adapted = NULL;
	TRY(chat_adapt(c, request, &adapted, e));
	nh_status s = print(c, t, marks, adapted, now_seconds, out, e);
	json_decref(adapted);
	return s;
}

/* marks: NULL for a prompt without. */
static nh_status to_text(const nh_template *t, const nh_tokenizer *marks, const char *request_json, size_t bytes, uint32_t flags,
    int64_t now_seconds, char **text, size_t *text_bytes, nh_error *e)
{
	json_t *request = NULL;
	buf out = {0};
	*text = NULL;
	if (text_bytes) *text_bytes = 0;
	if (!t) return ERR(e, NH_ERR_NOTFOUND, "the model has no chat template");
	if (t->error.code != 0) {
		if (e) *e = t->error;
		return (nh_status)t->error.code;
	}
	TRY(jsn_load_text(&request, request_json, bytes, "request", e));
	nh_status s = json_is_object(request) ? render(t, marks, request, flags, now_seconds, &out, e)
	                                      : ERR(e, NH_ERR_ARG, "request: is no JSON object, expected one with messages");
	json_decref(request);
	if (s == NH_OK) {
		if (text_bytes) *text_bytes = out.len;
		*text = buf_take(&out);
		if (!*text) s = ERR_NOMEM(e);
	}
	buf_deinit(&out);
	return s;
}

nh_status nh_template_render(const nh_template *t, const char *request_json, size_t bytes, uint32_t flags, int64_t now_seconds, char **text,
    size_t *text_bytes, nh_error *e)
{
	return to_text(t, NULL, request_json, bytes, flags, now_seconds, text, text_bytes, e);
}

nh_status nh_template_render_marked(const nh_template *t, const nh_tokenizer *marks, const char *request_json, size_t bytes, uint32_t flags,
    int64_t now_seconds, char **text, size_t *text_bytes, nh_error *e)
{
	if (marks) return to_text(t, marks, request_json, bytes, flags, now_seconds, text, text_bytes, e);
	*text = NULL;
	if (text_bytes) *text_bytes = 0;
	return ERR(e, NH_ERR_NOTFOUND, "the model has no tokenizer.json");
}
