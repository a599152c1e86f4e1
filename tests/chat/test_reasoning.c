/* SPDX-License-Identifier: Apache-2.0
 * test_reasoning.c: the split of each text below, whole and cut in every way that two cuts, single bytes and random pieces give.
 */
#include "test.h"

#include <string.h>

#include "base/base_mem.h"
#include "base/base_rng.h"
#include "chat/reasoning.h"

typedef struct got {
	buf part[2];
} got;

static void receive(void *user, reasoning_kind kind, const char *text, size_t len)
{
	got *g = user;
	assert_true(len > 0);
	/* No thought after an answer has begun. */
	if (kind == REASONING_THOUGHT) assert_int_equal(g->part[1].len, 0);
	buf_append(&g->part[kind], text, len);
}

static const struct {
	bool inside;
	const char *text, *thought, *answer;
} CASES[] = {
    {true, "plan</think>answer", "plan", "answer"},             /* cases.md 66 */
    {true, "</think>", "", ""},                                 /* the same: both empty */
    {false, "hello", "", "hello"},                              /* cases.md 67 */
    {true, "all of it is thought", "all of it is thought", ""}, /* cases.md 70 */
    {true, "Call it.\n</think>\n\n<tool_call>\n<function=f>\n</function>\n</tool_call>", "Call it.",
        "<tool_call>\n<function=f>\n</function>\n</tool_call>"}, /* cases.md 71 */
    {true, "a\n\nb \t\n </think>\n\n\nc\n\n", "a\n\nb", "c\n\n"},
    {true, "<think>\nagain</think>x", "again", "x"},
    {true, " \n<think>\n\nagain</think>x", "again", "x"},
    {true, "  lead</think>  x", "  lead", "  x"},
    {false, "<think>\nplan\n</think>\n\nanswer", "plan", "answer"},
    {false, "\n\n<think>plan</think>answer", "plan", "answer"},
    {false, "say <think>no</think>", "", "say <think>no</think>"},
    {false, "\n<thin", "", "\n<thin"},
    {false, "  \n", "", "  \n"},
    {false, "<think", "", "<think"},
    {false, "<think>", "", ""},
    {true, "a</think>b</think>c<think>d", "a", "b</think>c<think>d"},
    {true, "x < y </ z </thin k </think", "x < y </ z </thin k </think", ""},
    {true, "a<</think>b", "a<", "b"},
    {true, "a</</think></think>b", "a</", "</think>b"},
    {true, "trailing \n\n", "trailing", ""},
    {true, "\n\n\n", "", ""},
    {true, "\xC3\xA9\xF0\x9F\x98\x80</think>\xE2\x82\xAC", "\xC3\xA9\xF0\x9F\x98\x80", "\xE2\x82\xAC"},
    {true, "", "", ""},
    {false, "", "", ""},
};

static size_t checks;

/* Splits the text at the given borders. */
static void split(size_t c, const size_t *borders, size_t n)
{
	got g = {0};
	reasoning_split r;
	nh_error e;
	size_t at = 0;
	reasoning_init(&r, CASES[c].inside, "<think>", "</think>", receive, &g);
	for (size_t i = 0; i <= n; i++) {
		size_t end = i < n ? borders[i] : strlen(CASES[c].text);
		assert_int_equal(reasoning_push(&r, CASES[c].text + at, end - at, &e), NH_OK);
		at = end;
	}
	assert_int_equal(reasoning_finish(&r, &e), NH_OK);
	assert_string_equal(g.part[0].data ? g.part[0].data : "", CASES[c].thought);
	assert_string_equal(g.part[1].data ? g.part[1].data : "", CASES[c].answer);
	reasoning_deinit(&r);
	buf_deinit(&g.part[0]);
	buf_deinit(&g.part[1]);
	checks++;
}

static void any_pieces(void **state)
{
	(void)state;
	for (size_t c = 0; c < ARRAY_LEN(CASES); c++) {
		size_t n = strlen(CASES[c].text), every[200];
		split(c, NULL, 0);
		for (size_t i = 0; i <= n; i++)
			for (size_t k = i; k <= n; k++) split(c, (const size_t[]){i, k}, 2);
		for (size_t i = 0; i < n; i++) every[i] = i;
		split(c, every, n);
		for (uint64_t seed = 0; seed < 50; seed++) {
			size_t borders[200], count = 0;
			for (size_t i = 0; i < n; i++)
				if (rng_unit(seed, i, c) < 0.4) borders[count++] = i;
			split(c, borders, count);
		}
	}
	printf("splits: %zu\n", checks);
	assert_true(checks > 5000);
	assert_int_equal(mem_live(), 0);
}

/* Only what may still be a tag or white space before one is held back. */
static void holds_little(void **state)
{
	(void)state;
	got g = {0};
	reasoning_split r;
	nh_error e;
	reasoning_init(&r, true, "<think>", "</think>", receive, &g);
	reasoning_push(&r, "abc <", 5, &e);
	assert_string_equal(g.part[0].data, "abc");
	reasoning_push(&r, "b", 1, &e);
	assert_string_equal(g.part[0].data, "abc <b");
	reasoning_deinit(&r);
	buf_deinit(&g.part[0]);
	assert_int_equal(mem_live(), 0);
}

static void prompt_ends(void **state)
{
	(void)state;
	assert_true(reasoning_starts_inside("assistant\n<think>\n", 18, "<think>"));
	assert_true(reasoning_starts_inside("<think>", 7, "<think>"));
	assert_false(reasoning_starts_inside("<think></think>", 15, "<think>"));
	assert_false(reasoning_starts_inside("think>", 6, "<think>"));
	assert_false(reasoning_starts_inside("", 0, "<think>"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(any_pieces), cmocka_unit_test(holds_little), cmocka_unit_test(prompt_ends)};
	return cmocka_run_group_tests_name("reasoning", tests, NULL, NULL);
}
