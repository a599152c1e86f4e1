/* SPDX-License-Identifier: Apache-2.0
 * test_tok_split.c: what a call remembers changes no id: random texts, long enough that beginnings and words come back, cut by regexes that look ahead,
 * behind, or at the end of the text, with and without the memory.
 */
#include "test.h"

#include <string.h>

#include "base/base_mem.h"
#include "base/base_rng.h"
#include "helper_text.h"
#include "text/tok_impl.h"

static const char *const PATTERNS[] = {
    /* the family's own */
    "[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]*[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]+|[^\\\\r\\\\n\\\\p{"
    "L}\\\\p{N}]?"
    "[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]+[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]*|\\\\p{N}| "
    "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n/]*|\\\\s*[\\\\r\\\\n]+|"
    "\\\\s+(?!\\\\S)|\\\\s+",
    "'(?:s|t|re)| ?\\\\p{L}+| ?\\\\p{N}{1,3}| ?[^\\\\s\\\\p{L}\\\\p{N}]+|\\\\s+(?!\\\\S)|\\\\s+",
    "\\\\p{L}+(?= 1)|\\\\p{L}|[^\\\\p{L}]+?(?=a|$)", /* looks behind what it takes */
    "(?<=a )\\\\p{L}+|\\\\s|\\\\p{N}+",              /* and before it */
    "^\\\\p{L}+|\\\\p{L}\\\\z|.",
    "a(?:b.{0,9}c)?|ab+|[^a]+",
    "b*|a",
};

static void remembered(void **state)
{
	(void)state;
	static const char *const UNITS[] = {"a", "b", "c", "ab", "abc", "the", "A", "AB", "1", "23", " ", " ", " ", "  ", "\n", "\r\n", "\t",
	    ".", ",", "'s", "'", "\"", "/", "\xC3\xA9", "\xCE\xA9", "\xE4\xB8\xAD", "\xE1\xA0\x8E", "\xF0\x9F\x98\x80", "\xCC\x81", "\xC2\xA0"};
	for (size_t p = 0; p < ARRAY_LEN(PATTERNS); p++) {
		char members[2048];
		snprintf(members, sizeof members,
		    "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"%s\"},\"behavior\":"
		    "\"Isolated\","
		    "\"invert\":false},{\"type\":\"ByteLevel\",\"add_prefix_space\":%s,\"use_regex\":false}]}",
		    PATTERNS[p], p % 2 ? "true" : "false");
		tokenizer *t = text_open_small(members);
		for (uint64_t seed = 0; seed < 6; seed++) {
			buf text = {0};
			tok_ids with = {0}, without = {0};
			nh_error e = {0};
			size_t few = seed < 3 ? 23 : ARRAY_LEN(UNITS); /* ASCII alone has no stand-ins */
			for (uint64_t n = 0; n < 4000; n++) buf_str(&text, UNITS[rng_u64(seed, n, p) % few]);
			if (tok_encode(t, text.data, text.len, 0, &with, &e) != NH_OK) fail_msg("%s", e.text);
			if (tok_encode(t, text.data, text.len, TOK_NO_MEMORY, &without, &e) != NH_OK) fail_msg("%s", e.text);
			for (size_t i = 0; i < with.count && i < without.count; i++)
				if (with.ids[i] != without.ids[i])
					fail_msg("pattern %zu, seed %d: id %zu is %d, want %d", p, (int)seed, i, with.ids[i], without.ids[i]);
			assert_int_equal(with.count, without.count);
			buf_deinit(&text);
			tok_ids_deinit(&with);
			tok_ids_deinit(&without);
		}
		tok_close(t);
	}
	assert_int_equal(mem_live(), 0);
}

/* The regex itself says what decides: nothing that reaches the end of the beginning does. */
static void sure(void **state)
{
	(void)state;
	static const struct {
		const char *beginning;
		size_t piece; /* 0: does not decide */
	} CASES[] = {{" the ", 4}, {" the", 0}, {"1,", 1}, {"  a", 1}, {"   ", 0}, {"\n\n", 0}, {"\n a", 1}, {"ABc.", 3}, {"-- x", 2},
	    {"--", 0}, {"...\n/", 0}};
	char members[2048];
	snprintf(members, sizeof members,
	    "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"%s\"},\"behavior\":\"Isolated\",\"invert\":false}", PATTERNS[0]);
	buf with = {0};
	buf_printf(&with,
	    "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[%s,{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":"
	    "false}]}",
	    members + strlen("\"pre_tokenizer\":"));
	tokenizer *t = text_open_small(with.data);
	tok_ids ids = {0};
	nh_error e = {0};
	tok_call c;
	if (!t->steps[0].regex.ahead) NOT_RUN("PCRE2 has no JIT here");
	assert_int_equal(tok_call_init(&c, t, 0, &ids, &e), NH_OK);
	for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
		size_t piece = 0;
		bool yes = tok_regex_sure(&c, &t->steps[0].regex, CASES[i].beginning, strlen(CASES[i].beginning), &piece);
		if ((yes ? piece : 0) != CASES[i].piece) fail_msg("\"%s\": %zu, want %zu", CASES[i].beginning, yes ? piece : 0, CASES[i].piece);
	}
	tok_call_deinit(&c);
	tok_close(t);
	buf_deinit(&with);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(remembered), cmocka_unit_test(sure)};
	return cmocka_run_group_tests_name("tok_split", tests, NULL, NULL);
}
