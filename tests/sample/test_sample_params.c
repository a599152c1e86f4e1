/* SPDX-License-Identifier: Apache-2.0
 * test_sample_params.c: ranges of every parameter at both ends, every list's limits and ids, and what a row's arguments become.
 */
#include "test.h"

#include <math.h>
#include <string.h>

#include "base/base_mem.h"
#include "sample/sample.h"

enum { V = 70 };

static void defaults(void **state)
{
	(void)state;
	sample_params p = sample_default();
	nh_error e;
	assert_int_equal(sample_check(&p, V, &e), NH_OK);
	assert_true(sample_greedy(&p));
	assert_false(sample_needs_seen(&p) || sample_needs_counts(&p));
	op_sample_row r = sample_row(&p, 12);
	assert_true(r.temperature == 0 && r.top_p == 1 && r.min_p == 0 && r.top_k == 0 && r.position == 12);
}

typedef struct bound {
	const char *name;
	size_t offset;
	double good[3], bad[4];
	int goods, bads;
} bound;

#define BOUND(name, field, ...)                           \
	{                                                     \
		name, offsetof(sample_params, field), __VA_ARGS__ \
	}

static void ranges(void **state)
{
	(void)state;
	const bound bounds[] = {
	    BOUND("temperature", temperature, {0, 2, 1e6}, {-0.001, NAN, INFINITY, -INFINITY}, 3, 4),
	    BOUND("top_p", top_p, {1e-9, 0.5, 1}, {0, -0.5, 1.0001, NAN}, 3, 4),
	    BOUND("min_p", min_p, {0, 0.5, 1}, {-1e-9, 1.0001, NAN, INFINITY}, 3, 4),
	    BOUND("repetition_penalty", repetition, {1e-9, 1, 100}, {0, -1, NAN, 1e300}, 3, 4),
	    BOUND("presence_penalty", presence, {-2, 0, 2}, {-2.001, 2.001, NAN, INFINITY}, 3, 4),
	    BOUND("frequency_penalty", frequency, {-2, 0, 2}, {-2.001, 2.001, NAN, INFINITY}, 3, 4),
	};
	int looked = 0;
	for (size_t i = 0; i < ARRAY_LEN(bounds); i++) {
		const bound *b = &bounds[i];
		nh_error e;
		sample_params p;
		for (int j = 0; j < b->goods; j++, looked++) {
			p = sample_default();
			*(double *)((char *)&p + b->offset) = b->good[j];
			if (sample_check(&p, V, &e) != NH_OK) fail_msg("%s %g: %s", b->name, b->good[j], e.text);
		}
		for (int j = 0; j < b->bads; j++, looked++) {
			p = sample_default();
			*(double *)((char *)&p + b->offset) = b->bad[j];
			assert_int_equal(sample_check(&p, V, &e), NH_ERR_ARG);
			char head[64];
			snprintf(head, sizeof head, "%s: is ", b->name);
			if (strncmp(e.text, head, strlen(head)) != 0 || !strstr(e.text, "expected")) fail_msg("%s %g: %s", b->name, b->bad[j], e.text);
		}
	}
	assert_int_equal(looked, 6 * 7);

	sample_params p = sample_default();
	nh_error e;
	p.top_p = 1.5;
	sample_check(&p, V, &e);
	assert_string_equal(e.text, "top_p: is 1.5, expected more than 0, at most 1");
	p = sample_default();
	p.repetition = 1e-60; /* 0 as f32 */
	assert_int_equal(sample_check(&p, V, NULL), NH_ERR_ARG);
	p = sample_default();
	p.top_k = -1;
	assert_int_equal(sample_check(&p, V, &e), NH_OK);
	p.top_k = INT64_MAX;
	assert_int_equal(sample_check(&p, V, &e), NH_OK);
	p.top_k = -2;
	assert_int_equal(sample_check(&p, V, &e), NH_ERR_ARG);
	assert_string_equal(e.text, "top_k: is -2, expected 1 or more, or 0 or -1 for all");
	p = sample_default();
	p.min_tokens = -1;
	assert_int_equal(sample_check(&p, V, &e), NH_ERR_ARG);
	assert_string_equal(e.text, "min_tokens: is -1, expected 0 or more");
}

static void lists(void **state)
{
	(void)state;
	static int32_t ids[SAMPLE_BIAS_MAX + 1];
	static sample_bias bias[SAMPLE_BIAS_MAX + 1];
	static sample_word words[SAMPLE_WORDS_MAX + 1];
	for (size_t i = 0; i < ARRAY_LEN(words); i++) words[i] = (sample_word){ids, 2};
	nh_error e;
	sample_params p = sample_default(), good = p;
	good.bias = bias;
	good.biases = SAMPLE_BIAS_MAX;
	good.bad_words = words;
	good.bad_word_count = SAMPLE_WORDS_MAX;
	good.end_ids = good.stop_ids = ids;
	good.end_count = good.stop_count = SAMPLE_END_MAX;
	good.allowed = ids;
	good.allowed_count = V;
	assert_int_equal(sample_check(&good, V, &e), NH_OK);

	p = good, p.biases++;
	assert_int_equal(sample_check(&p, V, &e), NH_ERR_LIMIT);
	assert_string_equal(e.text, "logit_bias: has 1025 entries, expected at most 1024");
	p = good, p.bad_word_count++;
	assert_int_equal(sample_check(&p, V, &e), NH_ERR_LIMIT);
	p = good, p.end_count++;
	assert_int_equal(sample_check(&p, V, &e), NH_ERR_LIMIT);
	p = good, p.stop_count++;
	assert_int_equal(sample_check(&p, V, &e), NH_ERR_LIMIT);
	p = good, p.allowed_count++;
	assert_int_equal(sample_check(&p, V, &e), NH_ERR_LIMIT);

	p = good, p.bias = NULL;
	assert_int_equal(sample_check(&p, V, &e), NH_ERR_ARG);
	p = good, p.stop_count = -1;
	assert_int_equal(sample_check(&p, V, &e), NH_ERR_ARG);
	p = good, p.allowed_count = 0;
	assert_int_equal(sample_check(&p, V, &e), NH_ERR_ARG);
	assert_string_equal(e.text, "allowed_ids: is empty, expected one id or more");
	p = good, p.allowed = NULL;
	assert_int_equal(sample_check(&p, V, &e), NH_ERR_ARG);

	words[3].count = 0;
	assert_int_equal(sample_check(&good, V, &e), NH_ERR_ARG);
	assert_string_equal(e.text, "bad_words[3]: is empty, expected one id or more");
	words[3].count = SAMPLE_WORD_IDS_MAX + 1;
	assert_int_equal(sample_check(&good, V, &e), NH_ERR_LIMIT);
	words[3].count = 2;
	words[3].ids = NULL;
	assert_int_equal(sample_check(&good, V, &e), NH_ERR_ARG);
	words[3].ids = ids;

	const float bad[] = {NAN, INFINITY};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		bias[5].add = bad[i];
		assert_int_equal(sample_check(&good, V, &e), NH_ERR_ARG);
		assert_int_equal(strncmp(e.text, "logit_bias[5]: is ", 18), 0);
	}
	bias[5].add = -INFINITY;
	assert_int_equal(sample_check(&good, V, &e), NH_OK);

	/* An id outside the vocabulary, in each list. */
	const int32_t off[] = {-1, V};
	int looked = 0;
	for (size_t i = 0; i < ARRAY_LEN(off); i++) {
		char want[128];
		bias[9].id = off[i];
		assert_int_equal(sample_check(&good, V, &e), NH_ERR_ARG);
		snprintf(want, sizeof want, "logit_bias[9]: id is %d, expected 0 to %d", (int)off[i], V - 1);
		assert_string_equal(e.text, want);
		bias[9].id = 0;
		const int32_t list[2] = {3, off[i]};
		const char *names[] = {"bad_words[0][1]", "allowed_ids[1]", "end_ids[1]", "stop_ids[1]"};
		const sample_word word = {list, 2};
		for (int j = 0; j < 4; j++, looked++) {
			p = sample_default();
			if (j == 0) p.bad_words = &word, p.bad_word_count = 1;
			if (j == 1) p.allowed = list, p.allowed_count = 2;
			if (j == 2) p.end_ids = list, p.end_count = 2;
			if (j == 3) p.stop_ids = list, p.stop_count = 2;
			assert_int_equal(sample_check(&p, V, &e), NH_ERR_ARG);
			snprintf(want, sizeof want, "%s: id is %d, expected 0 to %d", names[j], (int)off[i], V - 1);
			assert_string_equal(e.text, want);
		}
	}
	assert_int_equal(looked, 8);
}

static void rows(void **state)
{
	(void)state;
	sample_params p = sample_default();
	p.temperature = 0.7;
	p.top_p = 0.9;
	p.min_p = 0.05;
	p.top_k = 40;
	p.seed = 0x123456789ABCDEF0u;
	op_sample_row r = sample_row(&p, 1000000000000);
	assert_true(r.temperature == 0.7 && r.top_p == 0.9 && r.min_p == 0.05 && r.top_k == 40);
	assert_true(r.seed == p.seed && r.position == 1000000000000 && r.pad == 0);
	assert_false(sample_greedy(&p));
	p.top_k = -1;
	assert_int_equal(sample_row(&p, 0).top_k, 0);
	p.top_k = INT64_MAX;
	assert_int_equal(sample_row(&p, 0).top_k, INT32_MAX);
	/* Greedy: the filters must not take part. Almost 0 is 0. */
	const double cold[] = {0, 1e-6, 9.9e-6};
	for (size_t i = 0; i < ARRAY_LEN(cold); i++) {
		p.temperature = cold[i];
		p.top_k = 1;
		r = sample_row(&p, 5);
		assert_true(r.temperature == 0 && r.top_p == 1 && r.min_p == 0 && r.top_k == 0);
	}
	p.temperature = 1e-5;
	assert_false(sample_greedy(&p));
}

static void ends(void **state)
{
	(void)state;
	const int32_t end[] = {2, 11}, stop[] = {50};
	sample_params p = sample_default();
	p.end_ids = end, p.end_count = 2;
	p.stop_ids = stop, p.stop_count = 1;
	assert_true(sample_ends(&p, 2, 1) && sample_ends(&p, 11, 1) && sample_ends(&p, 50, 1));
	assert_false(sample_ends(&p, 3, 1));
	p.ignore_eos = true;
	assert_false(sample_ends(&p, 2, 1) || sample_ends(&p, 11, 1));
	assert_true(sample_ends(&p, 50, 1));
	p.ignore_eos = false;
	p.min_tokens = 4; /* a forced end token among the first three does not end */
	assert_false(sample_ends(&p, 2, 3) || sample_ends(&p, 50, 3));
	assert_true(sample_ends(&p, 2, 4) && sample_ends(&p, 50, 4));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(defaults), cmocka_unit_test(ranges), cmocka_unit_test(lists), cmocka_unit_test(rows), cmocka_unit_test(ends)};
	return cmocka_run_group_tests_name("sample_params", tests, NULL, NULL);
}
