/* SPDX-License-Identifier: Apache-2.0
 * model_bench.c: see model_bench.h.
 */
#include "common/model_bench.h"

#include <string.h>

#include "test.h"

#include "backend/registry.h"
#include "base/base_file.h"
#include "base/base_mem.h"
#include "fmt/config.h"
#include "num/num_conv.h"

static tensor pool(model_bench *b, num_dtype type, int rank, const int64_t *shape)
{
	tensor t = tensor_nd(NULL, type, rank, shape);
	t.data = b->be->alloc(b->arm, t.room);
	assert_non_null(t.data);
	return t;
}

static void open_state(model_bench *b)
{
	const model_shape *s = &b->m->shape;
	b->mamba = mem_array((size_t)s->mamba_layers, sizeof *b->mamba);
	b->kv = mem_array((size_t)s->attn_layers, sizeof *b->kv);
	for (int i = 0; i < s->mamba_layers; i++) {
		const model_mamba_shape *m = &s->mamba[i];
		const int64_t conv[3] = {b->slots, m->taps - 1, m->channels}, ssm[4] = {b->slots, m->heads, m->head_dim, m->state};
		b->mamba[i] = (mamba_state){pool(b, b->x->types.conv_state, 3, conv), pool(b, b->x->types.ssm_state, 4, ssm)};
	}
	for (int i = 0; i < s->attn_layers; i++) {
		const model_kv_shape *k = &s->kv[i];
		const int64_t page[4] = {b->pages, b->page_tokens, k->kv_heads, k->head_dim};
		num_dtype type = s->fp8_kv ? NUM_E4M3 : b->x->types.kv;
		b->kv[i] = (kv_pages){pool(b, type, 4, page), pool(b, type, 4, page), s->fp8_kv ? k->k_scale : 1.0f, s->fp8_kv ? k->v_scale : 1.0f};
	}
}

void bench_open(model_bench *b, const char *dir, const char *profile, int slots, int pages, int page_tokens, bool check)
{
	const test_arm ref = {backend_find("ref"), NULL, "ref"};
	bench_open_on(b, &ref, 0, dir, profile, slots, pages, page_tokens, check);
}

void bench_open_on(model_bench *b, const test_arm *on, int threads, const char *dir, const char *profile, int slots, int pages,
    int page_tokens, bool check)
{
	char path[1024];
	nh_error e = {0};
	memset(b, 0, sizeof *b);
	b->slots = slots;
	b->pages = pages;
	b->page_tokens = page_tokens;
	snprintf(path, sizeof path, "%s/config.json", dir);
	b->be = on->be;
	const backend_options bo = {.num = num_profile(profile), .isa = on->isa, .threads = threads};
	if (b->be->open(&b->arm, &bo, &e) != NH_OK || config_load(&b->config, path, &e) != NH_OK ||
	    st_set_open(&b->set, dir, NULL, &e) != NH_OK || quant_open(&b->quant, b->config, path, NULL, NULL, &e) != NH_OK)
		fail_msg("%s", e.text);
	b->x = check ? wrap_check_create(b->arm, true) : b->arm;
	const loader_options lo = {.set = b->set, .quant = b->quant, .x = b->arm, .arm = b->be, .files_name = dir};
	if (loader_open(&b->l, &lo, &e) != NH_OK || nm_family.open(&b->m, b->config, path, b->l, &e) != NH_OK ||
	    loader_finish(b->l, &e) != NH_OK)
		fail_msg("%s", e.text);
	assert_true(arena_init_fixed(&b->scratch, (size_t)128 << 20));
	b->arm->scratch = b->x->scratch = &b->scratch;
	for (int s = 0; s < BENCH_SEQS; s++)
		for (int p = 0; p < 64; p++) b->table[s][p] = p < pages / BENCH_SEQS ? s * (pages / BENCH_SEQS) + p : -1;
	open_state(b);
}

void bench_close(model_bench *b)
{
	for (int i = 0; i < b->m->shape.mamba_layers; i++) {
		b->be->free(b->arm, b->mamba[i].conv.data);
		b->be->free(b->arm, b->mamba[i].ssm.data);
	}
	for (int i = 0; i < b->m->shape.attn_layers; i++) {
		b->be->free(b->arm, b->kv[i].k.data);
		b->be->free(b->arm, b->kv[i].v.data);
	}
	mem_free(b->mamba);
	mem_free(b->kv);
	nm_family.close(b->m);
	loader_close(b->l);
	quant_close(b->quant);
	st_set_close(b->set);
	json_decref(b->config);
	if (b->x != b->arm) wrap_destroy(b->x);
	b->be->close(b->arm);
	arena_deinit(&b->scratch);
}

void bench_clear(model_bench *b)
{
	for (int i = 0; i < b->m->shape.mamba_layers; i++) {
		memset(b->mamba[i].conv.data, 0xFF, b->mamba[i].conv.room);
		memset(b->mamba[i].ssm.data, 0xFF, b->mamba[i].ssm.room);
	}
	for (int i = 0; i < b->m->shape.attn_layers; i++) {
		memset(b->kv[i].k.data, 0xFF, b->kv[i].k.room);
		memset(b->kv[i].v.data, 0xFF, b->kv[i].v.room);
	}
}

/* Arrays behind one step's batch. */
typedef struct {
	int32_t ids[BENCH_ROWS], pos[BENCH_ROWS], seq[BENCH_ROWS], out[BENCH_ROWS], in_slot[BENCH_ROWS], out_slot[BENCH_ROWS];
	int32_t row[17], seg_pos[16], seg_origin[16], seg_in[16], seg_out[16];
	int64_t kv_slot[BENCH_ROWS];
	step_batch b;
} step_room;

static void place(model_bench *b, step_room *r, int seq, int pos, int32_t id)
{
	int t = r->b.T++;
	assert_true(t < BENCH_ROWS && seq < BENCH_SEQS && pos / b->page_tokens < 64);
	r->ids[t] = id;
	r->pos[t] = pos;
	r->seq[t] = seq;
	r->out[t] = t;
	r->kv_slot[t] = (int64_t)b->table[seq][pos / b->page_tokens] * b->page_tokens + pos % b->page_tokens;
}

static void fill(model_bench *b, step_room *r, const bench_row *rows, int row_count, const bench_segment *segs, int seg_count)
{
	memset(r, 0, sizeof *r);
	assert_true(seg_count <= 16);
	for (int i = 0; i < row_count; i++) {
		place(b, r, rows[i].seq, rows[i].pos, rows[i].id);
		r->in_slot[i] = rows[i].slot_in;
		r->out_slot[i] = rows[i].slot_out;
	}
	for (int i = 0; i < seg_count; i++) {
		r->row[i] = r->b.T;
		r->seg_pos[i] = segs[i].pos;
		r->seg_origin[i] = segs[i].origin;
		r->seg_in[i] = segs[i].slot_in;
		r->seg_out[i] = segs[i].slot_out;
		for (int k = 0; k < segs[i].count; k++) place(b, r, segs[i].seq, segs[i].pos + k, segs[i].ids[k]);
	}
	r->row[seg_count] = r->b.T;
	step_batch *s = &r->b;
	s->D = row_count;
	s->S = seg_count;
	s->R = s->T;
	s->page_tokens = b->page_tokens;
	s->ids = tensor_1d(r->ids, NUM_I32, s->T);
	s->pos = tensor_1d(r->pos, NUM_I32, s->T);
	s->out_rows = tensor_1d(r->out, NUM_I32, s->R);
	s->slot_in = tensor_1d(r->in_slot, NUM_I32, s->D);
	s->slot_out = tensor_1d(r->out_slot, NUM_I32, s->D);
	s->seg_row = tensor_1d(r->row, NUM_I32, s->S + 1);
	s->seg_pos = tensor_1d(r->seg_pos, NUM_I32, s->S);
	s->seg_origin = tensor_1d(r->seg_origin, NUM_I32, s->S);
	s->seg_in = tensor_1d(r->seg_in, NUM_I32, s->S);
	s->seg_out = tensor_1d(r->seg_out, NUM_I32, s->S);
	s->row_seq = tensor_1d(r->seq, NUM_I32, s->T);
	s->kv_slot = tensor_1d(r->kv_slot, NUM_I64, s->T);
	s->page_table = tensor_2d(b->table, NUM_I32, BENCH_SEQS, 64);
}

void bench_step(model_bench *b, const bench_row *rows, int row_count, const bench_segment *segs, int seg_count, double *logits)
{
	static step_room room; /* tests run one at a time */
	const model_state state = {b->mamba, b->kv};
	tensor out;
	nh_error e = {0};
	fill(b, &room, rows, row_count, segs, seg_count);
	arena_reset(&b->scratch);
	nm_family.forward(b->m, b->x, &room.b, &state, NULL, &out);
	if (exec_status(b->x, &e) != NH_OK) fail_msg("%s", e.text);
	for (int64_t r = 0; r < out.shape[0]; r++)
		num_load_row(out.dtype, tensor_row(&out, r), 0, (size_t)out.shape[1], logits + r * out.shape[1]);
}

void bench_prefill(
    model_bench *b, int seq, int slot, int origin, const int32_t *ids, int count, const int *ends, int pieces, double *logits)
{
	int at = 0;
	for (int i = 0; i < pieces; i++) {
		const bench_segment s = {.seq = seq,
		    .slot_in = at == 0 && origin == 0 ? -1 : slot,
		    .slot_out = slot,
		    .origin = origin,
		    .pos = origin + at,
		    .count = ends[i] - at,
		    .ids = ids + at};
		bench_step(b, NULL, 0, &s, 1, logits + (size_t)at * (size_t)b->m->shape.vocab);
		at = ends[i];
	}
	assert_int_equal(at, count);
}

const char *bench_checkpoint(const char *name, const mk_options *o)
{
	static char path[1024];
	nh_error e = {0};
	mk_options mine = *o;
	mine.force = true;
	snprintf(path, sizeof path, "%s/tests/checkpoints-%s", NH_BINARY_DIR, name);
	if (mk_write(path, &mine, &e) != NH_OK) fail_msg("%s", e.text);
	return path;
}
