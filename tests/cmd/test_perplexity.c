/* SPDX-License-Identifier: Apache-2.0
 * test_perplexity.c: nemotron perplexity through the built program: against a float64 oracle's log-probabilities, against the sum of what it tells
 * itself, window by window, and with texts and options that are mistakes.
 */
#include "helper_cmd.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/base_file.h"
#include "base/base_mem.h"

static json_t *measured(const char *command)
{
	outcome o = run_program(NULL, 0, "%s", command);
	assert_int_equal(o.status, 0);
	json_t *v = json_loads(o.out.data, 0, NULL);
	assert_non_null(v);
	outcome_free(&o);
	return v;
}

static double number(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);
	if (!json_is_number(v)) fail_msg("%s is not a number", key);
	return json_number_value(v);
}

static void put_ids(const char *name, const json_t *ids)
{
	buf b = {0};
	for (size_t i = 0; i < json_array_size(ids); i++) buf_printf(&b, "%lld\n", (long long)json_integer_value(json_array_get(ids, i)));
	dir_put(name, b.data);
	buf_deinit(&b);
}

static void agrees_with_the_oracle(void **state)
{
	(void)state;
	if (!file_exists(NH_SHARED_DIR "/goldens/tiny-bf16.f64-exact.teacher.json")) NOT_RUN("the shared goldens are not there");
	json_t *g = json_load_file(NH_SHARED_DIR "/goldens/tiny-bf16.f64-exact.teacher.json", 0, NULL);
	const json_t *list = json_object_get(g, "logprobs");
	put_ids("ids", json_object_get(g, "prompt_token_ids"));
	json_t *r = measured("$N perplexity --ids --json --logprobs --arm ref --numerics exact " NH_SHARED_DIR "/models/tiny-bf16 $D/ids");
	const json_t *told = json_object_get(r, "logprobs");
	assert_int_equal(json_array_size(told), json_array_size(list) - 1);
	double sum = 0;
	for (size_t i = 1; i < json_array_size(list); i++) {
		double want = json_number_value(json_array_get(list, i));
		double got = json_number_value(json_array_get(json_array_get(told, i - 1), 2));
		assert_int_equal(json_integer_value(json_array_get(json_array_get(told, i - 1), 0)), i);
		if (fabs(want - got) > 1.5e-6) fail_msg("position %zu: %.9f, the oracle has %.6f", i, got, want); /* the file has six decimals */
		sum -= want;
	}
	double n = (double)json_array_size(list) - 1;
	assert_int_equal((int)number(r, "scored"), (int)n);
	assert_true(fabs(number(r, "nll_mean") - sum / n) < 1e-6);
	assert_true(fabs(number(r, "perplexity") - exp(sum / n)) < 1e-5);
	json_decref(r);
	json_decref(g);
}

/* Disjoint windows are texts of their own; the sums add up. */
static void windows_are_texts(void **state)
{
	(void)state;
	has(NULL, "$N mkmodel -q $D/m", "m");
	dir_put("all", "5 6 7 8 9 10 11 12 13 14 15 16 17 18 19");
	dir_put("one", "[5, 6, 7, 8, 9, 10]");
	dir_put("two", "11 12 13 14 15 16");
	dir_put("three", "17 18 19");
	json_t *all = measured("$N perplexity --ids --json $D/m $D/all -c 6"), *one = measured("$N perplexity --ids --json $D/m $D/one"),
	       *two = measured("$N perplexity --ids --json $D/m $D/two"), *three = measured("$N perplexity --ids --json $D/m $D/three");
	double sum = number(one, "nll_sum") + number(two, "nll_sum") + number(three, "nll_sum");
	assert_true(fabs(number(all, "nll_sum") - sum) < 1e-9 * sum);
	assert_int_equal((int)number(all, "windows"), 3);
	assert_int_equal((int)number(all, "scored"), 12);
	assert_int_equal((int)number(all, "excluded"), 3);
	assert_true(fabs(number(all, "perplexity") - exp(sum / 12)) < 1e-9 * number(all, "perplexity"));
	/* Overlapping: the first window as before, then two tokens of each next one, with four before them. */
	json_t *over = measured("$N perplexity --ids --json --logprobs $D/m $D/all -c 6 --stride 2");
	assert_int_equal((int)number(over, "scored"), 14);
	assert_int_equal((int)number(over, "windows"), 6);
	dir_put("tail", "7 8 9 10 11 12");
	json_t *tail = measured("$N perplexity --ids --json --logprobs $D/m $D/tail");
	for (size_t i = 0; i < 2; i++) {
		const json_t *a = json_array_get(json_object_get(over, "logprobs"), 5 + i),
		             *b = json_array_get(json_object_get(tail, "logprobs"), 3 + i);
		assert_true(json_integer_value(json_array_get(a, 1)) == json_integer_value(json_array_get(b, 1)));
		assert_true(json_number_value(json_array_get(a, 2)) == json_number_value(json_array_get(b, 2)));
	}
	json_t *lists[] = {all, one, two, three, over, tail};
	for (size_t i = 0; i < ARRAY_LEN(lists); i++) json_decref(lists[i]);
}

static void text_is_tokenised_and_counted(void **state)
{
	(void)state;
	has(NULL, "$N mkmodel -q -c vocab_size=1200 $D/m", "m");
	dir_put("text", "A small text, with a few words in it.\n");
	json_t *r = measured("$N perplexity --json $D/m $D/text");
	assert_true(fabs(number(r, "bits_per_byte") - number(r, "nll_sum") / log(2) / 38) < 1e-9);
	json_t *ids = measured("$N tokenize $D/m < $D/text | $N perplexity --ids --json $D/m -");
	assert_true(number(r, "nll_sum") == number(ids, "nll_sum"));
	assert_true(json_is_null(json_object_get(ids, "bits_per_byte")));
	json_decref(r);
	json_decref(ids);
	has(NULL, "$N perplexity $D/m $D/text -n 7", "tokens      7, scored 6, not scored 1");
	has(NULL, "$N perplexity $D/m $D/text -c 5 --stride 4", "the first of the text");
}

static void mistakes_are_named(void **state)
{
	(void)state;
	has(NULL, "$N mkmodel -q $D/m", "m");
	dir_put("one", "5");
	dir_put("word", "5 6 cat");
	dir_put("far", "5 6 7000");
	dir_put("none", "");
	says(NULL, 2, "$N perplexity $D/m", "", "something is missing");
	says(NULL, 2, "$N perplexity --ids $D/m $D/one", "", "has 1 tokens, expected at least 2");
	says(NULL, 2, "$N perplexity --ids $D/m $D/none", "", "has 0 tokens");
	says(NULL, 1, "$N perplexity --ids $D/m $D/word", "", "is \"cat\", expected a token id");
	says(NULL, 2, "$N perplexity --ids $D/m $D/far", "", "7000");
	says(NULL, 2, "printf '5 6 7' > $D/ok && $N perplexity --ids $D/m $D/ok -c 8 --stride 9", "", "would be left out");
	says(NULL, 2, "$N perplexity --ids $D/m $D/ok -c 5000", "", "the model has 4096");
	says(NULL, 2, "$N perplexity --ids --logprobs $D/m $D/ok", "", "--logprobs needs --json");
	says(NULL, 1, "$N perplexity $D/m $D/absent", "", "absent");
	says(NULL, 1, "$N perplexity $D/absent $D/ok", "", "absent");
}

int main(void)
{
	if (program_missing()) return 77;
#define ONE(name) cmocka_unit_test_setup_teardown(name, dir_setup, dir_teardown)
	const struct CMUnitTest tests[] = {
	    ONE(agrees_with_the_oracle), ONE(windows_are_texts), ONE(text_is_tokenised_and_counted), ONE(mistakes_are_named)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
