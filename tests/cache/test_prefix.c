/* SPDX-License-Identifier: Apache-2.0
 * test_prefix.c: what is adopted is the state of exactly the prompt's first tokens, never of another prompt; snapshots lie where the rules
 * say; and nothing that fails leaves a slot or page behind.
 */
#include "test.h"

#include <string.h>

#include "base/base_mem.h"
#include "base/base_rng.h"
#include "cache/spill.h"
#include "helper_prefix.h"

enum { MOST = 4096 };

static void the_unit_is_a_common_multiple(void **state)
{
	(void)state;
	static const struct {
		int chunk, unit;
	} CASES[] = {{1, 64}, {64, 64}, {96, 192}, {100, 1600}, {128, 128}, {256, 256}};
	host h;
	host_open(&h, NUM_BF16, 2, 2);
	for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
		prefix_cache *c = helper_prefix_open(&h, CASES[i].chunk, 1, NULL);
		assert_int_equal(prefix_unit(c), CASES[i].unit);
		prefix_close(c);
	}
	prefix_cache *c;
	nh_error e;
	prefix_options o = {.states = &h.s, .pages = &h.p, .x = &h.x, .chunk = 0, .slot_limit = 1};
	assert_int_equal(prefix_open(&c, &o, &e), NH_ERR_ARG);
	o.chunk = 128;
	o.slot_limit = -1;
	assert_int_equal(prefix_open(&c, &o, &e), NH_ERR_ARG);
	assert_null(c);
	prefix_close(NULL);
	host_close(&h);
	assert_int_equal(mem_live(), 0);
}

static void off_it_does_nothing(void **state)
{
	(void)state;
	int32_t ids[400];
	host h;
	seqmem m;
	host_prompt(ids, 400, 0, 0, 1);
	host_open(&h, NUM_BF16, 2, 16);
	host_seqmem(&h, &m, 400);
	prefix_cache *c = helper_prefix_open(&h, UNIT, 0, NULL);
	for (int i = 0; i < 2; i++) assert_int_equal(helper_prefix_request(&h, c, &m, ids, 400), 0);
	assert_int_equal(prefix_next(c, ids, 400, 0), 400);
	assert_true(prefix_evict(c, 1, 1));
	assert_false(prefix_evict(c, 2, 1));
	prefix_stats s = helper_prefix_stats(c), none = {0};
	assert_memory_equal(&s, &none, sizeof s);
	prefix_close(c);
	seqmem_deinit(&m);
	host_close(&h);
	assert_int_equal(mem_live(), 0);
}

/* By the words of the header, for a prompt that nothing is known of. */
static bool is_wanted(int64_t at, int64_t n, int64_t unit)
{
	if (at <= 0 || at % unit || at > n - 1) return false;
	if (at + 2 * unit > n - 1) return true; /* one of the last two */
	int64_t units = at / unit;
	return (units & (units - 1)) == 0;
}

static void wanted_places(void **state)
{
	(void)state;
	static const int CHUNKS[] = {64, 128, 192};
	static int32_t ids[MOST];
	host h;
	int lengths = 0, places = 0;
	host_prompt(ids, MOST, 0, 0, 2);
	host_open(&h, NUM_BF16, 4, 4);
	for (size_t k = 0; k < ARRAY_LEN(CHUNKS); k++) {
		prefix_cache *c = helper_prefix_open(&h, CHUNKS[k], 4, NULL);
		const int64_t unit = CHUNKS[k];
		for (int64_t units = 0; units < 21; units++)
			for (int64_t n = units * unit - 1; n <= units * unit + 2; n++) {
				if (n < 1) continue;
				int64_t pos = 0;
				for (int64_t at = 1; at < n; at++) {
					if (!is_wanted(at, n, unit)) continue;
					assert_int_equal(prefix_next(c, ids, n, pos), at);
					assert_int_equal(prefix_next(c, ids, n, at - 1), at);
					pos = at;
					places++;
				}
				assert_int_equal(prefix_next(c, ids, n, pos), n);
				lengths++;
			}
		prefix_close(c);
	}
	assert_int_equal(lengths, 3 * (2 + 20 * 4));
	assert_true(places > 1000);
	host_close(&h);
	assert_int_equal(mem_live(), 0);
}

/* The same prompt again starts at the last border before its last token, whatever the length; and what follows is the same. */
static void the_same_again(void **state)
{
	(void)state;
	static int32_t ids[MOST];
	int lengths = 0;
	for (int64_t units = 0; units <= 6; units++)
		for (int64_t d = -2; d <= 66; d = d == 2 ? 62 : d + 1) {
			const int64_t n = units * UNIT + d;
			if (n < 1) continue;
			host h;
			seqmem a, b;
			host_open(&h, lengths % 2 ? NUM_E4M3 : NUM_BF16, 12, 40);
			host_prompt(ids, MOST, 0, 0, (uint64_t)n);
			host_seqmem(&h, &a, MOST);
			host_seqmem(&h, &b, MOST);
			prefix_cache *c = helper_prefix_open(&h, UNIT, 8, NULL);
			assert_int_equal(helper_prefix_request(&h, c, &a, ids, n), 0);
			const int64_t last = (n - 1) / UNIT * UNIT;
			host_poison(&h);
			for (int again = 0; again < 3; again++) {
				assert_int_equal(helper_prefix_request(&h, c, again == 1 ? &a : &b, ids, n), last);
				host_check(&h, &a, ids);
				host_compute(&h, &b, ids, n + 70); /* an answer goes to pages of its own */
				host_check(&h, &b, ids);
				host_poison(&h);
			}
			/* One token more: an edge at n - 1 counts, one at n does not. */
			assert_int_equal(helper_prefix_request(&h, c, &b, ids, n + 1), last);
			prefix_stats s = helper_prefix_stats(c);
			assert_int_equal(s.hits, last ? 4 : 0);
			assert_int_equal(s.misses, last ? 1 : 5);
			assert_int_equal(s.reused_tokens, 4 * last);
			assert_int_equal(h.x.status, NH_OK);
			assert_int_equal(h.x.counters.scatters, s.hits);
			assert_int_equal(h.x.counters.gathers, s.published);
			assert_int_equal(h.x.counters.op[OP_state_copy].calls, (s.hits + s.published) * 6);
			prefix_close(c);
			seqmem_deinit(&a);
			seqmem_deinit(&b);
			host_close(&h);
			lengths++;
		}
	assert_int_equal(lengths, 67);
	assert_int_equal(mem_live(), 0);
}

/* A chat: the next prompt is the last one up to somewhere in its last two units, then other tokens. It starts at the border before. */
static void a_prompt_that_turns_off(void **state)
{
	(void)state;
	static int32_t ids[MOST], other[MOST];
	int cases = 0;
	for (int64_t n = 5 * UNIT - 1; n <= 7 * UNIT + 1; n += 43)
		for (int64_t back = 1; back < 2 * UNIT; back += 31, cases++) {
			host h;
			seqmem m;
			host_open(&h, NUM_BF16, 12, 60);
			host_seqmem(&h, &m, MOST);
			prefix_cache *c = helper_prefix_open(&h, UNIT, 10, NULL);
			host_prompt(ids, n, n, 3, 1);
			helper_prefix_request(&h, c, &m, ids, n);
			const int64_t common = n - back;
			host_prompt(other, n + 300, common, 3, 2);
			int64_t reused = helper_prefix_request(&h, c, &m, other, n + 300);
			int64_t best = 0;
			for (int64_t at = UNIT; at <= common; at += UNIT)
				if (is_wanted(at, n, UNIT)) best = at;
			assert_int_equal(reused, best);
			if (back <= UNIT) assert_true(common - reused < UNIT);
			prefix_close(c);
			seqmem_deinit(&m);
			host_close(&h);
		}
	assert_true(cases > 50);
	assert_int_equal(mem_live(), 0);
}

/* Many prompts with one beginning: the second leaves a snapshot where it turns off, the third starts there. */
static void branch_points(void **state)
{
	(void)state;
	static int32_t ids[MOST];
	int cases = 0;
	for (int64_t common = UNIT; common < 13 * UNIT; common += UNIT / 2 + 9, cases++) {
		host h;
		seqmem m;
		const int64_t n = 16 * UNIT + 5, border = common / UNIT * UNIT;
		host_open(&h, NUM_BF16, 40, 120);
		host_seqmem(&h, &m, MOST);
		prefix_cache *c = helper_prefix_open(&h, UNIT, 30, NULL);
		int64_t doubling = 0;
		for (int64_t at = UNIT; at <= border; at *= 2) doubling = at;
		host_prompt(ids, n, common, 9, 1);
		assert_int_equal(helper_prefix_request(&h, c, &m, ids, n), 0);
		host_prompt(ids, n, common, 9, 2);
		assert_int_equal(prefix_next(c, ids, n, doubling), border != doubling ? border : doubling == 8 * UNIT ? 15 * UNIT : doubling * 2);
		assert_int_equal(helper_prefix_request(&h, c, &m, ids, n), doubling);
		host_prompt(ids, n, common, 9, 3);
		assert_int_equal(helper_prefix_request(&h, c, &m, ids, n), border);
		host_prompt(ids, n, 0, 9, 4); /* and a stranger has no part in it */
		assert_int_equal(helper_prefix_request(&h, c, &m, ids, n), 0);
		prefix_close(c);
		seqmem_deinit(&m);
		host_close(&h);
	}
	assert_true(cases > 20);
	/* One prompt's first unit, then another's: it parts from both after the first. */
	host h;
	seqmem m;
	host_open(&h, NUM_BF16, 40, 120);
	host_seqmem(&h, &m, MOST);
	prefix_cache *c = helper_prefix_open(&h, UNIT, 30, NULL);
	for (uint64_t i = 0; i < 2; i++) {
		host_prompt(ids, 8 * UNIT, 0, 0, i);
		helper_prefix_request(&h, c, &m, ids, 8 * UNIT);
	}
	static int32_t other[8 * UNIT];
	host_prompt(other, 8 * UNIT, 0, 0, 0);
	memcpy(ids + UNIT, other + UNIT, 4 * UNIT * sizeof *ids);
	ids[5 * UNIT] ^= 1; /* and a unit that nobody had */
	assert_int_equal(prefix_next(c, ids, 8 * UNIT, 4 * UNIT), 6 * UNIT);
	prefix_close(c);
	seqmem_deinit(&m);
	host_close(&h);
	assert_int_equal(mem_live(), 0);
}

static void slots_belong_to_sequences_first(void **state)
{
	(void)state;
	static int32_t a[400], b[400];
	int64_t length;
	nh_error e;
	host h;
	seqmem m[3];
	host_prompt(a, 400, 0, 0, 1);
	host_prompt(b, 400, 0, 0, 2);
	host_open(&h, NUM_BF16, 3, 30);
	for (int i = 0; i < 3; i++) host_seqmem(&h, &m[i], 400);
	prefix_cache *c = helper_prefix_open(&h, UNIT, 100, NULL);
	for (int i = 0; i < 3; i++) host_compute(&h, &m[i], i ? b : a, UNIT);
	prefix_publish(c, a, 400, &m[0]); /* no slot is free and none is the cache's */
	assert_int_equal(helper_prefix_stats(c).snapshots, 0);
	seqmem_release(&m[2]);
	prefix_publish(c, a, 400, &m[0]);
	prefix_publish(c, a, 400, &m[0]);
	assert_int_equal(helper_prefix_stats(c).published, 1);
	prefix_publish(c, b, 400, &m[1]); /* takes the cache's own slot */
	assert_true(!helper_prefix_kept(c, a, UNIT) && helper_prefix_kept(c, b, UNIT));
	/* All slots are in use, one of them by the very snapshot that would be adopted: it is not taken for its own copy. */
	assert_int_equal(prefix_adopt(c, b, 400, &m[2], &length, &e), NH_ERR_LIMIT);
	assert_true(length == 0 && m[2].slot == -1 && m[2].page_count == 0 && helper_prefix_kept(c, b, UNIT));
	seqmem_release(&m[1]);
	prefix_publish(c, a, 400, &m[0]);
	/* Another snapshot gives way. */
	assert_int_equal(prefix_adopt(c, b, 400, &m[2], &length, &e), NH_OK);
	assert_int_equal(length, UNIT);
	assert_true(helper_prefix_kept(c, b, UNIT) && !helper_prefix_kept(c, a, UNIT));
	host_check(&h, &m[2], b);
	/* A sequence that is too short for what is kept. */
	seqmem tiny;
	host_seqmem(&h, &tiny, 64);
	seqmem_release(&m[0]);
	assert_int_equal(prefix_adopt(c, b, 400, &tiny, &length, &e), NH_OK);
	assert_int_equal(length, 0);
	seqmem_deinit(&tiny);
	for (int i = 0; i < 3; i++) seqmem_deinit(&m[i]);
	prefix_close(c);
	host_close(&h);
	assert_int_equal(mem_live(), 0);
}

static void failures_leave_all_as_it_was(void **state)
{
	(void)state;
	static int32_t ids[400];
	int64_t length;
	nh_error e;
	host h;
	seqmem m, n;
	int opened = 0, published = 0, copies = 0;
	host_prompt(ids, 400, 0, 0, 1);
	host_open(&h, NUM_BF16, 4, 30);
	host_seqmem(&h, &m, 400);
	host_seqmem(&h, &n, 400);
	prefix_options o = {.states = &h.s, .pages = &h.p, .x = &h.wrapper, .chunk = UNIT, .slot_limit = 4};
	prefix_cache *c;
	for (;; opened++) {
		size_t live = mem_live();
		mem_fail_after((size_t)opened);
		nh_status r = prefix_open(&c, &o, &e);
		mem_fail_after(SIZE_MAX);
		if (r == NH_OK) break;
		assert_int_equal(r, NH_ERR_NOMEM);
		assert_null(c);
		assert_int_equal(mem_live(), live);
	}
	assert_int_equal(opened, 6);
	host_compute(&h, &m, ids, UNIT);
	for (;; published++) {
		mem_fail_after((size_t)published);
		prefix_publish(c, ids, 400, &m);
		mem_fail_after(SIZE_MAX);
		if (helper_prefix_stats(c).snapshots) break;
		assert_int_equal(h.s.pool.free_count, 3);
		assert_int_equal(h.p.pool.holds[m.page[0]], 1);
	}
	assert_int_equal(published, 2);
	prefix_evict(c, 3, 0);
	for (;; copies++) { /* the upload of the pair, then each layer's two copies */
		h.fail_copies = copies;
		prefix_publish(c, ids, 400, &m);
		h.fail_copies = -1;
		assert_int_equal(h.x.status, NH_OK);
		assert_int_equal(h.wrapper.status, NH_OK);
		if (helper_prefix_stats(c).snapshots) break;
		assert_int_equal(h.s.pool.free_count, 3);
	}
	assert_int_equal(copies, 6);
	for (copies = 0;; copies++) {
		h.fail_copies = copies;
		nh_status r = prefix_adopt(c, ids, 400, &n, &length, &e);
		h.fail_copies = -1;
		assert_int_equal(h.wrapper.status, NH_OK);
		if (r == NH_OK) break;
		assert_int_equal(r, NH_ERR_BACKEND);
		assert_string_equal(e.text, "toy: state_copy: planted");
		assert_true(length == 0 && n.slot == -1 && n.page_count == 0 && n.length == 0);
		assert_int_equal(h.p.pool.holds[m.page[0]], 2);
	}
	assert_int_equal(copies, 6);
	host_check(&h, &n, ids);
	seqmem_release(&n);
	h.fail_after = 0;
	assert_int_equal(prefix_adopt(c, ids, 400, &n, &length, &e), NH_ERR_BACKEND);
	assert_true(n.slot == -1 && length == 0);
	h.fail_after = -1;
	/* An exec that had failed before: nothing is copied, and its error stays. */
	exec_fail(&h.wrapper, OP_COUNT, NH_ERR_NUMERIC, "before");
	assert_int_equal(prefix_adopt(c, ids, 400, &n, &length, &e), NH_ERR_NUMERIC);
	prefix_evict(c, 3, 0);
	prefix_publish(c, ids, 400, &m);
	assert_int_equal(helper_prefix_stats(c).snapshots, 0);
	assert_int_equal(h.wrapper.status, NH_ERR_NUMERIC);
	exec_clear(&h.wrapper);
	prefix_close(c);
	seqmem_deinit(&m);
	seqmem_deinit(&n);
	host_close(&h);
	assert_int_equal(mem_live(), 0);
}

/* Requests of a few families, several at a time, too many for the pools; some answers go on, some are dropped. */
static void soak(uint64_t steps, spill *sp)
{
	enum { RUNNING = 5, LONGEST = 1000 };
	static int32_t ids[RUNNING][LONGEST + 100];
	int64_t n[RUNNING];
	host h;
	seqmem m[RUNNING];
	uint64_t partial = 0, checks = 0;
	host_open(&h, NUM_E4M3, 12, 110);
	prefix_cache *c = helper_prefix_open(&h, UNIT, 9, sp);
	for (int i = 0; i < RUNNING; i++) host_seqmem(&h, &m[i], LONGEST + 100);
	for (uint64_t step = 0; step < steps; step++) {
		const int i = (int)(rng_u64(1, step, 0) % RUNNING);
		seqmem_release(&m[i]);
		host_poison(&h);
		n[i] = 1 + (int64_t)(rng_u64(1, step, 1) % LONGEST);
		if (rng_u64(1, step, 2) % 4 == 0) n[i] = (n[i] / UNIT + 1) * UNIT + (int64_t)(rng_u64(1, step, 3) % 3) - 1;
		int64_t common = (int64_t)(rng_u64(1, step, 4) % (uint64_t)n[i]);
		host_prompt(ids[i], LONGEST + 100, common, rng_u64(1, step, 5) % 6, rng_u64(1, step, 6) % 3 ? step : 7);
		int64_t reused = helper_prefix_request(&h, c, &m[i], ids[i], n[i]);
		partial += reused > 0 && reused < (n[i] - 1) / UNIT * UNIT;
		if (rng_u64(1, step, 7) % 2 && h.p.pool.free_count > 2) host_compute(&h, &m[i], ids[i], n[i] + 60);
		helper_prefix_links(&c->table);
		for (int k = 0; k < RUNNING; k++, checks++) host_check(&h, &m[k], ids[k]);
	}
	prefix_stats s = helper_prefix_stats(c);
	print_message("%d requests: %d hits, %d of them partial, %d misses, %d snapshots published, %d evicted, %d tokens reused\n", (int)steps,
	    (int)s.hits, (int)partial, (int)s.misses, (int)s.published, (int)s.evictions, (int)s.reused_tokens);
	assert_true(s.hits > 50 && s.misses > 50 && s.evictions > 100 && partial > 20 && checks == steps * RUNNING);
	assert_int_equal(s.published - s.evictions, s.snapshots);
	for (int i = 0; i < RUNNING; i++) seqmem_deinit(&m[i]);
	assert_int_equal(helper_prefix_stats(c).bytes > 0, 1);
	assert_true(prefix_evict(c, 12, 110));
	assert_true(host_idle(&h));
	assert_int_equal(helper_prefix_stats(c).snapshots, 0);
	prefix_close(c);
	host_close(&h);
}

static void many_requests(void **state)
{
	(void)state;
	soak(1500, NULL);
	assert_int_equal(mem_live(), 0);
}

/* Written at once, and by a thread beside. */
static void many_requests_with_a_spill(void **state)
{
	char folder[256];
	spill *sp;
	spill_stats s;
	(void)state;
	for (int beside = 0; beside < 2; beside++) {
		jobs *writer = NULL;
		if (beside) assert_int_equal(jobs_create(&writer, 1, NULL), NH_OK);
		host_folder(folder, "prefix");
		assert_int_equal(spill_open(&sp, folder, 2000000, "soak", NULL, writer, NULL), NH_OK);
		soak(200, sp);
		if (beside) jobs_drain(writer);
		spill_adopt(sp);
		spill_get_stats(sp, &s);
		print_message(
		    "%d files stored, %d dropped, %d loaded, %d rejected\n", (int)s.stored, (int)s.dropped, (int)s.loaded, (int)s.rejected);
		/* How many a thread beside gets written is the disk's matter. */
		assert_true(s.stored > (beside ? 0 : 50) && s.stored + s.dropped > 50);
		assert_true(s.loaded > 20 && s.rejected == 0 && s.failed_writes == 0 && s.bytes <= 2000000);
		spill_close(sp);
		jobs_destroy(writer);
		host_folder_remove(folder);
	}
	assert_int_equal(mem_live(), 0);
}

/* Evicted, found in the folder by another cache, and better than what that cache kept. */
static void what_was_evicted_comes_back(void **state)
{
	(void)state;
	static int32_t ids[700];
	char folder[256];
	spill *sp;
	spill_stats s;
	int64_t length;
	host h;
	seqmem m;
	host_prompt(ids, 700, 0, 0, 4);
	host_folder(folder, "evicted");
	host_open(&h, NUM_BF16, 6, 30);
	host_seqmem(&h, &m, 700);
	assert_int_equal(spill_open(&sp, folder, 1 << 20, "one", NULL, NULL, NULL), NH_OK);
	prefix_cache *c = helper_prefix_open(&h, UNIT, 6, sp);
	helper_prefix_request(&h, c, &m, ids, 700); /* 1, 2, 4 and 5 units */
	seqmem_release(&m);
	assert_true(prefix_evict(c, 6, 0));
	prefix_close(c);
	spill_get_stats(sp, &s);
	assert_int_equal(s.stored, 4);
	spill_close(sp);
	host_poison(&h);

	assert_int_equal(spill_open(&sp, folder, 1 << 20, "one", NULL, NULL, NULL), NH_OK);
	c = helper_prefix_open(&h, UNIT, 6, sp);
	helper_prefix_put(&h, c, &m, ids, 2 * UNIT);
	assert_int_equal(prefix_adopt(c, ids, 700, &m, &length, NULL), NH_OK);
	assert_int_equal(length, 5 * UNIT);
	host_check(&h, &m, ids);
	assert_true(helper_prefix_kept(c, ids, 5 * UNIT)); /* kept again */
	host_compute(&h, &m, ids, 700);
	host_check(&h, &m, ids);
	seqmem_release(&m);
	assert_int_equal(prefix_adopt(c, ids, 700, &m, &length, NULL), NH_OK);
	spill_get_stats(sp, &s);
	assert_int_equal(s.loaded, 1);
	/* No pages for the spilled one: what is kept serves. */
	seqmem_release(&m);
	prefix_evict(c, 6, 30);
	helper_prefix_put(&h, c, &m, ids, 2 * UNIT);
	int32_t taken = 0;
	while (h.p.pool.free_count > 3) pool_take(&h.p.pool), taken++;
	assert_int_equal(prefix_adopt(c, ids, 700, &m, &length, NULL), NH_OK);
	assert_int_equal(length, 2 * UNIT);
	host_check(&h, &m, ids);
	seqmem_release(&m);
	prefix_close(c);
	for (int32_t i = 0; i < h.p.pool.count; i++)
		if (h.p.pool.holds[i]) pool_drop(&h.p.pool, i), taken--;
	assert_int_equal(taken, 0);
	spill_close(sp);
	seqmem_deinit(&m);
	host_close(&h);
	host_folder_remove(folder);
	assert_int_equal(mem_live(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_unit_is_a_common_multiple),
	    cmocka_unit_test(off_it_does_nothing),
	    cmocka_unit_test(wanted_places),
	    cmocka_unit_test(the_same_again),
	    cmocka_unit_test(a_prompt_that_turns_off),
	    cmocka_unit_test(branch_points),
	    cmocka_unit_test(slots_belong_to_sequences_first),
	    cmocka_unit_test(failures_leave_all_as_it_was),
	    cmocka_unit_test(many_requests),
	    cmocka_unit_test(many_requests_with_a_spill),
	    cmocka_unit_test(what_was_evicted_comes_back),
	};
	return cmocka_run_group_tests_name("prefix", tests, NULL, NULL);
}
