/* SPDX-License-Identifier: Apache-2.0
 * tok.c: opening, closing and asking a tokenizer, and the path of a text through it: repair, added tokens, normal form, added tokens of the
 * normal form, pieces, words. Each part is a file of its own.
 */
#include "text/tok.h"

#include <string.h>

#include "base/base_file.h"
#include "base/base_mem.h"
#include "text/tok_impl.h"

#define TEXT_LIMIT ((size_t)1 << 30)

nh_status tok_open_text(tokenizer **out, const char *json, size_t len, const char *name, nh_error *e)
{
	*out = NULL;
	tokenizer *t = mem_alloc(sizeof *t);
	if (!t) return ERR_NOMEM(e);
	t->name = mem_strdup(name);
	buf_char(&t->blob, 0); /* so that its data is never NULL */
	nh_status s = t->name && !t->blob.failed && tok_regex_setup(t) ? tok_load(t, json, len, e) : ERR_NOMEM(e);
	if (s != NH_OK) {
		tok_close(t);
		return s;
	}
	*out = t;
	return NH_OK;
}

nh_status tok_open(tokenizer **out, const char *path, nh_error *e)
{
	file_map m = {0};
	*out = NULL;
	TRY(file_map_open(&m, path, e));
	nh_status s = tok_open_text(out, (const char *)m.data, m.size, path, e);
	file_map_close(&m);
	return s;
}

void tok_close(tokenizer *t)
{
	if (!t) return;
	mem_free(t->name);
	buf_deinit(&t->blob);
	mem_free(t->slots);
	tok_pieces_deinit(&t->pieces);
	tok_merges_deinit(&t->merges);
	tok_index_deinit(&t->added_index);
	mem_free(t->added);
	tok_trie_deinit(&t->raw_trie);
	tok_trie_deinit(&t->norm_trie);
	tok_regex_deinit(&t->word);
	for (size_t i = 0; i < t->step_count; i++) {
		tok_regex_deinit(&t->steps[i].regex);
		mem_free(t->steps[i].literal);
	}
	mem_free(t->before);
	mem_free(t->after);
	pcre2_general_context_free(t->general);
	mem_free(t);
}

void tok_ids_deinit(tok_ids *v)
{
	mem_free(v->ids);
	*v = (tok_ids){0};
}

nh_status tok_grow(tok_call *c, size_t count)
{
	tok_ids *v = c->out;
	size_t cap = v->cap < 32 ? 64 : v->cap * 2;
	if (cap < v->count + count) cap = v->count + count;
	int32_t *grown = mem_resize(v->ids, cap, sizeof *grown);
	if (!grown) return ERR_NOMEM(c->e);
	v->ids = grown;
	v->cap = cap;
	return NH_OK;
}

static nh_status words(tok_call *c, const char *text, size_t len) { return tok_split(c, text, len, tok_word); }

/* ---- marks ---- */

/* The number of marks before an offset. */
static size_t marks_before(const tok_call *c, size_t offset)
{
	size_t lo = 0, hi = c->mark_count;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (c->marks[mid] < offset) lo = mid + 1;
		else hi = mid;
	}
	return lo;
}

bool tok_marked(const tok_call *c, const char *at)
{
	uintptr_t here = (uintptr_t)at, whole = (uintptr_t)c->whole;
	if (here < whole || here - whole >= c->text_len) return c->near_mark;
	size_t i = marks_before(c, here - whole);
	return i < c->mark_count && c->marks[i] == here - whole;
}

/* Takes the marks out of the text. */
static nh_status take_marks(tok_call *c, buf *clean, const char *text, size_t len)
{
	for (size_t i = 0; i < len;) {
		const char *next = memchr(text + i, TOK_MARK, len - i);
		size_t n = next ? (size_t)(next - text) - i : len - i;
		buf_append(clean, text + i, n);
		i += n + 1;
		if (!next) break;
		if (c->mark_count == c->mark_cap) {
			size_t cap = c->mark_cap ? c->mark_cap * 2 : 16;
			size_t *grown = mem_resize(c->marks, cap, sizeof *grown);
			if (!grown) return ERR_NOMEM(c->e);
			c->marks = grown;
			c->mark_cap = cap;
		}
		c->marks[c->mark_count++] = clean->len;
	}
	if (clean->failed) return ERR_NOMEM(c->e);
	if (uni_valid_prefix(clean->data ? clean->data : "", clean->len) != clean->len)
		return ERR(c->e, NH_ERR_ARG, "%s: the marked text is not UTF-8", c->t->name);
	if (c->mark_count > 0) c->flags |= TOK_PLAIN_SPECIAL; /* of words: no merge gives a special token either */
	return NH_OK;
}

static nh_status stretch(tok_call *c, const char *text, size_t len)
{
	const tokenizer *t = c->t;
	if (c->mark_count > 0 && t->form_count > 0) {
		size_t at = (size_t)(text - c->whole);
		c->near_mark = marks_before(c, at) < marks_before(c, at + len);
	}
	TRY(tok_normalize(t, &c->normal, text, len, &text, &len, c->e));
	return c->flags & TOK_PLAIN_ADDED ? words(c, text, len) : tok_trie_cut(c, &t->norm_trie, text, len, words);
}

static nh_status encode(tok_call *c, const char *text, size_t len)
{
	const tokenizer *t = c->t;
	bool special = c->flags & TOK_ADD_SPECIAL;
	for (size_t i = 0; special && i < t->before_count; i++) TRY(tok_emit(c, t->before[i]));
	if (c->flags & TOK_PLAIN_ADDED) TRY(stretch(c, text, len));
	else TRY(tok_trie_cut(c, &t->raw_trie, text, len, stretch));
	for (size_t i = 0; special && i < t->after_count; i++) TRY(tok_emit(c, t->after[i]));
	return NH_OK;
}

nh_status tok_encode(const tokenizer *t, const char *text, size_t len, unsigned flags, tok_ids *out, nh_error *e)
{
	tok_call c;
	buf repaired = {0};
	size_t count = out->count;
	if (len > TEXT_LIMIT) return ERR(e, NH_ERR_LIMIT, "%s: text of %zu bytes, at most %zu are encoded at once", t->name, len, TEXT_LIMIT);
	if (flags & TOK_PLAIN_ADDED) flags |= TOK_PLAIN_SPECIAL;
	if ((flags & TOK_MARKED) && len > 0 && !memchr(text, TOK_MARK, len)) flags &= ~TOK_MARKED;
	nh_status s = tok_call_init(&c, t, flags, out, e);
	c.text_len = len;
	if (s == NH_OK && (flags & TOK_MARKED)) {
		bool plain = flags & TOK_PLAIN_SPECIAL;
		s = take_marks(&c, &repaired, text, len);
		text = c.whole = repaired.data ? repaired.data : "";
		len = c.text_len = repaired.len;
		if (plain) c.mark_count = 0; /* all of it is, marked or not */
	} else if (s == NH_OK && len > 0 && uni_valid_prefix(text, len) != len) {
		uni_repair(&repaired, text, len);
		if (repaired.failed) s = ERR_NOMEM(e);
		text = repaired.data;
		len = repaired.len;
	}
	if (s == NH_OK) s = encode(&c, text, len);
	if (s != NH_OK) out->count = count;
	tok_call_deinit(&c);
	buf_deinit(&repaired);
	return s;
}

static const tok_slot *slot_of(const tokenizer *t, int32_t id)
{
	return id >= 0 && (size_t)id < t->vocab && (t->slots[id].flags & TOK_PRESENT) ? &t->slots[id] : NULL;
}

size_t tok_vocab(const tokenizer *t) { return t->vocab; }

const char *tok_decoded(const tokenizer *t, int32_t id, size_t *len)
{
	const tok_slot *s = slot_of(t, id);
	*len = 0;
	if (!s) return NULL;
	const tok_added *a = s->flags & TOK_IS_ADDED ? &t->added[s->added] : NULL;
	*len = a ? a->decoded_len : s->len;
	return t->blob.data + (a ? a->decoded_at : s->at);
}

const char *tok_piece(const tokenizer *t, int32_t id, size_t *len)
{
	const tok_slot *s = slot_of(t, id);
	if (!s || !(s->flags & TOK_IS_ADDED)) return tok_decoded(t, id, len);
	*len = t->added[s->added].len;
	return t->blob.data + t->added[s->added].at;
}

int32_t tok_find(const tokenizer *t, const char *text, size_t len)
{
	uint32_t added = tok_added_find(t, text, len);
	if (added != TOK_NONE) return (int32_t)t->added[added].id;
	uint32_t id = tok_piece_id(t, text, len, false);
	if (id == TOK_NONE) id = tok_piece_id(t, text, len, true);
	return id == TOK_NONE ? -1 : (int32_t)id;
}

bool tok_is_special(const tokenizer *t, int32_t id)
{
	const tok_slot *s = slot_of(t, id);
	return s && (s->flags & TOK_IS_SPECIAL);
}

bool tok_is_added(const tokenizer *t, int32_t id)
{
	const tok_slot *s = slot_of(t, id);
	return s && (s->flags & TOK_IS_ADDED);
}
