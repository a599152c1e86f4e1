/* SPDX-License-Identifier: Apache-2.0
 * test_op.c: contracts. For each op a good call passes; then each operand is damaged in each way that an operand can be damaged, and the
 * check must object and name the field. What was tried is counted, so that a table that shrinks shows.
 */
#include "test.h"

#include <math.h>
#include <string.h>

#include "base/base_mem.h"
#include "helper_calls.h"

static bool names(const char *text, const char *field)
{
	char head[64];
	snprintf(head, sizeof head, "field %s:", field);
	return strncmp(text, head, strlen(head)) == 0;
}

/* op.field in a list of such words. */
static bool listed(const char *const *list, op_id id, const char *field)
{
	char word[128];
	snprintf(word, sizeof word, "%s.%s", op_name(id), field);
	for (; *list; list++)
		if (strcmp(*list, word) == 0) return true;
	return false;
}

/* Runs the check on the damaged call and demands an objection that names the field. */
static void must_name(const call *c, const char *field, const char *damage)
{
	char text[256];
	const char *wrong = op_check(c->id, &c->a, text);
	if (!wrong || !names(wrong, field)) fail_msg("%s.%s, %s: %s", op_name(c->id), field, damage, wrong ? wrong : "no objection");
}

static void good_calls(void **state)
{
	(void)state;
	int looked = 0;
	for (int id = 0; id < OP_COUNT; id++, looked++) {
		call c;
		call_make(&c, (op_id)id);
		char text[256];
		const char *wrong = op_check((op_id)id, &c.a, text);
		if (wrong) fail_msg("%s: %s", op_name((op_id)id), wrong);
		op_desc d;
		op_describe((op_id)id, &c.a, &d);
		assert_true(d.operands > 0);
		int out = 0, present = 0;
		for (int i = 0; i < d.operands; i++) out += d.operand[i].out, present += d.operand[i].t != NULL;
		assert_true(out > 0);
		assert_int_equal(present, d.operands);
		/* Every tensor of the call is described, so that wrappers see all of them. */
		assert_int_equal(present, c.tensors + (c.pages.k.data ? 2 : 0));
		int64_t rows = id == OP_gather_rows || id == OP_state_copy || id == OP_page_copy || id == OP_pool_rows ? 2 : T;
		assert_int_equal(d.rows, rows);
		call_free(&c);
	}
	assert_int_equal(looked, 24);
	assert_int_equal(mem_live(), 0);
}

typedef enum { RANK_UP, RANK_DOWN, RANK_MAD, NEGATIVE, TYPE, TYPE_NONE, TYPE_MAD, MISSING, POINTER, ROOM, STRIDE, NARROW, DAMAGES } damage;

/* Damages what t points at. False where this damage does not exist for this operand. */
static bool harm(call *c, tensor *t, const char *field, damage how)
{
	static const char *const any_shape[] = {"state_copy.pool", "page_copy.pool", "all_reduce.y", NULL};
	static const char *const any_type[] = {"gather_rows.x", "gather_rows.y", "state_copy.pool", "page_copy.pool", NULL};
	static const char *const optional[] = {
	    "linear.bias", "conv_step.bias", "conv_scan.bias", "moe_combine.shared", "logit_edit.mask", NULL};
	switch (how) {
	case RANK_UP:
		if (t->rank == TENSOR_RANK || listed(any_shape, c->id, field)) return false;
		t->shape[t->rank] = t->stride[t->rank] = 1;
		t->rank++;
		return true;
	case RANK_DOWN:
		if (t->rank == 1 || listed(any_shape, c->id, field)) return false;
		t->rank--;
		t->stride[t->rank - 1] = 1;
		return true;
	case RANK_MAD: t->rank = TENSOR_RANK + 1; return true;
	case NEGATIVE: t->shape[t->rank - 1] = -7; return true;
	case TYPE:
		if (listed(any_type, c->id, field)) return false;
		t->dtype = NUM_I16;
		return true;
	case TYPE_NONE: t->dtype = NUM_NONE; return true;
	case TYPE_MAD: t->dtype = (num_dtype)99; return true;
	case MISSING:
		if (listed(optional, c->id, field)) return false;
		memset(t, 0, sizeof *t);
		return true;
	case POINTER: return strncmp(field, "pages.", 6) != 0 && !listed(optional, c->id, field) && call_forget(c, t);
	case ROOM: t->room--; return true;
	case STRIDE:
		t->stride[t->rank - 1] = 2;
		t->room *= 2;
		return true;
	case NARROW: /* lines over each other */
		if (t->rank < 2 || t->shape[0] < 2) return false;
		t->stride[0]--;
		return true;
	case DAMAGES: break;
	}
	return false;
}

static void damaged_operands(void **state)
{
	(void)state;
	static const char *const names_of[DAMAGES] = {"rank up", "rank down", "rank 5", "negative", "type", "no type", "type 99", "missing",
	    "NULL", "room", "last stride", "narrow stride"};
	int done[DAMAGES] = {0}, operands = 0;
	for (int id = 0; id < OP_COUNT; id++) {
		call c;
		call_make(&c, (op_id)id);
		op_desc d;
		op_describe((op_id)id, &c.a, &d);
		for (int i = 0; i < d.operands; i++, operands++)
			for (int how = 0; how < DAMAGES; how++) {
				call hurt = c; /* pointers still lead into c: damage c and put it back */
				const char *field = d.operand[i].field;
				tensor *t = call_operand(&c, field);
				assert_non_null(t);
				if (harm(&c, t, field, (damage)how)) {
					must_name(&c, field, names_of[how]);
					done[how]++;
				}
				c = hurt;
			}
		char text[256];
		assert_null(op_check((op_id)id, &c.a, text)); /* all damage was repaired */
		call_free(&c);
	}
	printf("%d operands;", operands);
	for (int how = 0; how < DAMAGES; how++) printf(" %s %d", names_of[how], done[how]);
	printf("\n");
	assert_int_equal(operands, 115);
	for (int how = 0; how < DAMAGES; how++) assert_true(done[how] >= 70);
}

/* Every extent but those that nothing else fixes is checked against another operand, upwards and downwards. The objection may name either
 * side of a contradiction. */
static void damaged_extents(void **state)
{
	(void)state;
	static const char *const free_extents[] = {"embed_rows.table.0", "gather_rows.x.0", "conv_step.state.0", "conv_scan.state.0",
	    "ssm_step.state.0", "ssm_scan.state.0", "attn_decode.page_table.0", "attn_decode.page_table.1", "attn_prefill.page_table.0",
	    "attn_prefill.page_table.1", "pool_rows.x.0", "moe_combine.rows.1", "sample_rows.logits.1", "logprobs.logits.1",
	    "state_copy.pool.0", "state_copy.pool.1", "state_copy.pool.2", "state_copy.pool.3", "page_copy.pool.0", "page_copy.pool.1",
	    "page_copy.pool.2", "page_copy.pool.3", "all_reduce.y.0", "all_reduce.y.1", NULL};
	int objected = 0, free_ones = 0, named = 0;
	for (int id = 0; id < OP_COUNT; id++) {
		call c;
		call_make(&c, (op_id)id);
		op_desc d;
		op_describe((op_id)id, &c.a, &d);
		for (int i = 0; i < d.operands; i++) {
			tensor *t = call_operand(&c, d.operand[i].field), good = *t;
			for (int dim = 0; dim < good.rank; dim++)
				for (int by = -1; by <= 1; by += 2) {
					char field[64], text[256];
					snprintf(field, sizeof field, "%s.%d", d.operand[i].field, dim);
					*t = tensor_nd(good.data, good.dtype, good.rank,
					    (int64_t[]){good.shape[0] + by * (dim == 0), good.shape[1] + by * (dim == 1), good.shape[2] + by * (dim == 2),
					        good.shape[3] + by * (dim == 3)});
					const char *wrong = op_check((op_id)id, &c.a, text);
					if (listed(free_extents, (op_id)id, field)) {
						/* Growing may reach the next operand's memory. */
						if (wrong && !strstr(wrong, "overlaps")) fail_msg("%s.%s: %s", op_name((op_id)id), field, wrong);
						free_ones++;
					} else {
						if (!wrong || strstr(wrong, "overlaps"))
							fail_msg("%s.%s by %d: %s", op_name((op_id)id), field, by, wrong ? wrong : "no objection");
						assert_true(strncmp(wrong, "field ", 6) == 0);
						named += names(wrong, d.operand[i].field);
						objected++;
					}
					*t = good;
				}
		}
		call_free(&c);
	}
	printf("%d extents objected to, %d of them by the field's own name; %d free\n", objected, named, free_ones);
	assert_int_equal(free_ones, 2 * 24);
	assert_true(objected >= 300 && named >= 200);
}

/* One type of activation per call, in a fitting type: only the field's partner tells that it is wrong. */
static void mixed_types(void **state)
{
	(void)state;
	static const char *const mixed[] = {"rms_norm.y", "add_rms_norm.y", "add_rms_norm.residual", "linear.y", "add.y", "add.b",
	    "gather_rows.y", "conv_step.y", "conv_scan.y", "ssm_step.y", "ssm_step.b", "ssm_step.c", "ssm_step.dt", "ssm_scan.y", "ssm_scan.b",
	    "ssm_scan.c", "ssm_scan.dt", "gated_norm.y", "gated_norm.gate", "attn_decode.y", "attn_prefill.y", "kv_write.v", "expert_ffn.rows",
	    "moe_combine.shared", NULL};
	/* Weights, state and pages have types of their own. */
	static const char *const own[] = {"embed_rows.y", "rms_norm.w", "add_rms_norm.w", "linear.bias", "gated_norm.w", "conv_step.w",
	    "conv_step.bias", "conv_step.state", "conv_scan.w", "conv_scan.bias", "conv_scan.state", "ssm_step.d", "ssm_step.dt_bias",
	    "ssm_step.state", "ssm_scan.d", "ssm_scan.dt_bias", "ssm_scan.state", "moe_combine.rows", "logprobs.logits", "pool_rows.x", NULL};
	int refused = 0, taken = 0;
	for (int id = 0; id < OP_COUNT; id++) {
		call c;
		call_make(&c, (op_id)id);
		op_desc d;
		op_describe((op_id)id, &c.a, &d);
		for (int i = 0; i < d.operands; i++) {
			const char *field = d.operand[i].field;
			tensor *t = call_operand(&c, field), good = *t;
			t->dtype = NUM_F16;
			t->room *= 2;
			if (listed(mixed, (op_id)id, field)) must_name(&c, field, "f16 among bf16"), refused++;
			char text[256];
			if (listed(own, (op_id)id, field)) assert_null(op_check((op_id)id, &c.a, text)), taken++;
			*t = good;
		}
		call_free(&c);
	}
	assert_int_equal(refused, ARRAY_LEN(mixed) - 1);
	assert_int_equal(taken, ARRAY_LEN(own) - 1);
}

/* Each output laid over each other operand. */
static void overlaps(void **state)
{
	(void)state;
	int looked = 0, in_place = 0;
	for (int id = 0; id < OP_COUNT; id++) {
		call c;
		call_make(&c, (op_id)id);
		op_desc d;
		op_describe((op_id)id, &c.a, &d);
		for (int i = 0; i < d.operands; i++)
			for (int j = 0; j < d.operands; j++) {
				if (i == j || !d.operand[i].out) continue;
				tensor *t = call_operand(&c, d.operand[i].field), good = *t;
				char text[256];
				t->data = d.operand[j].t->data;
				const char *wrong = op_check((op_id)id, &c.a, text);
				if (id == OP_add) {
					assert_null(wrong);
					in_place++;
					t->data = (char *)t->data + 2; /* in place, but moved by one element */
					wrong = op_check((op_id)id, &c.a, text);
				}
				if (!wrong || !strstr(wrong, "overlaps"))
					fail_msg(
					    "%s: %s on %s: %s", op_name((op_id)id), d.operand[i].field, d.operand[j].field, wrong ? wrong : "no objection");
				/* One byte before its end is still an overlap, its end is none. */
				t->data = (char *)d.operand[j].t->data + tensor_bytes(d.operand[j].t) - 1;
				assert_non_null(op_check((op_id)id, &c.a, text));
				*t = good;
				looked++;
			}
		call_free(&c);
	}
	printf("%d pairs\n", looked);
	assert_true(looked >= 90);
	assert_int_equal(in_place, 2);
}

/* Two column views of one matrix interleave without touching; moved by one column they touch. */
static void interleaved_columns(void **state)
{
	(void)state;
	uint16_t data[3 * 20] = {0}, w[8] = {0};
	tensor m = tensor_2d(data, NUM_BF16, 3, 20), y = tensor_cols(&m, 0, 8), x = tensor_cols(&m, 8, 8), weights = tensor_1d(w, NUM_BF16, 8);
	op_rms_norm a = {.y = &y, .x = &x, .w = &weights, .eps = 1e-5f};
	char text[256];
	assert_null(op_check_rms_norm(&a, text));
	x = tensor_cols(&m, 7, 8);
	assert_string_equal(op_check_rms_norm(&a, text), "field y: overlaps x");
	x = tensor_cols(&m, 12, 8);
	assert_null(op_check_rms_norm(&a, text));
	tensor low = tensor_rows(&m, 1, 2);
	x = tensor_cols(&m, 0, 8);
	y = tensor_cols(&low, 10, 8);
	x.shape[0] = y.shape[0] = 2;
	assert_null(op_check_rms_norm(&a, text));
	y = tensor_cols(&low, 6, 8);
	assert_non_null(op_check_rms_norm(&a, text));
	/* From column 13 on, 8 columns run one over the end of the line, into the first of the next; from 12 on they do not. */
	y = (tensor){.data = data + 13, .dtype = NUM_BF16, .rank = 2, .shape = {2, 8}, .stride = {20, 1}, .room = sizeof data - 26};
	assert_non_null(op_check_rms_norm(&a, text));
	y.data = data + 12;
	assert_null(op_check_rms_norm(&a, text));
	/* From column 15 on it runs over the end of the line, into the first columns of the next. */
	y = (tensor){.data = data + 15, .dtype = NUM_BF16, .rank = 2, .shape = {2, 8}, .stride = {20, 1}, .room = sizeof data - 30};
	assert_non_null(op_check_rms_norm(&a, text));
	/* Different line lengths over one another: always an overlap. */
	tensor other = tensor_2d(data, NUM_BF16, 5, 12);
	y = tensor_cols(&m, 0, 4);
	y.shape[0] = 3;
	other = tensor_rows(&other, 0, 3);
	x = tensor_cols(&other, 6, 4);
	weights.shape[0] = 4;
	assert_non_null(op_check_rms_norm(&a, text));
}

static void texts(void **state)
{
	(void)state;
	call c;
	char text[256];
	call_make(&c, OP_linear);
	tensor *y = call_operand(&c, "y");
	*y = tensor_2d(y->data, NUM_BF16, 3, 12);
	assert_string_equal(op_check(OP_linear, &c.a, text), "field y: shape [3, 12], expected [3, 24]");
	*y = tensor_2d(y->data, NUM_I32, 3, 24);
	assert_string_equal(op_check(OP_linear, &c.a, text), "field y: type i32, expected f64 f32 f16 bf16");
	*y = tensor_2d(y->data, NUM_BF16, 3, 24);
	y->room = 143;
	assert_string_equal(op_check(OP_linear, &c.a, text), "field y: shape [3, 24] does not fit its room of 143 bytes");
	*y = tensor_2d(NULL, NUM_F32, 3, 24); /* wider than x: router logits */
	assert_null(op_check(OP_linear, &c.a, text));
	tensor *x = call_operand(&c, "x");
	*x = tensor_1d(x->data, NUM_BF16, 16);
	assert_string_equal(op_check(OP_linear, &c.a, text), "field x: shape [16], expected [*, *]");
	call_free(&c);
	assert_string_equal(op_check(OP_COUNT, &c, text), "op 24 is not in the list");
	assert_string_equal(op_check((op_id)-1, &c, text), "op -1 is not in the list");
}

/* Another last extent, contiguous and with room. */
static void width(call *c, const char *field, int64_t n)
{
	tensor *t = call_operand(c, field);
	*t = t->rank == 1 ? tensor_1d(t->data, t->dtype, n) : tensor_2d(t->data, t->dtype, t->shape[0], n);
}

/* Scalars and matrices: a value, and the field that must be named. */
#define HURT(name, op, statement) \
	static void name(call *c)     \
	{                             \
		op_##op *a = &c->a.op;    \
		(void)a;                  \
		statement;                \
	}
HURT(eps_nan, rms_norm, a->eps = NAN)
HURT(eps_negative, rms_norm, a->eps = -1)
HURT(eps_add, add_rms_norm, a->eps = INFINITY)
HURT(eps_gated, gated_norm, a->eps = -1)
HURT(no_matrix, linear, a->w = NULL)
HURT(scheme_mad, linear, c->w.scheme = (num_scheme)7)
HURT(matrix_type, linear, c->w.dtype = NUM_E4M3)
HURT(fp8_type, linear, (call_scheme(c, NUM_SCHEME_FP8), c->w.dtype = NUM_BF16))
HURT(fp8_input, linear, (call_scheme(c, NUM_SCHEME_FP8), c->w.input_scale = 0))
HURT(fp4_type, linear, (call_scheme(c, NUM_SCHEME_NVFP4), c->w.dtype = NUM_U8))
HURT(fp4_blocks, linear, (call_scheme(c, NUM_SCHEME_W4A16), c->w.block_scale = NULL))
HURT(matrix_k, linear, c->w.k++)
HURT(act_mad, linear, a->act = (op_act)2)
HURT(decode_rows, linear, a->decode_rows = T + 1)
HURT(decode_negative, linear, a->decode_rows = -1)
HURT(groups_zero, ssm_step, a->groups = 0)
HURT(groups_odd, ssm_step, a->groups = 3)
HURT(groups_scan, ssm_scan, a->groups = -1)
HURT(chunk_zero, ssm_scan, a->chunk = 0)
HURT(groups_norm, gated_norm, a->groups = 5)
HURT(kv_heads_zero, attn_decode, a->kv_heads = 0)
HURT(head_dim_zero, attn_prefill, a->head_dim = 0)
HURT(page_tokens_zero, attn_decode, a->page_tokens = 0)
HURT(page_tokens_other, attn_decode, a->page_tokens = PT + 1)
HURT(window_negative, attn_prefill, a->window = -1)
HURT(scale_nan, attn_prefill, a->scale = NAN)
HURT(no_pages, attn_prefill, a->pages = NULL)
HURT(no_pages_write, kv_write, a->pages = NULL)
HURT(k_scale_zero, kv_write, c->pages.k_scale = 0)
HURT(v_scale_nan, attn_decode, c->pages.v_scale = NAN)
HURT(q_width, attn_decode, (width(c, "y", 24), width(c, "q", 24)))
HURT(n_group_odd, route, a->n_group = 4)
HURT(n_group_zero, route, a->n_group = 0)
HURT(topk_group_many, route, a->topk_group = 4)
HURT(choices_many, route, (a->n_group = 6, a->topk_group = 1))
HURT(no_experts, expert_ffn, a->experts = NULL)
HURT(experts_zero, expert_ffn, c->experts.E = 0)
HURT(expert_shape, expert_ffn, c->up[EX - 1].n++)
HURT(expert_down, expert_ffn, c->down[2].n++)
HURT(expert_scheme, expert_ffn, (c->down[EX - 1].scheme = NUM_SCHEME_FP8, c->down[EX - 1].dtype = NUM_E4M3))
HURT(expert_input, expert_ffn, (call_scheme(c, NUM_SCHEME_FP8), c->experts.up_input = 0))
HURT(expert_input_down, expert_ffn, (call_scheme(c, NUM_SCHEME_FP8), c->experts.down_input = NAN))
HURT(expert_decode, expert_ffn, a->decode_rows = T + 1)
HURT(factor_nan, moe_combine, a->factor = NAN)
HURT(biases_negative, logit_edit, a->biases = -1)
HURT(bias_missing, logit_edit, a->bias = NULL)
HURT(seen_missing, logit_edit, a->seen = NULL)
HURT(counts_missing, logit_edit, (a->counts = NULL, a->presence = NULL))
HURT(rows_missing, sample_rows, a->rows = NULL)
HURT(wanted_missing, logprobs, a->ids = NULL)
HURT(top_wide, logprobs, (width(c, "top_ids", V + 1), width(c, "top_lp", V + 1)))
HURT(how_mad, pool_rows, a->how = (op_pool)2)
HURT(start_empty, pool_rows, width(c, "start", 0))

#define ROW(name, op, field)        \
	{                               \
#name, OP_##op, field, name \
	}
static const struct {
	const char *what;
	op_id id;
	const char *field;
	void (*hurt)(call *c);
} SCALARS[] = {ROW(eps_nan, rms_norm, "eps"), ROW(eps_negative, rms_norm, "eps"), ROW(eps_add, add_rms_norm, "eps"),
    ROW(eps_gated, gated_norm, "eps"), ROW(no_matrix, linear, "w"), ROW(scheme_mad, linear, "w"), ROW(matrix_type, linear, "w"),
    ROW(fp8_type, linear, "w"), ROW(fp8_input, linear, "w"), ROW(fp4_type, linear, "w"), ROW(fp4_blocks, linear, "w"),
    ROW(matrix_k, linear, "w"), ROW(act_mad, linear, "act"), ROW(decode_rows, linear, "decode_rows"),
    ROW(decode_negative, linear, "decode_rows"), ROW(groups_zero, ssm_step, "groups"), ROW(groups_odd, ssm_step, "groups"),
    ROW(groups_scan, ssm_scan, "groups"), ROW(chunk_zero, ssm_scan, "chunk"), ROW(groups_norm, gated_norm, "groups"),
    ROW(kv_heads_zero, attn_decode, "kv_heads"), ROW(head_dim_zero, attn_prefill, "head_dim"),
    ROW(page_tokens_zero, attn_decode, "page_tokens"), ROW(page_tokens_other, attn_decode, "pages.k"),
    ROW(window_negative, attn_prefill, "window"), ROW(scale_nan, attn_prefill, "scale"), ROW(no_pages, attn_prefill, "pages"),
    ROW(no_pages_write, kv_write, "pages"), ROW(k_scale_zero, kv_write, "pages.k_scale"), ROW(v_scale_nan, attn_decode, "pages.v_scale"),
    ROW(q_width, attn_decode, "q"), ROW(n_group_odd, route, "n_group"), ROW(n_group_zero, route, "n_group"),
    ROW(topk_group_many, route, "topk_group"), ROW(choices_many, route, "idx"), ROW(no_experts, expert_ffn, "experts"),
    ROW(experts_zero, expert_ffn, "experts"), ROW(expert_shape, expert_ffn, "experts.up"), ROW(expert_down, expert_ffn, "experts.down"),
    ROW(expert_scheme, expert_ffn, "experts"), ROW(expert_input, expert_ffn, "experts.up_input"),
    ROW(expert_input_down, expert_ffn, "experts.down_input"), ROW(expert_decode, expert_ffn, "decode_rows"),
    ROW(factor_nan, moe_combine, "factor"), ROW(biases_negative, logit_edit, "biases"), ROW(bias_missing, logit_edit, "bias"),
    ROW(seen_missing, logit_edit, "seen"), ROW(counts_missing, logit_edit, "counts"), ROW(rows_missing, sample_rows, "rows"),
    ROW(wanted_missing, logprobs, "ids"), ROW(top_wide, logprobs, "top_ids"), ROW(how_mad, pool_rows, "how"),
    ROW(start_empty, pool_rows, "start")};

static void damaged_scalars(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(SCALARS); i++) {
		call c;
		call_make(&c, SCALARS[i].id);
		SCALARS[i].hurt(&c);
		must_name(&c, SCALARS[i].field, SCALARS[i].what);
		call_free(&c);
	}
	printf("%zu scalars and matrices\n", ARRAY_LEN(SCALARS));
	assert_true(ARRAY_LEN(SCALARS) >= 50);
}

/* All schemes, shapes without data, absent optional operands, empty batches: all good calls. */
static void accepted(void **state)
{
	(void)state;
	int looked = 0;
	char text[256];
	for (int s = 0; s < NUM_SCHEME_COUNT; s++)
		for (int i = 0; i < 2; i++, looked++) {
			call c;
			call_make(&c, i ? OP_expert_ffn : OP_linear);
			call_scheme(&c, (num_scheme)s);
			assert_null(op_check(c.id, &c.a, text));
			c.w.data = c.w.block_scale = NULL; /* shapes only: what a dry run has */
			c.w.input_scale = 0;
			for (int e = 0; e < EX; e++) c.up[e].data = c.down[e].data = c.up[e].block_scale = c.down[e].block_scale = NULL;
			c.experts.up_input = c.experts.down_input = 0;
			assert_null(op_check(c.id, &c.a, text));
			call_free(&c);
		}
	static const char *const optional[][2] = {
	    {"linear", "bias"}, {"conv_step", "bias"}, {"conv_scan", "bias"}, {"moe_combine", "shared"}, {"logit_edit", "mask"}};
	for (int id = 0; id < OP_COUNT; id++) {
		call c;
		call_make(&c, (op_id)id);
		for (size_t i = 0; i < ARRAY_LEN(optional); i++)
			if (strcmp(optional[i][0], op_name((op_id)id)) == 0) {
				assert_true(call_forget(&c, call_operand(&c, optional[i][1])));
				assert_null(op_check((op_id)id, &c.a, text));
				looked++;
			}
		for (int i = 0; i < c.tensors; i++) c.t[i].data = NULL; /* no memory anywhere */
		c.pages.k.data = c.pages.v.data = NULL;
		assert_null(op_check((op_id)id, &c.a, text));
		looked++;
		call_free(&c);
	}
	call c;
	call_make(&c, OP_logprobs);
	c.a.logprobs.top_ids = c.a.logprobs.top_lp = NULL;
	assert_null(op_check(OP_logprobs, &c.a, text));
	c.a.logprobs.ids = c.a.logprobs.lp = c.a.logprobs.rank = NULL;
	assert_null(op_check(OP_logprobs, &c.a, text));
	call_free(&c);
	call_make(&c, OP_linear);
	call_operand(&c, "x")->shape[0] = call_operand(&c, "y")->shape[0] = 0;
	c.a.linear.decode_rows = 0;
	assert_null(op_check(OP_linear, &c.a, text));
	call_free(&c);
	assert_int_equal(looked, 8 + 5 + 24);
}

static void by_id(void **state)
{
	(void)state;
	assert_string_equal(op_name(OP_embed_rows), "embed_rows");
	assert_string_equal(op_name(OP_all_reduce), "all_reduce");
	assert_string_equal(op_name(OP_COUNT), "?");
	assert_string_equal(op_name((op_id)-1), "?");
	op_desc d;
	op_cost cost;
	memset(&d, 0xFF, sizeof d);
	memset(&cost, 0xFF, sizeof cost);
	op_describe(OP_COUNT, NULL, &d);
	op_cost_of(OP_COUNT, NULL, 5, &cost);
	assert_int_equal(d.operands, 0);
	assert_true(cost.flops == 0 && cost.weight_bytes == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(good_calls), cmocka_unit_test(damaged_operands), cmocka_unit_test(damaged_extents),
	    cmocka_unit_test(mixed_types), cmocka_unit_test(overlaps), cmocka_unit_test(interleaved_columns), cmocka_unit_test(texts),
	    cmocka_unit_test(damaged_scalars), cmocka_unit_test(accepted), cmocka_unit_test(by_id)};
	return cmocka_run_group_tests_name("op", tests, NULL, NULL);
}
