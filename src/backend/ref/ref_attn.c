/* SPDX-License-Identifier: Apache-2.0
 * ref_attn.c: keys and values into pages, and paged attention (model.md 5, 0.4; contracts: op_attn.h). Both forms are one definition.
 * Rows of one sequence that stand together are taken several at a time, so that a key is decoded once for all of them; the invariant
 * that breaks first: what a row gets does not depend on its company. Keys come in blocks at absolute positions, sums over keys ascend,
 * and nothing at a position that a row may not see enters its sums, not even times zero.
 */
#include <string.h>

#include "backend/ref/ref.h"
#include "backend/ref/ref_fp8.h"
#include "backend/ref/ref_math.h"

#define KEYS REF_FP8_STEP             /* keys a block; a multiple of the tile */
#define SCORES_MAX ((int64_t)1 << 21) /* scores held at once: 16 MiB, or one row's if that is more */

void ref_kv_write(exec *x, const op_kv_write *a)
{
	exec_count(x, OP_kv_write, a);
	ref_begin(x);
	const tensor *pool[2] = {&a->pages->k, &a->pages->v}, *rows[2] = {a->k, a->v};
	const float scale[2] = {a->pages->k_scale, a->pages->v_scale};
	const int64_t n = a->k->shape[0], tokens = pool[0]->shape[1], heads = pool[0]->shape[2], hd = pool[0]->shape[3];
	double *row = ref_take(x, OP_kv_write, heads * hd, sizeof *row);
	if (!row) return;
	for (int64_t t = 0; t < n; t++) {
		int64_t slot = ((const int64_t *)a->kv_slot->data)[t * a->kv_slot->stride[0]];
		if (slot == -1) continue;
		if (slot < 0 || slot >= pool[0]->shape[0] * tokens) {
			exec_fail(x, OP_kv_write, NH_ERR_ARG, "kv_slot[%lld] = %lld, expected -1 or 0 .. %lld", (long long)t, (long long)slot,
			    (long long)(pool[0]->shape[0] * tokens - 1));
			return;
		}
		for (int i = 0; i < 2; i++) {
			ref_load(rows[i], t, 0, heads * hd, row);
			if (pool[i]->dtype == NUM_E4M3)
				for (int64_t j = 0; j < heads * hd; j++) {
					double v = row[j] / (double)scale[i];
					row[j] = ref_eager(x) ? ref_f32(v) : v;
				}
			for (int64_t h = 0; h < heads; h++)
				ref_store_at(pool[i]->dtype, ref_at(pool[i], slot / tokens, slot % tokens, h), hd, row + h * hd);
		}
	}
}

typedef enum { RULE_EXACT, RULE_KV, RULE_FA3 } rule;

typedef struct attn {
	exec *x;
	op_id op;
	const op_attn_decode *a;
	rule rule;
	bool hopper;        /* FA3's products by ref_fp8 */
	int64_t R, hd, hdp; /* query heads per KV head; head dim, padded to KEYS */
	/* One group of rows [row, row + n) with consecutive positions: all keys of [first, hi) are seen by some row, no others are touched.
	 * Scores have `pitch` columns; column 0 is key lo, `first` rounded down to a block. */
	int64_t row, n, first, lo, hi, pitch;
	double *q, *s, *out;    /* [n, R, hd], [n, R, pitch] (scores, then weights), [n, R, hdp] */
	double *total, *k;      /* [n, R]; one block, K as [hd, KEYS], V as [KEYS, hdp] */
	bool *q_nan;            /* hopper: [n, R] */
	float *q_f, *p_f, *k_f; /* hopper: [n, R, hdp]; [KEYS]; one block, K as [KEYS, hdp], V as [hdp, KEYS] */
	uint8_t *q_e, *p_e, *k_e;
	bool k_nan[KEYS]; /* hopper: a K row of the block holds a NaN */
	ref_fp8_sum *sum; /* hopper: [n, R, hdp] */
} attn;

static int64_t first_key(const op_attn_decode *a, int64_t pos) { return a->window > 0 ? ref_max(0, pos - a->window + 1) : 0; }

/* Where position `pos` of row `row`'s sequence lies in a pool, for KV head g. NULL: the exec has failed. */
static const void *key_at(const attn *m, const tensor *pool, int64_t row, int64_t pos, int64_t g)
{
	const op_attn_decode *a = m->a;
	const int32_t seq = ref_i32(a->row_seq, row);
	const int64_t slot = pos / a->page_tokens;
	int32_t page = -1;
	if (seq >= 0 && seq < a->page_table->shape[0] && slot < a->page_table->shape[1])
		page = ((const int32_t *)tensor_row(a->page_table, seq))[slot];
	if (page >= 0 && page < pool->shape[0]) return ref_at(pool, page, pos % a->page_tokens, g);
	exec_fail(m->x, m->op, NH_ERR_ARG, "row %lld: sequence %d of %lld, position %lld: page %d, expected 0 <= page < %lld", (long long)row,
	    seq, (long long)a->page_table->shape[0], (long long)pos, page, (long long)pool->shape[0]);
	return NULL;
}

/* The part of block [b, b + KEYS) that row i of the group sees: keys [*from, *to). */
static bool visible(const attn *m, int64_t i, int64_t b, int64_t *from, int64_t *to)
{
	const int64_t pos = ref_i32(m->a->pos, m->row + i);
	*from = ref_max(b, first_key(m->a, pos));
	*to = ref_min(b + KEYS, pos + 1);
	return *from < *to;
}

/* Scores of one block of keys: K decoded once, then all rows and heads of the group. */
static bool score_block(attn *m, int64_t b, int64_t g)
{
	const tensor *pool = &m->a->pages->k;
	const int64_t end = ref_min(b + KEYS, m->hi);
	double key[KEYS];
	if (m->hopper) memset(m->k_nan, 0, sizeof m->k_nan);
	else memset(m->k, 0, (size_t)(m->hd * KEYS) * sizeof *m->k);
	for (int64_t p = ref_max(b, m->first); p < end; p++) {
		const uint8_t *at = key_at(m, pool, m->row, p, g);
		if (!at) return false;
		if (m->hopper) {
			float *f = m->k_f + (p - b) * m->hdp;
			uint8_t *e = m->k_e + (p - b) * m->hdp;
			m->k_nan[p - b] = ref_fp8_split(at, m->hd, f, e);
			for (int64_t i = m->hd; i < m->hdp; i++) f[i] = 0.0f, e[i] = 0;
			continue;
		}
		const double scale = pool->dtype == NUM_E4M3 && m->rule != RULE_FA3 ? (double)m->a->pages->k_scale : 1.0;
		for (int64_t from = 0; from < m->hd; from += KEYS) {
			int64_t part = ref_min(KEYS, m->hd - from);
			ref_load_at(pool->dtype, at + (size_t)from * num_bytes(pool->dtype), part, key);
			for (int64_t i = 0; i < part; i++) m->k[(from + i) * KEYS + p - b] = key[i] * scale;
		}
	}
	for (int64_t i = 0; i < m->n; i++) {
		int64_t from, to;
		if (!visible(m, i, b, &from, &to)) continue;
		for (int64_t h = i * m->R; h < (i + 1) * m->R; h++) {
			double *s = m->s + h * m->pitch + b - m->lo;
			if (m->hopper) {
				for (int64_t p = from; p < to; p++)
					s[p - b] = m->q_nan[h] || m->k_nan[p - b] ? NAN
					                                          : ref_fp8_dot(m->q_f + h * m->hdp, m->q_e + h * m->hdp,
					                                                m->k_f + (p - b) * m->hdp, m->k_e + (p - b) * m->hdp, m->hdp);
				continue;
			}
			for (int64_t j = 0; j < KEYS; j += REF_TILE) {
				memset(s + j, 0, REF_TILE * sizeof *s);
				ref_accumulate(s + j, m->q + h * m->hd, m->k + j, KEYS, m->hd);
			}
			for (int64_t p = from; p < to; p++) {
				if (m->rule == RULE_FA3) s[p - b] = ref_f32(s[p - b]);
				else if (m->rule == RULE_KV) s[p - b] = ref_f32(s[p - b] * m->a->scale);
				else s[p - b] *= m->a->scale;
			}
		}
	}
	return true;
}

/* Scores to weights in place, as the product with V takes them, and their sum before that rounding. */
static void weigh(attn *m, int64_t i)
{
	const int64_t pos = ref_i32(m->a->pos, m->row + i), from = first_key(m->a, pos) - m->lo, to = pos + 1 - m->lo;
	const double c = m->rule == RULE_FA3 ? ref_f32(ref_f32(m->a->scale * 1.4426950408889634) * (double)m->a->pages->k_scale) : 0.0;
	for (int64_t h = i * m->R; h < (i + 1) * m->R; h++) {
		double *s = m->s + h * m->pitch, top = -INFINITY, total = 0.0;
		for (int64_t p = from; p < to; p++) top = s[p] > top ? s[p] : top;
		if (m->rule == RULE_FA3) {
			const double offset = ref_f32(top * c - 8.0);
			for (int64_t p = from; p < to; p++) {
				double w = ref_f32(exp2(ref_f32(s[p] * c - offset)));
				total += w;
				s[p] = num_round_e4m3(w);
			}
			total = ref_f32(total);
		} else
			for (int64_t p = from; p < to; p++) {
				double w = exp(s[p] - top);
				total += w;
				s[p] = m->rule == RULE_KV ? ref_bf16(w) : w;
			}
		m->total[h] = total;
	}
}

/* One block of values into the outputs. */
static bool value_block(attn *m, int64_t b, int64_t g)
{
	const tensor *pool = &m->a->pages->v;
	const int64_t end = ref_min(b + KEYS, m->hi);
	const double scale = pool->dtype == NUM_E4M3 && m->rule != RULE_FA3 ? (double)m->a->pages->v_scale : 1.0;
	if (m->hopper) {
		memset(m->k_f, 0, (size_t)(KEYS * m->hdp) * sizeof *m->k_f);
		memset(m->k_e, 0, (size_t)(KEYS * m->hdp) * sizeof *m->k_e);
	}
	for (int64_t p = ref_max(b, m->first); p < end; p++) {
		const uint8_t *at = key_at(m, pool, m->row, p, g);
		if (!at) return false;
		double *v = m->k + (p - b) * m->hdp;
		ref_load_at(pool->dtype, at, m->hd, v);
		for (int64_t d = 0; d < m->hd; d++) v[d] *= scale;
		for (int64_t d = m->hd; d < m->hdp; d++) v[d] = 0.0;
		for (int64_t d = 0; m->hopper && d < m->hd; d++) ref_fp8_split1(at[d], m->k_f + d * KEYS + p - b, m->k_e + d * KEYS + p - b);
	}
	for (int64_t i = 0; i < m->n; i++) {
		int64_t from, to;
		if (!visible(m, i, b, &from, &to)) continue;
		for (int64_t h = i * m->R; h < (i + 1) * m->R; h++) {
			const double *w = m->s + h * m->pitch - m->lo;
			double *out = m->out + h * m->hdp;
			if (!m->hopper) {
				for (int64_t d = 0; d < m->hdp; d += REF_TILE)
					ref_accumulate(out + d, w + from, m->k + (from - b) * m->hdp + d, m->hdp, to - from);
				continue;
			}
			for (int64_t p = b; p < b + KEYS; p++) {
				uint8_t code = p >= from && p < to ? num_f64_to_e4m3(w[p]) : 0;
				ref_fp8_split1(code, m->p_f + p - b, m->p_e + p - b); /* a NaN weight shows in `total` */
			}
			for (int64_t p = from; p < to; p++) /* a NaN value: out is what is added to the sums in the end */
				for (int64_t d = 0; d < m->hd; d++)
					if (isnan(m->k[(p - b) * m->hdp + d])) out[d] = NAN;
			for (int64_t d = 0; d < m->hd; d++) ref_fp8_add(m->sum + h * m->hdp + d, m->p_f, m->p_e, m->k_f + d * KEYS, m->k_e + d * KEYS);
		}
	}
	return true;
}

static bool group_take(attn *m)
{
	const int64_t heads = m->n * m->R, block = KEYS * m->hdp;
	m->pitch = ref_up(m->hi - m->lo, KEYS);
	m->q = ref_take(m->x, m->op, heads * m->hd, sizeof *m->q);
	m->s = ref_take(m->x, m->op, heads * m->pitch, sizeof *m->s);
	m->out = ref_take(m->x, m->op, heads * m->hdp, sizeof *m->out);
	m->total = ref_take(m->x, m->op, heads, sizeof *m->total);
	m->k = ref_take(m->x, m->op, block, sizeof *m->k);
	if (!m->q || !m->s || !m->out || !m->total || !m->k) return false;
	if (!m->hopper) return true;
	m->q_nan = ref_take(m->x, m->op, heads, sizeof *m->q_nan);
	m->q_f = ref_take(m->x, m->op, heads * m->hdp, sizeof *m->q_f);
	m->q_e = ref_take(m->x, m->op, heads * m->hdp, sizeof *m->q_e);
	m->p_f = ref_take(m->x, m->op, KEYS, sizeof *m->p_f);
	m->p_e = ref_take(m->x, m->op, KEYS, sizeof *m->p_e);
	m->k_f = ref_take(m->x, m->op, block, sizeof *m->k_f);
	m->k_e = ref_take(m->x, m->op, block, sizeof *m->k_e);
	m->sum = ref_take(m->x, m->op, heads * m->hdp, sizeof *m->sum);
	return m->q_nan && m->q_f && m->q_e && m->p_f && m->p_e && m->k_f && m->k_e && m->sum;
}

/* Queries of one KV head's group, on the grid that the rule asks for. */
static void queries(attn *m, int64_t g)
{
	for (int64_t i = 0; i < m->n; i++)
		for (int64_t r = 0; r < m->R; r++) {
			const int64_t h = i * m->R + r;
			double *q = m->q + h * m->hd;
			ref_load(m->a->q, m->row + i, (g * m->R + r) * m->hd, m->hd, q);
			if (m->rule != RULE_FA3) continue;
			for (int64_t d = 0; d < m->hd; d++) q[d] = num_round_e4m3(q[d]);
			if (!m->hopper) continue;
			m->q_nan[h] = false;
			for (int64_t d = 0; d < m->hdp; d++)
				m->q_nan[h] |= ref_fp8_split1(d < m->hd ? num_f64_to_e4m3(q[d]) : 0, m->q_f + h * m->hdp + d, m->q_e + h * m->hdp + d);
		}
}

static void results(attn *m, int64_t g)
{
	for (int64_t i = 0; i < m->n; i++)
		for (int64_t r = 0; r < m->R; r++) {
			const int64_t h = i * m->R + r;
			double *out = m->out + h * m->hdp;
			const double v_scale = (double)m->a->pages->v_scale;
			for (int64_t d = 0; d < m->hd; d++) {
				if (m->hopper) out[d] += ref_fp8_value(m->sum + h * m->hdp + d);
				out[d] = m->rule == RULE_FA3 ? ref_f32(ref_f32(out[d]) * ref_f32(v_scale / m->total[h])) : out[d] / m->total[h];
			}
			ref_store(m->a->y, m->row + i, (g * m->R + r) * m->hd, m->hd, out);
		}
}

/* Rows [row, row + n) of one sequence, all KV heads. */
static bool group_run(attn *m)
{
	const ref_mark mark = ref_work_mark(m->x);
	m->first = first_key(m->a, ref_i32(m->a->pos, m->row));
	m->lo = m->first - m->first % KEYS;
	m->hi = (int64_t)ref_i32(m->a->pos, m->row) + m->n;
	if (!group_take(m)) return false;
	for (int64_t g = 0; g < m->a->kv_heads; g++) {
		queries(m, g);
		memset(m->out, 0, (size_t)(m->n * m->R * m->hdp) * sizeof *m->out);
		for (int64_t i = 0; m->hopper && i < m->n * m->R * m->hdp; i++) m->sum[i] = REF_FP8_ZERO;
		for (int64_t b = m->lo; b < m->hi; b += KEYS)
			if (!score_block(m, b, g)) return false;
		for (int64_t i = 0; i < m->n; i++) weigh(m, i);
		for (int64_t b = m->lo; b < m->hi; b += KEYS)
			if (!value_block(m, b, g)) return false;
		results(m, g);
	}
	ref_work_rewind(m->x, mark);
	return true;
}

static void attend(exec *x, op_id op, const op_attn_decode *a)
{
	ref_begin(x);
	const int64_t n = a->q->shape[0];
	const bool fp8 = a->pages->k.dtype == NUM_E4M3;
	attn m = {.x = x, .op = op, .a = a, .hd = a->head_dim, .hdp = ref_up(a->head_dim, KEYS)};
	m.rule = !ref_eager(x) ? RULE_EXACT : fp8 && x->num->fp8_attention == NUM_ATTN_FA3 ? RULE_FA3 : RULE_KV;
	m.hopper = m.rule == RULE_FA3 && x->num->fp8_sums == NUM_SUMS_HOPPER;
	if (a->kv_heads < 1 || a->head_dim < 1 || a->page_tokens < 1 || a->q->shape[1] % ((int64_t)a->kv_heads * a->head_dim)) {
		exec_fail(x, op, NH_ERR_ARG, "a query of %lld for %d KV heads of %d", (long long)a->q->shape[1], a->kv_heads, a->head_dim);
		return;
	}
	m.R = a->q->shape[1] / a->kv_heads / a->head_dim;
	for (int64_t t = 0; t < n; t++)
		if (ref_i32(a->pos, t) < 0) {
			exec_fail(x, op, NH_ERR_ARG, "pos[%lld] = %d", (long long)t, ref_i32(a->pos, t));
			return;
		}
	for (m.row = 0; m.row < n; m.row += m.n) {
		const int64_t pos = ref_i32(a->pos, m.row);
		for (m.n = 1; m.row + m.n < n && (m.n + 1) * m.R * (pos + m.n + 1 + KEYS) <= SCORES_MAX; m.n++)
			if (ref_i32(a->row_seq, m.row + m.n) != ref_i32(a->row_seq, m.row) || ref_i32(a->pos, m.row + m.n) != pos + m.n) break;
		if (!group_run(&m)) return;
	}
}

void ref_attn_decode(exec *x, const op_attn_decode *a)
{
	exec_count(x, OP_attn_decode, a);
	attend(x, OP_attn_decode, a);
}

void ref_attn_prefill(exec *x, const op_attn_prefill *a)
{
	exec_count(x, OP_attn_prefill, a);
	const op_attn_decode same = {
	    .y = a->y,
	    .q = a->q,
	    .pages = a->pages,
	    .pos = a->pos,
	    .row_seq = a->row_seq,
	    .page_table = a->page_table,
	    .page_tokens = a->page_tokens,
	    .kv_heads = a->kv_heads,
	    .head_dim = a->head_dim,
	    .window = a->window,
	    .scale = a->scale,
	};
	attend(x, OP_attn_prefill, &same);
}
