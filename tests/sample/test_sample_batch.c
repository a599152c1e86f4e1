/* SPDX-License-Identifier: Apache-2.0
 * test_sample_batch.c: the edits of a batch, carried out here by the contract of logit_edit and compared with what each row asked for,
 * worked out from its history directly; limits and failing allocations.
 */
#include "test.h"

#include <math.h>
#include <string.h>

#include "base/base_mem.h"
#include "op/op.h"
#include "sample/sample.h"

enum { V = 70 };

/* logit_edit by its contract, in double. */
static void edit(const op_logit_edit *a, double *logits)
{
	int64_t R = a->logits->shape[0];
	for (int64_t r = 0; r < R; r++)
		for (int64_t v = 0; v < V; v++) {
			double *l = &logits[r * V + v];
			if (a->repetition && ((uint8_t *)a->seen->data)[r * V + v])
				*l = *l > 0 ? *l / (double)a->repetition[r] : *l * (double)a->repetition[r];
			int32_t n = a->counts ? ((int32_t *)a->counts->data)[r * V + v] : 0;
			if (n > 0 && a->presence) *l -= (double)a->presence[r];
			if (a->frequency) *l -= n * (double)a->frequency[r];
			for (int i = 0; i < a->biases; i++)
				if (a->bias[i].row == r && a->bias[i].id == v) *l += (double)a->bias[i].add;
			if (a->mask && !(((uint32_t *)a->mask->data)[r * ((V + 31) / 32) + v / 32] >> (v % 32) & 1)) *l = -INFINITY;
		}
}

static int times(const int32_t *ids, int64_t from, int64_t to, int32_t id)
{
	int n = 0;
	for (int64_t i = from; i < to; i++) n += ids[i] == id;
	return n;
}

static bool has(const int32_t *ids, int64_t n, int32_t id) { return times(ids, 0, n, id) > 0; }

/* What the request asks for, for one id, from its history. */
static double wanted(const sample_params *p, const sample_history *h, const uint32_t *mask, int32_t v, double l)
{
	int n = times(h->ids, h->prompt, h->total, v);
	float repetition = (float)p->repetition;
	if (times(h->ids, 0, h->total, v)) l = l > 0 ? l / (double)repetition : l * (double)repetition;
	if (n) l -= (double)(float)p->presence;
	l -= n * (double)(float)p->frequency;
	for (int i = 0; i < p->biases; i++)
		if (p->bias[i].id == v) l += (double)p->bias[i].add;
	bool ban = p->allowed && !has(p->allowed, p->allowed_count, v);
	ban |= mask && !(mask[v / 32] >> (v % 32) & 1);
	ban |= h->total - h->prompt < p->min_tokens && (has(p->end_ids, p->end_count, v) || has(p->stop_ids, p->stop_count, v));
	for (int i = 0; i < p->bad_word_count; i++) {
		const sample_word *w = &p->bad_words[i];
		if (w->ids[w->count - 1] != v) continue;
		bool due = h->total - h->prompt >= w->count - 1;
		for (int j = 0; due && j < w->count - 1; j++) due = h->ids[h->total - (w->count - 1) + j] == w->ids[j];
		ban |= due;
	}
	return ban ? -INFINITY : l;
}

static uint32_t next(uint32_t *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return *seed >> 10;
}

enum { ROWS = 4 };

typedef struct request {
	sample_params p;
	sample_history h;
	int32_t ids[12], end[2], stop[1], allowed[40], word_ids[2][2];
	sample_word words[2];
	sample_bias bias[3];
	uint32_t mask[(V + 31) / 32];
	bool masked;
} request;

/* Each feature on or off by its own bit, so that all neighbours of a row occur. */
static void make_request(request *q, uint32_t *seed, uint32_t bits)
{
	memset(q, 0, sizeof *q);
	sample_params *p = &q->p;
	*p = sample_default();
	for (size_t i = 0; i < ARRAY_LEN(q->ids); i++) q->ids[i] = (int32_t)(next(seed) % 8); /* few ids: repetitions occur */
	q->h = (sample_history){q->ids, next(seed) % 6, 0};
	q->h.total = q->h.prompt + next(seed) % 7;
	p->temperature = bits & 1 ? 0.8 : 0;
	p->seed = next(seed);
	if (bits & 2) p->repetition = 1.3;
	if (bits & 4) p->presence = 0.6;
	if (bits & 8) p->frequency = -0.3;
	q->end[0] = 2, q->end[1] = 5, q->stop[0] = 69;
	p->end_ids = q->end, p->end_count = 2;
	p->stop_ids = q->stop, p->stop_count = 1;
	if (bits & 16) p->min_tokens = next(seed) % 9;
	if (bits & 32) {
		for (int i = 0; i < 3; i++) q->bias[i] = (sample_bias){(int32_t)(next(seed) % V), (float)(next(seed) % 9) - 4};
		p->bias = q->bias, p->biases = 3;
	}
	if (bits & 64) {
		for (int i = 0; i < 40; i++) q->allowed[i] = (int32_t)(next(seed) % V);
		p->allowed = q->allowed, p->allowed_count = 40;
	}
	if (bits & 128) {
		for (int i = 0; i < 4; i++) q->word_ids[i / 2][i % 2] = (int32_t)(next(seed) % 8);
		if (bits & 1 && q->h.total) q->word_ids[0][0] = q->ids[q->h.total - 1]; /* due, if it is output */
		q->words[0] = (sample_word){q->word_ids[0], 2};
		q->words[1] = (sample_word){q->word_ids[1], 1};
		p->bad_words = q->words, p->bad_word_count = 2;
	}
	q->masked = bits & 256;
	for (size_t i = 0; i < ARRAY_LEN(q->mask); i++) q->mask[i] = next(seed) | next(seed) << 16;
}

static void batches(void **state)
{
	(void)state;
	sample_batch *b = sample_batch_create(ROWS, V);
	assert_non_null(b);
	assert_int_equal(sample_batch_rows(b), 0);
	uint32_t seed = 99;
	static request q[ROWS];
	static double logits[ROWS * V], want[ROWS * V];
	static float wide[ROWS * V];
	int looked = 0, banned = 0, moved = 0, untouched = 0;
	for (int round = 0; round < 600; round++) {
		int count = 1 + (int)(next(&seed) % ROWS);
		sample_batch_begin(b);
		for (int r = 0; r < count; r++) {
			/* Every third row asks for nothing: a neighbour's tables must not reach it. */
			uint32_t bits = (round + r) % 3 ? next(&seed) % 512 : next(&seed) % 2;
			make_request(&q[r], &seed, bits);
			assert_int_equal(sample_check(&q[r].p, V, NULL), NH_OK);
			assert_int_equal(sample_batch_add(b, &q[r].p, &q[r].h, 1000 + r, q[r].masked ? q[r].mask : NULL, NULL), NH_OK);
		}
		assert_int_equal(sample_batch_rows(b), count);
		for (int i = 0; i < count * V; i++) {
			logits[i] = (double)(next(&seed) % 64) / 4 - 8;
			request *x = &q[i / V];
			want[i] = wanted(&x->p, &x->h, x->masked ? x->mask : NULL, i % V, logits[i]);
			moved += want[i] != logits[i];
			banned += isinf(want[i]) != 0;
		}
		tensor t = tensor_2d(wide, NUM_F32, count, V), ids = tensor_1d(wide, NUM_I32, count);
		op_logit_edit a;
		char text[256];
		if (sample_batch_edit(b, &t, &a)) {
			const char *wrong = op_check_logit_edit(&a, text);
			if (wrong) fail_msg("%s", wrong);
			edit(&a, logits);
		} else {
			untouched++;
		}
		for (int i = 0; i < count * V; i++, looked++)
			if (logits[i] != want[i]) fail_msg("round %d, row %d, id %d: %g, expected %g", round, i / V, i % V, logits[i], want[i]);
		op_sample_rows d = sample_batch_draw(b, &ids, &t);
		ids.data = logits; /* other memory */
		assert_null(op_check_sample_rows(&d, text));
		for (int r = 0; r < count; r++) {
			op_sample_row one = sample_row(&q[r].p, 1000 + r);
			assert_memory_equal(&d.rows[r], &one, sizeof one);
		}
	}
	printf("%d logits, %d moved, %d banned, %d batches without an edit\n", looked, moved, banned, untouched);
	assert_true(looked > 80000 && moved > 10000 && banned > 10000 && untouched > 20);
	sample_batch_destroy(b);
	assert_int_equal(mem_live(), 0);
}

static void limits(void **state)
{
	(void)state;
	assert_null(sample_batch_create(0, V));
	assert_null(sample_batch_create(1, 0));
	assert_null(sample_batch_create(INT32_MAX, V));
	assert_null(sample_batch_create(1, (int64_t)INT32_MAX + 1));
	sample_batch_destroy(NULL);
	int failed = 0;
	for (size_t n = 0; n < 10; n++) { /* each allocation of the ten */
		mem_fail_after(n);
		sample_batch *b = sample_batch_create(2, V);
		mem_fail_after(SIZE_MAX);
		failed += b == NULL;
		sample_batch_destroy(b);
		assert_int_equal(mem_live(), 0);
	}
	assert_int_equal(failed, 10);

	sample_batch *b = sample_batch_create(2, V);
	sample_params p = sample_default();
	nh_error e;
	const int32_t off[] = {1, V};
	sample_history none = {0}, bad = {off, 0, 2}, mad = {off, 2, 1};
	assert_int_equal(sample_batch_add(b, &p, &none, 0, NULL, &e), NH_OK);
	assert_int_equal(sample_batch_add(b, &p, &mad, 0, NULL, &e), NH_ERR_ARG);
	p.frequency = 1;
	assert_int_equal(sample_batch_add(b, &p, &bad, 0, NULL, &e), NH_ERR_ARG);
	assert_string_equal(e.text, "sampling: history[1]: id is 70, expected 0 to 69");
	assert_int_equal(sample_batch_rows(b), 1);
	assert_int_equal(sample_batch_add(b, &p, &none, 0, NULL, &e), NH_OK);
	assert_int_equal(sample_batch_add(b, &p, &none, 0, NULL, &e), NH_ERR_LIMIT);
	assert_string_equal(e.text, "sampling: a step has more than 2 rows");

	/* The largest request there is fits every row. */
	static int32_t ids[V];
	static sample_bias bias[SAMPLE_BIAS_MAX];
	static sample_word words[SAMPLE_WORDS_MAX];
	for (int i = 0; i < SAMPLE_BIAS_MAX; i++) bias[i].add = 1;
	for (int i = 0; i < SAMPLE_WORDS_MAX; i++) words[i] = (sample_word){ids, 1};
	static int32_t many[SAMPLE_END_MAX];
	p = sample_default();
	p.bias = bias, p.biases = SAMPLE_BIAS_MAX;
	p.bad_words = words, p.bad_word_count = SAMPLE_WORDS_MAX;
	p.end_ids = p.stop_ids = many, p.end_count = p.stop_count = SAMPLE_END_MAX;
	p.min_tokens = 1;
	assert_int_equal(sample_check(&p, V, &e), NH_OK);
	sample_batch_begin(b);
	for (int r = 0; r < 2; r++) assert_int_equal(sample_batch_add(b, &p, &none, 0, NULL, &e), NH_OK);
	static float wide[2 * V];
	tensor t = tensor_2d(wide, NUM_F32, 2, V);
	op_logit_edit a;
	assert_true(sample_batch_edit(b, &t, &a));
	assert_int_equal(a.biases, 2 * (SAMPLE_BIAS_MAX + 2 * SAMPLE_END_MAX + SAMPLE_WORDS_MAX));
	assert_true(a.bias[0].row == 0 && a.bias[a.biases - 1].row == 1);
	sample_batch_destroy(b);
	assert_int_equal(mem_live(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(batches), cmocka_unit_test(limits)};
	return cmocka_run_group_tests_name("sample_batch", tests, NULL, NULL);
}
