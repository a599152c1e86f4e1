/* SPDX-License-Identifier: Apache-2.0
 * ref_basic.c: embedding rows, norms, additions, chosen rows. Contracts: op_basic.h.
 */
#include <string.h>

#include "backend/ref/ref.h"
#include "backend/ref/ref_math.h"

void ref_embed_rows(exec *x, const op_embed_rows *a)
{
	exec_count(x, OP_embed_rows, a);
	ref_begin(x);
	const int64_t n = a->y->shape[0], width = a->y->shape[1], vocabulary = a->table->shape[0];
	double *row = ref_take(x, OP_embed_rows, width, sizeof *row);
	if (!row) return;
	for (int64_t t = 0; t < n; t++) {
		int32_t id = ref_i32(a->ids, t);
		if (id < 0 || id >= vocabulary) {
			exec_fail(x, OP_embed_rows, NH_ERR_ARG, "ids[%lld] = %d, expected 0 <= id < %lld", (long long)t, id, (long long)vocabulary);
			return;
		}
		ref_load(a->table, id, 0, width, row);
		ref_store(a->y, t, 0, width, row);
	}
}

/* y = x * s * w in place, model.md 3.2: eager ((x * s) * w), each product an f32; the store makes the last rounding. */
static void norm_row(double *v, const double *w, int64_t n, double eps, bool eager)
{
	double sum = 0.0;
	for (int64_t i = 0; i < n; i++) sum += v[i] * v[i];
	double s = 1.0 / sqrt(sum / (double)n + eps);
	if (eager) {
		s = ref_f32(s);
		for (int64_t i = 0; i < n; i++) v[i] = ref_f32(ref_f32(v[i] * s) * w[i]);
	} else
		for (int64_t i = 0; i < n; i++) v[i] = v[i] * s * w[i];
}

void ref_rms_norm(exec *x, const op_rms_norm *a)
{
	exec_count(x, OP_rms_norm, a);
	ref_begin(x);
	const int64_t n = a->x->shape[0], width = a->x->shape[1];
	double *w = ref_take(x, OP_rms_norm, width, sizeof *w), *row = ref_take(x, OP_rms_norm, width, sizeof *row);
	if (!w || !row) return;
	ref_load_vector(a->w, w);
	for (int64_t t = 0; t < n; t++) {
		ref_load(a->x, t, 0, width, row);
		norm_row(row, w, width, ref_param(x, a->eps), ref_eager(x));
		ref_store(a->y, t, 0, width, row);
	}
}

void ref_add_rms_norm(exec *x, const op_add_rms_norm *a)
{
	exec_count(x, OP_add_rms_norm, a);
	ref_begin(x);
	const int64_t n = a->x->shape[0], width = a->x->shape[1];
	double *w = ref_take(x, OP_add_rms_norm, width, sizeof *w), *row = ref_take(x, OP_add_rms_norm, width, sizeof *row);
	double *res = ref_take(x, OP_add_rms_norm, width, sizeof *res);
	if (!w || !row || !res) return;
	ref_load_vector(a->w, w);
	for (int64_t t = 0; t < n; t++) {
		ref_load(a->x, t, 0, width, row);
		ref_load(a->residual, t, 0, width, res);
		for (int64_t i = 0; i < width; i++) res[i] = ref_round(a->residual->dtype, res[i] + row[i]);
		ref_store(a->residual, t, 0, width, res);
		norm_row(res, w, width, ref_param(x, a->eps), ref_eager(x));
		ref_store(a->y, t, 0, width, res);
	}
}

void ref_add(exec *x, const op_add *a)
{
	exec_count(x, OP_add, a);
	ref_begin(x);
	const int64_t n = a->a->shape[0], width = a->a->shape[1];
	double *one = ref_take(x, OP_add, width, sizeof *one), *two = ref_take(x, OP_add, width, sizeof *two);
	if (!one || !two) return;
	for (int64_t t = 0; t < n; t++) {
		ref_load(a->a, t, 0, width, one);
		ref_load(a->b, t, 0, width, two);
		for (int64_t i = 0; i < width; i++) one[i] += two[i];
		ref_store(a->y, t, 0, width, one);
	}
}

void ref_gather_rows(exec *x, const op_gather_rows *a)
{
	exec_count(x, OP_gather_rows, a);
	const int64_t n = a->y->shape[0], rows = a->x->shape[0];
	const size_t bytes = (size_t)a->y->shape[1] * num_bytes(a->x->dtype);
	for (int64_t r = 0; r < n; r++) {
		int32_t t = ref_i32(a->rows, r);
		if (t < 0 || t >= rows) {
			exec_fail(x, OP_gather_rows, NH_ERR_ARG, "rows[%lld] = %d, expected 0 <= row < %lld", (long long)r, t, (long long)rows);
			return;
		}
		memcpy(tensor_row(a->y, r), tensor_row(a->x, t), bytes);
	}
}
