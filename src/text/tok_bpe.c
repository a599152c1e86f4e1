/* SPDX-License-Identifier: Apache-2.0
 * tok_bpe.c: one word to ids: its bytes as symbols in a list, and a heap of the merges that its neighbours allow, lowest rank first, then the
 * leftmost. Every merge takes one symbol away and adds at most two entries: n log n.
 * First to break: an entry whose symbols have changed since it was made must not be carried out; it is known by its id, because two symbols that
 * start at one place give one text only as the pair they were.
 */
#include "base/base_mem.h"
#include "text/tok_impl.h"

static bool heap_push(tok_call *c, tok_entry entry)
{
	if (c->heap_count == c->heap_cap) {
		size_t cap = c->heap_cap ? c->heap_cap * 2 : 64;
		tok_entry *grown = mem_resize(c->heap, cap, sizeof *grown);
		if (!grown) return false;
		c->heap = grown;
		c->heap_cap = cap;
	}
	size_t i = c->heap_count++;
	for (; i > 0 && c->heap[(i - 1) / 2].key > entry.key; i = (i - 1) / 2) c->heap[i] = c->heap[(i - 1) / 2];
	c->heap[i] = entry;
	return true;
}

static tok_entry heap_pop(tok_call *c)
{
	tok_entry top = c->heap[0], last = c->heap[--c->heap_count];
	size_t i = 0, n = c->heap_count;
	for (;;) {
		size_t child = 2 * i + 1;
		if (child + 1 < n && c->heap[child + 1].key < c->heap[child].key) child++;
		if (child >= n || c->heap[child].key >= last.key) break;
		c->heap[i] = c->heap[child];
		i = child;
	}
	c->heap[i] = last;
	return top;
}

static const tok_merge *merge_of(const tokenizer *t, uint32_t left, uint32_t right)
{
	uint32_t i = tok_map_get(&t->merges, (uint64_t)left << 32 | right);
	return i == TOK_NONE ? NULL : &t->merge_list[i];
}

/* Enters the merge of the symbol at `at` with the one behind it, if there is one. */
static nh_status consider(tok_call *c, int32_t at)
{
	const tok_symbol *s = &c->symbols[at];
	if (s->next < 0) return NH_OK;
	const tok_merge *m = merge_of(c->t, s->id, c->symbols[s->next].id);
	if (!m) return NH_OK;
	/* user text that must stay plain cannot become a control id by merging either */
	if ((c->flags & TOK_PLAIN_SPECIAL) && (c->t->slots[m->id].flags & TOK_IS_SPECIAL)) return NH_OK;
	return heap_push(c, (tok_entry){(uint64_t)m->rank << 32 | (uint32_t)at, m->id}) ? NH_OK : ERR_NOMEM(c->e);
}

static nh_status merge_all(tok_call *c)
{
	while (c->heap_count > 0) {
		tok_entry top = heap_pop(c);
		int32_t at = (int32_t)(uint32_t)top.key;
		tok_symbol *s = &c->symbols[at];
		if (!s->live || s->next < 0) continue;
		tok_symbol *right = &c->symbols[s->next];
		const tok_merge *m = merge_of(c->t, s->id, right->id);
		if (!m || m->id != top.id) continue;
		s->id = top.id;
		right->live = false;
		s->next = right->next;
		if (s->next >= 0) c->symbols[s->next].prev = at;
		if (s->prev >= 0) TRY(consider(c, s->prev));
		TRY(consider(c, at));
	}
	return NH_OK;
}

/* The symbols of the word's bytes, linked; *count of them. */
static nh_status fill(tok_call *c, const char *bytes, size_t len, size_t *count)
{
	const tokenizer *t = c->t;
	size_t n = 0;
	bool last_unk = false;
	if (len > c->symbols_cap) {
		size_t cap = len < 64 ? 64 : len + len / 2;
		tok_symbol *grown = mem_resize(c->symbols, cap, sizeof *grown);
		if (!grown) return ERR_NOMEM(c->e);
		c->symbols = grown;
		c->symbols_cap = cap;
	}
	for (size_t i = 0; i < len; i++) {
		int32_t id = t->byte_id[(uint8_t)bytes[i]];
		bool unk = id < 0;
		if (unk && (t->unk < 0 || (last_unk && t->fuse_unk))) continue;
		c->symbols[n] = (tok_symbol){(int32_t)n - 1, (int32_t)n + 1, (uint32_t)(unk ? t->unk : id), true};
		last_unk = unk;
		n++;
	}
	if (n > 0) c->symbols[n - 1].next = -1;
	*count = n;
	return NH_OK;
}

nh_status tok_word(tok_call *c, const char *bytes, size_t len)
{
	const tokenizer *t = c->t;
	size_t n;
	if (t->ignore_merges) {
		uint32_t id = tok_piece_id(t, bytes, len, false);
		if (id != TOK_NONE && !((c->flags & TOK_PLAIN_SPECIAL) && (t->slots[id].flags & TOK_IS_SPECIAL))) return tok_emit(c, id);
	}
	TRY(fill(c, bytes, len, &n));
	c->heap_count = 0;
	for (size_t i = 0; i < n; i++) TRY(consider(c, (int32_t)i));
	TRY(merge_all(c));
	for (int32_t i = n > 0 ? 0 : -1; i >= 0; i = c->symbols[i].next) TRY(tok_emit(c, c->symbols[i].id));
	return NH_OK;
}
