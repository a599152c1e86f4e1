/* SPDX-License-Identifier: Apache-2.0
 * test_base_buf.c: growth, limits and UTF-8 of buf.
 */
#include "test.h"

#include <string.h>

#include "base/base_buf.h"
#include "base/base_mem.h"

static void grows(void **state)
{
	(void)state;
	buf b = {0};
	for (int i = 0; i < 1000; i++) buf_printf(&b, "%d,", i);
	assert_false(b.failed);
	assert_int_equal(strlen(b.data), b.len);
	assert_int_equal(b.len, 10 * 2 + 90 * 3 + 900 * 4);
	buf_deinit(&b);
	assert_int_equal(mem_live(), 0);
}

static void respects_limit(void **state)
{
	(void)state;
	buf b = {.limit = 5};
	buf_str(&b, "12345");
	assert_false(b.failed);
	buf_char(&b, '6');
	assert_true(b.failed);
	assert_null(buf_take(&b));
	assert_int_equal(mem_live(), 0);
}

static void encodes_utf8(void **state)
{
	(void)state;
	buf b = {0};
	const unsigned cps[] = {0x41, 0x7F, 0x80, 0x7FF, 0x800, 0xFFFF, 0x10000, 0x10FFFF, 0xD800, 0x110000};
	for (size_t i = 0; i < ARRAY_LEN(cps); i++) buf_utf8(&b, cps[i]);
	assert_string_equal(b.data, "A\x7F\xC2\x80\xDF\xBF\xE0\xA0\x80\xEF\xBF\xBF\xF0\x90\x80\x80\xF4\x8F\xBF\xBF\xEF\xBF\xBD\xEF\xBF\xBD");
	buf_deinit(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(grows), cmocka_unit_test(respects_limit), cmocka_unit_test(encodes_utf8)};
	return cmocka_run_group_tests_name("base_buf", tests, NULL, NULL);
}
