/* SPDX-License-Identifier: Apache-2.0
 * test_tok_golden.c: whole tokenizer.json files: the tiny model's against the published goldens, the full-size one (unpacked by xz into the
 * build folder) against data/full_size.json, and the time that opening takes.
 */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "base/base_file.h"
#include "base/base_mem.h"
#include "helper_text.h"

#define TINY_SHARED NH_SHARED_DIR "/models/tiny-nvfp4/tokenizer.json"
#define TINY_OWN NH_SOURCE_DIR "/models/tiny/tokenizer.json"
#define FULL_PACKED NH_SHARED_DIR "/data/tokenizers/nemotron3.tokenizer.json.xz"
#define FULL NH_BINARY_DIR "/full_size.tokenizer.json"

static tokenizer *open_timed(const char *path, int64_t *us)
{
	nh_error e = {0};
	tokenizer *t = NULL;
	*us = INT64_MAX;
	for (int i = 0; i < 3; i++) {
		tok_close(t);
		int64_t begin = text_cpu_us();
		if (tok_open(&t, path, &e) != NH_OK) fail_msg("%s", e.text);
		int64_t spent = text_cpu_us() - begin;
		if (spent < *us) *us = spent;
	}
	return t;
}

static void published_goldens(void **state)
{
	(void)state;
	const char *tiny = file_exists(TINY_SHARED) ? TINY_SHARED : TINY_OWN;
	const char *path = NH_SHARED_DIR "/goldens/tokenizer.json";
	if (!file_exists(tiny) || !file_exists(path)) NOT_RUN("no %s", path);
	nh_error e = {0};
	json_t *doc, *entry;
	int64_t us;
	if (jsn_load_path(&doc, path, JSON_LIMIT_LARGE, &e) != NH_OK) fail_msg("%s", e.text);
	tokenizer *t = open_timed(tiny, &us);
	size_t i, plain = 0;
	json_array_foreach(json_object_get(doc, "entries"), i, entry)
	{
		const json_t *text = json_object_get(entry, "text"), *ids = json_object_get(entry, "ids");
		const json_t *plain_ids = json_object_get(entry, "nonspecial_ids"), *all = json_object_get(entry, "decoded"),
		             *skip = json_object_get(entry, "decoded_skip");
		const char *kind = json_string_value(json_object_get(entry, "kind"));
		text_check_ids(t, json_string_value(text), json_string_length(text), 0, ids, kind);
		text_check_ids(t, json_string_value(text), json_string_length(text), TOK_ADD_SPECIAL, ids, kind);
		if (plain_ids) text_check_ids(t, json_string_value(text), json_string_length(text), TOK_PLAIN_SPECIAL, plain_ids, kind);
		plain += plain_ids != NULL;
		text_check_decoded(t, ids, false, json_string_value(all), json_string_length(all), kind);
		text_check_decoded(t, ids, true, json_string_value(skip), json_string_length(skip), kind);
	}
	size_t texts = i;
	json_array_foreach(json_object_get(doc, "decode_only"), i, entry)
	{
		const json_t *ids = json_object_get(entry, "ids"), *all = json_object_get(entry, "decoded"),
		             *skip = json_object_get(entry, "decoded_skip");
		text_check_decoded(t, ids, false, json_string_value(all), json_string_length(all), "decode_only");
		text_check_decoded(t, ids, true, json_string_value(skip), json_string_length(skip), "decode_only");
	}
	printf("%zu texts, %zu of them also plain, %zu id sequences; opened in %lld us of processor time\n", texts, plain, i, (long long)us);
	assert_true(texts >= 330 && plain >= 30 && i >= 10);
	tok_close(t);
	json_decref(doc);
	assert_int_equal(mem_live(), 0);
}

/* The tiny model's tokenizer without any golden: every id is found again by its bytes, and text comes back from its ids. */
static void tiny_round_trip(void **state)
{
	(void)state;
	const char *tiny = file_exists(TINY_OWN) ? TINY_OWN : TINY_SHARED;
	if (!file_exists(tiny)) NOT_RUN("no %s", TINY_OWN);
	int64_t us;
	size_t len, checked = 0;
	tokenizer *t = open_timed(tiny, &us);
	for (int32_t id = 0; id < (int32_t)tok_vocab(t); id++) {
		const char *piece = tok_piece(t, id, &len);
		if (!piece) continue;
		assert_int_equal(tok_find(t, piece, len), id);
		checked++;
	}
	assert_int_equal(checked, 4096);
	tok_close(t);
}

static void full_size(void **state)
{
	(void)state;
	if (!file_exists(FULL_PACKED)) NOT_RUN("no %s", FULL_PACKED);
	if (!file_exists(FULL)) {
		FILE *xz = popen("xz -dc '" FULL_PACKED "' > '" FULL ".part' && mv '" FULL ".part' '" FULL "'", "r");
		if (!xz || pclose(xz) != 0) NOT_RUN("xz could not unpack %s", FULL_PACKED);
	}
	json_t *doc = text_load_data("full_size.json"), *entry;
	char digest[65];
	nh_error e = {0};
	int64_t us;
	size_t i;
	assert_int_equal(file_sha256(FULL, digest, NULL, NULL, &e), NH_OK);
	assert_string_equal(digest, json_string_value(json_object_get(doc, "tokenizer_sha256")));
	tokenizer *t = open_timed(FULL, &us);
	json_array_foreach(json_object_get(doc, "entries"), i, entry)
	{
		const json_t *text = json_array_get(entry, 0);
		text_check_ids(t, json_string_value(text), json_string_length(text), 0, json_array_get(entry, 1), "full size");
	}
	printf("%zu texts; %zu tokens opened in %lld us of processor time\n", i, tok_vocab(t), (long long)us);
	assert_true(i >= 200);
	assert_int_equal(tok_vocab(t), 131072);
	json_t *known = json_pack("[iiiii]", 1784, 8961, 1307, 5498, 1395);
	text_check_ids(t, "The capital of France is", 24, TOK_ADD_SPECIAL, known, "published ids");
	json_decref(known);
	known = json_pack("[iiiiiiii]", 18746, 1278, 2158, 6184, 61634, 87539, 8091, 1058);
	text_check_ids(t, "Write the first five Fibonacci numbers:", 39, 0, known, "published ids");
	json_decref(known);
	assert_true(us < 5 * 1000000);
	tok_close(t);
	json_decref(doc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(published_goldens), cmocka_unit_test(tiny_round_trip), cmocka_unit_test(full_size)};
	return cmocka_run_group_tests_name("tok_golden", tests, NULL, NULL);
}
