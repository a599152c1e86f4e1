/* SPDX-License-Identifier: Apache-2.0
 * test_golden_file.c: the golden files of nemotron verify: what passes, what differs, and golden files that may not be judged by. The program's own
 * golden of a small random checkpoint is the base; each case changes one thing in it. That verdicts are right is the proofs' business.
 */
#include "helper_cmd.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/base_mem.h"

#define GOLDEN "{\"kind\":\"exact\",\"tolerance_log_probability\":1e-6}"

static json_t *made(void)
{
	json_error_t je;
	has(NULL, "$N mkmodel -q $D/m", "m");
	dir_put("p.json", "[{\"name\":\"a\",\"prompt_token_ids\":[5,6,7,8]},{\"name\":\"b\",\"prompt_token_ids\":[50,60,7]}]");
	says(NULL, 0, "$N golden $D/m $D/p.json -n 6 --numerics exact -q -o $D/own.json", "", NULL);
	json_t *g = json_load_file(dir_path("own.json"), 0, &je);
	assert_non_null(g);
	json_object_set_new(g, "gate", json_loads(GOLDEN, 0, NULL));
	return g;
}

/* The golden with `value` (JSON) at a path of keys and indices, such as "entries/0/topk/1"; NULL removes. */
static void put(const json_t *g, const char *path, const char *value)
{
	json_t *copy = json_deep_copy(g), *at = copy;
	char text[200], *key = text, *slash;
	snprintf(text, sizeof text, "%s", path);
	for (; (slash = strchr(key, '/')) != NULL; key = slash + 1) {
		*slash = '\0';
		at = json_is_array(at) ? json_array_get(at, (size_t)atoi(key)) : json_object_get(at, key);
		assert_non_null(at);
	}
	json_t *v = value != NULL ? json_loads(value, JSON_DECODE_ANY, NULL) : NULL;
	assert_true(value == NULL || v != NULL);
	if (v == NULL) json_object_del(at, key);
	else if (json_is_array(at)) json_array_set_new(at, (size_t)atoi(key), v);
	else json_object_set_new(at, key, v);
	assert_int_equal(json_dump_file(copy, dir_path("g.json"), 0), 0);
	json_decref(copy);
}

static void verdict(int status, const char *out, const char *err)
{
	outcome o = run_program(NULL, status, "$N verify -q $D/m $D/g.json --numerics exact");
	assert_int_equal(o.status, status);
	if (out != NULL && strstr(o.out.data != NULL ? o.out.data : "", out) == NULL) fail_msg("expected \"%s\" in\n%s", out, o.out.data);
	if (err != NULL && strstr(o.err.data != NULL ? o.err.data : "", err) == NULL) fail_msg("expected \"%s\" in\n%s", err, o.err.data);
	outcome_free(&o);
}

static void its_own_golden_passes(void **state)
{
	(void)state;
	json_t *g = made();
	put(g, "name", "\"unchanged\"");
	verdict(0, "EXACT PASS: 12 positions, 60 log-probabilities", NULL);
	put(g, "gate", "{\"kind\":\"strict\",\"profiles\":[\"exact\"]}");
	verdict(0, "STRICT PASS: 2 of 2 prompts the same", NULL);
	put(g, "gate", "{\"kind\":\"strict\",\"profiles\":[\"hopper\"]}");
	verdict(3, "REFUSED: profile exact is not in the golden's gate", NULL);
	put(g, "gate", "{\"kind\":\"distance\"}");
	verdict(3, "REFUSED: a distance needs", NULL);
	put(g, "entries/0/token_ids/2", "77");
	verdict(1, "EXACT FAIL", NULL);
	json_decref(g);
}

/* A free run stops one token after the golden's end, however many tokens the golden's oracle was allowed. */
static void a_free_run_is_bounded_by_the_golden(void **state)
{
	(void)state;
	json_t *g = made();
	json_object_set_new(g, "gate", json_loads("{\"kind\":\"strict\",\"profiles\":[\"exact\"]}", 0, NULL));
	put(g, "sampling/max_tokens", "2147483647");
	verdict(1, "a: 7 tokens, the golden has 6; those are the same", NULL);
	json_decref(g);
}

/* A step that lists nothing, an id that is none and a tolerance of its own choice would each pass without having been compared. */
static void goldens_that_compare_less_are_refused(void **state)
{
	(void)state;
	static const struct {
		const char *path, *value, *says;
	} CASES[] = {
	    {"entries/0/topk/1", "null", "a: topk: expected a list of pairs at each step"},
	    {"entries/0/topk/1", "[]", "a: topk: expected a list of pairs at each step"},
	    {"entries/0/topk/1", "\"x\"", "a: topk: expected a list of pairs at each step"},
	    {"entries/0/topk/1/0/0", "4294967295", "a: topk: expected pairs of id and log-probability"},
	    {"entries/0/topk/1/0/0", "-1", "a: topk: expected pairs of id and log-probability"},
	    {"entries/0/topk/1/0/1", "null", "a: topk: expected pairs of id and log-probability"},
	    {"entries/0/top2_margin", "[1]", "a: top2_margin: expected one number a token"},
	    {"gate/tolerance_log_probability", "1.0", "gate.tolerance_log_probability: is 1, expected a number > 0 and <= 1e-06"},
	    {"gate/tolerance_log_probability", "-1", "gate.tolerance_log_probability"},
	    {"gate/kind", "\"loose\"", "gate.kind: is \"loose\""},
	    {"numerics/rounding", NULL, "numerics.rounding: absent"},
	    {"schema", "\"nemotron-golden/2\"", "schema"},
	};
	json_t *g = made();
	for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
		put(g, CASES[i].path, CASES[i].value);
		verdict(4, "", CASES[i].says);
	}
	json_decref(g);
}

static void another_checkpoint_is_refused(void **state)
{
	(void)state;
	json_t *g = made();
	put(g, "model/files/model.safetensors", NULL); /* the configuration alone does not say which weights were run */
	verdict(3, "model.files: has no SHA-256 of model.safetensors", NULL);
	put(g, "model/files", "{}");
	verdict(3, "model.files: has no SHA-256 of model.safetensors", NULL);
	put(g, "model/files/model.safetensors", "\"00\"");
	verdict(3, "another checkpoint: model.safetensors has SHA-256", NULL);
	put(g, "model/files/other.safetensors", "\"00\"");
	verdict(3, "it names other.safetensors, which the model does not have", NULL);
	json_decref(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(its_own_golden_passes, dir_setup, dir_teardown),
	    cmocka_unit_test_setup_teardown(a_free_run_is_bounded_by_the_golden, dir_setup, dir_teardown),
	    cmocka_unit_test_setup_teardown(goldens_that_compare_less_are_refused, dir_setup, dir_teardown),
	    cmocka_unit_test_setup_teardown(another_checkpoint_is_refused, dir_setup, dir_teardown),
	};
	int missing = program_missing();
	return missing ? missing : cmocka_run_group_tests(tests, NULL, NULL);
}
