/* SPDX-License-Identifier: Apache-2.0
 * test_wrap_check.c: the check wrapper against an arm that forgets, calls that break their shapes, and values that break their ranges.
 */
#include "test.h"

#include <string.h>

#include "base/base_mem.h"
#include "exec/wrap.h"
#include "helper_fake.h"

/* An arm that forgets the last line of its outputs is caught at every op that has an output of its own; one that writes NaNs is not. */
static void poison(void **state)
{
	(void)state;
	fake f;
	fake_init(&f);
	exec *x = wrap_check_create(&f.x, true);
	int caught = 0, without = 0;
	for (int id = 0; id < OP_COUNT; id++) {
		call c;
		call_make(&c, (op_id)id);
		op_desc d;
		op_describe((op_id)id, &c.a, &d);
		bool own = false;
		for (int i = 0; i < d.operands; i++) own |= d.operand[i].out && !d.operand[i].in;
		f.forget = true;
		run_call(x, &c);
		nh_error e = {0};
		exec_status(x, &e);
		if (own) {
			if (!strstr(e.text, "was not written")) fail_msg("%s: '%s'", op_name((op_id)id), e.text);
			caught++;
		} else {
			assert_int_equal(exec_status(x, NULL), NH_OK);
			without++;
		}
		exec_clear(x);
		call_free(&c);
		call_make(&c, (op_id)id);
		f.forget = false;
		f.nan = true;
		run_call(x, &c);
		if (exec_status(x, &e) != NH_OK) fail_msg("%s", e.text);
		f.nan = false;
		call_free(&c);
	}
	printf("%d ops with outputs of their own, %d without\n", caught, without);
	assert_int_equal(caught, 19);
	assert_int_equal(without, 5); /* kv_write, logit_edit, state_copy, page_copy, all_reduce */

	/* In place nothing may be poisoned: y is an operand too. */
	call c;
	call_make(&c, OP_add);
	c.a.add.y = c.a.add.a;
	uint16_t before[T * D];
	memcpy(before, c.a.add.a->data, sizeof before);
	f.forget = true;
	run_call(x, &c);
	assert_int_equal(exec_status(x, NULL), NH_OK);
	assert_memory_equal((char *)c.a.add.a->data + (T - 1) * D * 2, before + (T - 1) * D, D * 2);
	/* The columns between two column views are nobody's. */
	call_free(&c);
	call_make(&c, OP_rms_norm);
	uint16_t wide[T * 40];
	for (size_t i = 0; i < ARRAY_LEN(wide); i++) wide[i] = 0x4242;
	tensor m = tensor_2d(wide, NUM_BF16, T, 40);
	*call_operand(&c, "y") = tensor_cols(&m, 10, D);
	run_call(x, &c);
	nh_error e;
	assert_int_equal(exec_status(x, &e), NH_ERR_INTERNAL);
	for (int r = 0; r < T; r++)
		for (int j = 0; j < 40; j++) assert_true((j >= 10 && j < 10 + D) || wide[r * 40 + j] != 0x7FA5);
	call_free(&c);
	wrap_destroy(x);
	fake_deinit(&f);
	assert_int_equal(mem_live(), 0);
}

/* Shapes are checked on any arm, with the op, the layer and the field in the text. */
static void contract(void **state)
{
	(void)state;
	fake f;
	fake_init(&f);
	for (int host = 0; host < 2; host++) {
		exec *x = wrap_check_create(&f.x, host);
		call c;
		call_make(&c, OP_linear);
		c.w.n++;
		x->layer = 2;
		int calls = f.calls;
		run_call(x, &c);
		nh_error e;
		assert_int_equal(exec_status(x, &e), NH_ERR_INTERNAL);
		assert_string_equal(e.text, "fake: linear, layer 2: contract: field y: shape [3, 24], expected [3, 25]");
		assert_int_equal(f.calls, calls);
		call_free(&c);
		wrap_destroy(x);
	}
	/* Without data: fine where memory is not looked at, refused where it is. */
	call c;
	call_make(&c, OP_linear);
	c.w.data = NULL;
	exec *x = wrap_check_create(&f.x, true);
	run_call(x, &c);
	nh_error e;
	assert_int_equal(exec_status(x, &e), NH_ERR_INTERNAL);
	assert_non_null(strstr(e.text, "field w: matrix has no data"));
	exec_clear(x);
	c.w.bound = &c; /* the arm has its own copy */
	run_call(x, &c);
	assert_int_equal(exec_status(x, NULL), NH_OK);
	call_operand(&c, "x")->data = NULL;
	run_call(x, &c);
	assert_int_equal(exec_status(x, &e), NH_ERR_INTERNAL);
	assert_non_null(strstr(e.text, "field x: no memory"));
	call_free(&c);
	wrap_destroy(x);
	fake_deinit(&f);
}

/* Values. Each statement spoils one good call; the text must contain the word. */
static int32_t *at(call *c, const char *field, int64_t i) { return (int32_t *)call_operand(c, field)->data + i; }

#define SPOIL(name, statement) \
	static void name(call *c) { statement; }
SPOIL(id_high, *at(c, "ids", 1) = V)
SPOIL(id_low, *at(c, "ids", 1) = -1)
SPOIL(row_high, *at(c, "rows", 0) = T)
SPOIL(slot_in_high, *at(c, "slot_in", 2) = ST)
SPOIL(slot_in_low, *at(c, "slot_in", 2) = -2)
SPOIL(slot_out_none, *at(c, "slot_out", 0) = -1)
SPOIL(slot_out_high, *at(c, "slot_out", 0) = ST)
SPOIL(seg_in_high, *at(c, "seg_in", 0) = ST)
SPOIL(seg_out_none, *at(c, "seg_out", 1) = -1)
SPOIL(seg_out_twice, *at(c, "seg_out", 1) = 1)
SPOIL(seg_row_falls, *at(c, "seg_row", 1) = 4)
SPOIL(seg_row_short, *at(c, "seg_row", 2) = 7)
SPOIL(seg_row_negative, *at(c, "seg_row", 0) = -1)
SPOIL(off_grid, (*at(c, "seg_pos", 0) = 9))
SPOIL(off_grid_late, (*at(c, "seg_pos", 1) = 7))
SPOIL(origin_later, (*at(c, "seg_origin", 0) = 12))
SPOIL(pos_negative, (*at(c, "seg_pos", 0) = -4, *at(c, "seg_origin", 0) = -4))
SPOIL(kv_high, (((int64_t *)call_operand(c, "kv_slot")->data)[0] = PG * PT))
SPOIL(kv_low, (((int64_t *)call_operand(c, "kv_slot")->data)[0] = -2))
SPOIL(seq_high, *at(c, "row_seq", 0) = 2)
SPOIL(seq_low, *at(c, "row_seq", 0) = -1)
SPOIL(page_high, *at(c, "page_table", 0) = PG)
SPOIL(page_low, *at(c, "page_table", 3) = -2)
SPOIL(page_none, *at(c, "page_table", 1) = -1)
SPOIL(pos_below, *at(c, "pos", 0) = -1)
SPOIL(pos_beyond, *at(c, "pos", 0) = 8)
SPOIL(pos_other_page, *at(c, "pos", 2) = 4)
SPOIL(expert_high, *at(c, "idx", 3) = EX)
SPOIL(expert_low, *at(c, "idx", 3) = -1)
SPOIL(wanted_high, *at(c, "ids", 0) = V)
SPOIL(wanted_low, *at(c, "ids", 0) = -2)
SPOIL(start_falls, *at(c, "start", 1) = 4)
SPOIL(start_back, (*at(c, "start", 1) = 3, *at(c, "start", 2) = 2))
SPOIL(from_high, *at(c, "from", 0) = 6)
SPOIL(to_none, *at(c, "to", 0) = -1)
SPOIL(to_twice, *at(c, "to", 1) = 3)
SPOIL(chain, *at(c, "from", 0) = 1)
SPOIL(hot, c->rows[1].temperature = -1)
SPOIL(top_p_zero, c->rows[0].top_p = 0)
SPOIL(min_p_high, c->rows[2].min_p = 1.5)
SPOIL(top_k_low, c->rows[2].top_k = -1)
SPOIL(repetition_zero, c->repetition[1] = 0)
SPOIL(bias_row, c->bias[0].row = T)
SPOIL(bias_id, c->bias[1].id = V)
SPOIL(bias_nan, c->bias[1].add = 0.0f / 0.0f)
SPOIL(count_negative, *at(c, "counts", 4) = -1)

#define ROW(name, op, word)        \
	{                              \
#name, OP_##op, word, name \
	}
static const struct {
	const char *what;
	op_id id;
	const char *word;
	void (*spoil)(call *c);
} SPOILS[] = {ROW(id_high, embed_rows, "field ids"), ROW(id_low, embed_rows, "field ids"), ROW(row_high, gather_rows, "field rows"),
    ROW(slot_in_high, conv_step, "field slot_in"), ROW(slot_in_low, conv_step, "field slot_in"),
    ROW(slot_out_none, conv_step, "field slot_out"), ROW(slot_out_high, conv_step, "field slot_out"),
    ROW(slot_in_high, ssm_step, "field slot_in"), ROW(slot_in_low, ssm_step, "field slot_in"),
    ROW(slot_out_none, ssm_step, "field slot_out"), ROW(slot_out_high, ssm_step, "field slot_out"),
    ROW(seg_in_high, conv_scan, "field seg_in"), ROW(seg_out_none, conv_scan, "field seg_out"),
    ROW(seg_out_twice, conv_scan, "field seg_out"), ROW(seg_row_falls, conv_scan, "field seg_row"),
    ROW(seg_row_short, conv_scan, "field seg_row"), ROW(seg_row_negative, conv_scan, "field seg_row"),
    ROW(seg_in_high, ssm_scan, "field seg_in"), ROW(seg_out_none, ssm_scan, "field seg_out"), ROW(seg_out_twice, ssm_scan, "field seg_out"),
    ROW(seg_row_falls, ssm_scan, "field seg_row"), ROW(seg_row_short, ssm_scan, "field seg_row"), ROW(off_grid, ssm_scan, "field seg_pos"),
    ROW(off_grid_late, ssm_scan, "field seg_pos"), ROW(origin_later, ssm_scan, "field seg_origin"),
    ROW(pos_negative, ssm_scan, "field seg_origin"), ROW(kv_high, kv_write, "field kv_slot"), ROW(kv_low, kv_write, "field kv_slot"),
    ROW(seq_high, attn_decode, "field row_seq"), ROW(seq_low, attn_decode, "field row_seq"),
    ROW(page_high, attn_decode, "field page_table"), ROW(page_low, attn_decode, "field page_table"),
    ROW(page_none, attn_decode, "field page_table"), ROW(pos_below, attn_decode, "field pos"), ROW(pos_beyond, attn_decode, "field pos"),
    ROW(pos_other_page, attn_decode, "field page_table"), ROW(page_none, attn_prefill, "field page_table"),
    ROW(pos_beyond, attn_prefill, "field pos"), ROW(seq_high, attn_prefill, "field row_seq"), ROW(expert_high, expert_ffn, "field idx"),
    ROW(expert_low, expert_ffn, "field idx"), ROW(wanted_high, logprobs, "field ids"), ROW(wanted_low, logprobs, "field ids"),
    ROW(start_falls, pool_rows, "field start"), ROW(start_back, pool_rows, "field start"), ROW(from_high, state_copy, "field from"),
    ROW(to_none, state_copy, "field to"), ROW(to_twice, state_copy, "field to"), ROW(chain, state_copy, "field from"),
    ROW(from_high, page_copy, "field from"), ROW(to_none, page_copy, "field to"), ROW(to_twice, page_copy, "field to"),
    ROW(chain, page_copy, "field from"), ROW(hot, sample_rows, "temperature"), ROW(top_p_zero, sample_rows, "top_p"),
    ROW(min_p_high, sample_rows, "min_p"), ROW(top_k_low, sample_rows, "top_k"), ROW(repetition_zero, logit_edit, "field repetition"),
    ROW(bias_row, logit_edit, "field bias"), ROW(bias_id, logit_edit, "field bias"), ROW(bias_nan, logit_edit, "field bias"),
    ROW(count_negative, logit_edit, "field counts")};

static void values(void **state)
{
	(void)state;
	fake f;
	fake_init(&f);
	exec *x = wrap_check_create(&f.x, true), *blind = wrap_check_create(&f.x, false);
	for (size_t i = 0; i < ARRAY_LEN(SPOILS); i++) {
		call c;
		call_make(&c, SPOILS[i].id);
		SPOILS[i].spoil(&c);
		int calls = f.calls;
		run_call(x, &c);
		nh_error e = {0};
		if (exec_status(x, &e) != NH_ERR_INTERNAL || !strstr(e.text, SPOILS[i].word))
			fail_msg("%s, %s: '%s'", op_name(SPOILS[i].id), SPOILS[i].what, e.text);
		assert_int_equal(f.calls, calls);
		exec_clear(x);
		run_call(blind, &c); /* values of another memory are not looked at */
		assert_int_equal(exec_status(blind, NULL), NH_OK);
		call_free(&c);
	}
	printf("%zu values\n", ARRAY_LEN(SPOILS));
	assert_true(ARRAY_LEN(SPOILS) >= 60);

	/* A window frees the pages before it. */
	call c;
	call_make(&c, OP_attn_decode);
	*at(&c, "page_table", 0) = -1;
	c.a.attn_decode.window = 2; /* row 0 at position 5 sees 4 and 5: page 1 */
	run_call(x, &c);
	assert_int_equal(exec_status(x, NULL), NH_OK);
	c.a.attn_decode.window = 3; /* and now 3, on page 0 */
	run_call(x, &c);
	assert_int_equal(exec_status(x, NULL), NH_ERR_INTERNAL);
	call_free(&c);
	wrap_destroy(x);
	wrap_destroy(blind);
	fake_deinit(&f);
	assert_int_equal(mem_live(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(poison), cmocka_unit_test(contract), cmocka_unit_test(values)};
	return cmocka_run_group_tests_name("wrap_check", tests, NULL, NULL);
}
