/* SPDX-License-Identifier: Apache-2.0
 * test_batch.c: nemotron batch through the built program and the built-in model, greedy: order, interruption in every way, bad lines, bad
 * places. Covers src/cmd/batch and, with test_oai_*, what a batch answers.
 */
#include "helper_cmd.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base_file.h"
#include "base/base_mem.h"

#define TINY NH_SOURCE_DIR "/models/tiny"
#define LINES 20

/* A file of 20 requests: chats, completions, lists of prompts, log-probabilities, stops. */
static void put_requests(const char *name)
{
	static const char *const words[] = {"dog", "courage", "river", "to run", "green"};
	buf b = {0};
	for (int i = 0; i < LINES; i++) {
		const char *w = words[i % 5];
		buf_printf(&b, "{\"custom_id\":\"r%d\",\"method\":\"POST\",", i);
		if (i % 3 == 0)
			buf_printf(&b,
			    "\"url\":\"/v1/chat/completions\",\"body\":{\"model\":\"m\",\"temperature\":0,\"max_tokens\":%d,\"messages\":[{\"role\":"
			    "\"user\",\"content\":\"What is %s?\"}],\"chat_template_kwargs\":{\"enable_thinking\":%s}}}\n",
			    1 + i % 3, w, i % 2 ? "true" : "false");
		else if (i % 3 == 1)
			buf_printf(&b,
			    "\"url\":\"/v1/completions\",\"body\":{\"temperature\":0,\"max_tokens\":%d,\"prompt\":[\"%s, noun.\",\"%s, verb.\"],"
			    "\"logprobs\":2,\"stop\":[\"e\"]}}\n",
			    1 + i % 2, w, w);
		else
			buf_printf(&b,
			    "\"url\":\"/v1/completions\",\"body\":{\"temperature\":0,\"max_tokens\":%d,\"prompt\":\"%s, noun. 1.\",\"echo\":true}}\n",
			    1 + i % 4, w);
	}
	assert_false(b.failed);
	dir_put(name, b.data);
	buf_deinit(&b);
}

/* The lines of an answer file, without the times. */
static json_t *answers(const char *name)
{
	buf text = {0};
	nh_error e = {0};
	json_t *list = json_array();
	if (file_read(dir_path(name), 1 << 26, &text, &e) != NH_OK) fail_msg("%s", e.text);
	for (char *p = text.data; p != NULL && *p != '\0';) {
		char *end = strchr(p, '\n');
		assert_non_null(end); /* whole lines */
		json_t *line = json_loadb(p, (size_t)(end - p), 0, NULL);
		if (line == NULL) fail_msg("no JSON: %.200s", p);
		json_object_del(json_object_get(json_object_get(line, "response"), "body"), "created");
		json_array_append_new(list, line);
		p = end + 1;
	}
	buf_deinit(&text);
	return list;
}

static int by_id(const void *a, const void *b)
{
	json_t *const *x = a, *const *y = b;
	return strcmp(json_string_value(json_object_get(*x, "id")), json_string_value(json_object_get(*y, "id")));
}

static json_t *sorted(const json_t *list)
{
	size_t n = json_array_size(list);
	json_t **v = mem_array(n + 1, sizeof *v), *out = json_array();
	for (size_t i = 0; i < n; i++) v[i] = json_array_get(list, i);
	qsort(v, n, sizeof *v, by_id);
	for (size_t i = 0; i < n; i++) json_array_append(out, v[i]);
	mem_free(v);
	return out;
}

static void same(const json_t *a, const json_t *b)
{
	assert_int_equal(json_array_size(a), json_array_size(b));
	for (size_t i = 0; i < json_array_size(a); i++) {
		if (json_equal(json_array_get(a, i), json_array_get(b, i))) continue;
		char *x = json_dumps(json_array_get(a, i), JSON_COMPACT), *y = json_dumps(json_array_get(b, i), JSON_COMPACT);
		fail_msg("answer %zu: %s, expected %s", i, x, y);
	}
}

static void run_batch(int want, const char *command, const char *err)
{
	outcome o = run_program(NULL, want, "M=%s; %s", TINY, command);
	if (err != NULL && strstr(o.err.data, err) == NULL) fail_msg("%s: said \"%s\", expected \"%s\"", command, o.err.data, err);
	assert_int_equal(o.out.len, 0); /* results go to the file */
	outcome_free(&o);
}

/* The error of one answer: "status|param|message". */
static void error_is(const json_t *list, size_t i, const char *id, int status, const char *param, const char *message)
{
	json_t *line = json_array_get(list, i), *response = json_object_get(line, "response");
	json_t *error = json_object_get(json_object_get(response, "body"), "error");
	assert_int_equal(json_integer_value(json_object_get(response, "status_code")), status);
	const char *custom = json_string_value(json_object_get(line, "custom_id"));
	assert_string_equal(custom != NULL ? custom : "-", id);
	const char *told = json_string_value(json_object_get(error, "param")), *text = json_string_value(json_object_get(error, "message"));
	assert_string_equal(told != NULL ? told : "-", param);
	if (text == NULL || strstr(text, message) == NULL) fail_msg("answer %zu: said \"%s\", expected \"%s\"", i, text, message);
}

static void answers_are_the_same_however_they_are_made(void **state)
{
	(void)state;
	put_requests("in");
	run_batch(0, "$N batch $M $D/in $D/whole", "20 lines: 20 answered, 0 failed");
	json_t *whole = answers("whole");
	assert_int_equal(json_array_size(whole), LINES);
	for (size_t i = 0; i < LINES; i++) {
		char id[8];
		snprintf(id, sizeof id, "r%zu", i);
		assert_string_equal(json_string_value(json_object_get(json_array_get(whole, i), "custom_id")), id);
		json_t *response = json_object_get(json_array_get(whole, i), "response");
		assert_int_equal(json_integer_value(json_object_get(response, "status_code")), 200);
	}
	assert_false(file_exists(dir_path("whole.partial")));

	run_batch(0, "$N batch -q -j 1 $M $D/in $D/one", NULL);
	json_t *one = answers("one");
	same(one, whole);

	run_batch(0, "$N batch --as-completed -j 7 $M $D/in $D/completed", NULL);
	json_t *completed = answers("completed"), *again = sorted(completed);
	same(again, whole);

	/* Stopped in the middle in two ways; the same command goes on and the answers are those of a batch that ran through. A shell's background
	 * job starts with SIGINT ignored, so this also shows that the program asks for it. */
	static const char *const signals[] = {"INT", "KILL"};
	size_t kept = 0;
	for (size_t k = 0; k < 2; k++) {
		char command[1024];
		snprintf(command, sizeof command,
		    "$N batch -j 3 $M $D/in $D/cut%zu & P=$!; I=0; while [ $I -lt 3000 ] && [ \"$(wc -l < $D/cut%zu.partial 2>/dev/null || echo "
		    "0)\" -lt %zu ]; do sleep 0.02; I=$((I+1)); done; kill -%s $P; wait $P; S=$?; [ -f $D/cut%zu ] && exit 90; wc -l < "
		    "$D/cut%zu.partial > $D/kept; exit $S",
		    k, k, 3 + 4 * k, signals[k], k, k);
		run_batch(k == 1 ? 137 : 1, command, k == 1 ? NULL : "of 20 lines are answered; the same command goes on from");
		buf b = {0};
		nh_error e = {0};
		assert_int_equal(file_read(dir_path("kept"), 100, &b, &e), NH_OK);
		size_t lines = (size_t)strtoul(b.data, NULL, 10);
		assert_in_range(lines, 3 + 4 * k, LINES - 1);
		kept += lines;
		buf_deinit(&b);
		snprintf(command, sizeof command, "head -c 100000 /dev/zero | tr '\\0' x >> $D/cut%zu.partial; $N batch $M $D/in $D/cut%zu", k, k);
		char note[64];
		snprintf(note, sizeof note, "%zu of 20 lines are answered in", lines);
		run_batch(0, command, note); /* half a line of a crash is cut off */
		snprintf(command, sizeof command, "cut%zu", k);
		json_t *cut = answers(command);
		same(cut, whole);
		json_decref(cut);
	}
	print_message("%zu answers were kept over two interruptions\n", kept);
	json_decref(whole);
	json_decref(one);
	json_decref(completed);
	json_decref(again);
}

#define LINE(id, body) "{\"custom_id\":\"" id "\",\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":{" body "}}\n"
#define GOOD(id) LINE(id, "\"prompt\":\"dog, noun.\",\"max_tokens\":2,\"temperature\":0")

static void a_bad_line_fails_alone(void **state)
{
	(void)state;
	dir_put("head", GOOD("a") "\n   \n" LINE("b", "\"prompt\":\"x\",\"top_p\":2") "{\"custom_id\":\"c\",\n" GOOD("a")
	                    LINE("d", "\"prompt\":\"x\",\"stream\":true") LINE("e", "\"prompt\":[5,999999]")
	                        LINE("f", "\"prompt\":\"x\",\"max_tokens\":1,\"temperature\":0,\"odd\":1,\"even\":2")
	                            LINE("g", "\"prompt\":\"x\",\"max_tokens\":1,\"odd\":1,\"stop_token_ids\":[999999]"));
	/* A prompt of a million words does not fit the context; a line of 70 MB is not even parsed. */
	run_batch(1,
	    "{ cat $D/head; printf '{\"custom_id\":\"h\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"'; head -c 400000 /dev/zero | tr "
	    "'\\0' "
	    "'x'; printf '\"}}\\n'; head -c 70000000 /dev/zero | tr '\\0' 'y'; printf '\\n'; printf '%s' '" GOOD("i") "'; } > $D/in; $N batch "
	                                                                                                              "$M $D/in $D/out",
	    "11 lines: 3 answered, 8 failed");
	json_t *list = answers("out");
	assert_int_equal(json_array_size(list), 11);
	error_is(list, 1, "b", 400, "top_p", "top_p: is 2, expected a number from 0 to 1");
	error_is(list, 2, "-", 400, "-", "not valid JSON");
	error_is(list, 3, "a", 400, "custom_id", "custom_id: is \"a\", which line 1 has already");
	error_is(list, 4, "d", 400, "stream", "stream: is true, a batch answers at once: only false is supported");
	error_is(list, 5, "e", 400, "prompt", "prompt: id 1 is 999999, expected 0 to 4095");
	error_is(list, 7, "g", 400, "stop_token_ids", "stop_token_ids: id 0 is 999999");
	error_is(list, 8, "h", 400, "prompt", "tokens, the context holds");
	json_t *body = json_object_get(json_object_get(json_array_get(list, 8), "response"), "body");
	assert_string_equal(json_string_value(json_object_get(json_object_get(body, "error"), "code")), "context_length_exceeded");
	error_is(list, 9, "-", 400, "-", "the line has 70000000 bytes, expected at most 67108864");
	json_decref(list);
	/* What failed stays failed after an interruption, and is counted. */
	run_batch(
	    1, "mv $D/out $D/out.partial; $N batch $M $D/in $D/out", "11 lines: 3 answered, 8 failed (11 of the lines before this start)");
	assert_true(file_exists(dir_path("out")));
}

static void unknown_members_are_mentioned_once(void **state)
{
	(void)state;
	dir_put(
	    "in", LINE("a", "\"prompt\":\"x\",\"max_tokens\":1,\"odd\":1") LINE("b", "\"prompt\":\"x\",\"max_tokens\":1,\"odd\":1,\"even\":2"));
	outcome o = run_program(NULL, 0, "$N batch %s $D/in $D/out", TINY);
	const char *odd = strstr(o.err.data, "line 1: odd is not known and changes nothing here\n");
	assert_non_null(odd);
	assert_null(strstr(odd + 10, "odd"));
	assert_non_null(strstr(o.err.data, "line 2: even is not known and changes nothing here\n"));
	assert_null(strchr(o.err.data, '\r')); /* no progress line where nobody looks */
	outcome_free(&o);
}

static void unseeded_requests_repeat(void **state)
{
	(void)state;
	dir_put("in", LINE("a", "\"prompt\":\"dog, noun.\",\"temperature\":1,\"max_tokens\":8")
	                  LINE("b", "\"prompt\":\"dog, noun.\",\"temperature\":1,\"max_tokens\":8")
	                      LINE("c", "\"prompt\":\"dog, noun.\",\"temperature\":1,\"seed\":7,\"max_tokens\":8"));
	run_batch(0, "$N batch -q $M $D/in $D/x && $N batch -q -j 1 $M $D/in $D/y", NULL);
	json_t *x = answers("x"), *y = answers("y");
	same(x, y);
	json_decref(x);
	json_decref(y);
}

/* Choice i of n is what a request with seed + i alone is told. */
static void choices_are_requests_with_the_next_seed(void **state)
{
	(void)state;
#define SEEDED(id, rest) LINE(id, "\"prompt\":[\"dog, noun.\",\"The\"],\"temperature\":3,\"max_tokens\":5,\"logprobs\":1," rest)
	dir_put("in", SEEDED("n", "\"seed\":5,\"n\":3") SEEDED("5", "\"seed\":5") SEEDED("6", "\"seed\":6") SEEDED("7", "\"seed\":7"));
	run_batch(0, "$N batch -q $M $D/in $D/out", NULL);
	json_t *list = answers("out"), *choices[4];
	for (size_t i = 0; i < 4; i++)
		choices[i] = json_object_get(json_object_get(json_object_get(json_array_get(list, i), "response"), "body"), "choices");
	assert_int_equal(json_array_size(choices[0]), 6);
	size_t differ = 0;
	for (size_t prompt = 0; prompt < 2; prompt++) {
		for (size_t k = 0; k < 3; k++) {
			json_t *of_n = json_array_get(choices[0], prompt * 3 + k), *alone = json_array_get(choices[1 + k], prompt);
			assert_int_equal(json_integer_value(json_object_get(of_n, "index")), prompt * 3 + k);
			json_object_set(of_n, "index", json_object_get(alone, "index"));
			if (!json_equal(of_n, alone)) fail_msg("prompt %zu, choice %zu differs from the request alone", prompt, k);
			differ += !json_equal(of_n, json_array_get(choices[0], prompt * 3));
		}
	}
	assert_true(differ > 0);
	json_decref(list);
}

static void files_are_never_lost(void **state)
{
	(void)state;
	dir_put("in", GOOD("a") GOOD("b"));
	dir_put("other", GOOD("a") GOOD("c"));
	dir_put("out", "precious\n");
	run_batch(1, "$N batch $M $D/in $D/out", "out: exists already; --overwrite replaces it");
	run_batch(0, "[ \"$(cat $D/out)\" = precious ]", NULL);
	run_batch(0, "$N batch --overwrite $M $D/in $D/out && [ $(wc -l < $D/out) = 2 ]", "2 lines: 2 answered");
	/* Answers of another input, in the same place. */
	run_batch(1, "mv $D/out $D/p.partial; $N batch $M $D/other $D/p", "p.partial: line 2: answers no line of");
	run_batch(1, "$N batch --numerics exact $M $D/in $D/p", "p.partial: line 1: answers no line of");
	run_batch(0, "[ $(wc -l < $D/p.partial) = 2 ]", NULL);
	run_batch(0, "$N batch --restart $M $D/other $D/p && [ $(wc -l < $D/p) = 2 ] && [ ! -f $D/p.partial ]", NULL);
	run_batch(1, "echo '{}' > $D/q.partial; $N batch $M $D/in $D/q", "q.partial: line 1: answers no line of");
	run_batch(1, "echo 'text' > $D/q.partial; $N batch $M $D/in $D/q", "q.partial: line 1: answer: line 1");
	/* Long remains of a crash, behind answers that lie in order, do not reach the output. */
	run_batch(
	    0, "cp $D/p $D/t.partial; head -c 100000 /dev/zero | tr '\\0' x >> $D/t.partial; $N batch $M $D/other $D/t && cmp $D/t $D/p", NULL);
	run_batch(1, "mkdir $D/folder; $N batch $M $D/in $D/folder", "folder: is a folder");
	run_batch(1, "$N batch $M $D/in $D/none/out", "none/out.partial: No such file or directory");
	run_batch(1, "$N batch $M $D/none $D/new", "none: ");
	run_batch(1, "$N batch $M $D/in $D/in", "is both input and output");
	run_batch(1, "$N batch $D/none $D/in $D/new; S=$?; [ ! -e $D/new.partial ] && exit $S", "nemotron batch: ");
	run_batch(1, "flock $D/r.partial $N batch $M $D/in $D/r", "r.partial: another process is writing it");
	run_batch(2, "$N batch $M $D/in", "something is missing");
	run_batch(2, "$N batch -j 0 $M $D/in $D/r", "expected a whole number from 1 to 1024");
	run_batch(0, "printf '\\n \\n' > $D/empty; $N batch $M $D/empty $D/e && [ -f $D/e ] && [ ! -s $D/e ]", "0 lines: 0 answered");
}

/* A file may not grow past 1 kB: the disk is full after one answer or two. What is there stays whole, and the batch goes on from it. */
static void a_full_disk_is_survived(void **state)
{
	(void)state;
	dir_put("in", GOOD("a") GOOD("b") GOOD("c") GOOD("d") GOOD("e"));
	run_batch(1, "(trap '' XFSZ; ulimit -f 2; exec $N batch $M $D/in $D/out)", "out.partial: File too large");
	run_batch(
	    0, "L=$(wc -l < $D/out.partial) && [ $L -ge 1 ] && [ $L -lt 5 ] && [ -z \"$(tail -c 1 $D/out.partial | tr -d '\\n')\" ]", NULL);
	run_batch(0, "$N batch -q $M $D/in $D/out && $N batch -q $M $D/in $D/whole", NULL);
	json_t *out = answers("out"), *whole = answers("whole");
	same(out, whole);
	json_decref(out);
	json_decref(whole);
	if (geteuid() == 0) {
		print_message("an unwritable folder was not tried: root may write everywhere\n");
		return;
	}
	run_batch(1, "mkdir $D/locked; chmod 500 $D/locked; $N batch $M $D/in $D/locked/out", "locked/out.partial: Permission denied");
}

int main(void)
{
	if (program_missing()) return 77;
#define ONE(name) cmocka_unit_test_setup_teardown(name, dir_setup, dir_teardown)
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	/* Ten times slower there; what these do beyond the others is the program's, and the library below it has tests of its own. */
	printf("NOT RUN: answers_are_the_same_however_they_are_made, unseeded_requests_repeat, choices_are_requests_with_the_next_seed, "
	       "a_full_disk_is_survived: too slow under sanitizers\n");
	(void)answers_are_the_same_however_they_are_made, (void)unseeded_requests_repeat, (void)choices_are_requests_with_the_next_seed,
	    (void)a_full_disk_is_survived;
	const struct CMUnitTest tests[] = {ONE(a_bad_line_fails_alone), ONE(unknown_members_are_mentioned_once), ONE(files_are_never_lost)};
#else
	const struct CMUnitTest tests[] = {ONE(answers_are_the_same_however_they_are_made), ONE(a_bad_line_fails_alone),
	    ONE(unknown_members_are_mentioned_once), ONE(unseeded_requests_repeat), ONE(choices_are_requests_with_the_next_seed),
	    ONE(files_are_never_lost), ONE(a_full_disk_is_survived)};
#endif
	return cmocka_run_group_tests(tests, NULL, NULL);
}
