/* SPDX-License-Identifier: Apache-2.0
 * test_main.c: the program's frame through the built program: help and versions, unknown words, closed pipes, full disks, Ctrl-C.
 */
#include "helper_cmd.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/base_mem.h"

static void help_is_everywhere(void **state)
{
	(void)state;
	static const char *const commands[] = {"run", "chat", "session", "inspect", "tokenize", "template", "mkmodel"};
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

int main(void)
{
	if (program_missing()) return 77;
#define ONE(name) cmocka_unit_test_setup_teardown(name, dir_setup, dir_teardown)
	const struct CMUnitTest tests[] = {ONE(help_is_everywhere), ONE(a_closed_pipe_ends_quietly), ONE(ctrl_c_ends_cleanly)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
