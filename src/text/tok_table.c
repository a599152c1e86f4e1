/* SPDX-License-Identifier: Apache-2.0
 * tok_table.c: the tables of tok_table.h: open addressing, linear probing, at most two thirds full.
 */
#include "text/tok_table.h"

#include <string.h>

#include "base/base_mem.h"
#include "base/base_rng.h"

#define SHORT 7              /* bytes of a piece that fit into its slot's key */
#define LONG (0x40ull << 56) /* mark of a longer piece's key; the lengths of short ones are below it */
#define RAW_BIT (1ull << 63)

/* ---- pieces ---- */

static uint64_t read32(const uint8_t *p) { return (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24; }

static uint64_t read64(const uint8_t *p) { return read32(p) | read32(p + 4) << 32; }

/* All bytes of a short piece and its length: equal keys are equal pieces. Overlapping loads, because a loop of unknown length costs more. */
static uint64_t short_key(const uint8_t *p, size_t len)
{
	uint64_t bytes = 0;
	if (len >= 4) bytes = read32(p) | read32(p + len - 4) << (len - 4) * 8;
	else if (len > 0) bytes = (uint64_t)p[0] | (uint64_t)p[len / 2] << len / 2 * 8 | (uint64_t)p[len - 1] << (len - 1) * 8;
	return bytes | (uint64_t)len << 56;
}

/* A key without place (a long piece's low half is filled in by who knows it) and the hash. */
static uint64_t piece_key(const char *bytes, size_t len, bool raw, uint32_t *hash)
{
	const uint8_t *p = (const uint8_t *)bytes;
	uint64_t key, h;
	if (len <= SHORT) h = key = short_key(p, len) | (raw ? RAW_BIT : 0);
	else {
		key = LONG | (uint64_t)len << 32 | (raw ? RAW_BIT : 0);
		h = key;
		for (size_t i = 0; i + 8 < len; i += 8) {
			h = (h ^ read64(p + i)) * 0x9E3779B97F4A7C15u;
			h ^= h >> 32;
		}
		h ^= read64(p + len - 8);
	}
	*hash = (uint32_t)(rng_mix(h) >> 32);
	return key;
}

void tok_pieces_deinit(tok_pieces *x)
{
	mem_free(x->slots);
	*x = (tok_pieces){0};
}

/* The slot of the piece, or the empty one where it belongs. */
static tok_piece_slot *piece_slot(const tok_pieces *x, const char *blob, const char *bytes, size_t len, uint64_t key, uint32_t hash)
{
	size_t i = hash & (x->cap - 1);
	tok_piece_slot *s = &x->slots[i];
	if (len <= SHORT)
		while (s->id != 0 && s->key != key) s = &x->slots[i = (i + 1) & (x->cap - 1)];
	else
		while (s->id != 0 && (s->hash != hash || s->key >> 32 != key >> 32 || memcmp(blob + (uint32_t)s->key, bytes, len) != 0))
			s = &x->slots[i = (i + 1) & (x->cap - 1)];
	return s;
}

uint32_t tok_pieces_get(const tok_pieces *x, const char *blob, const char *bytes, size_t len, bool raw)
{
	uint32_t hash;
	if (x->cap == 0 || len > TOK_MAX_PIECE_BYTES) return TOK_NONE;
	uint64_t key = piece_key(bytes, len, raw, &hash);
	return piece_slot(x, blob, bytes, len, key, hash)->id - 1;
}

void tok_pieces_expect(const tok_pieces *x, const char *bytes, size_t len, bool raw)
{
	uint32_t hash;
	if (x->cap == 0 || len > TOK_MAX_PIECE_BYTES) return;
	piece_key(bytes, len, raw, &hash);
	__builtin_prefetch(&x->slots[hash & (x->cap - 1)]);
}

static bool pieces_grow(tok_pieces *x)
{
	size_t cap = x->cap ? x->cap * 2 : 1024;
	tok_piece_slot *grown = mem_array(cap, sizeof *grown);
	if (!grown) return false;
	for (size_t i = 0; i < x->cap; i++) {
		if (x->slots[i].id == 0) continue;
		size_t to = x->slots[i].hash & (cap - 1);
		while (grown[to].id != 0) to = (to + 1) & (cap - 1);
		grown[to] = x->slots[i];
	}
	mem_free(x->slots);
	x->slots = grown;
	x->cap = cap;
	return true;
}

bool tok_pieces_add(tok_pieces *x, const char *blob, uint32_t at, size_t len, bool raw, uint32_t id, uint32_t *other)
{
	uint32_t hash;
	if (x->count >= x->cap / 3 * 2 && !pieces_grow(x)) return false;
	uint64_t key = piece_key(blob + at, len, raw, &hash);
	tok_piece_slot *s = piece_slot(x, blob, blob + at, len, key, hash);
	*other = s->id - 1;
	if (s->id != 0) return true;
	*s = (tok_piece_slot){len <= SHORT ? key : key | at, hash, id + 1};
	x->count++;
	return true;
}

/* ---- merges ---- */

static uint64_t pair_hash(uint32_t left, uint32_t right) { return rng_mix((uint64_t)left << 32 | right); }

static bool pairs_resize(tok_merges *x, size_t cap)
{
	tok_pair_slot *grown = mem_array(cap, sizeof *grown);
	if (!grown) return false;
	for (size_t i = 0; i < x->cap; i++) {
		if (x->slots[i].rank == 0) continue;
		const tok_merge *m = &x->list[x->slots[i].rank - 1];
		size_t to = (size_t)pair_hash(m->left, m->right) & (cap - 1);
		while (grown[to].rank != 0) to = (to + 1) & (cap - 1);
		grown[to] = x->slots[i];
	}
	mem_free(x->slots);
	x->slots = grown;
	x->cap = cap;
	return true;
}

bool tok_merges_init(tok_merges *x, size_t expected)
{
	size_t cap = 64;
	while (cap / 3 * 2 < expected) cap *= 2;
	*x = (tok_merges){0};
	x->bytes = mem_array((size_t)1 << 16, sizeof *x->bytes);
	if (!x->bytes || !pairs_resize(x, cap)) return false;
	memset(x->bytes, 0xFF, sizeof *x->bytes << 16);
	return true;
}

void tok_merges_deinit(tok_merges *x)
{
	mem_free(x->list);
	mem_free(x->slots);
	mem_free(x->bytes);
	*x = (tok_merges){0};
}

static tok_pair_slot *pair_slot(const tok_merges *x, uint32_t left, uint32_t right, uint32_t *check)
{
	uint64_t h = pair_hash(left, right);
	size_t i = (size_t)h & (x->cap - 1);
	tok_pair_slot *s = &x->slots[i];
	*check = (uint32_t)(h >> 32);
	for (; s->rank != 0; s = &x->slots[i = (i + 1) & (x->cap - 1)]) {
		const tok_merge *m = &x->list[s->rank - 1];
		if (s->check == *check && m->left == left && m->right == right) break;
	}
	return s;
}

uint32_t tok_merges_rank(const tok_merges *x, uint32_t left, uint32_t right)
{
	uint32_t check;
	return pair_slot(x, left, right, &check)->rank - 1;
}

void tok_merges_expect(const tok_merges *x, uint32_t left, uint32_t right)
{
	__builtin_prefetch(&x->slots[(size_t)pair_hash(left, right) & (x->cap - 1)]);
}

bool tok_merges_add(tok_merges *x, tok_merge m, int first, int second)
{
	uint32_t check;
	if (x->count == x->list_cap) {
		size_t cap = x->list_cap ? x->list_cap * 2 : 1024;
		tok_merge *grown = mem_resize(x->list, cap, sizeof *grown);
		if (!grown) return false;
		x->list = grown;
		x->list_cap = cap;
	}
	if (x->pairs >= x->cap / 3 * 2 && !pairs_resize(x, x->cap * 2)) return false;
	tok_pair_slot *s = pair_slot(x, m.left, m.right, &check);
	x->pairs += s->rank == 0;
	x->list[x->count++] = m;
	*s = (tok_pair_slot){check, (uint32_t)x->count};
	if (first >= 0 && second >= 0) x->bytes[(size_t)first << 8 | (size_t)second] = (uint32_t)x->count - 1;
	return true;
}
