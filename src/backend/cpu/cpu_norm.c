/* SPDX-License-Identifier: Apache-2.0
 * cpu_norm.c: the norms of rows, with the residual's addition or the gate before them. Contracts: op_basic.h, op_ssm.h. Rows are split over
 * the threads, those of the gated norm by group too; a row or a group is one thread's. The invariant that breaks first: the residual is
 * rounded before its squares are summed.
 */
#include "backend/cpu/cpu_kit.h"
#include "backend/cpu/vec/vec_norm.h"

typedef struct norm {
	const tensor *y, *x, *residual, *gate; /* residual: add_rms_norm; gate: gated_norm */
	const vec_row *row;
	const vec_norm *k;
	const float *w;
	float *work; /* [threads, 2, width] */
	int64_t n, width, group;
	double eps;
	bool eager;
} norm;

/* A zero mean under a zero eps gives an infinity here as it does in ref. */
static float norm_scale(const norm *m, const float *v, int64_t n) { return (float)(1.0 / sqrt(m->k->squares(v, n) / (double)n + m->eps)); }

static void norm_rows(void *user, int thread, int threads)
{
	const norm *m = user;
	float *v = m->work + 2 * thread * m->width, *add = v + m->width;
	int64_t from, to;
	cpu_range(m->n, 1, thread, threads, &from, &to);
	for (int64_t t = from; t < to; t++) {
		cpu_load(m->row, m->x->dtype, tensor_row(m->x, t), m->width, v);
		if (m->residual) {
			cpu_load(m->row, m->residual->dtype, tensor_row(m->residual, t), m->width, add);
			m->k->add(v, add, m->width);
			if (m->residual->dtype == NUM_BF16) m->row->round_bf16(v, m->width);
			cpu_store(m->row, m->residual->dtype, tensor_row(m->residual, t), m->width, v);
		}
		m->k->scale(v, m->w, norm_scale(m, v, m->width), m->width);
		cpu_store(m->row, m->y->dtype, tensor_row(m->y, t), m->width, v);
	}
}

/* Units are the groups of all rows. */
static void norm_groups(void *user, int thread, int threads)
{
	const norm *m = user;
	const int64_t groups = m->width / m->group;
	float *v = m->work + 2 * thread * m->width, *gate = v + m->width;
	int64_t from, to;
	cpu_range(m->n * groups, 1, thread, threads, &from, &to);
	for (int64_t u = from; u < to; u++) {
		const int64_t t = u / groups, at = u % groups * m->group;
		cpu_load(m->row, m->x->dtype, cpu_at(m->x, t, at), m->group, v);
		cpu_load(m->row, m->gate->dtype, cpu_at(m->gate, t, at), m->group, gate);
		m->k->gate(v, gate, m->group);
		m->k->gated(v, m->w + at, norm_scale(m, v, m->group), m->group, m->eager);
		cpu_store(m->row, m->y->dtype, cpu_at(m->y, t, at), m->group, v);
	}
}

static void norm_run(exec *x, op_id op, norm *m, const tensor *w, double eps, cpu_job_fn fn, int64_t cost)
{
	ref_begin(x);
	m->row = cpu_row(x), m->k = vec_norm_of((int)cpu_self_of(x)->tier);
	m->n = m->x->shape[0], m->width = m->x->shape[1];
	m->eps = ref_param(x, eps), m->eager = ref_eager(x);
	m->w = cpu_vector(x, op, w);
	m->work = ref_take(x, op, cpu_threads(x) * 2 * m->width, sizeof *m->work);
	if (m->w && m->work) cpu_go(x, cost * m->n * m->width, fn, m);
}

void cpu_rms_norm(exec *x, const op_rms_norm *a)
{
	exec_count(x, OP_rms_norm, a);
	norm_run(x, OP_rms_norm, &(norm){.y = a->y, .x = a->x}, a->w, a->eps, norm_rows, 1);
}

void cpu_add_rms_norm(exec *x, const op_add_rms_norm *a)
{
	if (!cpu_fast_type(a->residual)) {
		CPU_REFERENCE(x, add_rms_norm, a);
		return;
	}
	exec_count(x, OP_add_rms_norm, a);
	norm_run(x, OP_add_rms_norm, &(norm){.y = a->y, .x = a->x, .residual = a->residual}, a->w, a->eps, norm_rows, 1);
}

void cpu_gated_norm(exec *x, const op_gated_norm *a)
{
	exec_count(x, OP_gated_norm, a);
	const int64_t width = a->x->shape[1];
	if (a->groups < 1 || width % a->groups) {
		exec_fail(x, OP_gated_norm, NH_ERR_ARG, "%lld channels in %d groups", (long long)width, a->groups);
		return;
	}
	norm_run(x, OP_gated_norm, &(norm){.y = a->y, .x = a->x, .gate = a->gate, .group = width / a->groups}, a->w, a->eps, norm_groups, 2);
}
