/* SPDX-License-Identifier: Apache-2.0
 * helper_text.c: the code of helper_text.h.
 */
#include "helper_text.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/base_mem.h"
#include "test.h"
#include "text/detok.h"
#include "text/tok_uni.h"

char *text_small_json(const char *members)
{
	static const char *const DEFAULTS[][2] = {
	    {"version", "\"1.0\""},
	    {"added_tokens", "[{\"id\":0,\"content\":\"<unk>\",\"special\":true},{\"id\":1,\"content\":\"<s>\",\"special\":true},{\"id\":2,"
	                     "\"content\":\"</s>\",\"special\":true},"
	                     "{\"id\":3,\"content\":\"<think>\",\"normalized\":false}]"},
	    {"pre_tokenizer", "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}"},
	    {"decoder", "{\"type\":\"ByteLevel\"}"},
	};
	buf b = {0};
	buf_printf(&b, "{%s%s", members, *members ? "," : "");
	for (size_t i = 0; i < ARRAY_LEN(DEFAULTS); i++) {
		char key[64];
		snprintf(key, sizeof key, "\"%s\":", DEFAULTS[i][0]);
		if (!strstr(members, key)) buf_printf(&b, "%s%s,\n", key, DEFAULTS[i][1]);
	}
	if (strstr(members, "\"model\":")) {
		buf_str(&b, "\"truncation\":null}");
		return buf_take(&b);
	}
	buf_str(&b,
	    "\"model\":{\"type\":\"BPE\",\"merges\":[[\"a\",\"b\"],[\"ab\",\"c\"]],\"vocab\":{\"<unk>\":0,\"<s>\":1,\"</s>\":2,\"<think>\":3");
	for (unsigned i = 0; i < 256; i++) {
		uint32_t c = uni_byte_char((uint8_t)i);
		buf_str(&b, ",\"");
		if (c == '"' || c == '\\') buf_char(&b, '\\');
		buf_utf8(&b, c);
		buf_printf(&b, "\":%u", TEXT_BYTE_ID(i));
	}
	buf_printf(&b, ",\"ab\":%d,\"abc\":%d}}}", TEXT_AB, TEXT_ABC);
	return buf_take(&b);
}

tokenizer *text_open_small(const char *members)
{
	nh_error e = {0};
	tokenizer *t;
	char *json = text_small_json(members);
	if (tok_open_text(&t, json, strlen(json), "small", &e) != NH_OK) fail_msg("%s", e.text);
	mem_free(json);
	return t;
}

int64_t text_cpu_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

json_t *text_load_data(const char *name)
{
	char path[512];
	json_t *doc;
	nh_error e = {0};
	snprintf(path, sizeof path, NH_SOURCE_DIR "/tests/text/data/%s", name);
	if (jsn_load_path(&doc, path, JSON_LIMIT_LARGE, &e) != NH_OK) fail_msg("%s", e.text);
	return doc;
}

void text_check_ids(const tokenizer *t, const char *text, size_t len, unsigned flags, const json_t *ids, const char *what)
{
	tok_ids got = {0};
	nh_error e = {0};
	if (tok_encode(t, text, len, flags, &got, &e) != NH_OK) fail_msg("%s: %s", what, e.text);
	for (size_t i = 0; i < got.count || i < json_array_size(ids); i++) {
		long long want = i < json_array_size(ids) ? (long long)json_integer_value(json_array_get(ids, i)) : -1;
		long long have = i < got.count ? got.ids[i] : -1;
		if (want != have) fail_msg("%s: flags %u: \"%.*s\": id %zu is %lld, expected %lld", what, flags, (int)len, text, i, have, want);
	}
	tok_ids_deinit(&got);
}

void text_check_decoded(const tokenizer *t, const json_t *ids, bool skip_special, const char *want, size_t len, const char *what)
{
	detok d;
	buf out = {0};
	detok_init(&d, t, skip_special);
	for (size_t i = 0; i < json_array_size(ids); i++) {
		assert_int_equal(detok_push(&d, (int32_t)json_integer_value(json_array_get(ids, i)), &out), NH_OK);
		if (out.len > 0 && uni_valid_prefix(out.data, out.len) != out.len) fail_msg("%s: half a character after id %zu", what, i);
		if (out.len > len || (out.len > 0 && memcmp(out.data, want, out.len) != 0))
			fail_msg("%s: id %zu: \"%.*s\", expected \"%.*s\"", what, i, (int)out.len, out.data, (int)len, want);
	}
	assert_int_equal(detok_flush(&d, &out), NH_OK);
	if (out.len != len || (len > 0 && memcmp(out.data, want, len) != 0))
		fail_msg("%s: \"%.*s\", expected \"%.*s\"", what, (int)out.len, out.data ? out.data : "", (int)len, want);
	buf_deinit(&out);
}
