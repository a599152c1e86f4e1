/* SPDX-License-Identifier: Apache-2.0
 * ref_linear.c: rows times a weight matrix. A tile of weight rows is decoded piece by piece along k and met by every row of the call
 * before the next piece is decoded. The invariant that breaks first: a sum is the same whether its row stands alone or in a batch, and
 * whatever the tile: left to right over k.
 */
#include <string.h>

#include "backend/ref/ref_fp8.h"
#include "backend/ref/ref_kernel.h"
#include "backend/ref/ref_math.h"

#define PIECE 128 /* elements along k that are decoded at once: a tile of 16 KiB; a multiple of the FP4 block */

bool ref_rows_take(exec *x, op_id op, const ref_kernel *kernel, int64_t n, int64_t k, ref_rows *rows)
{
	*rows = (ref_rows){.n = n, .k = k, .pitch = ref_up(k, REF_FP8_STEP)};
	if (!kernel->hopper) {
		rows->v = ref_take(x, op, n * k, sizeof *rows->v);
		return rows->v != NULL;
	}
	rows->f = ref_take(x, op, n * rows->pitch, sizeof *rows->f);
	rows->e = ref_take(x, op, n * rows->pitch, sizeof *rows->e);
	rows->nan = ref_take(x, op, n, sizeof *rows->nan);
	return rows->f && rows->e && rows->nan;
}

void ref_rows_put(const ref_kernel *kernel, const ref_rows *rows, int64_t i, double *v, float input_scale)
{
	if (kernel->grid) kernel->grid(v, rows->k, input_scale);
	if (!kernel->hopper) {
		memcpy(rows->v + i * rows->k, v, (size_t)rows->k * sizeof *v);
		return;
	}
	float *f = rows->f + i * rows->pitch;
	uint8_t *e = rows->e + i * rows->pitch;
	rows->nan[i] = false;
	for (int64_t j = 0; j < rows->k; j++) rows->nan[i] |= ref_fp8_split1(num_f64_to_e4m3(v[j]), f + j, e + j);
	for (int64_t j = rows->k; j < rows->pitch; j++) f[j] = 0.0f, e[j] = 0;
}

/* Sums of the outputs [first, first + count), from decoded pieces. */
static void tile_plain(
    const weight *w, const ref_rows *rows, const int32_t *pick, int64_t n, int64_t first, int64_t count, double *piece, double *sums)
{
	const ref_kernel *kernel = w->bound;
	memset(sums, 0, (size_t)(n * REF_TILE) * sizeof *sums);
	if (count < REF_TILE) memset(piece, 0, (size_t)PIECE * REF_TILE * sizeof *piece);
	for (int64_t from = 0; from < w->k; from += PIECE) {
		int64_t part = ref_min(PIECE, w->k - from);
		for (int64_t j = 0; j < count; j += 2) {
			const int64_t row[2] = {first + j, first + ref_min(j + 1, count - 1)}; /* an odd last one fills its neighbour's column too */
			kernel->decode(w, row, from, part, piece + j);
		}
		for (int64_t i = 0; i < n; i++)
			ref_accumulate(sums + i * REF_TILE, rows->v + (pick ? pick[i] : i) * rows->k + from, piece, REF_TILE, part);
	}
}

static void tile_hopper(
    const weight *w, const ref_rows *rows, const int32_t *pick, int64_t n, int64_t first, int64_t count, float *f, uint8_t *e, double *sums)
{
	const int64_t pitch = rows->pitch;
	bool nan[REF_TILE];
	for (int64_t j = 0; j < count; j++) {
		nan[j] = ref_fp8_split((const uint8_t *)w->data + (size_t)((first + j) * w->k), w->k, f + j * pitch, e + j * pitch);
		for (int64_t c = w->k; c < pitch; c++) f[j * pitch + c] = 0.0f, e[j * pitch + c] = 0;
	}
	for (int64_t i = 0; i < n; i++) {
		const int64_t r = (pick ? pick[i] : i);
		ref_fp8_sum sum[REF_TILE];
		for (int j = 0; j < REF_TILE; j++) sum[j] = REF_FP8_ZERO;
		for (int64_t c = 0; c < pitch; c += REF_FP8_STEP) /* step by step for all outputs, so that their chains overlap */
			for (int64_t j = 0; j < count; j++)
				ref_fp8_add(&sum[j], rows->f + r * pitch + c, rows->e + r * pitch + c, f + j * pitch + c, e + j * pitch + c);
		for (int64_t j = 0; j < count; j++) sums[i * REF_TILE + j] = nan[j] || rows->nan[r] ? NAN : ref_fp8_value(&sum[j]);
	}
}

bool ref_multiply(exec *x, op_id op, const weight *w, const ref_rows *rows, const int32_t *pick, int64_t n, ref_sink sink, void *user)
{
	const ref_kernel *kernel = w->bound;
	if (n == 0) return true;
	const ref_mark mark = ref_work_mark(x);
	double *sums = ref_take(x, op, n * REF_TILE, sizeof *sums), *piece = NULL;
	float *f = NULL;
	uint8_t *e = NULL;
	if (kernel->hopper) {
		f = ref_take(x, op, REF_TILE * rows->pitch, sizeof *f);
		e = ref_take(x, op, REF_TILE * rows->pitch, sizeof *e);
	} else piece = ref_take(x, op, PIECE * REF_TILE, sizeof *piece);
	if (!sums || (kernel->hopper ? !f || !e : !piece)) return false;
	for (int64_t first = 0; first < w->n; first += REF_TILE) {
		int64_t count = ref_min(REF_TILE, w->n - first);
		if (kernel->hopper) tile_hopper(w, rows, pick, n, first, count, f, e, sums);
		else tile_plain(w, rows, pick, n, first, count, piece, sums);
		for (int64_t i = 0; i < n; i++) sink(user, i, first, count, sums + i * REF_TILE);
	}
	ref_work_rewind(x, mark);
	return true;
}

/* The product as the output's type holds it, then bias, then activation, each rounded to that type. */
static void linear_sink(void *user, int64_t i, int64_t first, int64_t count, double *v)
{
	const op_linear *a = user;
	const ref_kernel *kernel = a->w->bound;
	const num_dtype type = a->y->dtype;
	kernel->dense(v, count, a->w->scale, a->w->input_scale);
	if (!tensor_absent(a->bias)) {
		double bias[REF_TILE];
		ref_load_at(a->bias->dtype, tensor_row(a->bias, first), count, bias);
		ref_round_row(type, v, count);
		for (int64_t j = 0; j < count; j++) v[j] += bias[j];
	}
	if (a->act == OP_ACT_RELU2) {
		ref_round_row(type, v, count);
		for (int64_t j = 0; j < count; j++) v[j] = v[j] < 0.0 ? 0.0 : v[j] * v[j];
	}
	ref_store(a->y, i, first, count, v);
}

void ref_linear(exec *x, const op_linear *a)
{
	exec_count(x, OP_linear, a);
	ref_begin(x);
	const ref_kernel *kernel = a->w->bound;
	const int64_t n = a->x->shape[0], k = a->w->k;
	if (!kernel) {
		exec_fail(x, OP_linear, NH_ERR_INTERNAL, "%s was not imported", a->w->name);
		return;
	}
	ref_rows rows;
	double *row = ref_take(x, OP_linear, k, sizeof *row);
	if (!row || !ref_rows_take(x, OP_linear, kernel, n, k, &rows)) return;
	for (int64_t i = 0; i < n; i++) {
		ref_load(a->x, i, 0, k, row);
		ref_rows_put(kernel, &rows, i, row, a->w->input_scale);
	}
	op_linear call = *a; /* a sink's user is not const */
	ref_multiply(x, OP_linear, a->w, &rows, NULL, n, linear_sink, &call);
}
