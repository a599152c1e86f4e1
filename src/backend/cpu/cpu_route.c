/* SPDX-License-Identifier: Apache-2.0
 * cpu_route.c: expert choice, and the sum over the chosen. Contracts: op_moe.h. Scores are ref's own: double functions, each step rounded
 * where ref rounds, because a score one ulp away may choose another expert; they are few. The invariant that breaks first: among equal
 * choices the lower expert wins.
 */
#include "backend/cpu/cpu_kit.h"
#include "backend/cpu/vec/vec_norm.h"
#include "backend/cpu/vec/vec_ssm.h"
#include "backend/ref/ref_math.h"

typedef struct route {
	const op_route *a;
	double *bias; /* [E] */
	double *work; /* [threads, 2 E + K] */
	bool *kept;   /* [threads, E] */
	int64_t E, K;
	bool eager;
} route;

/* Leaves only the topk_group groups with the largest sums of their two best choices; the others get -inf. */
static void limit_groups(double *choice, bool *kept, int64_t E, int64_t groups, int64_t keep)
{
	const int64_t size = E / groups;
	memset(kept, 0, (size_t)groups * sizeof *kept);
	for (int64_t n = 0; n < keep; n++) {
		int64_t best = -1;
		double best_sum = 0.0;
		for (int64_t g = 0; g < groups; g++) {
			double first = -INFINITY, second = -INFINITY;
			for (int64_t e = g * size; e < (g + 1) * size; e++) {
				if (choice[e] > first) second = first, first = choice[e];
				else if (choice[e] > second) second = choice[e];
			}
			const double sum = size > 1 ? first + second : first;
			if (!kept[g] && (best < 0 || sum > best_sum)) best = g, best_sum = sum;
		}
		kept[best] = true;
	}
	for (int64_t g = 0; g < groups; g++)
		for (int64_t e = g * size; !kept[g] && e < (g + 1) * size; e++) choice[e] = -INFINITY;
}

static void route_row(const route *m, int64_t t, double *choice, double *score, double *w, bool *taken)
{
	const op_route *a = m->a;
	const int64_t E = m->E, K = m->K;
	ref_load(a->logits, t, 0, E, score);
	for (int64_t e = 0; e < E; e++) {
		const double l = score[e], s = m->eager ? ref_f32(0.5 * ref_f32(tanh(0.5 * l)) + 0.5) : 1.0 / (1.0 + exp(-l));
		choice[e] = m->eager ? ref_f32(s + m->bias[e]) : s + m->bias[e];
		score[e] = m->eager ? ref_f32(choice[e] - m->bias[e]) : s;
	}
	if (a->topk_group < a->n_group) limit_groups(choice, taken, E, a->n_group, a->topk_group);
	memset(taken, 0, (size_t)E * sizeof *taken);
	double sum = 0.0;
	int32_t *idx = tensor_row(a->idx, t);
	for (int64_t k = 0; k < K; k++) {
		int64_t best = -1;
		for (int64_t e = 0; e < E; e++)
			if (!taken[e] && (best < 0 || choice[e] > choice[best])) best = e;
		taken[best] = true;
		idx[k] = (int32_t)best;
		w[k] = score[best];
		sum += w[k];
	}
	if (a->norm) {
		const double scale = m->eager ? ref_f32(1.0 / ref_f32(ref_f32(sum) + ref_f32(1e-20))) : 1.0 / (sum + 1e-20);
		for (int64_t k = 0; k < K; k++) w[k] = m->eager ? ref_f32(w[k] * scale) : w[k] * scale;
	}
	ref_store(a->w, t, 0, K, w);
}

static void route_rows(void *user, int thread, int threads)
{
	const route *m = user;
	double *choice = m->work + thread * (2 * m->E + m->K), *score = choice + m->E, *w = score + m->E;
	int64_t from, to;
	cpu_range(m->a->logits->shape[0], 1, thread, threads, &from, &to);
	for (int64_t t = from; t < to; t++) route_row(m, t, choice, score, w, m->kept + thread * m->E);
}

void cpu_route(exec *x, const op_route *a)
{
	exec_count(x, OP_route, a);
	ref_begin(x);
	const int64_t n = a->logits->shape[0], E = a->logits->shape[1], K = a->idx->shape[1], threads = cpu_threads(x);
	if (a->n_group < 1 || E % a->n_group || a->topk_group < 1 || a->topk_group > a->n_group || K < 1 || K > E) {
		exec_fail(x, OP_route, NH_ERR_ARG, "%lld of %lld experts, %d of %d groups", (long long)K, (long long)E, a->topk_group, a->n_group);
		return;
	}
	route m = {.a = a, .E = E, .K = K, .eager = ref_eager(x)};
	m.bias = ref_take(x, OP_route, E, sizeof *m.bias);
	m.work = ref_take(x, OP_route, threads * (2 * E + K), sizeof *m.work);
	m.kept = ref_take(x, OP_route, threads * E, sizeof *m.kept);
	if (!m.bias || !m.work || !m.kept) return;
	ref_load_vector(a->bias, m.bias);
	cpu_go(x, n * E * (16 + K), route_rows, &m);
}

/* -- the sum ----------------------------------------------------------------------------------------------------------------------- */

#define COLUMNS 512 /* a unit of the sum: some columns of one token */

typedef struct combine {
	const op_moe_combine *a;
	const vec_row *row;
	const vec_norm *k;
	const vec_ssm *scale;
	int64_t n, K, width;
	float factor;
} combine;

static void combine_units(void *user, int thread, int threads)
{
	const combine *m = user;
	const op_moe_combine *a = m->a;
	const int64_t pieces = (m->width + COLUMNS - 1) / COLUMNS;
	const bool narrow = a->y->dtype == NUM_BF16;
	float sum[COLUMNS], row[COLUMNS];
	int64_t from, to;
	cpu_range(m->n * pieces, 1, thread, threads, &from, &to);
	for (int64_t u = from; u < to; u++) {
		const int64_t t = u / pieces, at = u % pieces * COLUMNS, width = ref_min(COLUMNS, m->width - at);
		memset(sum, 0, sizeof sum);
		for (int64_t k = 0; k < m->K; k++) {
			const char *p = (const char *)ref_at(a->rows, t, k, 0) + (size_t)at * num_bytes(a->rows->dtype);
			cpu_load(m->row, a->rows->dtype, p, width, row);
			m->k->add(sum, row, width);
		}
		if (narrow) m->row->round_bf16(sum, width);
		m->scale->scaled(sum, sum, m->factor, width);
		if (!tensor_absent(a->shared)) {
			if (narrow) m->row->round_bf16(sum, width);
			cpu_load(m->row, a->shared->dtype, cpu_at(a->shared, t, at), width, row);
			m->k->add(sum, row, width);
		}
		cpu_store(m->row, a->y->dtype, cpu_at(a->y, t, at), width, sum);
	}
}

void cpu_moe_combine(exec *x, const op_moe_combine *a)
{
	if (!cpu_fast_type(a->y)) {
		CPU_REFERENCE(x, moe_combine, a);
		return;
	}
	exec_count(x, OP_moe_combine, a);
	combine m = {.a = a,
	    .row = cpu_row(x),
	    .k = vec_norm_of((int)cpu_self_of(x)->tier),
	    .scale = vec_ssm_of((int)cpu_self_of(x)->tier),
	    .n = a->rows->shape[0],
	    .K = a->rows->shape[1],
	    .width = a->rows->shape[2],
	    .factor = (float)a->factor};
	cpu_go(x, m.n * m.K * m.width / 2, combine_units, &m);
}
