/* SPDX-License-Identifier: Apache-2.0
 * prefix.c: what prefix.h promises, over a table of snapshots and a memory of prompts. Keys are chained unit by unit, so one walk over a
 * prompt meets every prefix that could be kept. Knows no request.
 * The invariant that breaks first: an adopted sequence holds exactly the pages of its prefix, all full, so that its next token goes to a
 * page that nobody else holds.
 */
#include <assert.h>
#include <string.h>
#include <xxhash.h>

#include "base/base_mem.h"
#include "cache/prefix_impl.h"
#include "cache/spill.h"

#define PREFIX_SEED 0x6E686E656D6F7472u

static uint64_t hash_unit(uint64_t before, const int32_t *ids, int64_t n)
{
	return XXH3_64bits_withSeed(ids, (size_t)n * sizeof *ids, before);
}

static bool prefix_on(const prefix_cache *c) { return c->options.slot_limit > 0; }
/* The last unit border that a prompt of n tokens may start from: one token at least is computed. */
static int64_t prefix_last(const prefix_cache *c, int64_t n) { return n > 1 ? (n - 1) / c->unit * c->unit : 0; }
static uint64_t prefix_step(const prefix_cache *c, uint64_t key, const int32_t *ids, int64_t end)
{
	return c->hash(key, ids + end - c->unit, c->unit);
}

nh_status prefix_open(prefix_cache **out, const prefix_options *o, nh_error *e)
{
	*out = NULL;
	if (o->chunk < 1 || o->slot_limit < 0)
		return ERR(e, NH_ERR_ARG, "prefix cache: chunk %d and %d slots, expected at least 1 and 0", o->chunk, (int)o->slot_limit);
	int64_t a = o->chunk, b = PAGES_TOKENS;
	while (b) {
		int64_t rest = a % b;
		a = b;
		b = rest;
	}
	prefix_cache *c = mem_alloc(sizeof *c);
	if (!c) return ERR_NOMEM(e);
	c->options = *o;
	if (c->options.slot_limit > o->states->pool.count) c->options.slot_limit = o->states->pool.count;
	c->unit = o->chunk / a * PAGES_TOKENS;
	c->hash = hash_unit;
	nh_status s = NH_OK;
	if (prefix_on(c)) {
		const int64_t two = 2;
		s = prefix_table_init(&c->table, o->states, o->pages, c->options.slot_limit, e);
		if (s == NH_OK && !prefix_ghost_init(&c->ghost)) s = ERR_NOMEM(e);
		if (s == NH_OK) s = pool_tensor(&c->pair, o->states->arm, o->states->x, NUM_I32, 1, &two, "prefix cache", e);
	}
	if (s != NH_OK) prefix_close(c);
	else *out = c;
	return s;
}

void prefix_close(prefix_cache *c)
{
	if (!c) return;
	prefix_table_deinit(&c->table);
	prefix_ghost_deinit(&c->ghost);
	pool_tensor_free(&c->pair, c->options.states->arm, c->options.states->x);
	mem_free(c);
}

int64_t prefix_unit(const prefix_cache *c) { return c->unit; }

/* One slot to another. The exec is as it was, should this fail. */
static nh_status copy_slot(prefix_cache *c, int32_t from, int32_t to, nh_error *e)
{
	const states *s = c->options.states;
	exec *x = c->options.x;
	const int32_t pair[2] = {from, to};
	TRY(exec_status(x, e));
	if (s->layers == 0) return NH_OK;
	TRY(s->arm->upload(s->x, c->pair.data, pair, sizeof pair, e));
	const tensor f = tensor_rows(&c->pair, 0, 1), t = tensor_rows(&c->pair, 1, 1);
	for (int i = 0; i < s->layers; i++) {
		OP(x, state_copy, .pool = &s->layer[i].conv, .from = &f, .to = &t);
		OP(x, state_copy, .pool = &s->layer[i].ssm, .from = &f, .to = &t);
	}
	nh_status status = exec_status(x, e);
	if (status != NH_OK) exec_clear(x);
	return status;
}

/* Told to the arm itself: a wrapper's counters are overwritten by those of the exec that it wraps. */
static exec_counters *counters(const prefix_cache *c)
{
	exec *x = c->options.x;
	while (x->inner) x = x->inner;
	return &x->counters;
}

/* Drops the snapshot that is worth least; into the spill first, where there is one. */
static bool evict_one(prefix_cache *c, bool slot, int32_t spared)
{
	prefix_table *t = &c->table;
	int32_t i = prefix_table_least(t, slot, spared);
	if (i < 0) return false;
	const prefix_entry *x = &t->entry[i];
	if (c->options.spill) {
		const seqmem m = {.states = c->options.states,
		    .pages = c->options.pages,
		    .slot = x->slot,
		    .page = x->page,
		    .page_count = x->length / PAGES_TOKENS,
		    .length = x->length};
		swapped *copy;
		if (swap_copy(&copy, &m, NULL) == NH_OK) spill_store(c->options.spill, x->ids, x->length, copy);
	}
	double worth = prefix_table_worth(t, i);
	if (worth > t->clock) t->clock = worth;
	prefix_table_drop(t, i);
	c->stats.evictions++;
	return true;
}

static bool evict_until(prefix_cache *c, int32_t free_slots, int64_t free_pages, int32_t spared)
{
	const pool *s = &c->options.states->pool, *p = &c->options.pages->pool;
	if (!prefix_on(c)) return s->free_count >= free_slots && p->free_count >= free_pages;
	while (s->free_count < free_slots || p->free_count < free_pages)
		if (!evict_one(c, s->free_count < free_slots, spared)) return false;
	return true;
}

bool prefix_evict(prefix_cache *c, int32_t free_slots, int64_t free_pages) { return evict_until(c, free_slots, free_pages, -1); }

/* The longest kept prefix of at most `limit` tokens, and the key of that length; -1: none. */
static int32_t longest(const prefix_cache *c, const int32_t *ids, int64_t limit)
{
	int32_t best = -1;
	uint64_t key = PREFIX_SEED;
	for (int64_t end = c->unit; end <= limit; end += c->unit) {
		key = prefix_step(c, key, ids, end);
		int32_t i = prefix_table_find(&c->table, key, ids, end);
		if (i >= 0) best = i;
	}
	return best;
}

static void hit(prefix_cache *c, const seqmem *m, int64_t *length)
{
	*length = m->length;
	c->stats.hits++;
	c->stats.reused_tokens += (uint64_t)m->length;
}

/* From the spill, if it has more than `best`. Not finding room is no failure: what is kept serves too. */
static bool adopt_spilled(prefix_cache *c, const int32_t *ids, int64_t n, int32_t best, seqmem *m)
{
	swapped *s = NULL;
	const int64_t have = best < 0 ? 0 : c->table.entry[best].length;
	if (!c->options.spill || prefix_last(c, n) <= have) return false;
	if (spill_find(c->options.spill, ids, n, have, c->unit, c->options.states, c->options.pages, &s, NULL) != NH_OK || !s) return false;
	bool in = swap_length(s) <= m->page_limit * PAGES_TOKENS && evict_until(c, 1, swap_pages(s), best) && swap_in(s, m, NULL) == NH_OK;
	swap_free(s);
	if (in) prefix_publish(c, ids, n, m);
	return in;
}

nh_status prefix_adopt(prefix_cache *c, const int32_t *ids, int64_t n, seqmem *m, int64_t *length, nh_error *e)
{
	assert(m->slot < 0 && m->page_count == 0 && m->length == 0);
	*length = 0;
	if (!prefix_on(c)) return NH_OK;
	int64_t limit = prefix_last(c, n);
	if (limit > m->page_limit * PAGES_TOKENS) limit = m->page_limit * PAGES_TOKENS;
	int32_t best = longest(c, ids, limit);
	if (adopt_spilled(c, ids, n, best, m)) {
		hit(c, m, length);
		return NH_OK;
	}
	if (best < 0) {
		c->stats.misses++;
		return NH_OK;
	}
	evict_until(c, 1, 0, best);
	TRY(seqmem_begin(m, e));
	const prefix_entry *x = &c->table.entry[best];
	nh_status s = copy_slot(c, x->slot, m->slot, e);
	if (s != NH_OK) {
		seqmem_release(m);
		return s;
	}
	counters(c)->scatters++;
	for (; m->page_count < x->length / PAGES_TOKENS; m->page_count++) {
		m->page[m->page_count] = x->page[m->page_count];
		pool_share(&c->options.pages->pool, m->page[m->page_count]);
	}
	m->length = x->length;
	assert(m->page_count * PAGES_TOKENS == m->length);
	prefix_table_use(&c->table, best);
	hit(c, m, length);
	return NH_OK;
}

/* The last border up to which an earlier prompt had the same ids, if no snapshot is there; else 0. Units of one prompt are seen in order,
 * so the first one that was not seen ends the walk. */
static int64_t branch(const prefix_cache *c, const int32_t *ids, int64_t last)
{
	uint64_t key = PREFIX_SEED, kept = key;
	int64_t end = 0;
	while (end < last) {
		key = prefix_step(c, key, ids, end + c->unit);
		if (!prefix_ghost_seen(&c->ghost, key)) break;
		end += c->unit;
		kept = key;
	}
	return end && prefix_table_find(&c->table, kept, ids, end) < 0 ? end : 0;
}

int64_t prefix_next(const prefix_cache *c, const int32_t *ids, int64_t n, int64_t pos)
{
	const int64_t last = prefix_on(c) ? prefix_last(c, n) : 0;
	int64_t next = n;
	if (last <= pos) return n;
	const int64_t wanted[] = {last - c->unit, last, branch(c, ids, last)};
	for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
		if (wanted[i] > pos && wanted[i] < next) next = wanted[i];
	for (int64_t at = c->unit; at < next; at *= 2)
		if (at > pos) next = at;
	return next;
}

void prefix_publish(prefix_cache *c, const int32_t *ids, int64_t n, const seqmem *m)
{
	if (!prefix_on(c)) return;
	assert(m->length > 0 && m->length % c->unit == 0 && m->length <= n && m->slot >= 0);
	pool *slots = &c->options.states->pool;
	uint64_t key = PREFIX_SEED;
	for (int64_t end = c->unit; end <= m->length; end += c->unit) key = prefix_step(c, key, ids, end);
	if (prefix_table_find(&c->table, key, ids, m->length) >= 0) return;
	while (c->table.count == c->table.limit || slots->free_count == 0)
		if (!evict_one(c, true, -1)) return;
	int32_t slot = pool_take(slots);
	/* What is next shorter is asked for now, because evicting may have changed it. */
	if (copy_slot(c, m->slot, slot, NULL) != NH_OK ||
	    prefix_table_add(&c->table, key, ids, m->length, slot, m->page, longest(c, ids, m->length - c->unit)) < 0) {
		pool_drop(slots, slot);
		return;
	}
	counters(c)->gathers++;
	c->stats.published++;
}

void prefix_seen(prefix_cache *c, const int32_t *ids, int64_t n)
{
	uint64_t key = PREFIX_SEED;
	if (!prefix_on(c)) return;
	for (int64_t end = c->unit; end <= n; end += c->unit) {
		key = prefix_step(c, key, ids, end);
		prefix_ghost_see(&c->ghost, key);
	}
}

void prefix_get_stats(const prefix_cache *c, prefix_stats *out)
{
	*out = c->stats;
	out->snapshots = c->table.count;
	out->bytes = prefix_table_bytes(&c->table);
}
