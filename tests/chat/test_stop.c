/* SPDX-License-Identifier: Apache-2.0
 * test_stop.c: stop strings: cut texts against the definition (the stop that is complete first, computed the slow way), all
 * cuttings of small alphabets, and how much is held back.
 */
#include "test.h"

#include <string.h>

#include "base/base_mem.h"
#include "base/base_rng.h"
#include "chat/stop.h"

/* The definition: the smallest end, then the longest stop. Returns the length of what is given out. */
static size_t slow(const char *text, const char *const *stops, size_t count, bool include, int *found)
{
	size_t n = strlen(text);
	*found = -1;
	for (size_t end = 1; end <= n; end++) {
		size_t longest = 0;
		for (size_t i = 0; i < count; i++) {
			size_t k = strlen(stops[i]);
			if (k > longest && k <= end && memcmp(text + end - k, stops[i], k) == 0) longest = k, *found = (int)i;
		}
		if (longest) return include ? end : end - longest;
	}
	return n;
}

static void check(const char *text, const char *const *stops, size_t count, bool include, uint64_t seed)
{
	stop_filter f;
	nh_error e;
	buf out = {0};
	int want;
	size_t n = strlen(text), len = slow(text, stops, count, include, &want);
	assert_int_equal(stop_init(&f, stops, count, include, &e), NH_OK);
	for (size_t at = 0; at < n;) {
		size_t k = seed ? 1 + (size_t)(rng_unit(seed, at, 0) * 4) : n;
		if (k > n - at) k = n - at;
		assert_int_equal(stop_push(&f, text + at, k, &out, &e), NH_OK);
		at += k;
	}
	assert_int_equal(stop_finish(&f, &out, &e), NH_OK);
	assert_int_equal(f.found, want);
	assert_int_equal(out.len, len);
	assert_memory_equal(out.data ? out.data : "", text, len);
	buf_deinit(&out);
	stop_deinit(&f);
}

static void random_texts(void **state)
{
	(void)state;
	size_t checks = 0, hits = 0;
	for (uint64_t seed = 1; seed <= 4000; seed++) {
		char text[40], stops[3][6];
		const char *list[3] = {stops[0], stops[1], stops[2]};
		size_t n = 1 + rng_u64(seed, 0, 1) % 30, count = 1 + rng_u64(seed, 0, 2) % 3;
		for (size_t i = 0; i < n; i++) text[i] = "ab"[rng_u64(seed, i, 3) % 2];
		text[n] = 0;
		for (size_t s = 0; s < count; s++) {
			size_t k = 1 + rng_u64(seed, s, 4) % 5;
			for (size_t i = 0; i < k; i++) stops[s][i] = "abc"[rng_u64(seed, i, 5 + s) % (seed % 2 ? 2 : 3)];
			stops[s][k] = 0;
		}
		int found;
		slow(text, list, count, false, &found);
		hits += found >= 0;
		for (uint64_t cut = 0; cut < 3; cut++, checks++) check(text, list, count, seed % 5 == 0, cut ? seed * 3 + cut : 0);
	}
	printf("stop checks: %zu, of which %zu stop\n", checks, hits * 3);
	assert_true(hits > 500 && hits < 4000);
	assert_int_equal(mem_live(), 0);
}

static void holds_only_what_may_stop(void **state)
{
	(void)state;
	const char *stops[] = {"\n\nUser:", "</s>"};
	stop_filter f;
	nh_error e;
	buf out = {0};
	assert_int_equal(stop_init(&f, stops, 2, false, &e), NH_OK);
	stop_push(&f, "Hi\n", 3, &out, &e);
	assert_string_equal(out.data, "Hi");
	stop_push(&f, "\nUse", 4, &out, &e);
	assert_string_equal(out.data, "Hi");
	stop_push(&f, "rs", 2, &out, &e);
	assert_string_equal(out.data, "Hi\n\nUsers");
	stop_push(&f, "\xC3\xA9<", 3, &out, &e);
	assert_string_equal(out.data, "Hi\n\nUsers\xC3\xA9");
	stop_push(&f, "/s> and more", 12, &out, &e);
	assert_int_equal(f.found, 1);
	stop_push(&f, "ignored", 7, &out, &e);
	stop_finish(&f, &out, &e);
	assert_string_equal(out.data, "Hi\n\nUsers\xC3\xA9");
	stop_deinit(&f);
	buf_deinit(&out);
	assert_int_equal(mem_live(), 0);
}

static void arguments(void **state)
{
	(void)state;
	stop_filter f;
	nh_error e;
	buf out = {0};
	assert_int_equal(stop_init(&f, (const char *const[]){"a", ""}, 2, false, &e), NH_ERR_ARG);
	assert_int_equal(stop_init(&f, NULL, 0, false, &e), NH_OK);
	stop_push(&f, "abc", 3, &out, &e);
	assert_string_equal(out.data, "abc");
	stop_deinit(&f);
	buf_deinit(&out);
	const char *many[STOP_MAX_COUNT + 1];
	for (size_t i = 0; i <= STOP_MAX_COUNT; i++) many[i] = "x";
	assert_int_equal(stop_init(&f, many, STOP_MAX_COUNT + 1, false, &e), NH_ERR_ARG);
	stop_deinit(&f);
	assert_int_equal(mem_live(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(random_texts), cmocka_unit_test(holds_only_what_may_stop), cmocka_unit_test(arguments)};
	return cmocka_run_group_tests_name("stop", tests, NULL, NULL);
}
