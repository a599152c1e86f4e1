/* SPDX-License-Identifier: Apache-2.0
 * s_inputs.c: what a step reads, laid out in one block: token ids, positions, slots, pages, and what the sampler wants to know. Host arms
 * read the block itself; others get it in one upload.
 * The invariant that breaks first: every tensor handed out here points into the arm's block, every value is written through the host's.
 */
#include <string.h>

#include "base/base_mem.h"
#include "engine/engine_impl.h"

static size_t padded(size_t bytes) { return (bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN + ARENA_ALIGN; }

nh_status inputs_init(inputs *in, const engine_parts *p, const engine_limits *l, bool dry, nh_error *e)
{
	memset(in, 0, sizeof *in);
	const backend *arm = dry ? NULL : p->arm;
	bool far = arm && !arm->host_memory;
	size_t rows = (size_t)engine_most_rows(l), draws = (size_t)engine_most_draws(l), n = (size_t)l->sequences, bytes = 0;
	size_t vocab = (size_t)p->m->shape.vocab, i32 = sizeof(int32_t);
	bytes += 5 * padded(rows * i32) + padded(rows * sizeof(int64_t)) + 2 * padded((rows + 1) * i32); /* one a row */
	bytes += 2 * padded(draws * i32) + 5 * padded((n + 1) * i32) + 4 * padded(n * i32);              /* slots, segments, forks */
	bytes += padded(n * (size_t)pages_needed(l->context) * i32);
	bytes += 2 * n * (padded(i32) + padded(draws * i32)) + 2 * padded(rows * i32);           /* tokens that came, item by item */
	bytes += 2 * n * padded(ENGINE_WANT_MAX * i32) + 2 * rows * (ENGINE_WANT_MAX * i32 + 1); /* ids asked for */
	bytes += padded(draws * sizeof(op_sample_row)) + padded(draws * i32);
	if (far) {
		bytes += padded(draws * sizeof(op_sample_row)) + 3 * padded(draws * sizeof(float)) + padded(draws * vocab);
		bytes += padded(draws * vocab * i32) + padded(draws * (vocab / 8 + 8));
		bytes += padded(draws * (SAMPLE_BIAS_MAX + 2 * SAMPLE_END_MAX + SAMPLE_WORDS_MAX) * sizeof(op_logit_bias));
	}
	in->host.fixed = true;
	in->host.base = mem_alloc(bytes + ARENA_ALIGN);
	in->host.cap = in->host.base ? bytes : 0;
	if (!in->host.base) return ERR_NOMEM(e);
	in->arm = in->host.base;
	if (!far) return NH_OK;
	in->arm = arm->alloc(p->base, bytes);
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

static void rows(inputs *in, step *s)
{
	step_batch *b = &s->batch;
	int64_t width = 1;
	for (int k = 0; k < s->items; k++)
		if (s->item[k].q->memory.page_count > width) width = s->item[k].q->memory.page_count;
	int32_t *ids = put_i32(in, &b->ids, s->T), *pos = put_i32(in, &b->pos, s->T), *seq = put_i32(in, &b->row_seq, s->T);
	int64_t *kv = put(in, &b->kv_slot, NUM_I64, s->T, 0);
	int32_t *out = put_i32(in, &b->out_rows, s->R), *hidden = put_i32(in, &s->hidden.rows, s->E),
	        *start = put_i32(in, &s->hidden_start, s->E + 1);
	int32_t *table = put(in, &b->page_table, NUM_I32, s->items, width);
	if (in->full) return;
	for (int k = 0; k < s->items; k++) {
		const step_item *i = &s->item[k];
		const seqmem *m = &i->q->memory;
		for (int t = 0; t < i->rows; t++) {
			*ids++ = i->q->tokens[i->pos + t];
			*pos++ = (int32_t)(i->pos + t);
			*kv++ = seqmem_kv_slot(m, i->pos + t);
			*seq++ = k;
		}
		for (int t = 0; t < i->R; t++) *out++ = i->row0 + i->rows - i->R + t;
		for (int t = 0; t < i->E; t++) *hidden++ = i->row0 + i->rows - i->E + t;
		for (int64_t p = 0; p < width; p++) *table++ = p < m->page_count ? m->page[p] : -1;
	}
	for (int t = 0; t <= s->E; t++) start[t] = t;
	s->hidden.count = s->E;
}

static void sequences(inputs *in, step *s)
{
	step_batch *b = &s->batch;
	b->T = s->T;
	b->D = s->D;
	b->S = s->S;
	b->R = s->R;
	b->page_tokens = PAGES_TOKENS;
	int32_t *slot_in = put_i32(in, &b->slot_in, s->D), *slot_out = put_i32(in, &b->slot_out, s->D);
	int32_t *row = put_i32(in, &b->seg_row, s->S + 1), *pos = put_i32(in, &b->seg_pos, s->S), *origin = put_i32(in, &b->seg_origin, s->S);
	int32_t *seg_in = put_i32(in, &b->seg_in, s->S), *seg_out = put_i32(in, &b->seg_out, s->S);
	if (in->full) return;
	for (int k = 0; k < s->items; k++) {
		const step_item *i = &s->item[k];
		int32_t from = seqmem_slot_in(&i->q->memory);
		if (i->decode) {
			for (int t = 0; t < i->rows; t++) {
				*slot_in++ = t == 0 ? from : i->slot[t - 1];
				*slot_out++ = i->slot[t];
			}
			continue;
		}
		*row++ = i->row0;
		*pos++ = (int32_t)i->pos;
		*origin++ = (int32_t)i->q->segment;
		*seg_in++ = from;
		*seg_out++ = i->q->memory.slot;
	}
	*row = s->T;
}

/* The prompt's state and its last, partial page, for the other choices. */
static void forks(inputs *in, step *s)
{
	int32_t *from = put_i32(in, &s->fork_from, s->forks), *to = put_i32(in, &s->fork_to, s->forks);
	int32_t *page_from = put_i32(in, &s->page_from, s->page_forks), *page_to = put_i32(in, &s->page_to, s->page_forks);
	if (in->full) return;
	for (int k = 0; k < s->items && s->forks; k++) {
		const step_item *i = &s->item[k];
		const engine_request *r = i->q->r;
		for (int c = 1; !i->decode && c < r->choices && i->draws; c++) {
			const seqmem *m = &r->seq[c].memory;
			*from++ = i->q->memory.slot;
			*to++ = m->slot;
			if (r->given % PAGES_TOKENS == 0) continue;
			*page_from++ = i->q->memory.page[m->page_count - 1];
			*page_to++ = m->page[m->page_count - 1];
		}
	}
}

static void prompt_ids(inputs *in, const step_item *i, step_logprobs *l)
{
	const engine_request *r = i->q->r;
	int32_t *chosen = put(in, &l->chosen, NUM_I32, l->n, 1), *ids = put(in, &l->ids, NUM_I32, l->n, l->M ? l->M : 1);
	if (!chosen || !ids) return;
	for (int k = 0; k < l->n; k++) {
		int64_t of = i->pos + k + 1;
		*chosen++ = i->q->tokens[of];
		for (int j = 0; j < l->M; j++) *ids++ = r->spec.prompt_want_ids[of * l->M + j];
	}
}

/* A given token is known here, a drawn one when the sampler has written it. */
static void taken_ids(inputs *in, const step_item *i, step_logprobs *l)
{
	const engine_request *r = i->q->r;
	int32_t *chosen = put(in, &l->chosen, NUM_I32, l->n, 1), *ids = put(in, &l->ids, NUM_I32, l->n, l->M ? l->M : 1);
	if (!chosen || !ids) return;
	for (int k = 0; k < l->n; k++) {
		size_t at = (size_t)(i->q->generated + (i->decode ? k : 0));
		*chosen++ = i->force;
		for (int j = 0; j < l->M; j++) *ids++ = at < r->spec.want_steps ? r->spec.want_ids[at * (size_t)l->M + (size_t)j] : -1;
	}
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

/* One draw's parameters: of choice `choice`, for the token at `position`. Its mask is asked for here, because only here the tokens before it are
 * all known. */
static nh_status add_edited(step_item *i, int choice, int64_t position, sample_batch *edited, uint32_t *mask, int64_t vocab)
{
	engine_request *r = i->q->r;
	sample_params p = r->sampling;
	const sample_history history = {.ids = i->q->tokens, .prompt = r->given, .total = position};
	const uint32_t *bits = NULL;
	p.seed += (uint64_t)choice;
	if (r->spec.mask && i->force < 0 && !i->failed) {
		size_t words = (size_t)(vocab + 31) / 32;
		memset(mask, 0xFF, words * sizeof *mask);
		if (r->spec.mask(r->spec.mask_user, choice, position, mask, words)) bits = mask;
		else {
			i->failed = true;
			ERR(&r->error, NH_ERR_STATE, "position %lld: the token mask failed", (long long)position);
		}
	}
	if (i->force >= 0 || i->failed) p = sample_default();
	return sample_batch_add(edited, &p, &history, position, bits, &r->error);
}

static nh_status draws(inputs *in, step *s, sample_batch *edited, uint32_t *mask, int64_t vocab, nh_error *e)
{
	tensor unused;
	op_sample_row *plain = put(in, &unused, NUM_U8, (int64_t)((size_t)s->plain * sizeof *plain), 0);
	s->rows = unused.data;
	int32_t *from = put_i32(in, &s->draw_rows, s->N);
	if (in->full) return NH_OK;
	sample_batch_begin(edited);
	for (int k = 0; k < s->items; k++) {
		step_item *i = &s->item[k];
		const engine_request *r = i->q->r;
		for (int d = 0; d < i->draws; d++) {
			int choice = i->decode ? i->q->choice : d;
			int64_t position = i->decode ? i->pos + 1 + d : r->given;
			from[i->d0 + d] = i->decode ? i->r0 + i->R - i->draws + d : i->r0 + i->R - 1;
			if (i->edits) {
				nh_status status = add_edited(i, choice, position, edited, mask, vocab);
				if (status != NH_OK) return ERR(e, status, "%s", r->error.text);
				continue;
			}
			op_sample_row *row = &plain[i->d0 + d];
			*row = i->force >= 0 ? (op_sample_row){.top_p = 1} : r->row;
			row->position = position;
			row->seed += (uint64_t)choice;
		}
	}
	if (s->N == s->plain) return NH_OK;
	op_sample_rows draw = sample_batch_draw(edited, NULL, NULL);
	s->edited_rows = for_arm(in, draw.rows, (size_t)(s->N - s->plain) * sizeof *draw.rows);
	op_logit_edit *a = &s->edit;
	if (!sample_batch_edit(edited, NULL, a)) memset(a, 0, sizeof *a);
	size_t floats = (size_t)(s->N - s->plain) * sizeof(float);
	a->repetition = for_arm(in, a->repetition, floats);
	a->presence = for_arm(in, a->presence, floats);
	a->frequency = for_arm(in, a->frequency, floats);
	a->bias = for_arm(in, a->bias, (size_t)a->biases * sizeof *a->bias);
	tensor_for_arm(in, &a->seen, &s->edit_seen);
	tensor_for_arm(in, &a->counts, &s->edit_counts);
	tensor_for_arm(in, &a->mask, &s->edit_mask);
	return NH_OK;
}

nh_status inputs_fill(inputs *in, step *s, sample_batch *edited, uint32_t *mask, int64_t vocab, nh_error *e)
{
	arena_reset(&in->host);
	in->full = false;
	rows(in, s);
	sequences(in, s);
	forks(in, s);
	for (int k = 0; k < s->items; k++) {
		if (!s->item[k].tells) continue;
		if (s->item[k].prompt.n) prompt_ids(in, &s->item[k], &s->item[k].prompt);
		if (s->item[k].taken.n) taken_ids(in, &s->item[k], &s->item[k].taken);
	}
	TRY(draws(in, s, edited, mask, vocab, e));
	return in->full ? ERR(e, NH_ERR_INTERNAL, "step inputs: %d rows do not fit into %zu bytes", s->T, in->host.cap) : NH_OK;
}

nh_status step_inputs(engine *g, nh_error *e)
{
	inputs *in = &g->in;
	TRY(inputs_fill(in, &g->step, g->edited, g->mask, g->parts->m->shape.vocab, e));
	if (in->arm == in->host.base) return NH_OK;
	return g->parts->arm->upload(g->parts->base, in->arm, in->host.base, in->host.used, e);
}
