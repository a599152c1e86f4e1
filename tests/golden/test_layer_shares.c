/* SPDX-License-Identifier: Apache-2.0
 * test_layer_shares.c: feeds each layer of a real checkpoint what vLLM fed it, and counts the outputs that come out bit-equal. This is the sharpest
 * instrument on rounding points: nothing accumulates from layer to layer. The marks are what an independent float64 oracle reached with the same
 * inputs, less .002 (BF16 attention: less .015, since FlashAttention's order of sums is its own).
 */
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/registry.h"
#include "base/base_file.h"
#include "base/base_mem.h"
#include "fmt/config.h"
#include "fmt/safetensors.h"
#include "load/loader.h"
#include "model/nemotron_h/nm_model.h"
#include "num/num_conv.h"

enum { NORM, MAMBA, MOE, ATTN, HEAD, KINDS };
static const char *const KIND_NAMES[KINDS] = {"norm", "M", "E", "*", "lm_head"};

typedef struct {
	const char *model;
	double mark[KINDS][2]; /* prefill, decode: the oracle's shares */
} expectation;

static const expectation MARKS[] = {
    {"tiny-bf16", {{1, 1}, {.9928, .9993}, {1, 1}, {.9004, .9785}, {.9999, .9999}}},
    {"tiny-nvfp4", {{1, 1}, {1, 1}, {1, 1}, {.9998, 1}, {1, 1}}},
    {"tiny-fp8", {{1, 1}, {.9998, 1}, {1, 1}, {1, 1}, {.9999, .9999}}},
    {"tiny-nvfp4-w4a4", {{1, 1}, {.9918, 1}, {1, .9997}, {1, 1}, {.9999, .9999}}},
};

typedef struct {
	double equal[KINDS][2], count[KINDS][2], largest[KINDS][2];
} shares;

typedef struct {
	const backend *be;
	exec *x;
	arena scratch;
	st_set *set;
	quant_config *quant;
	json_t *config;
	loader *l;
	model *m;
	st_file *dump;
	mamba_state *mamba;
	kv_pages *kv;
} bench;

static void open_bench(bench *b, const char *name)
{
	char dir[512], path[600];
	nh_error e = {0};
	memset(b, 0, sizeof *b);
	snprintf(dir, sizeof dir, "%s/models/%s", NH_SHARED_DIR, name);
	snprintf(path, sizeof path, "%s/goldens/%s.vllm-eager.layers.safetensors", NH_SHARED_DIR, name);
	if (!file_exists(path) || !file_exists(dir)) NOT_RUN("%s is not there", path);
	if (st_file_open(&b->dump, path, &e) != NH_OK) fail_msg("%s", e.text);
	snprintf(path, sizeof path, "%s/config.json", dir);
	b->be = backend_find("ref");
	const backend_options bo = {.num = num_profile("hopper")};
	if (b->be->open(&b->x, &bo, &e) != NH_OK || config_load(&b->config, path, &e) != NH_OK ||
	    st_set_open(&b->set, dir, NULL, &e) != NH_OK || quant_open(&b->quant, b->config, path, NULL, NULL, &e) != NH_OK)
		fail_msg("%s", e.text);
	const loader_options lo = {.set = b->set, .quant = b->quant, .x = b->x, .arm = b->be, .files_name = dir};
	if (loader_open(&b->l, &lo, &e) != NH_OK || nm_family.open(&b->m, b->config, path, b->l, &e) != NH_OK ||
	    loader_finish(b->l, &e) != NH_OK)
		fail_msg("%s", e.text);
	assert_true(arena_init_fixed(&b->scratch, (size_t)64 << 20));
	b->x->scratch = &b->scratch;
}

static tensor pool(bench *b, num_dtype type, int rank, const int64_t *shape)
{
	tensor t = tensor_nd(NULL, type, rank, shape);
	t.data = b->be->alloc(b->x, t.room);
	assert_non_null(t.data);
	return t;
}

/* One state slot and one page of 64 tokens a layer. */
static void open_state(bench *b)
{
	const model_shape *s = &b->m->shape;
	b->mamba = mem_array((size_t)s->mamba_layers, sizeof *b->mamba);
	b->kv = mem_array((size_t)s->attn_layers, sizeof *b->kv);
	for (int i = 0; i < s->mamba_layers; i++) {
		const model_mamba_shape *m = &s->mamba[i];
		const int64_t conv[3] = {1, m->taps - 1, m->channels}, ssm[4] = {1, m->heads, m->head_dim, m->state};
		b->mamba[i] = (mamba_state){pool(b, b->x->types.conv_state, 3, conv), pool(b, b->x->types.ssm_state, 4, ssm)};
	}
	for (int i = 0; i < s->attn_layers; i++) {
		const model_kv_shape *k = &s->kv[i];
		const int64_t page[4] = {1, 64, k->kv_heads, k->head_dim};
		num_dtype type = s->fp8_kv ? NUM_E4M3 : b->x->types.kv;
		b->kv[i] = (kv_pages){pool(b, type, 4, page), pool(b, type, 4, page), s->fp8_kv ? k->k_scale : 1.0f, s->fp8_kv ? k->v_scale : 1.0f};
	}
}

static void close_bench(bench *b)
{
	for (int i = 0; b->m && i < b->m->shape.mamba_layers; i++) {
		b->be->free(b->x, b->mamba[i].conv.data);
		b->be->free(b->x, b->mamba[i].ssm.data);
	}
	for (int i = 0; b->m && i < b->m->shape.attn_layers; i++) {
		b->be->free(b->x, b->kv[i].k.data);
		b->be->free(b->x, b->kv[i].v.data);
	}
	mem_free(b->mamba);
	mem_free(b->kv);
	if (b->m) nm_family.close(b->m);
	loader_close(b->l);
	quant_close(b->quant);
	st_set_close(b->set);
	json_decref(b->config);
	b->be->close(b->x);
	arena_deinit(&b->scratch);
	st_file_close(b->dump);
}

static tensor recorded(bench *b, int step, const char *format, int layer)
{
	char rest[64], name[96];
	snprintf(rest, sizeof rest, format, layer);
	snprintf(name, sizeof name, "step%d.%s", step, rest);
	const st_tensor *t = st_file_find(b->dump, name);
	if (!t) fail_msg("%s: not in the dump", name);
	assert_int_equal(t->dtype, NUM_U16);
	return tensor_2d((void *)(uintptr_t)t->data, NUM_BF16, t->shape[0], t->shape[1]);
}

static void count(shares *s, int kind, int form, const tensor *ours, const tensor *theirs)
{
	assert_int_equal(ours->shape[1], theirs->shape[1]);
	for (int64_t r = 0; r < ours->shape[0]; r++)
		for (int64_t c = 0; c < ours->shape[1]; c++) {
			double a = num_load(NUM_BF16, tensor_row(ours, r), (size_t)c), g = num_load(NUM_BF16, tensor_row(theirs, r), (size_t)c);
			s->count[kind][form]++;
			if (a == g) s->equal[kind][form]++;
			else if (fabs(a - g) > s->largest[kind][form]) s->largest[kind][form] = fabs(a - g);
		}
}

/* The batch of one step of the dump: 9 prompt rows in prefill form, or one row in decode form. */
typedef struct {
	int32_t pos[9], row_seq[9], slot[1], seg_row[2], zero[1], fresh[1], out[9];
	int64_t kv_slot[9];
	int32_t table[1];
	step_batch b;
} batch_room;

static const step_batch *batch(batch_room *m, int step, int prompt)
{
	int first = step == 0 ? 0 : prompt + step - 1, rows = step == 0 ? prompt : 1;
	memset(m, 0, sizeof *m);
	for (int i = 0; i < rows; i++) {
		m->pos[i] = first + i;
		m->kv_slot[i] = first + i;
	}
	m->seg_row[1] = rows;
	m->fresh[0] = -1;
	m->b = (step_batch){.T = rows, .D = step == 0 ? 0 : 1, .S = step == 0, .page_tokens = 64};
	m->b.pos = tensor_1d(m->pos, NUM_I32, rows);
	m->b.slot_in = m->b.slot_out = tensor_1d(m->slot, NUM_I32, m->b.D);
	m->b.seg_row = tensor_1d(m->seg_row, NUM_I32, m->b.S + 1);
	m->b.seg_pos = m->b.seg_origin = m->b.seg_out = tensor_1d(m->zero, NUM_I32, m->b.S);
	m->b.seg_in = tensor_1d(m->fresh, NUM_I32, m->b.S);
	m->b.row_seq = tensor_1d(m->row_seq, NUM_I32, rows);
	m->b.kv_slot = tensor_1d(m->kv_slot, NUM_I64, rows);
	m->b.page_table = tensor_2d(m->table, NUM_I32, 1, 1);
	return &m->b;
}

static void mixer(const nm_step *s, const nm_block *l, const tensor *y, const tensor *h)
{
	if (l->kind == NM_MAMBA) nm_mamba_forward(s, l, y, h);
	else if (l->kind == NM_ATTN) nm_attn_forward(s, l, y, h);
	else nm_moe_forward(s, l, y, h);
}

static void one_layer(bench *b, const nm_step *s, int step, int i, shares *out)
{
	const nm_model *m = (const nm_model *)b->m;
	const nm_block *l = &m->layers[i];
	int form = step > 0, kind = l->kind == NM_MAMBA ? MAMBA : l->kind == NM_ATTN ? ATTN : MOE;
	tensor in = recorded(b, step, "layer%d.norm.out", i), hidden = recorded(b, step, "layer%d.hidden", i);
	arena_reset(&b->scratch);
	tensor h = exec_scratch(b->x, NUM_BF16, in.shape[0], in.shape[1]), y = exec_scratch(b->x, NUM_BF16, in.shape[0], in.shape[1]);
	tensor res = exec_scratch(b->x, NUM_BF16, in.shape[0], in.shape[1]);
	mixer(s, l, &in, &h);
	count(out, kind, form, &h, &hidden);
	if (i == 0) return;
	/* the norm before this layer: recorded stream and output of the layer before */
	tensor stream = recorded(b, step, "layer%d.residual", i - 1), added = recorded(b, step, "layer%d.hidden", i - 1);
	memcpy(res.data, stream.data, tensor_bytes(&stream));
	OP(b->x, add_rms_norm, .y = &y, .residual = &res, .x = &added, .w = &l->norm, .eps = s->eps);
	count(out, NORM, form, &y, &in);
}

static void measure(bench *b, shares *out)
{
	const nm_model *m = (const nm_model *)b->m;
	const model_state state = {b->mamba, b->kv};
	batch_room room;
	for (int step = 0; step < 3; step++) {
		const step_batch *sb = batch(&room, step, 9);
		const nm_step s = {.x = b->x, .b = sb, .state = &state, .eps = m->eps, .chunk = b->m->shape.chunk};
		for (int i = 0; i < b->m->shape.layers; i++) one_layer(b, &s, step, i, out);
		tensor norm_f = recorded(b, step, "norm_f.out", 0), logits = recorded(b, step, "logits_last", 0);
		arena_reset(&b->scratch);
		tensor last = tensor_rows(&norm_f, norm_f.shape[0] - 1, 1), ours = exec_scratch(b->x, NUM_BF16, 1, logits.shape[1]);
		OP(b->x, linear, .y = &ours, .x = &last, .w = &m->head, .decode_rows = 1);
		count(out, HEAD, step > 0, &ours, &logits);
		nh_error e = {0};
		if (exec_status(b->x, &e) != NH_OK) fail_msg("%s", e.text);
	}
}

static void shares_of(const expectation *want)
{
	bench b;
	shares got = {0};
	open_bench(&b, want->model);
	open_state(&b);
	measure(&b, &got);
	int below = 0;
	for (int k = 0; k < KINDS; k++)
		for (int form = 0; form < 2; form++) {
			double share = got.count[k][form] > 0 ? got.equal[k][form] / got.count[k][form] : 0;
			double slack = k == ATTN && strcmp(want->model, "tiny-bf16") == 0 ? .015 : .002;
			bool ok = share >= want->mark[k][form] - slack;
			printf("SHARE %-16s %-8s %-8s %.4f of %6.0f bit-equal (oracle %.4f), largest difference %.4g%s\n", want->model, KIND_NAMES[k],
			    form ? "decode" : "prefill", share, got.count[k][form], want->mark[k][form], got.largest[k][form],
			    ok ? "" : "   BELOW THE MARK");
			assert_true(got.count[k][form] >= 1024);
			below += !ok;
		}
	close_bench(&b);
	assert_int_equal(below, 0);
}

static void bf16(void **state) { (void)state, shares_of(&MARKS[0]); }
static void nvfp4_mixed(void **state) { (void)state, shares_of(&MARKS[1]); }
static void fp8(void **state) { (void)state, shares_of(&MARKS[2]); }
static void nvfp4_w4a4(void **state) { (void)state, shares_of(&MARKS[3]); }

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(bf16), cmocka_unit_test(nvfp4_mixed), cmocka_unit_test(fp8), cmocka_unit_test(nvfp4_w4a4)};
	return cmocka_run_group_tests_name("layer_shares", tests, NULL, NULL);
}
