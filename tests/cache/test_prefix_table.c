/* SPDX-License-Identifier: Apache-2.0
 * test_prefix_table.c: prompts are told apart by their ids, not by their keys; what is worth least goes first; what is given back is free.
 */
#include "test.h"

#include <string.h>

#include "base/base_mem.h"
#include "helper_prefix.h"

static uint64_t weak_hash(uint64_t before, const int32_t *ids, int64_t n) { return (void)before, (void)ids, (uint64_t)(n & 1); }

/* All prompts have one key. Only their own ids find them. */
static void ids_are_compared(void **state)
{
	(void)state;
	static int32_t ids[8][600];
	int hits = 0;
	host h;
	seqmem m;
	host_open(&h, NUM_BF16, 60, 200);
	host_seqmem(&h, &m, 600);
	prefix_cache *c = helper_prefix_open(&h, UNIT, 40, NULL);
	c->hash = weak_hash;
	for (int i = 0; i < 8; i++) host_prompt(ids[i], 600, i % 2 ? 300 : 0, 1, (uint64_t)i);
	for (int round = 0; round < 2; round++)
		for (int i = 0; i < 8; i++) {
			int64_t reused = helper_prefix_request(&h, c, &m, ids[i], 600);
			int64_t know = round ? 512 : i % 2 && i > 1 ? 256 : 0;
			assert_int_equal(reused, know);
			hits += reused > 0;
		}
	assert_int_equal(hits, 11);
	/* One id off, anywhere. */
	for (int at = 0; at < 512; at += 37) {
		ids[0][at] ^= 1;
		int64_t length;
		seqmem_release(&m);
		assert_int_equal(prefix_adopt(c, ids[0], 600, &m, &length, NULL), NH_OK);
		assert_true(length <= at);
		if (length) host_check(&h, &m, ids[0]);
		ids[0][at] ^= 1;
	}
	prefix_close(c);
	seqmem_deinit(&m);
	host_close(&h);
	assert_int_equal(mem_live(), 0);
}

static void the_least_worth_goes_first(void **state)
{
	(void)state;
	static int32_t a[1100], b[1100], d[1100];
	int64_t length;
	host h;
	seqmem m;
	host_prompt(a, 1100, 0, 0, 1);
	host_prompt(b, 1100, 0, 0, 2);
	host_prompt(d, 1100, 0, 0, 3);
	host_open(&h, NUM_E4M3, 8, 100);
	host_seqmem(&h, &m, 1100);
	/* Equal worth: the one that was used longest ago. */
	prefix_cache *c = helper_prefix_open(&h, UNIT, 2, NULL);
	helper_prefix_put(&h, c, &m, a, UNIT);
	helper_prefix_put(&h, c, &m, b, UNIT);
	assert_int_equal(prefix_adopt(c, a, UNIT + 1, &m, &length, NULL), NH_OK);
	assert_int_equal(length, UNIT);
	helper_prefix_put(&h, c, &m, d, UNIT);
	assert_true(helper_prefix_kept(c, a, UNIT) && !helper_prefix_kept(c, b, UNIT) && helper_prefix_kept(c, d, UNIT));
	assert_int_equal(helper_prefix_stats(c).evictions, 1);
	prefix_close(c);
	/* More tokens per byte stay, although they are older: a slot costs the same at any length. */
	c = helper_prefix_open(&h, UNIT, 2, NULL);
	helper_prefix_put(&h, c, &m, a, 8 * UNIT);
	helper_prefix_put(&h, c, &m, b, UNIT);
	helper_prefix_put(&h, c, &m, d, UNIT);
	assert_true(helper_prefix_kept(c, a, 8 * UNIT) && !helper_prefix_kept(c, b, UNIT) && helper_prefix_kept(c, d, UNIT));
	/* Tokens count beyond the next shorter one: with 7 units kept, 8 save one more. */
	helper_prefix_put(&h, c, &m, a, 7 * UNIT);
	assert_true(helper_prefix_kept(c, a, 8 * UNIT) && helper_prefix_kept(c, a, 7 * UNIT) && !helper_prefix_kept(c, d, UNIT));
	double w7 = 0, w8 = 0;
	for (int32_t i = 0; i < 2; i++) {
		const prefix_entry *x = &c->table.entry[i];
		*(x->length == 7 * UNIT ? &w7 : &w8) = prefix_table_worth(&c->table, i) - x->clock;
		assert_int_equal(x->after < 0 ? 0 : c->table.entry[x->after].length, x->length == 7 * UNIT ? 0 : 7 * UNIT);
	}
	const double slot = (double)states_bytes(&h.s) / 8, page = (double)pages_bytes(&h.p) / 100;
	assert_true(w7 == 7 * UNIT / (slot + 14 * page));
	assert_true(w8 == UNIT / (slot + 2 * page));
	prefix_close(c);
	/* What is never used sinks: a long one gives way in the end to short ones that keep coming. */
	c = helper_prefix_open(&h, UNIT, 2, NULL);
	helper_prefix_put(&h, c, &m, a, 8 * UNIT);
	int rounds = 0;
	while (helper_prefix_kept(c, a, 8 * UNIT) && rounds < 100) {
		host_prompt(b, UNIT, 0, 0, 100 + (uint64_t)rounds++);
		helper_prefix_put(&h, c, &m, b, UNIT);
	}
	assert_in_range(rounds, 3, 20);
	prefix_close(c);
	seqmem_deinit(&m);
	host_close(&h);
	assert_int_equal(mem_live(), 0);
}

static void evicting_gives_back(void **state)
{
	(void)state;
	static int32_t ids[1100], other[1100];
	host h;
	seqmem m, n;
	host_prompt(ids, 1100, 0, 0, 1);
	host_prompt(other, 1100, 0, 0, 2);
	host_open(&h, NUM_BF16, 4, 20);
	host_seqmem(&h, &m, 1100);
	host_seqmem(&h, &n, 1100);
	prefix_cache *c = helper_prefix_open(&h, UNIT, 4, NULL);
	host_compute(&h, &m, ids, 2 * UNIT);
	prefix_publish(c, ids, 1100, &m);
	helper_prefix_put(&h, c, &n, other, 4 * UNIT);
	const size_t slot = states_bytes(&h.s) / 4, page = pages_bytes(&h.p) / 20;
	prefix_stats s = helper_prefix_stats(c);
	assert_int_equal(s.snapshots, 2);
	assert_int_equal(s.bytes, 2 * slot + 8 * page); /* m still has its own 4 pages */
	assert_int_equal(h.p.pool.free_count, 8);
	/* m's pages would not come free: its snapshot stays. */
	assert_true(prefix_evict(c, 0, 9));
	assert_true(helper_prefix_kept(c, ids, 2 * UNIT) && !helper_prefix_kept(c, other, 4 * UNIT));
	assert_int_equal(h.p.pool.free_count, 16);
	assert_false(prefix_evict(c, 0, 17));
	assert_true(helper_prefix_kept(c, ids, 2 * UNIT));
	assert_true(prefix_evict(c, 3, 0));
	assert_false(helper_prefix_kept(c, ids, 2 * UNIT));
	assert_false(prefix_evict(c, 4, 0));
	host_check(&h, &m, ids);
	assert_int_equal(helper_prefix_stats(c).bytes, 0);
	assert_int_equal(helper_prefix_stats(c).evictions, 2);
	seqmem_release(&m);
	assert_true(host_idle(&h));
	prefix_close(c);
	seqmem_deinit(&m);
	seqmem_deinit(&n);
	host_close(&h);
	assert_int_equal(mem_live(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(ids_are_compared),
	    cmocka_unit_test(the_least_worth_goes_first),
	    cmocka_unit_test(evicting_gives_back),
	};
	return cmocka_run_group_tests_name("prefix_table", tests, NULL, NULL);
}
