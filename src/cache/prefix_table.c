/* SPDX-License-Identifier: Apache-2.0
 * prefix_table.c: the snapshots that are kept: found by key and ids, valued, dropped. Moves no state.
 * An entry is worth clock + tokens / bytes: the tokens that it saves beyond the next shorter entry, over the bytes that it alone keeps. The
 * clock rises to the worth of what is dropped, so that what is not used sinks below what is (the greedy-dual rule: Cao and Irani, 1997).
 */
#include <assert.h>
#include <string.h>

#include "base/base_mem.h"
#include "cache/prefix_impl.h"

nh_status prefix_table_init(prefix_table *t, states *s, pages *p, int32_t limit, nh_error *e)
{
	memset(t, 0, sizeof *t);
	t->states = s;
	t->pages = p;
	t->buckets = 1;
	while (t->buckets < 2 * (uint32_t)limit) t->buckets *= 2;
	t->entry = mem_array((size_t)limit, sizeof *t->entry);
	t->bucket = mem_array(t->buckets, sizeof *t->bucket);
	t->held = mem_array((size_t)p->pool.count, sizeof *t->held);
	if (!t->entry || !t->bucket || !t->held) {
		prefix_table_deinit(t);
		return ERR_NOMEM(e);
	}
	t->limit = limit;
	for (uint32_t i = 0; i < t->buckets; i++) t->bucket[i] = -1;
	for (int32_t i = 0; i < limit; i++) t->entry[i].next = i + 1 < limit ? i + 1 : -1;
	return NH_OK;
}

void prefix_table_deinit(prefix_table *t)
{
	for (int32_t i = 0; i < t->limit; i++)
		if (t->entry[i].length) prefix_table_drop(t, i);
	mem_free(t->entry);
	mem_free(t->bucket);
	mem_free(t->held);
	memset(t, 0, sizeof *t);
}

static bool starts_with(const prefix_entry *x, const int32_t *ids, int64_t length)
{
	return x->length >= length && memcmp(x->ids, ids, (size_t)length * sizeof *ids) == 0;
}

int32_t prefix_table_find(const prefix_table *t, uint64_t key, const int32_t *ids, int64_t length)
{
	int32_t i = t->bucket[key & (t->buckets - 1)];
	for (; i >= 0; i = t->entry[i].next) {
		const prefix_entry *x = &t->entry[i];
		if (x->key == key && x->length == length && starts_with(x, ids, length)) break;
	}
	return i;
}

void prefix_table_use(prefix_table *t, int32_t i)
{
	t->entry[i].clock = t->clock;
	t->entry[i].used = ++t->serial;
}

int32_t prefix_table_add(
    prefix_table *t, uint64_t key, const int32_t *ids, int64_t length, int32_t slot, const int32_t *page, int32_t after)
{
	assert(t->count < t->limit && length > 0 && length % PAGES_TOKENS == 0);
	const int64_t n = length / PAGES_TOKENS;
	const int32_t i = t->vacant;
	prefix_entry *x = &t->entry[i];
	int32_t *own_ids = mem_array((size_t)length, sizeof *ids), *own_page = mem_array((size_t)n, sizeof *page);
	if (!own_ids || !own_page) {
		mem_free(own_ids);
		mem_free(own_page);
		return -1;
	}
	t->vacant = x->next;
	t->count++;
	memcpy(own_ids, ids, (size_t)length * sizeof *ids);
	memcpy(own_page, page, (size_t)n * sizeof *page);
	for (int64_t k = 0; k < n; k++) {
		pool_share(&t->pages->pool, page[k]);
		t->held[page[k]]++;
	}
	int32_t *bucket = &t->bucket[key & (t->buckets - 1)];
	*x = (prefix_entry){.key = key, .length = length, .ids = own_ids, .page = own_page, .slot = slot, .next = *bucket, .after = after};
	*bucket = i;
	prefix_table_use(t, i);
	for (int32_t k = 0; k < t->limit; k++) {
		prefix_entry *y = &t->entry[k];
		if (k != i && y->length > length && y->after == after && starts_with(y, ids, length)) y->after = i;
	}
	return i;
}

void prefix_table_drop(prefix_table *t, int32_t i)
{
	prefix_entry *x = &t->entry[i];
	int32_t *link = &t->bucket[x->key & (t->buckets - 1)];
	while (*link != i) link = &t->entry[*link].next;
	*link = x->next;
	for (int32_t k = 0; k < t->limit; k++)
		if (t->entry[k].length && t->entry[k].after == i) t->entry[k].after = x->after;
	for (int64_t k = x->length / PAGES_TOKENS; k-- > 0;) {
		t->held[x->page[k]]--;
		pool_drop(&t->pages->pool, x->page[k]);
	}
	pool_drop(&t->states->pool, x->slot);
	mem_free(x->ids);
	mem_free(x->page);
	*x = (prefix_entry){.next = t->vacant};
	t->vacant = i;
	t->count--;
}

static size_t slot_bytes(const prefix_table *t) { return states_bytes(t->states) / (size_t)t->states->pool.count; }
static size_t page_bytes(const prefix_table *t) { return pages_bytes(t->pages) / (size_t)t->pages->pool.count; }

double prefix_table_worth(const prefix_table *t, int32_t i)
{
	const prefix_entry *x = &t->entry[i];
	const int64_t tokens = x->length - (x->after < 0 ? 0 : t->entry[x->after].length);
	const int64_t whole = tokens / PAGES_TOKENS; /* lengths are whole units, so whole pages */
	const double bytes = (double)slot_bytes(t) + (double)whole * (double)page_bytes(t);
	return x->clock + (double)tokens / (bytes < 1 ? 1 : bytes);
}

static bool frees_a_page(const prefix_table *t, const prefix_entry *x)
{
	for (int64_t k = x->length / PAGES_TOKENS; k-- > 0;)
		if (t->pages->pool.holds[x->page[k]] == t->held[x->page[k]]) return true;
	return false;
}

int32_t prefix_table_least(const prefix_table *t, bool slot, int32_t spared)
{
	int32_t least = -1;
	double worth = 0;
	for (int32_t i = 0; i < t->limit; i++) {
		const prefix_entry *x = &t->entry[i];
		if (x->length == 0 || i == spared || (!slot && !frees_a_page(t, x))) continue;
		double w = prefix_table_worth(t, i);
		if (least >= 0 && (w > worth || (w == worth && x->used > t->entry[least].used))) continue;
		least = i;
		worth = w;
	}
	return least;
}

uint64_t prefix_table_bytes(const prefix_table *t)
{
	uint64_t alone = 0;
	if (t->count == 0) return 0;
	for (int32_t i = 0; i < t->pages->pool.count; i++) alone += t->held[i] > 0 && t->held[i] == t->pages->pool.holds[i];
	return (uint64_t)t->count * slot_bytes(t) + alone * page_bytes(t);
}
