/* SPDX-License-Identifier: Apache-2.0
 * test_published.c: the shapes of the published checkpoints (30B: width 2688, 64 heads of 64 with 128 states in 8 groups, 32 query and 2 key heads of 128,
 * 128 experts, 131072 ids) on every tier against ref, in the same bands as the small corpora of test_conformance.c, which have the mutants. What only shows
 * here: long sums, blocks along K, many heads and experts, ids beyond 16 bits. ref runs once for all tiers.
 */
#include "conf.h"

#include "common/arms.h"

enum { D = 2688 };

/* Codes from a drawn table: drawing each of them would take longer than the products. */
static weight big_weight(conf *c, num_scheme scheme, int64_t n, int64_t k)
{
	enum { TABLE = 1 << 13 };
	weight w = conf_weight(c, scheme, 16, TABLE / 16);
	const size_t bytes = num_bytes(w.dtype == NUM_E2M1X2 ? NUM_U8 : w.dtype) * (size_t)(w.dtype == NUM_E2M1X2 ? n * k / 2 : n * k);
	const size_t table = w.dtype == NUM_BF16 ? 2 * TABLE : w.dtype == NUM_E4M3 ? TABLE : TABLE / 2;
	uint8_t *p = arena_alloc(&c->mem, bytes);
	assert_non_null(p);
	for (size_t at = 0, piece = 0; at < bytes; at += 64, piece++) /* lines of 64 bytes in an order without a short period */
		memcpy(p + at, (const uint8_t *)w.data + rng_mix(piece + c->seed) % (table / 64) * 64, bytes - at < 64 ? bytes - at : 64);
	if (w.block_scale) {
		uint8_t *s = arena_alloc(&c->mem, (size_t)(n * k / 16));
		for (int64_t i = 0; i < n * k / 16; i++) s[i] = ((const uint8_t *)w.block_scale)[rng_mix((uint64_t)i + c->seed) % (TABLE / 16)];
		w.block_scale = s;
	}
	w.data = p, w.n = n, w.k = k;
	return w;
}

/* A part of a case's name; each is one comparison. */
static const struct {
	int64_t n, k;
	int T;
} LINEAR[] = {{10304, 2688, 3}, {2688, 4096, 3}, {1856, 2688, 10}, {2688, 1856, 3}, {3712, 2688, 3}};
#define LINEARS 5

static void linear(conf *c)
{
	const num_scheme scheme = (num_scheme)(c->variant % NUM_SCHEME_COUNT);
	const int64_t n = LINEAR[c->variant / NUM_SCHEME_COUNT].n, k = LINEAR[c->variant / NUM_SCHEME_COUNT].k;
	const int T = LINEAR[c->variant / NUM_SCHEME_COUNT].T;
	tensor x = conf_random(c, c->x->types.act, T, k, 0, 1), y = conf_host(c, c->x->types.act, 2, T, n, 1, 1);
	weight w = big_weight(c, scheme, n, k);
	conf_import(c, &w);
	x = conf_put(c, &x), y = conf_put(c, &y);
	OP(c->x, linear, .y = &y, .x = &x, .w = &w, .decode_rows = 2);
	conf_out(c, &y);
}

/* A router's logits, and what is chosen of them. */
static void route(conf *c)
{
	enum { T = 40, E = 128, K = 6 };
	const num_dtype wide = c->x->types.wide;
	tensor x = conf_random(c, c->x->types.act, T, D, 0, 1), logits = conf_host(c, wide, 2, T, E, 1, 1),
	       bias = conf_random(c, NUM_F32, E, 0, 0, 0.1);
	tensor idx = conf_host(c, NUM_I32, 2, T, K, 1, 1), v = conf_host(c, wide, 2, T, K, 1, 1);
	weight w = conf_weight(c, NUM_SCHEME_NONE, E, D);
	for (int64_t i = 0; i < E * D; i++)
		num_store(NUM_BF16, (void *)(uintptr_t)w.data, (size_t)i, 0.05 * num_load(NUM_BF16, w.data, (size_t)i));
	conf_import(c, &w);
	x = conf_put(c, &x), logits = conf_put(c, &logits), bias = conf_put(c, &bias), idx = conf_put(c, &idx), v = conf_put(c, &v);
	OP(c->x, linear, .y = &logits, .x = &x, .w = &w, .decode_rows = 3);
	OP(c->x, route, .idx = &idx, .w = &v, .logits = &logits, .bias = &bias, .n_group = 1, .topk_group = 1, .norm = true);
	conf_out(c, &idx);
	conf_out(c, &v);
}

static void expert_ffn(conf *c)
{
	enum { E = 4, T = 7, K = 2, F = 1856 };
	const num_scheme scheme = (num_scheme)c->variant;
	weight up[E], down[E];
	weight_experts all = {.E = E, .up = up, .down = down};
	for (int e = 0; e < E; e++) {
		up[e] = big_weight(c, scheme, F, D), down[e] = big_weight(c, scheme, D, F);
		if (scheme == NUM_SCHEME_FP8 || scheme == NUM_SCHEME_NVFP4)
			down[e].input_scale *= 300, all.up_input = fmaxf(all.up_input, up[e].input_scale);
		all.down_input = fmaxf(all.down_input, down[e].input_scale);
	}
	for (int e = 0; e < E; e++) conf_import(c, &up[e]), conf_import(c, &down[e]);
	const bool wide = c->x->num->rounding != NUM_ROUND_EAGER;
	tensor x = conf_random(c, c->x->types.act, T, D, 0, 1), idx = conf_host(c, NUM_I32, 2, T, K, 1, 1),
	       w = conf_random(c, c->x->types.wide, T, K, 0.4, 0.2);
	tensor rows = conf_host(c, wide ? c->x->types.wide : c->x->types.act, 3, T, K, D, 1);
	for (int i = 0; i < T * K; i++) conf_set(&idx, i, (i / K * 3 + i % K) % E);
	x = conf_put(c, &x), idx = conf_put(c, &idx), w = conf_put(c, &w), rows = conf_put(c, &rows);
	OP(c->x, expert_ffn, .rows = &rows, .x = &x, .idx = &idx, .w = &w, .experts = &all, .decode_rows = 2);
	conf_out(c, &rows);
}

static void norms(conf *c)
{
	tensor x = conf_random(c, c->x->types.act, 3, D, 0, 1), r = conf_random(c, c->x->types.act, 3, D, 0, 4),
	       w = conf_random(c, NUM_BF16, D, 0, 1, 0.5), y = conf_host(c, c->x->types.act, 2, 3, D, 1, 1);
	x = conf_put(c, &x), r = conf_put(c, &r), w = conf_put(c, &w), y = conf_put(c, &y);
	OP(c->x, add_rms_norm, .y = &y, .residual = &r, .x = &x, .w = &w, .eps = 1e-5f);
	conf_out(c, &y);
	conf_out(c, &r);
}

static void gated_norm(conf *c)
{
	enum { I = 4096 };
	tensor x = conf_random(c, c->x->types.act, 3, I, 0, 1), g = conf_random(c, c->x->types.act, 3, I, 0, 3),
	       w = conf_random(c, NUM_BF16, I, 0, 1, 0.5), y = conf_host(c, c->x->types.act, 2, 3, I, 1, 1);
	x = conf_put(c, &x), g = conf_put(c, &g), w = conf_put(c, &w), y = conf_put(c, &y);
	OP(c->x, gated_norm, .y = &y, .x = &x, .gate = &g, .w = &w, .groups = 8, .eps = 1e-5f);
	conf_out(c, &y);
}

/* One slot, from zeros and on. */
static void ssm(conf *c, bool scan)
{
	enum { H = 64, P = 64, N = 128, G = 8, CHUNK = 128 };
	const int T = scan ? CHUNK + 6 : 2;
	const num_dtype act = c->x->types.act;
	tensor x = conf_random(c, act, T, H * P, 0, 1), b = conf_random(c, act, T, G * N, 0, 1), cc = conf_random(c, act, T, G * N, 0, 1);
	tensor dt = conf_random(c, act, T, H, 0, 2), a = conf_random(c, c->x->types.wide, H, 0, -1, 0.8),
	       d = conf_random(c, NUM_F32, H, 0, 1, 0.5);
	tensor bias = conf_random(c, NUM_BF16, H, 0, -2, 1), y = conf_host(c, act, 2, T, H * P, 1, 1),
	       state = conf_host(c, c->x->types.ssm_state, 4, 2, H, P, N);
	tensor row = CONF_INTS(c, 0, T), pos = CONF_INTS(c, 0), in = CONF_INTS(c, -1), out = CONF_INTS(c, 1), step_in = CONF_INTS(c, -1, 1),
	       step_out = CONF_INTS(c, 1, 0);
	tensor *all[] = {&x, &b, &cc, &dt, &a, &d, &bias, &y, &state, &row, &pos, &in, &out, &step_in, &step_out};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) *all[i] = conf_put(c, all[i]);
	if (scan)
		OP(c->x, ssm_scan, .y = &y, .x = &x, .b = &b, .c = &cc, .dt = &dt, .a = &a, .d = &d, .dt_bias = &bias, .state = &state,
		    .seg_row = &row, .seg_pos = &pos, .seg_origin = &pos, .seg_in = &in, .seg_out = &out, .groups = G, .chunk = CHUNK);
	else
		OP(c->x, ssm_step, .y = &y, .x = &x, .b = &b, .c = &cc, .dt = &dt, .a = &a, .d = &d, .dt_bias = &bias, .state = &state,
		    .slot_in = &step_in, .slot_out = &step_out, .groups = G);
	conf_out(c, &y);
	conf_out(c, &state);
}

static void ssm_step(conf *c) { ssm(c, false); }
static void ssm_scan(conf *c) { ssm(c, true); }

static void conv_scan(conf *c)
{
	enum { C = 6144, T = 9 };
	tensor x = conf_random(c, c->x->types.act, T, C, 0, 1), w = conf_random(c, NUM_BF16, C, 4, 0, 1),
	       bias = conf_random(c, NUM_BF16, C, 0, 0, 1), y = conf_host(c, c->x->types.act, 2, T, C, 1, 1),
	       state = conf_host(c, c->x->types.conv_state, 3, 2, 3, C, 1);
	tensor row = CONF_INTS(c, 0, T), in = CONF_INTS(c, -1), out = CONF_INTS(c, 1);
	tensor *all[] = {&x, &w, &bias, &y, &state, &row, &in, &out};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) *all[i] = conf_put(c, all[i]);
	OP(c->x, conv_scan, .y = &y, .x = &x, .state = &state, .w = &w, .bias = &bias, .seg_row = &row, .seg_in = &in, .seg_out = &out);
	conf_out(c, &y);
	conf_out(c, &state);
}

/* 300 keys: more than a page, and more than one part of a long context. */
static void attend(conf *c, bool decode)
{
	enum { KV = 2, HQ = 32, HD = 128, KEYS = 300, PAGE = 64, PAGES = 5 };
	const int T = decode ? 3 : 12;
	const num_dtype act = c->x->types.act;
	tensor k = conf_random(c, act, KEYS, KV * HD, 0, 1), v = conf_random(c, act, KEYS, KV * HD, 0, 1),
	       q = conf_random(c, act, T, HQ * HD, 0, 2), y = conf_host(c, act, 2, T, HQ * HD, 1, 1);
	tensor slot = conf_host(c, NUM_I64, 1, KEYS, 1, 1, 1),
	       pool = conf_host(c, c->variant ? NUM_E4M3 : c->x->types.kv, 4, PAGES, PAGE, KV, HD);
	tensor pos = conf_host(c, NUM_I32, 1, T, 1, 1, 1), seq = conf_host(c, NUM_I32, 1, T, 1, 1, 1),
	       table = conf_host(c, NUM_I32, 2, 1, PAGES, 1, 1);
	for (int i = 0; i < KEYS; i++) ((int64_t *)slot.data)[i] = (i / PAGE * 3 % PAGES) * PAGE + i % PAGE;
	for (int i = 0; i < PAGES; i++) conf_set(&table, i, i * 3 % PAGES);
	for (int i = 0; i < T; i++) conf_set(&pos, i, i == 0 ? 3 : KEYS - T + i);
	kv_pages pages = {conf_put(c, &pool), conf_put(c, &pool), c->variant ? 0.01171875f : 1, c->variant ? 0.0078125f : 1};
	tensor *all[] = {&k, &v, &q, &y, &slot, &pos, &seq, &table};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) *all[i] = conf_put(c, all[i]);
	OP(c->x, kv_write, .pages = &pages, .k = &k, .v = &v, .kv_slot = &slot);
	const double scale = 1 / sqrt((double)HD);
	if (decode)
		OP(c->x, attn_decode, .y = &y, .q = &q, .pages = &pages, .pos = &pos, .row_seq = &seq, .page_table = &table, .page_tokens = PAGE,
		    .kv_heads = KV, .head_dim = HD, .scale = scale);
	else
		OP(c->x, attn_prefill, .y = &y, .q = &q, .pages = &pages, .pos = &pos, .row_seq = &seq, .page_table = &table, .page_tokens = PAGE,
		    .kv_heads = KV, .head_dim = HD, .scale = scale);
	conf_out(c, &y);
}

static void attn_decode(conf *c) { attend(c, true); }
static void attn_prefill(conf *c) { attend(c, false); }

enum { R = 4, V = 131072 };

/* Logits that all arms hold alike, so that drawn ids must be equal. */
static tensor logits_of(conf *c)
{
	tensor l = conf_host(c, c->x->types.wide, 2, R, V, 1, 1);
	for (int i = 0; i < R * V; i++) conf_set(&l, i, num_round_bf16(6 * conf_rand(c)));
	return l;
}

static void sample_rows(conf *c)
{
	tensor l = logits_of(c), ids = conf_host(c, NUM_I32, 1, R, 1, 1, 1);
	const op_sample_row rows[R] = {{.top_p = 1}, {.temperature = 1, .top_p = 1, .seed = 5, .position = 1},
	    {.temperature = 0.7, .top_p = 0.9, .seed = 6, .position = 2},
	    {.temperature = 1.1, .top_p = 1, .min_p = 0.01, .top_k = 5000, .seed = 7, .position = 3}};
	l = conf_put(c, &l), ids = conf_put(c, &ids);
	OP(c->x, sample_rows, .ids = &ids, .logits = &l, .rows = conf_put_bytes(c, rows, sizeof rows));
	conf_out(c, &ids);
}

static void logprobs(conf *c)
{
	enum { M = 3, BEST = 20 };
	tensor l = logits_of(c), ids = conf_host(c, NUM_I32, 2, R, M, 1, 1), lp = conf_host(c, NUM_F64, 2, R, M, 1, 1),
	       rank = conf_host(c, NUM_I32, 2, R, M, 1, 1), top = conf_host(c, NUM_I32, 2, R, BEST, 1, 1),
	       top_lp = conf_host(c, NUM_F64, 2, R, BEST, 1, 1);
	for (int i = 0; i < R * M; i++) conf_set(&ids, i, (double)conf_below(c, V));
	tensor *all[] = {&l, &ids, &lp, &rank, &top, &top_lp};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) *all[i] = conf_put(c, all[i]);
	OP(c->x, logprobs, .logits = &l, .ids = &ids, .lp = &lp, .rank = &rank, .top_ids = &top, .top_lp = &top_lp);
	conf_out(c, &lp);
	conf_out(c, &rank);
	conf_out(c, &top);
	conf_out(c, &top_lp);
}

static const conf_case CASES[] = {{OP_linear, linear, LINEARS *NUM_SCHEME_COUNT}, {OP_route, route, 1},
    {OP_expert_ffn, expert_ffn, NUM_SCHEME_COUNT}, {OP_add_rms_norm, norms, 1}, {OP_gated_norm, gated_norm, 1}, {OP_ssm_step, ssm_step, 1},
    {OP_ssm_scan, ssm_scan, 1}, {OP_conv_scan, conv_scan, 1}, {OP_attn_decode, attn_decode, 2}, {OP_attn_prefill, attn_prefill, 2},
    {OP_sample_rows, sample_rows, 1}, {OP_logprobs, logprobs, 1}, {OP_COUNT, NULL, 0}};

static test_arm arms[TEST_ARMS];
static int arm_count;

static void one(const conf_case *k, const char *profile, double noise[OP_COUNT][CONF_KINDS], uint64_t *elements)
{
	const int kind = conf_kind(profile);
	for (int v = 0; v < k->variants; v++) {
		conf want, got;
		conf_run(&want, k, arms[0].be, NULL, profile, v, NULL);
		for (int a = 1; a < arm_count; a++) {
			conf_run(&got, k, arms[a].be, arms[a].isa, profile, v, NULL);
			double e = conf_compare(&got, &want, elements);
			assert_int_equal(got.x->counters.op[k->op].reference_calls, 0);
			conf_done(&got);
			noise[k->op][kind] = e > noise[k->op][kind] ? e : noise[k->op][kind];
			if (!(e <= conf_band(k->op, kind)))
				fail_msg(
				    "%s: %s %s variant %d: %g above the band of %g", arms[a].name, profile, op_name(k->op), v, e, conf_band(k->op, kind));
		}
		conf_done(&want);
	}
}

static void published_shapes(void **state)
{
	(void)state;
	static double noise[OP_COUNT][CONF_KINDS];
	static const char *const PROFILES[] = {"exact", "portable"};
	uint64_t elements = 0;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	NOT_RUN("the published shapes take minutes under a sanitizer; test_conformance walks the same code");
#endif
	for (size_t p = 0; p < sizeof PROFILES / sizeof *PROFILES; p++)
		for (const conf_case *k = CASES; k->run; k++) one(k, PROFILES[p], noise, &elements);
	for (const conf_case *k = CASES; k->run; k++)
		print_message("%-13s noise exact %-8.2g eager %-8.2g\n", op_name(k->op), noise[k->op][CONF_PLAIN], noise[k->op][CONF_EAGER]);
	print_message("%d tiers, %llu elements\n", arm_count - 1, (unsigned long long)elements);
	assert_true(elements > 1000000);
}

static int find_arms(void **state)
{
	(void)state;
	arm_count = test_arms(arms);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(published_shapes)};
	return cmocka_run_group_tests_name("published", tests, find_arms, NULL);
}
