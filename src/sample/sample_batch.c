/* SPDX-License-Identifier: Apache-2.0
 * sample_batch.c: the rows of one step, side by side, as logit_edit and sample_rows want them. Looks at ids only.
 * The invariant that breaks first: a line of a table is cleared by the row that takes it, whoever had it before.
 */
#include <math.h>
#include <string.h>

#include "base/base_mem.h"
#include "sample/sample.h"

/* Most biases of a row: its own, its bans of end ids, one ban a bad word. */
#define ROW_BIASES (SAMPLE_BIAS_MAX + 2 * SAMPLE_END_MAX + SAMPLE_WORDS_MAX)

struct sample_batch {
	int cap, count;
	int64_t vocab, words; /* words: of a mask line */
	op_sample_row *rows;  /* own [cap] */
	float *repetition, *presence, *frequency;
	op_logit_bias *bias; /* own [cap * ROW_BIASES] */
	int biases;
	/* Tables [cap, V] and [cap, words]; a line means something only to a row that took it. */
	int32_t *counts;
	uint8_t *seen;
	uint32_t *mask;
	bool *has_mask;
	bool any_counts, any_seen, any_mask;
	tensor counts_view, seen_view, mask_view;
};

sample_batch *sample_batch_create(int rows, int64_t vocab)
{
	if (rows < 1 || rows > INT32_MAX / ROW_BIASES || vocab < 1 || vocab > INT32_MAX) return NULL;
	sample_batch *b = mem_alloc(sizeof *b);
	if (!b) return NULL;
	size_t n = (size_t)rows, cells = 0, words = 0;
	b->cap = rows;
	b->vocab = vocab;
	b->words = (vocab + 31) / 32;
	bool ok = mem_mul(n, (size_t)vocab, &cells) && mem_mul(n, (size_t)b->words, &words);
	ok = ok && (b->rows = mem_array(n, sizeof *b->rows)) && (b->repetition = mem_array(n, sizeof(float)));
	ok = ok && (b->presence = mem_array(n, sizeof(float))) && (b->frequency = mem_array(n, sizeof(float)));
	ok = ok && (b->bias = mem_array(n * ROW_BIASES, sizeof *b->bias));
	ok = ok && (b->counts = mem_array(cells, sizeof *b->counts)) && (b->seen = mem_array(cells, 1));
	ok = ok && (b->mask = mem_array(words, sizeof *b->mask));
	ok = ok && (b->has_mask = mem_array(n, sizeof(bool)));
	if (ok) return b;
	sample_batch_destroy(b);
	return NULL;
}

void sample_batch_destroy(sample_batch *b)
{
	if (!b) return;
	void *own[] = {b->rows, b->repetition, b->presence, b->frequency, b->bias, b->counts, b->seen, b->mask, b->has_mask};
	for (size_t i = 0; i < ARRAY_LEN(own); i++) mem_free(own[i]);
	mem_free(b);
}

void sample_batch_begin(sample_batch *b)
{
	b->count = b->biases = 0;
	b->any_counts = b->any_seen = b->any_mask = false;
}

static void add_bias(sample_batch *b, int32_t id, float add)
{
	b->bias[b->biases++] = (op_logit_bias){.row = b->count, .id = id, .add = add};
}

/* Whether the output ends in all of the word but its last id. The prompt may contain the word: nobody drew it. */
static bool word_is_due(const sample_word *w, const sample_history *h)
{
	int64_t before = w->count - 1;
	if (h->total - h->prompt < before) return false;
	return before == 0 || memcmp(h->ids + h->total - before, w->ids, (size_t)before * sizeof *w->ids) == 0;
}

static void add_biases(sample_batch *b, const sample_params *p, const sample_history *h)
{
	for (int i = 0; i < p->biases; i++)
		if (p->bias[i].add != 0) add_bias(b, p->bias[i].id, p->bias[i].add);
	if (h->total - h->prompt < p->min_tokens) {
		for (int i = 0; i < p->end_count; i++) add_bias(b, p->end_ids[i], -INFINITY);
		for (int i = 0; i < p->stop_count; i++) add_bias(b, p->stop_ids[i], -INFINITY);
	}
	for (int i = 0; i < p->bad_word_count; i++)
		if (word_is_due(&p->bad_words[i], h)) add_bias(b, p->bad_words[i].ids[p->bad_words[i].count - 1], -INFINITY);
}

static void add_tables(sample_batch *b, const sample_params *p, const sample_history *h, const uint32_t *mask)
{
	size_t r = (size_t)b->count, V = (size_t)b->vocab, words = (size_t)b->words;
	if (sample_needs_seen(p)) {
		uint8_t *line = b->seen + r * V;
		memset(line, 0, V);
		for (int64_t i = 0; i < h->total; i++) line[h->ids[i]] = 1;
		b->any_seen = true;
	}
	if (sample_needs_counts(p)) {
		int32_t *line = b->counts + r * V;
		memset(line, 0, V * sizeof *line);
		for (int64_t i = h->prompt; i < h->total; i++) line[h->ids[i]]++;
		b->any_counts = true;
	}
	if ((b->has_mask[r] = mask || p->allowed)) {
		uint32_t *line = b->mask + r * words;
		memset(line, p->allowed ? 0 : 0xFF, words * sizeof *line);
		for (int64_t i = 0; p->allowed && i < p->allowed_count; i++) line[p->allowed[i] / 32] |= 1u << (p->allowed[i] % 32);
		for (size_t i = 0; mask && i < words; i++) line[i] &= mask[i];
		b->any_mask = true;
	}
}

nh_status sample_batch_add(
    sample_batch *b, const sample_params *p, const sample_history *h, int64_t position, const uint32_t *mask, nh_error *e)
{
	if (b->count == b->cap) return ERR(e, NH_ERR_LIMIT, "sampling: a step has more than %d rows", b->cap);
	if (h->prompt < 0 || h->total < h->prompt || (h->total > 0 && !h->ids)) return ERR(e, NH_ERR_ARG, "sampling: the history is malformed");
	if (sample_needs_seen(p) || sample_needs_counts(p))
		for (int64_t i = 0; i < h->total; i++)
			if (h->ids[i] < 0 || h->ids[i] >= b->vocab)
				return ERR(e, NH_ERR_ARG, "sampling: history[%lld]: id is %d, expected 0 to %lld", (long long)i, (int)h->ids[i],
				    (long long)b->vocab - 1);
	size_t r = (size_t)b->count;
	b->rows[r] = sample_row(p, position);
	b->repetition[r] = (float)p->repetition;
	b->presence[r] = (float)p->presence;
	b->frequency[r] = (float)p->frequency;
	add_biases(b, p, h);
	add_tables(b, p, h, mask);
	b->count++;
	return NH_OK;
}

int sample_batch_rows(const sample_batch *b) { return b->count; }

/* The op takes a mask for all rows or none, so rows without one allow everything. Stale lines of the other tables need no clearing: such
 * rows have neutral penalties. */
static void fill_gaps(sample_batch *b)
{
	size_t words = (size_t)b->words;
	for (size_t r = 0; b->any_mask && r < (size_t)b->count; r++)
		if (!b->has_mask[r]) memset(b->mask + r * words, 0xFF, words * sizeof *b->mask);
}

bool sample_batch_edit(sample_batch *b, const tensor *logits, op_logit_edit *out)
{
	*out = (op_logit_edit){.logits = logits};
	if (!b->any_seen && !b->any_counts && !b->any_mask && b->biases == 0) return false;
	fill_gaps(b);
	b->seen_view = tensor_2d(b->seen, NUM_U8, b->count, b->vocab);
	b->counts_view = tensor_2d(b->counts, NUM_I32, b->count, b->vocab);
	b->mask_view = tensor_2d(b->mask, NUM_I32, b->count, b->words);
	if (b->any_seen) {
		out->seen = &b->seen_view;
		out->repetition = b->repetition;
	}
	if (b->any_counts) {
		out->counts = &b->counts_view;
		out->presence = b->presence;
		out->frequency = b->frequency;
	}
	if (b->any_mask) out->mask = &b->mask_view;
	out->bias = b->biases ? b->bias : NULL;
	out->biases = b->biases;
	return true;
}

op_sample_rows sample_batch_draw(const sample_batch *b, const tensor *ids, const tensor *logits)
{
	return (op_sample_rows){.ids = ids, .logits = logits, .rows = b->rows};
}
