/* SPDX-License-Identifier: Apache-2.0
 * test_template_find.c: which template of a folder wins, named ones, and special tokens in both of their shapes.
 */
#include "test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base_file.h"
#include "base/base_mem.h"
#include "chat/template_find.h"

static char folder[300];

static void put(const char *name, const char *text)
{
	char path[400];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void take(const char *name)
{
	char path[400];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	remove(path);
}

static int make_folder(void **state)
{
	(void)state;
	snprintf(folder, sizeof folder, "%s/template_find_XXXXXX", NH_BINARY_DIR);
	return mkdtemp(folder) ? 0 : -1;
}

static int drop_folder(void **state)
{
	(void)state;
	take("chat_template.jinja");
	take("tokenizer_config.json");
	take("additional_chat_templates/tool_use.jinja");
	take("additional_chat_templates");
	return rmdir(folder);
}

static void finds(const char *which, bool tools, const char *text, const char *origin)
{
	template_source s;
	nh_error e = {0};
	if (template_find(&s, folder, which, tools, &e) != NH_OK) fail_msg("%s", e.text);
	assert_string_equal(s.text, text);
	assert_int_equal(s.len, strlen(text));
	assert_non_null(strstr(s.origin, origin));
	template_source_free(&s);
	assert_int_equal(mem_live(), 0);
}

static void fails(const char *which, nh_status code, const char *part)
{
	template_source s;
	nh_error e = {0};
	assert_int_equal(template_find(&s, folder, which, false, &e), code);
	if (!strstr(e.text, part)) fail_msg("%s: has no %s", e.text, part);
	assert_null(s.text);
	assert_int_equal(mem_live(), 0);
}

static void order_of_places(void **state)
{
	(void)state;
	fails(NULL, NH_ERR_NOTFOUND, "--chat-template");
	put("tokenizer_config.json", "{\"chat_template\": null}");
	fails(NULL, NH_ERR_NOTFOUND, "--chat-template");
	put("tokenizer_config.json", "{\"chat_template\": \"one\"}");
	finds(NULL, true, "one", "tokenizer_config.json: chat_template");
	finds("default", false, "one", "tokenizer_config.json");
	fails("rag", NH_ERR_NOTFOUND, "rag");
	put("tokenizer_config.json", "{\"chat_template\": 3}");
	fails(NULL, NH_ERR_CONFIG, "chat_template: is 3");
	put("tokenizer_config.json",
	    "{\"chat_template\": [{\"name\": \"default\", \"template\": \"D\"}, {\"name\": \"tool_use\", \"template\": \"T\"},"
	    "{\"name\": \"bad\", \"template\": 7}, {}]}");
	finds(NULL, false, "D", "[default]");
	finds(NULL, true, "T", "[tool_use]");
	finds("default", true, "D", "[default]");
	fails("rag", NH_ERR_NOTFOUND, "default, tool_use, bad, ?");
	fails("bad", NH_ERR_CONFIG, "bad");
	put("tokenizer_config.json", "{\"chat_template\": [{\"name\": \"default\", \"template\": \"D\"}]}");
	finds(NULL, true, "D", "[default]");
	put("tokenizer_config.json", "{\"chat_template\": [{\"name\": \"only\", \"template\": \"O\"}]}");
	fails(NULL, NH_ERR_NOTFOUND, "only");
	put("chat_template.jinja", "file");
	finds(NULL, false, "file", "/chat_template.jinja");
	finds(NULL, true, "file", "/chat_template.jinja");
	fails("tool_use", NH_ERR_NOTFOUND, "tool_use.jinja");
	char path[400];
	snprintf(path, sizeof path, "%s/additional_chat_templates", folder);
	assert_int_equal(mkdir(path, 0700), 0);
	put("additional_chat_templates/tool_use.jinja", "more");
	finds(NULL, true, "more", "additional_chat_templates/tool_use.jinja");
	finds("tool_use", false, "more", "tool_use.jinja");
	finds(NULL, false, "file", "/chat_template.jinja");
	fails("../secret", NH_ERR_ARG, "plain name");
	fails(".hidden", NH_ERR_ARG, "plain name");
}

static void special_tokens(void **state)
{
	(void)state;
	chat_tokens t;
	nh_error e;
	take("tokenizer_config.json");
	assert_int_equal(chat_tokens_load(&t, folder, &e), NH_OK);
	assert_null(t.bos);
	put("tokenizer_config.json",
	    "{\"bos_token\": \"<s>\", \"eos_token\": {\"content\": \"</s>\", \"special\": true}, \"unk_token\": null}");
	assert_int_equal(chat_tokens_load(&t, folder, &e), NH_OK);
	assert_string_equal(t.bos, "<s>");
	assert_string_equal(t.eos, "</s>");
	assert_null(t.unk);
	assert_null(t.pad);
	chat_tokens_free(&t);
	put("tokenizer_config.json", "{\"bos_token\": \"<s>\", \"pad_token\": 5}");
	assert_int_equal(chat_tokens_load(&t, folder, &e), NH_ERR_CONFIG);
	assert_non_null(strstr(e.text, "pad_token: is 5"));
	assert_null(t.bos);
	assert_int_equal(mem_live(), 0);
}

static void shared_model(void **state)
{
	(void)state;
	const char *model = NH_SHARED_DIR "/models/tiny-nvfp4";
	if (!file_exists(model)) NOT_RUN("no %s", model);
	template_source s;
	chat_tokens t;
	nh_error e;
	assert_int_equal(template_find(&s, model, NULL, true, &e), NH_OK);
	assert_true(s.len > 1000);
	template_source_free(&s);
	assert_int_equal(chat_tokens_load(&t, model, &e), NH_OK);
	assert_string_equal(t.eos, "<|im_end|>");
	chat_tokens_free(&t);
	assert_int_equal(mem_live(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(order_of_places), cmocka_unit_test(special_tokens), cmocka_unit_test(shared_model)};
	return cmocka_run_group_tests_name("template_find", tests, make_folder, drop_folder);
}
