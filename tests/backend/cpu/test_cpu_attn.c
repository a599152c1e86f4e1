/* SPDX-License-Identifier: Apache-2.0
 * test_cpu_attn.c: attention against ref at the lengths where splits and tiles end, over shuffled pages, in decode and in prefill form, which
 * are equal to the bit; windows, odd head counts, codes; poison beyond what a row may see. Measured distances, over an output: exact 3.4e-7;
 * eager up to one split 4e-5, a bf16 edge here and there; beyond it weights are rounded relative to their split's largest: 9e-4.
 */
#include "twin.h"

enum { PAGE = 16 };

typedef struct shape {
	int64_t rows, end; /* rows at positions end - rows .. end - 1 */
	int kv, group, hd, window;
	bool codes;
} shape;

typedef struct world {
	kv_pages pages;
	tensor q, y, pos, seq, table;
} world;

/* Two sequences share the pool, the second is the one. */
static world world_of(twin *w, const shape *s)
{
	const int64_t pages = (s->end + PAGE - 1) / PAGE + 1, width = (int64_t)s->kv * s->hd;
	const num_dtype type = s->codes ? NUM_E4M3 : w->x->types.kv;
	tensor k = twin_random(w, w->x->types.act, s->end, width, 0.1, 2), v = twin_random(w, w->x->types.act, s->end, width, 0.2, 1);
	world m = {.pages = {twin_zeros(w, type, 4, pages, PAGE, s->kv, s->hd), twin_zeros(w, type, 4, pages, PAGE, s->kv, s->hd), 1, 1}};
	if (s->codes) m.pages.k_scale = (float)num_round_bf16(0.013), m.pages.v_scale = (float)num_round_bf16(0.006);
	m.table = twin_zeros(w, NUM_I32, 2, 2, pages, 1, 1);
	for (int64_t i = 0; i < pages; i++) {
		((int32_t *)m.table.data)[i] = -1;
		((int32_t *)m.table.data)[pages + i] = (int32_t)(i % 2 ? pages - 1 - i / 2 : i / 2);
	}
	tensor slot = twin_zeros(w, NUM_I64, 1, s->end, 1, 1, 1);
	for (int64_t t = 0; t < s->end; t++) ((int64_t *)slot.data)[t] = (int64_t)((int32_t *)m.table.data)[pages + t / PAGE] * PAGE + t % PAGE;
	OP(w->x, kv_write, .pages = &m.pages, .k = &k, .v = &v, .kv_slot = &slot);
	m.q = twin_random(w, w->x->types.act, s->rows, width * s->group, 0, 2);
	m.y = twin_zeros(w, w->x->types.act, 2, s->rows, width * s->group, 1, 1);
	m.pos = twin_count(w, s->rows, (int32_t)(s->end - s->rows), 1), m.seq = twin_count(w, s->rows, 1, 0);
	return m;
}

static void attend(twin *w, const world *m, const shape *s, bool decode)
{
	tensor q = twin_rows(w, &m->q), y = twin_rows(w, &m->y), pos = twin_rows(w, &m->pos), seq = twin_rows(w, &m->seq);
	const double scale = pow(s->hd, -0.5);
	if (decode)
		OP(w->x, attn_decode, .y = &y, .q = &q, .pages = &m->pages, .pos = &pos, .row_seq = &seq, .page_table = &m->table,
		    .page_tokens = PAGE, .kv_heads = s->kv, .head_dim = s->hd, .window = s->window, .scale = scale);
	else
		OP(w->x, attn_prefill, .y = &y, .q = &q, .pages = &m->pages, .pos = &pos, .row_seq = &seq, .page_table = &m->table,
		    .page_tokens = PAGE, .kv_heads = s->kv, .head_dim = s->hd, .window = s->window, .scale = scale);
}

static void decodes(twin *w, const void *p)
{
	const world m = world_of(w, p);
	attend(w, &m, p, true);
	tensor y = twin_rows(w, &m.y);
	twin_out(w, &y);
}

static void prefills(twin *w, const void *p)
{
	const world m = world_of(w, p);
	attend(w, &m, p, false);
	tensor y = twin_rows(w, &m.y);
	twin_out(w, &y);
}

/* At most one split. */
static const shape SHORT[] = {{1, 1, 2, 16, 128, 0, false}, {3, 24, 2, 16, 128, 0, true}, {9, 66, 1, 5, 64, 0, false},
    {2, 63, 3, 4, 24, 0, true}, {4, 257, 1, 1, 1, 0, false}, {5, 511, 1, 20, 12, 0, false}, {2, 512, 2, 8, 32, 70, true},
    {70, 100, 1, 3, 16, 9, false}};
/* More. */
static const shape LONG[] = {
    {2, 514, 2, 16, 64, 0, false}, {3, 1025, 1, 5, 32, 0, true}, {9, 1030, 1, 8, 16, 515, false}, {1, 1537, 1, 2, 40, 0, false}};

static void agree(const shape *s, size_t n, const double bands[2])
{
	twin_seen seen = {{0}, 0};
	for (size_t i = 0; i < n; i++) {
		twin_check(decodes, &s[i], 1, bands, &seen);
		twin_check(prefills, &s[i], s[i].rows < 4 ? s[i].rows : 2, bands, &seen);
	}
	TWIN_REPORT("attention", seen);
}

static void one_split_agrees_with_ref(void **state)
{
	(void)state;
	static const double BANDS[2] = {1e-6, 1e-4};
	agree(SHORT, sizeof SHORT / sizeof *SHORT, BANDS);
}

static void splits_agree_with_ref(void **state)
{
	(void)state;
	static const double BANDS[2] = {1e-6, 2e-3};
	agree(LONG, sizeof LONG / sizeof *LONG, BANDS);
}

/* The forms are one class: a row has the same bits in both, and what lies where it may not look changes nothing. */
static void forms_are_equal_and_poison_is_not_seen(void **state)
{
	(void)state;
	static const shape S = {40, 600, 2, 6, 20, 0, false}, WINDOW = {40, 600, 2, 6, 20, 530, false};
	for (int t = 0; t < 6; t++) {
		const shape *s = t < 3 ? &S : &WINDOW;
		twin w;
		if (!twin_open(&w, &cpu_backend, TWIN_TIERS[t % 3], 2, "portable", 4)) continue;
		world m = world_of(&w, s);
		attend(&w, &m, s, false);
		const size_t bytes = tensor_bytes(&m.y);
		void *first = arena_alloc(&w.mem, bytes);
		memcpy(first, m.y.data, bytes);
		memset(m.y.data, 0, bytes);
		attend(&w, &m, s, true);
		twin_well(&w);
		assert_memory_equal(first, m.y.data, bytes);
		const int32_t *page = (const int32_t *)tensor_row(&m.table, 1);
		for (int pos = 580; pos < 640; pos++) { /* rows 0 .. 19 are at 560 .. 579 */
			if (pos / PAGE >= m.table.shape[1]) break;
			for (int e = 0; e < 40; e++) {
				const int64_t at = ((int64_t)page[pos / PAGE] * PAGE + pos % PAGE) * 40 + e;
				twin_set(&m.pages.k, at, NAN), twin_set(&m.pages.v, at, INFINITY);
			}
		}
		for (int e = 0; s->window && e < 40; e++)
			twin_set(&m.pages.v, ((int64_t)page[1] * PAGE + 14) * 40 + e, NAN); /* 30: row 0 sees 31 on */
		for (int form = 0; form < 2; form++) {
			memset(m.y.data, 0, bytes);
			attend(&w, &m, s, form == 0);
			assert_memory_equal(first, m.y.data, bytes / 2);
			for (int e = 0; e < 240; e++) assert_false(isfinite(twin_get(&m.y, 20 * 240 + e)));
		}
		twin_close(&w);
	}
}

static void every_code_is_read(void **state)
{
	(void)state;
	static const shape S = {1, 1, 1, 1, 256, 0, true};
	for (int t = 0; t < 3; t++) {
		twin w;
		if (!twin_open(&w, &cpu_backend, TWIN_TIERS[t], 1, "exact", 4)) continue;
		world m = world_of(&w, &S);
		for (int c = 0; c < 256; c++)
			((uint8_t *)tensor_row(&m.pages.v, m.table.shape[1] > 0 ? ((int32_t *)tensor_row(&m.table, 1))[0] : 0))[c] = (uint8_t)c;
		m.pages.v_scale = 1;
		attend(&w, &m, &S, true); /* one key: its weight is 1 */
		for (int c = 0; c < 256; c++) {
			const double want = (double)num_e4m3_value[c], got = twin_get(&m.y, c);
			assert_true(isnan(want) ? isnan(got) : got == want);
		}
		twin_close(&w);
	}
}

static void bad_values_are_told(void **state)
{
	(void)state;
	static const shape S = {2, 20, 1, 2, 8, 0, false};
	twin w;
	assert_true(twin_open(&w, &cpu_backend, NULL, 2, "portable", 4));
	world m = world_of(&w, &S);
	((int32_t *)m.pos.data)[1] = -1;
	attend(&w, &m, &S, true);
	twin_failed(&w, "pos[1] = -1");
	((int32_t *)m.pos.data)[1] = 48;
	attend(&w, &m, &S, true);
	twin_failed(&w, "row 1: sequence 1 of 2, position 48: page -1, expected 0 <= page < 3");
	((int32_t *)m.pos.data)[1] = 19, ((int32_t *)m.seq.data)[0] = 0;
	attend(&w, &m, &S, false);
	twin_failed(&w, "row 0: sequence 0 of 2, position 0: page -1");
	tensor k = twin_random(&w, NUM_BF16, 1, 8, 0, 1), slot = twin_zeros(&w, NUM_I64, 1, 1, 1, 1, 1);
	((int64_t *)slot.data)[0] = 48;
	OP(w.x, kv_write, .pages = &m.pages, .k = &k, .v = &k, .kv_slot = &slot);
	twin_failed(&w, "kv_slot[0] = 48, expected -1 or 0 .. 47");
	twin_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(one_split_agrees_with_ref), cmocka_unit_test(splits_agree_with_ref),
	    cmocka_unit_test(forms_are_equal_and_poison_is_not_seen), cmocka_unit_test(every_code_is_read),
	    cmocka_unit_test(bad_values_are_told)};
	return cmocka_run_group_tests_name("cpu_attn", tests, NULL, NULL);
}
