/* SPDX-License-Identifier: Apache-2.0
 * test_gen_keys.c: what a generation_config.json asks for in vain is named, and nothing else is.
 */
#include "test.h"

#include <string.h>

#include "base/base_json.h"
#include "base/base_mem.h"
#include "fmt/config.h"

static void names(void **state)
{
	(void)state;
	static const struct {
		const char *json, *want;
	} CASES[] = {
	    {"{}", ""},
	    {"{\"_from_model_config\": true, \"bos_token_id\": 1, \"do_sample\": true, \"eos_token_id\": [2, 11], \"pad_token_id\": 0,"
	     "\"temperature\": 1.0, \"top_p\": 1.0, \"top_k\": 50, \"max_new_tokens\": 5, \"transformers_version\": \"4.55.4\"}",
	        ""},
	    {"{\"num_beams\": 1, \"no_repeat_ngram_size\": 0, \"typical_p\": 1.0, \"length_penalty\": 1, \"early_stopping\": false, "
	     "\"max_length\": 20,"
	     "\"bad_words_ids\": null, \"suppress_tokens\": []}",
	        ""},
	    {"{\"num_beams\": 4}", "num_beams"},
	    {"{\"no_repeat_ngram_size\": 3, \"num_beams\": 1, \"typical_p\": 0.9}", "no_repeat_ngram_size, typical_p"},
	    {"{\"bad_words_ids\": [[7]], \"min_new_tokens\": 5, \"early_stopping\": \"never\"}",
	        "bad_words_ids, min_new_tokens, early_stopping"},
	    {"{\"a key of tomorrow\": 0}", "a key of tomorrow"},
	    {"{\"two\\nlines\": true}", "two?lines"},
	};
	for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
		json_t *v;
		nh_error e = {0};
		char got[256];
		if (jsn_load_text(&v, CASES[i].json, strlen(CASES[i].json), "t", &e) != NH_OK) fail_msg("%s", e.text);
		generation_unserved(v, got, sizeof got);
		if (strcmp(got, CASES[i].want) != 0) fail_msg("%s: \"%s\", expected \"%s\"", CASES[i].json, got, CASES[i].want);
		generation g;
		json_t *config = json_object();
		if (i < 7) {
			if (generation_read(&g, config, "config.json", v, "generation_config.json", &e) != NH_OK) fail_msg("%s", e.text);
			assert_string_equal(g.unserved, CASES[i].want);
		}
		json_decref(config);
		json_decref(v);
	}
}

/* Many and long names end in "..." inside the room there is. */
static void too_many(void **state)
{
	(void)state;
	json_t *v = json_object();
	for (int i = 0; i < 50; i++) {
		char key[300];
		memset(key, 'a' + i % 26, sizeof key);
		snprintf(key + 250 - i, 20, "%d", i);
		json_object_set_new(v, key, json_true());
	}
	for (size_t size = 8; size < 256; size++) {
		char got[300];
		memset(got, 'X', sizeof got);
		generation_unserved(v, got, size);
		size_t n = strlen(got);
		assert_true(n < size);
		assert_int_equal(got[size], 'X');
		assert_true(n >= 3 && strcmp(got + n - 3, "...") == 0);
	}
	json_decref(v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(names), cmocka_unit_test(too_many)};
	return cmocka_run_group_tests_name("gen_keys", tests, NULL, NULL);
}
