/* SPDX-License-Identifier: Apache-2.0
 * test_ref_conv.c: the convolution in both forms and the gated norm, against textbook forms; splits, drafts, slots and poison.
 */
#include "mixer.h"

static void conv_is_textbook(void **state)
{
	(void)state;
	int checked = 0;
	EACH(k, s)
	{
		mixer m = mixer_make(&k, s, 9, 3);
		conv_scan(&k, &m, 0, 9, -1, 1);
		KIT_OK(&k);
		for (int t = 0; t < 9; t++)
			for (int i = 0; i < m.xbc.shape[1]; i++) {
				double acc = kit_get(&m.bias, i);
				for (int j = 0; j < s->K; j++) {
					double in = t - s->K + 1 + j < 0 ? 0 : kit_at(&m.xbc, t - s->K + 1 + j, i), p = in * kit_at(&m.w, i, j);
					acc = kit_eager(&k) ? f32(acc + num_round_bf16(p)) : acc + p;
				}
				double want = kit_eager(&k) ? num_round_bf16(f32(acc / f32(1 + f32(exp(-acc))))) : acc * (0.5 + 0.5 * tanh(acc / 2));
				assert_true(fabs(kit_at(&m.conv_y, t, i) - want) <= 1e-13 * (fabs(want) + 1e-3));
				checked++;
			}
		assert_int_equal(k.x->counters.conv_forward_calls, 1);
		for (int j = 0; j < s->K - 1; j++) /* the state is the raw tail */
			for (int i = 0; i < m.xbc.shape[1]; i++)
				assert_true(
				    kit_get(&m.conv_state, ((int64_t)(s->K - 1) + j) * m.xbc.shape[1] + i) == kit_at(&m.xbc, 9 - (s->K - 1) + j, i));
	}
	assert_true(checked > 1000);
}

/* Scan = scan in pieces = steps, bit for bit; drafts leave their own slots; nothing reads a poisoned slot. */
static void conv_forms_agree(void **state)
{
	(void)state;
	int cuts = 0;
	EACH(k, s)
	{
		mixer m = mixer_make(&k, s, 11, 6);
		conv_scan(&k, &m, 0, 11, -1, 1);
		tensor whole = copy_of(&k, &m.conv_y), end = copy_of(&k, &m.conv_state);
		const size_t slot = tensor_bytes(&m.conv_state) / 6;
		for (int cut = 0; cut <= 11; cut++) {
			poison(&m.conv_state), poison(&m.conv_y);
			conv_scan(&k, &m, 0, cut, -1, 3);
			conv_scan(&k, &m, cut, 11 - cut, 3, 4);
			assert_true(kit_same_bits(&whole, &m.conv_y));
			assert_memory_equal((char *)end.data + slot, (char *)m.conv_state.data + 4 * slot, slot);
			cuts++;
		}
		poison(&m.conv_state), poison(&m.conv_y);
		conv_step(&k, &m, 0, 4, (int32_t[]){-1, 0, 0, 0}, (int32_t[]){0, 0, 0, 2});
		conv_step(&k, &m, 4, 7, (int32_t[]){2, 5, 1, 1, 3, 3, 3}, (int32_t[]){5, 1, 1, 3, 3, 3, 4});
		KIT_OK(&k);
		assert_true(kit_same_bits(&whole, &m.conv_y));
		assert_memory_equal((char *)end.data + slot, (char *)m.conv_state.data + 4 * slot, slot);
		assert_int_equal(k.x->counters.conv_update_rows, 11);
		conv_step(&k, &m, 0, 1, (int32_t[]){6}, (int32_t[]){0});
		KIT_FAILED(&k, "slot 6");
		conv_step(&k, &m, 0, 1, (int32_t[]){0}, (int32_t[]){-1});
		KIT_FAILED(&k, "slot -1");
	}
	assert_int_equal(cuts, 12 * SHAPE_COUNT * KIT_PROFILE_COUNT);
}

static void gated_norm(void **state)
{
	(void)state;
	int checked = 0;
	for (int p = 0; p < KIT_PROFILE_COUNT; p++)
		for (int groups = 1; groups <= 4; groups++) {
			kit k = kit_open(KIT_PROFILES[p], 13);
			const int size = 5, width = groups * size, n = 3;
			const num_dtype act = k.x->types.act;
			tensor x = kit_random(&k, act, n, width, 0.02), wide = kit_random(&k, act, n, width + 9, 4),
			       gate = tensor_cols(&wide, 2, width);
			tensor w = kit_vector(&k, NUM_BF16, width, 1, 0.5), y = kit_2d(&k, act, n, width);
			OP(k.x, gated_norm, .y = &y, .x = &x, .gate = &gate, .w = &w, .groups = groups, .eps = 1e-5f);
			KIT_OK(&k);
			for (int t = 0; t < n; t++)
				for (int i = 0; i < width; i++) {
					double v[5], sum = 0, z;
					for (int j = 0; j < size; j++) {
						int at = i / size * size + j;
						z = kit_at(&gate, t, at);
						v[j] =
						    kit_eager(&k) ? f32(kit_at(&x, t, at) * f32(z / f32(1 + f32(exp(-z))))) : kit_at(&x, t, at) * z / (1 + exp(-z));
						sum += v[j] * v[j];
					}
					double r = 1 / sqrt(sum / size + (double)1e-5f), want = v[i % size] * r * kit_get(&w, i);
					if (kit_eager(&k)) want = num_round_bf16(f32(kit_get(&w, i) * num_round_bf16(f32(v[i % size] * f32(r)))));
					assert_true(fabs(kit_at(&y, t, i) - want) <= 1e-13 * fabs(want));
					checked++;
				}
			OP(k.x, gated_norm, .y = &y, .x = &x, .gate = &gate, .w = &w, .groups = 0, .eps = 1e-5f);
			KIT_FAILED(&k, "0 groups");
			kit_close(&k);
		}
	assert_int_equal(checked, 4 * 3 * 5 * (1 + 2 + 3 + 4));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(conv_is_textbook), cmocka_unit_test(conv_forms_agree), cmocka_unit_test(gated_norm)};
	return cmocka_run_group_tests_name("ref_conv", tests, NULL, NULL);
}
