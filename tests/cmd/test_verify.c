/* SPDX-License-Identifier: Apache-2.0
 * test_verify.c: the verdicts of `verify` on goldens that are right, and on the same goldens with one thing changed: an instrument that cannot say no
 * proves nothing. `golden` writes one of the files.
 */
#include "helper_cmd.h"

#include <stdlib.h>
#include <string.h>

#include "base/base_file.h"
#include "base/base_json.h"
#include "base/base_mem.h"

#define MODEL NH_SOURCE_DIR "/models/tiny"
#define DATA NH_SOURCE_DIR "/tests/golden/data/"

static json_t *load(const char *name)
{
	json_t *d;
	nh_error e = {0};
	char path[600];
	snprintf(path, sizeof path, DATA "%s", name);
	if (jsn_load_path(&d, path, JSON_LIMIT_LARGE, &e) != NH_OK) fail_msg("%s", e.text);
	return d;
}

/* Keeps the first `count` entries, so that a run is short. */
static void keep(json_t *d, size_t count)
{
	json_t *entries = json_object_get(d, "entries");
	while (json_array_size(entries) > count) json_array_remove(entries, json_array_size(entries) - 1);
}

static json_t *entry(json_t *d, size_t i) { return json_array_get(json_object_get(d, "entries"), i); }

static void put(const char *name, json_t *d)
{
	char *text = json_dumps(d, JSON_COMPACT);
	assert_non_null(text);
	dir_put(name, text);
	free(text);
	json_decref(d);
}

static void expect(int status, const char *word, const char *arguments)
{
	outcome o = run_program(NULL, status, "$N verify '" MODEL "' %s", arguments);
	assert_int_equal(o.status, status);
	const char *where = status == 4 ? o.err.data : o.out.data;
	if (!where || !strstr(where, word))
		fail_msg("\"%s\" is not in: %s%s", word, o.out.data ? o.out.data : "", o.err.data ? o.err.data : "");
	outcome_free(&o);
}

static void exact_sees_one_value(void **state)
{
	(void)state;
	json_t *d = load("tiny-nvfp4.f64-exact.json");
	keep(d, 2);
	put("good.json", json_deep_copy(d));
	expect(0, "EXACT PASS: 128 positions", "$D/good.json");
	json_t *pair = json_array_get(json_array_get(json_object_get(entry(d, 1), "topk"), 40), 3);
	json_array_set_new(pair, 1, json_real(json_number_value(json_array_get(pair, 1)) + 3e-6));
	put("value.json", json_deep_copy(d));
	expect(1, "decode step 40", "$D/value.json");
	json_array_set_new(pair, 1, json_real(json_number_value(json_array_get(pair, 1)) - 3e-6));
	json_array_set_new(json_object_get(entry(d, 0), "token_ids"), 63, json_integer(500)); /* the last: nothing follows from it */
	put("token.json", d);
	expect(1, "1 arg-max differ", "$D/token.json");
}

static void strict_sees_a_token_and_an_end(void **state)
{
	(void)state;
	json_t *d = load("tiny-nvfp4.vllm.strict.json");
	keep(d, 2);
	put("good.json", json_deep_copy(d));
	expect(0, "STRICT PASS: 2 of 2", "$D/good.json --numerics hopper");
	json_t *ids = json_object_get(entry(d, 1), "token_ids");
	json_t *other = json_deep_copy(d);
	json_array_set_new(json_object_get(entry(other, 1), "token_ids"), 5, json_integer(500));
	put("token.json", other);
	expect(1, "step 5", "$D/token.json --numerics portable");
	json_decref(d);
	/* A text that ends by itself, while the golden goes on. */
	d = load("tiny-nvfp4.vllm.strict.json");
	json_t *entries = json_object_get(d, "entries");
	for (size_t i = json_array_size(entries); i-- > 0;)
		if (strcmp(json_string_value(json_object_get(entry(d, i), "name")), "off-river") != 0) json_array_remove(entries, i);
	assert_int_equal(json_array_size(entries), 1);
	ids = json_object_get(entry(d, 0), "token_ids");
	json_array_append_new(ids, json_integer(500));
	json_array_append(json_object_get(entry(d, 0), "topk"), json_array_get(json_object_get(entry(d, 0), "topk"), 0));
	json_array_append_new(json_object_get(entry(d, 0), "top2_margin"), json_real(1));
	put("longer.json", d);
	expect(2, "SHORT", "$D/longer.json --numerics portable");
}

static void another_checkpoint_is_refused(void **state)
{
	(void)state;
	json_t *d = load("tiny-nvfp4.f64-exact.json"), *files = json_object_get(json_object_get(d, "model"), "files");
	const char *name;
	json_t *digest;
	json_object_foreach(files, name, digest)
	{
		char hex[65];
		snprintf(hex, sizeof hex, "%s", json_string_value(digest));
		hex[0] = hex[0] == '0' ? '1' : '0';
		json_object_set_new(files, name, json_string(hex));
		break;
	}
	put("other.json", d);
	expect(3, "REFUSED", "$D/other.json");
}

static void damaged_files_are_told(void **state)
{
	(void)state;
	static const struct {
		const char *key;
		const char *value, *word;
	} CASES[] = {
	    {"schema", "\"nemotron-golden/9\"", "schema: is \"nemotron-golden/9\""},
	    {"entries", "7", "entries: expected a list"},
	    {"numerics", "{}", "numerics.rounding: absent"},
	    {"gate", "{\"kind\": \"loose\"}", "gate.kind: is \"loose\""},
	};
	for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
		json_t *d = load("tiny-nvfp4.f64-exact.json");
		keep(d, 1);
		json_object_set_new(d, CASES[i].key, json_loads(CASES[i].value, JSON_DECODE_ANY, NULL));
		put("bad.json", d);
		expect(4, CASES[i].word, "$D/bad.json");
	}
	json_t *d = load("tiny-nvfp4.f64-exact.json");
	keep(d, 1);
	json_array_remove(json_object_get(entry(d, 0), "topk"), 0);
	put("bad.json", d);
	expect(4, "topk: expected one list a token", "$D/bad.json");
	expect(4, "no-such-file.json", "$D/no-such-file.json");
}

static void its_own_golden_is_near(void **state)
{
	(void)state;
	dir_put("prompts.json",
	    "[{\"name\": \"a\", \"prompt\": \"courage, noun. 1.\"}, {\"name\": \"b\", \"prompt_token_ids\": [72, 109, 303]},"
	    " {\"name\": \"c\", \"prompt\": \"In the beginning\"}, {\"name\": \"d\", \"prompt\": \"dog\"}]");
	outcome o = run_program(NULL, 0, "$N golden '" MODEL "' $D/prompts.json -n 55 -o $D/own.json");
	outcome_free(&o);
	/* Another engine's run: the same tokens, every log-probability a little off. */
	json_error_t je;
	json_t *noise = json_load_file(dir_path("own.json"), 0, &je);
	assert_non_null(noise);
	for (size_t i = 0; i < 4; i++) {
		size_t k, n;
		json_t *list, *pair;
		json_array_foreach(json_object_get(entry(noise, i), "topk"), k, list) json_array_foreach(list, n, pair)
		    json_array_set_new(pair, 1, json_real(json_number_value(json_array_get(pair, 1)) - 0.05 * (double)(n % 3)));
	}
	put("noise.json", noise);
	expect(0, "NEAR", "$D/own.json --noise $D/noise.json");
	expect(1, "FAR", "$D/noise.json --noise $D/noise.json"); /* no noise at all allows no distance */
	expect(3, "REFUSED", "$D/own.json");
	o = run_program(NULL, 1, "$N golden '" MODEL "' $D/none.json -o $D/never.json");
	outcome_free(&o);
	assert_false(file_exists(dir_path("never.json")));
}

int main(void)
{
	if (program_missing()) return 77;
#define ONE(name) cmocka_unit_test_setup_teardown(name, dir_setup, dir_teardown)
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	printf("NOT RUN: exact, strict and near: too slow under sanitizers\n");
	(void)exact_sees_one_value, (void)strict_sees_a_token_and_an_end, (void)its_own_golden_is_near;
	const struct CMUnitTest tests[] = {ONE(another_checkpoint_is_refused), ONE(damaged_files_are_told)};
#else
	const struct CMUnitTest tests[] = {ONE(exact_sees_one_value), ONE(strict_sees_a_token_and_an_end), ONE(another_checkpoint_is_refused),
	    ONE(damaged_files_are_told), ONE(its_own_golden_is_near)};
#endif
	return cmocka_run_group_tests_name("verify", tests, NULL, NULL);
}
