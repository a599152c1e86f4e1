/* SPDX-License-Identifier: Apache-2.0
 * test_nm_pattern.c: the spellings of a layer sequence.
 */
#include "test.h"

#include <string.h>

#include "base/base_json.h"
#include "base/base_mem.h"
#include "model/nemotron_h/nm_pattern.h"

static void reads(const char *json, nh_status code, const char *want)
{
	char text[NM_MAX_LAYERS + 1];
	int count;
	nh_error e = {0};
	json_t *v;
	assert_int_equal(jsn_load_text(&v, json, strlen(json), "t", &e), NH_OK);
	nh_status s = nm_pattern_read(v, "config.json", "key", text, &count, &e);
	json_decref(v);
	if (s != code) fail_msg("%s: %d %s", json, s, e.text);
	if (s == NH_OK) {
		assert_string_equal(text, want);
		assert_int_equal(count, strlen(want));
	} else if (!strstr(e.text, want) || strncmp(e.text, "config.json: key: ", 18) != 0) fail_msg("%s: %s, expected %s", json, e.text, want);
}

static void spellings(void **state)
{
	(void)state;
	reads("\"M-M*-E\"", NH_OK, "M-M*-E");
	reads("[\"mamba\",\"attention\",\"mlp\",\"moe\"]", NH_OK, "M*-E");
	reads("[\"linear_attention\",\"full_attention\",\"mlp\",\"moe\"]", NH_OK, "M*-E");
	reads("[\"mamba\",\"full_attention\",\"linear_attention\",\"attention\"]", NH_OK, "M*M*");
	reads("\"E\"", NH_OK, "E");
	reads("\"\"", NH_ERR_CONFIG, "is \"\"");
	reads("[]", NH_ERR_CONFIG, "is []");
	reads("7", NH_ERR_CONFIG, "is 7");
	reads("{}", NH_ERR_CONFIG, "is {}");
	reads("\"M-X\"", NH_ERR_CONFIG, "character 2 is 'X'");
	reads("\"m\"", NH_ERR_CONFIG, "character 0 is 'm'");
	reads("\"M|M\"", NH_ERR_CONFIG, "character 1 is '|'");
	reads("\"M \"", NH_ERR_CONFIG, "character 1");
	reads("\"M\\u0000M\"", NH_ERR_CONFIG, "character 1");
	reads("\"M\\u00e9\"", NH_ERR_CONFIG, "character 1");
	reads("[\"mamba\",\"sliding_attention\"]", NH_ERR_CONFIG, "item 1 is \"sliding_attention\"");
	reads("[\"M\"]", NH_ERR_CONFIG, "item 0 is \"M\"");
	reads("[\"mamba\",3]", NH_ERR_CONFIG, "item 1 is 3");
	reads("[null]", NH_ERR_CONFIG, "item 0 is null");
}

static void limits(void **state)
{
	(void)state;
	static char json[NM_MAX_LAYERS + 8];
	for (int n = NM_MAX_LAYERS; n <= NM_MAX_LAYERS + 1; n++) {
		memset(json, 'M', sizeof json);
		json[0] = json[n + 1] = '"';
		json[n + 2] = 0;
		if (n == NM_MAX_LAYERS) {
			char *want = mem_strndup(json + 1, (size_t)n);
			reads(json, NH_OK, want);
			mem_free(want);
		} else reads(json, NH_ERR_LIMIT, "has 4097 layers");
	}
	assert_int_equal(mem_live(), 0);
}

static void names(void **state)
{
	(void)state;
	const char *letters = "M*-E";
	for (int i = 0; letters[i]; i++) assert_int_equal(nm_kind_parse(nm_kind_name(letters[i])), letters[i]);
	assert_string_equal(nm_kind_name('X'), "?");
	assert_int_equal(nm_kind_parse(""), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(spellings), cmocka_unit_test(limits), cmocka_unit_test(names)};
	return cmocka_run_group_tests_name("nm_pattern", tests, NULL, NULL);
}
