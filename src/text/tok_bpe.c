/* SPDX-License-Identifier: Apache-2.0
 * tok_bpe.c: one word to ids. Its bytes are symbols; of the merges that neighbours allow the lowest rank comes first, then the leftmost. A short word
 * is scanned for the best one; a long one has a list and a heap, where every merge takes one symbol away and adds at most two entries: n log n.
 * Words that took merging are remembered for the rest of the call, in a table of fixed size: speed alone, the ids are the same.
 * First to break: an entry whose symbols have changed since it was made must not be carried out; it is known by its rank, which each symbol keeps for
 * the pair that it is in now.
 */
#include <string.h>

#include "base/base_mem.h"
#include "base/base_rng.h"
#include "text/tok_impl.h"

#define CACHE_WORDS 4096 /* at most; a power of two */
#define CACHE_AFTER 32   /* words: a short text does not pay for the table */

/* The rank of the pair's merge; TOK_NONE where there is none. */
static uint32_t rank_of(const tok_call *c, uint32_t left, uint32_t right)
{
	const tokenizer *t = c->t;
	uint32_t rank = tok_merges_rank(&t->merges, left, right);
	/* user text that must stay plain cannot become a control id by merging either */
	if (t->merges_to_special && rank != TOK_NONE && (c->flags & TOK_PLAIN_SPECIAL) &&
	    (t->slots[t->merges.list[rank].id].flags & TOK_IS_SPECIAL))
		return TOK_NONE;
	return rank;
}

/* The symbols that the word's bytes are; returns their number. ids has room for len. */
static size_t symbols_of(const tokenizer *t, const char *bytes, size_t len, uint32_t *ids)
{
	size_t n = 0;
	bool last_unk = false;
	for (size_t i = 0; i < len; i++) {
		int32_t id = t->byte_id[(uint8_t)bytes[i]];
		bool unk = id < 0;
		if (unk && (t->unk < 0 || (last_unk && t->fuse_unk))) continue;
		ids[n++] = (uint32_t)(unk ? t->unk : id);
		last_unk = unk;
	}
	return n;
}

/* Merges ids[0..n) in place; returns how many are left. */
static size_t merge_short(const tok_call *c, const char *bytes, uint32_t *ids, size_t n)
{
	const tokenizer *t = c->t;
	uint32_t ranks[TOK_SHORT_WORD];
	/* symbol i is byte i, and no merge is forbidden */
	bool by_bytes = !t->lacks_bytes && !(t->merges_to_special && (c->flags & TOK_PLAIN_SPECIAL));
	for (size_t i = 0; i + 1 < n; i++)
		ranks[i] = by_bytes ? tok_merges_byte_rank(&t->merges, (uint8_t)bytes[i], (uint8_t)bytes[i + 1]) : rank_of(c, ids[i], ids[i + 1]);
	while (n > 1) {
		size_t at = 0;
		uint32_t best = ranks[0];
		for (size_t i = 1; i + 1 < n; i++) {
			at = ranks[i] < best ? i : at;
			best = ranks[i] < best ? ranks[i] : best;
		}
		if (best == TOK_NONE) break;
		ids[at] = t->merges.list[best].id;
		n--;
		for (size_t i = at + 1; i < n; i++) { /* ranks[n - 1] is nobody's */
			ids[i] = ids[i + 1];
			ranks[i - 1] = ranks[i];
		}
		if (at > 0) ranks[at - 1] = rank_of(c, ids[at - 1], ids[at]);
		if (at + 1 < n) ranks[at] = rank_of(c, ids[at], ids[at + 1]);
	}
	return n;
}

static bool heap_push(tok_call *c, uint64_t key)
{
	if (c->heap_count == c->heap_cap) {
		size_t cap = c->heap_cap ? c->heap_cap * 2 : 64;
		uint64_t *grown = mem_resize(c->heap, cap, sizeof *grown);
		if (!grown) return false;
		c->heap = grown;
		c->heap_cap = cap;
	}
	size_t i = c->heap_count++;
	for (; i > 0 && c->heap[(i - 1) / 2] > key; i = (i - 1) / 2) c->heap[i] = c->heap[(i - 1) / 2];
	c->heap[i] = key;
	return true;
}

static uint64_t heap_pop(tok_call *c)
{
	uint64_t top = c->heap[0], last = c->heap[--c->heap_count];
	size_t i = 0, n = c->heap_count;
	for (;;) {
		size_t child = 2 * i + 1;
		if (child + 1 < n && c->heap[child + 1] < c->heap[child]) child++;
		if (child >= n || c->heap[child] >= last) break;
		c->heap[i] = c->heap[child];
		i = child;
	}
	c->heap[i] = last;
	return top;
}

/* Enters the merge of the symbol at `at` with the one behind it, if there is one. */
static nh_status consider(tok_call *c, int32_t at)
{
	tok_symbol *s = &c->symbols[at];
	s->rank = s->next < 0 ? TOK_NONE : rank_of(c, s->id, c->symbols[s->next].id);
	if (s->rank == TOK_NONE) return NH_OK;
	return heap_push(c, (uint64_t)s->rank << 32 | (uint32_t)at) ? NH_OK : ERR_NOMEM(c->e);
}

static nh_status merge_all(tok_call *c)
{
	while (c->heap_count > 0) {
		uint64_t top = heap_pop(c);
		int32_t at = (int32_t)(uint32_t)top;
		tok_symbol *s = &c->symbols[at];
		if (s->rank != top >> 32) continue;
		tok_symbol *right = &c->symbols[s->next];
		s->id = c->t->merges.list[s->rank].id;
		right->rank = TOK_NONE;
		s->next = right->next;
		if (s->next >= 0) c->symbols[s->next].prev = at;
		if (s->prev >= 0) TRY(consider(c, s->prev));
		TRY(consider(c, at));
	}
	return NH_OK;
}

/* A word of any length, to its ids at the end of the output. */
static nh_status merge_long(tok_call *c, const char *bytes, size_t len)
{
	if (len > c->symbols_cap) {
		size_t cap = len + len / 2;
		tok_symbol *grown = mem_resize(c->symbols, cap, sizeof *grown);
		if (!grown) return ERR_NOMEM(c->e);
		c->symbols = grown;
		c->symbols_cap = cap;
	}
	TRY(tok_reserve(c, len));
	uint32_t *ids = (uint32_t *)c->out->ids + c->out->count; /* for the time being */
	size_t n = symbols_of(c->t, bytes, len, ids);
	for (size_t i = 0; i < n; i++) c->symbols[i] = (tok_symbol){(int32_t)i - 1, i + 1 < n ? (int32_t)i + 1 : -1, ids[i], TOK_NONE};
	c->heap_count = 0;
	for (size_t i = 0; i < n; i++) TRY(consider(c, (int32_t)i));
	TRY(merge_all(c));
	for (int32_t i = n > 0 ? 0 : -1; i >= 0; i = c->symbols[i].next) c->out->ids[c->out->count++] = (int32_t)c->symbols[i].id;
	return NH_OK;
}

static nh_status merge_word(tok_call *c, const char *bytes, size_t len)
{
	if (len > TOK_SHORT_WORD) return merge_long(c, bytes, len);
	TRY(tok_reserve(c, len));
	uint32_t *ids = (uint32_t *)c->out->ids + c->out->count;
	c->out->count += merge_short(c, bytes, ids, symbols_of(c->t, bytes, len, ids));
	return NH_OK;
}

/* Makes the cache, for a text of this length; without memory there is none. */
static void cache_make(tok_call *c)
{
	size_t words = 64;
	while (words < CACHE_WORDS && words < c->text_len / 16) words *= 2;
	c->cache = mem_array(words, sizeof *c->cache);
	c->cache_mask = words - 1;
}

/* The place in the cache that a word has; NULL where it is not cached. */
static tok_cached *cache_place(tok_call *c, const char *bytes, size_t len)
{
	if (len > TOK_CACHED_BYTES || len == 0 || (c->flags & TOK_NO_MEMORY)) return NULL;
	if (!c->cache && c->merged++ == CACHE_AFTER) cache_make(c);
	return c->cache ? &c->cache[tok_hash(bytes, len) & c->cache_mask] : NULL;
}

nh_status tok_word(tok_call *c, const char *bytes, size_t len)
{
	const tokenizer *t = c->t;
	if (t->ignore_merges) {
		uint32_t id = tok_piece_id(t, bytes, len, false);
		if (id != TOK_NONE && !((c->flags & TOK_PLAIN_SPECIAL) && (t->slots[id].flags & TOK_IS_SPECIAL))) return tok_emit(c, id);
	}
	tok_cached *place = cache_place(c, bytes, len);
	if (place && place->len == len && memcmp(place->bytes, bytes, len) == 0) {
		TRY(tok_reserve(c, place->count));
		memcpy(c->out->ids + c->out->count, place->ids, place->count * sizeof *place->ids);
		c->out->count += place->count;
		return NH_OK;
	}
	size_t from = c->out->count;
	TRY(merge_word(c, bytes, len));
	size_t count = c->out->count - from;
	if (!place || count > TOK_CACHED_IDS) return NH_OK;
	place->len = (uint8_t)len;
	place->count = (uint8_t)count;
	memcpy(place->bytes, bytes, len);
	memcpy(place->ids, c->out->ids + from, count * sizeof *place->ids);
	return NH_OK;
}
