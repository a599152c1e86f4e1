/* SPDX-License-Identifier: Apache-2.0
 * helper_calls.c: see the header. Floats are small multiples of 1/8, so that no type rounds them.
 */
#include "op/helper_calls.h"

#include <assert.h>
#include <string.h>

#include "num/num_conv.h"

static tensor make(call *c, num_dtype type, int rank, const int64_t *shape)
{
	size_t bytes;
	bool sized = tensor_size(type, rank, shape, &bytes);
	assert(sized);
	(void)sized;
	tensor t = tensor_nd(arena_alloc(&c->mem, bytes), type, rank, shape);
	bool is_float = type == NUM_F64 || type == NUM_F32 || type == NUM_F16 || type == NUM_BF16 || type == NUM_E4M3;
	for (int64_t i = 0; is_float && i < tensor_count(&t); i++) num_store(type, t.data, (size_t)i, (double)((i * 7 + rank) % 13 - 6) / 8);
	return t;
}

static const tensor *put(call *c, num_dtype type, int rank, const int64_t *shape)
{
	c->t[c->tensors] = make(c, type, rank, shape);
	return &c->t[c->tensors++];
}

static const tensor *ints(call *c, int64_t n, const int *values)
{
	const tensor *t = put(c, NUM_I32, 1, &n);
	for (int64_t i = 0; i < n; i++) ((int32_t *)t->data)[i] = values[i];
	return t;
}

#define DIMS(...) \
	(int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) { __VA_ARGS__ }
#define ACT(...) put(c, NUM_BF16, DIMS(__VA_ARGS__))
#define WIDE(...) put(c, NUM_F32, DIMS(__VA_ARGS__))
#define I32(...) ints(c, (int64_t)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), (int[]){__VA_ARGS__})

static void fill_matrix(call *c, weight *w, num_scheme scheme, int64_t n, int64_t k)
{
	num_dtype type = scheme == NUM_SCHEME_NONE ? NUM_BF16 : scheme == NUM_SCHEME_FP8 ? NUM_E4M3 : NUM_E2M1X2;
	*w = (weight){.name = "matrix", .scheme = scheme, .dtype = type, .n = n, .k = k, .scale = 0.5f, .input_scale = 0.25f};
	w->data = make(c, type, DIMS(n, k)).data;
	if (type == NUM_E2M1X2) w->block_scale = make(c, NUM_E4M3, DIMS(n, k / 16)).data;
}

void call_scheme(call *c, num_scheme scheme)
{
	fill_matrix(c, &c->w, scheme, NX, D);
	for (int i = 0; i < EX; i++) {
		fill_matrix(c, &c->up[i], scheme, FX, D);
		fill_matrix(c, &c->down[i], scheme, D, FX);
	}
	c->experts = (weight_experts){.E = EX, .up = c->up, .down = c->down, .up_input = 0.25f, .down_input = 0.25f};
}

static void make_ssm(call *c, op_id id)
{
	if (id == OP_ssm_step) {
		c->a.ssm_step = (op_ssm_step){.y = ACT(T, H * P),
		    .x = ACT(T, H * P),
		    .b = ACT(T, G * N),
		    .c = ACT(T, G * N),
		    .dt = ACT(T, H),
		    .a = WIDE(H),
		    .d = ACT(H),
		    .dt_bias = ACT(H),
		    .state = WIDE(ST, H, P, N),
		    .slot_in = I32(-1, 2, 3),
		    .slot_out = I32(1, 2, 0),
		    .groups = G};
	} else {
		c->a.ssm_scan = (op_ssm_scan){.y = ACT(T, H * P),
		    .x = ACT(T, H * P),
		    .b = ACT(T, G * N),
		    .c = ACT(T, G * N),
		    .dt = ACT(T, H),
		    .a = WIDE(H),
		    .d = ACT(H),
		    .dt_bias = ACT(H),
		    .state = WIDE(ST, H, P, N),
		    .seg_row = I32(5, 7, 8),
		    .seg_pos = I32(8, 6),
		    .seg_origin = I32(0, 6),
		    .seg_in = I32(1, -1),
		    .seg_out = I32(1, 4),
		    .groups = G,
		    .chunk = L};
	}
}

static void make_conv(call *c, op_id id)
{
	if (id == OP_conv_step)
		c->a.conv_step = (op_conv_step){.y = ACT(T, C),
		    .x = ACT(T, C),
		    .state = ACT(ST, TAPS - 1, C),
		    .w = ACT(C, TAPS),
		    .bias = ACT(C),
		    .slot_in = I32(-1, 2, 3),
		    .slot_out = I32(1, 2, 0)};
	else
		c->a.conv_scan = (op_conv_scan){.y = ACT(T, C),
		    .x = ACT(T, C),
		    .state = ACT(ST, TAPS - 1, C),
		    .w = ACT(C, TAPS),
		    .bias = ACT(C),
		    .seg_row = I32(5, 7, 8),
		    .seg_in = I32(1, -1),
		    .seg_out = I32(1, 4)};
}

static void make_attention(call *c, op_id id)
{
	c->pages = (kv_pages){
	    .k = make(c, NUM_E4M3, DIMS(PG, PT, KV, HD)), .v = make(c, NUM_E4M3, DIMS(PG, PT, KV, HD)), .k_scale = 0.5f, .v_scale = 2};
	if (id == OP_kv_write) {
		c->a.kv_write = (op_kv_write){.pages = &c->pages, .k = ACT(T, KV * HD), .v = ACT(T, KV * HD), .kv_slot = put(c, NUM_I64, DIMS(T))};
		for (int i = 0; i < T; i++) ((int64_t *)c->a.kv_write.kv_slot->data)[i] = i == 1 ? -1 : i * 9;
		return;
	}
	op_attn_prefill p = {.y = ACT(T, QH * HD),
	    .q = ACT(T, QH * HD),
	    .pages = &c->pages,
	    .pos = I32(5, 0, 3),
	    .row_seq = I32(0, 1, 1),
	    .page_table = put(c, NUM_I32, DIMS(2, 2)),
	    .page_tokens = PT,
	    .kv_heads = KV,
	    .head_dim = HD,
	    .scale = 0.5f};
	const int32_t table[4] = {4, 2, 0, -1};
	memcpy(p.page_table->data, table, sizeof table);
	if (id == OP_attn_prefill) c->a.attn_prefill = p;
	else
		c->a.attn_decode = (op_attn_decode){.y = p.y,
		    .q = p.q,
		    .pages = p.pages,
		    .pos = p.pos,
		    .row_seq = p.row_seq,
		    .page_table = p.page_table,
		    .page_tokens = PT,
		    .kv_heads = KV,
		    .head_dim = HD,
		    .scale = 0.5f};
}

static void make_moe(call *c, op_id id)
{
	if (id == OP_route) {
		c->a.route = (op_route){.idx = put(c, NUM_I32, DIMS(T, KX)),
		    .w = WIDE(T, KX),
		    .logits = WIDE(T, EX),
		    .bias = WIDE(EX),
		    .n_group = 3,
		    .topk_group = 2,
		    .norm = true};
	} else if (id == OP_expert_ffn) {
		c->a.expert_ffn = (op_expert_ffn){.rows = ACT(T, KX, D),
		    .x = ACT(T, D),
		    .idx = put(c, NUM_I32, DIMS(T, KX)),
		    .w = WIDE(T, KX),
		    .experts = &c->experts,
		    .decode_rows = 1};
		for (int i = 0; i < T * KX; i++) ((int32_t *)c->a.expert_ffn.idx->data)[i] = i % EX;
	} else {
		c->a.moe_combine = (op_moe_combine){.y = ACT(T, D), .rows = ACT(T, KX, D), .shared = ACT(T, D), .factor = 2.5f};
	}
}

static void make_sample(call *c, op_id id)
{
	for (int i = 0; i < T; i++) {
		c->rows[i] = (op_sample_row){.temperature = 0.5 * i, .top_p = 1 - 0.25 * i, .top_k = i, .seed = 9, .position = 100 + i};
		c->repetition[i] = 1.25f;
		c->presence[i] = 0.5f;
		c->frequency[i] = 0.25f;
	}
	c->bias[0] = (op_logit_bias){.row = 0, .id = 7, .add = 2};
	c->bias[1] = (op_logit_bias){.row = T - 1, .id = V - 1, .add = -1};
	switch (id) {
	case OP_logit_edit:
		c->a.logit_edit = (op_logit_edit){.logits = WIDE(T, V),
		    .counts = put(c, NUM_I32, DIMS(T, V)),
		    .seen = put(c, NUM_U8, DIMS(T, V)),
		    .repetition = c->repetition,
		    .presence = c->presence,
		    .frequency = c->frequency,
		    .bias = c->bias,
		    .biases = 2,
		    .mask = put(c, NUM_I32, DIMS(T, (V + 31) / 32))};
		break;
	case OP_sample_rows: c->a.sample_rows = (op_sample_rows){.ids = put(c, NUM_I32, DIMS(T)), .logits = WIDE(T, V), .rows = c->rows}; break;
	case OP_logprobs:
		c->a.logprobs = (op_logprobs){.logits = ACT(T, V),
		    .ids = put(c, NUM_I32, DIMS(T, M)),
		    .lp = put(c, NUM_F64, DIMS(T, M)),
		    .rank = put(c, NUM_I32, DIMS(T, M)),
		    .top_ids = put(c, NUM_I32, DIMS(T, TOP)),
		    .top_lp = put(c, NUM_F64, DIMS(T, TOP))};
		((int32_t *)c->a.logprobs.ids->data)[1] = -1;
		break;
	default:
		c->a.pool_rows = (op_pool_rows){.y = WIDE(S, D), .x = ACT(T, D), .start = I32(0, 2, 3), .how = OP_POOL_MEAN, .normalise = true};
	}
}

static void make_basic(call *c, op_id id)
{
	switch (id) {
	case OP_embed_rows: c->a.embed_rows = (op_embed_rows){.y = ACT(T, D), .table = ACT(V, D), .ids = I32(0, 39, 7)}; break;
	case OP_rms_norm: c->a.rms_norm = (op_rms_norm){.y = ACT(T, D), .x = ACT(T, D), .w = ACT(D), .eps = 1e-5f}; break;
	case OP_add_rms_norm:
		c->a.add_rms_norm = (op_add_rms_norm){.y = ACT(T, D), .residual = ACT(T, D), .x = ACT(T, D), .w = ACT(D), .eps = 1e-5f};
		break;
	case OP_linear:
		c->a.linear = (op_linear){.y = ACT(T, NX), .x = ACT(T, D), .w = &c->w, .bias = ACT(NX), .act = OP_ACT_RELU2, .decode_rows = 1};
		break;
	case OP_add: c->a.add = (op_add){.y = ACT(T, D), .a = ACT(T, D), .b = ACT(T, D)}; break;
	case OP_gather_rows: c->a.gather_rows = (op_gather_rows){.y = ACT(2, D), .x = ACT(T, D), .rows = I32(2, 0)}; break;
	case OP_gated_norm:
		c->a.gated_norm = (op_gated_norm){.y = ACT(T, D), .x = ACT(T, D), .gate = ACT(T, D), .w = ACT(D), .groups = 4, .eps = 1e-5f};
		break;
	case OP_state_copy: c->a.state_copy = (op_state_copy){.pool = WIDE(ST, H, P, N), .from = I32(0, -1), .to = I32(3, 1)}; break;
	case OP_page_copy:
		c->a.page_copy = (op_page_copy){.pool = put(c, NUM_E4M3, DIMS(PG, PT, KV, HD)), .from = I32(0, -1), .to = I32(3, 1)};
		break;
	default: c->a.all_reduce = (op_all_reduce){.y = ACT(T, D)};
	}
}

void call_make(call *c, op_id id)
{
	memset(c, 0, sizeof *c);
	c->id = id;
	arena_init(&c->mem);
	call_scheme(c, NUM_SCHEME_NONE);
	switch (id) {
	case OP_conv_step:
	case OP_conv_scan: make_conv(c, id); break;
	case OP_ssm_step:
	case OP_ssm_scan: make_ssm(c, id); break;
	case OP_kv_write:
	case OP_attn_decode:
	case OP_attn_prefill: make_attention(c, id); break;
	case OP_route:
	case OP_expert_ffn:
	case OP_moe_combine: make_moe(c, id); break;
	case OP_logit_edit:
	case OP_sample_rows:
	case OP_logprobs:
	case OP_pool_rows: make_sample(c, id); break;
	default: make_basic(c, id);
	}
}

void call_free(call *c) { arena_deinit(&c->mem); }

tensor *call_operand(call *c, const char *field)
{
	op_desc d;
	op_describe(c->id, &c->a, &d);
	for (int i = 0; i < d.operands; i++) {
		if (strcmp(d.operand[i].field, field) != 0 || !d.operand[i].t) continue;
		if (d.operand[i].t == &c->pages.k) return &c->pages.k;
		if (d.operand[i].t == &c->pages.v) return &c->pages.v;
		return &c->t[d.operand[i].t - c->t];
	}
	return NULL;
}

bool call_forget(call *c, const tensor *t)
{
	for (size_t at = 0; at + sizeof(void *) <= sizeof c->a; at += sizeof(void *)) {
		const void *p;
		memcpy(&p, (char *)&c->a + at, sizeof p);
		if (p != t) continue;
		memset((char *)&c->a + at, 0, sizeof p);
		return true;
	}
	return false;
}
