/* SPDX-License-Identifier: Apache-2.0
 * test_chat_golden.c: the published templates against what transformers rendered with them, errors included. Needs the shared data.
 */
#include "test.h"

#include <string.h>

#include "base/base_file.h"
#include "base/base_json.h"
#include "base/base_mem.h"
#include "chat/chat_request.h"

#define GOLDENS NH_SHARED_DIR "/goldens/chat_templates.json"
static const char *const NAMES[] = {"tiny", "nano3", "lightning35", "nano-v2"};
static const char *const PATHS[] = {"models/tiny-nvfp4/chat_template.jinja", "data/chat_templates/nano3.jinja",
    "data/chat_templates/lightning35.jinja", "data/chat_templates/nano-v2.jinja"};

static chat_template *open_one(const char *relative)
{
	buf b = {0}, path = {0};
	nh_error e;
	chat_template *t;
	buf_printf(&path, "%s/%s", NH_SHARED_DIR, relative);
	assert_int_equal(file_read(path.data, 1 << 20, &b, &e), NH_OK);
	assert_int_equal(template_open(&t, b.data, b.len, relative, &e), NH_OK);
	buf_deinit(&b);
	buf_deinit(&path);
	return t;
}

/* The request that stands for an entry's call of apply_chat_template. */
static json_t *request_of(const json_t *entry)
{
	json_t *r = json_object();
	json_object_set(r, "messages", json_object_get(entry, "messages"));
	json_object_set(r, "tools", json_object_get(entry, "tools"));
	json_object_set(r, "add_generation_prompt", json_object_get(entry, "add_generation_prompt"));
	json_object_set(r, "chat_template_kwargs", json_object_get(entry, "kwargs"));
	return r;
}

static bool matches(const json_t *entry, nh_status s, const buf *out, const nh_error *e)
{
	const json_t *want = json_object_get(entry, "expected");
	if (want) return s == NH_OK && out->len == json_string_length(want) && memcmp(out->data, json_string_value(want), out->len) == 0;
	/* "UndefinedError: 'x' is undefined": our error says the same after the exception's name. */
	const char *error = json_string_value(json_object_get(entry, "error")), *text = error ? strstr(error, ": ") : NULL;
	return s != NH_OK && text && strstr(e->text, text + 2) != NULL;
}

static void equals_transformers(void **state)
{
	(void)state;
	if (!file_exists(GOLDENS)) NOT_RUN("no %s", GOLDENS);
	json_t *goldens;
	nh_error e;
	assert_int_equal(jsn_load_path(&goldens, GOLDENS, JSON_LIMIT_LARGE, &e), NH_OK);
	chat_template *t[4];
	size_t rendered = 0, failed = 0, wrong = 0;
	for (int i = 0; i < 4; i++) t[i] = open_one(PATHS[i]);
	for (size_t i = 0; i < json_array_size(goldens); i++) {
		const json_t *entry = json_array_get(goldens, i);
		const char *name = json_string_value(json_object_get(entry, "template"));
		int k = 0;
		while (k < 4 && strcmp(name, NAMES[k]) != 0) k++;
		assert_true(k < 4);
		json_t *request = request_of(entry);
		buf out = {0};
		nh_status s = chat_render(t[k], request, NULL, -1, &out, &e);
		if (matches(entry, s, &out, &e)) {
			rendered += s == NH_OK;
			failed += s != NH_OK;
		} else {
			wrong++;
			printf("%s %s: %s\n", name, json_string_value(json_object_get(entry, "name")), s == NH_OK ? out.data : e.text);
		}
		buf_deinit(&out);
		json_decref(request);
	}
	printf("goldens: %zu rendered equal, %zu failed as they must, of %zu\n", rendered, failed, json_array_size(goldens));
	for (int i = 0; i < 4; i++) template_close(t[i]);
	json_decref(goldens);
	assert_int_equal(wrong, 0);
	assert_true(rendered >= 200 && failed >= 10);
	assert_int_equal(mem_live(), 0);
}

/* Switches and OpenAI's forms, through chat_adapt, on the template that reads switches only from chat_template_kwargs. */
static void adapted_requests_work_everywhere(void **state)
{
	(void)state;
	if (!file_exists(GOLDENS)) NOT_RUN("no %s", GOLDENS);
	const char *text = "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"Go\"}]},"
	                   "{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"id\": \"1\", \"type\": \"function\", \"function\":"
	                   "{\"name\": \"f\", \"arguments\": \"{\\\"city\\\": \\\"Paris\\\"}\"}}]}, {\"role\": \"tool\", \"content\": \"ok\"}],"
	                   "\"chat_template_kwargs\": {\"enable_thinking\": false}}";
	nh_error e;
	json_t *request, *adapted;
	assert_int_equal(jsn_load_text(&request, text, strlen(text), "r", &e), NH_OK);
	for (int i = 0; i < 3; i++) { /* nano-v2 reads its switch from the text of messages */
		chat_template *t = open_one(PATHS[i]);
		buf out = {0};
		assert_int_equal(chat_adapt(t, request, &adapted, &e), NH_OK);
		assert_int_equal(chat_render(t, adapted, NULL, -1, &out, &e), NH_OK);
		assert_non_null(strstr(out.data, "<|im_start|>user\nGo<|im_end|>"));
		assert_non_null(strstr(out.data, "<function=f>\n<parameter=city>\nParis\n</parameter>\n</function>"));
		assert_string_equal(out.data + out.len - 37, "<|im_start|>assistant\n<think></think>");
		buf_deinit(&out);
		json_decref(adapted);
		template_close(t);
	}
	json_decref(request);
	assert_int_equal(mem_live(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(equals_transformers), cmocka_unit_test(adapted_requests_work_everywhere)};
	return cmocka_run_group_tests_name("chat_golden", tests, NULL, NULL);
}
