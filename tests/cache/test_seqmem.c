/* SPDX-License-Identifier: Apache-2.0
 * test_seqmem.c: pages, slots and the sequences that hold them, on host memory. Sharing is by hand: one sequence's page given to another
 * stays until both let go.
 */
#include "test.h"

#include <string.h>

#include "base/base_mem.h"
#include "cache/seqmem.h"

static size_t asked;
static void *alloc(exec *x, size_t bytes) { return (void)x, asked += bytes, mem_alloc(bytes); }
static void give_back(exec *x, void *p) { (void)x, mem_free(p); }
static const backend ARM = {.name = "toy", .host_memory = true, .alloc = alloc, .free = give_back};

static const pages_layer KV[] = {{2, 16, 0.5f, 0.25f}, {2, 16, 4, 8}};
static const states_layer MAMBA[] = {{4, 24, 3, 8, 16}, {4, 32, 4, 8, 16}};

static void pools_have_the_shapes_of_their_layers(void **state)
{
	(void)state;
	exec x = {.types = {.act = NUM_BF16, .wide = NUM_F32, .conv_state = NUM_BF16, .ssm_state = NUM_F32, .kv = NUM_BF16}};
	pages p;
	states s;
	nh_error e = {0};
	asked = 0;
	assert_int_equal(pages_open(&p, &ARM, &x, KV, 2, NUM_E4M3, 10, &e), NH_OK);
	assert_int_equal(p.layer[1].k.rank, 4);
	const int64_t shape[4] = {10, PAGES_TOKENS, 2, 16};
	for (int i = 0; i < 2; i++) {
		assert_memory_equal(p.layer[i].k.shape, shape, sizeof shape);
		assert_memory_equal(p.layer[i].v.shape, shape, sizeof shape);
		assert_true(tensor_fits(&p.layer[i].v));
		assert_true(p.layer[i].k_scale == KV[i].k_scale && p.layer[i].v_scale == KV[i].v_scale);
	}
	assert_int_equal(pages_bytes(&p), 2 * 2 * 10 * 64 * 32);
	assert_int_equal(asked, pages_bytes(&p));
	pages_close(&p);
	pages_close(&p);
	assert_int_equal(pages_open(&p, &ARM, &x, KV, 2, NUM_BF16, 10, &e), NH_OK);
	assert_true(p.layer[0].k_scale == 1 && p.layer[1].v_scale == 1); /* scales belong to codes */
	pages_close(&p);
	assert_int_equal(states_open(&s, &ARM, &x, MAMBA, 2, 3, &e), NH_OK);
	assert_int_equal(s.layer[0].conv.dtype, NUM_BF16);
	assert_int_equal(s.layer[0].conv.shape[1], 3);
	assert_int_equal(s.layer[1].ssm.shape[1], 4);
	assert_int_equal(states_bytes(&s), 3 * (3 * 24 * 2 + 3 * 8 * 16 * 4 + 3 * 32 * 2 + 4 * 8 * 16 * 4));
	states_close(&s);
	states_close(&s);
	/* Every allocation may fail. */
	int failed = 0;
	for (;; failed++) {
		mem_fail_after((size_t)failed);
		nh_status a = pages_open(&p, &ARM, &x, KV, 2, NUM_E4M3, 10, &e), b = a == NH_OK ? states_open(&s, &ARM, &x, MAMBA, 2, 3, &e) : a;
		mem_fail_after(SIZE_MAX);
		if (a == NH_OK) pages_close(&p);
		if (b == NH_OK) states_close(&s);
		assert_int_equal(mem_live(), 0);
		if (b == NH_OK) break;
		assert_int_equal(b, NH_ERR_NOMEM);
	}
	assert_int_equal(failed, 14);
	/* A model without attention still counts pages. */
	assert_int_equal(pages_open(&p, &ARM, &x, NULL, 0, NUM_BF16, 4, &e), NH_OK);
	assert_int_equal(pages_bytes(&p), 0);
	assert_int_equal(p.pool.count, 4);
	pages_close(&p);
	assert_int_equal(mem_live(), 0);
}

static void sequences_grow_by_pages(void **state)
{
	(void)state;
	exec x = {.types = {.conv_state = NUM_BF16, .ssm_state = NUM_F32, .kv = NUM_BF16}};
	pages p;
	states s;
	seqmem a, b;
	nh_error e = {0};
	assert_int_equal(pages_open(&p, &ARM, &x, KV, 2, NUM_BF16, 5, &e), NH_OK);
	assert_int_equal(states_open(&s, &ARM, &x, MAMBA, 2, 2, &e), NH_OK);
	assert_int_equal(seqmem_init(&a, &s, &p, 256, &e), NH_OK);
	assert_int_equal(seqmem_init(&b, &s, &p, 300, &e), NH_OK);
	assert_int_equal(seqmem_begin(&a, &e), NH_OK);
	assert_int_equal(seqmem_begin(&b, &e), NH_OK);
	assert_int_not_equal(a.slot, b.slot);
	assert_int_equal(seqmem_slot_in(&a), -1);
	a.length = 1;
	assert_int_equal(seqmem_slot_in(&a), a.slot);

	static const struct {
		int64_t tokens, pages;
	} GROW[] = {{1, 1}, {64, 1}, {65, 2}, {65, 2}, {10, 2}, {192, 3}};
	for (size_t i = 0; i < ARRAY_LEN(GROW); i++) {
		assert_int_equal(seqmem_reserve(&a, GROW[i].tokens, &e), NH_OK);
		assert_int_equal(a.page_count, GROW[i].pages);
	}
	assert_int_equal(seqmem_reserve(&b, 128, &e), NH_OK);
	assert_int_equal(p.pool.free_count, 0);
	int positions = 0;
	for (int64_t pos = 0; pos < 192; pos++, positions++) {
		assert_int_equal(seqmem_kv_slot(&a, pos) % PAGES_TOKENS, pos % 64);
		assert_int_equal(seqmem_kv_slot(&a, pos) / PAGES_TOKENS, a.page[pos / 64]);
		if (pos < 128) assert_int_not_equal(seqmem_kv_slot(&a, pos), seqmem_kv_slot(&b, pos));
	}
	assert_int_equal(positions, 192);

	assert_int_equal(seqmem_reserve(&b, 129, &e), NH_ERR_LIMIT);
	assert_string_equal(e.text, "KV pages: 1 more are needed, 0 of 5 are free");
	assert_int_equal(b.page_count, 2); /* nothing was taken */
	assert_int_equal(seqmem_reserve(&a, 257, &e), NH_ERR_LIMIT);
	assert_string_equal(e.text, "context: 257 tokens, at most 256");

	/* A page that both refer to outlives the first. */
	int32_t shared = a.page[0];
	pool_share(&p.pool, shared);
	seqmem_release(&a);
	seqmem_release(&a);
	assert_int_equal(p.pool.free_count, 2);
	assert_int_equal(a.length, 0);
	pool_drop(&p.pool, shared);
	assert_int_equal(p.pool.free_count, 3);
	assert_int_equal(seqmem_reserve(&b, 300, &e), NH_OK);
	assert_int_equal(b.page_count, 5);

	assert_int_equal(seqmem_begin(&a, &e), NH_OK);
	seqmem c;
	assert_int_equal(seqmem_init(&c, &s, &p, 64, &e), NH_OK);
	assert_int_equal(seqmem_begin(&c, &e), NH_ERR_LIMIT);
	assert_string_equal(e.text, "state slots: all 2 are in use");
	seqmem_deinit(&a);
	seqmem_deinit(&b);
	seqmem_deinit(&c);
	seqmem_deinit(&c);
	assert_int_equal(p.pool.free_count, 5);
	assert_int_equal(s.pool.free_count, 2);
	pages_close(&p);
	states_close(&s);
	assert_int_equal(mem_live(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(pools_have_the_shapes_of_their_layers),
	    cmocka_unit_test(sequences_grow_by_pages),
	};
	return cmocka_run_group_tests_name("seqmem", tests, NULL, NULL);
}
