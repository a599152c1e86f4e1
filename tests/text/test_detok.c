/* SPDX-License-Identifier: Apache-2.0
 * test_detok.c: the streaming decoder: every split of every kind of broken and whole character, special tokens in between, unknown ids.
 */
#include "test.h"

#include <string.h>

#include "base/base_mem.h"
#include "base/base_rng.h"
#include "helper_text.h"
#include "text/detok.h"
#include "text/tok_uni.h"

static void push_bytes(detok *d, const char *bytes, size_t len, buf *out)
{
	for (size_t i = 0; i < len; i++) assert_int_equal(detok_push(d, TEXT_BYTE_ID((uint8_t)bytes[i]), out), NH_OK);
}

static void whole_characters_only(void **state)
{
	(void)state;
	tokenizer *t = text_open_small("");
	detok d;
	buf out = {0};
	detok_init(&d, t, false);
	push_bytes(&d, "\xF0\x9F\x9A", 3, &out);
	assert_int_equal(out.len, 0);
	push_bytes(&d, "\x80", 1, &out);
	assert_string_equal(out.data, "\xF0\x9F\x9A\x80");
	assert_int_equal(detok_flush(&d, &out), NH_OK);
	assert_int_equal(out.len, 4);
	push_bytes(&d, "\xE2\x82", 2, &out);
	assert_int_equal(out.len, 4);
	assert_int_equal(detok_push(&d, TEXT_ABC, &out), NH_OK); /* what waited can no longer become a character */
	assert_string_equal(out.data, "\xF0\x9F\x9A\x80\xEF\xBF\xBD"
	                              "abc");
	push_bytes(&d, "\xC3", 1, &out);
	assert_int_equal(detok_flush(&d, &out), NH_OK);
	assert_int_equal(detok_flush(&d, &out), NH_OK);
	assert_string_equal(out.data, "\xF0\x9F\x9A\x80\xEF\xBF\xBD"
	                              "abc\xEF\xBF\xBD");
	buf_deinit(&out);
	tok_close(t);
}

/* All sequences of up to four of the bytes that matter, against the whole-string rule of uni_repair. */
static void equals_decoding_at_once(void **state)
{
	(void)state;
	static const uint8_t BYTES[] = {
	    'a', 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xED, 0xEF, 0xF0, 0xF1, 0xF4, 0xF5, 0xFF};
	const size_t n = ARRAY_LEN(BYTES);
	tokenizer *t = text_open_small("");
	size_t checked = 0;
	for (size_t code = 0; code < n * n * n * n; code++) {
		char text[4];
		for (size_t i = 0, c = code; i < 4; i++, c /= n) text[i] = (char)BYTES[c % n];
		buf want = {0}, got = {0};
		detok d;
		detok_init(&d, t, false);
		uni_repair(&want, text, 4);
		push_bytes(&d, text, 4, &got);
		assert_int_equal(detok_flush(&d, &got), NH_OK);
		assert_int_equal(got.len, want.len);
		assert_memory_equal(got.data, want.data, got.len);
		buf_deinit(&want);
		buf_deinit(&got);
		checked++;
	}
	printf("%zu byte sequences\n", checked);
	assert_int_equal(checked, 130321);
	tok_close(t);
}

static void special_and_unknown(void **state)
{
	(void)state;
	tokenizer *t = text_open_small("\"added_tokens\":[{\"id\":300,\"content\":\"\xC3\xA9\xC3\xA9\"},{\"id\":301,\"content\":\"<x>\","
	                               "\"special\":true},{\"id\":400,\"content\":\"\xE4\xB8\xAD\"}]");
	size_t len;
	buf out = {0};
	detok d;
	/* a skipped token does not end a character; a shown one does */
	detok_init(&d, t, true);
	push_bytes(&d, "\xC3", 1, &out);
	assert_int_equal(detok_push(&d, 301, &out), NH_OK);
	push_bytes(&d, "\xA9", 1, &out);
	assert_string_equal(out.data, "\xC3\xA9");
	out.len = 0;
	detok_init(&d, t, false);
	push_bytes(&d, "\xC3", 1, &out);
	assert_int_equal(detok_push(&d, 301, &out), NH_OK);
	push_bytes(&d, "\xA9", 1, &out);
	assert_string_equal(out.data, "\xEF\xBF\xBD<x>\xEF\xBF\xBD");
	/* ids that are not there */
	out.len = 0;
	push_bytes(&d, "\xC3", 1, &out);
	assert_int_equal(detok_push(&d, 350, &out), NH_OK);
	assert_int_equal(detok_push(&d, INT32_MAX, &out), NH_OK);
	assert_int_equal(detok_push(&d, -1, &out), NH_ERR_ARG);
	push_bytes(&d, "\xA9", 1, &out);
	assert_int_equal(out.len, 2);
	/* an added token whose text is of the byte alphabet decodes as bytes, as in the reference; asked for its piece it is its text */
	out.len = 0;
	assert_memory_equal(tok_piece(t, 300, &len), "\xC3\xA9\xC3\xA9", 4);
	assert_int_equal(len, 4);
	assert_int_equal(detok_push(&d, 300, &out), NH_OK);
	assert_int_equal(detok_push(&d, 400, &out), NH_OK);
	assert_string_equal(out.data, "\xEF\xBF\xBD\xEF\xBF\xBD\xE4\xB8\xAD");
	assert_int_equal(tok_find(t, "\xC3\xA9\xC3\xA9", 4), 300);
	buf_deinit(&out);
	/* a full buffer is told */
	buf small = {.limit = 2};
	detok_init(&d, t, false);
	assert_int_equal(detok_push(&d, 400, &small), NH_ERR_LIMIT);
	buf_deinit(&small);
	tok_close(t);
	assert_int_equal(mem_live(), 0);
}

/* Text to ids and back, cut anywhere: random bytes come back repaired. */
static void round_trip(void **state)
{
	(void)state;
	tokenizer *t = text_open_small("\"added_tokens\":[]");
	size_t bytes = 0;
	for (uint64_t k = 0; k < 2000; k++) {
		char text[64];
		size_t len = rng_u64(7, k, 0) % sizeof text;
		for (size_t i = 0; i < len; i++) {
			uint64_t r = rng_u64(7, k, i + 1);
			text[i] = r % 3 == 0 ? "abc"[r / 3 % 3] : (char)(r >> 8);
		}
		buf want = {0}, got = {0};
		tok_ids ids = {0};
		detok d;
		uni_repair(&want, text, len);
		assert_int_equal(tok_encode(t, text, len, TOK_PLAIN_ADDED, &ids, NULL), NH_OK);
		detok_init(&d, t, true);
		for (size_t i = 0; i < ids.count; i++) assert_int_equal(detok_push(&d, ids.ids[i], &got), NH_OK);
		assert_int_equal(detok_flush(&d, &got), NH_OK);
		assert_int_equal(got.len, want.len);
		if (got.len > 0) assert_memory_equal(got.data, want.data, got.len);
		bytes += got.len;
		buf_deinit(&want);
		buf_deinit(&got);
		tok_ids_deinit(&ids);
	}
	printf("%zu bytes came back\n", bytes);
	assert_true(bytes > 50000);
	tok_close(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(whole_characters_only), cmocka_unit_test(equals_decoding_at_once),
	    cmocka_unit_test(special_and_unknown), cmocka_unit_test(round_trip)};
	return cmocka_run_group_tests_name("detok", tests, NULL, NULL);
}
