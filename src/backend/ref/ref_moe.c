/* SPDX-License-Identifier: Apache-2.0
 * ref_moe.c: expert choice, the chosen experts' MLPs, and their sum. Contracts: op_moe.h. The (token, k) pairs are sorted by expert, so
 * that each expert's rows are decoded once a call; the invariant that breaks first: a pair's result does not depend on that grouping.
 */
#include <string.h>

#include "backend/ref/ref.h"
#include "backend/ref/ref_kernel.h"
#include "backend/ref/ref_math.h"

/* -- routing ----------------------------------------------------------------------------------------------------------------------- */

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
			double sum = size > 1 ? first + second : first;
			if (!kept[g] && (best < 0 || sum > best_sum)) best = g, best_sum = sum;
		}
		kept[best] = true;
	}
	for (int64_t g = 0; g < groups; g++)
		for (int64_t e = g * size; !kept[g] && e < (g + 1) * size; e++) choice[e] = -INFINITY;
}

void ref_route(exec *x, const op_route *a)
{
	exec_count(x, OP_route, a);
	ref_begin(x);
	const bool eager = ref_eager(x);
	const int64_t n = a->logits->shape[0], E = a->logits->shape[1], K = a->idx->shape[1];
	if (a->n_group < 1 || E % a->n_group || a->topk_group < 1 || a->topk_group > a->n_group || K < 1 || K > E) {
		exec_fail(x, OP_route, NH_ERR_ARG, "%lld of %lld experts, %d of %d groups", (long long)K, (long long)E, a->topk_group, a->n_group);
		return;
	}
	double *bias = ref_take(x, OP_route, E, sizeof *bias), *score = ref_take(x, OP_route, E, sizeof *score);
	double *choice = ref_take(x, OP_route, E, sizeof *choice), *w = ref_take(x, OP_route, K, sizeof *w);
	bool *taken = ref_take(x, OP_route, E, sizeof *taken);
	if (!bias || !score || !choice || !w || !taken) return;
	ref_load_vector(a->bias, bias);
	for (int64_t t = 0; t < n; t++) {
		ref_load(a->logits, t, 0, E, score);
		for (int64_t e = 0; e < E; e++) {
			double l = score[e], s = eager ? ref_f32(0.5 * ref_f32(tanh(0.5 * l)) + 0.5) : 1.0 / (1.0 + exp(-l));
			choice[e] = eager ? ref_f32(s + bias[e]) : s + bias[e];
			score[e] = eager ? ref_f32(choice[e] - bias[e]) : s;
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
			double scale = eager ? ref_f32(1.0 / ref_f32(ref_f32(sum) + ref_f32(1e-20))) : 1.0 / (sum + 1e-20);
			for (int64_t k = 0; k < K; k++) w[k] = eager ? ref_f32(w[k] * scale) : w[k] * scale;
		}
		ref_store(a->w, t, 0, K, w);
	}
}

/* -- experts ----------------------------------------------------------------------------------------------------------------------- */

typedef struct ffn {
	const op_expert_ffn *a;
	const weight *w; /* the matrix being multiplied */
	const ref_kernel *kernel;
	float input_scale;
	const int32_t *pair; /* t * K + k of each row of the expert */
	double *hidden;      /* [rows, F] after the up projection and squared ReLU */
	int64_t F, K;
} ffn;

static void up_sink(void *user, int64_t i, int64_t first, int64_t count, double *v)
{
	const ffn *f = user;
	f->kernel->expert_up(v, count, f->w->scale, f->input_scale);
	memcpy(f->hidden + i * f->F + first, v, (size_t)count * sizeof *v);
}

static void down_sink(void *user, int64_t i, int64_t first, int64_t count, double *v)
{
	const ffn *f = user;
	const tensor *rows = f->a->rows;
	const int64_t t = f->pair[i] / f->K, k = f->pair[i] % f->K;
	double routed;
	ref_load(f->a->w, t, k, 1, &routed);
	f->kernel->expert_down(v, count, f->w->scale, f->input_scale, routed);
	ref_store_at(rows->dtype, (char *)ref_at(rows, t, k, 0) + (size_t)first * num_bytes(rows->dtype), count, v);
}

/* The rows of one expert. `x_rows` holds the tokens on the up projection's grid. */
static bool one_expert(exec *x, ffn *f, const ref_rows *x_rows, int64_t e, const int32_t *token, int64_t n)
{
	const weight_experts *all = f->a->experts;
	const weight *up = &all->up[e], *down = &all->down[e];
	if (up->bound != f->kernel || !down->bound) {
		exec_fail(x, OP_expert_ffn, NH_ERR_UNSUPPORTED, "%s: not imported, or in another format than the layer's first expert", up->name);
		return false;
	}
	const ref_mark mark = ref_work_mark(x);
	const ref_kernel *up_kernel = up->bound, *down_kernel = down->bound;
	ref_rows hidden;
	f->F = up->n;
	f->hidden = ref_take(x, OP_expert_ffn, n * f->F, sizeof *f->hidden);
	if (!f->hidden || !ref_rows_take(x, OP_expert_ffn, down_kernel, n, f->F, &hidden)) return false;
	f->w = up, f->input_scale = all->up_input;
	if (!ref_multiply(x, OP_expert_ffn, up, x_rows, token, n, up_sink, f)) return false;
	for (int64_t i = 0; i < n; i++) ref_rows_put(down_kernel, &hidden, i, f->hidden + i * f->F, all->down_input);
	f->w = down, f->input_scale = all->down_input, f->kernel = down_kernel;
	bool done = ref_multiply(x, OP_expert_ffn, down, &hidden, NULL, n, down_sink, f);
	f->kernel = up_kernel;
	ref_work_rewind(x, mark);
	return done;
}

void ref_expert_ffn(exec *x, const op_expert_ffn *a)
{
	exec_count(x, OP_expert_ffn, a);
	ref_begin(x);
	const int64_t n = a->x->shape[0], width = a->x->shape[1], K = a->idx->shape[1], E = a->experts->E;
	const ref_kernel *kernel = a->experts->up[0].bound;
	if (!kernel) {
		exec_fail(x, OP_expert_ffn, NH_ERR_INTERNAL, "%s was not imported", a->experts->up[0].name);
		return;
	}
	/* Pairs by expert: a counting sort, ascending within an expert. */
	int64_t *start = ref_take(x, OP_expert_ffn, E + 1, sizeof *start);
	int32_t *pair = ref_take(x, OP_expert_ffn, n * K, sizeof *pair), *token = ref_take(x, OP_expert_ffn, n * K, sizeof *token);
	double *row = ref_take(x, OP_expert_ffn, width, sizeof *row);
	ref_rows rows;
	if (!start || !pair || !token || !row || !ref_rows_take(x, OP_expert_ffn, kernel, n, width, &rows)) return;
	memset(start, 0, (size_t)(E + 1) * sizeof *start);
	for (int64_t t = 0; t < n; t++)
		for (int64_t k = 0; k < K; k++) {
			int32_t e = ((const int32_t *)tensor_row(a->idx, t))[k];
			if (e < 0 || e >= E) {
				exec_fail(x, OP_expert_ffn, NH_ERR_ARG, "idx[%lld, %lld] = %d, expected 0 <= expert < %lld", (long long)t, (long long)k, e,
				    (long long)E);
				return;
			}
			start[e + 1]++;
		}
	for (int64_t e = 0; e < E; e++) {
		x->counters.experts_read += start[e + 1] > 0;
		start[e + 1] += start[e];
	}
	for (int64_t i = n * K - 1; i >= 0; i--) { /* backwards: start[e + 1] counts down to the first place of expert e */
		int32_t e = ((const int32_t *)tensor_row(a->idx, i / K))[i % K];
		int64_t at = --start[e + 1];
		pair[at] = (int32_t)i;
		token[at] = (int32_t)(i / K);
	}
	for (int64_t t = 0; t < n; t++) {
		ref_load(a->x, t, 0, width, row);
		ref_rows_put(kernel, &rows, t, row, a->experts->up_input);
	}
	ffn f = {.a = a, .kernel = kernel, .K = K};
	for (int64_t e = 0; e < E; e++) {
		int64_t from = start[e + 1], to = e + 1 < E ? start[e + 2] : n * K;
		f.pair = pair + from;
		if (to > from && !one_expert(x, &f, &rows, e, token + from, to - from)) return;
	}
	x->counters.expert_rows += (uint64_t)(n * K);
}

void ref_moe_combine(exec *x, const op_moe_combine *a)
{
	exec_count(x, OP_moe_combine, a);
	ref_begin(x);
	const bool eager = ref_eager(x);
	const num_dtype act = a->y->dtype;
	const int64_t n = a->rows->shape[0], K = a->rows->shape[1], width = a->rows->shape[2];
	double *sum = ref_take(x, OP_moe_combine, width, sizeof *sum), *row = ref_take(x, OP_moe_combine, width, sizeof *row);
	if (!sum || !row) return;
	for (int64_t t = 0; t < n; t++) {
		memset(sum, 0, (size_t)width * sizeof *sum);
		for (int64_t k = 0; k < K; k++) {
			ref_load_at(a->rows->dtype, ref_at(a->rows, t, k, 0), width, row);
			for (int64_t i = 0; i < width; i++) sum[i] = eager ? ref_f32(sum[i] + row[i]) : sum[i] + row[i];
		}
		for (int64_t i = 0; i < width; i++) sum[i] = ref_round(act, ref_round(act, sum[i]) * ref_param(x, a->factor));
		if (!tensor_absent(a->shared)) {
			ref_load(a->shared, t, 0, width, row);
			for (int64_t i = 0; i < width; i++) sum[i] += row[i];
		}
		ref_store(a->y, t, 0, width, sum);
	}
}
