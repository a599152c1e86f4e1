/* SPDX-License-Identifier: Apache-2.0
 * cpu_basic.c: embedding rows, sums of rows, chosen rows. Contracts: op_basic.h. The invariant that breaks first: ids and row numbers are
 * looked at before any thread follows them.
 */
#include "backend/cpu/cpu_kit.h"
#include "backend/cpu/vec/vec_norm.h"

typedef struct basic {
	const tensor *y, *a, *b, *ids;
	const vec_row *row;
	const vec_norm *k;
	float *work; /* [threads, 2, width] */
} basic;

/* False: the exec has failed. */
static bool ids_within(exec *x, op_id op, const char *field, const char *what, const tensor *ids, int64_t n, int64_t limit)
{
	for (int64_t t = 0; t < n; t++) {
		const int32_t id = ref_i32(ids, t);
		if (id >= 0 && id < limit) continue;
		exec_fail(x, op, NH_ERR_ARG, "%s[%lld] = %d, expected 0 <= %s < %lld", field, (long long)t, id, what, (long long)limit);
		return false;
	}
	return true;
}

/* y[t] = a[ids[t]], converted where the types differ. */
static void chosen_rows(void *user, int thread, int threads)
{
	const basic *m = user;
	const int64_t width = m->y->shape[1];
	float *v = m->work ? m->work + 2 * thread * width : NULL;
	int64_t from, to;
	cpu_range(m->y->shape[0], 1, thread, threads, &from, &to);
	for (int64_t t = from; t < to; t++) {
		const void *source = tensor_row(m->a, ref_i32(m->ids, t));
		if (!v) {
			memcpy(tensor_row(m->y, t), source, (size_t)width * num_bytes(m->y->dtype));
			continue;
		}
		cpu_load(m->row, m->a->dtype, source, width, v);
		cpu_store(m->row, m->y->dtype, tensor_row(m->y, t), width, v);
	}
}

void cpu_embed_rows(exec *x, const op_embed_rows *a)
{
	exec_count(x, OP_embed_rows, a);
	ref_begin(x);
	const int64_t n = a->y->shape[0], width = a->y->shape[1];
	if (!ids_within(x, OP_embed_rows, "ids", "id", a->ids, n, a->table->shape[0])) return;
	basic m = {.y = a->y, .a = a->table, .ids = a->ids, .row = cpu_row(x)};
	if (a->y->dtype != a->table->dtype && !(m.work = ref_take(x, OP_embed_rows, cpu_threads(x) * 2 * width, sizeof *m.work))) return;
	cpu_go(x, n * width / 4, chosen_rows, &m);
}

void cpu_gather_rows(exec *x, const op_gather_rows *a)
{
	exec_count(x, OP_gather_rows, a);
	if (!ids_within(x, OP_gather_rows, "rows", "row", a->rows, a->y->shape[0], a->x->shape[0])) return;
	cpu_go(x, a->y->shape[0] * a->y->shape[1] / 4, chosen_rows, &(basic){.y = a->y, .a = a->x, .ids = a->rows});
}

static void add_rows(void *user, int thread, int threads)
{
	const basic *m = user;
	const int64_t width = m->y->shape[1];
	float *v = m->work + 2 * thread * width, *w = v + width;
	int64_t from, to;
	cpu_range(m->y->shape[0], 1, thread, threads, &from, &to);
	for (int64_t t = from; t < to; t++) {
		cpu_load(m->row, m->a->dtype, tensor_row(m->a, t), width, v);
		cpu_load(m->row, m->b->dtype, tensor_row(m->b, t), width, w);
		m->k->add(v, w, width);
		cpu_store(m->row, m->y->dtype, tensor_row(m->y, t), width, v);
	}
}

void cpu_add(exec *x, const op_add *a)
{
	exec_count(x, OP_add, a);
	ref_begin(x);
	const int64_t n = a->a->shape[0], width = a->a->shape[1];
	basic m = {.y = a->y, .a = a->a, .b = a->b, .row = cpu_row(x), .k = vec_norm_of((int)cpu_self_of(x)->tier)};
	if ((m.work = ref_take(x, OP_add, cpu_threads(x) * 2 * width, sizeof *m.work))) cpu_go(x, n * width, add_rows, &m);
}
