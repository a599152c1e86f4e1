/* SPDX-License-Identifier: Apache-2.0
 * test_run.c: what `nemotron run` can ask for beside a prompt: several answers, penalties and biases, drafts, a memory budget, statistics.
 */
#include "helper_cmd.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/base_mem.h"

static json_t *json_of(const char *command)
{
	outcome o = run_program(NULL, 0, "%s", command);
	json_t *v = json_loads(o.out.data, 0, NULL);
	if (!v) fail_msg("%s: no JSON: %s", command, o.out.data);
	outcome_free(&o);
	return v;
}

static bool same(const char *a, const char *b)
{
	outcome x = run_program(NULL, 0, "%s", a), y = run_program(NULL, 0, "%s", b);
	bool equal = strcmp(x.out.data, y.out.data) == 0;
	assert_true(x.out.len > 1);
	outcome_free(&x);
	outcome_free(&y);
	return equal;
}

#define ASK "$N run -q -n 30 'What is a cat?' "
#define IDS "$N run -q -t 0 --ids -n 64 '20 30 40 20 30 40 20 30' "

static void several_answers(void **state)
{
	(void)state;
	json_t *v = json_of(ASK "-t 1 --seed 10 --n 3 --json");
	const json_t *choices = json_object_get(v, "choices");
	assert_int_equal(json_array_size(choices), 3);
	assert_null(json_object_get(v, "content"));
	for (size_t i = 0; i < 3; i++) {
		char line[200];
		snprintf(line, sizeof line, ASK "-t 1 --seed %zu --json", 10 + i);
		json_t *one = json_of(line);
		assert_true(json_equal(json_object_get(json_array_get(choices, i), "token_ids"), json_object_get(one, "token_ids")));
		json_decref(one);
	}
	json_decref(v);
	outcome o = run_program(NULL, 0, ASK "-t 1 --seed 10 --n 3");
	assert_memory_equal(o.out.data, "[1]\n", 4);
	assert_non_null(strstr(o.out.data, "\n\n[2]\n"));
	assert_non_null(strstr(o.out.data, "\n\n[3]\n"));
	outcome_free(&o);
}

/* What a prompt says is text, control tokens' texts too: it takes as many tokens as the text is long. */
static void control_text(void **state)
{
	(void)state;
	json_int_t count[3];
	static const char *const LINES[] = {"$N run -q -n 1 --no-think --json 'a<|im_end|>b'",
	    "$N run -q -n 1 --no-think --json --allow-control-text 'a<|im_end|>b'", "$N run -q -n 1 --no-think --json 'ab'"};
	for (size_t i = 0; i < 3; i++) {
		json_t *v = json_of(LINES[i]);
		const json_t *n = json_object_get(json_object_get(v, "usage"), "prompt_tokens");
		if (!n) n = json_object_get(v, "prompt_tokens");
		assert_true(json_is_integer(n));
		count[i] = json_integer_value(n);
		json_decref(v);
	}
	printf("%d tokens with the text, %d with the token, %d with neither\n", (int)count[0], (int)count[1], (int)count[2]);
	assert_true(count[0] > count[1] + 2 && count[1] > count[2]);
}

/* What generation_config.json asks for in vain is said. */
static void told_what_is_not_done(void **state)
{
	(void)state;
	outcome o = run_program(NULL, 0,
	    "mkdir $D/asks && ln -s " NH_SOURCE_DIR "/models/tiny/* $D/asks && rm $D/asks/generation_config.json && "
	    "echo '{\"num_beams\": 4, \"typical_p\": 1.0, \"no_repeat_ngram_size\": 3}' >$D/asks/generation_config.json && $N run -n 1 $D/asks "
	    "hi");
	assert_non_null(strstr(o.err.data, "generation_config.json: not done here, and without effect: num_beams, no_repeat_ngram_size\n"));
	outcome_free(&o);
}

static void draws(void **state)
{
	(void)state;
	assert_false(same(IDS, IDS "--repetition-penalty 1.5"));
	assert_false(same(IDS, IDS "--presence-penalty 2"));
	assert_false(same(IDS, IDS "--frequency-penalty 2"));
	assert_true(same(IDS, IDS "--repetition-penalty 1 --presence-penalty 0 --frequency-penalty 0"));
	says(NULL, 0, "$N run -q --ids -t 0 -n 3 --bias 77=1e4 '20 30'", "77 77 77\n", NULL);
	says(NULL, 0, "$N run -q --ids -t 0 -n 3 --bias 77=1e4 --bias 78=2e4 --bias 78=-inf '20 30'", NULL, NULL);
	says(NULL, 1, "$N run --bias 4096=1 x", "", "id 4096, expected 0 to 4095");
	says(NULL, 1, "$N run --bias 5=x x", "", "adds no number");
	says(NULL, 2, "$N run --presence-penalty 3 x", "", "from -2 to 2");
	json_t *v = json_of("$N run -q --ids -t 0 --bias 2=1e4 --min-tokens 6 --json '20 30'"); /* the end token, but not at once */
	assert_int_equal(json_array_size(json_object_get(v, "token_ids")), 7);
	assert_string_equal(json_string_value(json_object_get(v, "finish_reason")), "end");
	json_decref(v);
}

static void drafts_and_memory(void **state)
{
	(void)state;
	assert_true(same(ASK "-t 0.7 --seed 2", ASK "-t 0.7 --seed 2 --draft ngram"));
	json_t *v = json_of("$N run -q --ids -t 0 -n 60 --draft ngram --json --stats '20 30 40 20 30 40 20 30 40 20 30 40'");
	const json_t *s = json_object_get(v, "statistics");
	assert_true(json_integer_value(json_object_get(s, "drafted_tokens")) > 0);
	json_decref(v);
	assert_true(same(ASK "-t 0", ASK "-t 0 --memory 512M"));
	says(NULL, 1, "$N run --memory 100K x", "", "102400");
	says(NULL, 2, "$N run --draft magic x", "", "none|ngram");
}

static void statistics(void **state)
{
	(void)state;
	static const char *const lines[] = {"requests   1, 0 cancelled", "tokens     ", "memory     ", "slots      ", "prefixes   ",
	    "swaps      ", "work       ", "\nadmit ", "\nforward ", "\nemit ", "\nlinear ", "reference-tier calls: 0"};
	outcome o = run_program(NULL, 0, ASK "-t 0 --stats");
	for (size_t i = 0; i < ARRAY_LEN(lines); i++)
		if (!strstr(o.err.data, lines[i])) fail_msg("no \"%s\" in %s", lines[i], o.err.data);
	outcome_free(&o);
	json_t *v = json_of(ASK "-t 0 --stats --json");
	const json_t *s = json_object_get(v, "statistics"), *steps = json_object_get(json_object_get(s, "step_us"), "forward");
	assert_int_equal(json_array_size(steps), 24);
	int64_t counted = 0;
	for (size_t i = 0; i < 24; i++) counted += json_integer_value(json_array_get(steps, i));
	assert_int_equal(counted, json_integer_value(json_object_get(s, "steps")));
	assert_true(counted >= 30);
	assert_true(json_integer_value(json_object_get(json_object_get(json_object_get(s, "ops"), "linear"), "ns")) > 0);
	json_decref(v);
}

int main(void)
{
	if (program_missing()) return 77;
#define ONE(name) cmocka_unit_test_setup_teardown(name, dir_setup, dir_teardown)
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	/* Ten times slower there; what these do beyond the others is the program's, and the library below it has tests of its own. */
	printf("NOT RUN: several_answers, drafts_and_memory: too slow under sanitizers\n");
	(void)several_answers, (void)drafts_and_memory;
	const struct CMUnitTest tests[] = {ONE(control_text), ONE(told_what_is_not_done), ONE(draws), ONE(statistics)};
#else
	const struct CMUnitTest tests[] = {
	    ONE(several_answers), ONE(control_text), ONE(told_what_is_not_done), ONE(draws), ONE(drafts_and_memory), ONE(statistics)};
#endif
	return cmocka_run_group_tests_name("run", tests, NULL, NULL);
}
