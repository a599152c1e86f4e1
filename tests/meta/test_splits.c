/* SPDX-License-Identifier: Apache-2.0
 * test_splits.c: the grid law (architecture 6.1): a prompt computed in pieces that end at scan edges gives the same bits as in one piece, in every
 * row's logits and in the state that it leaves, on every arm and tier; from a fresh start and continuing after decoded tokens at a position that is no edge. Counters show that
 * the cuts took place.
 */
#include "test.h"

#include <string.h>

#include "base/base_mem.h"
#include "base/base_rng.h"
#include "common/model_bench.h"

#define TOKENS 300
#define AFTER 5 /* decode steps after the prompt: they see the state that the pieces left */

typedef struct {
	int chunk;
	mk_format format;
	const char *profile;
} shape;

typedef struct {
	long cuts, rows, splits, chunks;
} counters;

static int32_t id_at(uint64_t seed, int i, int vocab) { return (int32_t)(rng_u64(seed, (uint64_t)i, 7) % (uint64_t)vocab); }

/* Random ends at edges: absolute multiples of the chunk after `origin`, some left out. Returns the number of pieces. */
static int cut(uint64_t seed, int origin, int count, int chunk, int *ends)
{
	int n = 0;
	for (int edge = (origin / chunk + 1) * chunk; edge < origin + count; edge += chunk)
		if (seed == 0 || rng_u64(seed, (uint64_t)edge, 1) % 3 != 0) ends[n++] = edge - origin;
	ends[n++] = count;
	return n;
}

/* The run under test: `first` fresh tokens, two decoded ones, then a continued segment; pieces chosen by seed (SIZE_MAX: uncut). */
static void run(model_bench *b, const int32_t *ids, int first, int second, uint64_t seed, double *logits, counters *c)
{
	int V = b->m->shape.vocab, chunk = b->m->shape.chunk, ends[TOKENS], n, at = 0;
	bench_clear(b);
	exec_reset_counters(b->arm);
	n = seed == UINT64_MAX ? (ends[0] = first, 1) : cut(seed, 0, first, chunk, ends);
	bench_prefill(b, 1, 2, 0, ids, first, ends, n, logits);
	c->cuts += n - 1;
	at = first;
	for (int i = 0; i < 2; i++, at++) {
		const bench_row row = {.seq = 1, .slot_in = 2, .slot_out = 2, .pos = at, .id = ids[at]};
		bench_step(b, &row, 1, NULL, 0, logits + (size_t)at * (size_t)V);
	}
	n = seed == UINT64_MAX ? (ends[0] = second, 1) : cut(seed + 1, at, second, chunk, ends);
	bench_prefill(b, 1, 2, at, ids + at, second, ends, n, logits + (size_t)at * (size_t)V);
	c->cuts += n - 1;
	at += second;
	for (int i = 0; i < AFTER; i++, at++) {
		const bench_row row = {.seq = 1, .slot_in = 2, .slot_out = 2, .pos = at, .id = ids[at]};
		bench_step(b, &row, 1, NULL, 0, logits + (size_t)at * (size_t)V);
	}
	c->chunks += (long)b->arm->counters.scan_chunks;
}

static void law(const shape *s, const test_arm *on, int threads)
{
	const char *profile = test_arm_profile(on, s->profile, "portable");
	char name[64], chunk[32];
	const char *config[] = {
	    "hidden_size=64", "vocab_size=320", "mamba_num_heads=4", "mamba_head_dim=16", "n_groups=2", "ssm_state_size=16", chunk};
	snprintf(chunk, sizeof chunk, "chunk_size=%d", s->chunk);
	snprintf(name, sizeof name, "splits-%d-%d", s->chunk, (int)s->format);
	const mk_options o = {.format = s->format, .seed = 11, .pattern = "ME*M-", .config = config, .config_count = ARRAY_LEN(config)};
	model_bench b;
	bench_open_on(&b, on, threads, bench_checkpoint(name, &o), profile, 3, 40, 32, true);
	int V = b.m->shape.vocab, first = 150 - 7, second = TOKENS - 150 - AFTER + 4;
	size_t room = (size_t)TOKENS * (size_t)V;
	int32_t ids[TOKENS];
	double *whole = mem_array(room, sizeof *whole), *pieces = mem_array(room, sizeof *pieces);
	for (int i = 0; i < TOKENS; i++) ids[i] = id_at(99, i, V);
	int total = first + 2 + second + AFTER;
	counters uncut = {0}, c = {0};
	run(&b, ids, first, second, UINT64_MAX, whole, &uncut);
	assert_int_equal(uncut.cuts, 0);
	for (uint64_t seed = 0; seed < 4; seed++) {
		memset(pieces, 0, room * sizeof *pieces);
		run(&b, ids, first, second, seed, pieces, &c);
		for (int r = 0; r < total; r++)
			if (memcmp(whole + (size_t)r * (size_t)V, pieces + (size_t)r * (size_t)V, (size_t)V * sizeof *whole) != 0)
				fail_msg(
				    "%s: chunk %d, %s, cut %d: row %d of %d differs from the uncut run", on->name, s->chunk, profile, (int)seed, r, total);
		c.rows += total;
		c.splits++;
		assert_int_equal(c.chunks, uncut.chunks * c.splits); /* the same chunks, in more pieces */
	}
	printf("LAW any split = no split: %s: chunk %d, %s, %s: %ld runs, %ld cuts, %ld rows equal bit for bit, %ld chunks\n", on->name,
	    s->chunk, profile, name, c.splits, c.cuts, c.rows, c.chunks);
	assert_true(c.cuts >= 2 && c.rows > 1000); /* 300 tokens have two edges of 128 */
	mem_free(whole);
	mem_free(pieces);
	bench_close(&b);
}

static void any_split_is_no_split(void **state)
{
	static const shape SHAPES[] = {
	    {4, MK_BF16, "portable"},
	    {8, MK_MIXED, "portable"},
	    {16, MK_NVFP4, "hopper"},
	    {128, MK_BF16, "portable"},
	    {128, MK_FP8, "hopper"},
	    {8, MK_BF16, "exact"},
	    {4, MK_MIXED, "hopper"},
	    {16, MK_W4A16, "portable"},
	};
	(void)state;
	test_arm arms[TEST_ARMS];
	int count = test_arms(arms);
	for (int a = 0; a < count; a++)
		for (size_t i = 0; i < ARRAY_LEN(SHAPES); i++) law(&SHAPES[i], &arms[a], 1 + (int)i % 3);
}

/* The law is about edges: a cut elsewhere changes bits, and the check wrapper refuses it. */
static void a_cut_elsewhere_is_refused(void **state)
{
	(void)state;
	const char *config[] = {"hidden_size=64", "vocab_size=320", "chunk_size=8"};
	const mk_options o = {.format = MK_BF16, .seed = 11, .pattern = "M-", .config = config, .config_count = ARRAY_LEN(config)};
	model_bench b;
	bench_open(&b, bench_checkpoint("splits-refused", &o), "portable", 2, 8, 16, true);
	int V = b.m->shape.vocab;
	int32_t ids[12];
	double *logits = mem_array(12 * (size_t)V, sizeof *logits);
	for (int i = 0; i < 12; i++) ids[i] = id_at(5, i, V);
	const int ends[1] = {5};
	bench_prefill(&b, 0, 0, 0, ids, 5, ends, 1, logits);
	/* continue the same segment at 5, which is neither a multiple of 8 nor its origin */
	int32_t row[2] = {0, 1}, pos[1] = {5}, origin[1] = {0}, slot[1] = {0};
	const nm_block *l = &((const nm_model *)b.m)->layers[0];
	const nm_mamba *m = &l->mamba;
	int64_t inner = m->heads * m->head_dim, bc = m->groups * m->state;
	tensor x = exec_scratch(b.x, b.x->types.act, 1, inner), y = exec_scratch(b.x, b.x->types.act, 1, inner),
	       B = exec_scratch(b.x, b.x->types.act, 1, bc);
	tensor dt = exec_scratch(b.x, b.x->types.act, 1, m->heads);
	memset(x.data, 0, x.room), memset(B.data, 0, B.room), memset(dt.data, 0, dt.room);
	tensor seg_row = tensor_1d(row, NUM_I32, 2), seg_pos = tensor_1d(pos, NUM_I32, 1), seg_origin = tensor_1d(origin, NUM_I32, 1),
	       slots = tensor_1d(slot, NUM_I32, 1);
	OP(b.x, ssm_scan, .y = &y, .x = &x, .b = &B, .c = &B, .dt = &dt, .a = &m->a, .d = &m->d, .dt_bias = &m->dt_bias,
	    .state = &b.mamba[0].ssm, .seg_row = &seg_row, .seg_pos = &seg_pos, .seg_origin = &seg_origin, .seg_in = &slots, .seg_out = &slots,
	    .groups = (int)m->groups, .chunk = 8);
	nh_error e = {0};
	assert_int_not_equal(exec_status(b.x, &e), NH_OK);
	printf("refused: %s\n", e.text);
	mem_free(logits);
	bench_close(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(any_split_is_no_split), cmocka_unit_test(a_cut_elsewhere_is_refused)};
	return cmocka_run_group_tests_name("splits", tests, NULL, NULL);
}
