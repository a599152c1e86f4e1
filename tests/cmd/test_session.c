/* SPDX-License-Identifier: Apache-2.0
 * test_session.c: sessions between processes, through the built program: continued without computing anything again, by the counters; refused by
 * name; nothing half-written.
 */
#include "helper_cmd.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/base_file.h"
#include "base/base_mem.h"

static json_t *json_of(const char *in, const char *command)
{
	outcome o = run_program(in, 0, "%s", command);
	json_error_t e;
	json_t *v = json_loads(o.out.data, 0, &e);
	if (!v) fail_msg("%s: %s: %s", command, e.text, o.out.data);
	outcome_free(&o);
	return v;
}

static int64_t at(const json_t *v, const char *a, const char *b)
{
	const json_t *x = json_object_get(v, a);
	if (b) x = json_object_get(x, b);
	if (!json_is_integer(x)) fail_msg("%s.%s: no integer", a, b ? b : "");
	return json_integer_value(x);
}

#define RUN "$N run -q --raw --ids -t 0.8 --seed 5 "

static void goes_on_in_another_process(void **state)
{
	(void)state;
	/* 24 tokens at once are 10, another process, and 14: the same ids, nothing computed again. */
	outcome whole = run_program(NULL, 0, RUN "-n 24 '20 30 40 50 60'");
	outcome first = run_program(NULL, 0, RUN "-n 10 '20 30 40 50 60' --save-session $D/s");
	outcome rest = run_program(NULL, 0, RUN "-n 14 '' --session $D/s");
	char joined[4096], *f = first.out.data;
	f[strcspn(f, "\n")] = 0;
	snprintf(joined, sizeof joined, "%s %s", f, rest.out.data);
	assert_string_equal(joined, whole.out.data);
	outcome_free(&whole);
	outcome_free(&first);
	outcome_free(&rest);

	json_t *v = json_of(NULL, "$N run -q -t 0 -n 14 --json --stats '' --session $D/s");
	assert_int_equal(at(v, "usage", "prompt_tokens"), 0);
	assert_int_equal(at(v, "usage", "computed_tokens"), 0);
	assert_int_equal(at(v, "statistics", "computed_tokens"), 0);
	assert_int_equal(at(v, "statistics", "scan_calls"), 0);
	assert_true(at(v, "statistics", "state_update_rows") > 0);
	json_decref(v);

	/* More is said: that alone is computed. */
	v = json_of(NULL, "$N run -q --raw --ids -t 0 -n 3 --json --stats '7 8 9 10' --session $D/s");
	assert_int_equal(at(v, "usage", "computed_tokens"), 4);
	assert_int_equal(at(v, "statistics", "computed_tokens"), 4);
	json_decref(v);
}

static void tells_what_is_in_it(void **state)
{
	(void)state;
	json_t *v = json_of(NULL, "$N run -q --ids -n 6 -t 0 '20 30 40 50' --save-session $D/s > /dev/null && $N session --json $D/s");
	assert_int_equal(at(v, "tokens", NULL), 10);
	assert_int_equal(at(v, "computed", NULL), 9);
	assert_int_equal(at(v, "generated", NULL), 6);
	assert_true(at(v, "bytes", NULL) > 1000);
	assert_string_equal(json_string_value(json_object_get(v, "model")), "tiny");
	assert_int_equal(strlen(json_string_value(json_object_get(v, "identity"))), 64);
	assert_string_equal(json_string_value(json_object_get(v, "numerics")), "portable");
	json_decref(v);
	has(NULL, "$N session $D/s", "history     10 tokens: 4 given, 6 generated\n");
	has(NULL, "$N session $D/s", "covers 9 tokens; 1 pending");
	says(NULL, 2, "$N session", "", "usage is");
	says(NULL, 1, "$N session $D/none", "", "none");
	/* A chat's answer, and the next question of another process. */
	outcome o = run_program(
	    NULL, 0, "$N run -t 0 --no-think 'What is a cat?' --save-session $D/c && $N run -t 0 --no-think --session $D/c 'What is a dog?'");
	assert_non_null(strstr(o.err.data, "tokens saved to"));
	outcome_free(&o);
	says(NULL, 2, "$N run --session $D/c --system x y", "", "beginning is fixed");
	says(NULL, 2, "$N run --save-session $D/c --n 2 y", "", "leave out --n");
}

static void refuses_by_name(void **state)
{
	(void)state;
	outcome o = run_program(NULL, 0,
	    "$N run -q --ids -n 4 -t 0 '20 30 40 50' --save-session $D/s; $N mkmodel -q $D/other > /dev/null; cp $D/s $D/cut; cp $D/s $D/bent; "
	    "truncate -s -9 $D/cut; printf X | dd of=$D/bent bs=1 seek=5000 conv=notrunc 2> /dev/null; echo text > $D/text; : > $D/empty");
	outcome_free(&o);
	says(NULL, 1, "$N run --ids -n 2 $D/other '' --session $D/s", "", "checkpoint: is ");
	says(NULL, 1, "$N run --ids -n 2 --numerics exact '' --session $D/s", "", "exact");
	says(NULL, 1, "$N run --ids -n 2 --kv-dtype bf16 '' --session $D/s", "", "bf16");
	static const char *const damaged[] = {"cut", "bent", "text", "empty"};
	for (size_t i = 0; i < ARRAY_LEN(damaged); i++) {
		char line[200];
		snprintf(line, sizeof line, "$N run --ids -n 2 '' --session $D/%s", damaged[i]);
		says(NULL, 1, line, "", damaged[i]);
		snprintf(line, sizeof line, "$N session $D/%s", damaged[i]);
		says(NULL, 1, line, "", damaged[i]);
	}
	says(NULL, 1, "$N run --ids -n 2 '' --session $D/none", "", "none");
}

/* A disk that is full while the file is written: nothing remains of it, and what was there before stays. */
static void nothing_is_half_written(void **state)
{
	(void)state;
	outcome o = run_program(NULL, 0,
	    "mkdir $D/d; (trap '' XFSZ; ulimit -f 8; $N run -q --ids -n 4 -t 0 '20 30 40 50' --save-session $D/d/s; echo $?; echo old > "
	    "$D/d/t; "
	    "$N run -q --ids -n 4 -t 0 '20 30 40 50' --save-session $D/d/t; echo $?); ls -A $D/d; cat $D/d/t");
	const char *tail = strstr(o.out.data, "1\nt\nold\n");
	if (!tail) fail_msg("wrote %s, said %s", o.out.data, o.err.data);
	assert_non_null(strstr(o.err.data, "/d/s"));
	outcome_free(&o);
	says(NULL, 1, "$N run -q --ids -n 4 -t 0 '20 30' --save-session $D/no/such/folder > /dev/null", "", "no/such/folder");
}

int main(void)
{
	if (program_missing()) return 77;
#define ONE(name) cmocka_unit_test_setup_teardown(name, dir_setup, dir_teardown)
	const struct CMUnitTest tests[] = {
	    ONE(goes_on_in_another_process), ONE(tells_what_is_in_it), ONE(refuses_by_name), ONE(nothing_is_half_written)};
	return cmocka_run_group_tests_name("session", tests, NULL, NULL);
}
