/* SPDX-License-Identifier: Apache-2.0
 * test_wrap.c: wrappers change nothing that is computed, mirror what the inner exec says, and say themselves what they are for.
 */
#include "test.h"

#include <string.h>

#include "base/base_buf.h"
#include "base/base_mem.h"
#include "exec/backend.h"
#include "exec/wrap.h"
#include "helper_fake.h"

static void collect(void *user, const char *line)
{
	buf_str(user, line);
	buf_char(user, '\n');
}

typedef struct taps {
	int before, after;
	op_id last;
	exec *x;
	bool fail;
} taps;

static void tapped(void *user, exec *x, op_id op, const void *args, bool after)
{
	taps *t = user;
	assert_non_null(args);
	if (after) {
		t->after++;
		assert_int_equal(op, t->last);
	} else {
		t->before++;
		t->last = op;
		if (t->fail) exec_fail(x, op, NH_ERR_CANCELLED, "the tap says no");
	}
	t->x = x;
}

static void same_memory(const call *a, const call *b)
{
	op_desc d, o;
	op_describe(a->id, &a->a, &d);
	op_describe(b->id, &b->a, &o);
	for (int i = 0; i < d.operands; i++) assert_memory_equal(d.operand[i].t->data, o.operand[i].t->data, tensor_bytes(d.operand[i].t));
}

/* Every op, twice, plain and through all four wrappers: the same bytes in every operand. */
static void nothing_changes(void **state)
{
	(void)state;
	fake plain, f;
	fake_init(&plain);
	fake_init(&f);
	const backend host = {.name = "fake", .host_memory = true};
	f.x.backend = &host;
	f.x.layer = plain.x.layer = 11;
	buf text = {0};
	taps t = {0};
	exec *check = wrap_check_create(&f.x, true), *profile = wrap_profile_create(check);
	exec *trace = wrap_trace_create(profile, true, collect, &text), *x = wrap_tap_create(trace, tapped, &t);
	assert_non_null(x);
	assert_ptr_equal(x->num, f.x.num);
	assert_ptr_equal(x->scratch, f.x.scratch);
	assert_ptr_equal(x->backend, &host);
	assert_int_equal(x->layer, 11);
	assert_memory_equal(&x->types, &f.x.types, sizeof x->types);
	int looked = 0;
	for (int id = 0; id < OP_COUNT; id++) {
		call a, b;
		call_make(&a, (op_id)id);
		call_make(&b, (op_id)id);
		x->layer = plain.x.layer = id;
		for (int i = 0; i < 2; i++) {
			run_call(&plain.x, &a);
			run_call(x, &b);
			nh_error e = {0};
			if (exec_status(x, &e) != NH_OK) fail_msg("%s", e.text);
			same_memory(&a, &b);
			looked++;
		}
		assert_int_equal(f.layer, id);
		const profile_row *row = &wrap_profile_rows(profile)[id];
		assert_int_equal(row->calls, 2);
		assert_int_equal(row->rows, x->counters.op[id].rows);
		op_cost one;
		uint64_t context = id == OP_attn_decode || id == OP_attn_prefill ? 6 + 1 + 4 : 0;
		op_cost_of((op_id)id, &b.a, context, &one);
		assert_int_equal(row->cost.state_bytes, 2 * one.state_bytes);
		assert_int_equal(row->cost.weight_bytes, 2 * one.weight_bytes);
		assert_int_equal(row->cost.activation_bytes, 2 * one.activation_bytes);
		assert_int_equal(row->cost.flops, 2 * one.flops);
		call_free(&a);
		call_free(&b);
	}
	assert_int_equal(looked, 2 * OP_COUNT);
	assert_int_equal(f.calls, 2 * OP_COUNT);
	assert_memory_equal(&x->counters, &f.x.counters, sizeof x->counters);
	assert_memory_equal(&plain.x.counters, &f.x.counters, sizeof x->counters);
	assert_int_equal(t.before, 2 * OP_COUNT);
	assert_int_equal(t.after, 2 * OP_COUNT);
	assert_ptr_equal(t.x, x);
	wrap_profile_reset(profile);
	assert_int_equal(wrap_profile_rows(profile)[OP_linear].calls, 0);
	exec_reset_counters(x);
	assert_int_equal(f.x.counters.op[OP_linear].calls, 0);

	buf_deinit(&text);
	wrap_destroy(x);
	wrap_destroy(trace);
	wrap_destroy(profile);
	wrap_destroy(check);
	wrap_destroy(NULL);
	fake_deinit(&f);
	fake_deinit(&plain);
	assert_int_equal(mem_live(), 0);
}

static void errors_are_mirrored(void **state)
{
	(void)state;
	fake f;
	fake_init(&f);
	taps t = {0};
	exec *profile = wrap_profile_create(&f.x), *x = wrap_tap_create(profile, tapped, &t);
	call c;
	call_make(&c, OP_linear);
	f.fail_at = OP_linear;
	x->layer = 5;
	run_call(x, &c);
	nh_error e;
	assert_int_equal(exec_status(x, &e), NH_ERR_BACKEND);
	assert_string_equal(e.text, "fake: linear, layer 5: told to fail");
	assert_int_equal(exec_status(profile, NULL), NH_ERR_BACKEND);
	assert_int_equal(wrap_profile_rows(profile)[OP_linear].calls, 0);
	assert_int_equal(t.after, 1); /* the op ran, and the tap may look at what it left */
	run_call(x, &c);
	x->ops->linear(x, &c.a.linear); /* even past the macro */
	assert_int_equal(f.calls, 1);

	exec_clear(x); /* clears inwards */
	assert_int_equal(exec_status(&f.x, NULL), NH_OK);
	f.fail_at = OP_COUNT;
	run_call(x, &c);
	assert_int_equal(exec_status(x, NULL), NH_OK);
	assert_int_equal(f.calls, 2);

	/* An inner failure that nobody saw yet is seen at the next call, and the op does not run. */
	exec_fail(&f.x, OP_add, NH_ERR_IO, "elsewhere");
	run_call(x, &c);
	assert_int_equal(exec_status(x, NULL), NH_ERR_IO);
	assert_int_equal(f.calls, 2);
	exec_clear(x);

	t.fail = true;
	run_call(x, &c);
	assert_int_equal(exec_status(x, NULL), NH_ERR_CANCELLED);
	assert_int_equal(f.calls, 2);
	exec_clear(x);
	t.fail = false;

	/* Scratch that runs out inside the arm. */
	f.want_scratch = 5000;
	run_call(x, &c);
	assert_int_equal(exec_status(x, NULL), NH_ERR_NOMEM);
	exec_clear(x);
	arena more;
	assert_true(arena_init_fixed(&more, 8192));
	x->scratch = &more; /* set on the outer end: the arm gets it */
	run_call(x, &c);
	assert_int_equal(exec_status(x, NULL), NH_OK);
	assert_ptr_equal(f.x.scratch, &more);
	arena_deinit(&more);

	call_free(&c);
	wrap_destroy(x);
	wrap_destroy(profile);
	fake_deinit(&f);
	assert_int_equal(mem_live(), 0);
}

static void out_of_memory(void **state)
{
	(void)state;
	fake f;
	fake_init(&f);
	buf text = {0};
	taps t = {0};
	mem_fail_after(0);
	assert_null(wrap_check_create(&f.x, true));
	assert_null(wrap_profile_create(&f.x));
	assert_null(wrap_trace_create(&f.x, true, collect, &text));
	assert_null(wrap_tap_create(&f.x, tapped, &t));
	assert_null(dry_create(f.x.num, NUM_F64));
	mem_fail_after(SIZE_MAX);
	/* A trace line that finds no memory fails the exec. */
	exec *x = wrap_trace_create(&f.x, true, collect, &text);
	call c;
	call_make(&c, OP_add);
	mem_fail_after(0);
	run_call(x, &c);
	mem_fail_after(SIZE_MAX);
	assert_int_equal(exec_status(x, NULL), NH_ERR_NOMEM);
	call_free(&c);
	buf_deinit(&text);
	wrap_destroy(x);
	fake_deinit(&f);
	assert_int_equal(mem_live(), 0);
}

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

/* Traces: equal for equal runs, different where one output bit differs, without data where memory is elsewhere. */
static void traces(void **state)
{
	(void)state;
	fake f;
	fake_init(&f);
	int looked = 0, digests = 0;
	for (int id = 0; id < OP_COUNT; id++) {
		char first[2048] = "";
		for (int round = 0; round < 3; round++) {
			buf text = {0};
			exec *x = wrap_trace_create(&f.x, true, collect, &text);
			call c;
			call_make(&c, (op_id)id);
			f.nan = round == 2; /* another output */
			x->layer = 4;
			run_call(x, &c);
			char head[64];
			snprintf(head, sizeof head, "%s layer=4 ", op_name((op_id)id));
			assert_int_equal(strncmp(text.data, head, strlen(head)), 0);
			assert_non_null(strstr(text.data, " > "));
			if (round == 0) {
				snprintf(first, sizeof first, "%s", text.data);
				op_desc d;
				op_describe((op_id)id, &c.a, &d);
				for (int i = 0; i < d.operands; i++) {
					char field[64];
					snprintf(field, sizeof field, " %s=", d.operand[i].field);
					assert_non_null(strstr(text.data, field));
					if (d.operand[i].out) assert_non_null(strstr(strstr(text.data, " > "), field)), digests++;
				}
			} else if (round == 1) {
				assert_string_equal(text.data, first);
			} else if (id != OP_sample_rows && id != OP_kv_write && id != OP_logit_edit && id != OP_state_copy && id != OP_page_copy &&
			           id != OP_all_reduce) {
				assert_string_not_equal(text.data, first); /* the others have no float output of their own */
			}
			looked++;
			call_free(&c);
			buf_deinit(&text);
			wrap_destroy(x);
		}
	}
	f.nan = false;
	assert_int_equal(looked, 3 * OP_COUNT);
	assert_int_equal(digests, 34);

	buf text = {0};
	exec *x = wrap_trace_create(&f.x, false, collect, &text);
	call c;
	call_make(&c, OP_add);
	x->layer = -1;
	run_call(x, &c);
	assert_string_equal(text.data, "add layer=-1 y=bf16[3,16] a=bf16[3,16] b=bf16[3,16]\n");
	f.fail_at = OP_add;
	run_call(x, &c);
	assert_non_null(strstr(text.data, "b=bf16[3,16] > failed\n"));
	call_free(&c);
	buf_deinit(&text);
	wrap_destroy(x);
	fake_deinit(&f);
}

/* The digest of a pool covers the slots that were written, each of them, and no other. */
static void trace_of_pools(void **state)
{
	(void)state;
	static const struct {
		op_id id;
		const char *field;
		int64_t unit; /* elements of a slot */
		int slots;
		bool written[PG * PT];
	} pools[] = {{OP_conv_step, "state", (TAPS - 1) * C, ST, {[0] = true, [1] = true, [2] = true}},
	    {OP_conv_scan, "state", (TAPS - 1) * C, ST, {[1] = true, [4] = true}},
	    {OP_ssm_step, "state", H * P * N, ST, {[0] = true, [1] = true, [2] = true}},
	    {OP_ssm_scan, "state", H * P * N, ST, {[1] = true, [4] = true}},
	    {OP_kv_write, "pages.k", KV * HD, PG * PT, {[0] = true, [18] = true}},
	    {OP_kv_write, "pages.v", KV * HD, PG * PT, {[0] = true, [18] = true}},
	    {OP_state_copy, "pool", H * P * N, ST, {[1] = true, [3] = true}},
	    {OP_page_copy, "pool", PT * KV * HD, PG, {[1] = true, [3] = true}}};
	fake f;
	fake_init(&f);
	int looked = 0;
	for (size_t i = 0; i < ARRAY_LEN(pools); i++) {
		buf plain = {0};
		for (int slot = -1; slot < pools[i].slots; slot++) {
			buf text = {0};
			exec *x = wrap_trace_create(&f.x, true, collect, &text);
			call c;
			call_make(&c, pools[i].id);
			tensor *pool = call_operand(&c, pools[i].field);
			/* The top exponent bit of the slot's last element. The fake adds to it as to all others. */
			if (slot >= 0) ((uint8_t *)pool->data)[(size_t)((slot + 1) * pools[i].unit) * num_bytes(pool->dtype) - 1] ^= 0x40;
			run_call(x, &c);
			if (slot < 0) {
				plain = text;
				memset(&text, 0, sizeof text);
			} else {
				if ((strcmp(text.data, plain.data) != 0) != pools[i].written[slot])
					fail_msg("%s.%s slot %d: %s%s", op_name(pools[i].id), pools[i].field, slot, plain.data, text.data);
				looked++;
			}
			call_free(&c);
			buf_deinit(&text);
			wrap_destroy(x);
		}
		buf_deinit(&plain);
	}
	assert_int_equal(looked, 5 * ST + 2 * PG * PT + PG);
	fake_deinit(&f);
	assert_int_equal(mem_live(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_changes), cmocka_unit_test(errors_are_mirrored),
	    cmocka_unit_test(out_of_memory), cmocka_unit_test(poison), cmocka_unit_test(contract), cmocka_unit_test(values),
	    cmocka_unit_test(traces), cmocka_unit_test(trace_of_pools)};
	return cmocka_run_group_tests_name("wrap", tests, NULL, NULL);
}
