/* SPDX-License-Identifier: Apache-2.0
 * test_cost.c: what each op must move and compute, against numbers worked out from the dims of the calls: T 3, D 16, V 40, and so on.
 */
#include "test.h"

#include <string.h>

#include "base/base_mem.h"
#include "helper_calls.h"

#define CONTEXT 100

static const struct {
	op_id id;
	op_cost want; /* weights, state, activations, flops */
} COSTS[] = {
    {OP_embed_rows, {3 * 32, 0, 96 + 12, 0}},
    {OP_rms_norm, {32, 0, 96 + 96, 4 * 48}},
    {OP_add_rms_norm, {32, 0, 96 + 96 + 2 * 96, 5 * 48}},
    {OP_linear, {24 * 16 * 2 + 24 * 2, 0, 3 * 24 * 2 + 96, 2 * 3 * 24 * 16}},
    {OP_add, {0, 0, 3 * 96, 48}},
    {OP_gather_rows, {0, 0, 2 * 64 + 8, 0}},
    {OP_conv_step, {10 * 4 * 2 + 20, 2 * 3 * 60, 60 + 60 + 24, 2 * 3 * 40 + 4 * 30}},
    {OP_conv_scan, {10 * 4 * 2 + 20, 2 * 2 * 60, 60 + 60 + 12 + 8 + 8, 2 * 3 * 40 + 4 * 30}},
    {OP_ssm_step, {16 + 8 + 8, 2 * 3 * 160, 48 + 48 + 60 + 60 + 24 + 24, 6 * 3 * 40}},
    {OP_ssm_scan, {16 + 8 + 8, 2 * 2 * 160, 48 + 48 + 60 + 60 + 24 + 12 + 4 * 8, 3 * (30 + 24) + 4 * 3 * 40}},
    {OP_gated_norm, {32, 0, 3 * 96, 9 * 48}},
    {OP_kv_write, {0, 2 * 3 * 16, 96 + 96 + 24, 0}},
    {OP_attn_decode, {0, CONTEXT * 2 * 8 * 2, 192 + 192 + 12 + 12 + 16, 4 * CONTEXT * 32}},
    {OP_attn_prefill, {0, CONTEXT * 2 * 8 * 2, 192 + 192 + 12 + 12 + 16, 4 * CONTEXT * 32}},
    {OP_route, {24, 0, 24 + 24 + 72, 18 * 7}},
    {OP_expert_ffn, {6 * 2 * 32 * 16 * 2, 0, 192 + 96 + 24 + 24, 4 * 6 * 32 * 16}},
    {OP_moe_combine, {0, 0, 96 + 192 + 96, 96 + 48 + 48}},
    {OP_logit_edit, {0, 0, 2 * 480 + 480 + 120 + 24 + 2 * 12 + 3 * 12, 3 * 120 + 2}},
    {OP_sample_rows, {0, 0, 12 + 480 + 3 * 48, 3 * 120}},
    {OP_logprobs, {0, 0, 240 + 24 + 48 + 24 + 84 + 168, 3 * 120}},
    {OP_pool_rows, {0, 0, 128 + 96 + 12, 48 + 96}},
    {OP_state_copy, {0, 2 * 2 * 160, 16, 0}},
    {OP_page_copy, {0, 2 * 2 * 64, 16, 0}},
    {OP_all_reduce, {0, 0, 2 * 96, 0}},
};

static void by_hand(void **state)
{
	(void)state;
	assert_int_equal(ARRAY_LEN(COSTS), OP_COUNT);
	for (size_t i = 0; i < ARRAY_LEN(COSTS); i++) {
		call c;
		call_make(&c, COSTS[i].id);
		op_cost have, *want = &(op_cost){0};
		*want = COSTS[i].want;
		op_cost_of(COSTS[i].id, &c.a, CONTEXT, &have);
		if (memcmp(&have, want, sizeof have) != 0)
			fail_msg("%s: weights %llu state %llu activations %llu flops %llu", op_name(COSTS[i].id), (unsigned long long)have.weight_bytes,
			    (unsigned long long)have.state_bytes, (unsigned long long)have.activation_bytes, (unsigned long long)have.flops);
		call_free(&c);
	}
}

/* Experts read: at most one a (token, choice), at most all. Formats change weight bytes alone. */
static void experts_and_formats(void **state)
{
	(void)state;
	const uint64_t bytes[NUM_SCHEME_COUNT] = {24 * 16 * 2, 24 * 16 + 8, 24 * (8 + 1) + 4, 24 * (8 + 1) + 4};
	const uint64_t expert[NUM_SCHEME_COUNT] = {2 * 1024, 2 * (512 + 8), 256 + 32 + 4 + 256 + 32 + 4, 256 + 32 + 4 + 256 + 32 + 4};
	for (int s = 0; s < NUM_SCHEME_COUNT; s++) {
		call c;
		op_cost have;
		call_make(&c, OP_linear);
		call_scheme(&c, (num_scheme)s);
		op_cost_linear(&c.a.linear, 0, &have);
		assert_int_equal(have.weight_bytes, bytes[s] + 48);
		assert_int_equal(have.flops, 2 * 3 * 24 * 16);
		call_free(&c);
		call_make(&c, OP_expert_ffn);
		call_scheme(&c, (num_scheme)s);
		call_operand(&c, "idx")->shape[0] = 2; /* 4 pairs of 6 experts */
		op_cost_expert_ffn(&c.a.expert_ffn, 0, &have);
		assert_int_equal(have.weight_bytes, 4 * expert[s]);
		assert_int_equal(have.flops, 4 * 4 * 512);
		call_free(&c);
	}
}

/* Costs and descriptions of a call with nothing in it are zero, not a fault: the dry arm asks before anybody has checked. */
static void empty_calls(void **state)
{
	(void)state;
	for (int id = 0; id < OP_COUNT; id++) {
		call c;
		memset(&c, 0, sizeof c);
		op_cost have, none = {0};
		op_desc d;
		op_cost_of((op_id)id, &c.a, 0, &have);
		assert_memory_equal(&have, &none, sizeof none);
		op_describe((op_id)id, &c.a, &d);
		assert_true(d.operands > 0 && d.rows == 0);
		for (int i = 0; i < d.operands; i++) assert_null(d.operand[i].t);
		char text[256];
		assert_non_null(op_check((op_id)id, &c.a, text));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(by_hand), cmocka_unit_test(experts_and_formats), cmocka_unit_test(empty_calls)};
	return cmocka_run_group_tests_name("op_cost", tests, NULL, NULL);
}
