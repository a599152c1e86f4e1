/* SPDX-License-Identifier: Apache-2.0
 * test_tokenize.c: nemotron tokenize through the built program.
 */
#include "helper_cmd.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/base_mem.h"

static void text_becomes_ids_and_text_again(void **state)
{
	(void)state;
	static const char text[] = "The capital of France\nis caf\xC3\xA9 \xF0\x9F\x98\x80!\n";
	outcome o = run_program(text, 0, "$N tokenize | tee $D/ids | $N tokenize --decode");
	assert_string_equal(o.out.data, text);
	outcome_free(&o);
	says("The capital", 0, "$N tokenize", "384 1647\n", NULL);
	says("The capital", 0, "$N tokenize --json", "[384,1647]\n", NULL);
	says("The capital", 0, "$N tokenize --count", "2\n", NULL);
	says("The capital", 0, "$N tokenize --pieces", "384\tThe\n1647\t capital\n", NULL);
	says("", 0, "$N tokenize", "\n", NULL);
	says("", 0, "$N tokenize --count", "0\n", NULL);
	says("384, [1647]", 0, "$N tokenize --decode", "The capital", NULL);
	says("384 1647", 0, "$N tokenize --decode --json", "\"The capital\"\n", NULL);
	says("384 x", 1, "$N tokenize --decode", "", "x, expected a token id at byte 4");
	says("384 99999999999", 1, "$N tokenize --decode", "", "expected 0 or more");
}

static void control_tokens_are_a_choice(void **state)
{
	(void)state;
	says("<|im_end|>", 0, "$N tokenize", "11\n", NULL);
	outcome o = run_program("<|im_end|>", 0, "$N tokenize --plain");
	assert_true(strlen(o.out.data) > 6);
	outcome_free(&o);
	says("384 11", 0, "$N tokenize --decode", "The<|im_end|>", NULL);
	says("384 11", 0, "$N tokenize --decode --skip-special", "The", NULL);
}

static void pieces_are_printable(void **state)
{
	(void)state;
	/* Byte tokens of a made tokenizer: no letter pairs reach beyond ASCII. */
	outcome o = run_program("\xC3\xA9\n\\", 0, "$N mkmodel -q $D/m > /dev/null && $N tokenize --pieces $D/m/tokenizer.json");
	assert_string_equal(o.out.data, "213\t\\xC3\n187\t\\xA9\n28\t\\n\n110\t\\\\\n");
	outcome_free(&o);
	/* A token that starts a character and goes on with another: both bytes are told. */
	says("1100", 0,
	    "$N mkmodel -q -c vocab_size=1200 $D/n > /dev/null && sed -i 's/<|1100|>/\303\203(/' $D/n/tokenizer.json && $N tokenize --decode "
	    "--pieces $D/n",
	    "1100\t\\xC3(\n", NULL);
}

static void lines_stay_lines(void **state)
{
	(void)state;
	says("\"The capital\"\n\"\"\n\"a\\nb\"", 0, "$N tokenize --jsonl --count", "2\n0\n3\n", NULL);
	says("\"The capital\"\n\"\"\n", 0, "$N tokenize --jsonl", "[384,1647]\n[]\n", NULL);
	says("\"The capital\"\n", 0, "$N tokenize --jsonl --pieces", "[\"The\",\" capital\"]\n", NULL);
	says("[384,1647]\n[]\n", 0, "$N tokenize --jsonl --decode", "\"The capital\"\n\"\"\n", NULL);
	says("\"The\"\n17\n", 1, "$N tokenize --jsonl", "[384]\n", "line 2: not a JSON string");
	says("\"The\"\n{\n", 1, "$N tokenize --jsonl", "[384]\n", "line 2");
	says("[384,\"a\"]\n", 1, "$N tokenize --jsonl --decode", "", "line 1: item 1 is not an id");
	says("", 0, "$N tokenize --jsonl", "", NULL);
	says("", 2, "$N tokenize --decode --special", "", "not --decode");
	says("", 2, "$N tokenize --skip-special", "", "needs --decode");
	says("", 1, "$N tokenize $D/none", "", "nemotron tokenize: ");
}

static void a_cache_is_searched(void **state)
{
	(void)state;
	outcome o = run_program(NULL, 0,
	    "S=$D/hub/models--org--name/snapshots/abc; mkdir -p $S $D/hub/models--org--name/refs && printf abc > "
	    "$D/hub/models--org--name/refs/main && "
	    "cp %s/models/tiny/*.json %s/models/tiny/*.jinja $S && printf 'The capital' | $N tokenize --cache $D/hub org/name && "
	    "printf 'The capital' | HF_HUB_CACHE=$D/hub $N tokenize org/name && printf 'The capital' | HF_HUB_CACHE= HF_HOME=$D $N tokenize "
	    "org/name",
	    NH_SOURCE_DIR, NH_SOURCE_DIR);
	assert_string_equal(o.out.data, "384 1647\n384 1647\n384 1647\n");
	outcome_free(&o);
}

/* All texts of the golden file in one stream. */
static void published_ids_are_exact(void **state)
{
	(void)state;
	json_error_t je;
	json_t *golden = json_load_file(NH_SHARED_DIR "/goldens/tokenizer.json", JSON_ALLOW_NUL, &je);
	if (golden == NULL) NOT_RUN("%s/goldens/tokenizer.json is not there", NH_SHARED_DIR);
	buf in = {0}, want = {0};
	size_t k, count = 0;
	json_t *g;
	json_array_foreach(json_object_get(golden, "entries"), k, g)
	{
		char *text = json_dumps(json_object_get(g, "text"), JSON_ENCODE_ANY | JSON_ENSURE_ASCII),
		     *ids = json_dumps(json_object_get(g, "ids"), JSON_COMPACT);
		buf_printf(&in, "%s\n", text);
		buf_printf(&want, "%s\n", ids);
		free(text);
		free(ids);
		count++;
	}
	assert_false(in.failed || want.failed);
	outcome o = run_program(in.data, 0, "$N tokenize --jsonl");
	if (strcmp(o.out.data, want.data) != 0) fail_msg("the ids differ");
	outcome_free(&o);
	print_message("%zu texts\n", count);
	assert_true(count > 300);
	buf_deinit(&in);
	buf_deinit(&want);
	json_decref(golden);
}

int main(void)
{
	if (program_missing()) return 77;
#define ONE(name) cmocka_unit_test_setup_teardown(name, dir_setup, dir_teardown)
	const struct CMUnitTest tests[] = {ONE(text_becomes_ids_and_text_again), ONE(control_tokens_are_a_choice), ONE(pieces_are_printable),
	    ONE(lines_stay_lines), ONE(a_cache_is_searched), ONE(published_ids_are_exact)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
