/* SPDX-License-Identifier: Apache-2.0
 * tok_map.c: the tables of tok_map.h.
 */
#include "text/tok_map.h"

#include <string.h>

#include "base/base_mem.h"
#include "base/base_rng.h"

/* The power of two that holds count keys two thirds full; 0 on overflow. */
static size_t table_size(size_t count)
{
	size_t cap = 16;
	while (cap / 3 * 2 < count) {
		if (cap > SIZE_MAX / 64) return 0;
		cap *= 2;
	}
	return cap;
}

void tok_map_deinit(tok_map *m)
{
	mem_free(m->slots);
	*m = (tok_map){0};
}

static tok_map_slot *map_slot(const tok_map *m, uint64_t key)
{
	size_t i = (size_t)rng_mix(key) & (m->cap - 1);
	while (m->slots[i].value != 0 && m->slots[i].key != key) i = (i + 1) & (m->cap - 1);
	return &m->slots[i];
}

bool tok_map_reserve(tok_map *m, size_t count)
{
	size_t cap = table_size(count);
	if (cap == 0) return false;
	if (cap <= m->cap) return true;
	tok_map grown = {mem_array(cap, sizeof *grown.slots), m->count, cap};
	if (!grown.slots) return false;
	for (size_t i = 0; i < m->cap; i++)
		if (m->slots[i].value != 0) *map_slot(&grown, m->slots[i].key) = m->slots[i];
	mem_free(m->slots);
	*m = grown;
	return true;
}

bool tok_map_set(tok_map *m, uint64_t key, uint32_t value)
{
	if (!tok_map_reserve(m, m->count + 1)) return false;
	tok_map_slot *s = map_slot(m, key);
	m->count += s->value == 0;
	*s = (tok_map_slot){key, value + 1};
	return true;
}

uint32_t tok_map_get(const tok_map *m, uint64_t key) { return m->cap == 0 ? TOK_NONE : map_slot(m, key)->value - 1; }

uint64_t tok_hash(const void *bytes, size_t len)
{
	const char *p = bytes;
	uint64_t h = len, word;
	for (; len >= sizeof word; p += sizeof word, len -= sizeof word) {
		memcpy(&word, p, sizeof word);
		h = rng_mix(h ^ word);
	}
	word = 0;
	if (len > 0) memcpy(&word, p, len);
	return rng_mix(h ^ word);
}

void tok_index_deinit(tok_index *x)
{
	mem_free(x->slots);
	*x = (tok_index){0};
}

static void index_put(tok_index *x, tok_index_slot slot)
{
	size_t i = slot.hash & (x->cap - 1);
	while (x->slots[i].id != 0) i = (i + 1) & (x->cap - 1);
	x->slots[i] = slot;
}

bool tok_index_reserve(tok_index *x, size_t count)
{
	size_t cap = table_size(count);
	if (cap == 0) return false;
	if (cap <= x->cap) return true;
	tok_index grown = {mem_array(cap, sizeof *grown.slots), x->count, cap};
	if (!grown.slots) return false;
	for (size_t i = 0; i < x->cap; i++)
		if (x->slots[i].id != 0) index_put(&grown, x->slots[i]);
	mem_free(x->slots);
	*x = grown;
	return true;
}

uint32_t tok_index_get(const tok_index *x, uint64_t hash, tok_same_fn same, const void *owner, const void *bytes, size_t len, uint8_t flags)
{
	uint32_t kept = (uint32_t)(hash >> 32);
	if (x->cap == 0) return TOK_NONE;
	for (size_t i = kept & (x->cap - 1); x->slots[i].id != 0; i = (i + 1) & (x->cap - 1))
		if (x->slots[i].hash == kept && same(owner, x->slots[i].id - 1, bytes, len, flags)) return x->slots[i].id - 1;
	return TOK_NONE;
}

bool tok_index_add(tok_index *x, uint64_t hash, uint32_t id)
{
	if (!tok_index_reserve(x, x->count + 1)) return false;
	index_put(x, (tok_index_slot){(uint32_t)(hash >> 32), id + 1});
	x->count++;
	return true;
}
