/* SPDX-License-Identifier: Apache-2.0
 * test_base_json.c: documents as published files write them, hostile ones, and what the getters say about wrong values.
 */
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base_buf.h"
#include "base/base_json.h"
#include "base/base_mem.h"

static json_t *load(const char *text)
{
	json_t *v = NULL;
	nh_error e = {0};
	if (jsn_load_text(&v, text, strlen(text), "doc", &e) != NH_OK) fail_msg("%s", e.text);
	return v;
}

static void refused(const char *text, size_t len, const char *part)
{
	json_t *v = (json_t *)&v;
	nh_error e = {0};
	assert_int_equal(jsn_load_text(&v, text, len, "doc", &e), NH_ERR_FORMAT);
	assert_null(v);
	assert_memory_equal(e.text, "doc: line ", 10);
	if (!strstr(e.text, part)) fail_msg("\"%s\" does not say \"%s\"", e.text, part);
}

static void takes_bare_words(void **state)
{
	(void)state;
	json_t *v = load("{\"a\":[0.0, Infinity ,-Infinity,NaN],\"b\":Infinity,\"s\":\"x\\\"Infinity, NaN\\\\\",\"c\" : \"-Infinity\"}");
	double d;
	json_t *a = json_object_get(v, "a");
	assert_int_equal(json_array_size(a), 4);
	assert_true(jsn_is_number(json_array_get(a, 0)) && jsn_number(json_array_get(a, 0)) == 0);
	assert_true(isinf(jsn_number(json_array_get(a, 1))) && jsn_number(json_array_get(a, 1)) > 0);
	assert_true(isinf(jsn_number(json_array_get(a, 2))) && jsn_number(json_array_get(a, 2)) < 0);
	assert_true(isnan(jsn_number(json_array_get(a, 3))));
	assert_int_equal(jsn_get_real(v, "doc", "b", 1, &d, NULL), NH_OK);
	assert_true(isinf(d) && d > 0);
	assert_int_equal(jsn_get_real(v, "doc", "c", 1, &d, NULL), NH_OK);
	assert_true(isinf(d) && d < 0);
	assert_string_equal(json_string_value(json_object_get(v, "s")), "x\"Infinity, NaN\\");
	assert_false(jsn_is_number(json_object_get(v, "s")));
	json_decref(v);
	v = load("NaN");
	assert_true(isnan(jsn_number(v)));
	json_decref(v);
}

static void refuses_what_is_not_json(void **state)
{
	(void)state;
	static const char *const bad[] = {"", " ", "{", "[1,]", "{\"a\":1,}", "{\"a\":1} x", "[1] [2]", "{'a':1}", "[01]", "[+1]", "[1e999]",
	    "nan", "[Infinit]", "[InfinityX]", "[1Infinity]", "[--Infinity]", "{Infinity:1}", "{NaN \n:1}", "[\"\\x\"]", "[\"a\nb\"]",
	    "[\"\\ud800\"]", "[\"Infinity", "[\"Infinity\\", "\"NaN\\\"", "// c\n1", "[\"\xFF\"]", "[\"\xC0\xAF\"]"};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) refused(bad[i], strlen(bad[i]), "not valid JSON");
	refused("[1]\0", 4, "not valid JSON");
	refused("{\"a\\u0000b\":1}", 14, "not valid JSON"); /* a key with NUL cannot be named */
	assert_int_equal(mem_live(), 0);
}

static void refuses_duplicate_keys_by_name(void **state)
{
	(void)state;
	const char *text = "{\"x\":{\"first\":1,\"second\":2,\"first\":1}}";
	refused(text, strlen(text), "duplicate object key near '\"first\"'");
}

static void refuses_deep_nesting(void **state)
{
	(void)state;
	buf b = {0};
	for (int i = 0; i < 1000000; i++) buf_char(&b, '[');
	refused(b.data, b.len, "maximum parsing depth");
	buf_deinit(&b);
	for (int i = 0; i < 1000000; i++) buf_str(&b, "{\"a\":");
	refused(b.data, b.len, "maximum parsing depth");
	buf_deinit(&b);
	assert_int_equal(mem_live(), 0);
}

static void names_the_line(void **state)
{
	(void)state;
	json_t *v;
	nh_error e;
	const char *text = "{\n\"a\": 1,\n\"b\": Infinity oops}";
	assert_int_equal(jsn_load_text(&v, text, strlen(text), "m/config.json", &e), NH_ERR_FORMAT);
	assert_memory_equal(e.text, "m/config.json: line 3, ", 23);
}

/* One getter call that must fail with this text. */
#define WRONG(call, expected)                    \
	do {                                         \
		nh_error e = {0};                        \
		assert_int_equal((call), NH_ERR_CONFIG); \
		assert_string_equal(e.text, expected);   \
	} while (0)

static void getters_read(void **state)
{
	(void)state;
	json_t *v = load("{\"i\":7,\"f\":2.0,\"big\":9007199254740993,\"b\":true,\"s\":\"t\",\"n\":null,\"r\":0.5,\"neg\":-3}");
	int64_t i;
	double d;
	bool b;
	const char *s;
	assert_int_equal(jsn_get_int(v, "d", "i", 0, 0, 7, &i, NULL), NH_OK);
	assert_int_equal(i, 7);
	assert_int_equal(jsn_get_int(v, "d", "f", 0, 0, 7, &i, NULL), NH_OK);
	assert_int_equal(i, 2);
	assert_int_equal(jsn_get_int(v, "d", "big", 0, 0, INT64_MAX, &i, NULL), NH_OK);
	assert_true(i == 9007199254740993);
	assert_int_equal(jsn_get_int(v, "d", "neg", 0, -3, 0, &i, NULL), NH_OK);
	assert_int_equal(i, -3);
	assert_int_equal(jsn_get_int(v, "d", "absent", 5, 0, 1, &i, NULL), NH_OK); /* a default need not be in range */
	assert_int_equal(i, 5);
	assert_int_equal(jsn_get_int(v, "d", "n", 6, 0, 1, &i, NULL), NH_OK);
	assert_int_equal(i, 6);
	assert_int_equal(jsn_get_real(v, "d", "r", 0, &d, NULL), NH_OK);
	assert_true(d == 0.5);
	assert_int_equal(jsn_get_real(v, "d", "i", 0, &d, NULL), NH_OK);
	assert_true(d == 7);
	assert_int_equal(jsn_get_bool(v, "d", "b", false, &b, NULL), NH_OK);
	assert_true(b);
	assert_int_equal(jsn_get_bool(v, "d", "absent", true, &b, NULL), NH_OK);
	assert_true(b);
	assert_int_equal(jsn_get_string(v, "d", "s", "x", &s, NULL), NH_OK);
	assert_string_equal(s, "t");
	assert_int_equal(jsn_get_string(v, "d", "n", "x", &s, NULL), NH_OK);
	assert_string_equal(s, "x");
	json_decref(v);
}

static void getters_say_what_is_wrong(void **state)
{
	(void)state;
	json_t *v = load("{\"i\":8,\"f\":2.5,\"w\":Infinity,\"t\":\"7\",\"b\":1,\"huge\":1e300,\"l\":[1,2],\"nul\":\"a\\u0000b\"}");
	int64_t i;
	double d;
	bool b;
	const char *s;
	WRONG(jsn_get_int(v, "d", "i", 0, 0, 7, &i, &e), "d: i: is 8, expected an integer from 0 to 7");
	WRONG(jsn_get_int(v, "d", "i", 0, 9, 10, &i, &e), "d: i: is 8, expected an integer from 9 to 10");
	WRONG(jsn_get_int(v, "d", "f", 0, 0, 7, &i, &e), "d: f: is 2.5, expected an integer from 0 to 7");
	WRONG(jsn_get_int(v, "d", "w", 0, 0, 7, &i, &e), "d: w: is \"Infinity\", expected an integer from 0 to 7");
	WRONG(jsn_get_int(v, "d", "t", 0, 0, 7, &i, &e), "d: t: is \"7\", expected an integer from 0 to 7");
	WRONG(jsn_get_int(v, "d", "huge", 0, INT64_MIN, INT64_MAX, &i, &e),
	    "d: huge: is 1e300, expected an integer from -9223372036854775808 to 9223372036854775807");
	WRONG(jsn_get_real(v, "d", "t", 0, &d, &e), "d: t: is \"7\", expected a number");
	WRONG(jsn_get_bool(v, "d", "b", false, &b, &e), "d: b: is 1, expected true or false");
	WRONG(jsn_get_string(v, "d", "l", NULL, &s, &e), "d: l: is [1,2], expected a string without NUL");
	WRONG(jsn_get_string(v, "d", "nul", NULL, &s, &e), "d: nul: is \"a\\u0000b\", expected a string without NUL");
	json_decref(v);
}

static void brief_is_bounded(void **state)
{
	(void)state;
	char out[64];
	jsn_brief(NULL, out);
	assert_string_equal(out, "absent");
	int cut = 0;
	for (size_t n = 40; n < 80; n++) {
		buf b = {0};
		buf_char(&b, '"');
		for (size_t i = 0; i < n; i++) buf_str(&b, i % 4 ? "z" : "\xC3\xA9");
		buf_char(&b, '"');
		json_t *v = load(b.data);
		jsn_brief(v, out);
		assert_true(strlen(out) <= 60);
		if (b.len <= 56) assert_string_equal(out, b.data);
		else {
			assert_string_equal(out + strlen(out) - 3, "...");
			cut++;
		}
		json_decref(v);
		buf_deinit(&b);
	}
	assert_true(cut > 10 && cut < 40);
	assert_int_equal(mem_live(), 0);
}

static void reads_files(void **state)
{
	(void)state;
	json_t *v;
	nh_error e;
	char path[] = "/tmp/test_base_json.XXXXXX";
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "{\"a\":NaN}", 9), 9);
	close(fd);
	assert_int_equal(jsn_load_path(&v, path, 9, &e), NH_OK);
	assert_true(isnan(jsn_number(json_object_get(v, "a"))));
	json_decref(v);
	assert_int_equal(jsn_load_path(&v, path, 8, &e), NH_ERR_LIMIT);
	assert_null(v);
	assert_non_null(strstr(e.text, path));
	unlink(path);
	assert_int_equal(jsn_load_path(&v, path, 8, &e), NH_ERR_NOTFOUND);
	assert_int_equal(mem_live(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(takes_bare_words),
	    cmocka_unit_test(refuses_what_is_not_json),
	    cmocka_unit_test(refuses_duplicate_keys_by_name),
	    cmocka_unit_test(refuses_deep_nesting),
	    cmocka_unit_test(names_the_line),
	    cmocka_unit_test(getters_read),
	    cmocka_unit_test(getters_say_what_is_wrong),
	    cmocka_unit_test(brief_is_bounded),
	    cmocka_unit_test(reads_files),
	};
	return cmocka_run_group_tests_name("base_json", tests, NULL, NULL);
}
