/* SPDX-License-Identifier: Apache-2.0
 * test_api_text.c: tokenisers, streaming text and templates through the public interface.
 */
#include "helper_tiny.h"

#include <string.h>
#include <sys/stat.h>

#include "base/base_file.h"
#include "base/base_mem.h"
#include "test.h"

static const char TEXT[] = "A cat, \xe2\x82\xac 5 and <think> \xf0\x9f\x98\xba.";

static void there_and_back(void **state)
{
	(void)state;
	static const char *const PATHS[] = {TINY, TINY "/tokenizer.json"};
	for (int k = 0; k < 2; k++) {
		nh_tokenizer *t;
		nh_error e = {0};
		int32_t *ids;
		size_t n, bytes;
		char *text;
		assert_int_equal(nh_tokenizer_open(&t, PATHS[k], &e), NH_OK);
		assert_int_equal(nh_tokenizer_vocab(t), 4096);
		assert_int_equal(nh_token_find(t, "<think>"), 12);
		assert_int_equal(nh_token_find(t, "no such token"), -1);
		assert_memory_equal(nh_token_piece(t, 12, &bytes), "<think>", 7);
		assert_null(nh_token_piece(t, 1 << 20, &bytes));
		assert_int_equal(nh_tokenize(t, TEXT, strlen(TEXT), 0, &ids, &n, &e), NH_OK);
		bool think = false;
		for (size_t i = 0; i < n; i++) think |= ids[i] == 12;
		assert_true(think);
		assert_int_equal(nh_detokenize(t, ids, n, false, &text, &bytes, &e), NH_OK);
		assert_int_equal(bytes, strlen(TEXT));
		assert_string_equal(text, TEXT);
		nh_free(text);

		/* In pieces: the same bytes, whole characters. */
		nh_detok *d;
		char streamed[128] = "";
		const char *piece;
		assert_int_equal(nh_detok_open(&d, t, false, &e), NH_OK);
		for (size_t i = 0; i < n; i++) {
			assert_int_equal(nh_detok_push(d, ids[i], &piece, &bytes, &e), NH_OK);
			assert_int_equal(strlen(piece), bytes);
			assert_true(bytes == 0 || (piece[0] & 0xC0) != 0x80);
			strncat(streamed, piece, sizeof streamed - strlen(streamed) - 1);
		}
		assert_int_equal(nh_detok_flush(d, &piece, &bytes, &e), NH_OK);
		assert_int_equal(bytes, 0);
		assert_string_equal(streamed, TEXT);
		assert_int_equal(nh_detok_push(d, -1, &piece, &bytes, &e), NH_ERR_ARG);
		nh_detok_close(d);
		nh_detok_close(NULL);
		nh_free(ids);

		assert_int_equal(nh_tokenize(t, "", 0, 0, &ids, &n, &e), NH_OK);
		assert_non_null(ids);
		assert_int_equal(n, 0);
		nh_free(ids);
		assert_int_equal(nh_tokenize(t, "x", 1, 64, &ids, &n, &e), NH_ERR_ARG);
		assert_int_equal(nh_detokenize(t, (const int32_t[]){-5}, 1, false, &text, NULL, &e), NH_ERR_ARG);
		assert_non_null(strstr(e.text, "number 0 is -5"));
		nh_tokenizer_close(t);
	}
	nh_tokenizer *t;
	nh_error e = {0};
	assert_int_not_equal(nh_tokenizer_open(&t, NH_SOURCE_DIR "/no/such", &e), NH_OK);
	assert_null(t);
	assert_int_equal(nh_tokenize(NULL, "x", 1, 0, &(int32_t *){NULL}, &(size_t){0}, &e), NH_ERR_NOTFOUND);
	nh_tokenizer_close(NULL);
	nh_free(NULL);
	assert_int_equal(mem_live(), 0);
}

static const char HELLO[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]}";

static void renders(void **state)
{
	(void)state;
	nh_template *t;
	nh_error e = {0};
	char *text;
	size_t bytes;
	assert_int_equal(nh_template_open(&t, TINY, NULL, &e), NH_OK);
	assert_int_equal(nh_template_render(t, HELLO, strlen(HELLO), NH_TEMPLATE_ADAPT, 0, &text, &bytes, &e), NH_OK);
	assert_string_equal(text, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n");
	assert_int_equal(bytes, strlen(text));
	nh_free(text);
	static const char *const BAD[] = {"{", "[]", "{}", "{\"messages\": [{\"role\": \"clown\", \"content\": \"Hi\"}]}"};
	for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
		e.text[0] = 0;
		assert_int_not_equal(nh_template_render(t, BAD[i], strlen(BAD[i]), NH_TEMPLATE_ADAPT, 0, &text, &bytes, &e), NH_OK);
		assert_null(text);
		assert_true(e.text[0] != 0);
	}
	assert_non_null(strstr(e.text, "unknown role: clown"));
	nh_template_close(t);
	nh_template_close(NULL);
	assert_int_equal(nh_template_open(&t, TINY "/chat_template.jinja", NULL, &e), NH_OK);
	nh_template_close(t);
	assert_int_equal(nh_template_open(&t, TINY "/chat_template.jinja", "rag", &e), NH_ERR_ARG);
	assert_int_equal(nh_template_open(&t, TINY, "rag", &e), NH_ERR_NOTFOUND);
	assert_null(t);
	assert_int_equal(nh_template_render(NULL, HELLO, strlen(HELLO), NH_TEMPLATE_ADAPT, 0, &text, &bytes, &e), NH_ERR_NOTFOUND);
	assert_int_equal(mem_live(), 0);
}

/* Without its marks it is the other's text; the marks are for the tokeniser. */
static void renders_marked(void **state)
{
	(void)state;
	static const char REQUEST[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi</s>\"}]}";
	nh_template *t;
	nh_tokenizer *k;
	nh_error e = {0};
	char *text;
	size_t bytes, n;
	int32_t *ids;
	if (nh_template_open(&t, TINY, NULL, &e) != NH_OK || nh_tokenizer_open(&k, TINY, &e) != NH_OK) fail_msg("%s", e.text);
	if (nh_template_render_marked(t, k, REQUEST, strlen(REQUEST), NH_TEMPLATE_ADAPT, 0, &text, &bytes, &e) != NH_OK) fail_msg("%s", e.text);
	assert_string_equal(text, "<|im_start|>user\nHi\xFF</s><|im_end|>\n<|im_start|>assistant\n<think>\n");
	assert_int_equal(bytes, strlen(text));
	if (nh_tokenize(k, text, bytes, NH_TOKENIZE_MARKED, &ids, &n, &e) != NH_OK) fail_msg("%s", e.text);
	for (size_t i = 0; i < n; i++) assert_int_not_equal(ids[i], nh_token_find(k, "</s>"));
	assert_int_equal(ids[0], nh_token_find(k, "<|im_start|>"));
	nh_free(ids);
	nh_free(text);
	if (nh_template_render_marked(t, k, HELLO, strlen(HELLO), 0, 0, &text, NULL, &e) != NH_OK) fail_msg("%s", e.text);
	assert_string_equal(text, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n");
	nh_free(text);
	assert_int_equal(nh_template_render_marked(t, NULL, HELLO, strlen(HELLO), 0, 0, &text, &bytes, &e), NH_ERR_NOTFOUND);
	assert_null(text);
	assert_int_equal(nh_template_render_marked(NULL, k, HELLO, strlen(HELLO), 0, 0, &text, NULL, &e), NH_ERR_NOTFOUND);
	nh_tokenizer_close(k);
	nh_template_close(t);
	assert_int_equal(mem_live(), 0);
}

static void write_file(const char *path, const char *text)
{
	file_writer w;
	assert_int_equal(file_writer_open(&w, path, NULL), NH_OK);
	file_writer_put(&w, text, strlen(text));
	assert_int_equal(file_writer_commit(&w, NULL), NH_OK);
}

/* A list of named templates: requests with tools take tool_use. A model's template that can not be parsed is told when it is rendered. */
static void named_and_broken(void **state)
{
	(void)state;
	const char *folder = NH_BINARY_DIR "/api_template", *config = NH_BINARY_DIR "/api_template/tokenizer_config.json";
	mkdir(folder, 0777);
	write_file(config, "{\"bos_token\": \"<s>\", \"chat_template\": [{\"name\": \"default\", \"template\": \"plain {{ bos_token }}\"}, "
	                   "{\"name\": \"tool_use\", \"template\": \"tools {{ tools | length }}\"}]}");
	nh_template *t;
	nh_error e = {0};
	char *text;
	const char *tools = "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"tools\": [{}, {}]}";
	if (nh_template_open(&t, folder, NULL, &e) != NH_OK) fail_msg("%s", e.text);
	if (nh_template_render(t, HELLO, strlen(HELLO), NH_TEMPLATE_ADAPT, 0, &text, NULL, &e) != NH_OK) fail_msg("%s", e.text);
	assert_string_equal(text, "plain <s>");
	nh_free(text);
	if (nh_template_render(t, tools, strlen(tools), NH_TEMPLATE_ADAPT, 0, &text, NULL, &e) != NH_OK) fail_msg("%s", e.text);
	assert_string_equal(text, "tools 2");
	nh_free(text);
	nh_template_close(t);
	if (nh_template_open(&t, folder, "tool_use", &e) != NH_OK) fail_msg("%s", e.text);
	if (nh_template_render(t, tools, strlen(tools), NH_TEMPLATE_ADAPT, 0, &text, NULL, &e) != NH_OK) fail_msg("%s", e.text);
	assert_string_equal(text, "tools 2");
	nh_free(text);
	nh_template_close(t);
	assert_int_equal(mem_live(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(there_and_back), cmocka_unit_test(renders), cmocka_unit_test(renders_marked), cmocka_unit_test(named_and_broken)};
	return cmocka_run_group_tests_name("api_text", tests, NULL, NULL);
}
