/* SPDX-License-Identifier: Apache-2.0
 * test_ref_attn.c: pages and attention against the two-pass softmax of a textbook; page sizes, windows, groups of queries, both FP8 rules;
 * the laws: company, page order and poison change nothing.
 */
#include "kit.h"

typedef struct shape {
	int kv, group, hd, page, window;
} shape;
static const shape SHAPES[] = {{1, 1, 8, 1, 0}, {2, 4, 16, 3, 5}, {1, 3, 7, 16, 0}, {2, 2, 48, 16, 33}};
#define SHAPE_COUNT 4

/* Three sequences of lengths that cross blocks of 32; pages dealt out in a shuffled order; one page more than needed, poisoned. */
#define SEQUENCES 3
static const int LENGTH[SEQUENCES] = {70, 1, 35};

typedef struct world {
	const shape *s;
	int rows;
	tensor q, k, v, y, kv_slot, pos, row_seq, table, seq_of; /* rows: every token of every sequence */
	kv_pages pages;
} world;

static void poison(const tensor *t)
{
	for (int64_t i = 0; i < tensor_count(t); i++) kit_set(t, i, NAN);
}

static world world_make(kit *k, const shape *s, bool fp8, int shuffle)
{
	world w = {.s = s};
	const num_dtype act = k->x->types.act;
	int pages = 0, most = 0, next = 0;
	for (int i = 0; i < SEQUENCES; i++) {
		int n = (LENGTH[i] + s->page - 1) / s->page;
		w.rows += LENGTH[i], pages += n, most = n > most ? n : most;
	}
	w.q = kit_random(k, act, w.rows, s->kv * s->group * s->hd, 3);
	w.k = kit_random(k, act, w.rows, s->kv * s->hd, 2);
	w.v = kit_random(k, act, w.rows, s->kv * s->hd, 1);
	w.y = kit_2d(k, act, w.rows, s->kv * s->group * s->hd);
	w.kv_slot = kit_1d(k, NUM_I64, w.rows), w.pos = kit_1d(k, NUM_I32, w.rows), w.row_seq = kit_1d(k, NUM_I32, w.rows);
	w.table = kit_2d(k, NUM_I32, SEQUENCES, most + 1);
	w.pages = (kv_pages){.k_scale = 1, .v_scale = 1};
	const num_dtype type = fp8 ? NUM_E4M3 : k->x->types.kv;
	w.pages.k = kit_zeros(k, type, 4, pages + 1, s->page, s->kv, s->hd);
	w.pages.v = kit_zeros(k, type, 4, pages + 1, s->page, s->kv, s->hd);
	poison(&w.pages.k), poison(&w.pages.v);
	if (fp8) w.pages.k_scale = (float)num_round_bf16(0.011), w.pages.v_scale = (float)num_round_bf16(0.007);
	int32_t *table = w.table.data;
	/* The first token of a sequence draws half of the heads to itself and gives them nothing, so that faint weights are seen. */
	for (int i = 0, row = 0; i < SEQUENCES; row += LENGTH[i++])
		for (int64_t j = row * w.k.shape[1]; j < (row + 1) * w.k.shape[1]; j++) kit_set(&w.k, j, 4 * kit_get(&w.k, j)), kit_set(&w.v, j, 0);
	for (int i = 0, row = 0; i < SEQUENCES; i++)
		for (int p = 0; p < most + 1; p++) {
			bool used = p < (LENGTH[i] + s->page - 1) / s->page;
			table[i * (most + 1) + p] = used ? (next++ * 7 + shuffle) % (pages + 1) : -1;
			for (int o = 0; used && o < s->page && p * s->page + o < LENGTH[i]; o++, row++) {
				((int64_t *)w.kv_slot.data)[row] = (int64_t)table[i * (most + 1) + p] * s->page + o;
				((int32_t *)w.pos.data)[row] = p * s->page + o;
				((int32_t *)w.row_seq.data)[row] = i;
			}
		}
	return w;
}

static void write_all(kit *k, world *w) { OP(k->x, kv_write, .pages = &w->pages, .k = &w->k, .v = &w->v, .kv_slot = &w->kv_slot); }

static void attend(kit *k, world *w, int from, int n, bool decode)
{
	tensor q = tensor_rows(&w->q, from, n), y = tensor_rows(&w->y, from, n), pos = tensor_rows(&w->pos, from, n),
	       seq = tensor_rows(&w->row_seq, from, n);
	const float scale = (float)pow(w->s->hd, -0.5);
	if (decode)
		OP(k->x, attn_decode, .y = &y, .q = &q, .pages = &w->pages, .pos = &pos, .row_seq = &seq, .page_table = &w->table,
		    .page_tokens = w->s->page, .kv_heads = w->s->kv, .head_dim = w->s->hd, .window = w->s->window, .scale = scale);
	else
		OP(k->x, attn_prefill, .y = &y, .q = &q, .pages = &w->pages, .pos = &pos, .row_seq = &seq, .page_table = &w->table,
		    .page_tokens = w->s->page, .kv_heads = w->s->kv, .head_dim = w->s->hd, .window = w->s->window, .scale = scale);
}

static double f32(double v) { return (double)(float)v; }

static int exponent(double v)
{
	int e;
	frexp(v, &e);
	return e - 1;
}

/* Hopper's chain over n products of e4m3 values; step i belongs to block i / 32 of absolute positions. */
static double hopper_sum(const double *a, const double *b, int n)
{
	double acc = 0;
	for (int from = 0; from < n; from += 32) {
		const int to = from + 32 < n ? from + 32 : n;
		int top = acc != 0 ? exponent(acc) : -1000;
		for (int i = from; i < to; i++)
			if (a[i] != 0 && b[i] != 0) {
				int x = exponent(a[i]), y = exponent(b[i]), e = (x < -6 ? -6 : x) + (y < -6 ? -6 : y);
				top = e > top ? e : top;
			}
		double unit = ldexp(1, top - 13), sum = trunc(acc / unit);
		for (int i = from; i < to; i++) sum += trunc(a[i] * b[i] / unit);
		acc = sum * unit;
		if (acc != 0) unit = ldexp(1, exponent(acc) - 13), acc = trunc(acc / unit) * unit;
	}
	return acc;
}

/* Row `row`, query head h, into out[hd]: from what was given to kv_write, not from the pages. */
static void textbook(const kit *k, const world *w, int row, int h, double *out)
{
	const shape *s = w->s;
	const bool fp8 = w->pages.k.dtype == NUM_E4M3, fa3 = fp8 && k->x->num->fp8_attention == NUM_ATTN_FA3;
	const int pos = ((int32_t *)w->pos.data)[row], first = row - pos, g = h / s->group;
	static double key[128][64], value[64][128], p[128], q[64], column[128];
	double top = -INFINITY, total = 0;
	const double ks = (double)w->pages.k_scale, vs = (double)w->pages.v_scale, scale = (double)(float)pow(s->hd, -0.5);
	for (int i = 0; i < s->hd; i++) {
		q[i] = kit_at(&w->q, row, h * s->hd + i);
		if (fa3) q[i] = num_round_e4m3(q[i]);
	}
	for (int j = 0; j <= pos; j++) {
		for (int i = 0; i < s->hd; i++) {
			key[j][i] = kit_at(&w->k, first + j, g * s->hd + i), value[i][j] = kit_at(&w->v, first + j, g * s->hd + i);
			if (!fp8) continue;
			key[j][i] = num_round_e4m3(kit_eager(k) ? f32(key[j][i] / ks) : key[j][i] / ks);
			value[i][j] = num_round_e4m3(kit_eager(k) ? f32(value[i][j] / vs) : value[i][j] / vs);
			if (!fa3) key[j][i] *= ks, value[i][j] *= vs;
		}
		if (fa3) p[j] = hopper_sum(q, key[j], s->hd);
		else {
			p[j] = 0;
			for (int i = 0; i < s->hd; i++) p[j] += q[i] * key[j][i];
			p[j] = kit_eager(k) ? f32(p[j] * scale) : p[j] * scale;
		}
		if (s->window && j <= pos - s->window) p[j] = -INFINITY;
		top = p[j] > top ? p[j] : top;
	}
	const double c = f32(f32(scale * 1.4426950408889634) * ks);
	for (int j = 0; j <= pos; j++) {
		p[j] = fa3 ? f32(exp2(f32(p[j] * c - f32(top * c - 8)))) : exp(p[j] - top);
		total += p[j];
		p[j] = fa3 ? num_round_e4m3(p[j]) : kit_eager(k) ? num_round_bf16(f32(p[j])) : p[j];
	}
	for (int i = 0; i < s->hd; i++) {
		if (fa3) {
			memcpy(column, value[i], sizeof column);
			out[i] = num_round_bf16(f32(hopper_sum(p, column, pos + 1) * f32(vs / f32(total))));
			continue;
		}
		double o = 0;
		for (int j = 0; j <= pos; j++) o += p[j] * value[i][j];
		out[i] = kit_eager(k) ? num_round_bf16(f32(o / total)) : o / total;
	}
}

static void matches_textbook(void **state)
{
	(void)state;
	int checked = 0, rules[3] = {0};
	for (int p = 0; p < KIT_PROFILE_COUNT; p++)
		for (int i = 0; i < SHAPE_COUNT * 2; i++) {
			kit k = kit_open(KIT_PROFILES[p], 31);
			world w = world_make(&k, &SHAPES[i / 2], i % 2, 3);
			write_all(&k, &w);
			attend(&k, &w, 0, w.rows, false);
			KIT_OK(&k);
			for (int row = 0; row < w.rows; row++)
				for (int h = 0; h < w.s->kv * w.s->group; h++) {
					double want[64];
					textbook(&k, &w, row, h, want);
					for (int d = 0; d < w.s->hd; d++) {
						double got = kit_at(&w.y, row, h * w.s->hd + d);
						if (!(fabs(got - want[d]) <= 1e-13))
							fail_msg("%s shape %d row %d head %d: %.17g, want %.17g", KIT_PROFILES[p], i, row, h, got, want[d]);
						checked++;
					}
				}
			rules[!kit_eager(&k) ? 0 : i % 2 && k.x->num->fp8_attention == NUM_ATTN_FA3 ? 2 : 1]++;
			kit_close(&k);
		}
	print_message("%d elements\n", checked);
	assert_true(checked > 100000 && rules[0] && rules[1] && rules[2]);
}

/* Row by row in decode form = all at once; pages dealt otherwise; later tokens not yet written: all the same bits. */
static void company_changes_nothing(void **state)
{
	(void)state;
	int rows = 0;
	for (int p = 0; p < KIT_PROFILE_COUNT; p++)
		for (int i = 0; i < SHAPE_COUNT * 2; i++) {
			kit k = kit_open(KIT_PROFILES[p], 32);
			world w = world_make(&k, &SHAPES[i / 2], i % 2, 3);
			write_all(&k, &w);
			attend(&k, &w, 0, w.rows, false);
			KIT_OK(&k);
			kit other = kit_open(KIT_PROFILES[p], 32);
			world v = world_make(&other, &SHAPES[i / 2], i % 2, 5);
			for (int row = 0; row < v.rows; row++) { /* token by token: what follows is poison */
				tensor kr = tensor_rows(&v.k, row, 1), vr = tensor_rows(&v.v, row, 1), slot = tensor_rows(&v.kv_slot, row, 1);
				OP(other.x, kv_write, .pages = &v.pages, .k = &kr, .v = &vr, .kv_slot = &slot);
				attend(&other, &v, row, 1, true);
				rows++;
			}
			KIT_OK(&other);
			assert_true(kit_same_bits(&w.y, &v.y));
			kit_close(&other);
			kit_close(&k);
		}
	assert_int_equal(rows, KIT_PROFILE_COUNT * SHAPE_COUNT * 2 * (70 + 1 + 35));
}

/* Keys before the window may be gone: their pages given back. */
static void window_forgets(void **state)
{
	(void)state;
	for (int p = 0; p < KIT_PROFILE_COUNT; p++) {
		kit k = kit_open(KIT_PROFILES[p], 33);
		world w = world_make(&k, &SHAPES[1], p % 2, 3);
		write_all(&k, &w);
		attend(&k, &w, 60, 10, false);
		tensor was = kit_2d(&k, w.y.dtype, w.y.shape[0], w.y.shape[1]);
		memcpy(was.data, w.y.data, tensor_bytes(&was));
		for (int page = 0; page < (60 - 5 + 1) / 3; page++) ((int32_t *)w.table.data)[page] = -1;
		attend(&k, &w, 60, 10, true);
		KIT_OK(&k);
		assert_true(kit_same_bits(&was, &w.y));
		attend(&k, &w, 50, 1, true);
		KIT_FAILED(&k, "page -1");
		kit_close(&k);
	}
}

static void nan_and_ranges(void **state)
{
	(void)state;
	for (int p = 0; p < KIT_PROFILE_COUNT; p++)
		for (int fp8 = 0; fp8 < 2; fp8++)
			for (int what = 0; what < 3; what++) {
				kit k = kit_open(KIT_PROFILES[p], 34);
				world w = world_make(&k, &SHAPES[2], fp8, 3);
				if (what < 2) kit_set(what ? &w.v : &w.k, 20 * 7 + 3, NAN);
				else kit_set(&w.q, 20 * 21 + 3, NAN);
				write_all(&k, &w);
				attend(&k, &w, 0, w.rows, false);
				KIT_OK(&k);
				for (int row = 0; row < w.rows; row++) { /* what one may not see does not touch one */
					bool nan = isnan(kit_at(&w.y, row, 3)) != 0;
					assert_int_equal(nan, what == 2 ? row == 20 : row >= 20 && row < 70);
				}
				kit_close(&k);
			}
	kit k = kit_open("portable", 35);
	world w = world_make(&k, &SHAPES[1], true, 3);
	write_all(&k, &w);
	((int64_t *)w.kv_slot.data)[4] = -1;
	poison(&w.k), poison(&w.v);
	tensor was = kit_zeros(&k, NUM_E4M3, 4, w.pages.k.shape[0], 3, 2, 16);
	memcpy(was.data, w.pages.k.data, tensor_bytes(&was));
	tensor kr = tensor_rows(&w.k, 4, 1), vr = tensor_rows(&w.v, 4, 1), slot = tensor_rows(&w.kv_slot, 4, 1);
	OP(k.x, kv_write, .pages = &w.pages, .k = &kr, .v = &vr, .kv_slot = &slot);
	KIT_OK(&k);
	assert_true(kit_same_bits(&was, &w.pages.k)); /* -1: not stored */
	((int64_t *)w.kv_slot.data)[4] = w.pages.k.shape[0] * 3;
	OP(k.x, kv_write, .pages = &w.pages, .k = &kr, .v = &vr, .kv_slot = &slot);
	KIT_FAILED(&k, "kv_slot[0]");
	((int32_t *)w.row_seq.data)[9] = 3;
	attend(&k, &w, 8, 3, false);
	KIT_FAILED(&k, "sequence 3 of 3");
	((int32_t *)w.row_seq.data)[9] = 0, ((int32_t *)w.pos.data)[9] = 100000;
	attend(&k, &w, 8, 3, false);
	KIT_FAILED(&k, "page -1");
	((int32_t *)w.pos.data)[9] = -1;
	attend(&k, &w, 8, 3, false);
	KIT_FAILED(&k, "pos[1] = -1");
	((int32_t *)w.pos.data)[9] = 9, ((int32_t *)w.table.data)[2] = (int32_t)w.pages.k.shape[0];
	attend(&k, &w, 8, 3, false);
	KIT_FAILED(&k, "expected 0 <= page");
	kit_close(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(matches_textbook), cmocka_unit_test(company_changes_nothing),
	    cmocka_unit_test(window_forgets), cmocka_unit_test(nan_and_ranges)};
	return cmocka_run_group_tests_name("ref_attn", tests, NULL, NULL);
}
