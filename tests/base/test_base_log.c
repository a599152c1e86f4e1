/* SPDX-License-Identifier: Apache-2.0
 * test_base_log.c: levels, silence, and one printable line a call.
 */
#include "test.h"

#include <string.h>

#include "base/base_log.h"

typedef struct seen {
	int calls;
	nh_log_level level;
	char text[2000];
} seen;

static void keep(void *user, nh_log_level level, const char *text)
{
	seen *s = user;
	s->calls++;
	s->level = level;
	snprintf(s->text, sizeof s->text, "%s", text);
}

static void drops_above_its_level(void **state)
{
	(void)state;
	seen s = {0};
	logger l = {keep, &s, NH_LOG_WARN};
	log_line(&l, NH_LOG_ERROR, "e %d", 1);
	assert_string_equal(s.text, "e 1");
	assert_int_equal(s.level, NH_LOG_ERROR);
	log_line(&l, NH_LOG_WARN, "w");
	log_line(&l, NH_LOG_NOTICE, "n");
	log_line(&l, NH_LOG_DEBUG, "d");
	assert_int_equal(s.calls, 2);
	assert_string_equal(s.text, "w");
}

static void silent_without_a_function(void **state)
{
	(void)state;
	logger l = {0};
	log_line(&l, NH_LOG_ERROR, "nobody hears");
	log_line(NULL, NH_LOG_ERROR, "nobody hears");
}

static void lines_are_printable_and_bounded(void **state)
{
	(void)state;
	seen s = {0};
	logger l = {keep, &s, NH_LOG_DEBUG};
	log_line(&l, NH_LOG_ERROR, "name \x1b]0;x\x07 of %s", "two\nlines");
	assert_string_equal(s.text, "name ?]0;x? of two?lines");
	char big[5000];
	memset(big, 'y', sizeof big - 1);
	big[sizeof big - 1] = 0;
	log_line(&l, NH_LOG_ERROR, "%s", big);
	assert_int_equal(strlen(s.text), 1023);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(drops_above_its_level),
	    cmocka_unit_test(silent_without_a_function),
	    cmocka_unit_test(lines_are_printable_and_bounded),
	};
	return cmocka_run_group_tests_name("base_log", tests, NULL, NULL);
}
