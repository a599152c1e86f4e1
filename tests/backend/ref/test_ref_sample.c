/* SPDX-License-Identifier: Apache-2.0
 * test_ref_sample.c: edits, draws, log-probabilities and pooling against sorting everything; ties, infinities and NaN.
 */
#include "kit.h"

static void edits_in_order(void **state)
{
	(void)state;
	for (int p = 0; p < KIT_PROFILE_COUNT; p++) {
		kit k = kit_open(KIT_PROFILES[p], 51);
		const int R = 3, V = 70;
		const num_dtype wide = k.x->types.wide;
		tensor l = kit_random(&k, wide, R, V, 5), was = kit_2d(&k, wide, R, V), counts = kit_2d(&k, NUM_I32, R, V),
		       seen = kit_2d(&k, NUM_U8, R, V);
		tensor mask = kit_2d(&k, NUM_I32, R, 3);
		memcpy(was.data, l.data, tensor_bytes(&l));
		for (int i = 0; i < R * V; i++) {
			((int32_t *)counts.data)[i] = (int32_t)kit_below(&k, 3);
			((uint8_t *)seen.data)[i] = (uint8_t)(((int32_t *)counts.data)[i] > 0 || kit_below(&k, 3) == 0);
		}
		for (int i = 0; i < R * 3; i++) ((uint32_t *)mask.data)[i] = (uint32_t)kit_below(&k, 1ll << 32);
		const float repetition[3] = {1.25f, 1, 0.75f}, presence[3] = {0, 0.5f, 1}, frequency[3] = {0.25f, 0, -0.125f};
		const op_logit_bias bias[3] = {{0, 3, 2.5f}, {2, 69, -INFINITY}, {0, 3, 1}};
		OP(k.x, logit_edit, .logits = &l, .counts = &counts, .seen = &seen, .repetition = repetition, .presence = presence,
		    .frequency = frequency, .bias = bias, .biases = 3, .mask = &mask);
		KIT_OK(&k);
		int banned = 0;
		for (int r = 0; r < R; r++)
			for (int i = 0; i < V; i++) {
				double v = kit_at(&was, r, i);
				int n = ((int32_t *)counts.data)[r * V + i];
				if (((uint8_t *)seen.data)[r * V + i]) v = v > 0 ? v / (double)repetition[r] : v * (double)repetition[r];
				if (n) v -= (double)presence[r] + n * (double)frequency[r];
				for (int b = 0; b < 3; b++)
					if (bias[b].row == r && bias[b].id == i) v += (double)bias[b].add;
				if (!(((uint32_t *)mask.data)[r * 3 + i / 32] >> i % 32 & 1)) v = -INFINITY;
				banned += v == -INFINITY;
				if (isinf(v)) assert_true(kit_at(&l, r, i) == v);
				else assert_true(fabs(kit_at(&l, r, i) - v) <= (wide == NUM_F32 ? 1e-6 : 1e-14));
			}
		assert_true(banned > 50 && banned < 160);
		OP(k.x, logit_edit, .logits = &was, .counts = NULL, .seen = NULL, .bias = NULL, .biases = 0,
		    .mask = NULL); /* nothing asked: nothing done */
		OP(k.x, logit_edit, .logits = &was, .bias = &(op_logit_bias){1, V, 0}, .biases = 1);
		KIT_FAILED(&k, "id 70");
		kit_close(&k);
	}
}

/* The contract by full sorting. */
static int32_t slow_draw(const tensor *logits, int row, const op_sample_row *o, double u)
{
	const int V = (int)logits->shape[1];
	static int id[512];
	static double p[512];
	double best = -INFINITY, norm = 0;
	for (int i = 0; i < V; i++) best = fmax(best, kit_at(logits, row, i));
	for (int i = 0; i < V; i++) id[i] = i, p[i] = exp((kit_at(logits, row, i) - best) / o->temperature);
	for (int i = 1; i < V; i++) /* stable insertion, larger first */
		for (int j = i; j > 0 && p[id[j]] > p[id[j - 1]]; j--) {
			int t = id[j];
			id[j] = id[j - 1], id[j - 1] = t;
		}
	int n = V;
	if (o->top_k > 0 && o->top_k < n) n = o->top_k;
	for (int i = 0; i < n; i++) norm += p[id[i]];
	if (o->top_p < 1) {
		double sum = 0;
		int kept = 0;
		while (kept < n && (kept == 0 || sum < o->top_p * norm)) sum += p[id[kept++]];
		n = kept;
	}
	while (n > 1 && p[id[n - 1]] < o->min_p * p[id[0]]) n--;
	double total = 0, sum = 0;
	for (int i = 0; i < n; i++) total += p[id[i]];
	for (int i = 0; i < n; i++)
		if ((sum += p[id[i]]) > u * total) return id[i];
	return id[n - 1];
}

static void draws_by_sorting(void **state)
{
	(void)state;
	int drawn = 0, not_greedy = 0;
	for (int p = 0; p < 4; p += 2) {
		kit k = kit_open(KIT_PROFILES[p], 52);
		for (int round = 0; round < 600; round++) {
			const int V = 1 + (int)kit_below(&k, 200), R = 3;
			tensor l = kit_random(&k, p ? NUM_F32 : NUM_F64, R, V, 6), ids = kit_1d(&k, NUM_I32, R), again = kit_1d(&k, NUM_I32, 1);
			if (round % 2)
				for (int i = 0; i < R * V; i++)
					kit_set(&l, i, round % 4 == 1 ? floor(kit_get(&l, i)) : kit_below(&k, 4) ? kit_get(&l, i) : -INFINITY);
			for (int r = 0; r < R; r++) kit_set(&l, r * V, 1);
			op_sample_row rows[3];
			for (int r = 0; r < R; r++)
				rows[r] = (op_sample_row){.temperature = r == 2 ? 0 : 0.3 + 1.5 * fabs(kit_rand(&k)),
				    .top_p = kit_below(&k, 2) ? 1 : fabs(kit_rand(&k)),
				    .min_p = kit_below(&k, 2) ? 0 : 0.3 * fabs(kit_rand(&k)),
				    .top_k = kit_below(&k, 2) ? 0 : (int32_t)kit_below(&k, 30),
				    .seed = rng_u64(1, (uint64_t)round, 0),
				    .position = kit_below(&k, 100000)};
			OP(k.x, sample_rows, .ids = &ids, .logits = &l, .rows = rows);
			KIT_OK(&k);
			for (int r = 0; r < R; r++) {
				int32_t got = ((int32_t *)ids.data)[r], top = 0;
				for (int i = 0; i < V; i++)
					if (kit_at(&l, r, i) > kit_at(&l, r, top)) top = i;
				int32_t want = r == 2 ? top : slow_draw(&l, r, &rows[r], rng_unit(rows[r].seed, (uint64_t)rows[r].position, 0));
				assert_int_equal(got, want);
				tensor one = tensor_rows(&l, r, 1); /* the row alone */
				OP(k.x, sample_rows, .ids = &again, .logits = &one, .rows = &rows[r]);
				assert_int_equal(((int32_t *)again.data)[0], got);
				drawn++, not_greedy += got != top;
			}
		}
		kit_close(&k);
	}
	print_message("%d draws, %d not the greedy choice\n", drawn, not_greedy);
	assert_true(drawn == 3600 && not_greedy > 500);
}

/* Frequencies over seeds approach the probabilities. */
static void draws_are_fair(void **state)
{
	(void)state;
	kit k = kit_open("portable", 53);
	tensor l = kit_2d(&k, NUM_F32, 1, 4), id = kit_1d(&k, NUM_I32, 1);
	const double p[4] = {0.1, 0.4, 0.3, 0.2};
	int seen[4] = {0};
	for (int i = 0; i < 4; i++) kit_set(&l, i, log(p[i]));
	for (uint64_t i = 0; i < 40000; i++) {
		op_sample_row row = {.temperature = 1, .top_p = 1, .seed = 9, .position = (int64_t)i};
		OP(k.x, sample_rows, .ids = &id, .logits = &l, .rows = &row);
		seen[((int32_t *)id.data)[0]]++;
	}
	for (int i = 0; i < 4; i++) assert_true(fabs(seen[i] / 40000.0 - p[i]) < 0.01);
	kit_close(&k);
}

static void corners(void **state)
{
	(void)state;
	kit k = kit_open("exact", 54);
	static const struct {
		double l[4], temperature, top_p;
		int32_t top_k, want;
	} CASES[] = {
	    {{1, 3, 3, 2}, 0, 1, 0, 1}, /* lowest among equals */
	    {{1, NAN, 3, 2}, 0, 1, 0, -1}, {{1, 2, 3, NAN}, 1, 1, 0, -1}, {{-INFINITY, -INFINITY, -INFINITY, -INFINITY}, 0, 1, 0, -1},
	    {{-INFINITY, -INFINITY, -INFINITY, -INFINITY}, 1, 1, 0, -1}, {{-INFINITY, -INFINITY, -5, -INFINITY}, 1, 1, 0, 2},
	    {{0, INFINITY, 0, 0}, 1, 1, 0, 1}, {{0, 5, 4, 0}, 1, 0, 0, 1},                                    /* top_p 0 keeps one */
	    {{0, 4, 5, 0}, 100, 1, 1, 2},                                                                     /* top_k 1 */
	    {{0, 4, 5, 0}, 1e-300, 1, 0, 2},                                                                  /* as good as greedy */
	    {{0, 4, 5, 0}, NAN, 1, 0, 2}, {{0, 4, 5, -INFINITY}, -1, 1, 0, 2}, {{5, 5, 5, 5}, 1, 1e-9, 0, 0}, /* equal: the lower id first */
	};
	for (size_t c = 0; c < sizeof CASES / sizeof *CASES; c++)
		for (int64_t position = 0; position < 5; position++) {
			tensor l = tensor_2d((void *)(uintptr_t)CASES[c].l, NUM_F64, 1, 4), id = kit_1d(&k, NUM_I32, 1);
			op_sample_row row = {
			    .temperature = CASES[c].temperature, .top_p = CASES[c].top_p, .top_k = CASES[c].top_k, .seed = 3, .position = position};
			OP(k.x, sample_rows, .ids = &id, .logits = &l, .rows = &row);
			KIT_OK(&k);
			assert_int_equal(((int32_t *)id.data)[0], CASES[c].want);
		}
	double flat[4] = {-INFINITY, 1, 100, 7}; /* infinite temperature: any but the banned one, equally */
	tensor l = tensor_2d(flat, NUM_F64, 1, 4), id = kit_1d(&k, NUM_I32, 1);
	int seen[4] = {0};
	for (int i = 0; i < 300; i++) {
		op_sample_row row = {.temperature = INFINITY, .top_p = 1, .seed = 3, .position = i};
		OP(k.x, sample_rows, .ids = &id, .logits = &l, .rows = &row);
		seen[((int32_t *)id.data)[0]]++;
	}
	assert_int_equal(seen[0], 0);
	for (int i = 1; i < 4; i++) assert_true(seen[i] > 60);
	kit_close(&k);
}

static void log_probabilities(void **state)
{
	(void)state;
	kit k = kit_open("portable", 55);
	const int R = 4, V = 90, M = 5, K = 7;
	tensor l = kit_random(&k, NUM_BF16, R, V, 8), ids = kit_2d(&k, NUM_I32, R, M), lp = kit_2d(&k, NUM_F64, R, M),
	       rank = kit_2d(&k, NUM_I32, R, M);
	tensor top = kit_2d(&k, NUM_I32, R, K), top_lp = kit_2d(&k, NUM_F64, R, K);
	for (int i = 0; i < V; i++) kit_set(&l, i, floor(kit_get(&l, i))); /* row 0: equals */
	for (int i = 0; i < V; i += 2) kit_set(&l, V + i, -INFINITY);      /* row 1: half is banned */
	kit_set(&l, 2 * V + 80, NAN);
	for (int i = 0; i < V; i++) kit_set(&l, 3 * V + i, -INFINITY);
	for (int i = 0; i < R * M; i++) ((int32_t *)ids.data)[i] = i % M == 4 ? -1 : (int32_t)kit_below(&k, V);
	OP(k.x, logprobs, .logits = &l, .ids = &ids, .lp = &lp, .rank = &rank, .top_ids = &top, .top_lp = &top_lp);
	KIT_OK(&k);
	int equals = 0;
	for (int r = 0; r < 2; r++) {
		long double sum = 0;
		for (int i = V; i-- > 0;) sum += expl((long double)kit_at(&l, r, i));
		for (int i = 0; i < M + K; i++) {
			const bool best = i >= M;
			const int32_t id = best ? ((int32_t *)top.data)[r * K + i - M] : ((int32_t *)ids.data)[r * M + i];
			const double got = best ? kit_at(&top_lp, r, i - M) : kit_at(&lp, r, i);
			if (id < 0) {
				assert_true(!best && got == 0 && ((int32_t *)rank.data)[r * M + i] == 0);
				continue;
			}
			double want = (double)((long double)kit_at(&l, r, id) - logl(sum));
			assert_true(got == want || fabs(got - want) < 1e-12);
			int place = 1;
			for (int j = 0; j < V; j++) {
				place += kit_at(&l, r, j) > kit_at(&l, r, id) || (kit_at(&l, r, j) == kit_at(&l, r, id) && j < id);
				equals += j != id && kit_at(&l, r, j) == kit_at(&l, r, id);
			}
			assert_int_equal(place, best ? i - M + 1 : ((int32_t *)rank.data)[r * M + i]);
		}
	}
	assert_true(equals > 10);
	assert_true(isnan(kit_at(&lp, 2, 0)) && ((int32_t *)rank.data)[2 * M] == 0 && ((int32_t *)top.data)[2 * K] == -1 &&
	            isnan(kit_at(&top_lp, 2, 0)));
	assert_true(kit_at(&lp, 3, 0) == -INFINITY && ((int32_t *)top.data)[3 * K + 1] == 1);
	tensor few = kit_random(&k, NUM_F32, 1, 3, 1), four = kit_2d(&k, NUM_I32, 1, 4), four_lp = kit_2d(&k, NUM_F64, 1, 4);
	OP(k.x, logprobs, .logits = &few, .top_ids = &four, .top_lp = &four_lp); /* more wanted than there are */
	KIT_OK(&k);
	assert_true(((int32_t *)four.data)[3] == -1 && kit_get(&four_lp, 3) == -INFINITY && ((int32_t *)four.data)[2] >= 0);
	((int32_t *)ids.data)[1] = V;
	OP(k.x, logprobs, .logits = &l, .ids = &ids, .lp = &lp, .rank = &rank);
	KIT_FAILED(&k, "ids[0, 1] = 90");
	kit_close(&k);
}

static void pools(void **state)
{
	(void)state;
	kit k = kit_open("portable", 56);
	tensor x = kit_random(&k, NUM_BF16, 8, 5, 1), start = KIT_INTS(&k, 0, 1, 6, 8);
	for (int how = 0; how < 2; how++)
		for (int unit = 0; unit < 2; unit++) {
			tensor y = kit_2d(&k, unit ? NUM_F64 : NUM_F32, 3, 5);
			OP(k.x, pool_rows, .y = &y, .x = &x, .start = &start, .how = how ? OP_POOL_MEAN : OP_POOL_LAST, .normalise = unit);
			KIT_OK(&k);
			for (int s = 0; s < 3; s++) {
				const int from = ((int32_t *)start.data)[s], to = ((int32_t *)start.data)[s + 1];
				double v[5], square = 0;
				for (int i = 0; i < 5; i++) {
					v[i] = how ? 0 : kit_at(&x, to - 1, i);
					for (int t = from; how && t < to; t++) v[i] += kit_at(&x, t, i) / (to - from);
					square += v[i] * v[i];
				}
				for (int i = 0; i < 5; i++) assert_true(fabs(kit_at(&y, s, i) - (unit ? v[i] / sqrt(square) : v[i])) < 1e-7);
			}
		}
	tensor zero = kit_2d(&k, NUM_BF16, 1, 5), y = kit_2d(&k, NUM_F32, 1, 5), one = KIT_INTS(&k, 0, 1), empty = KIT_INTS(&k, 1, 1),
	       past = KIT_INTS(&k, 0, 2);
	OP(k.x, pool_rows, .y = &y, .x = &zero, .start = &one, .how = OP_POOL_LAST, .normalise = true);
	KIT_OK(&k);
	for (int i = 0; i < 5; i++) assert_true(kit_get(&y, i) == 0);
	OP(k.x, pool_rows, .y = &y, .x = &zero, .start = &empty, .how = OP_POOL_MEAN);
	KIT_FAILED(&k, "rows 1 to 1 of 1");
	OP(k.x, pool_rows, .y = &y, .x = &zero, .start = &past, .how = OP_POOL_MEAN);
	KIT_FAILED(&k, "rows 0 to 2 of 1");
	kit_close(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(edits_in_order), cmocka_unit_test(draws_by_sorting),
	    cmocka_unit_test(draws_are_fair), cmocka_unit_test(corners), cmocka_unit_test(log_probabilities), cmocka_unit_test(pools)};
	return cmocka_run_group_tests_name("ref_sample", tests, NULL, NULL);
}
