/* SPDX-License-Identifier: Apache-2.0
 * cpu_sample.c: from logits to tokens, and their log-probabilities. Contracts: op_sample.h. Weights and sums are doubles, and the order of a
 * draw is ref's. A row's vocabulary is cut into blocks whose results are put together in ascending order, whoever computed them. The
 * invariant that breaks first: among equals the lower id comes first.
 */
#include "backend/cpu/cpu_kit.h"
#include "backend/cpu/vec/vec_sample.h"
#include "base/base_rng.h"

#define BLOCK 4096
#define LIKELY 0x1p-12 /* weights of at least this, relative to the best's 1, are put in order first; mostly nobody asks for others */

typedef struct block {
	double sum;
	float top;
	bool nan, finite;
} block;

typedef struct sample {
	const op_sample_rows *a;
	const vec_row *row;
	const vec_sample *k;
	int64_t V, blocks, first, n; /* rows [first, first + n) at a time */
	block *block;                /* [n, blocks] */
	float *top;                  /* [n] the largest logit; NaN: the row has no choice */
	double *p;                   /* [n, V] weights of the rows that draw */
	int32_t *heap, *order;       /* [n, V] */
} sample;

static bool draws(const sample *m, int64_t i) { return m->a->rows[m->first + i].temperature > 0.0 && m->top[i] == m->top[i]; }

static int64_t block_load(const sample *m, int64_t row, int64_t b, float *l)
{
	const int64_t width = ref_min(BLOCK, m->V - b * BLOCK);
	cpu_load(m->row, m->a->logits->dtype, cpu_at(m->a->logits, m->first + row, b * BLOCK), width, l);
	return width;
}

static void look_blocks(void *user, int thread, int threads)
{
	const sample *m = user;
	float l[BLOCK];
	int64_t from, to;
	cpu_range(m->n * m->blocks, 1, thread, threads, &from, &to);
	for (int64_t u = from; u < to; u++) {
		block *b = &m->block[u];
		const int64_t width = block_load(m, u / m->blocks, u % m->blocks, l);
		b->top = m->k->look(l, width, &b->nan, &b->finite);
	}
}

static void weigh_blocks(void *user, int thread, int threads)
{
	const sample *m = user;
	float l[BLOCK];
	int64_t from, to;
	cpu_range(m->n * m->blocks, 1, thread, threads, &from, &to);
	for (int64_t u = from; u < to; u++) {
		const int64_t i = u / m->blocks, b = u % m->blocks;
		if (!draws(m, i)) continue;
		const int64_t width = block_load(m, i, b, l);
		m->block[u].sum = m->k->weights(m->p + i * m->V + b * BLOCK, l, width, (double)m->top[i], m->a->rows[m->first + i].temperature);
	}
}

/* Ids by falling weight, lower ids first among equals: a heap, the best on top, filled in two goes. */
typedef struct picker {
	const double *p;
	int64_t V, n;
	int32_t *heap;
	bool rest;
} picker;

static bool better(const double *p, int32_t a, int32_t b) { return p[a] > p[b] || (a < b && p[a] == p[b]); }

static void sink_down(const picker *k, int64_t i)
{
	for (int64_t child; (child = 2 * i + 1) < k->n; i = child) {
		if (child + 1 < k->n && better(k->p, k->heap[child + 1], k->heap[child])) child++;
		if (!better(k->p, k->heap[child], k->heap[i])) return;
		const int32_t swap = k->heap[i];
		k->heap[i] = k->heap[child], k->heap[child] = swap;
	}
}

static void fill(picker *k, double least, double below)
{
	for (int64_t i = 0; i < k->V; i++)
		if (k->p[i] >= least && k->p[i] < below) k->heap[k->n++] = (int32_t)i;
	for (int64_t i = k->n / 2; i-- > 0;) sink_down(k, i);
}

static int32_t pick(picker *k)
{
	if (k->n == 0 && !k->rest) {
		k->rest = true;
		fill(k, 0x1p-1074, LIKELY);
	}
	const int32_t top = k->heap[0];
	k->heap[0] = k->heap[--k->n];
	sink_down(k, 0);
	return top;
}

/* `norm`: the sum of all weights. */
static int32_t draw(const op_sample_row *o, const double *p, int64_t V, double norm, int32_t *heap, int32_t *order)
{
	picker k = {.p = p, .V = V, .heap = heap};
	int64_t ordered = 0, kept = 0;
	for (int64_t i = 0; i < V; i++) kept += p[i] > 0.0;
	fill(&k, LIKELY, INFINITY);
	if (o->top_k > 0 && o->top_k < kept) {
		kept = o->top_k;
		norm = 0.0;
		for (; ordered < kept; ordered++) norm += p[order[ordered] = pick(&k)];
	}
	double total = norm;
	if (o->top_p < 1.0 || o->min_p > 0.0) {
		total = 0.0;
		for (int64_t i = 0; i < kept; i++) {
			if (i == ordered) order[ordered++] = pick(&k);
			/* order[i] stays if those before it have not reached top_p yet, and its weight itself is large enough; the best's is 1 */
			if (i > 0 && (total >= o->top_p * norm || p[order[i]] < o->min_p)) kept = i;
			else total += p[order[i]];
		}
	}
	const double target = rng_unit(o->seed, (uint64_t)o->position, 0) * total;
	double sum = 0.0;
	int32_t id = -1;
	for (int64_t i = 0; i < kept; i++) {
		if (i == ordered) order[ordered++] = pick(&k);
		id = order[i];
		sum += p[id];
		if (sum > target) break;
	}
	return id;
}

/* The lowest id with the row's largest logit. */
static int32_t greedy(const sample *m, int64_t i)
{
	float l[BLOCK];
	for (int64_t b = 0; b < m->blocks; b++) {
		if (m->block[i * m->blocks + b].top != m->top[i]) continue;
		const int64_t width = block_load(m, i, b, l);
		for (int64_t j = 0; j < width; j++)
			if (l[j] == m->top[i]) return (int32_t)(b * BLOCK + j);
	}
	return -1;
}

static void choose(void *user, int thread, int threads)
{
	const sample *m = user;
	int64_t from, to;
	cpu_range(m->n, 1, thread, threads, &from, &to);
	for (int64_t i = from; i < to; i++) {
		int32_t *id = (int32_t *)m->a->ids->data + (m->first + i) * m->a->ids->stride[0];
		double norm = 0.0;
		if (!draws(m, i)) {
			*id = greedy(m, i);
			continue;
		}
		for (int64_t b = 0; b < m->blocks; b++) norm += m->block[i * m->blocks + b].sum;
		*id = draw(&m->a->rows[m->first + i], m->p + i * m->V, m->V, norm, m->heap + i * m->V, m->order + i * m->V);
	}
}

/* The blocks' findings to rows. Whether any row draws. */
static bool tops(sample *m)
{
	bool any = false;
	for (int64_t i = 0; i < m->n; i++) {
		bool nan = false, finite = false;
		m->top[i] = -INFINITY;
		for (const block *b = m->block + i * m->blocks, *end = b + m->blocks; b < end; b++) {
			nan |= b->nan, finite |= b->finite;
			m->top[i] = b->top > m->top[i] ? b->top : m->top[i];
		}
		if (nan || !finite) m->top[i] = NAN;
		any |= draws(m, i);
	}
	return any;
}

void cpu_sample_rows(exec *x, const op_sample_rows *a)
{
	exec_count(x, OP_sample_rows, a);
	ref_begin(x);
	const int64_t rows = a->logits->shape[0], V = a->logits->shape[1], at_once = ref_min(rows, cpu_threads(x));
	sample m = {.a = a, .row = cpu_row(x), .k = vec_sample_of((int)cpu_self_of(x)->tier), .V = V, .blocks = (V + BLOCK - 1) / BLOCK};
	bool any = false;
	for (int64_t r = 0; r < rows; r++) any |= a->rows[r].temperature > 0.0;
	m.block = ref_take(x, OP_sample_rows, at_once * m.blocks, sizeof *m.block);
	m.top = ref_take(x, OP_sample_rows, at_once, sizeof *m.top);
	if (!m.block || !m.top) return;
	if (any) {
		m.p = ref_take(x, OP_sample_rows, at_once * V, sizeof *m.p);
		m.heap = ref_take(x, OP_sample_rows, at_once * V, sizeof *m.heap);
		m.order = ref_take(x, OP_sample_rows, at_once * V, sizeof *m.order);
		if (!m.p || !m.heap || !m.order) return;
	}
	for (; m.first < rows; m.first += m.n) {
		m.n = ref_min(at_once, rows - m.first);
		cpu_go(x, m.n * V / 4, look_blocks, &m);
		any = tops(&m);
		if (any) cpu_go(x, m.n * V * 2, weigh_blocks, &m);
		cpu_go(x, m.n > 1 && any ? m.n * V : 0, choose, &m);
	}
}

/* -- log-probabilities ------------------------------------------------------------------------------------------------------------- */

typedef struct logits {
	const op_logprobs *a;
	const vec_row *row;
	const vec_sample *k;
	float *work; /* [threads, V] */
	int64_t V;
} logits;

typedef struct softmax {
	const float *l;
	double max, log_sum; /* lp = l - max - log_sum */
	bool nan;
} softmax;

static double log_probability(const softmax *s, int64_t id)
{
	const double l = (double)s->l[id];
	if (s->nan) return NAN;
	if (l == -INFINITY) return -INFINITY;
	return (l == s->max ? 0.0 : l - s->max) - s->log_sum;
}

/* The K best ids, best first, by insertion; -1 past the end of the vocabulary. */
static void best_ids(const softmax *s, int64_t V, int32_t *ids, double *lp, int64_t K)
{
	int64_t n = 0;
	for (int64_t i = 0; !s->nan && i < V; i++) {
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

static int32_t rank_of(const softmax *s, int64_t V, int64_t id)
{
	const float own = s->l[id];
	int32_t rank = 1;
	for (int64_t i = 0; i < V; i++) rank += s->l[i] > own;
	for (int64_t i = 0; i < id; i++) rank += s->l[i] == own;
	return s->nan ? 0 : rank;
}

static void logprob_rows(void *user, int thread, int threads)
{
	const logits *m = user;
	const op_logprobs *a = m->a;
	float *l = m->work + thread * m->V;
	int64_t from, to;
	cpu_range(a->logits->shape[0], 1, thread, threads, &from, &to);
	for (int64_t r = from; r < to; r++) {
		softmax s = {.l = l};
		bool finite;
		cpu_load(m->row, a->logits->dtype, tensor_row(a->logits, r), m->V, l);
		s.max = (double)m->k->look(l, m->V, &s.nan, &finite);
		const double sum = m->k->weights(NULL, l, m->V, s.max, 1.0);
		s.log_sum = sum > 0.0 ? log(sum) : 0.0;
		for (int64_t i = 0; !tensor_absent(a->ids) && i < a->ids->shape[1]; i++) {
			const int32_t id = ((const int32_t *)tensor_row(a->ids, r))[i];
			((double *)tensor_row(a->lp, r))[i] = id >= 0 ? log_probability(&s, id) : 0.0;
			((int32_t *)tensor_row(a->rank, r))[i] = id >= 0 ? rank_of(&s, m->V, id) : 0;
		}
		if (!tensor_absent(a->top_ids)) best_ids(&s, m->V, tensor_row(a->top_ids, r), tensor_row(a->top_lp, r), a->top_ids->shape[1]);
	}
}

void cpu_logprobs(exec *x, const op_logprobs *a)
{
	exec_count(x, OP_logprobs, a);
	ref_begin(x);
	const int64_t rows = a->logits->shape[0];
	logits m = {.a = a, .row = cpu_row(x), .k = vec_sample_of((int)cpu_self_of(x)->tier), .V = a->logits->shape[1]};
	for (int64_t r = 0; r < rows && !tensor_absent(a->ids); r++)
		for (int64_t i = 0; i < a->ids->shape[1]; i++) {
			const int32_t id = ((const int32_t *)tensor_row(a->ids, r))[i];
			if (id >= -1 && id < m.V) continue;
			exec_fail(x, OP_logprobs, NH_ERR_ARG, "ids[%lld, %lld] = %d, expected -1 <= id < %lld", (long long)r, (long long)i, id,
			    (long long)m.V);
			return;
		}
	m.work = ref_take(x, OP_logprobs, cpu_threads(x) * m.V, sizeof *m.work);
	if (m.work) cpu_go(x, rows * m.V * 2, logprob_rows, &m);
}
