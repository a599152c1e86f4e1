/* SPDX-License-Identifier: Apache-2.0
 * ref_sample.c: from logits to tokens, their log-probabilities, and pooled rows. Contracts: op_sample.h. Everything is in double; a draw
 * depends on the row, its parameters, seed and position alone. The invariant that breaks first: among equals the lower id comes first.
 */
#include <string.h>

#include "backend/ref/ref.h"
#include "backend/ref/ref_math.h"
#include "base/base_rng.h"

/* -- edits ------------------------------------------------------------------------------------------------------------------------- */

void ref_logit_edit(exec *x, const op_logit_edit *a)
{
	exec_count(x, OP_logit_edit, a);
	ref_begin(x);
	const int64_t rows = a->logits->shape[0], V = a->logits->shape[1];
	double *l = ref_take(x, OP_logit_edit, V, sizeof *l);
	if (!l) return;
	for (int i = 0; i < a->biases; i++)
		if (a->bias[i].row < 0 || a->bias[i].row >= rows || a->bias[i].id < 0 || a->bias[i].id >= V) {
			exec_fail(x, OP_logit_edit, NH_ERR_ARG, "bias %d is for row %d, id %d, expected rows below %lld and ids below %lld", i,
			    a->bias[i].row, a->bias[i].id, (long long)rows, (long long)V);
			return;
		}
	for (int64_t r = 0; r < rows; r++) {
		ref_load(a->logits, r, 0, V, l);
		if (a->repetition && a->repetition[r] != 1.0f && !tensor_absent(a->seen)) {
			const uint8_t *seen = tensor_row(a->seen, r);
			const double by = (double)a->repetition[r];
			for (int64_t i = 0; i < V; i++)
				if (seen[i]) l[i] = l[i] > 0.0 ? l[i] / by : l[i] * by;
		}
		if (!tensor_absent(a->counts)) {
			const int32_t *counts = tensor_row(a->counts, r);
			const double once = a->presence ? (double)a->presence[r] : 0.0, each = a->frequency ? (double)a->frequency[r] : 0.0;
			for (int64_t i = 0; i < V; i++)
				if (counts[i] > 0) l[i] = l[i] - once - each * (double)counts[i];
		}
		for (int i = 0; i < a->biases; i++)
			if (a->bias[i].row == r) l[a->bias[i].id] += (double)a->bias[i].add;
		if (!tensor_absent(a->mask)) {
			const uint32_t *mask = tensor_row(a->mask, r);
			for (int64_t i = 0; i < V; i++)
				if (!(mask[i / 32] >> (i % 32) & 1u)) l[i] = -INFINITY;
		}
		ref_store(a->logits, r, 0, V, l);
	}
}

/* -- drawing ----------------------------------------------------------------------------------------------------------------------- */

/* A heap of ids, the best on top: the larger p, then the lower id. */
static bool better(const double *p, int32_t a, int32_t b) { return p[a] > p[b] || (a < b && p[a] == p[b]); }

static void sink_down(const double *p, int32_t *heap, int64_t n, int64_t i)
{
	for (int64_t child; (child = 2 * i + 1) < n; i = child) {
		if (child + 1 < n && better(p, heap[child + 1], heap[child])) child++;
		if (!better(p, heap[child], heap[i])) return;
		int32_t swap = heap[i];
		heap[i] = heap[child], heap[child] = swap;
	}
}

static int32_t pop(const double *p, int32_t *heap, int64_t *n)
{
	int32_t top = heap[0];
	heap[0] = heap[--*n];
	sink_down(p, heap, *n, 0);
	return top;
}

/* Largest logit, lowest id among equals; -1 where a NaN is, or nothing finite. */
static int32_t greedy(const double *l, int64_t V)
{
	int64_t best = 0;
	bool finite = false;
	for (int64_t i = 0; i < V; i++) {
		if (isnan(l[i])) return -1;
		finite |= isfinite(l[i]) != 0;
		if (l[i] > l[best]) best = i;
	}
	return finite ? (int32_t)best : -1;
}

/* p and heap: [V]; order: [V]. `top` is the greedy choice. */
static int32_t draw(const op_sample_row *o, double *p, int64_t V, int32_t top, int32_t *heap, int32_t *order)
{
	const double best = p[top];
	int64_t n = 0;
	double norm = 0.0;
	for (int64_t i = 0; i < V; i++) {
		p[i] = p[i] == best ? 1.0 : isinf(p[i]) ? 0.0 : exp((p[i] - best) / o->temperature); /* (-inf) / inf is no number */
		if (p[i] > 0.0) heap[n++] = (int32_t)i;
		norm += p[i];
	}
	for (int64_t i = n / 2; i-- > 0;) sink_down(p, heap, n, i);
	int64_t ordered = 0, kept = n;
	if (o->top_k > 0 && o->top_k < n) {
		kept = o->top_k;
		norm = 0.0;
		for (; ordered < kept; ordered++) norm += p[order[ordered] = pop(p, heap, &n)];
	}
	double total = norm;
	if (o->top_p < 1.0 || o->min_p > 0.0) {
		total = 0.0;
		for (int64_t i = 0; i < kept; i++) {
			if (i == ordered) order[ordered++] = pop(p, heap, &n);
			/* order[i] stays if those before it have not reached top_p yet, and p itself is large enough; p of the best is 1 */
			if (i > 0 && (total >= o->top_p * norm || p[order[i]] < o->min_p)) kept = i;
			else total += p[order[i]];
		}
	}
	const double target = rng_unit(o->seed, (uint64_t)o->position, 0) * total;
	double sum = 0.0;
	int32_t id = top;
	for (int64_t i = 0; i < kept; i++) {
		if (i == ordered) order[ordered++] = pop(p, heap, &n);
		id = order[i];
		sum += p[id];
		if (sum > target) break;
	}
	return id;
}

void ref_sample_rows(exec *x, const op_sample_rows *a)
{
	exec_count(x, OP_sample_rows, a);
	ref_begin(x);
	const int64_t rows = a->logits->shape[0], V = a->logits->shape[1];
	double *l = ref_take(x, OP_sample_rows, V, sizeof *l);
	int32_t *heap = ref_take(x, OP_sample_rows, V, sizeof *heap), *order = ref_take(x, OP_sample_rows, V, sizeof *order);
	if (!l || !heap || !order) return;
	for (int64_t r = 0; r < rows; r++) {
		ref_load(a->logits, r, 0, V, l);
		int32_t id = V > 0 ? greedy(l, V) : -1;
		if (id >= 0 && a->rows[r].temperature > 0.0) id = draw(&a->rows[r], l, V, id, heap, order);
		((int32_t *)a->ids->data)[r * a->ids->stride[0]] = id;
	}
}

/* -- log-probabilities ------------------------------------------------------------------------------------------------------------- */

typedef struct logits {
	double *l;
	int64_t V;
	double max, log_sum; /* lp = l - max - log_sum */
	bool nan;
} logits;

static void log_softmax(logits *s)
{
	s->max = -INFINITY, s->nan = false;
	for (int64_t i = 0; i < s->V; i++) {
		s->nan |= isnan(s->l[i]);
		if (s->l[i] > s->max) s->max = s->l[i];
	}
	double sum = 0.0;
	for (int64_t i = 0; i < s->V; i++) sum += s->l[i] == s->max ? 1.0 : exp(s->l[i] - s->max);
	s->log_sum = sum > 0.0 ? log(sum) : 0.0; /* no number: `nan` says so */
}

static double log_probability(const logits *s, int64_t id)
{
	if (s->nan) return NAN;
	if (s->l[id] == -INFINITY) return -INFINITY;
	return (s->l[id] == s->max ? 0.0 : s->l[id] - s->max) - s->log_sum;
}

/* The K best ids, best first, by insertion; -1 past the end of the vocabulary. */
static void best_ids(const logits *s, int32_t *ids, double *lp, int64_t K)
{
	int64_t n = 0;
	for (int64_t i = 0; !s->nan && i < s->V; i++) {
		if (n == K && (K == 0 || s->l[i] <= s->l[ids[K - 1]])) continue;
		int64_t at = n < K ? n++ : K - 1;
		for (; at > 0 && s->l[ids[at - 1]] < s->l[i]; at--) ids[at] = ids[at - 1];
		ids[at] = (int32_t)i;
	}
	for (int64_t k = 0; k < K; k++) {
		lp[k] = k < n ? log_probability(s, ids[k]) : s->nan ? NAN : -INFINITY;
		if (k >= n) ids[k] = -1;
	}
}

void ref_logprobs(exec *x, const op_logprobs *a)
{
	exec_count(x, OP_logprobs, a);
	ref_begin(x);
	const int64_t rows = a->logits->shape[0], V = a->logits->shape[1];
	logits s = {.l = ref_take(x, OP_logprobs, V, sizeof *s.l), .V = V};
	if (!s.l) return;
	for (int64_t r = 0; r < rows; r++) {
		ref_load(a->logits, r, 0, V, s.l);
		log_softmax(&s);
		for (int64_t m = 0; !tensor_absent(a->ids) && m < a->ids->shape[1]; m++) {
			int32_t id = ((const int32_t *)tensor_row(a->ids, r))[m], rank = 0;
			double lp = 0.0;
			if (id < -1 || id >= V) {
				exec_fail(x, OP_logprobs, NH_ERR_ARG, "ids[%lld, %lld] = %d, expected -1 <= id < %lld", (long long)r, (long long)m, id,
				    (long long)V);
				return;
			}
			if (id >= 0) {
				lp = log_probability(&s, id);
				rank = s.nan ? 0 : 1;
				for (int64_t i = 0; !s.nan && i < V; i++) rank += s.l[i] > s.l[id] || (i < id && s.l[i] == s.l[id]);
			}
			((double *)tensor_row(a->lp, r))[m] = lp;
			((int32_t *)tensor_row(a->rank, r))[m] = rank;
		}
		if (!tensor_absent(a->top_ids)) best_ids(&s, tensor_row(a->top_ids, r), tensor_row(a->top_lp, r), a->top_ids->shape[1]);
	}
}

/* -- pooling ----------------------------------------------------------------------------------------------------------------------- */

void ref_pool_rows(exec *x, const op_pool_rows *a)
{
	exec_count(x, OP_pool_rows, a);
	ref_begin(x);
	const int64_t n = a->y->shape[0], width = a->y->shape[1], rows = a->x->shape[0];
	double *sum = ref_take(x, OP_pool_rows, width, sizeof *sum), *row = ref_take(x, OP_pool_rows, width, sizeof *row);
	if (!sum || !row) return;
	for (int64_t s = 0; s < n; s++) {
		int32_t from = ref_i32(a->start, s), to = ref_i32(a->start, s + 1);
		if (from < 0 || from >= to || to > rows) {
			exec_fail(x, OP_pool_rows, NH_ERR_ARG, "pool %lld takes rows %d to %d of %lld", (long long)s, from, to, (long long)rows);
			return;
		}
		if (a->how == OP_POOL_LAST) ref_load(a->x, to - 1, 0, width, sum);
		else {
			memset(sum, 0, (size_t)width * sizeof *sum);
			for (int64_t t = from; t < to; t++) {
				ref_load(a->x, t, 0, width, row);
				for (int64_t i = 0; i < width; i++) sum[i] += row[i];
			}
			for (int64_t i = 0; i < width; i++) sum[i] /= (double)(to - from);
		}
		if (a->normalise) {
			double square = 0.0;
			for (int64_t i = 0; i < width; i++) square += sum[i] * sum[i];
			const double length = sqrt(square);
			for (int64_t i = 0; length > 0.0 && i < width; i++) sum[i] /= length;
		}
		ref_store(a->y, s, 0, width, sum);
	}
}
