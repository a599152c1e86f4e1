/* SPDX-License-Identifier: Apache-2.0
 * test_base_status.c: names and messages of every status, and that an error text is one printable line of UTF-8 whatever it quotes.
 */
#include "test.h"

#include <string.h>

#include "base/base_status.h"

static void every_status_has_words(void **state)
{
	(void)state;
	int count = 0, before = 1;
#define CHECK(name, value, message)                            \
	assert_string_equal(nh_status_name(name), #name);          \
	assert_string_equal(nh_status_message(name), message);     \
	assert_int_equal(name, value);                             \
	assert_true((value) < before); /* unique and descending */ \
	before = value;                                            \
	count++;
	NH_STATUS_LIST(CHECK)
#undef CHECK
	assert_int_equal(count, 17);
	assert_string_equal(nh_status_name((nh_status)-999), "NH_ERR_?");
	assert_string_equal(nh_status_message((nh_status)7), "unknown status");
}

static void sets_code_and_text(void **state)
{
	(void)state;
	nh_error e = {0};
	assert_int_equal(ERR(&e, NH_ERR_TENSOR, "a.safetensors: tensor %s: shape [%d]", "x", 3), NH_ERR_TENSOR);
	assert_int_equal(e.code, NH_ERR_TENSOR);
	assert_string_equal(e.text, "a.safetensors: tensor x: shape [3]");
	assert_int_equal(err_prefix(&e, NH_ERR_TENSOR, "folder %d", 7), NH_ERR_TENSOR);
	assert_string_equal(e.text, "folder 7: a.safetensors: tensor x: shape [3]");
	assert_int_equal(ERR(NULL, NH_ERR_IO, "lost"), NH_ERR_IO);
	assert_int_equal(err_prefix(NULL, NH_ERR_IO, "lost"), NH_ERR_IO);
}

static void quotes_hostile_bytes_harmlessly(void **state)
{
	(void)state;
	static const struct {
		const char *in, *out;
	} rows[] = {
	    {"a\nb\tc\x1b[31m\x7f", "a?b?c?[31m?"}, {"caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80", "caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80"},
	    {"\xC2\x9B"
	     "31m \xC2\xA0",
	        "??31m \xC2\xA0"},                         /* C1 starts a terminal sequence; U+00A0 does not */
	    {"\xC0\xAF \xE0\x80\xAF \xF8x", "?? ??? ?x"},  /* overlong, and no lead byte */
	    {"\xED\xA0\x80 \xF4\x90\x80\x80", "??? ????"}, /* surrogate; over U+10FFFF */
	    {"cut \xE2\x82", "cut ??"},                    /* half a character at the end */
	    {"\xE2\x82 \xE2\x82\xAC", "?? \xE2\x82\xAC"},  /* and in the middle */
	    {"\x80\xBF\xEF\xBF\xBF", "??\xEF\xBF\xBF"},    /* stray continuation; U+FFFF is well formed */
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		nh_error e;
		ERR(&e, NH_ERR_FORMAT, "%s", rows[i].in);
		assert_string_equal(e.text, rows[i].out);
	}
}

static void long_texts_are_cut_and_whole(void **state)
{
	(void)state;
	nh_error e;
	char big[3000];
	/* Three-byte characters: the cut falls inside one for some length. */
	for (size_t shift = 0; shift < 3; shift++) {
		memset(big, 'x', shift);
		for (size_t i = shift; i + 4 < sizeof big; i += 3) memcpy(big + i, "\xE2\x82\xAC", 4);
		ERR(&e, NH_ERR_IO, "%s", big);
		char again[sizeof e.text];
		memcpy(again, e.text, sizeof again);
		assert_int_equal(strlen(again), sizeof e.text - 1);
		err_clean(again);
		assert_string_equal(again, e.text);
		big[600] = 0;
		err_prefix(&e, NH_ERR_IO, "%s", big);
		assert_true(strlen(e.text) < sizeof e.text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_status_has_words),
	    cmocka_unit_test(sets_code_and_text),
	    cmocka_unit_test(quotes_hostile_bytes_harmlessly),
	    cmocka_unit_test(long_texts_are_cut_and_whole),
	};
	return cmocka_run_group_tests_name("base_status", tests, NULL, NULL);
}
