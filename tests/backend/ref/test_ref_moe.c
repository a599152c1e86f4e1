/* SPDX-License-Identifier: Apache-2.0
 * test_ref_moe.c: routing, experts and their sum against formulas of one (token, k) pair at a time.
 */
#include "kit.h"

#include "tensor/weight.h"

static double f32(double v) { return (double)(float)v; }

/* Selection by counting: e is chosen at place k if exactly k allowed experts come before it. */
static void routes(void **state)
{
	(void)state;
	static const struct {
		int E, K, groups, keep;
	} CASES[] = {{4, 1, 1, 1}, {16, 4, 1, 1}, {24, 6, 4, 2}, {8, 8, 1, 1}, {12, 3, 12, 5}};
	int checked = 0, ties = 0;
	for (int p = 0; p < KIT_PROFILE_COUNT; p++)
		for (size_t c = 0; c < sizeof CASES / sizeof *CASES; c++)
			for (int norm = 0; norm < 2; norm++) {
				kit k = kit_open(KIT_PROFILES[p], 41);
				const int E = CASES[c].E, K = CASES[c].K, groups = CASES[c].groups, size = E / groups, T = 30;
				const num_dtype wide = k.x->types.wide;
				tensor logits = kit_random(&k, wide, T, E, 4), bias = kit_vector(&k, NUM_F32, E, 0, 0.3), idx = kit_2d(&k, NUM_I32, T, K),
				       w = kit_2d(&k, wide, T, K);
				for (int i = 0; i < T * E; i++) /* every other row holds equals */
					if (i / E % 2) kit_set(&logits, i, floor(kit_get(&logits, i)));
				if (groups == 1)
					for (int e = 1; e < E; e += 2) kit_set(&bias, e, kit_get(&bias, e - 1));
				OP(k.x, route, .idx = &idx, .w = &w, .logits = &logits, .bias = &bias, .n_group = groups, .topk_group = CASES[c].keep,
				    .norm = norm);
				KIT_OK(&k);
				for (int t = 0; t < T; t++) {
					double s[24], choice[24], best[24], sum = 0;
					for (int e = 0; e < E; e++) {
						double l = kit_at(&logits, t, e), b = kit_get(&bias, e);
						s[e] = kit_eager(&k) ? f32(0.5 * f32(tanh(0.5 * l)) + 0.5) : 1 / (1 + exp(-l));
						choice[e] = kit_eager(&k) ? f32(s[e] + b) : s[e] + b;
						if (kit_eager(&k)) s[e] = f32(choice[e] - b);
					}
					for (int g = 0; g < groups; g++) {
						best[g] = -INFINITY;
						for (int i = 0; i < size; i++)
							for (int j = 0; j < size; j++) {
								double two = choice[g * size + i] + (i == j ? 0 : choice[g * size + j]);
								if ((size == 1 || i != j) && two > best[g]) best[g] = two;
							}
					}
					for (int g = 0; g < groups; g++) {
						int before = 0;
						for (int o = 0; o < groups; o++) before += best[o] > best[g] || (best[o] == best[g] && o < g);
						for (int i = 0; before >= CASES[c].keep && i < size; i++) choice[g * size + i] = -INFINITY;
					}
					for (int e = 0; e < E; e++) {
						int before = 0;
						for (int o = 0; o < E; o++) {
							before += choice[o] > choice[e] || (choice[o] == choice[e] && o < e);
							ties += o != e && choice[o] == choice[e] && isfinite(choice[o]);
						}
						if (before < K) {
							assert_int_equal(((int32_t *)idx.data)[t * K + before], e);
							sum += s[e];
						}
					}
					for (int i = 0; i < K; i++) {
						double want = s[((int32_t *)idx.data)[t * K + i]];
						if (norm) want = kit_eager(&k) ? f32(want * f32(1 / f32(f32(sum) + 1e-20))) : want / (sum + 1e-20);
						assert_true(fabs(kit_at(&w, t, i) - want) <= 1e-14);
						checked++;
					}
				}
				OP(k.x, route, .idx = &idx, .w = &w, .logits = &logits, .bias = &bias, .n_group = 5, .topk_group = 1, .norm = norm);
				KIT_FAILED(&k, "groups");
				kit_close(&k);
			}
	print_message("%d choices, %d equal pairs seen\n", checked, ties);
	assert_true(checked > 4000 && ties > 100);
}

typedef struct experts {
	weight_experts all;
	weight up[6], down[6];
	tensor x, idx, w, rows;
} experts;

static void experts_make(kit *k, experts *m, num_scheme scheme, int T, int K, int W, int F)
{
	const bool wide = !kit_eager(k);
	m->all = (weight_experts){.E = 6, .up = m->up, .down = m->down};
	for (int e = 0; e < 6; e++) {
		m->up[e] = kit_weight(k, scheme, F, W), m->down[e] = kit_weight(k, scheme, W, F);
		m->down[e].input_scale *= 4;
		if (m->up[e].input_scale > m->all.up_input) m->all.up_input = m->up[e].input_scale;
		if (m->down[e].input_scale > m->all.down_input) m->all.down_input = m->down[e].input_scale;
	}
	m->x = kit_random(k, k->x->types.act, T, W, 1.5);
	m->w = kit_random(k, k->x->types.wide, T, K, 0.5);
	m->idx = kit_2d(k, NUM_I32, T, K);
	m->rows = kit_zeros(k, wide ? k->x->types.wide : k->x->types.act, 3, T, K, W, 1);
	for (int t = 0; t < T; t++) /* distinct experts; expert 5 is never chosen */
		for (int i = 0; i < K; i++) ((int32_t *)m->idx.data)[t * K + i] = (int32_t)((t * t + i) % 5);
}

/* One matrix by the op of its own: linear without rounding of its output, from activations given as doubles. */
static void product(const kit *k, const weight *w, const double *x, float input, double *sums, bool *scaled)
{
	double row[96], in[96];
	memcpy(in, x, (size_t)w->k * sizeof *x);
	const bool native = w->scheme == NUM_SCHEME_NVFP4 && k->x->num->w4a4 == NUM_W4A4_NATIVE;
	*scaled = w->scheme == NUM_SCHEME_FP8 || native;
	for (int64_t i = 0; w->scheme == NUM_SCHEME_FP8 && i < w->k; i++) {
		double v = in[i] * (double)(1.0f / input);
		in[i] = num_round_e4m3(kit_eager(k) ? f32(v) : v);
	}
	for (int64_t b = 0; native && b < w->k; b += 16) {
		double amax = 0;
		for (int j = 0; j < 16; j++) amax = fmax(amax, fabs(in[b + j]));
		double s = num_round_e4m3(amax / 6 / (double)input);
		for (int j = 0; j < 16; j++) in[b + j] = s > 0 ? num_round_e2m1(in[b + j] / (s * (double)input)) * s : 0;
	}
	for (int64_t o = 0; o < w->n; o++) {
		weight_decode_row(w, o, row);
		sums[o] = 0;
		for (int64_t i = 0; i < w->k; i++) sums[o] += in[i] * row[i];
	}
}

static void experts_by_formula(void **state)
{
	(void)state;
	int checked = 0;
	for (int p = 0; p < 3; p++) /* hopper's sums: see the next test */
		for (int scheme = 0; scheme < NUM_SCHEME_COUNT; scheme++) {
			kit k = kit_open(KIT_PROFILES[p], 42);
			experts m;
			const int T = 7, K = 3, W = 48, F = 80;
			experts_make(&k, &m, (num_scheme)scheme, T, K, W, F);
			OP(k.x, expert_ffn, .rows = &m.rows, .x = &m.x, .idx = &m.idx, .w = &m.w, .experts = &m.all);
			KIT_OK(&k);
			assert_int_equal(k.x->counters.expert_rows, T * K);
			assert_int_equal(k.x->counters.experts_read, 5);
			for (int t = 0; t < T; t++)
				for (int i = 0; i < K; i++) {
					const int e = ((int32_t *)m.idx.data)[t * K + i];
					const double r = kit_at(&m.w, t, i), us = (double)m.up[e].scale, ds = (double)m.down[e].scale;
					double x[48], h[80], y[48];
					bool both;
					for (int j = 0; j < W; j++) x[j] = kit_at(&m.x, t, j);
					product(&k, &m.up[e], x, m.all.up_input, h, &both);
					for (int j = 0; j < F; j++) {
						if (!kit_eager(&k)) h[j] *= both ? us * (double)m.all.up_input : us;
						else h[j] = num_round_bf16(both ? f32(f32(f32(h[j]) * (double)m.all.up_input) * us) : f32(f32(h[j]) * us));
						h[j] = h[j] > 0 ? h[j] * h[j] : 0;
						if (kit_eager(&k)) h[j] = num_round_bf16(h[j]);
					}
					product(&k, &m.down[e], h, m.all.down_input, y, &both);
					for (int j = 0; j < W; j++) {
						double want = y[j];
						if (!kit_eager(&k)) want *= (both ? ds * (double)m.all.down_input : ds) * r;
						else if (both) want = num_round_bf16(f32(f32(f32(f32(want) * (double)m.all.down_input) * ds) * r));
						else if (scheme == NUM_SCHEME_NONE) want = num_round_bf16(f32(f32(want) * r));
						else want = num_round_bf16(num_round_bf16(f32(want)) * num_round_bf16(f32(r * ds)));
						double got = kit_get(&m.rows, ((int64_t)t * K + i) * W + j);
						if (!(fabs(got - want) <= 1e-12 * (fabs(want) + 1e-2)))
							fail_msg("%s %s t %d k %d: %.17g, want %.17g", KIT_PROFILES[p], num_scheme_name((num_scheme)scheme), t, i, got,
							    want);
						checked++;
					}
				}
			((int32_t *)m.idx.data)[4] = 6;
			OP(k.x, expert_ffn, .rows = &m.rows, .x = &m.x, .idx = &m.idx, .w = &m.w, .experts = &m.all);
			KIT_FAILED(&k, "idx[1, 1] = 6");
			ref_backend.release(k.x, &m.up[2]);
			((int32_t *)m.idx.data)[4] = 2;
			OP(k.x, expert_ffn, .rows = &m.rows, .x = &m.x, .idx = &m.idx, .w = &m.w, .experts = &m.all);
			KIT_FAILED(&k, "not imported");
			kit_close(&k);
		}
	assert_int_equal(checked, 3 * NUM_SCHEME_COUNT * 7 * 3 * 48);
}

/* A pair's row does not depend on the batch; and with weight 1 an expert is two linears (where their roundings coincide). */
static void grouping_changes_nothing(void **state)
{
	(void)state;
	int rows = 0, linears = 0;
	for (int p = 0; p < KIT_PROFILE_COUNT; p++)
		for (int scheme = 0; scheme < NUM_SCHEME_COUNT; scheme++) {
			kit k = kit_open(KIT_PROFILES[p], 43);
			experts m;
			experts_make(&k, &m, (num_scheme)scheme, 9, 2, 48, 80);
			OP(k.x, expert_ffn, .rows = &m.rows, .x = &m.x, .idx = &m.idx, .w = &m.w, .experts = &m.all);
			tensor one = kit_zeros(&k, m.rows.dtype, 3, 1, 2, 48, 1);
			for (int t = 0; t < 9; t++, rows++) {
				tensor x = tensor_rows(&m.x, t, 1), idx = tensor_rows(&m.idx, t, 1), w = tensor_rows(&m.w, t, 1);
				OP(k.x, expert_ffn, .rows = &one, .x = &x, .idx = &idx, .w = &w, .experts = &m.all, .decode_rows = 1);
				assert_memory_equal(one.data, tensor_row(&m.rows, t), tensor_bytes(&one));
			}
			if (scheme == NUM_SCHEME_NONE || !kit_eager(&k)) {
				weight up = m.up[1], down = m.down[1];
				up.input_scale = m.all.up_input, down.input_scale = m.all.down_input;
				tensor h = kit_2d(&k, k.x->types.act, 9, 80), y = kit_2d(&k, k.x->types.act, 9, 48);
				for (int i = 0; i < 18; i++) kit_set(&m.w, i, 1), ((int32_t *)m.idx.data)[i] = 1;
				OP(k.x, linear, .y = &h, .x = &m.x, .w = &up, .act = OP_ACT_RELU2);
				OP(k.x, linear, .y = &y, .x = &h, .w = &down);
				OP(k.x, expert_ffn, .rows = &m.rows, .x = &m.x, .idx = &m.idx, .w = &m.w, .experts = &m.all);
				for (int t = 0; t < 9; t++) assert_memory_equal(tensor_row(&m.rows, t), tensor_row(&y, t), 48 * num_bytes(y.dtype));
				linears++;
			}
			KIT_OK(&k);
			kit_close(&k);
		}
	assert_int_equal(rows, KIT_PROFILE_COUNT * NUM_SCHEME_COUNT * 9);
	assert_int_equal(linears, 2 * NUM_SCHEME_COUNT + 2);
}

static void combines(void **state)
{
	(void)state;
	int checked = 0;
	for (int p = 0; p < KIT_PROFILE_COUNT; p++)
		for (int with = 0; with < 2; with++) {
			kit k = kit_open(KIT_PROFILES[p], 44);
			const num_dtype act = k.x->types.act;
			tensor rows = kit_zeros(&k, act, 3, 4, 6, 9, 1), shared = kit_random(&k, act, 4, 9, 1), y = kit_2d(&k, act, 4, 9);
			kit_fill(&k, &rows, 1);
			OP(k.x, moe_combine, .y = &y, .rows = &rows, .shared = with ? &shared : NULL, .factor = 2.5f);
			KIT_OK(&k);
			for (int t = 0; t < 4; t++)
				for (int i = 0; i < 9; i++) {
					double sum = 0;
					float sum32 = 0;
					for (int j = 0; j < 6; j++)
						sum += kit_get(&rows, (t * 6 + j) * 9 + i), sum32 += (float)kit_get(&rows, (t * 6 + j) * 9 + i);
					double want = kit_eager(&k) ? num_round_bf16(f32(num_round_bf16((double)sum32) * 2.5)) : sum * 2.5;
					if (with) want = kit_rounded(act, want + kit_at(&shared, t, i));
					assert_true(fabs(kit_at(&y, t, i) - want) <= 1e-15);
					checked++;
				}
			kit_close(&k);
		}
	assert_int_equal(checked, 4 * 2 * 36);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(routes), cmocka_unit_test(experts_by_formula),
	    cmocka_unit_test(grouping_changes_nothing), cmocka_unit_test(combines)};
	return cmocka_run_group_tests_name("ref_moe", tests, NULL, NULL);
}
