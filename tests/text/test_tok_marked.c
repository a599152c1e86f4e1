/* SPDX-License-Identifier: Apache-2.0
 * test_tok_marked.c: marks say where a special token's text is ordinary: compared with the stretches between the unmarked ones, encoded one by one.
 */
#include "test.h"

#include <string.h>

#include "base/base_mem.h"
#include "base/base_rng.h"
#include "helper_text.h"
#include "text/tok.h"

static void add(const tokenizer *t, const char *text, size_t len, unsigned flags, tok_ids *out)
{
	nh_error e = {0};
	if (tok_encode(t, text, len, flags, out, &e) != NH_OK) fail_msg("%s", e.text);
}

static void same_ids(const tok_ids *got, const tok_ids *want, const char *what)
{
	for (size_t i = 0; i < got->count && i < want->count; i++)
		if (got->ids[i] != want->ids[i]) fail_msg("%s: id %zu is %d, expected %d", what, i, got->ids[i], want->ids[i]);
	assert_int_equal(got->count, want->count);
}

static void random_marks(void **state)
{
	(void)state;
	static const char *const UNITS[] = {"<s>", "</s>", "<think>", "ab", "abc", "<", "s>", "\xC3\xA9", " "};
	tokenizer *t = text_open_small("");
	size_t marked = 0, kept = 0;
	for (uint64_t seed = 0; seed < 200; seed++) {
		buf text = {0}, run = {0};
		tok_ids got = {0}, want = {0};
		for (uint64_t n = 0; n < 40; n++) {
			uint64_t pick = rng_u64(seed, n, 0) % ARRAY_LEN(UNITS);
			bool mark = rng_u64(seed, n, 1) % 2;
			/* after "<" or "</", units could make up another token */
			if (run.len && run.data[run.len - 1] == '<') pick = 3;
			if (mark) buf_char(&text, TOK_MARK); /* also where no special token begins: changes nothing */
			buf_str(&text, UNITS[pick]);
			if (pick > 1 || mark) {
				buf_str(&run, UNITS[pick]);
				marked += pick < 2;
				continue;
			}
			kept++;
			add(t, run.data ? run.data : "", run.len, TOK_PLAIN_SPECIAL, &want);
			run.len = 0;
			add(t, UNITS[pick], strlen(UNITS[pick]), 0, &want);
		}
		add(t, run.data ? run.data : "", run.len, TOK_PLAIN_SPECIAL, &want);
		add(t, text.data, text.len, TOK_MARKED, &got);
		same_ids(&got, &want, "random");
		buf_deinit(&text);
		buf_deinit(&run);
		tok_ids_deinit(&got);
		tok_ids_deinit(&want);
	}
	printf("%zu special texts marked, %zu not\n", marked, kept);
	assert_true(marked > 100 && kept > 100);
	tok_close(t);
	assert_int_equal(mem_live(), 0);
}

static void one(const tokenizer *t, const char *text, unsigned flags, const char *ids)
{
	nh_error e = {0};
	json_t *want = NULL;
	if (jsn_load_text(&want, ids, strlen(ids), "ids", &e) != NH_OK) fail_msg("%s", e.text);
	text_check_ids(t, text, strlen(text), flags, want, text);
	json_decref(want);
}

static void edges(void **state)
{
	(void)state;
	tokenizer *t = text_open_small("");
	one(t, "<s>", TOK_MARKED, "[1]");
	one(t, "\xFF<s>", TOK_MARKED, "[64,119,66]");
	one(t, "\xFF<s><s>\xFF", TOK_MARKED, "[64,119,66,1]");
	one(t, "<\xFFs>", TOK_MARKED, "[1]"); /* a mark is for what begins at it */
	one(t, "\xFF\xFF", TOK_MARKED, "[]");
	one(t,
	    "a\xFF"
	    "bc",
	    TOK_MARKED, "[261]");                 /* and cuts nothing */
	one(t, "\xFF<think>", TOK_MARKED, "[3]"); /* which is not special */
	one(t, "<s>\xFF<s>", TOK_MARKED | TOK_PLAIN_SPECIAL, "[64,119,66,64,119,66]");
	one(t, "<s>\xFF<think>", TOK_MARKED | TOK_PLAIN_ADDED, "[64,119,66,64,120,108,109,114,111,66]");
	one(t, "\xFF<s", TOK_MARKED, "[64,119]");
	one(t, "\xFF<s>", 0, "[243,195,193,1]"); /* without the flag it is a stray byte */
	tok_ids ids = {0};
	nh_error e = {0};
	add(t, "ab", 2, 0, &ids);
	assert_int_equal(tok_encode(t, "a\xFF\xC3", 3, TOK_MARKED, &ids, &e), NH_ERR_ARG);
	assert_non_null(strstr(e.text, "the marked text is not UTF-8"));
	assert_int_equal(ids.count, 1);
	tok_ids_deinit(&ids);
	static const struct {
		const char *text;
		tok_reads want;
	} READS[] = {{"<s>", TOK_READS_SPECIAL}, {"<s> ", TOK_READS_SPECIAL}, {"<s", TOK_READS_PART}, {"<", TOK_READS_PART},
	    {"< ", TOK_READS_PLAIN}, {"", TOK_READS_PLAIN}, {"a<s>", TOK_READS_PLAIN}, {"<think>", TOK_READS_PLAIN}, {"<thi", TOK_READS_PART},
	    {"<think> ", TOK_READS_PLAIN}, {"</s>", TOK_READS_SPECIAL}};
	for (size_t i = 0; i < ARRAY_LEN(READS); i++)
		if (tok_reads_special(t, READS[i].text, strlen(READS[i].text)) != READS[i].want) fail_msg("\"%s\"", READS[i].text);
	tok_close(t);
	assert_int_equal(mem_live(), 0);
}

/* Where a normal form is looked through, places of the text are not known in it: a mark is for its whole stretch. */
static void normal_forms(void **state)
{
	(void)state;
	tokenizer *t = text_open_small(
	    "\"normalizer\":{\"type\":\"NFC\"},\"added_tokens\":["
	    "{\"id\":0,\"content\":\"<unk>\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":true},"
	    "{\"id\":1,\"content\":\"<s>\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":true},"
	    "{\"id\":2,\"content\":\"</s>\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":true,\"special\":true},"
	    "{\"id\":3,\"content\":\"<think>\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":false}"
	    "]");
	one(t, "</s>e\xCC\x81<s></s>", TOK_MARKED, "[2,199,173,1,2]");
	one(t, "\xFF</s>e\xCC\x81<s></s>", TOK_MARKED, "[64,51,119,66,199,173,1,2]");
	one(t, "e\xCC\x81\xFF</s><s></s>", TOK_MARKED, "[199,173,64,51,119,66,1,2]");
	one(t, "</s><s>e\xCC\x81\xFF</s>", TOK_MARKED, "[2,1,199,173,64,51,119,66]");
	assert_int_equal(tok_reads_special(t, "</s>", 4), TOK_READS_SPECIAL);
	assert_int_equal(tok_reads_special(t, "<s>", 3), TOK_READS_SPECIAL);
	tok_close(t);
	assert_int_equal(mem_live(), 0);
}

static void failing_allocations(void **state)
{
	(void)state;
	tokenizer *t = text_open_small("");
	buf text = {0};
	for (int i = 0; i < 40; i++) buf_str(&text, "\xFF<s>");
	size_t failures = 0;
	nh_status s = NH_ERR_NOMEM;
	for (size_t n = 0; n < 100 && s != NH_OK; n++) {
		tok_ids ids = {0};
		nh_error e = {0};
		mem_fail_after(n);
		s = tok_encode(t, text.data, text.len, TOK_MARKED, &ids, &e);
		mem_fail_after(SIZE_MAX);
		if (s != NH_OK) {
			failures++;
			assert_int_equal(s, NH_ERR_NOMEM);
			assert_int_equal(ids.count, 0);
		}
		tok_ids_deinit(&ids);
	}
	printf("%zu failures\n", failures);
	assert_true(s == NH_OK && failures >= 3);
	buf_deinit(&text);
	tok_close(t);
	assert_int_equal(mem_live(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(random_marks), cmocka_unit_test(edges), cmocka_unit_test(normal_forms), cmocka_unit_test(failing_allocations)};
	return cmocka_run_group_tests_name("tok_marked", tests, NULL, NULL);
}
