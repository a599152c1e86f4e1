/* SPDX-License-Identifier: Apache-2.0
 * s_inputs.c: what a step reads, laid out in one block: token ids, positions, slots, pages, and what the sampler wants to know. Host arms
 * read the block itself; others get it in one upload.
 * The invariant that breaks first: every tensor handed out here points into the arm's block, every value is written through the host's.
 */
#include <string.h>

#include "base/base_mem.h"
#include "engine/engine_impl.h"

static size_t padded(size_t bytes) { return (bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN + ARENA_ALIGN; }

nh_status inputs_init(inputs *in, const backend *arm, exec *base, int piece, int64_t context, int64_t vocab, nh_error *e)
{
	memset(in, 0, sizeof *in);
	size_t rows = (size_t)piece, bytes = 0;
	bytes += 3 * padded(rows * sizeof(int32_t)) + padded(rows * sizeof(int32_t)) + padded(rows * sizeof(int64_t)); /* one a row */
	bytes += 8 * padded(2 * sizeof(int32_t));                                                                      /* slots, segments */
	bytes += padded((size_t)pages_needed(context) * sizeof(int32_t));
	bytes += padded((rows + 1) * (ENGINE_WANT_MAX + 1) * sizeof(int32_t)) + padded((ENGINE_WANT_MAX + 1) * sizeof(int32_t));
	bytes +=
	    padded(sizeof(op_sample_row)) + 3 * padded(sizeof(float)) + padded((size_t)vocab) + 2 * padded((size_t)vocab * sizeof(int32_t));
	in->host.fixed = true;
	in->host.base = mem_alloc(bytes + ARENA_ALIGN);
	in->host.cap = in->host.base ? bytes : 0;
	if (!in->host.base) return ERR_NOMEM(e);
	in->arm = in->host.base;
	if (!arm || arm->host_memory) return NH_OK;
	in->arm = arm->alloc(base, bytes);
	return in->arm ? NH_OK : ERR(e, NH_ERR_NOMEM, "step inputs: %s has no %zu bytes for them", arm->name, bytes);
}

void inputs_deinit(inputs *in, const backend *arm, exec *base)
{
	if (in->arm && in->arm != in->host.base) arm->free(base, in->arm);
	arena_deinit(&in->host);
	memset(in, 0, sizeof *in);
}

/* Room for a tensor of rank 1 (columns 0) or 2; the address to write at, or NULL when the block is full. */
static void *put(inputs *in, tensor *t, num_dtype dtype, int64_t rows, int64_t columns)
{
	int64_t count = columns ? rows * columns : rows;
	char *at = arena_alloc(&in->host, (size_t)count * num_bytes(dtype));
	if (!at) {
		in->full = true;
		memset(t, 0, sizeof *t);
		return NULL;
	}
	char *arm = in->arm + (at - in->host.base);
	*t = columns ? tensor_2d(arm, dtype, rows, columns) : tensor_1d(arm, dtype, rows);
	return at;
}

static int32_t *put_i32(inputs *in, tensor *t, int64_t n) { return put(in, t, NUM_I32, n, 0); }

static void put_one(inputs *in, tensor *t, bool present, int32_t value)
{
	int32_t *at = put_i32(in, t, present);
	if (at && present) *at = value;
}

static void rows(inputs *in, step *s, const engine_request *r)
{
	step_batch *b = &s->batch;
	int32_t *ids = put_i32(in, &b->ids, s->T), *pos = put_i32(in, &b->pos, s->T), *seq = put_i32(in, &b->row_seq, s->T);
	int64_t *kv = put(in, &b->kv_slot, NUM_I64, s->T, 0);
	int32_t *out = put_i32(in, &b->out_rows, s->R);
	int32_t *table = put(in, &b->page_table, NUM_I32, 1, r->memory.page_count);
	if (in->full) return;
	for (int t = 0; t < s->T; t++) {
		ids[t] = r->tokens[s->pos + t];
		pos[t] = (int32_t)(s->pos + t);
		kv[t] = seqmem_kv_slot(&r->memory, s->pos + t);
		seq[t] = 0;
	}
	for (int i = 0; i < s->R; i++) out[i] = s->T - s->R + i;
	memcpy(table, r->memory.page, (size_t)r->memory.page_count * sizeof *table);
}

static void sequences(inputs *in, step *s, const engine_request *r)
{
	step_batch *b = &s->batch;
	int32_t from = seqmem_slot_in(&r->memory), to = r->memory.slot;
	b->T = s->T;
	b->D = s->decode ? s->T : 0;
	b->S = s->decode ? 0 : 1;
	b->R = s->R;
	b->page_tokens = PAGES_TOKENS;
	put_one(in, &b->slot_in, s->decode, from);
	put_one(in, &b->slot_out, s->decode, to);
	put_one(in, &b->seg_in, !s->decode, from);
	put_one(in, &b->seg_out, !s->decode, to);
	put_one(in, &b->seg_pos, !s->decode, (int32_t)s->pos);
	put_one(in, &b->seg_origin, !s->decode, (int32_t)r->segment);
	int32_t *row = put_i32(in, &b->seg_row, b->S + 1);
	if (!row) return;
	row[0] = b->D;
	row[b->S] = s->T;
}

static void prompt_ids(inputs *in, step *s, const engine_request *r)
{
	step_logprobs *l = &s->prompt;
	if (l->n == 0) return;
	int32_t *ids = put(in, &l->ids, NUM_I32, l->n, l->M);
	if (!ids) return;
	for (int i = 0; i < l->n; i++) {
		int64_t of = s->pos + i + 1;
		*ids++ = r->tokens[of];
		for (int j = 0; j + 1 < l->M; j++) *ids++ = r->spec.prompt_want_ids[of * (l->M - 1) + j];
	}
}

/* The sampler writes its choice straight into column 0, so that the log-probability of it is known without a way back. */
static void taken_ids(inputs *in, step *s, const engine_request *r)
{
	step_logprobs *l = &s->taken;
	if (!s->draws) return;
	int32_t *ids = put(in, &l->ids, NUM_I32, 1, l->M > 1 ? l->M : 1);
	int32_t *chosen = put_i32(in, &s->sampled, 1);
	if (!ids || !chosen) return;
	if (s->force < 0) s->sampled = tensor_1d(l->ids.data, NUM_I32, 1);
	*chosen = -1;
	ids[0] = s->force;
	for (int j = 1; j < l->M; j++)
		ids[j] = (size_t)r->generated < r->spec.want_steps ? r->spec.want_ids[r->generated * (l->M - 1) + j - 1] : -1;
}

/* Arguments that are plain arrays: host arms read them where they are. */
static const void *for_arm(inputs *in, const void *p, size_t bytes)
{
	tensor t;
	if (!p || in->arm == in->host.base) return p;
	void *at = put(in, &t, NUM_U8, (int64_t)bytes, 0);
	if (at) memcpy(at, p, bytes);
	return t.data;
}

static void tensor_for_arm(inputs *in, const tensor **t, tensor *copy)
{
	if (!*t || in->arm == in->host.base) return;
	*copy = **t;
	copy->data = (void *)(uintptr_t)for_arm(in, (*t)->data, tensor_bytes(*t));
	*t = copy;
}

static nh_status sampling(inputs *in, step *s, const engine_request *r, sample_batch *batch, nh_error *e)
{
	if (!s->draws) return NH_OK;
	sample_params greedy = sample_default();
	const sample_history history = {.ids = r->tokens, .prompt = (int64_t)r->spec.prompt_tokens, .total = s->pos + s->T};
	sample_batch_begin(batch);
	TRY(sample_batch_add(batch, s->force >= 0 ? &greedy : &r->sampling, &history, s->pos + s->T, NULL, e));
	op_sample_rows draw = sample_batch_draw(batch, NULL, NULL);
	s->sample_row = for_arm(in, draw.rows, sizeof *draw.rows);
	s->edits = sample_batch_edit(batch, NULL, &s->edit);
	if (!s->edits) return NH_OK;
	op_logit_edit *a = &s->edit;
	a->repetition = for_arm(in, a->repetition, sizeof(float));
	a->presence = for_arm(in, a->presence, sizeof(float));
	a->frequency = for_arm(in, a->frequency, sizeof(float));
	a->bias = for_arm(in, a->bias, (size_t)a->biases * sizeof *a->bias);
	tensor_for_arm(in, &a->seen, &s->edit_seen);
	tensor_for_arm(in, &a->counts, &s->edit_counts);
	tensor_for_arm(in, &a->mask, &s->edit_mask);
	return NH_OK;
}

nh_status inputs_fill(inputs *in, step *s, const engine_request *r, sample_batch *batch, nh_error *e)
{
	arena_reset(&in->host);
	in->full = false;
	rows(in, s, r);
	sequences(in, s, r);
	prompt_ids(in, s, r);
	taken_ids(in, s, r);
	TRY(sampling(in, s, r, batch, e));
	return in->full ? ERR(e, NH_ERR_INTERNAL, "step inputs: %d rows do not fit into %zu bytes", s->T, in->host.cap) : NH_OK;
}

nh_status step_inputs(engine *g, nh_error *e)
{
	inputs *in = &g->in;
	TRY(inputs_fill(in, &g->step, g->active, g->sampling, e));
	if (in->arm == in->host.base) return NH_OK;
	return g->parts->arm->upload(g->parts->base, in->arm, in->host.base, in->host.used, e);
}
