/* SPDX-License-Identifier: Apache-2.0
 * test_jinja_text.c: Python's text rules where tables and corner cases decide: letter case, white space, lines, floats, integers.
 */
#include "test.h"

#include <string.h>

#include "base/base_mem.h"
#include "base/base_rng.h"
#include "chat/jinja_text.h"

static void cased(const char *in, enum jtext_case how, const char *want)
{
	buf b = {0};
	jtext_case(in, strlen(in), how, &b);
	assert_string_equal(b.data, want);
	buf_deinit(&b);
}

static void letter_case(void **state)
{
	(void)state;
	cased("stra\xC3\x9F"
	      "e \xEF\xAC\x83",
	    JTEXT_UPPER, "STRASSE FFI");
	cased("\xC3\x9F"
	      "X",
	    JTEXT_CAPITALIZE, "Ssx");
	cased("\xC7\x86X", JTEXT_CAPITALIZE, "\xC7\x85x"); /* dz with caron has a title case of its own */
	cased("\xC4\xB0", JTEXT_LOWER, "i\xCC\x87");       /* I with a dot: two characters */
	cased("\xCE\x9F\xCE\xA3 \xCE\xA3\xCE\x9F", JTEXT_LOWER, "\xCE\xBF\xCF\x82 \xCF\x83\xCE\xBF"); /* a final sigma, and one that is not */
	cased("A\xCE\xA3.", JTEXT_LOWER, "a\xCF\x82.");
	cased("A\xCE\xA3.B", JTEXT_LOWER, "a\xCF\x83.b");
	cased("it's A test", JTEXT_TITLE, "It'S A Test");
}

static void shows_float(double d, const char *want)
{
	buf b = {0};
	jtext_repr_float(d, &b);
	assert_string_equal(b.data, want);
	buf_deinit(&b);
}

static void floats(void **state)
{
	(void)state;
	shows_float(0.1, "0.1");
	shows_float(-0.0, "-0.0");
	shows_float(1e15, "1000000000000000.0");
	shows_float(1e16, "1e+16");
	shows_float(123456789012345680.0, "1.2345678901234568e+17");
	shows_float(0.0001, "0.0001");
	shows_float(0.00001234, "1.234e-05");
	shows_float(5e-324, "5e-324");
	shows_float(1.7976931348623157e308, "1.7976931348623157e+308");
	shows_float(2.5, "2.5");
	shows_float(1e22, "1e+22");
	shows_float(9007199254740993.0, "9007199254740992.0");
	for (uint64_t i = 0; i < 20000; i++) {
		uint64_t bits = rng_u64(7, i, 0);
		double d, back;
		bool odd;
		memcpy(&d, &bits, sizeof d);
		if (d != d || d - d != 0) continue;
		buf b = {0};
		jtext_repr_float(d, &b);
		assert_true(jtext_read_float(b.data, b.len, &back, &odd));
		assert_true(back == d);
		buf_deinit(&b);
	}
}

static void numbers_read(void **state)
{
	(void)state;
	double d;
	int64_t i;
	bool odd, big;
	static const char *const GOOD[] = {"1", " 1.5 ", "1_000.5", ".5", "5.", "1e5", "-1E-5", "+1e+5", "inf", "-Infinity", "NAN"};
	static const char *const BAD[] = {"", " ", ".", "1__0", "_1", "1_", "1e", "e5", "1 2", "0x10", "1.5.2", "--1", "infin"};
	for (size_t k = 0; k < ARRAY_LEN(GOOD); k++) assert_true(jtext_read_float(GOOD[k], strlen(GOOD[k]), &d, &odd));
	for (size_t k = 0; k < ARRAY_LEN(BAD); k++) assert_false(jtext_read_float(BAD[k], strlen(BAD[k]), &d, &odd));
	assert_true(jtext_read_int(" -9223372036854775808 ", 22, &i, &big, &odd));
	assert_true(i == INT64_MIN && !big);
	assert_true(jtext_read_int("9223372036854775808", 19, &i, &big, &odd) && big);
	assert_true(jtext_read_int("1_0", 3, &i, &big, &odd) && i == 10);
	assert_false(jtext_read_int("1__0", 4, &i, &big, &odd));
	assert_false(jtext_read_int("1_", 2, &i, &big, &odd));
	assert_false(jtext_read_int("1.5", 3, &i, &big, &odd));
	jtext_read_int("\xD9\xA1", 2, &i, &big, &odd);
	assert_true(odd);
}

static void spaces_and_lines(void **state)
{
	(void)state;
	size_t n = 0, found = 0;
	for (unsigned c = 0; c < 0x110000; c++) found += jtext_is_space(c);
	assert_int_equal(found, 29); /* as many as str.isspace() knows */
	const char *s = "\xE3\x80\x80 a\xC2\xA0";
	n = strlen(s);
	jtext_strip(&s, &n, NULL, 0, JTEXT_LEFT | JTEXT_RIGHT);
	assert_int_equal(n, 1);
	const char *text = "a\r\nb\xE2\x80\xA8\x0B";
	size_t pos = 0, brk, lens[4] = {0}, lines = 0;
	while (pos < strlen(text)) lens[lines++] = jtext_line(text, strlen(text), &pos, &brk);
	assert_int_equal(lines, 3);
	assert_true(lens[0] == 1 && lens[1] == 1 && lens[2] == 0);
	assert_false(jtext_valid("\xED\xA0\x80", 3));
	assert_false(jtext_valid("\xC0\x80", 2));
	assert_true(jtext_valid("\xF0\x9F\x98\x80", 4));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(letter_case), cmocka_unit_test(floats), cmocka_unit_test(numbers_read), cmocka_unit_test(spaces_and_lines)};
	return cmocka_run_group_tests_name("jinja_text", tests, NULL, NULL);
}
