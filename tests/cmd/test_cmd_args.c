/* SPDX-License-Identifier: Apache-2.0
 * test_cmd_args.c: the option parser: every form, every refusal, and the help page made from the table.
 */
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base_mem.h"
#include "cmd/cmd_args.h"

static const cmd_option options[] = {{"flag", 'f', CMD_FLAG, NULL, "a flag", 0, 0}, {"other", 'o', CMD_FLAG, NULL, "a flag", 0, 0},
    {"text", 't', CMD_STRING, "TEXT", "a text", 0, 0}, {"count", 'n', CMD_INT, "N", "a number", -5, 100},
    {"any", 0, CMD_INT, "N", "a number", 0, 0}, {"rate", 'r', CMD_REAL, "X", "a number", 0, 1},
    {"kind", 0, CMD_CHOICE, "auto|bf16|fp8", "a word", 0, 0}, {"size", 0, CMD_BYTES, "SIZE", "a size", 0, 0},
    {"item", 'i', CMD_LIST, "TEXT", "more than one", 0, 0}, CMD_OPTION_END};

static const cmd_def def = {.name = "sample",
    .summary = "a sample",
    .usage = "[A] [B]",
    .about = "About.\n",
    .examples = "nemotron sample -f\n",
    .options = options,
    .max_operands = 2};

#define MOST 32

/* Splits at spaces and parses; NULL where it was refused (then e says why). */
static cmd_args *parse(const char *line, bool *help, nh_error *e)
{
	static char text[512];
	char *argv[MOST];
	int argc = 0;
	cmd_args *a;
	snprintf(text, sizeof text, "%s", line);
	for (char *p = strtok(text, " "); p != NULL && argc < MOST; p = strtok(NULL, " ")) argv[argc++] = p;
	e->text[0] = '\0';
	nh_status s = cmd_args_parse(&a, &def, argc, argv, help, e);
	assert_true((s == NH_OK) == (a != NULL));
	if (s != NH_OK) assert_int_equal(s, NH_ERR_ARG);
	return a;
}

static void every_form_is_taken(void **state)
{
	(void)state;
	static const char *const lines[] = {"one -f --text hello --count 7 --rate 0.5 --kind fp8 --size 2K -i a --item b two",
	    "-ft hello -n7 -r.5 --kind=fp8 --size=2KiB -ia -i=b one two",
	    "--flag --text=hello -n=7 --rate=5e-1 one --kind fp8 --size 2048 --item=a -i b -- two"};
	for (size_t k = 0; k < ARRAY_LEN(lines); k++) {
		nh_error e;
		bool help;
		cmd_args *a = parse(lines[k], &help, &e);
		if (a == NULL) fail_msg("%s: %s", lines[k], e.text);
		const char *const *items;
		assert_true(cmd_flag(a, "flag") && !cmd_flag(a, "other") && !help);
		assert_string_equal(cmd_string(a, "text", ""), "hello");
		assert_int_equal(cmd_int(a, "count", 0), 7);
		assert_true(cmd_real(a, "rate", 0) == 0.5);
		assert_string_equal(cmd_string(a, "kind", ""), "fp8");
		assert_int_equal(cmd_bytes(a, "size", 0), 2048);
		assert_int_equal(cmd_list(a, "item", &items), 2);
		assert_string_equal(items[0], "a");
		assert_string_equal(items[1], "b");
		assert_int_equal(cmd_operands(a), 2);
		assert_string_equal(cmd_operand(a, 0), "one");
		assert_string_equal(cmd_operand(a, 1), "two");
		assert_null(cmd_operand(a, 2));
		cmd_args_free(a);
	}
}

static void absent_options_give_the_fallback(void **state)
{
	(void)state;
	nh_error e;
	bool help;
	const char *const *items;
	cmd_args *a = parse("", &help, &e);
	assert_non_null(a);
	assert_int_equal(cmd_int(a, "count", 42), 42);
	assert_null(cmd_string(a, "text", NULL));
	assert_int_equal(cmd_list(a, "item", &items), 0);
	assert_false(cmd_given(a, "count"));
	cmd_args_free(a);
}

static void numbers_and_dashes_are_no_options(void **state)
{
	(void)state;
	nh_error e;
	bool help;
	cmd_args *a = parse("-1 -", &help, &e);
	assert_non_null(a);
	assert_string_equal(cmd_operand(a, 0), "-1");
	assert_string_equal(cmd_operand(a, 1), "-");
	cmd_args_free(a);
	a = parse("-n -5 -- -f", &help, &e);
	assert_non_null(a);
	assert_int_equal(cmd_int(a, "count", 0), -5);
	assert_string_equal(cmd_operand(a, 0), "-f");
	assert_false(cmd_flag(a, "flag"));
	cmd_args_free(a);
}

static void mistakes_are_named(void **state)
{
	(void)state;
	static const struct {
		const char *line, *text;
	} rows[] = {{"--nope", "unknown option --nope"}, {"--nope=3", "unknown option --nope"}, {"-x", "unknown option -x"},
	    {"-fx", "unknown option -x"}, {"--text", "--text: needs a value (TEXT)"}, {"-t", "-t: needs a value (TEXT)"},
	    {"--flag=1", "--flag: takes no value"}, {"--count x", "--count: is x, expected a whole number"}, {"--count 1.5", "--count: is 1.5"},
	    {"--count 101", "from -5 to 100"}, {"--count 99999999999999999999", "expected a whole number"},
	    {"--count=", "expected a whole number"}, {"--rate 2", "from 0 to 1"}, {"--rate nan", "expected a number"},
	    {"--rate inf", "expected a number"}, {"--kind fp", "expected one of auto|bf16|fp8"}, {"--kind auto|bf16", "expected one of"},
	    {"--kind=", "expected one of"}, {"--size -1", "--size: is -1"}, {"--size 3Q", "a size such as"}, {"--size 1e30", "a size such as"},
	    {"a b c", "c: one argument too many"}, {"--tex x", "unknown option --tex"}};
	for (size_t k = 0; k < ARRAY_LEN(rows); k++) {
		nh_error e;
		bool help;
		cmd_args *a = parse(rows[k].line, &help, &e);
		if (a != NULL) fail_msg("%s: was taken", rows[k].line);
		if (strstr(e.text, rows[k].text) == NULL) fail_msg("%s: \"%s\" lacks \"%s\"", rows[k].line, e.text, rows[k].text);
	}
	print_message("%zu refusals\n", ARRAY_LEN(rows));
}

static void sizes_have_units(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		uint64_t bytes;
	} rows[] = {{"0", 0}, {"1.5K", 1536}, {"3KB", 3000}, {"2M", 2u << 20}, {"80G", 80ull << 30}, {"80GB", 80000000000},
	    {"80g", 80ull << 30}, {"80gb", 80000000000}, {"1.5gib", 3ull << 29}, {"3kB", 3000}, {"1TiB", 1ull << 40}, {"7B", 7}};
	for (size_t k = 0; k < ARRAY_LEN(rows); k++) {
		uint64_t v;
		assert_true(cmd_parse_bytes(rows[k].text, &v));
		assert_int_equal(v, rows[k].bytes);
	}
}

static void help_wins_and_lists_everything(void **state)
{
	(void)state;
	nh_error e;
	bool help;
	cmd_args *a = parse("-f --help --nope", &help, &e);
	assert_non_null(a);
	assert_true(help);
	cmd_args_free(a);
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	assert_non_null(f);
	cmd_args_help(&def, f);
	fclose(f);
	static const char *const wanted[] = {"usage: nemotron sample [options] [A] [B]", "About.", "-f, --flag", "      --any N",
	    "--kind auto|bf16|fp8", "-h, --help", "examples:\n  nemotron sample -f"};
	for (size_t k = 0; k < ARRAY_LEN(wanted); k++)
		if (strstr(text, wanted[k]) == NULL) fail_msg("no \"%s\" in:\n%s", wanted[k], text);
	free(text);
}

static void memory_may_run_out(void **state)
{
	(void)state;
	static char i[] = "-i", v[] = "a", x[] = "x";
	static char *argv[] = {i, v, i, v, x};
	size_t failures = 0;
	for (size_t n = 0; n < 10; n++) {
		cmd_args *a;
		bool help;
		nh_error e;
		size_t live = mem_live();
		mem_fail_after(n);
		nh_status s = cmd_args_parse(&a, &def, 5, argv, &help, &e);
		mem_fail_after(SIZE_MAX);
		failures += s == NH_ERR_NOMEM;
		cmd_args_free(a);
		assert_int_equal(mem_live(), live);
	}
	assert_true(failures >= 4 && failures < 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(every_form_is_taken), cmocka_unit_test(absent_options_give_the_fallback),
	    cmocka_unit_test(numbers_and_dashes_are_no_options), cmocka_unit_test(mistakes_are_named), cmocka_unit_test(sizes_have_units),
	    cmocka_unit_test(help_wins_and_lists_everything), cmocka_unit_test(memory_may_run_out)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
