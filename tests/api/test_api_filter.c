/* SPDX-License-Identifier: Apache-2.0
 * test_api_filter.c: tokens to the two texts, without an engine: what is told in pieces is what the whole text says, for every cut and stop.
 */
#include "api/api_impl.h"

#include <string.h>

#include "base/base_mem.h"
#include "helper_tiny.h"
#include "test.h"

typedef struct result {
	char reasoning[512], content[512];
	int stop, reasoning_tokens, pushed;
} result;

static void feed(result *out, const nh_tokenizer *t, const char *text, nh_request_options o)
{
	int32_t *ids;
	size_t n;
	nh_error e = {0};
	engine_hooks h;
	engine_text x;
	memset(out, 0, sizeof *out);
	out->stop = -1;
	assert_int_equal(nh_tokenize(t, text, strlen(text), 0, &ids, &n, &e), NH_OK);
	if (api_filter_open(&h, t->tok, &o, &e) != NH_OK) fail_msg("%s", e.text);
	for (size_t i = 0; i < n && out->stop < 0; i++) {
		assert_int_equal(h.push(h.self, ids[i], &x, &e), NH_OK);
		strncat(out->reasoning, x.reasoning ? x.reasoning : "", x.reasoning_bytes);
		strncat(out->content, x.content ? x.content : "", x.content_bytes);
		out->reasoning_tokens += x.in_reasoning;
		out->pushed++;
		if (x.stopped) out->stop = x.stop_index;
	}
	assert_int_equal(h.finish(h.self, &x, &e), NH_OK);
	strncat(out->reasoning, x.reasoning ? x.reasoning : "", x.reasoning_bytes);
	strncat(out->content, x.content ? x.content : "", x.content_bytes);
	h.close(h.self);
	nh_free(ids);
}

static void cases(void **state)
{
	(void)state;
	static const char *const CAT[] = {"cat", "the dog"};
	static const struct {
		const char *text;
		bool split, inside, skip, include;
		int stops;
		const char *reasoning, *content;
		int stop;
	} CASES[] = {
	    {"a cat and the dog", false, false, true, false, 0, "", "a cat and the dog", -1},
	    {"a cat and the dog", false, false, true, false, 2, "", "a ", 0},
	    {"a cat and the dog", false, false, true, true, 2, "", "a cat", 0},
	    {"a cab and the dog!", false, false, true, false, 2, "", "a cab and ", 1},
	    {"a cab and the do", false, false, true, false, 2, "", "a cab and the do", -1}, /* held back, then let go */
	    {"<think>a cat</think>the end", true, false, true, false, 2, "a cat", "the end", -1},
	    {"the cat</think>\n\na dog, a cat", true, true, true, false, 2, "the cat", "a dog, a ", 0},
	    {"never closed cat", true, true, true, false, 2, "never closed cat", "", -1},
	    {"<think>x</think>y<|im_end|>", true, false, true, false, 0, "x", "y", -1},
	    {"<think>x</think>y<|im_end|>", true, false, false, false, 0, "x", "y<|im_end|>", -1},
	    {"<think>x</think>y", false, false, true, false, 0, "", "<think>x</think>y", -1},
	    {"\xe2\x82\xac\xf0\x9f\x98\xba", true, true, true, false, 0, "\xe2\x82\xac\xf0\x9f\x98\xba", "", -1},
	};
	nh_tokenizer *t;
	assert_int_equal(nh_tokenizer_open(&t, TINY, NULL), NH_OK);
	for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
		nh_request_options o = {.split_reasoning = CASES[i].split,
		    .starts_in_reasoning = CASES[i].inside,
		    .skip_special = CASES[i].skip,
		    .include_stop = CASES[i].include,
		    .stop = CAT,
		    .stop_count = (size_t)CASES[i].stops};
		result r;
		feed(&r, t, CASES[i].text, o);
		assert_string_equal(r.reasoning, CASES[i].reasoning);
		assert_string_equal(r.content, CASES[i].content);
		assert_int_equal(r.stop, CASES[i].stop);
		if (!CASES[i].split) assert_int_equal(r.reasoning_tokens, 0);
	}
	result r;
	feed(&r, t, "<think>x</think>y", (nh_request_options){.split_reasoning = true, .skip_special = true});
	assert_int_equal(r.reasoning_tokens, r.pushed - 1); /* the tags belong to the thought */
	nh_tokenizer_close(t);
	assert_int_equal(mem_live(), 0);
}

/* A vocabulary in which the tags are control tokens. */
static const char TAGS[] =
    "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1}, \"merges\": []}, \"added_tokens\": ["
    "{\"id\": 2, \"content\": \"<think>\", \"special\": true}, {\"id\": 3, \"content\": \"</think>\", \"special\": true}, "
    "{\"id\": 4, \"content\": \"<x>\", \"special\": true}], "
    "\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": false}, \"decoder\": {\"type\": "
    "\"ByteLevel\"}}";

static void tags_count_where_they_are_control_tokens(void **state)
{
	(void)state;
	nh_tokenizer t;
	nh_error e = {0};
	if (tok_open_text(&t.tok, TAGS, strlen(TAGS), "tags", &e) != NH_OK) fail_msg("%s", e.text);
	result r;
	feed(&r, &t, "<think>a<x></think>b<x>", (nh_request_options){.split_reasoning = true, .skip_special = true});
	assert_string_equal(r.reasoning, "a");
	assert_string_equal(r.content, "b");
	feed(&r, &t, "<think>a<x></think>b<x>", (nh_request_options){.split_reasoning = false, .skip_special = true});
	assert_string_equal(r.content, "ab");
	tok_close(t.tok);
	assert_int_equal(mem_live(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(cases), cmocka_unit_test(tags_count_where_they_are_control_tokens)};
	return cmocka_run_group_tests_name("api_filter", tests, NULL, NULL);
}
