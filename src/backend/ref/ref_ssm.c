/* SPDX-License-Identifier: Apache-2.0
 * ref_ssm.c: the selective state space recurrence (model.md 4.4, 4.5; contracts: op_ssm.h). ssm_step is the recurrence, token by token;
 * ssm_scan is the recurrence too in exact profiles, and in eager ones the chunked form with its three roundings to bf16 (Bs, the entering
 * state, the decayed C B). Everything else that a machine would hold as f32 is rounded to f32; sums over k and n are in double.
 * The invariant that breaks first: the state in a slot is the state at an edge, in the pool's own type; a chunk starts from what is stored.
 */
#include <string.h>

#include "backend/ref/ref.h"
#include "backend/ref/ref_math.h"
#include "backend/ref/ref_slot.h"

typedef struct ssm {
	exec *x;
	op_id op;
	bool eager;
	int64_t H, P, N, G;
	const tensor *state;
	double *a, *d, *dt_bias;        /* [H] */
	double *row_b, *row_c;          /* [G, N] of one token */
	double *row_x, *row_y, *row_dt; /* [H, P], [H, P], [H] of one token */
	double *db;                     /* [N] */
	double *S;                      /* [P, N] of one head */
} ssm;

static bool ssm_begin(ssm *m, exec *x, op_id op, const tensor *state, const tensor *a, const tensor *d, const tensor *dt_bias, int groups)
{
	*m = (ssm){.x = x, .op = op, .eager = ref_eager(x), .state = state, .G = groups};
	m->H = state->shape[1], m->P = state->shape[2], m->N = state->shape[3];
	if (groups < 1 || m->H % groups) {
		exec_fail(x, op, NH_ERR_ARG, "%lld heads in %d groups", (long long)m->H, groups);
		return false;
	}
	m->a = ref_take(x, op, m->H, sizeof *m->a);
	m->d = ref_take(x, op, m->H, sizeof *m->d);
	m->dt_bias = ref_take(x, op, m->H, sizeof *m->dt_bias);
	m->row_b = ref_take(x, op, m->G * m->N, sizeof *m->row_b);
	m->row_c = ref_take(x, op, m->G * m->N, sizeof *m->row_c);
	m->row_x = ref_take(x, op, m->H * m->P, sizeof *m->row_x);
	m->row_y = ref_take(x, op, m->H * m->P, sizeof *m->row_y);
	m->row_dt = ref_take(x, op, m->H, sizeof *m->row_dt);
	m->db = ref_take(x, op, m->N, sizeof *m->db);
	m->S = ref_take(x, op, m->P * m->N, sizeof *m->S);
	if (!m->a || !m->d || !m->dt_bias || !m->row_b || !m->row_c || !m->row_x || !m->row_y || !m->row_dt || !m->db || !m->S) return false;
	ref_load_vector(a, m->a);
	ref_load_vector(d, m->d);
	ref_load_vector(dt_bias, m->dt_bias);
	return true;
}

/* One head's state; slot -1 is zeros. */
static void state_load(const ssm *m, int32_t slot, int64_t h, double *S)
{
	if (slot < 0) memset(S, 0, (size_t)(m->P * m->N) * sizeof *S);
	else
		for (int64_t p = 0; p < m->P; p++) ref_load_at(m->state->dtype, ref_at(m->state, slot, h, p), m->N, S + p * m->N);
}

static void state_store(const ssm *m, int32_t slot, int64_t h, const double *S)
{
	for (int64_t p = 0; p < m->P; p++) ref_store_at(m->state->dtype, ref_at(m->state, slot, h, p), m->N, S + p * m->N);
}

static double delta(const ssm *m, int64_t h, double dt)
{
	double v = dt + m->dt_bias[h];
	return ref_softplus(m->eager ? ref_f32(v) : v, m->eager);
}

/* The scalars of one token of one head, model.md 4.5: the decay, returned, and m->db = B dt. */
static double token_head(const ssm *m, int64_t h, const double *b, double dt)
{
	const double d = delta(m, h, dt), da = d * m->a[h];
	for (int64_t n = 0; n < m->N; n++) m->db[n] = m->eager ? ref_f32(b[n] * d) : b[n] * d;
	return m->eager ? ref_f32(exp(ref_f32(da))) : exp(da);
}

void ref_ssm_step(exec *x, const op_ssm_step *a)
{
	exec_count(x, OP_ssm_step, a);
	ref_begin(x);
	ssm m;
	if (!ssm_begin(&m, x, OP_ssm_step, a->state, a->a, a->d, a->dt_bias, a->groups)) return;
	const int64_t n = a->x->shape[0];
	for (int64_t t = 0; t < n; t++) {
		int32_t in = ref_i32(a->slot_in, t), out = ref_i32(a->slot_out, t);
		if (!ref_slots(x, OP_ssm_step, "row", t, in, out, a->state->shape[0])) return;
		ref_load(a->x, t, 0, m.H * m.P, m.row_x);
		ref_load(a->b, t, 0, m.G * m.N, m.row_b);
		ref_load(a->c, t, 0, m.G * m.N, m.row_c);
		ref_load(a->dt, t, 0, m.H, m.row_dt);
		for (int64_t h = 0; h < m.H; h++) {
			int64_t g = h / (m.H / m.G) * m.N;
			const double da = token_head(&m, h, m.row_b + g, m.row_dt[h]), *c = m.row_c + g;
			for (int64_t p = 0; p < m.P; p++) { /* row by row: a row of the state stays in the nearest cache */
				double *x_p = m.row_x + h * m.P + p, *y_p = m.row_y + h * m.P + p;
				if (in < 0) memset(m.S, 0, (size_t)m.N * sizeof *m.S);
				else ref_load_at(a->state->dtype, ref_at(a->state, in, h, p), m.N, m.S);
				ref_recur(m.S, m.db, c, da, x_p, y_p, 1, m.N, m.eager);
				ref_store_at(a->state->dtype, ref_at(a->state, out, h, p), m.N, m.S);
				*y_p += m.d[h] * *x_p;
			}
		}
		ref_store(a->y, t, 0, m.H * m.P, m.row_y);
	}
	x->counters.state_update_rows += (uint64_t)n;
}

/* -- the chunked form -------------------------------------------------------------------------------------------------------------- */

/* Working arrays of one chunk of at most `len` tokens. Column counts are padded to the tile with zeros: Pp, lenp. */
typedef struct chunk {
	int64_t len, lenp, Pp;
	double *c;       /* [len, N] of the group */
	double *bt;      /* [N, lenp] B of the group, transposed */
	double *cb;      /* [len, lenp] C_m . B_k for k <= m, as f32 */
	double *in;      /* [len, Pp] x of the head */
	double *dt, *cs; /* [len] of the head */
	double *bs;      /* [N, lenp] decayed B, transposed, bf16 */
	double *w;       /* [len] */
	double *S, *Sb;  /* [N, Pp] state of the head, transposed; Sb as bf16 */
	double *row;     /* [max(N, P)] */
} chunk;

static bool chunk_take(const ssm *m, int64_t len, chunk *k)
{
	exec *x = m->x;
	const op_id op = m->op;
	*k = (chunk){.len = len, .lenp = ref_up(len, REF_TILE), .Pp = ref_up(m->P, REF_TILE)};
	k->c = ref_take(x, op, len * m->N, sizeof *k->c);
	k->bt = ref_take(x, op, m->N * k->lenp, sizeof *k->bt);
	k->cb = ref_take(x, op, len * k->lenp, sizeof *k->cb);
	k->in = ref_take(x, op, len * k->Pp, sizeof *k->in);
	k->dt = ref_take(x, op, len, sizeof *k->dt);
	k->cs = ref_take(x, op, len, sizeof *k->cs);
	k->bs = ref_take(x, op, m->N * k->lenp, sizeof *k->bs);
	k->w = ref_take(x, op, len, sizeof *k->w);
	k->S = ref_take(x, op, m->N * k->Pp, sizeof *k->S);
	k->Sb = ref_take(x, op, m->N * k->Pp, sizeof *k->Sb);
	k->row = ref_take(x, op, ref_max(m->N, ref_max(m->P, m->H)), sizeof *k->row);
	return k->c && k->bt && k->cb && k->in && k->dt && k->cs && k->bs && k->w && k->S && k->Sb && k->row;
}

/* C, B and their products of one group; rows [from, from + len). */
static void chunk_group(const ssm *m, chunk *k, const op_ssm_scan *a, int64_t from, int64_t g)
{
	memset(k->bt, 0, (size_t)(m->N * k->lenp) * sizeof *k->bt);
	for (int64_t t = 0; t < k->len; t++) {
		ref_load(a->c, from + t, g * m->N, m->N, k->c + t * m->N);
		ref_load(a->b, from + t, g * m->N, m->N, k->row);
		for (int64_t n = 0; n < m->N; n++) k->bt[n * k->lenp + t] = k->row[n];
	}
	for (int64_t t = 0; t < k->len; t++)
		for (int64_t j = 0; j <= t; j += REF_TILE) {
			double acc[REF_TILE] = {0};
			ref_accumulate(acc, k->c + t * m->N, k->bt + j, k->lenp, m->N);
			for (int i = 0; i < REF_TILE; i++) k->cb[t * k->lenp + j + i] = ref_f32(acc[i]);
		}
}

/* dt, its cumulative decay, x, decayed B and the entering state of one head. */
static void chunk_head(const ssm *m, chunk *k, const op_ssm_scan *a, int64_t from, int64_t h, int32_t slot)
{
	double sum = 0.0;
	for (int64_t t = 0; t < k->len; t++) {
		double raw;
		ref_load(a->dt, from + t, h, 1, &raw);
		k->dt[t] = delta(m, h, raw);
		sum += ref_f32(k->dt[t] * m->a[h]);
		k->cs[t] = ref_f32(sum);
		double *in = k->in + t * k->Pp;
		ref_load(a->x, from + t, h * m->P, m->P, in);
		memset(in + m->P, 0, (size_t)(k->Pp - m->P) * sizeof *in);
	}
	const double last = k->cs[k->len - 1];
	for (int64_t t = 0; t < k->len; t++) {
		double decay = ref_f32(ref_f32(exp(fmin(last - k->cs[t], 0.0))) * k->dt[t]);
		for (int64_t n = 0; n < m->N; n++) k->bs[n * k->lenp + t] = ref_bf16(k->bt[n * k->lenp + t] * decay);
	}
	state_load(m, slot, h, m->S);
	memset(k->S, 0, (size_t)(m->N * k->Pp) * sizeof *k->S);
	for (int64_t p = 0; p < m->P; p++)
		for (int64_t n = 0; n < m->N; n++) k->S[n * k->Pp + p] = m->S[p * m->N + n];
	for (int64_t i = 0; i < m->N * k->Pp; i++) k->Sb[i] = ref_bf16(k->S[i]);
}

/* Outputs of one head, then the state that leaves the chunk. */
static void chunk_run(const ssm *m, chunk *k, const op_ssm_scan *a, int64_t from, int64_t h, int32_t slot)
{
	for (int64_t t = 0; t < k->len; t++) {
		const double *in = k->in + t * k->Pp, scale = ref_f32(exp(k->cs[t]));
		for (int64_t j = 0; j <= t; j++) {
			double decay = ref_f32(exp(fmin(ref_f32(k->cs[t] - k->cs[j]), 0.0)));
			k->w[j] = ref_bf16(ref_f32(ref_f32(k->cb[t * k->lenp + j] * decay) * k->dt[j]));
		}
		for (int64_t p = 0; p < m->P; p += REF_TILE) {
			double acc[REF_TILE] = {0};
			ref_accumulate(acc, k->c + t * m->N, k->Sb + p, k->Pp, m->N);
			for (int i = 0; i < REF_TILE; i++) acc[i] *= scale;
			ref_accumulate(acc, k->w, k->in + p, k->Pp, t + 1);
			for (int i = 0; i < REF_TILE; i++) acc[i] += m->d[h] * in[p + i];
			ref_store(a->y, from + t, h * m->P + p, ref_min(REF_TILE, m->P - p), acc);
		}
	}
	const double carry = ref_f32(exp(k->cs[k->len - 1]));
	for (int64_t n = 0; n < m->N; n++)
		for (int64_t p = 0; p < m->P; p += REF_TILE) {
			double acc[REF_TILE] = {0};
			ref_accumulate(acc, k->bs + n * k->lenp, k->in + p, k->Pp, k->len);
			for (int64_t i = 0; i < ref_min(REF_TILE, m->P - p); i++)
				m->S[(p + i) * m->N + n] = ref_f32(carry * k->S[n * k->Pp + p + i] + ref_f32(acc[i]));
		}
	state_store(m, slot, h, m->S);
}

/* The recurrence over rows [from, to), head by head. */
static void recurrence(const ssm *m, const op_ssm_scan *a, int64_t from, int64_t to, int32_t in, int32_t out)
{
	for (int64_t h = 0; h < m->H; h++) {
		int64_t g = h / (m->H / m->G);
		state_load(m, in, h, m->S);
		for (int64_t t = from; t < to; t++) {
			ref_load(a->x, t, h * m->P, m->P, m->row_x);
			ref_load(a->b, t, g * m->N, m->N, m->row_b);
			ref_load(a->c, t, g * m->N, m->N, m->row_c);
			ref_load(a->dt, t, h, 1, m->row_dt);
			const double da = token_head(m, h, m->row_b, m->row_dt[0]);
			ref_recur(m->S, m->db, m->row_c, da, m->row_x, m->row_y, m->P, m->N, m->eager);
			for (int64_t p = 0; p < m->P; p++) m->row_y[p] += m->d[h] * m->row_x[p];
			ref_store(a->y, t, h * m->P, m->P, m->row_y);
		}
		state_store(m, out, h, m->S);
	}
}

/* One chunk in the profile's form. False: the exec has failed. */
static bool chunk_any(const ssm *m, const op_ssm_scan *a, int64_t from, int64_t to, int32_t in, int32_t out)
{
	m->x->counters.scan_chunks++;
	if (!m->eager) {
		recurrence(m, a, from, to, in, out);
		return true;
	}
	const ref_mark mark = ref_work_mark(m->x);
	chunk k;
	if (!chunk_take(m, to - from, &k)) return false;
	for (int64_t g = 0; g < m->G; g++) {
		chunk_group(m, &k, a, from, g);
		for (int64_t h = g * (m->H / m->G); h < (g + 1) * (m->H / m->G); h++) {
			chunk_head(m, &k, a, from, h, in);
			chunk_run(m, &k, a, from, h, out);
		}
	}
	ref_work_rewind(m->x, mark);
	return true;
}

void ref_ssm_scan(exec *x, const op_ssm_scan *a)
{
	exec_count(x, OP_ssm_scan, a);
	ref_begin(x);
	x->counters.scan_calls++;
	ssm m;
	if (!ssm_begin(&m, x, OP_ssm_scan, a->state, a->a, a->d, a->dt_bias, a->groups)) return;
	if (a->chunk < 1) {
		exec_fail(x, OP_ssm_scan, NH_ERR_ARG, "chunk %d, expected at least 1", a->chunk);
		return;
	}
	const int64_t segments = a->seg_in->shape[0], L = a->chunk;
	for (int64_t s = 0; s < segments; s++) {
		int32_t in = ref_i32(a->seg_in, s), out = ref_i32(a->seg_out, s), pos = ref_i32(a->seg_pos, s), origin = ref_i32(a->seg_origin, s);
		int64_t from, to;
		if (!ref_slots(x, OP_ssm_scan, "segment", s, in, out, a->state->shape[0])) return;
		if (!ref_segment(x, OP_ssm_scan, a->seg_row, s, a->x->shape[0], &from, &to)) return;
		if (pos < 0 || (pos % L != 0 && pos != origin)) {
			exec_fail(x, OP_ssm_scan, NH_ERR_ARG, "segment %lld starts at position %d, neither a multiple of %lld nor its origin %d",
			    (long long)s, pos, (long long)L, origin);
			return;
		}
		if (from == to && in != out) recurrence(&m, a, from, to, in, out); /* no tokens: the state moves unchanged */
		for (int64_t t = from; t < to;) {
			int64_t at = pos + (t - from), next = ref_min(to, t + L - at % L);
			if (!chunk_any(&m, a, t, next, in, out)) return;
			in = out;
			t = next;
		}
	}
}
