/* SPDX-License-Identifier: Apache-2.0
 * helper_attn.c: corpora and mutants of pages and attention.
 */
#include "conf.h"

enum { KV = 2, GROUP = 3, HD = 16, PAGE = 4, TOKENS = 41, PAGES = 13 };

/* One sequence of TOKENS tokens over shuffled pages; e4m3 pages in odd variants, a window from variant 2 on. */
typedef struct world {
	tensor k, v, slot;
	kv_pages pages; /* on the arm */
} world;

static world world_make(conf *c)
{
	world w = {
	    .k = conf_random(c, c->x->types.act, TOKENS, KV * HD, 0.1, 2), .v = conf_random(c, c->x->types.act, TOKENS, KV * HD, 0.2, 1)};
	w.slot = conf_host(c, NUM_I64, 1, TOKENS, 1, 1, 1);
	for (int t = 0; t < TOKENS; t++) ((int64_t *)w.slot.data)[t] = (int64_t)(t / PAGE * 5 % PAGES) * PAGE + t % PAGE;
	tensor pool = conf_host(c, c->variant % 2 ? NUM_E4M3 : c->x->types.kv, 4, PAGES, PAGE, KV, HD);
	w.pages = (kv_pages){conf_put(c, &pool), conf_put(c, &pool), 1, 1};
	if (c->variant % 2) w.pages.k_scale = (float)num_round_bf16(0.012), w.pages.v_scale = (float)num_round_bf16(0.007);
	return w;
}

static void write(conf *c, world *w)
{
	tensor k = conf_put(c, &w->k), v = conf_put(c, &w->v), slot = conf_put(c, &w->slot);
	OP(c->x, kv_write, .pages = &w->pages, .k = &k, .v = &v, .kv_slot = &slot);
}

static void kv_write(conf *c)
{
	world w = world_make(c);
	const bool swap = CONF_MUTANT(c, "keys and values exchanged");
	if (swap) {
		tensor t = w.k;
		w.k = w.v, w.v = t;
	}
	if (c->variant % 2 && CONF_MUTANT(c, "scale ignored")) w.pages.k_scale = w.pages.v_scale = 1;
	if (c->variant % 2 && CONF_MUTANT(c, "multiplied by the scale")) w.pages.k_scale = 1 / w.pages.k_scale;
	for (int t = 0; CONF_MUTANT(c, "the next slot") && t < TOKENS; t++) ((int64_t *)w.slot.data)[t] ^= 1;
	if (!CONF_MUTANT(c, "stored where -1 says not to")) ((int64_t *)w.slot.data)[7] = -1;
	write(c, &w);
	conf_out(c, &w.pages.k);
	conf_out(c, &w.pages.v);
}

/* Heads of [T, KV * GROUP * HD] reordered: what stood at place g * GROUP + r comes from place r * KV + g, or back. */
static tensor retiled(conf *c, const tensor *t, bool back)
{
	tensor r = conf_host(c, t->dtype, 2, t->shape[0], t->shape[1], 1, 1);
	for (int64_t i = 0; i < t->shape[0]; i++)
		for (int h = 0; h < KV * GROUP; h++)
			for (int d = 0; d < HD; d++) {
				int64_t one = (i * KV * GROUP + h) * HD + d, other = (i * KV * GROUP + h % GROUP * KV + h / GROUP) * HD + d;
				conf_set(&r, back ? other : one, conf_get(t, back ? one : other));
			}
	return r;
}

static void attend(conf *c, bool decode)
{
	const int n = decode ? 3 : 12;
	world w = world_make(c);
	write(c, &w);
	int window = c->variant >= 2 ? 6 : 0;
	float scale = 0.25f;
	tensor q = conf_random(c, c->x->types.act, n, KV * GROUP * HD, 0, 2), y = conf_host(c, c->x->types.act, 2, n, KV * GROUP * HD, 1, 1);
	tensor pos = conf_host(c, NUM_I32, 1, n, 1, 1, 1), seq = conf_host(c, NUM_I32, 1, n, 1, 1, 1),
	       table = conf_host(c, NUM_I32, 2, 2, PAGES, 1, 1);
	for (int i = 0; i < PAGES; i++) conf_set(&table, PAGES + i, i * 5 % PAGES), conf_set(&table, i, -1);
	for (int i = 0; i < n; i++) conf_set(&pos, i, TOKENS - 1 - n + i), conf_set(&seq, i, 1);
	const bool tile = CONF_MUTANT(c, "KV heads tiled");
	if (CONF_MUTANT(c, "scale dropped")) scale = 1;
	if (CONF_MUTANT(c, "scale of the whole width")) scale = (float)pow(KV * GROUP * HD, -0.5);
	if (window && CONF_MUTANT(c, "window one too short")) window--;
	if (window && CONF_MUTANT(c, "window one too long")) window++;
	for (int i = 0; CONF_MUTANT(c, "the next token seen") && i < n; i++) conf_set(&pos, i, conf_get(&pos, i) + 1);
	for (int i = 0; CONF_MUTANT(c, "pages in order") && i < PAGES; i++) conf_set(&table, PAGES + i, i);
	if (c->variant % 2) {
		if (CONF_MUTANT(c, "k scale ignored")) w.pages.k_scale = 1;
		if (CONF_MUTANT(c, "v scale ignored")) w.pages.v_scale = 1;
		if (CONF_MUTANT(c, "k scale for v")) w.pages.v_scale = w.pages.k_scale;
	}
	if (CONF_MUTANT(c, "keys for values")) w.pages.v = w.pages.k;
	if (tile) q = retiled(c, &q, false);
	tensor aq = conf_put(c, &q), ay = conf_put(c, &y), ap = conf_put(c, &pos), as = conf_put(c, &seq), at = conf_put(c, &table);
	if (decode)
		OP(c->x, attn_decode, .y = &ay, .q = &aq, .pages = &w.pages, .pos = &ap, .row_seq = &as, .page_table = &at, .page_tokens = PAGE,
		    .kv_heads = KV, .head_dim = HD, .window = window, .scale = scale);
	else
		OP(c->x, attn_prefill, .y = &ay, .q = &aq, .pages = &w.pages, .pos = &ap, .row_seq = &as, .page_table = &at, .page_tokens = PAGE,
		    .kv_heads = KV, .head_dim = HD, .window = window, .scale = scale);
	tensor back = conf_back(c, &ay);
	if (tile) back = retiled(c, &back, true), conf_out_host(c, &back);
	else conf_out(c, &ay);
}

static void attn_decode(conf *c) { attend(c, true); }
static void attn_prefill(conf *c) { attend(c, false); }

const conf_case CONF_ATTN[] = {
    {OP_kv_write, kv_write, 2}, {OP_attn_decode, attn_decode, 4}, {OP_attn_prefill, attn_prefill, 4}, {OP_COUNT, NULL, 0}};
