/* SPDX-License-Identifier: Apache-2.0
 * test_sched.c: the plan of a step: every decode row, then pieces that end at edges or stops; nobody starves; linear and quick.
 */
#include "engine/sched.h"

#include <stdio.h>

#include "base/base_clock.h"
#include "base/base_mem.h"
#include "base/base_rng.h"
#include "test.h"

#define MANY 1024

static void plans(void **state)
{
	(void)state;
	static const struct {
		sched_view view[4];
		int n, budget, rows[4], at[4], items;
	} CASES[] = {
	    {{{0, 100, 0, false, false}}, 1, 32, {32}, {0}, 1},
	    {{{0, 20, 0, false, false}}, 1, 32, {20}, {0}, 1},
	    {{{16, 100, 0, false, false}}, 1, 30, {24}, {0}, 1},                                 /* to the edge at 40 */
	    {{{19, 100, 0, false, false}}, 1, 30, {29}, {0}, 1},                                 /* a segment that began at no edge */
	    {{{0, 100, 0, false, false}, {50, 60, 3, true, false}}, 2, 32, {4, 24}, {1, 0}, 2},  /* decode first, the piece has what is left */
	    {{{0, 100, 0, false, false}, {50, 60, 0, true, true}}, 2, 32, {32}, {0}, 1},         /* paused */
	    {{{0, 10, 0, false, false}, {0, 100, 0, false, false}}, 2, 32, {10, 16}, {0, 1}, 2}, /* the rest to the next one */
	    {{{0, 26, 0, false, false}, {0, 100, 0, false, false}}, 2, 32, {26}, {0}, 1},        /* 6 rows reach no edge */
	    {{{5, 6, 3, true, false}, {5, 6, 3, true, false}, {0, 99, 0, false, false}}, 3, 8, {4, 4, 8}, {0, 1, 2},
	        3}, /* prompts do not starve */
	    {{{0, 24, 0, false, false}, {24, 64, 0, false, false}}, 2, 32, {24, 8}, {0, 1}, 2},
	    {{{0}}, 0, 32, {0}, {0}, 0},
	};
	for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
		sched_item out[4];
		int n = sched_plan(CASES[i].view, CASES[i].n, CASES[i].budget, 8, out);
		if (n != CASES[i].items) fail_msg("case %zu: %d items", i, n);
		for (int k = 0; k < n; k++)
			if (out[k].rows != CASES[i].rows[k] || out[k].at != CASES[i].at[k])
				fail_msg("case %zu: item %d: %d rows of %d", i, k, out[k].rows, out[k].at);
	}
}

/* Random queues: what must hold of every plan. */
static void promises(void **state)
{
	(void)state;
	static sched_view view[MANY];
	static sched_item out[MANY];
	int pieces = 0, decodes = 0;
	for (uint64_t seed = 0; seed < 300; seed++) {
		int n = 1 + (int)(rng_u64(seed, 0, 0) % 64), chunk = 8 << (rng_u64(seed, 0, 1) % 3),
		    budget = chunk * (1 + (int)(rng_u64(seed, 0, 2) % 8)), used = 0;
		bool prefill = false, served = false;
		for (int i = 0; i < n; i++) {
			uint64_t r = rng_u64(seed, (uint64_t)i, 3);
			int64_t edge = (int64_t)(r % 5) * chunk;
			view[i] =
			    (sched_view){.pos = edge, .stop = edge + 1 + (int64_t)(r >> 8) % 300, .decode = r >> 32 & 1, .paused = (r >> 33 & 7) == 0};
			if (view[i].decode) view[i].drafts = (int)(r >> 40 & 3);
			prefill = prefill || (!view[i].decode && !view[i].paused);
		}
		int items = sched_plan(view, n, budget, chunk, out), last = -1;
		for (int k = 0; k < items; k++) {
			const sched_view *v = &view[out[k].at];
			assert_false(v->paused);
			assert_true(out[k].rows > 0);
			if (v->decode) {
				assert_false(served);
				assert_int_equal(out[k].rows, 1 + v->drafts);
				decodes++;
				continue;
			}
			served = true;
			int64_t end = v->pos + out[k].rows;
			assert_true(end == v->stop || (end % chunk == 0 && end < v->stop));
			assert_true(out[k].at > last);
			last = out[k].at;
			used += out[k].rows;
			pieces++;
		}
		assert_true(used <= budget);
		assert_int_equal(prefill, served);
	}
	assert_true(pieces > 300 && decodes > 300);
}

static double ns_per_plan(int n)
{
	static sched_view view[MANY];
	static sched_item out[MANY];
	int sum = 0;
	for (int i = 0; i < n; i++) view[i] = (sched_view){.pos = 8 * i, .stop = 8 * i + 100, .decode = i % 2 == 0};
	int64_t best = INT64_MAX;
	for (int r = 0; r < 50; r++) {
		int64_t began = clock_ns();
		for (int k = 0; k < 20; k++) sum += sched_plan(view, n, 512, 8, out);
		int64_t took = clock_ns() - began;
		if (took < best) best = took;
	}
	assert_true(sum > 0);
	return (double)best / 20;
}

static void is_linear(void **state)
{
	(void)state;
	double small = ns_per_plan(64), large = ns_per_plan(1024);
	printf("plan of 64: %.0f ns, of 1024: %.0f ns\n", small, large);
	assert_true(small < 20000);
	assert_true(large < 64 * small); /* 16 times as many; far from 256 times as long */
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(plans), cmocka_unit_test(promises), cmocka_unit_test(is_linear)};
	return cmocka_run_group_tests_name("sched", tests, NULL, NULL);
}
