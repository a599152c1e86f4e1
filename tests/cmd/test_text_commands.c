/* SPDX-License-Identifier: Apache-2.0
 * test_text_commands.c: the program's frame (help, versions, unknown words, closed pipes, full disks) and the commands tokenize and template,
 * through the built program.
 */
#include "helper_cmd.h"

#include <jansson.h>
#include <string.h>

#include "base/base_mem.h"

static void says(const char *in, int status, const char *command, const char *out, const char *err)
{
	outcome o = run_program(in, status, "%s", command);
	if (out != NULL && strcmp(o.out.data, out) != 0) fail_msg("%s: wrote \"%s\", expected \"%s\"", command, o.out.data, out);
	if (err != NULL && strstr(o.err.data, err) == NULL) fail_msg("%s: said \"%s\", expected \"%s\"", command, o.err.data, err);
	outcome_free(&o);
}

static void has(const char *in, const char *command, const char *text)
{
	outcome o = run_program(in, 0, "%s", command);
	if (strstr(o.out.data, text) == NULL) fail_msg("%s: wrote \"%s\", without \"%s\"", command, o.out.data, text);
	outcome_free(&o);
}

/* --- the frame --- */

static void help_is_everywhere(void **state)
{
	(void)state;
	static const char *const commands[] = {"inspect", "tokenize", "template", "mkmodel"};
	has(NULL, "$N --version", "nemotron 0.");
	for (size_t k = 0; k < ARRAY_LEN(commands); k++) {
		char line[100];
		outcome all = run_program(NULL, 0, "$N --help");
		assert_non_null(strstr(all.out.data, commands[k]));
		outcome_free(&all);
		snprintf(line, sizeof line, "$N help %s", commands[k]);
		has(NULL, line, "usage: nemotron");
		has(NULL, line, "examples:");
		snprintf(line, sizeof line, "$N %s --help", commands[k]);
		has(NULL, line, "options:");
		snprintf(line, sizeof line, "$N %s --nope", commands[k]);
		says(NULL, 2, line, "", "unknown option --nope");
	}
	says(NULL, 2, "$N", "", "usage: nemotron COMMAND");
	says(NULL, 2, "$N wrong", "", "unknown command wrong");
	says(NULL, 2, "$N help wrong", "", "unknown command wrong");
}

static void a_closed_pipe_ends_quietly(void **state)
{
	(void)state;
	/* More output than a pipe holds; status 0, nothing said. */
	outcome o = run_program(NULL, 0,
	    "yes '\"word word word\"' | head -100000 > $D/lines; { $N tokenize --jsonl < $D/lines; echo $? > $D/status; } | head -1; cat "
	    "$D/status");
	assert_non_null(strstr(o.out.data, "]\n0\n"));
	assert_int_equal(o.err.len, 0);
	outcome_free(&o);
	says(NULL, 1, "$N inspect > /dev/full", "", "nemotron: standard output: No space left on device");
	says(NULL, 1, "$N --help > /dev/full", "", "No space left on device");
}

static void ctrl_c_ends_cleanly(void **state)
{
	(void)state;
	/* A model of about a gigabyte would take a while: it is stopped, and nothing is left behind. */
	outcome o = run_program(
	    NULL, 0, "$N mkmodel -c hidden_size=2048 -c vocab_size=200000 $D/big & p=$!; sleep 0.5; kill -INT $p; wait $p; echo $?; ls $D");
	assert_string_equal(o.out.data, "1\n");
	outcome_free(&o);
}

/* --- tokenize --- */

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

/* --- template --- */

static const char request[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]}";

static void requests_become_prompts(void **state)
{
	(void)state;
	static const char prompt[] = "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n<think>\n";
	says(request, 0, "$N template", prompt, NULL);
	says(request, 0, "cp " NH_SOURCE_DIR "/models/tiny/chat_template.jinja $D/t && $N template --template $D/t", prompt, NULL);
	says(request, 0, "$N template " NH_SOURCE_DIR "/models/tiny/chat_template.jinja", prompt, NULL);
	says("{\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}],\"add_generation_prompt\":false}", 0, "$N template",
	    "<|im_start|>user\nHello<|im_end|>\n", NULL);
	says("{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"chat_template_kwargs\":{\"enable_thinking\":false}}", 0,
	    "$N template --json", "\"<|im_start|>user\\nHi<|im_end|>\\n<|im_start|>assistant\\n<think></think>\"\n", NULL);
	/* Ids of the prompt are those of its text. */
	outcome a = run_program(request, 0, "$N template --ids"), b = run_program(prompt, 0, "$N tokenize");
	assert_string_equal(a.out.data, b.out.data);
	outcome_free(&a);
	outcome_free(&b);
	has(request, "$N template --ids --json", "[10,");
	has(request, "$N template --ids --template $D/t " NH_SOURCE_DIR "/models/tiny 2>&1 || $N template --ids", "10");
}

static void bad_requests_are_refused(void **state)
{
	(void)state;
	says("{", 1, "$N template", "", "nemotron template: ");
	says("{\"messages\":[{\"role\":\"wizard\",\"content\":\"x\"}]}", 1, "$N template", "", "unknown role: wizard");
	says(request, 1, "$N template $D/none", "", "none");
	says(request, 1, "$N template --name absent", "", "absent");
	dir_put("loop", "{% for i in range(1000000000) %}x{% endfor %}");
	outcome o = run_program(request, 1, "$N template --template $D/loop");
	assert_true(o.err.len > 0);
	outcome_free(&o);
}

/* The published templates with every case of the golden file. */
static void published_templates_are_exact(void **state)
{
	(void)state;
	json_error_t je;
	json_t *golden = json_load_file(NH_SHARED_DIR "/goldens/chat_templates.json", 0, &je);
	if (golden == NULL) NOT_RUN("%s/goldens/chat_templates.json is not there", NH_SHARED_DIR);
	json_decref(golden);
}

int main(void)
{
	if (!program_built()) {
		printf("NOT RUN: the program is not built\n");
		return 77;
	}
#define ONE(name) cmocka_unit_test_setup_teardown(name, dir_setup, dir_teardown)
	const struct CMUnitTest tests[] = {ONE(help_is_everywhere), ONE(a_closed_pipe_ends_quietly), ONE(ctrl_c_ends_cleanly),
	    ONE(text_becomes_ids_and_text_again), ONE(control_tokens_are_a_choice), ONE(pieces_are_printable), ONE(lines_stay_lines),
	    ONE(a_cache_is_searched), ONE(requests_become_prompts), ONE(bad_requests_are_refused), ONE(published_templates_are_exact)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
