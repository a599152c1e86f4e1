/* SPDX-License-Identifier: Apache-2.0
 * test_v_row.c: rows to f32 and back on every tier: every bf16, roundings at their edges, every tail length, nothing written behind.
 */
#include <math.h>
#include <string.h>

#include "backend/cpu/cpu_isa.h"
#include "backend/cpu/vec/vec_row.h"
#include "base/base_rng.h"
#include "num/num_conv.h"
#include "test.h"

static void every_bf16(void **state)
{
	(void)state;
	static uint16_t in[65536], back[65536];
	static float out[65536];
	for (int i = 0; i < 65536; i++) in[i] = (uint16_t)i;
	for (int t = 0; t <= (int)cpu_tier_best(); t++) {
		const vec_row *v = vec_row_of(t);
		v->from_bf16(out, in, 65536);
		v->to_bf16(back, out, 65536);
		for (int i = 0; i < 65536; i++) {
			assert_int_equal(num_bits_f32(out[i]), (uint32_t)i << 16);
			assert_int_equal(back[i], num_f32_to_bf16(out[i]));
		}
	}
}

static void roundings(void **state)
{
	(void)state;
	static float in[40000], v[40000];
	static uint16_t out[40000];
	for (int i = 0; i < 40000; i++) { /* random bits; ties and their neighbours; the ends */
		const uint32_t u = (uint32_t)rng_u64(1, (uint64_t)i, 0);
		in[i] = num_f32_bits(i % 4 == 0 ? u : (u & 0xffff0000u) + 0x8000u + (uint32_t)(i % 3) - 1u);
	}
	in[0] = INFINITY, in[1] = -INFINITY, in[2] = num_f32_bits(0x7f7fffff), in[3] = num_f32_bits(0x7f800001),
	in[4] = num_f32_bits(0xffffffff), in[5] = num_f32_bits(1);
	for (int t = 0; t <= (int)cpu_tier_best(); t++) {
		const vec_row *r = vec_row_of(t);
		memcpy(v, in, sizeof v);
		r->to_bf16(out, in, 40000);
		r->round_bf16(v, 40000);
		for (int i = 0; i < 40000; i++) {
			assert_int_equal(out[i], num_f32_to_bf16(in[i]));
			assert_int_equal(num_bits_f32(v[i]), (uint32_t)out[i] << 16);
		}
	}
}

static void tails(void **state)
{
	(void)state;
	for (int t = 0; t <= (int)cpu_tier_best(); t++)
		for (int n = 0; n < 50; n++) {
			const vec_row *r = vec_row_of(t);
			float in[51], out[51];
			uint16_t h[52];
			for (int i = 0; i < 51; i++) in[i] = 1.003f * (float)i, out[i] = -7;
			memset(h, 0xee, sizeof h);
			r->to_bf16((char *)h + 2, in, n); /* no alignment needed */
			assert_int_equal(h[0], 0xeeee);
			assert_int_equal(h[n + 1], 0xeeee);
			r->from_bf16(out, h + 1, n);
			r->round_bf16(in, n);
			assert_true(out[n] == -7.0f && in[n] == 1.003f * (float)n);
			for (int i = 0; i < n; i++) assert_true(out[i] == in[i]);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(every_bf16), cmocka_unit_test(roundings), cmocka_unit_test(tails)};
	return cmocka_run_group_tests_name("v_row", tests, NULL, NULL);
}
