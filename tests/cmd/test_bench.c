/* SPDX-License-Identifier: Apache-2.0
 * test_bench.c: nemotron bench through the built program: keys, terms against each other, refusals, records.
 */
#include "helper_cmd.h"

#include <jansson.h>
#include <string.h>

#include "base/base_mem.h"

#define SMALL "--probe-bytes 16M --passes 2 -q "

static json_t *bench(const char *what)
{
	json_error_t je;
	outcome o = run_program(NULL, 0, "$N bench %s --json " SMALL, what);
	json_t *v = json_loads(o.out.data, 0, &je);
	if (!v) fail_msg("not JSON: %s", je.text);
	outcome_free(&o);
	return v;
}

static double at(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);
	if (!json_is_number(v)) fail_msg("%s is no number", key);
	return json_number_value(v);
}

static const char *word(const json_t *o, const char *key)
{
	const char *v = json_string_value(json_object_get(o, key));
	if (!v || !*v) fail_msg("%s is no text", key);
	return v;
}

static double median(const json_t *o, const char *key) { return at(json_object_get(o, key), "median"); }

static void records_name_the_machine(void **state)
{
	(void)state;
	json_t *v = bench("probe"), *m = json_object_get(v, "machine"), *p = json_object_get(v, "probe");
	assert_string_equal(word(v, "tool"), "nemotron bench");
	word(v, "commit"), word(v, "date"), word(m, "cpu"), word(m, "kernel"), word(m, "huge_pages");
	assert_true(json_is_string(json_object_get(m, "flags")));
	assert_true(at(m, "processors") >= 1 && at(p, "read_bytes_s") > 0 && at(p, "f32_flops_s") > 0 && at(p, "cache_bytes_s") > 0);
	assert_true(json_object_size(json_object_get(p, "loops")) >= 4);
	json_decref(v);
}

/* What one step of the built-in model must move follows from its parts: the counters may not drift from it. */
static void terms_are_those_of_the_model(void **state)
{
	(void)state;
	json_t *v = bench("decode --arm ref --tokens 4"), *r = json_array_get(json_object_get(v, "results"), 0);
	double all = at(v, "weight_bytes"), weights = at(r, "weight_bytes"), experts = at(r, "expert_bytes"), distinct = at(r, "experts");
	assert_true(distinct > 0 && distinct == (double)(int64_t)distinct);
	assert_true(experts > 0 && weights > 0 && weights + experts < all);
	assert_true(at(r, "state_bytes") > 0 && at(r, "kv_bytes") > 0 && at(r, "flops") > 0);
	double share = median(r, "share_of_bound"), us = median(r, "us"), bytes = weights + experts + at(r, "state_bytes") + at(r, "kv_bytes");
	double rate = at(r, "bandwidth_before") > at(r, "bandwidth_after") ? at(r, "bandwidth_before") : at(r, "bandwidth_after");
	assert_true(share > 0 && share < 1 && us > 0 && rate > 0);
	assert_true(at(r, "tokens_s") > 0.999e6 / us && at(r, "tokens_s") < 1.001e6 / us);
	/* Twice the state for two rows, the same dense weights but for the rows of the embedding; experts in between. */
	json_t *w = bench("batch --arm ref --tokens 6 --batch 2"), *two = json_array_get(json_object_get(w, "results"), 0);
	assert_true(at(two, "state_bytes") > 1.999 * at(r, "state_bytes") && at(two, "state_bytes") < 2.001 * at(r, "state_bytes"));
	assert_true(at(two, "weight_bytes") >= weights && at(two, "weight_bytes") < weights * 1.001);
	assert_true(at(two, "experts") > distinct && at(two, "experts") <= 2 * distinct);
	double each = experts / distinct, again = at(two, "expert_bytes") / at(two, "experts");
	assert_true(again > 0.999 * each && again < 1.001 * each);
	assert_true(bytes > 0);
	json_decref(v);
	json_decref(w);
}

static void uncounted_is_told_as_unmeasured(void **state)
{
	(void)state;
	json_t *v = bench("decode --arm ref --tokens 4 --no-count"), *r = json_array_get(json_object_get(v, "results"), 0);
	assert_true(json_is_null(json_object_get(r, "flops")) && json_is_null(json_object_get(r, "weight_bytes")));
	assert_true(json_is_null(json_object_get(json_object_get(r, "share_of_bound"), "median")));
	json_decref(v);
	has(NULL, "$N bench decode --arm ref --tokens 4 --no-count " SMALL, "UNMEASURED");
}

static void every_op_runs(void **state)
{
	(void)state;
	json_t *v = bench(
	           "ops --arm ref --rows 1 --context 64 --pass-ms 0.1 --rotate 1M --format nvfp4 --op router,kv_proj,conv,ssm,attn,norm,moe"),
	       *r;
	size_t i, n = 0;
	json_array_foreach(json_object_get(v, "results"), i, r)
	{
		assert_true(median(r, "us") > 0 && median(r, "share_of_bound") > 0 && at(r, "bytes_s") > 0);
		word(r, "op"), word(r, "name"), word(r, "format"), word(r, "bound");
		n++;
	}
	assert_int_equal(n, 9);
	json_decref(v);
}

static void refusals(void **state)
{
	(void)state;
	says(NULL, 2, "$N bench nothing", "", "no bench has that name");
	says(NULL, 2, "$N bench decode --tokens 2", "", "a window needs at least 3");
	says(NULL, 2, "$N bench ops --op nothing " SMALL, NULL, "no case has op nothing");
	says(NULL, 2, "$N bench ops --rows 1,,2 " SMALL, "", "--rows: is 1,,2");
	says(NULL, 2, "$N bench ops --thread-time " SMALL, "", "--threads 1");
	says(NULL, 1, "$N bench ops --arm nothing " SMALL, "", "--arm: nothing is not in this build");
	says(NULL, 2, "$N bench compare a", "", "two record files");
	says(NULL, 1, "$N bench compare $D/a $D/b", "", "/a: ");
	dir_put("x.json", "{\"tool\": \"another\", \"results\": []}");
	says(NULL, 1, "$N bench compare $D/x.json $D/x.json", "", "tool: is another");
}

static void records_are_compared_on_one_machine(void **state)
{
	(void)state;
	outcome o = run_program(NULL, 0,
	    "$N bench ops --arm ref --op norm --rows 1 --pass-ms 0.1 --record $D/a.json " SMALL
	    "&& sed 's/\"cpu\": \"/\"cpu\": \"other /' $D/a.json "
	    "> $D/b.json && $N bench compare $D/a.json $D/a.json");
	assert_non_null(strstr(o.out.data, "rms_norm"));
	assert_non_null(strstr(o.out.data, "1.000"));
	outcome_free(&o);
	says(NULL, 1, "$N bench compare $D/a.json $D/b.json", "", "machine.cpu: is ");
	has(NULL, "$N bench compare $D/a.json $D/b.json --any-machine", "rms_norm");
	has(NULL, "$N bench compare $D/a.json $D/b.json --any-machine --json", "\"ratio\"");
}

#define DECODE "$N bench decode --arm ref --tokens 4 --no-count " SMALL

static void rivals(void **state)
{
	(void)state;
	has(NULL, DECODE "--rival 'echo a 7, 12.5 tokens'", "rival 12.50 tokens/s (12.50 to 12.50)");
	has(NULL, DECODE "--rival 'echo x=3 y=4' --rival-pattern 'x=([0-9]+)'", "rival 3.00 tokens/s");
	says(NULL, 1, DECODE "--rival 'echo none'", NULL, "has no number");
	says(NULL, 1, DECODE "--rival 'echo 5; exit 3'", NULL, "ended with status 3");
	says(NULL, 2, DECODE "--rival 'echo 0'", NULL, "expected more than 0");
	says(NULL, 2, DECODE "--rival 'echo 5' --rival-pattern '5'", NULL, "with a group");
}

static void what_comes_before_the_first_step(void **state)
{
	(void)state;
	dir_put("text", "The capital of France is a city, and a large one.\n");
	json_t *v = bench("tokenize $D/text"), *r = json_array_get(json_object_get(v, "results"), 0);
	assert_true(at(r, "tokens") > 5 && at(r, "bytes") == 50 && median(r, "mb_s") > 0 && median(r, "open_us") > 0);
	json_decref(v);
	v = bench("load --arm ref");
	r = json_array_get(json_object_get(v, "results"), 0);
	assert_true(median(r, "us") > 0 && at(r, "bytes") > 1e6 && at(r, "peak_rss_bytes") > at(r, "bytes"));
	json_decref(v);
	says(NULL, 1, "$N bench tokenize $D/none", "", "none");
}

int main(void)
{
	if (program_missing()) return 77;
#define ONE(name) cmocka_unit_test_setup_teardown(name, dir_setup, dir_teardown)
	const struct CMUnitTest tests[] = {ONE(records_name_the_machine), ONE(terms_are_those_of_the_model),
	    ONE(uncounted_is_told_as_unmeasured), ONE(every_op_runs), ONE(refusals), ONE(records_are_compared_on_one_machine), ONE(rivals),
	    ONE(what_comes_before_the_first_step)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
