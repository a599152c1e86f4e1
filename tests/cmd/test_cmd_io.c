/* SPDX-License-Identifier: Apache-2.0
 * test_cmd_io.c: numbers for people, and that progress is silent where standard error is no terminal. What goes through pipes and
 * signals is tested in test_main.c, with the built program.
 */
#include "test.h"

#include <string.h>

#include "base/base_mem.h"
#include "cmd/cmd.h"

static void bytes_have_three_digits(void **state)
{
	(void)state;
	static const struct {
		uint64_t bytes;
		const char *text;
	} rows[] = {{0, "0 bytes"}, {999, "999 bytes"}, {1000, "1.00 kB"}, {12778564, "12.8 MB"}, {999949, "999.9 kB"}, {999950, "1.00 MB"},
	    {63172000000, "63.2 GB"}, {1099000000000, "1.10 TB"}, {UINT64_MAX, "18.4 EB"}};
	for (size_t k = 0; k < ARRAY_LEN(rows); k++) {
		char text[32];
		cmd_bytes_text(rows[k].bytes, text);
		assert_string_equal(text, rows[k].text);
	}
}

static void progress_without_a_terminal_is_silent(void **state)
{
	(void)state;
	cmd_progress p = {0};
	for (uint64_t i = 0; i <= 10; i++) assert_true(cmd_progress_show(&p, "bytes", i, 10));
	assert_false(p.shown);
	cmd_progress_clear(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(bytes_have_three_digits), cmocka_unit_test(progress_without_a_terminal_is_silent)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
