/* SPDX-License-Identifier: Apache-2.0
 * test_pool.c: numbers with reference counts against a plain model of them, and views that the allocation does not hold.
 */
#include "test.h"

#include <string.h>

#include "base/base_mem.h"
#include "cache/pool.h"

static void *alloc(exec *x, size_t bytes) { return (void)x, mem_alloc(bytes); }
static void *alloc_nothing(exec *x, size_t bytes) { return (void)x, (void)bytes, NULL; }
static void give_back(exec *x, void *p) { (void)x, mem_free(p); }
static const backend ARM = {.name = "toy", .host_memory = true, .alloc = alloc, .free = give_back};
static const backend EMPTY = {.name = "toy", .host_memory = true, .alloc = alloc_nothing, .free = give_back};

static void counts_like_a_plain_model(void **state)
{
	(void)state;
	enum { N = 37 };
	pool p;
	assert_int_equal(pool_init(&p, N, "things", NULL), NH_OK);
	int holds[N] = {0}, taken = 0, steps = 0;
	unsigned seed = 1;
	for (; steps < 20000; steps++) {
		seed = seed * 1103515245u + 12345u;
		int32_t i = (int32_t)(seed >> 8) % N;
		switch (seed >> 29) {
		case 0:
		case 1:
		case 2: {
			int32_t got = pool_take(&p);
			assert_int_equal(got < 0, taken == N);
			if (got < 0) break;
			assert_int_equal(holds[got], 0);
			holds[got] = 1;
			taken++;
			break;
		}
		case 3:
			if (holds[i] == 0) break;
			pool_share(&p, i);
			holds[i]++;
			break;
		default:
			if (holds[i] == 0) break;
			pool_drop(&p, i);
			if (--holds[i] == 0) taken--;
		}
		assert_int_equal(p.free_count, N - taken);
	}
	assert_int_equal(steps, 20000);
	pool_deinit(&p);
	assert_int_equal(mem_live(), 0);
}

static void lowest_first_and_last_back_first(void **state)
{
	(void)state;
	pool p;
	assert_int_equal(pool_init(&p, 3, "things", NULL), NH_OK);
	for (int i = 0; i < 3; i++) assert_int_equal(pool_take(&p), i);
	assert_int_equal(pool_take(&p), -1);
	pool_drop(&p, 1);
	assert_int_equal(pool_take(&p), 1);
	pool_deinit(&p);
	nh_error e = {0};
	assert_int_equal(pool_init(&p, 0, "things", &e), NH_ERR_LIMIT);
	assert_string_equal(e.text, "things: 0 of them, expected 1 to 2^31 - 2");
	assert_int_equal(pool_init(&p, (int64_t)1 << 40, "things", &e), NH_ERR_LIMIT);
	for (size_t i = 0; i < 2; i++) {
		mem_fail_after(i);
		assert_int_equal(pool_init(&p, 3, "things", &e), NH_ERR_NOMEM);
	}
	mem_fail_after(SIZE_MAX);
	assert_int_equal(mem_live(), 0);
}

static void a_view_past_its_allocation_is_refused(void **state)
{
	(void)state;
	tensor t;
	nh_error e = {0};
	char memory[64];
	const int64_t shape[2] = {4, 4}, huge[2] = {INT64_MAX, 8};
	assert_int_equal(pool_view(&t, memory, sizeof memory, 0, NUM_F32, 2, shape, "view", &e), NH_OK);
	assert_int_equal(t.room, 64);
	assert_true(tensor_fits(&t));
	assert_int_equal(pool_view(&t, memory, sizeof memory, 32, NUM_BF16, 2, shape, "view", &e), NH_OK);
	assert_int_equal(t.room, 32);
	assert_ptr_equal(t.data, memory + 32);
	assert_int_equal(pool_view(&t, memory, sizeof memory, 1, NUM_F32, 2, shape, "view", &e), NH_ERR_INTERNAL);
	assert_string_equal(e.text, "view: a view of 64 bytes at 1, the allocation holds 64");
	assert_null(t.data);
	assert_int_equal(pool_view(&t, memory, sizeof memory, 0, NUM_F64, 2, shape, "view", &e), NH_ERR_INTERNAL);
	assert_int_equal(pool_view(&t, memory, sizeof memory, 0, NUM_F32, 2, huge, "view", &e), NH_ERR_LIMIT);
	assert_int_equal(pool_view(&t, memory, sizeof memory, SIZE_MAX, NUM_F32, 2, shape, "view", &e), NH_ERR_LIMIT);

	assert_int_equal(pool_tensor(&t, &ARM, NULL, NUM_F32, 2, shape, "tensor", &e), NH_OK);
	pool_tensor_free(&t, &ARM, NULL);
	pool_tensor_free(&t, &ARM, NULL);
	assert_int_equal(pool_tensor(&t, &EMPTY, NULL, NUM_F32, 2, shape, "tensor", &e), NH_ERR_NOMEM);
	assert_string_equal(e.text, "tensor: toy has no 64 bytes for it");
	assert_int_equal(pool_tensor(&t, &ARM, NULL, NUM_F32, 2, huge, "tensor", &e), NH_ERR_LIMIT);
	assert_int_equal(mem_live(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(counts_like_a_plain_model),
	    cmocka_unit_test(lowest_first_and_last_back_first),
	    cmocka_unit_test(a_view_past_its_allocation_is_refused),
	};
	return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
