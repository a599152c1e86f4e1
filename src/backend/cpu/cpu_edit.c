/* SPDX-License-Identifier: Apache-2.0
 * cpu_edit.c: logits edited in place, and pooled rows. Contracts: op_sample.h. Both are in double between loading and storing, as ref is,
 * so their results are ref's. The invariant that breaks first: the edits of one logit are made in the contract's order and rounded once.
 */
#include "backend/cpu/cpu_kit.h"
#include "backend/ref/ref_math.h"

#define COLUMNS 16384 /* of a unit: few enough units that each may read the list of biases */

typedef struct edit {
	const op_logit_edit *a;
	double *work; /* [threads, COLUMNS] */
} edit;

static void penalise(const op_logit_edit *a, double *l, int64_t r, int64_t from, int64_t width)
{
	if (a->repetition && a->repetition[r] != 1.0f && !tensor_absent(a->seen)) {
		const uint8_t *seen = (const uint8_t *)tensor_row(a->seen, r) + from;
		const double by = (double)a->repetition[r];
		for (int64_t i = 0; i < width; i++)
			if (seen[i]) l[i] = l[i] > 0.0 ? l[i] / by : l[i] * by;
	}
	if (tensor_absent(a->counts)) return;
	const int32_t *counts = (const int32_t *)tensor_row(a->counts, r) + from;
	const double once = a->presence ? (double)a->presence[r] : 0.0, each = a->frequency ? (double)a->frequency[r] : 0.0;
	for (int64_t i = 0; i < width; i++)
		if (counts[i] > 0) l[i] = l[i] - once - each * (double)counts[i];
}

static void edit_units(void *user, int thread, int threads)
{
	const edit *m = user;
	const op_logit_edit *a = m->a;
	const int64_t V = a->logits->shape[1], pieces = (V + COLUMNS - 1) / COLUMNS;
	double *l = m->work + thread * COLUMNS;
	int64_t first, end;
	cpu_range(a->logits->shape[0] * pieces, 1, thread, threads, &first, &end);
	for (int64_t u = first; u < end; u++) {
		const int64_t r = u / pieces, from = u % pieces * COLUMNS, width = ref_min(COLUMNS, V - from);
		ref_load(a->logits, r, from, width, l);
		penalise(a, l, r, from, width);
		for (int i = 0; i < a->biases; i++)
			if (a->bias[i].row == r && a->bias[i].id >= from && a->bias[i].id < from + width)
				l[a->bias[i].id - from] += (double)a->bias[i].add;
		if (!tensor_absent(a->mask)) {
			const uint32_t *mask = tensor_row(a->mask, r);
			for (int64_t i = from; i < from + width; i++)
				if (!(mask[i / 32] >> (i % 32) & 1u)) l[i - from] = -INFINITY;
		}
		ref_store(a->logits, r, from, width, l);
	}
}

void cpu_logit_edit(exec *x, const op_logit_edit *a)
{
	exec_count(x, OP_logit_edit, a);
	ref_begin(x);
	const int64_t rows = a->logits->shape[0], V = a->logits->shape[1];
	for (int i = 0; i < a->biases; i++)
		if (a->bias[i].row < 0 || a->bias[i].row >= rows || a->bias[i].id < 0 || a->bias[i].id >= V) {
			exec_fail(x, OP_logit_edit, NH_ERR_ARG, "bias %d is for row %d, id %d, expected rows below %lld and ids below %lld", i,
			    a->bias[i].row, a->bias[i].id, (long long)rows, (long long)V);
			return;
		}
	edit m = {.a = a, .work = ref_take(x, OP_logit_edit, cpu_threads(x) * COLUMNS, sizeof *m.work)};
	if (m.work) cpu_go(x, rows * V, edit_units, &m);
}

/* -- pooling ----------------------------------------------------------------------------------------------------------------------- */

typedef struct pooling {
	const op_pool_rows *a;
	double *work; /* [threads, 2, width] */
} pooling;

static void pool_units(void *user, int thread, int threads)
{
	const pooling *m = user;
	const op_pool_rows *a = m->a;
	const int64_t width = a->y->shape[1];
	double *sum = m->work + 2 * thread * width, *row = sum + width;
	int64_t first, end;
	cpu_range(a->y->shape[0], 1, thread, threads, &first, &end);
	for (int64_t s = first; s < end; s++) {
		const int32_t from = ref_i32(a->start, s), to = ref_i32(a->start, s + 1);
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

void cpu_pool_rows(exec *x, const op_pool_rows *a)
{
	exec_count(x, OP_pool_rows, a);
	ref_begin(x);
	const int64_t n = a->y->shape[0], width = a->y->shape[1], rows = a->x->shape[0];
	for (int64_t s = 0; s < n; s++) {
		const int32_t from = ref_i32(a->start, s), to = ref_i32(a->start, s + 1);
		if (from >= 0 && from < to && to <= rows) continue;
		exec_fail(x, OP_pool_rows, NH_ERR_ARG, "pool %lld takes rows %d to %d of %lld", (long long)s, from, to, (long long)rows);
		return;
	}
	pooling m = {.a = a, .work = ref_take(x, OP_pool_rows, cpu_threads(x) * 2 * width, sizeof *m.work)};
	if (m.work) cpu_go(x, rows * width, pool_units, &m);
}
