/* SPDX-License-Identifier: Apache-2.0
 * bench_case_state.c: the ops that have a memory, at the 30B shapes: conv and SSM in both forms, attention over pages.
 * The invariant that breaks first: a row's slot or pages are its own within a call, and successive calls go through all of them.
 */
#include <stdio.h>
#include <string.h>

#include "cmd/bench/bench_case.h"
#include "num/num_conv.h"

#define HEADS 64
#define HEAD_DIM 64
#define STATES 128
#define GROUPS 8
#define CHANNELS (HEADS * HEAD_DIM + 2 * GROUPS * STATES)
#define TAPS 4
#define CHUNK 128
#define Q_HEADS 32
#define KV_HEADS 2
#define KV_DIM 128
#define PAGE 64

typedef struct state_self {
	tensor x, y, b, c, dt, a, d, dt_bias, w, bias, pool, seg_row, zero;
	tensor slot; /* [rows * sets] i32: set k is a view */
	tensor set;
	int64_t sets;
	op_conv_step conv_step;
	op_conv_scan conv_scan;
	op_ssm_step ssm_step;
	op_ssm_scan ssm_scan;
} state_self;

static int32_t same(void *user, int64_t i)
{
	(void)user;
	return (int32_t)i;
}

static int32_t by_rows(void *user, int64_t i) { return (int32_t)(i * *(const int64_t *)user); }

static int32_t nothing(void *user, int64_t i)
{
	(void)user, (void)i;
	return 0;
}

static void costs(op_case *c, op_id op, const void *args)
{
	op_cost cost;
	op_cost_of(op, args, 0, &cost);
	c->bytes = (double)(cost.weight_bytes + cost.state_bytes);
	c->activation_bytes = (double)cost.activation_bytes;
	c->flops = (double)cost.flops;
}

static void turn_to(op_case *c, uint64_t turn)
{
	state_self *s = c->self;
	int64_t n = s->slot.shape[0] / s->sets;
	s->set = tensor_rows(&s->slot, (int64_t)(turn % (uint64_t)s->sets) * n, n);
}

static void call_conv_step(op_case *c, uint64_t turn)
{
	turn_to(c, turn);
	c->m.x->ops->conv_step(c->m.x, &((state_self *)c->self)->conv_step);
}

static void call_conv_scan(op_case *c, uint64_t turn)
{
	turn_to(c, turn);
	c->m.x->ops->conv_scan(c->m.x, &((state_self *)c->self)->conv_scan);
}

static void call_ssm_step(op_case *c, uint64_t turn)
{
	turn_to(c, turn);
	c->m.x->ops->ssm_step(c->m.x, &((state_self *)c->self)->ssm_step);
}

static void call_ssm_scan(op_case *c, uint64_t turn)
{
	turn_to(c, turn);
	c->m.x->ops->ssm_scan(c->m.x, &((state_self *)c->self)->ssm_scan);
}

/* Slots for `lines` rows or segments a call, so many sets that a pool of rotate_bytes is gone through. */
static void slots(op_case *c, int64_t lines, int64_t slot_bytes)
{
	state_self *s = c->self;
	s->sets = c->in_cache ? 1 : (int64_t)c->rotate_bytes / (lines * slot_bytes) + 1;
	s->slot = made_i32(&c->m, lines * s->sets, same, NULL);
	s->set = tensor_rows(&s->slot, 0, lines);
	s->seg_row = made_i32(&c->m, 2, by_rows, &c->rows);
	s->zero = made_i32(&c->m, lines, nothing, NULL);
}

static void set_conv(op_case *c)
{
	state_self *s = c->self;
	exec *x = c->m.x;
	int64_t lines = c->decode ? c->rows : 1;
	c->format = num_dtype_name(x->types.conv_state);
	snprintf(c->shape, sizeof c->shape, "%dx%d", CHANNELS, TAPS);
	slots(c, lines, (TAPS - 1) * CHANNELS * (int64_t)num_bytes(x->types.conv_state));
	s->x = MADE(&c->m, x->types.act, 1.0, c->rows, CHANNELS);
	s->y = MADE(&c->m, x->types.act, 0.0, c->rows, CHANNELS);
	s->w = MADE(&c->m, NUM_BF16, 0.3, CHANNELS, TAPS);
	s->bias = MADE(&c->m, NUM_BF16, 0.1, CHANNELS);
	s->pool = MADE(&c->m, x->types.conv_state, 1.0, lines * s->sets, TAPS - 1, CHANNELS);
	s->conv_step =
	    (op_conv_step){.y = &s->y, .x = &s->x, .state = &s->pool, .w = &s->w, .bias = &s->bias, .slot_in = &s->set, .slot_out = &s->set};
	s->conv_scan = (op_conv_scan){.y = &s->y,
	    .x = &s->x,
	    .state = &s->pool,
	    .w = &s->w,
	    .bias = &s->bias,
	    .seg_row = &s->seg_row,
	    .seg_in = &s->set,
	    .seg_out = &s->set};
	costs(c, c->decode ? OP_conv_step : OP_conv_scan, c->decode ? (void *)&s->conv_step : (void *)&s->conv_scan);
	c->call = c->decode ? call_conv_step : call_conv_scan;
}

static void set_ssm(op_case *c)
{
	state_self *s = c->self;
	exec *x = c->m.x;
	int64_t lines = c->decode ? c->rows : 1, inner = HEADS * HEAD_DIM, bc = GROUPS * STATES;
	c->format = num_dtype_name(x->types.ssm_state);
	snprintf(c->shape, sizeof c->shape, "%dx%dx%d", HEADS, HEAD_DIM, STATES);
	slots(c, lines, inner * STATES * (int64_t)num_bytes(x->types.ssm_state));
	s->x = MADE(&c->m, x->types.act, 1.0, c->rows, inner);
	s->y = MADE(&c->m, x->types.act, 0.0, c->rows, inner);
	s->b = MADE(&c->m, x->types.act, 0.3, c->rows, bc);
	s->c = MADE(&c->m, x->types.act, 0.3, c->rows, bc);
	s->dt = MADE(&c->m, x->types.act, 0.5, c->rows, HEADS);
	s->a = MADE(&c->m, x->types.wide, 0.0, HEADS);
	s->d = MADE(&c->m, NUM_F32, 0.5, HEADS);
	s->dt_bias = MADE(&c->m, NUM_F32, 0.5, HEADS);
	s->pool = MADE(&c->m, x->types.ssm_state, 0.1, lines * s->sets, HEADS, HEAD_DIM, STATES);
	if (c->m.status != NH_OK) return;
	for (size_t i = 0; i < HEADS; i++) num_store(x->types.wide, s->a.data, i, -0.5 - (double)i / HEADS);
	s->ssm_step = (op_ssm_step){.y = &s->y,
	    .x = &s->x,
	    .b = &s->b,
	    .c = &s->c,
	    .dt = &s->dt,
	    .a = &s->a,
	    .d = &s->d,
	    .dt_bias = &s->dt_bias,
	    .state = &s->pool,
	    .slot_in = &s->set,
	    .slot_out = &s->set,
	    .groups = GROUPS};
	s->ssm_scan = (op_ssm_scan){.y = &s->y,
	    .x = &s->x,
	    .b = &s->b,
	    .c = &s->c,
	    .dt = &s->dt,
	    .a = &s->a,
	    .d = &s->d,
	    .dt_bias = &s->dt_bias,
	    .state = &s->pool,
	    .seg_row = &s->seg_row,
	    .seg_pos = &s->zero,
	    .seg_origin = &s->zero,
	    .seg_in = &s->set,
	    .seg_out = &s->set,
	    .groups = GROUPS,
	    .chunk = CHUNK};
	costs(c, c->decode ? OP_ssm_step : OP_ssm_scan, c->decode ? (void *)&s->ssm_step : (void *)&s->ssm_scan);
	c->call = c->decode ? call_ssm_step : call_ssm_scan;
}

/* --- attention --- */

typedef struct attn_self {
	tensor q, y, pos, seq, table, set;
	kv_pages pages;
	int64_t sets, lines, line_pages;
	op_attn_decode decode;
	op_attn_prefill prefill;
} attn_self;

static void call_attn(op_case *c, uint64_t turn)
{
	attn_self *s = c->self;
	s->set = tensor_rows(&s->table, (int64_t)(turn % (uint64_t)s->sets) * s->lines, s->lines);
	if (c->decode) c->m.x->ops->attn_decode(c->m.x, &s->decode);
	else c->m.x->ops->attn_prefill(c->m.x, &s->prefill);
}

static int32_t position(void *user, int64_t i)
{
	const op_case *c = user;
	return (int32_t)(c->decode ? c->context - 1 : c->context - c->rows + i);
}

static void set_attn(op_case *c)
{
	attn_self *s = c->self;
	exec *x = c->m.x;
	num_dtype kv = strcmp(c->format, "fp8") == 0 ? NUM_E4M3 : x->types.kv;
	if (!c->decode && c->context < c->rows) c->context = c->rows;
	s->lines = c->decode ? c->rows : 1;
	s->line_pages = (c->context + PAGE - 1) / PAGE;
	int64_t line_bytes = s->line_pages * PAGE * KV_HEADS * KV_DIM * 2 * (int64_t)num_bytes(kv);
	s->sets = c->in_cache ? 1 : (int64_t)c->rotate_bytes / (line_bytes * s->lines) + 1;
	int64_t pages = s->sets * s->lines * s->line_pages;
	snprintf(c->shape, sizeof c->shape, "%d/%d heads of %d", Q_HEADS, KV_HEADS, KV_DIM);
	s->q = MADE(&c->m, x->types.act, 1.0, c->rows, Q_HEADS * KV_DIM);
	s->y = MADE(&c->m, x->types.act, 0.0, c->rows, Q_HEADS * KV_DIM);
	s->pages.k = MADE(&c->m, kv, 1.0, pages, PAGE, KV_HEADS, KV_DIM);
	s->pages.v = MADE(&c->m, kv, 1.0, pages, PAGE, KV_HEADS, KV_DIM);
	s->pages.k_scale = s->pages.v_scale = kv == NUM_E4M3 ? 0.5f : 1.0f;
	s->pos = made_i32(&c->m, c->rows, position, c);
	s->seq = made_i32(&c->m, c->rows, c->decode ? same : nothing, NULL);
	s->table = made_i32(&c->m, pages, same, NULL);
	if (c->m.status != NH_OK) return;
	s->table = tensor_split(&s->table, s->line_pages);
	s->set = tensor_rows(&s->table, 0, s->lines);
	double scale = 0.08838834764831845; /* 128^-0.5 */
	s->decode = (op_attn_decode){.y = &s->y,
	    .q = &s->q,
	    .pages = &s->pages,
	    .pos = &s->pos,
	    .row_seq = &s->seq,
	    .page_table = &s->set,
	    .page_tokens = PAGE,
	    .kv_heads = KV_HEADS,
	    .head_dim = KV_DIM,
	    .scale = scale};
	s->prefill = (op_attn_prefill){.y = &s->y,
	    .q = &s->q,
	    .pages = &s->pages,
	    .pos = &s->pos,
	    .row_seq = &s->seq,
	    .page_table = &s->set,
	    .page_tokens = PAGE,
	    .kv_heads = KV_HEADS,
	    .head_dim = KV_DIM,
	    .scale = scale};
	double pairs = 0; /* of a row and a key that it sees */
	for (int64_t i = 0; i < c->rows; i++) pairs += position(c, i) + 1;
	c->bytes = (double)(s->lines * c->context) * KV_HEADS * KV_DIM * 2 * (double)num_bytes(kv); /* a segment's rows share their keys */
	c->activation_bytes = (double)(tensor_bytes(&s->q) + tensor_bytes(&s->y));
	c->flops = 4 * pairs * Q_HEADS * KV_DIM;
	c->call = call_attn;
}

bool case_state(op_case *c)
{
	bool attn = strcmp(c->op, "attn") == 0, ssm = strcmp(c->op, "ssm") == 0;
	if (!attn && !ssm && strcmp(c->op, "conv") != 0) return false;
	c->self = made_alloc(&c->m, attn ? sizeof(attn_self) : sizeof(state_self));
	if (c->self == NULL) return true;
	if (attn) set_attn(c);
	else if (ssm) set_ssm(c);
	else set_conv(c);
	return true;
}
