/* SPDX-License-Identifier: Apache-2.0
 * test_ref_ssm.c: recurrence and chunked scan against the quadratic form and against op_ssm.h's three lines; the laws of splits, slots and
 * poison, for the convolution's scan too.
 */
#include "mixer.h"

/* Each token by the quadratic form: y_t = sum_j C_t . B_j exp(sum_{i=j+1..t} dt_i a) dt_j x_j + D x_t. */
static void ssm_is_textbook(void **state)
{
	(void)state;
	int checked = 0;
	double worst[2] = {0, 0};
	EACH(k, s)
	{
		const int n = 13;
		mixer m = mixer_make(&k, s, n, 2);
		for (int form = 0; form < 2; form++) {
			poison(&m.state);
			if (form == 0) ssm_scan(&k, &m, 0, n, 0, 0, -1, 1);
			else
				for (int t = 0; t < n; t++) ssm_step(&k, &m, t, 1, (int32_t[]){t ? 1 : -1}, (int32_t[]){1});
			KIT_OK(&k);
			double square = 0, off = 0;
			for (int t = 0; t < n; t++)
				for (int h = 0; h < s->H; h++)
					for (int p = 0; p < s->P; p++) {
						long double y = kit_get(&m.d, h) * kit_at(&m.x, t, h * s->P + p);
						for (int j = t; j >= 0; j--) {
							long double cb = 0, decay = 0, dt = logl(1 + expl((long double)kit_at(&m.dt, j, h) + kit_get(&m.dt_bias, h)));
							for (int i = j + 1; i <= t; i++)
								decay += logl(1 + expl((long double)kit_at(&m.dt, i, h) + kit_get(&m.dt_bias, h))) * kit_get(&m.a, h);
							for (int i = 0; i < s->N; i++) {
								int g = h / (s->H / s->G) * s->N + i;
								cb += (long double)kit_at(&m.c, t, g) * kit_at(&m.b, j, g);
							}
							y += cb * expl(decay) * dt * kit_at(&m.x, j, h * s->P + p);
						}
						double d = (double)y - kit_at(&m.ssm_y, t, h * s->P + p);
						off = fabs(d) > off || isnan(d) ? fabs(d) : off;
						square += (double)(y * y);
						checked++;
					}
			off /= sqrt(square / (n * s->H * s->P));
			assert_true(off < (kit_eager(&k) ? 0.05 : 1e-13));
			worst[kit_eager(&k)] = off > worst[kit_eager(&k)] ? off : worst[kit_eager(&k)];
		}
	}
	print_message("%d elements; worst %.2g exact, %.2g eager of the root mean square\n", checked, worst[0], worst[1]);
	assert_true(checked > 10000 && worst[1] > 1e-4);
}

/* The eager recurrence, each f32 spelled out in float arithmetic. */
static void step_rounds_as_said(void **state)
{
	(void)state;
	kit k = kit_open("portable", 5);
	const shape *s = &SHAPES[1];
	mixer m = mixer_make(&k, s, 6, 2);
	float S[4][16][8] = {{{0}}};
	int checked = 0;
	for (int t = 0; t < 6; t++) {
		ssm_step(&k, &m, t, 1, (int32_t[]){t ? 0 : -1}, (int32_t[]){0});
		for (int h = 0; h < s->H; h++) {
			float v = (float)kit_at(&m.dt, t, h) + (float)kit_get(&m.dt_bias, h);
			float dt = v > 20 ? v : (float)log((double)((float)exp((double)v) + 1.0f)),
			      da = (float)exp((double)(dt * (float)kit_get(&m.a, h)));
			for (int p = 0; p < s->P; p++) {
				float x = (float)kit_at(&m.x, t, h * s->P + p);
				double y = 0;
				for (int n = 0; n < s->N; n++) {
					float db = (float)kit_at(&m.b, t, h / 2 * s->N + n) * dt;
					S[h][p][n] = (float)((double)S[h][p][n] * (double)da + (double)db * (double)x);
					assert_true((double)S[h][p][n] == kit_get(&m.state, ((int64_t)h * s->P + p) * s->N + n));
					y += (double)S[h][p][n] * kit_at(&m.c, t, h / 2 * s->N + n);
				}
				double want = num_round_bf16(y + kit_get(&m.d, h) * (double)x);
				assert_true(fabs(want - kit_at(&m.ssm_y, t, h * s->P + p)) <= 1e-15);
				checked++;
			}
		}
	}
	KIT_OK(&k);
	assert_int_equal(k.x->counters.state_update_rows, 6);
	assert_int_equal(checked, 6 * 4 * 16);
	kit_close(&k);
}

/* The chunked form, by definition: op_ssm.h's three lines, one element at a time. */
static void scan_rounds_as_said(void **state)
{
	(void)state;
	int checked = 0;
	for (const shape *s = SHAPES; s < SHAPES + SHAPE_COUNT; s++) {
		kit k = kit_open("portable", 6);
		const int L = s->chunk, n = 2 * L + 1;
		mixer m = mixer_make(&k, s, n, 1);
		ssm_scan(&k, &m, 0, n, 0, 0, -1, 0);
		KIT_OK(&k);
		assert_int_equal(k.x->counters.scan_chunks, 3);
		for (int h = 0; h < s->H; h++) {
			const int g = h / (s->H / s->G) * s->N;
			static double S[20][17];
			memset(S, 0, sizeof S);
			for (int from = 0; from < n; from += L) {
				const int to = from + L < n ? from + L : n;
				double dt[64], cs[64], sum = 0;
				for (int t = from; t < to; t++) {
					double v = f32(kit_at(&m.dt, t, h) + kit_get(&m.dt_bias, h));
					dt[t] = v > 20 ? v : f32(log(f32(f32(exp(v)) + 1)));
					sum += f32(dt[t] * kit_get(&m.a, h));
					cs[t] = f32(sum);
				}
				for (int t = from; t < to; t++)
					for (int p = 0; p < s->P; p++) {
						double y = 0;
						for (int i = 0; i < s->N; i++) y += kit_at(&m.c, t, g + i) * num_round_bf16(S[p][i]);
						y *= f32(exp(cs[t]));
						for (int j = from; j <= t; j++) {
							double cb = 0;
							for (int i = 0; i < s->N; i++) cb += kit_at(&m.c, t, g + i) * kit_at(&m.b, j, g + i);
							y += num_round_bf16(f32(f32(f32(cb) * f32(exp(fmin(f32(cs[t] - cs[j]), 0)))) * dt[j])) *
							     kit_at(&m.x, j, h * s->P + p);
						}
						y = num_round_bf16(f32(y + kit_get(&m.d, h) * kit_at(&m.x, t, h * s->P + p)));
						assert_true(fabs(y - kit_at(&m.ssm_y, t, h * s->P + p)) <= 1e-14);
						checked++;
					}
				for (int p = 0; p < s->P; p++)
					for (int i = 0; i < s->N; i++) {
						double add = 0;
						for (int j = from; j < to; j++)
							add += kit_at(&m.x, j, h * s->P + p) *
							       num_round_bf16(f32(kit_at(&m.b, j, g + i) * f32(f32(exp(fmin(f32(cs[to - 1] - cs[j]), 0))) * dt[j])));
						S[p][i] = f32(f32(exp(cs[to - 1])) * S[p][i] + f32(add));
					}
			}
			for (int p = 0; p < s->P; p++)
				for (int i = 0; i < s->N; i++) assert_true(S[p][i] == kit_get(&m.state, ((int64_t)h * s->P + p) * s->N + i));
		}
		kit_close(&k);
	}
	print_message("%d elements\n", checked);
	assert_true(checked > 2000);
}

/* Any split on the grid is no split, from fresh and from continued segments; off the grid is refused. */
static void scan_splits(void **state)
{
	(void)state;
	int cuts = 0, refused = 0;
	EACH(k, s)
	{
		const int n = 3 * s->chunk + 2;
		for (int origin = 0; origin < 2 * s->chunk; origin += s->chunk - 1) {
			mixer m = mixer_make(&k, s, n, 4);
			ssm_scan(&k, &m, 0, n, origin, origin, -1, 1);
			tensor whole = copy_of(&k, &m.ssm_y), end = copy_of(&k, &m.state);
			const size_t slot = tensor_bytes(&m.state) / 4;
			for (int cut = 1; cut < n; cut++) {
				if ((origin + cut) % s->chunk) {
					if (cut < 3) {
						ssm_scan(&k, &m, cut, n - cut, origin + cut, origin, 1, 1);
						KIT_FAILED(&k, "neither a multiple");
						refused++;
					}
					continue;
				}
				poison(&m.state), poison(&m.ssm_y);
				ssm_scan(&k, &m, 0, cut, origin, origin, -1, 2);
				ssm_scan(&k, &m, cut, n - cut, origin + cut, origin, 2, 0);
				KIT_OK(&k);
				assert_true(kit_same_bits(&whole, &m.ssm_y));
				assert_memory_equal((char *)end.data + slot, m.state.data, slot);
				cuts++;
			}
		}
	}
	print_message("%d cuts, %d refused\n", cuts, refused);
	assert_true(cuts > 100 && refused > 50);
}

/* Several segments in one call = each alone; an empty one moves its state; slots permuted; other slots keep their poison. */
static void segments_are_strangers(void **state)
{
	(void)state;
	EACH(k, s)
	{
		const int L = s->chunk, len[4] = {L + 1, 0, 1, 2 * L}, n = 3 * L + 2;
		mixer m = mixer_make(&k, s, n, 8);
		tensor row = KIT_INTS(&k, 5, 5 + len[0], 5 + len[0], 6 + len[0], 5 + n), in = KIT_INTS(&k, -1, 3, 6, -1),
		       out = KIT_INTS(&k, 7, 2, 6, 0);
		tensor pos = KIT_INTS(&k, 0, 0, 1, 0), origin = KIT_INTS(&k, 0, 0, 1, 0);
		const size_t slot = tensor_bytes(&m.state) / 8, taps = tensor_bytes(&m.conv_state) / 8;
		for (int which = 0; which < 2; which++) { /* slots 3 and 6 hold something */
			tensor st = tensor_rows(&m.state, which ? 6 : 3, 1), cv = tensor_rows(&m.conv_state, which ? 6 : 3, 1);
			kit_fill(&k, &st, 1), kit_fill(&k, &cv, 1);
		}
		mixer one = m;
		one.state = copy_of(&k, &m.state), one.conv_state = copy_of(&k, &m.conv_state);
		one.ssm_y = kit_2d(&k, m.ssm_y.dtype, n, s->H * s->P), one.conv_y = kit_2d(&k, m.conv_y.dtype, n, m.conv_y.shape[1]);
		OP(k.x, ssm_scan, .y = &m.ssm_y, .x = &m.x, .b = &m.b, .c = &m.c, .dt = &m.dt, .a = &m.a, .d = &m.d, .dt_bias = &m.dt_bias,
		    .state = &m.state, .seg_row = &row, .seg_pos = &pos, .seg_origin = &origin, .seg_in = &in, .seg_out = &out, .groups = s->G,
		    .chunk = L);
		OP(k.x, conv_scan, .y = &m.conv_y, .x = &m.xbc, .state = &m.conv_state, .w = &m.w, .bias = &m.bias, .seg_row = &row, .seg_in = &in,
		    .seg_out = &out);
		for (int i = 3, from = n; i >= 0; i--) {
			from -= len[i];
			ssm_scan(&k, &one, from, len[i], ((int32_t *)pos.data)[i], ((int32_t *)origin.data)[i], ((int32_t *)in.data)[i],
			    ((int32_t *)out.data)[i]);
			conv_scan(&k, &one, from, len[i], ((int32_t *)in.data)[i], ((int32_t *)out.data)[i]);
		}
		KIT_OK(&k);
		assert_true(kit_same_bits(&m.ssm_y, &one.ssm_y) && kit_same_bits(&m.conv_y, &one.conv_y));
		assert_true(kit_same_bits(&m.state, &one.state) && kit_same_bits(&m.conv_state, &one.conv_state));
		assert_memory_equal((char *)m.state.data + 2 * slot, (char *)m.state.data + 3 * slot, slot); /* the empty segment */
		if (taps) assert_memory_equal((char *)m.conv_state.data + 2 * taps, (char *)m.conv_state.data + 3 * taps, taps);
		for (int other = 1; other < 6; other += 3) assert_true(isnan(kit_get(&m.state, other * (int64_t)(s->H * s->P * s->N))));
		((int32_t *)out.data)[2] = 8;
		OP(k.x, ssm_scan, .y = &m.ssm_y, .x = &m.x, .b = &m.b, .c = &m.c, .dt = &m.dt, .a = &m.a, .d = &m.d, .dt_bias = &m.dt_bias,
		    .state = &m.state, .seg_row = &row, .seg_pos = &pos, .seg_origin = &origin, .seg_in = &in, .seg_out = &out, .groups = s->G,
		    .chunk = L);
		KIT_FAILED(&k, "segment 2");
		((int32_t *)row.data)[2] = 400;
		OP(k.x, conv_scan, .y = &m.conv_y, .x = &m.xbc, .state = &m.conv_state, .w = &m.w, .bias = &m.bias, .seg_row = &row, .seg_in = &in,
		    .seg_out = &in);
		KIT_FAILED(&k, "segment");
	}
}

/* Rows of several sequences and drafts in one step call = one at a time; a batch's rows are strangers. */
static void steps_are_strangers(void **state)
{
	(void)state;
	EACH(k, s)
	{
		mixer m = mixer_make(&k, s, 5, 8), one;
		for (int i = 0; i < 8; i += 2) {
			tensor st = tensor_rows(&m.state, i, 1);
			kit_fill(&k, &st, 1);
		}
		one = m;
		one.state = copy_of(&k, &m.state);
		one.ssm_y = kit_2d(&k, m.ssm_y.dtype, 5, s->H * s->P);
		const int32_t in[5] = {4, 1, 3, 0, -1}, out[5] = {1, 3, 5, 0, 7}; /* a sequence and two drafts; another; a fresh one */
		ssm_step(&k, &m, 0, 5, in, out);
		const int order[5] = {4, 0, 3, 1, 2};
		for (int i = 0; i < 5; i++) ssm_step(&k, &one, order[i], 1, &in[order[i]], &out[order[i]]);
		KIT_OK(&k);
		assert_true(kit_same_bits(&m.ssm_y, &one.ssm_y) && kit_same_bits(&m.state, &one.state));
		ssm_step(&k, &m, 0, 1, (int32_t[]){8}, (int32_t[]){0});
		KIT_FAILED(&k, "slot 8");
	}
}

/* Eager: prefill and decode form round differently, and stay within what their bf16 roundings give. Exact: the same bits. */
static void forms_compared(void **state)
{
	(void)state;
	double apart = 0;
	EACH(k, s)
	{
		const int n = 3 * s->chunk;
		mixer m = mixer_make(&k, s, n, 2);
		ssm_scan(&k, &m, 0, n, 0, 0, -1, 0);
		tensor scan = copy_of(&k, &m.ssm_y);
		for (int t = 0; t < n; t++) ssm_step(&k, &m, t, 1, (int32_t[]){t ? 1 : -1}, (int32_t[]){1});
		KIT_OK(&k);
		double d = kit_far(&scan, &m.ssm_y);
		assert_true(d < (kit_eager(&k) ? 0.05 : 1e-14));
		if (kit_eager(&k)) apart = d > apart ? d : apart;
	}
	print_message("forms are up to %.2g of the root mean square apart\n", apart);
	assert_true(apart > 1e-3);
}

/* A state type narrower than f32 is rounded after y, at every token and every edge. */
static void narrow_state(void **state)
{
	(void)state;
	kit k = kit_open("portable", 9);
	const shape *s = &SHAPES[1];
	mixer m = mixer_make(&k, s, 3 * s->chunk, 3), wide = m;
	m.state = kit_zeros(&k, NUM_F16, 4, 3, s->H, s->P, s->N);
	ssm_step(&k, &m, 0, 1, (int32_t[]){-1}, (int32_t[]){0});
	double first = kit_get(&m.ssm_y, 3);
	ssm_step(&k, &wide, 0, 1, (int32_t[]){-1}, (int32_t[]){0});
	assert_true(first == kit_get(&wide.ssm_y, 3));
	int narrowed = 0;
	for (int64_t i = 0; i < s->H * s->P * s->N; i++) {
		uint16_t h = num_f64_to_f16(kit_get(&wide.state, i));
		assert_true(kit_get(&m.state, i) == (double)num_f16_to_f32(h));
		narrowed += kit_get(&m.state, i) != kit_get(&wide.state, i);
	}
	assert_true(narrowed > 100);
	ssm_scan(&k, &m, 0, 3 * s->chunk, 0, 0, -1, 1);
	tensor whole = copy_of(&k, &m.ssm_y);
	for (int i = 0; i < 3; i++) ssm_scan(&k, &m, i * s->chunk, s->chunk, i * s->chunk, 0, i ? 2 : -1, 2);
	KIT_OK(&k);
	assert_true(kit_same_bits(&whole, &m.ssm_y));
	kit_close(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(ssm_is_textbook), cmocka_unit_test(step_rounds_as_said),
	    cmocka_unit_test(scan_rounds_as_said), cmocka_unit_test(scan_splits), cmocka_unit_test(segments_are_strangers),
	    cmocka_unit_test(steps_are_strangers), cmocka_unit_test(forms_compared), cmocka_unit_test(narrow_state)};
	return cmocka_run_group_tests_name("ref_ssm", tests, NULL, NULL);
}
