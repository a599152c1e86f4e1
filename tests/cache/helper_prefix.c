/* SPDX-License-Identifier: Apache-2.0
 * helper_prefix.c: see helper_prefix.h.
 */
#include "helper_prefix.h"

#include <string.h>

#include "test.h"

prefix_cache *helper_prefix_open(host *h, int chunk, int32_t slots, spill *sp)
{
	prefix_cache *c;
	nh_error e;
	prefix_options o = {.states = &h->s, .pages = &h->p, .x = &h->wrapper, .chunk = chunk, .slot_limit = slots, .spill = sp};
	assert_int_equal(prefix_open(&c, &o, &e), NH_OK);
	return c;
}

/* A request as the engine runs it: adopt, pieces to wanted places, publish. Returns the adopted length. m is released first. */
int64_t helper_prefix_request(host *h, prefix_cache *c, seqmem *m, const int32_t *ids, int64_t n)
{
	int64_t reused, at;
	seqmem_release(m);
	assert_int_equal(prefix_adopt(c, ids, n, m, &reused, NULL), NH_OK);
	assert_int_equal(m->length, reused);
	assert_true(reused == 0 || (reused < n && reused % prefix_unit(c) == 0));
	if (reused) host_check(h, m, ids);
	else assert_true(m->slot == -1 && m->page_count == 0);
	for (int64_t pos = reused; pos < n; pos = at) {
		at = prefix_next(c, ids, n, pos);
		assert_true(at > pos && at <= n);
		if (m->slot < 0 && h->s.pool.free_count == 0) prefix_evict(c, 1, 0);
		prefix_evict(c, 0, pages_needed(at) - m->page_count);
		host_compute(h, m, ids, at);
		if (at < n) prefix_publish(c, ids, n, m);
	}
	prefix_seen(c, ids, n);
	return reused;
}

prefix_stats helper_prefix_stats(const prefix_cache *c)
{
	prefix_stats s;
	prefix_get_stats(c, &s);
	return s;
}

/* Whether a prefix is kept, without using it. */
bool helper_prefix_kept(const prefix_cache *c, const int32_t *ids, int64_t length)
{
	for (int32_t i = 0; i < c->table.limit; i++)
		if (c->table.entry[i].length == length && memcmp(c->table.entry[i].ids, ids, (size_t)length * sizeof *ids) == 0) return true;
	return false;
}

void helper_prefix_put(host *h, prefix_cache *c, seqmem *m, const int32_t *ids, int64_t n)
{
	seqmem_release(m);
	host_compute(h, m, ids, n);
	prefix_publish(c, ids, n + 1, m);
	assert_true(helper_prefix_kept(c, ids, n));
	seqmem_release(m);
}

/* Links to the next shorter one, after every change, against a search. */
void helper_prefix_links(const prefix_table *t)
{
	int32_t n = 0;
	for (int32_t i = 0; i < t->limit; i++) {
		const prefix_entry *x = &t->entry[i];
		int32_t best = -1;
		if (!x->length) continue;
		n++;
		for (int32_t k = 0; k < t->limit; k++) {
			const prefix_entry *y = &t->entry[k];
			if (!y->length || y->length >= x->length || memcmp(x->ids, y->ids, (size_t)y->length * sizeof *y->ids) != 0) continue;
			if (best < 0 || y->length > t->entry[best].length) best = k;
		}
		assert_int_equal(x->after, best);
		assert_int_equal(prefix_table_find(t, x->key, x->ids, x->length), i);
	}
	assert_int_equal(n, t->count);
}
