/* SPDX-License-Identifier: Apache-2.0
 * tok_trie.c: finds added tokens in text. The reference takes, from the left, the longest token at each place, resumes behind it even when it
 * then discards the match (inside a word, or special ones read as plain text), and only afterwards stretches it over white space.
 * A token has at most TOK_MAX_ADDED_BYTES, so time is linear in the text.
 */
#include <string.h>

#include "base/base_mem.h"
#include "text/tok_impl.h"

void tok_trie_deinit(tok_trie *r)
{
	tok_map_deinit(&r->edges);
	mem_free(r->ends);
	*r = (tok_trie){0};
}

static uint64_t edge(uint32_t node, char byte) { return (uint64_t)node << 8 | (uint8_t)byte; }

static bool grow(tok_trie *r, size_t more)
{
	size_t need = (size_t)r->count + more + 1;
	if (need <= r->cap) return true;
	size_t cap = (size_t)r->cap * 2 > need ? (size_t)r->cap * 2 : need;
	uint32_t *ends = cap < TOK_NONE ? mem_resize(r->ends, cap, sizeof *ends) : NULL;
	if (!ends) return false;
	memset(ends + r->cap, 0, (cap - r->cap) * sizeof *ends);
	r->ends = ends;
	r->cap = (uint32_t)cap;
	return true;
}

bool tok_trie_add(tok_trie *r, const char *text, size_t len, uint32_t added)
{
	uint32_t node = 0;
	if (!grow(r, len)) return false;
	if (r->count == 0) r->count = 1; /* the root */
	if (len == 0) return true;       /* normalised away: never found */
	r->first[(uint8_t)text[0]] = true;
	for (size_t i = 0; i < len; i++) {
		uint32_t next = tok_map_get(&r->edges, edge(node, text[i]));
		if (next == TOK_NONE) {
			next = r->count++;
			if (!tok_map_set(&r->edges, edge(node, text[i]), next)) return false;
		}
		node = next;
	}
	if (r->ends[node] == 0) r->ends[node] = added + 1;
	return true;
}

/* The longest token at text: its length, 0 for none, and its index. */
static size_t longest(const tok_trie *r, const char *text, size_t len, uint32_t *added)
{
	size_t best = 0;
	uint32_t node = 0;
	for (size_t i = 0; i < len; i++) {
		node = tok_map_get(&r->edges, edge(node, text[i]));
		if (node == TOK_NONE) break;
		if (r->ends[node] == 0) continue;
		best = i + 1;
		*added = r->ends[node] - 1;
	}
	return best;
}

/* Is the character that starts at text[at] (or, backwards, ends before it) one of a word? */
static nh_status word_at(tok_call *c, const char *text, size_t len, size_t at, bool backwards, bool *yes)
{
	size_t from = at, used;
	*yes = false;
	if (backwards ? at == 0 : at == len) return NH_OK;
	if (backwards) do
			from--;
		while (((uint8_t)text[from] & 0xC0) == 0x80);
	uni_decode(text + from, len - from, &used);
	const char *subject = uni_subject(&c->subject, text + from, used);
	return subject ? tok_regex_is(c, &c->t->word, subject, used, yes) : ERR_NOMEM(c->e);
}

static nh_status in_word(tok_call *c, const char *text, size_t len, size_t start, size_t end, bool *yes)
{
	bool before, after;
	TRY(word_at(c, text, len, start, true, &before));
	TRY(word_at(c, text, len, end, false, &after));
	*yes = before || after;
	return NH_OK;
}

static size_t spaces_after(const char *text, size_t len, size_t at)
{
	size_t used;
	while (at < len && uni_is_space(uni_decode(text + at, len - at, &used))) at += used;
	return at;
}

static size_t spaces_before(const char *text, size_t at)
{
	while (at > 0) {
		size_t from = at - 1, used;
		while (((uint8_t)text[from] & 0xC0) == 0x80) from--;
		if (!uni_is_space(uni_decode(text + from, at - from, &used))) break;
		at = from;
	}
	return at;
}

nh_status tok_trie_cut(tok_call *c, const tok_trie *r, const char *text, size_t len, tok_text_fn rest)
{
	size_t from = 0, i = 0; /* what is before `from` is dealt with; matches are looked for at i */
	while (r->count > 0 && i < len) {
		uint32_t index = 0;
		size_t n = r->first[(uint8_t)text[i]] ? longest(r, text + i, len - i, &index) : 0;
		if (n == 0) {
			i++;
			continue;
		}
		const tok_added *a = &c->t->added[index];
		size_t start = i, end = i + n;
		bool inside = false;
		if (a->special && c->mark_count > 0) {
			if (tok_marked(c, text + start)) {
				i = start + 1; /* what begins inside it may not be the same one's text */
				continue;
			}
		} else if (a->special && (c->flags & TOK_PLAIN_SPECIAL)) {
			i = end;
			continue;
		}
		i = end;
		if (a->single_word) TRY(in_word(c, text, len, start, end, &inside));
		if (inside) continue;
		if (a->lstrip) start = spaces_before(text, start); /* may be before `from`: then nothing is left in between */
		if (a->rstrip) end = spaces_after(text, len, end);
		if (from < start) TRY(rest(c, text + from, start - from));
		TRY(tok_emit(c, a->id));
		from = end;
	}
	return from < len ? rest(c, text + from, len - from) : NH_OK;
}

static tok_reads reads(const tokenizer *t, const tok_trie *r, const char *text, size_t len)
{
	uint32_t node = 0;
	if (r->count == 0 || len == 0 || !r->first[(uint8_t)text[0]]) return TOK_READS_PLAIN;
	for (size_t i = 0; i < len; i++) {
		if ((node = tok_map_get(&r->edges, edge(node, text[i]))) == TOK_NONE) return TOK_READS_PLAIN;
		if (r->ends[node] != 0 && t->added[r->ends[node] - 1].special) return TOK_READS_SPECIAL;
	}
	if (r->ends[node] == 0) return TOK_READS_PART;
	for (int byte = 0; byte < 256; byte++) /* the whole of another token: is it the beginning of a longer one? */
		if (tok_map_get(&r->edges, edge(node, (char)byte)) != TOK_NONE) return TOK_READS_PART;
	return TOK_READS_PLAIN;
}

tok_reads tok_reads_special(const tokenizer *t, const char *text, size_t len)
{
	tok_reads raw = reads(t, &t->raw_trie, text, len), norm = reads(t, &t->norm_trie, text, len);
	return raw > norm ? raw : norm;
}
