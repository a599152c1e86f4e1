/* SPDX-License-Identifier: Apache-2.0
 * cpu_ssm.c: the selective state space recurrence in its two forms. Contracts: op_ssm.h. Heads are independent, so the threads share them
 * out, and each walks all rows or segments of its heads in order: what one row leaves in a slot the next finds there. Step sizes and
 * decays are f32 throughout. The invariant that breaks first: a slot is read and written by the thread that owns the head, and no other.
 */
#include "backend/cpu/cpu_kit.h"
#include "backend/cpu/vec/vec_fun.h"
#include "backend/cpu/vec/vec_ssm.h"
#include "backend/ref/ref_slot.h"

typedef struct ssm {
	const tensor *y, *x, *b, *c, *dt, *state, *in, *out;
	const tensor *seg_row, *seg_pos; /* the chunked form */
	const vec_row *row;
	const vec_fun *fun;
	const vec_ssm *k;
	const float *a, *d, *dt_bias; /* [H] */
	int64_t H, P, N, G, L, len;   /* len: of the longest chunk */
	bool eager;
	float *work; /* [threads, room] */
	int64_t room;
} ssm;

/* False: the exec has failed. */
static bool ssm_begin(ssm *m, exec *x, op_id op, const tensor *a, const tensor *d, const tensor *dt_bias, int groups)
{
	ref_begin(x);
	m->row = cpu_row(x), m->fun = vec_fun_of((int)cpu_self_of(x)->tier), m->k = vec_ssm_of((int)cpu_self_of(x)->tier);
	m->H = m->state->shape[1], m->P = m->state->shape[2], m->N = m->state->shape[3], m->G = groups;
	m->eager = ref_eager(x);
	if (groups < 1 || m->H % groups) {
		exec_fail(x, op, NH_ERR_ARG, "%lld heads in %d groups", (long long)m->H, groups);
		return false;
	}
	m->a = cpu_vector(x, op, a), m->d = cpu_vector(x, op, d), m->dt_bias = cpu_vector(x, op, dt_bias);
	return m->a && m->d && m->dt_bias;
}

static bool ssm_work(ssm *m, exec *x, op_id op, int64_t room)
{
	m->room = vec_ssm_up(room);
	m->work = ref_take(x, op, cpu_threads(x) * m->room, sizeof *m->work);
	return m->work != NULL;
}

/* n step sizes of head h from raw values, in place. */
static void step_sizes(const ssm *m, int64_t h, float *dt, int64_t n)
{
	for (int64_t t = 0; t < n; t++) dt[t] += m->dt_bias[h];
	if (m->eager) m->fun->softplus(dt, n);
	else
		for (int64_t t = 0; t < n; t++) {
			const double v = (double)dt[t];
			dt[t] = (float)(v > 0 ? v + log1p(exp(-v)) : log1p(exp(v)));
		}
}

/* Where the rows of head h of a slot lie; NULL: zeros. */
static float *state_at(const ssm *m, int32_t slot, int64_t h) { return slot < 0 ? NULL : ref_at(m->state, slot, h, 0); }

/* One token's b, c and x as one head sees them. */
typedef struct token {
	float *x, *y, *b, *c, *db; /* [P], [P], [N], [N], [N] */
} token;
#define TOKEN_ROOM(m) (2 * vec_ssm_up((m)->P) + 3 * vec_ssm_up((m)->N))

static token token_take(const ssm *m, float *work)
{
	const int64_t P = vec_ssm_up(m->P), N = vec_ssm_up(m->N);
	return (token){work, work + P, work + 2 * P, work + 2 * P + N, work + 2 * P + 2 * N};
}

/* Row t of head h: the recurrence from one state to another. */
static void one_token(const ssm *m, const token *k, int64_t t, int64_t h, const float *in, float *out)
{
	const int64_t g = h / (m->H / m->G);
	float dt, da;
	cpu_load(m->row, m->x->dtype, cpu_at(m->x, t, h * m->P), m->P, k->x);
	cpu_load(m->row, m->b->dtype, cpu_at(m->b, t, g * m->N), m->N, k->b);
	cpu_load(m->row, m->c->dtype, cpu_at(m->c, t, g * m->N), m->N, k->c);
	cpu_load(m->row, m->dt->dtype, cpu_at(m->dt, t, h), 1, &dt);
	step_sizes(m, h, &dt, 1);
	da = dt * m->a[h];
	m->fun->exp(&da, 1);
	m->k->scaled(k->db, k->b, dt, m->N);
	m->k->step(out, in, m->state->stride[2], k->db, k->c, da, m->d[h], k->x, k->y, m->P, m->N);
	cpu_store(m->row, m->y->dtype, cpu_at(m->y, t, h * m->P), m->P, k->y);
}

static void step_heads(void *user, int thread, int threads)
{
	const ssm *m = user;
	const token k = token_take(m, m->work + thread * m->room);
	int64_t from, to;
	cpu_range(m->H, 1, thread, threads, &from, &to);
	for (int64_t h = from; h < to; h++)
		for (int64_t t = 0; t < m->x->shape[0]; t++)
			one_token(m, &k, t, h, state_at(m, ref_i32(m->in, t), h), state_at(m, ref_i32(m->out, t), h));
}

void cpu_ssm_step(exec *x, const op_ssm_step *a)
{
	if (a->state->dtype != NUM_F32) {
		CPU_REFERENCE(x, ssm_step, a);
		return;
	}
	exec_count(x, OP_ssm_step, a);
	ssm m = {.y = a->y, .x = a->x, .b = a->b, .c = a->c, .dt = a->dt, .state = a->state, .in = a->slot_in, .out = a->slot_out};
	if (!ssm_begin(&m, x, OP_ssm_step, a->a, a->d, a->dt_bias, a->groups)) return;
	const int64_t n = a->x->shape[0];
	for (int64_t t = 0; t < n; t++)
		if (!ref_slots(x, OP_ssm_step, "row", t, ref_i32(m.in, t), ref_i32(m.out, t), a->state->shape[0])) return;
	if (!ssm_work(&m, x, OP_ssm_step, TOKEN_ROOM(&m))) return;
	cpu_go(x, n * m.H * m.P * m.N / 4, step_heads, &m);
	x->counters.state_update_rows += (uint64_t)n;
}

/* -- the chunked form -------------------------------------------------------------------------------------------------------------- */

/* Floats that chunks of m->len tokens need. With `work`: a thread's arrays there. */
static int64_t chunk_room(const ssm *m, float *work, vec_chunk *k)
{
	const int64_t len = m->len, lenp = vec_ssm_up(len), Np = vec_ssm_up(m->N), Pp = vec_ssm_up(m->P);
	const int64_t turned = m->N * ref_max(lenp, Pp), state = m->P * Np;
	const int64_t size[] = {len * Np, len * Np, turned, len * lenp, len * Pp, len * Pp, lenp, lenp, len * Np, 6 * lenp, state, state};
	float *at[12];
	int64_t sum = 0;
	for (int i = 0; i < 12; i++) {
		if (work) at[i] = work + sum;
		sum += vec_ssm_up(size[i]);
	}
	if (work)
		*k = (vec_chunk){.N = m->N,
		    .P = m->P,
		    .Np = Np,
		    .Pp = Pp,
		    .b = at[0],
		    .c = at[1],
		    .turned = at[2],
		    .cb = at[3],
		    .x = at[4],
		    .y = at[5],
		    .dt = at[6],
		    .cs = at[7],
		    .bs = at[8],
		    .w = at[9],
		    .S = at[10],
		    .add = at[11]};
	return sum;
}

/* Rows [from, from + len) of one group: B, C and their products. */
static void chunk_group(const ssm *m, vec_chunk *k, int64_t from, int64_t g)
{
	memset(k->b, 0, sizeof(float) * (size_t)(k->len * k->Np));
	memset(k->c, 0, sizeof(float) * (size_t)(k->len * k->Np));
	for (int64_t t = 0; t < k->len; t++) {
		cpu_load(m->row, m->b->dtype, cpu_at(m->b, from + t, g * m->N), m->N, k->b + t * k->Np);
		cpu_load(m->row, m->c->dtype, cpu_at(m->c, from + t, g * m->N), m->N, k->c + t * k->Np);
	}
	m->k->chunk_group(k);
}

/* One head of a chunk, from state `in` (NULL: zeros) to `out`. */
static void chunk_head(const ssm *m, vec_chunk *k, int64_t from, int64_t h, const float *in, float *out)
{
	double sum = 0.0;
	memset(k->x, 0, sizeof(float) * (size_t)(k->len * k->Pp));
	memset(k->dt, 0, sizeof(float) * (size_t)k->lenp);
	memset(k->cs, 0, sizeof(float) * (size_t)k->lenp);
	for (int64_t t = 0; t < k->len; t++) {
		cpu_load(m->row, m->x->dtype, cpu_at(m->x, from + t, h * m->P), m->P, k->x + t * k->Pp);
		cpu_load(m->row, m->dt->dtype, cpu_at(m->dt, from + t, h), 1, k->dt + t);
	}
	step_sizes(m, h, k->dt, k->len);
	for (int64_t t = 0; t < k->len; t++) {
		sum += (double)(k->dt[t] * m->a[h]);
		k->cs[t] = (float)sum;
	}
	memset(k->S, 0, sizeof(float) * (size_t)(k->P * k->Np));
	for (int64_t p = 0; in && p < k->P; p++) memcpy(k->S + p * k->Np, in + p * m->state->stride[2], sizeof(float) * (size_t)k->N);
	m->k->chunk_head(k, m->d[h]);
	for (int64_t p = 0; p < k->P; p++) memcpy(out + p * m->state->stride[2], k->S + p * k->Np, sizeof(float) * (size_t)k->N);
	for (int64_t t = 0; t < k->len; t++) cpu_store(m->row, m->y->dtype, cpu_at(m->y, from + t, h * m->P), m->P, k->y + t * k->Pp);
}

/* Exact profiles: the recurrence over rows [from, to) of one head; without rows the state moves unchanged. */
static void recurrence(const ssm *m, const token *k, int64_t from, int64_t to, int64_t h, const float *in, float *out)
{
	for (int64_t t = from; t < to; t++, in = out) one_token(m, k, t, h, in, out);
	for (int64_t p = 0; from == to && in != out && p < m->P; p++) {
		float *row = out + p * m->state->stride[2];
		if (in) memcpy(row, in + p * m->state->stride[2], sizeof(float) * (size_t)m->N);
		else memset(row, 0, sizeof(float) * (size_t)m->N);
	}
}

/* Segment s for the heads [h0, h1), which lie in one group. */
static void segment_heads(const ssm *m, int64_t s, int64_t h0, int64_t h1, float *work)
{
	const int64_t from = (int64_t)ref_i32(m->seg_row, s) - ref_i32(m->seg_row, 0),
	              to = (int64_t)ref_i32(m->seg_row, s + 1) - ref_i32(m->seg_row, 0);
	int32_t in = ref_i32(m->in, s), out = ref_i32(m->out, s);
	if (!m->eager || from == to) {
		const token k = token_take(m, work);
		for (int64_t h = h0; h < h1; h++) recurrence(m, &k, from, to, h, state_at(m, in, h), state_at(m, out, h));
		return;
	}
	vec_chunk k;
	chunk_room(m, work, &k);
	for (int64_t t = from, at = ref_i32(m->seg_pos, s); t < to; t += k.len, at += k.len, in = out) {
		k.len = ref_min(to - t, m->L - at % m->L), k.lenp = vec_ssm_up(k.len);
		chunk_group(m, &k, t, h0 / (m->H / m->G));
		for (int64_t h = h0; h < h1; h++) chunk_head(m, &k, t, h, state_at(m, in, h), state_at(m, out, h));
	}
}

/* Heads are handed out in runs that lie in one group: as long as the threads can all have one, because a run computes its group's C B. */
static void scan_heads(void *user, int thread, int threads)
{
	const ssm *m = user;
	const int64_t group = m->H / m->G;
	int64_t run = group, from, to;
	while (run > 1 && m->G * ((group + run - 1) / run) < threads) run = (run + 1) / 2;
	const int64_t runs = (group + run - 1) / run;
	cpu_range(m->G * runs, 1, thread, threads, &from, &to);
	for (int64_t u = from; u < to; u++) {
		const int64_t h0 = u / runs * group + u % runs * run, h1 = ref_min(h0 + run, (u / runs + 1) * group);
		for (int64_t s = 0; s < m->in->shape[0]; s++) segment_heads(m, s, h0, h1, m->work + thread * m->room);
	}
}

/* Checks the segments; the number of chunks and the longest. False: the exec has failed. */
static bool scan_segments(exec *x, ssm *m, const op_ssm_scan *a, uint64_t *chunks)
{
	for (int64_t s = 0; s < a->seg_in->shape[0]; s++) {
		const int32_t pos = ref_i32(a->seg_pos, s), origin = ref_i32(a->seg_origin, s);
		int64_t from, to;
		if (!ref_slots(x, OP_ssm_scan, "segment", s, ref_i32(a->seg_in, s), ref_i32(a->seg_out, s), a->state->shape[0])) return false;
		if (!ref_segment(x, OP_ssm_scan, a->seg_row, s, a->x->shape[0], &from, &to)) return false;
		if (pos < 0 || (pos % m->L != 0 && pos != origin)) {
			exec_fail(x, OP_ssm_scan, NH_ERR_ARG, "segment %lld starts at position %d, neither a multiple of %lld nor its origin %d",
			    (long long)s, pos, (long long)m->L, origin);
			return false;
		}
		m->len = ref_max(m->len, ref_min(m->L, to - from));
		if (to > from) *chunks += (uint64_t)((pos + to - from - 1) / m->L - pos / m->L + 1);
	}
	return true;
}

void cpu_ssm_scan(exec *x, const op_ssm_scan *a)
{
	if (a->state->dtype != NUM_F32) {
		CPU_REFERENCE(x, ssm_scan, a);
		return;
	}
	exec_count(x, OP_ssm_scan, a);
	x->counters.scan_calls++;
	ssm m = {.y = a->y,
	    .x = a->x,
	    .b = a->b,
	    .c = a->c,
	    .dt = a->dt,
	    .state = a->state,
	    .in = a->seg_in,
	    .out = a->seg_out,
	    .seg_row = a->seg_row,
	    .seg_pos = a->seg_pos,
	    .L = a->chunk};
	uint64_t chunks = 0;
	if (!ssm_begin(&m, x, OP_ssm_scan, a->a, a->d, a->dt_bias, a->groups)) return;
	if (a->chunk < 1) {
		exec_fail(x, OP_ssm_scan, NH_ERR_ARG, "chunk %d, expected at least 1", a->chunk);
		return;
	}
	if (!scan_segments(x, &m, a, &chunks)) return;
	if (!ssm_work(&m, x, OP_ssm_scan, ref_max(TOKEN_ROOM(&m), m.eager ? chunk_room(&m, NULL, NULL) : 0))) return;
	cpu_go(x, (a->x->shape[0] + 1) * m.H * m.P * m.N / 8, scan_heads, &m);
	x->counters.scan_chunks += chunks;
}
