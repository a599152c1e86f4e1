/* SPDX-License-Identifier: Apache-2.0
 * test_tok_table.c: the tables of pieces and merges: pieces that differ in one byte, in length only, in rawness only, across growth; pairs given twice,
 * pairs of bytes, and pairs that are absent.
 */
#include "test.h"

#include <string.h>

#include "base/base_buf.h"
#include "base/base_mem.h"
#include "base/base_rng.h"
#include "text/tok_table.h"

#define PIECES 20000

typedef struct known {
	uint32_t at, len;
	bool raw;
} known;

static void pieces(void **state)
{
	(void)state;
	static known all[PIECES];
	tok_pieces x = {0};
	buf blob = {0};
	uint32_t other, twins = 0;
	assert_int_equal(tok_pieces_get(&x, "", "", 0, false), TOK_NONE);
	for (uint32_t id = 0; id < PIECES; id++) {
		uint64_t r = rng_u64(5, id, 0);
		known k = {(uint32_t)blob.len, (uint32_t)(r % 20), r >> 8 & 1};
		/* few different bytes, zeros among them, so that pieces are each other's beginnings */
		for (uint32_t i = 0; i < k.len; i++) buf_char(&blob, (char)(rng_u64(6, id, i) % 3 * 127));
		uint32_t before = tok_pieces_get(&x, blob.data ? blob.data : "", blob.data ? blob.data + k.at : "", k.len, k.raw);
		assert_true(tok_pieces_add(&x, blob.data ? blob.data : "", k.at, k.len, k.raw, id, &other));
		assert_int_equal(other, before);
		uint32_t slow = TOK_NONE;
		for (uint32_t i = 0; id < 2000 && i < id && slow == TOK_NONE; i++)
			if (all[i].len == k.len && all[i].raw == k.raw && memcmp(blob.data + all[i].at, blob.data + k.at, k.len) == 0) slow = i;
		if (id < 2000) assert_int_equal(other, slow);
		twins += other != TOK_NONE;
		all[id] = k;
	}
	assert_int_equal(x.count, PIECES - twins);
	assert_true(twins > 1000 && x.count > 5000);
	for (uint32_t id = 0; id < PIECES; id++) {
		uint32_t found = tok_pieces_get(&x, blob.data, blob.data + all[id].at, all[id].len, all[id].raw);
		assert_true(found <= id && all[found].len == all[id].len && all[found].raw == all[id].raw);
		assert_memory_equal(blob.data + all[found].at, blob.data + all[id].at, all[id].len);
	}
	assert_int_equal(tok_pieces_get(&x, blob.data, "absent piece", 12, false), TOK_NONE);
	assert_int_equal(tok_pieces_get(&x, blob.data, "absent", 6, false), TOK_NONE);
	tok_pieces_deinit(&x);
	buf_deinit(&blob);
	assert_int_equal(mem_live(), 0);
}

static void merges(void **state)
{
	(void)state;
	tok_merges x;
	assert_true(tok_merges_init(&x, 10)); /* so that it grows */
	for (uint32_t i = 0; i < 5000; i++) assert_true(tok_merges_add(&x, (tok_merge){i % 100, i / 100 + 7, i}, -1, -1));
	for (uint32_t i = 0; i < 5000; i++) assert_int_equal(tok_merges_rank(&x, i % 100, i / 100 + 7), i);
	assert_int_equal(tok_merges_rank(&x, 7, 6), TOK_NONE);
	assert_int_equal(tok_merges_rank(&x, 100, 7), TOK_NONE);
	assert_int_equal(tok_merges_rank(&x, 7, 57), TOK_NONE);
	assert_true(tok_merges_add(&x, (tok_merge){3, 8, 77}, -1, -1)); /* again */
	assert_int_equal(tok_merges_rank(&x, 3, 8), 5000);
	assert_int_equal(x.list[5000].id, 77);
	assert_int_equal(tok_merges_byte_rank(&x, 'a', 0xFF), TOK_NONE);
	assert_true(tok_merges_add(&x, (tok_merge){900, 901, 78}, 'a', 0xFF));
	assert_true(tok_merges_add(&x, (tok_merge){902, 903, 79}, 'a', -1));
	assert_int_equal(tok_merges_byte_rank(&x, 'a', 0xFF), 5001);
	assert_int_equal(tok_merges_byte_rank(&x, 0xFF, 'a'), TOK_NONE);
	assert_true(tok_merges_add(&x, (tok_merge){900, 901, 80}, 'a', 0xFF));
	assert_int_equal(tok_merges_byte_rank(&x, 'a', 0xFF), tok_merges_rank(&x, 900, 901));
	tok_merges_deinit(&x);
	for (size_t n = 0; n < 3; n++) { /* each allocation fails in turn */
		mem_fail_after(n);
		bool ok = tok_merges_init(&x, 10) && tok_merges_add(&x, (tok_merge){0}, -1, -1);
		mem_fail_after(SIZE_MAX);
		assert_false(ok);
		tok_merges_deinit(&x);
	}
	assert_int_equal(mem_live(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(pieces), cmocka_unit_test(merges)};
	return cmocka_run_group_tests_name("tok_table", tests, NULL, NULL);
}
