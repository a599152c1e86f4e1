/* SPDX-License-Identifier: Apache-2.0
 * test_swap.c: a sequence that went to host memory and came back is the one that never left: to the last byte, whatever lies elsewhere, and
 * however often something fails on the way.
 */
#include "test.h"

#include <string.h>

#include "base/base_mem.h"
#include "cache/swap.h"
#include "helper_host.h"

enum { MOST = 320 };
static const int64_t LENGTHS[] = {0, 1, 63, 64, 65, 127, 128, 129, 200, 256};
static const num_dtype KV_TYPES[] = {NUM_BF16, NUM_E4M3, NUM_F32};

static void there_and_back_is_the_same(void **state)
{
	(void)state;
	int32_t ids[MOST];
	int trips = 0;
	host_prompt(ids, MOST, 0, 0, 5);
	for (size_t k = 0; k < ARRAY_LEN(KV_TYPES); k++) {
		host h;
		seqmem m, others[2];
		host_open(&h, KV_TYPES[k], 3, 12);
		host_seqmem(&h, &m, MOST);
		for (int i = 0; i < 2; i++) host_seqmem(&h, &others[i], MOST);
		for (size_t i = 0; i < ARRAY_LEN(LENGTHS); i++, trips++) {
			const int64_t n = LENGTHS[i];
			swapped *s;
			host_compute(&h, &m, ids, n);
			const int32_t slot = m.slot;
			assert_int_equal(seqmem_reserve(&m, n + 10, NULL), NH_OK); /* pages beyond the length are not part of it */
			assert_int_equal(swap_out(&s, &m, NULL), NH_OK);
			assert_true(host_idle(&h));
			assert_true(m.slot == -1 && m.length == 0 && m.page_count == 0 && m.page_limit == 5);
			assert_int_equal(swap_length(s), n);
			assert_int_equal(swap_pages(s), pages_needed(n));
			assert_int_equal(swap_bytes(s), swap_content_bytes(&h.s, &h.p, n));
			/* Others sit where it was, and everything else is NaN. */
			host_compute(&h, &others[0], ids + 7, 100);
			host_compute(&h, &others[1], ids + 9, 10);
			host_poison(&h);
			assert_int_equal(swap_in(s, &m, NULL), NH_OK);
			assert_int_not_equal(m.slot, slot);
			assert_int_equal(m.length, n);
			assert_int_equal(m.page_count, pages_needed(n));
			host_check(&h, &m, ids);
			host_check(&h, &others[0], ids + 7);
			host_check(&h, &others[1], ids + 9);
			host_compute(&h, &m, ids, n + 40);
			host_check(&h, &m, ids);
			swap_free(s);
			seqmem_release(&m);
			for (int o = 0; o < 2; o++) seqmem_release(&others[o]);
		}
		assert_true(h.checked_bytes > 100000);
		assert_int_equal(h.x.counters.gathers, ARRAY_LEN(LENGTHS) - 1); /* nothing moves at length 0 */
		assert_int_equal(h.x.counters.scatters, ARRAY_LEN(LENGTHS) - 1);
		seqmem_deinit(&m);
		for (int o = 0; o < 2; o++) seqmem_deinit(&others[o]);
		host_close(&h);
	}
	assert_int_equal(trips, 30);
	assert_int_equal(mem_live(), 0);
}

/* The order that files rely on, spelled out. */
static void contents_have_the_order_of_the_header(void **state)
{
	(void)state;
	int32_t ids[MOST];
	host h;
	seqmem m;
	swapped *s, *again;
	enum { N = 70 };
	host_prompt(ids, MOST, 0, 0, 6);
	host_open(&h, NUM_BF16, 2, 8);
	host_seqmem(&h, &m, MOST);
	assert_int_equal(seqmem_begin(&m, NULL), NH_OK);
	assert_int_equal(seqmem_reserve(&m, 10, NULL), NH_OK);
	pool_take(&h.p.pool); /* so that pages are not neighbours */
	host_compute(&h, &m, ids, N);
	assert_int_equal(m.page[1], 2);
	assert_int_equal(swap_copy(&s, &m, NULL), NH_OK);
	host_check(&h, &m, ids);
	const unsigned char *at = swap_content(s);
	for (int i = 0; i < h.s.layers; i++) {
		const tensor *t[2] = {&h.s.layer[i].conv, &h.s.layer[i].ssm};
		for (int k = 0; k < 2; k++) {
			size_t bytes = tensor_bytes(t[k]) / 2;
			assert_memory_equal(at, (const char *)t[k]->data + (size_t)m.slot * bytes, bytes);
			at += bytes;
		}
	}
	for (int i = 0; i < h.p.layers; i++) {
		const tensor *t[2] = {&h.p.layer[i].k, &h.p.layer[i].v};
		for (int k = 0; k < 2; k++)
			for (int64_t pos = 0; pos < N; pos++) {
				size_t row = tensor_bytes(t[k]) / 8 / PAGES_TOKENS;
				assert_memory_equal(at, (const char *)t[k]->data + (size_t)seqmem_kv_slot(&m, pos) * row, row);
				at += row;
			}
	}
	assert_int_equal(at - (const unsigned char *)swap_content(s), swap_bytes(s));

	assert_int_equal(swap_from_content(&again, &h.s, &h.p, N, swap_content(s), swap_bytes(s), NULL), NH_OK);
	seqmem_release(&m);
	host_poison(&h);
	assert_int_equal(swap_in(again, &m, NULL), NH_OK);
	host_check(&h, &m, ids);
	swap_free(again);
	nh_error e;
	assert_int_equal(swap_from_content(&again, &h.s, &h.p, N + 1, swap_content(s), swap_bytes(s), &e), NH_ERR_FORMAT);
	assert_null(again);
	assert_non_null(strstr(e.text, "state of 71 tokens: "));
	assert_int_equal(swap_from_content(&again, &h.s, &h.p, N, swap_content(s), swap_bytes(s) - 1, &e), NH_ERR_FORMAT);
	assert_int_equal(swap_from_content(&again, &h.s, &h.p, INT64_MAX, swap_content(s), swap_bytes(s), &e), NH_ERR_FORMAT);
	assert_int_equal(swap_blank(&again, &h.s, &h.p, INT64_MAX, &e), NH_ERR_LIMIT);
	assert_int_equal(swap_blank(&again, &h.s, &h.p, -1, &e), NH_ERR_LIMIT);
	swap_free(s);
	swap_free(NULL);
	pool_drop(&h.p.pool, 1);
	seqmem_deinit(&m);
	host_close(&h);
	assert_int_equal(mem_live(), 0);
}

static void no_room_changes_nothing(void **state)
{
	(void)state;
	int32_t ids[MOST];
	host h;
	seqmem m, other, small;
	swapped *s;
	nh_error e;
	host_prompt(ids, MOST, 0, 0, 7);
	host_open(&h, NUM_BF16, 2, 5);
	host_seqmem(&h, &m, MOST);
	host_seqmem(&h, &other, MOST);
	host_seqmem(&h, &small, 128);
	host_compute(&h, &m, ids, 150);
	assert_int_equal(swap_out(&s, &m, NULL), NH_OK);
	host_compute(&h, &other, ids + 1, 130); /* 3 of 5 pages */
	int32_t stack[5];
	memcpy(stack, h.p.pool.stack, sizeof stack);
	assert_int_equal(swap_in(s, &m, &e), NH_ERR_LIMIT);
	assert_non_null(strstr(e.text, "KV pages"));
	assert_true(m.slot == -1 && m.page_count == 0 && m.length == 0);
	assert_true(h.s.pool.free_count == 1 && h.p.pool.free_count == 2);
	assert_memory_equal(stack, h.p.pool.stack, 2 * sizeof *stack);
	pool_take(&h.s.pool);
	assert_int_equal(swap_in(s, &m, &e), NH_ERR_LIMIT);
	assert_non_null(strstr(e.text, "state slots"));
	assert_int_equal(h.p.pool.free_count, 2);
	pool_drop(&h.s.pool, 1);
	assert_int_equal(swap_in(s, &small, &e), NH_ERR_LIMIT);
	assert_non_null(strstr(e.text, "context"));
	assert_int_equal(h.s.pool.free_count, 1);
	host_check(&h, &other, ids + 1);
	seqmem_release(&other);
	assert_int_equal(swap_in(s, &m, &e), NH_OK); /* the copy is still good */
	host_check(&h, &m, ids);
	swap_free(s);
	seqmem_deinit(&m);
	seqmem_deinit(&other);
	seqmem_deinit(&small);
	host_close(&h);
	assert_int_equal(mem_live(), 0);
}

/* Every allocation and every transfer fails once. */
static void failures_leave_all_as_it_was(void **state)
{
	(void)state;
	int32_t ids[MOST];
	host h;
	seqmem m;
	swapped *s;
	nh_error e;
	int outs = 0, ins = 0, memory = 0;
	host_prompt(ids, MOST, 0, 0, 8);
	host_open(&h, NUM_E4M3, 2, 6);
	host_seqmem(&h, &m, MOST);
	host_compute(&h, &m, ids, 140);
	for (;; memory++) {
		mem_fail_after((size_t)memory);
		nh_status r = swap_copy(&s, &m, &e);
		mem_fail_after(SIZE_MAX);
		if (r == NH_OK) break;
		assert_int_equal(r, NH_ERR_NOMEM);
		assert_null(s);
	}
	swap_free(s);
	assert_int_equal(memory, 1);
	for (;; outs++) {
		h.fail_after = outs;
		nh_status r = swap_out(&s, &m, &e);
		h.fail_after = -1;
		if (r == NH_OK) break;
		assert_int_equal(r, NH_ERR_BACKEND);
		assert_null(s);
		assert_true(m.length == 140 && m.page_count == 3 && m.slot >= 0);
		host_check(&h, &m, ids);
	}
	for (;; ins++) {
		host_poison(&h);
		h.fail_after = ins;
		nh_status r = swap_in(s, &m, &e);
		h.fail_after = -1;
		if (r == NH_OK) break;
		assert_int_equal(r, NH_ERR_BACKEND);
		assert_true(host_idle(&h) && m.length == 0 && m.slot == -1);
	}
	host_check(&h, &m, ids);
	assert_int_equal(outs, 3 * 2 + 2 * 2 * 3); /* a piece a tensor and page */
	assert_int_equal(ins, outs);
	swap_free(s);
	seqmem_deinit(&m);
	host_close(&h);
	assert_int_equal(mem_live(), 0);
}

static void shared_pages_come_back_private(void **state)
{
	(void)state;
	int32_t ids[MOST];
	host h;
	seqmem m, other;
	swapped *s;
	host_prompt(ids, MOST, 0, 0, 9);
	host_open(&h, NUM_BF16, 2, 8);
	host_seqmem(&h, &m, MOST);
	host_seqmem(&h, &other, MOST);
	host_compute(&h, &m, ids, 128);
	assert_int_equal(seqmem_begin(&other, NULL), NH_OK);
	for (int i = 0; i < 2; i++) {
		other.page[other.page_count++] = m.page[i];
		pool_share(&h.p.pool, m.page[i]);
	}
	assert_int_equal(swap_out(&s, &m, NULL), NH_OK);
	assert_int_equal(h.p.pool.free_count, 6);
	assert_int_equal(swap_in(s, &m, NULL), NH_OK);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(h.p.pool.holds[m.page[i]], 1);
		assert_int_equal(h.p.pool.holds[other.page[i]], 1);
		assert_int_not_equal(m.page[i], other.page[i]);
	}
	host_check(&h, &m, ids);
	swap_free(s);
	seqmem_deinit(&m);
	seqmem_deinit(&other);
	host_close(&h);
	assert_int_equal(mem_live(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(there_and_back_is_the_same),
	    cmocka_unit_test(contents_have_the_order_of_the_header),
	    cmocka_unit_test(no_room_changes_nothing),
	    cmocka_unit_test(failures_leave_all_as_it_was),
	    cmocka_unit_test(shared_pages_come_back_private),
	};
	return cmocka_run_group_tests_name("swap", tests, NULL, NULL);
}
