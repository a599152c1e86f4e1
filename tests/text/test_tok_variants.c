/* SPDX-License-Identifier: Apache-2.0
 * test_tok_variants.c: tokenizers of many shapes against what the reference library made of the same texts (data/variants.json), long runs
 * included: those are also the proof that no word, white space or newlines cost more than n log n, and that long input meets no limit.
 */
#include "test.h"

#include <string.h>

#include "base/base_mem.h"
#include "helper_text.h"

static tokenizer *open_variant(const json_t *base, const json_t *changes, const char *name)
{
	json_t *doc = json_copy((json_t *)base);
	json_object_update(doc, (json_t *)changes);
	char *text = json_dumps(doc, 0);
	nh_error e = {0};
	tokenizer *t;
	if (tok_open_text(&t, text, strlen(text), name, &e) != NH_OK) fail_msg("%s", e.text);
	free(text);
	json_decref(doc);
	return t;
}

static void equal_reference(void **state)
{
	(void)state;
	json_t *doc = text_load_data("variants.json"), *v, *c;
	size_t i, j, cases = 0;
	json_array_foreach(json_object_get(doc, "entries"), i, v)
	{
		const char *name = json_string_value(json_object_get(v, "name"));
		tokenizer *t = open_variant(json_object_get(doc, "base"), json_object_get(v, "changes"), name);
		json_array_foreach(json_object_get(v, "cases"), j, c)
		{
			const json_t *text = json_array_get(c, 0), *ids = json_array_get(c, 2);
			text_check_ids(
			    t, json_string_value(text), json_string_length(text), (unsigned)json_integer_value(json_array_get(c, 1)), ids, name);
			for (size_t skip = 0; skip < 2; skip++) {
				const json_t *want = json_array_get(c, 3 + skip);
				text_check_decoded(t, ids, skip == 1, json_string_value(want), json_string_length(want), name);
			}
			cases++;
		}
		tok_close(t);
	}
	printf("%zu variants, %zu cases\n", i, cases);
	assert_true(i >= 30 && cases >= 1000);
	json_decref(doc);
	assert_int_equal(mem_live(), 0);
}

static void long_runs(void **state)
{
	(void)state;
	json_t *doc = text_load_data("variants.json"), *run;
	tokenizer *t = open_variant(json_object_get(doc, "base"), NULL, "runs");
	size_t i;
	json_array_foreach(json_object_get(doc, "runs"), i, run)
	{
		const char *unit = json_string_value(json_array_get(run, 0));
		json_int_t times = json_integer_value(json_array_get(run, 1));
		buf text = {0};
		tok_ids ids = {0};
		nh_error e = {0};
		char hash[17];
		for (json_int_t k = 0; k < times; k++) buf_str(&text, unit);
		int64_t begin = text_cpu_us();
		if (tok_encode(t, text.data, text.len, 0, &ids, &e) != NH_OK) fail_msg("%s", e.text);
		int64_t spent = text_cpu_us() - begin;
		uint64_t h = 0xCBF29CE484222325u;
		for (size_t k = 0; k < ids.count; k++) h = (h ^ (uint64_t)ids.ids[k]) * 0x100000001B3u;
		snprintf(hash, sizeof hash, "%016llx", (unsigned long long)h);
		printf("\"%.1s\" x %lld: %zu ids, %lld us\n", *unit == '\n' ? "n" : unit, (long long)times, ids.count, (long long)spent);
		assert_int_equal(ids.count, json_integer_value(json_array_get(run, 2)));
		assert_string_equal(hash, json_string_value(json_array_get(run, 3)));
		assert_true(spent < 20 * 1000000); /* a quadratic merge of 100,000 symbols takes minutes, sanitizers or not */
		buf_deinit(&text);
		tok_ids_deinit(&ids);
	}
	assert_true(i >= 10);
	tok_close(t);
	json_decref(doc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(equal_reference), cmocka_unit_test(long_runs)};
	return cmocka_run_group_tests_name("tok_variants", tests, NULL, NULL);
}
