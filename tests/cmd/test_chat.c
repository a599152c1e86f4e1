/* SPDX-License-Identifier: Apache-2.0
 * test_chat.c: `nemotron chat` line by line through the built program: turns that go on and turns that begin anew, commands, sessions, Ctrl-C.
 */
#include "helper_cmd.h"

#include <stdlib.h>
#include <string.h>

#include "base/base_mem.h"

#define CHAT "$N chat -t 0 -n 40 --no-think "

/* How often `what` stands in `text`. */
static int times(const char *text, const char *what)
{
	int n = 0;
	for (const char *p = text; (p = strstr(p, what)) != NULL; p += strlen(what)) n++;
	return n;
}

static outcome chat(const char *in, int want, const char *command) { return run_program(in, want, "%s", command); }

/* The n-th number before `word` in text, from 0; -1: not there. */
static long number_before(const char *text, const char *word, int n)
{
	const char *p = text;
	for (int i = 0; (p = strstr(p, word)) != NULL; p++, i++) {
		const char *q = p;
		while (q > text && q[-1] >= '0' && q[-1] <= '9') q--;
		if (i == n) return q < p ? strtol(q, NULL, 10) : -1;
	}
	return -1;
}

static void turns_go_on(void **state)
{
	(void)state;
	outcome o = chat("What is a cat?\nWhat is a dog?\nWhat is a cow?\n", 0, CHAT);
	assert_int_equal(times(o.err.data, "from the messages; 0 tokens reused"), 1);
	assert_int_equal(times(o.err.data, "continued; "), 2);
	/* What is reused grows by what was computed and generated; what is computed is the new message alone. */
	long reused = 0;
	for (int i = 0; i < 3; i++) {
		long r = number_before(o.err.data, " tokens reused", i), c = number_before(o.err.data, " computed", i),
		     g = number_before(o.err.data, " generated", i);
		assert_int_equal(r, reused);
		assert_in_range(c, 5, 30);
		assert_in_range(g, 1, 40);
		reused = r + c + g;
	}
	outcome_free(&o);
	/* The first answer is that of run. */
	outcome one = chat("What is a cat?\n", 0, CHAT), run = chat(NULL, 0, "$N run -t 0 -n 40 --no-think 'What is a cat?'");
	assert_string_equal(one.out.data, run.out.data);
	outcome_free(&one);
	outcome_free(&run);
}

/* Old thoughts are left out, so a thinking model's turns begin anew; a long beginning is kept by the prefix cache. */
static void turns_begin_anew(void **state)
{
	(void)state;
	outcome o = chat("What is a cat?\nWhat is a dog?\n", 0,
	    "$N chat -t 0 --hide-reasoning --think -n 400 --system \"$(yes 'Answer as a patient teacher would, in short sentences.' | head "
	    "-30)\"");
	assert_int_equal(times(o.err.data, "from the messages; 0 tokens reused"), 1);
	assert_int_equal(times(o.err.data, "from the messages; "), 2);
	assert_true(number_before(o.err.data, " tokens reused", 1) >= 128);
	assert_null(strstr(o.out.data, "think>"));
	outcome_free(&o);
}

static void commands(void **state)
{
	(void)state;
	outcome o = chat("/help\n/nope\n/think maybe\n/back\n/retry\n/save\n/save $D/x\n", 1, CHAT);
	assert_int_equal(o.out.len, 0);
	assert_non_null(strstr(o.err.data, "/system TEXT"));
	assert_non_null(strstr(o.err.data, "/nope: no such command"));
	assert_non_null(strstr(o.err.data, "expected on or off"));
	assert_non_null(strstr(o.err.data, "no copy is kept"));
	assert_non_null(strstr(o.err.data, "nothing was said that could be answered again"));
	assert_non_null(strstr(o.err.data, "which file?"));
	assert_non_null(strstr(o.err.data, "nothing was said yet"));
	outcome_free(&o);
	says("/quit\nWhat is a cat?\n", 0, CHAT, "", NULL);
	says("  \n\n", 0, CHAT, "", NULL);

	/* Greedy: the same answer after /back and after /retry; both turns in between go on. */
	outcome a = chat("What is a cat?\n/fork\nWhat is a dog?\n/back\nWhat is a dog?\n/retry\n/stats\n", 0, CHAT);
	outcome b = chat("What is a cat?\nWhat is a dog?\n", 0, CHAT);
	const char *dog = strchr(b.out.data, '\n');
	outcome first = chat("What is a cat?\n", 0, CHAT);
	assert_memory_equal(b.out.data, first.out.data, first.out.len);
	dog = b.out.data + first.out.len;
	size_t n = strlen(dog);
	assert_int_equal(a.out.len, b.out.len + 2 * n);
	assert_string_equal(a.out.data + b.out.len, a.out.data + b.out.len);
	assert_memory_equal(a.out.data + b.out.len, dog, n);
	assert_memory_equal(a.out.data + b.out.len + n, dog, n);
	assert_int_equal(times(a.err.data, "continued; "), 3);
	assert_non_null(strstr(a.err.data, "the conversation has 4 messages"));
	assert_non_null(strstr(a.err.data, "prefixes"));
	outcome_free(&a);
	outcome_free(&b);
	outcome_free(&first);

	/* A turn that fails leaves the conversation as it was. */
	o = run_program(NULL, 1,
	    "{ echo 'What is a cat?'; yes word | head -300 | tr '\\n' ' '; echo; echo /stats; } | $N chat -t 0 -n 5 --no-think --context 100");
	assert_non_null(strstr(o.err.data, "the context holds 100"));
	assert_non_null(strstr(o.err.data, "the conversation has 2 messages"));
	outcome_free(&o);

	/* With draws a retry is another answer; /system and /new begin anew; // is a slash. */
	o = chat("What is a cat?\n/retry\n/system Be brief.\nWhat is a cat?\n/new\n//etc\n", 0, "$N chat -t 1 --seed 3 -n 30 --no-think");
	assert_int_equal(times(o.err.data, "from the messages; "), 4);
	outcome_free(&o);
}

/* Two processes are one: the second goes on where the first stopped. */
static void two_processes(const char *command, const char *file, const char *finish)
{
	char with_file[300], joined[20000];
	snprintf(with_file, sizeof with_file, "%s --session $D/%s", command, file);
	outcome whole = chat("What is a cat?\nWhat is a dog?\n", 0, command);
	outcome first = chat("What is a cat?\n", 0, with_file);
	assert_non_null(strstr(first.err.data, "is not there yet"));
	assert_non_null(strstr(first.err.data, finish));
	outcome second = chat("What is a dog?\n", 0, with_file);
	assert_non_null(strstr(second.err.data, "continued; "));
	snprintf(joined, sizeof joined, "%s%s", first.out.data, second.out.data);
	assert_string_equal(joined, whole.out.data);
	assert_int_equal(times(whole.err.data, "continued; "), 1);
	assert_int_equal(number_before(second.err.data, " computed", 0), number_before(whole.err.data, " computed", 1));
	outcome_free(&whole);
	outcome_free(&first);
	outcome_free(&second);
}

static void sessions(void **state)
{
	(void)state;
	two_processes(CHAT, "s", "(length)");
	two_processes(CHAT "--min-tokens 8 --bias '<|im_end|>=1000'", "t", "(end)"); /* the end token is there already */

	/* A load that fails leaves the conversation; its beginning is fixed after one that succeeds. */
	outcome o = chat("What is a cat?\n/load $D/none\nWhat is a dog?\n", 1, CHAT);
	assert_int_equal(times(o.err.data, "continued; "), 1);
	outcome_free(&o);
	o = run_program(NULL, 1, "printf 'What is a cat?\\n/load %%s\\n/system x\\n/retry\\nAnd?\\n' $D/s | " CHAT);
	assert_int_equal(times(o.err.data, "continued; "), 1);
	assert_non_null(strstr(o.err.data, "the beginning of a loaded session is fixed"));
	assert_non_null(strstr(o.err.data, "nothing was said that could be answered again"));
	outcome_free(&o);

	/* A damaged file is refused at the start, and not written over. */
	o = run_program("What is a cat?\n", 0, "echo text > $D/bad; " CHAT "--session $D/bad; echo $?; cat $D/bad");
	assert_string_equal(o.out.data, "1\ntext\n");
	outcome_free(&o);
}

/* Ctrl-C stops the answer: the lines after it are still answered, and the stopped answer is part of the conversation. */
static void ctrl_c_stops_the_answer(void **state)
{
	(void)state;
	outcome o = run_program(NULL, 0,
	    "mkfifo $D/f; $N chat -t 0 --no-think --min-tokens 5000 < $D/f & p=$!; exec 3> $D/f; echo 'What is a cat?' >&3; "
	    "for i in $(seq 100); do sleep 0.1; [ $(wc -c < $D/.out) -gt 20 ] && break; done; kill -INT $p; sleep 0.5; echo /stats >&3; exec "
	    "3>&-; "
	    "wait $p; echo status $?");
	assert_non_null(strstr(o.out.data, "status 0"));
	assert_non_null(strstr(o.err.data, "generated (cancelled)"));
	assert_non_null(strstr(o.err.data, "the conversation has 2 messages"));
	assert_non_null(strstr(o.err.data, "1 cancelled"));
	outcome_free(&o);
}

static void arguments(void **state)
{
	(void)state;
	says(NULL, 2, "$N chat --think --no-think", "", "exclude each other");
	says(NULL, 1, "$N chat --bias nosuchtoken=1", "", "no token of the model");
	says(NULL, 1, "$N chat --bias 5", "", "expected TOKEN=ADD");
	says(NULL, 1, "$N chat --memory 10K", "", "10240");
	has(NULL, "$N chat --help", "printf 'What is a cat?");
	has("What is a cat?\n", "$N chat -q -t 0 -n 3 --bias ' cat=1000' --no-think", " cat cat cat\n");
}

int main(void)
{
	if (program_missing()) return 77;
#define ONE(name) cmocka_unit_test_setup_teardown(name, dir_setup, dir_teardown)
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	/* Ten times slower there; what these do beyond the others is the program's, and the library below it has tests of its own. */
	printf("NOT RUN: turns_begin_anew, commands, sessions: too slow under sanitizers\n");
	(void)turns_begin_anew, (void)commands, (void)sessions;
	const struct CMUnitTest tests[] = {ONE(turns_go_on), ONE(ctrl_c_stops_the_answer), ONE(arguments)};
#else
	const struct CMUnitTest tests[] = {
	    ONE(turns_go_on), ONE(turns_begin_anew), ONE(commands), ONE(sessions), ONE(ctrl_c_stops_the_answer), ONE(arguments)};
#endif
	return cmocka_run_group_tests_name("chat", tests, NULL, NULL);
}
