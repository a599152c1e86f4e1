/* SPDX-License-Identifier: Apache-2.0
 * tok_load.c: from a tokenizer.json to the tables: the document's top level, the vocabulary and the merges. The other members are read by
 * tok_load_parts.c. Refuses whatever it does not understand. First to break: each id has one token and each text one id.
 */
#include <stdio.h>
#include <string.h>

#include "base/base_json.h"
#include "base/base_mem.h"
#include "text/tok_impl.h"
#include "text/tok_json.h"

nh_status tok_only_keys(const tokenizer *t, const json_t *o, const char *where, const char *const *keys, nh_error *e)
{
	const char *key;
	json_t *v;
	json_object_foreach((json_t *)o, key, v)
	{
		bool known = json_is_null(v);
		for (size_t i = 0; keys[i] && !known; i++) known = strcmp(keys[i], key) == 0;
		if (!known) return ERR(e, NH_ERR_UNSUPPORTED, "%s: %s%s%.60s: not understood", t->name, where, *where ? "." : "", key);
	}
	return NH_OK;
}

void tok_append_decoded(buf *b, const char *text, size_t len, bool *raw)
{
	size_t at = b->len, used;
	buf_append(b, text, len);
	*raw = false;
	if (b->failed) return;
	char *to = b->data + at;
	for (size_t i = 0; i < len; i += used) {
		int byte = (uint8_t)text[i];
		used = 1;
		if (byte <= 32 || byte >= 127) byte = uni_char_byte(uni_decode(text + i, len - i, &used));
		if (byte < 0) {
			memcpy(b->data + at, text, len);
			*raw = true;
			return;
		}
		*to++ = (char)byte;
	}
	b->len = (size_t)(to - b->data);
	*to = 0;
}

uint32_t tok_piece_id(const tokenizer *t, const char *bytes, size_t len, bool raw)
{
	return tok_pieces_get(&t->pieces, t->blob.data, bytes, len, raw);
}

static nh_status slots_grow(tokenizer *t, size_t need, nh_error *e)
{
	if (need <= t->slots_cap) return NH_OK;
	size_t cap = t->slots_cap * 2 > need ? t->slots_cap * 2 : need;
	tok_slot *grown = mem_resize(t->slots, cap, sizeof *grown);
	if (!grown) return ERR_NOMEM(e);
	memset(grown + t->slots_cap, 0, (cap - t->slots_cap) * sizeof *grown);
	t->slots = grown;
	t->slots_cap = cap;
	return NH_OK;
}

nh_status tok_slot_set(tokenizer *t, int64_t id, size_t at, uint8_t flags, nh_error *e)
{
	size_t len = t->blob.len - at;
	if (t->blob.failed) return ERR_NOMEM(e);
	TRY(slots_grow(t, (size_t)id + 1, e));
	tok_slot *s = &t->slots[id];
	if (s->flags & TOK_PRESENT)
		return ERR(e, NH_ERR_CONFIG, "%s: id %lld: given to \"%.*s\" and to \"%.*s\"", t->name, (long long)id,
		    s->len > 40 ? 40 : (int)s->len, t->blob.data + s->at, len > 40 ? 40 : (int)len, t->blob.data + at);
	*s = (tok_slot){.at = (uint32_t)at, .len = (uint32_t)len, .flags = flags | TOK_PRESENT};
	if ((size_t)id >= t->vocab) t->vocab = (size_t)id + 1;
	return NH_OK;
}

/* A piece as the document spells it and decoded. */
typedef struct piece {
	tok_span text, bytes; /* borrow: the document or the buffers here; valid until the next is read into this one */
	bool raw;
	char small[64];
	buf scratch, decoded; /* own */
} piece;

static void piece_deinit(piece *p)
{
	buf_deinit(&p->scratch);
	buf_deinit(&p->decoded);
}

static nh_status decode_piece(piece *p, nh_error *e)
{
	p->decoded.len = 0;
	tok_append_decoded(&p->decoded, p->text.at, p->text.len, &p->raw);
	p->bytes = (tok_span){p->decoded.data ? p->decoded.data : "", p->decoded.len};
	return p->decoded.failed ? ERR_NOMEM(e) : NH_OK;
}

/* The usual piece in one pass: few bytes, no escapes, all of the byte alphabet. False: nothing is consumed. */
static bool read_usual(tok_reader *r, piece *p)
{
	const char *s, *from;
	size_t n = 0;
	if (!tok_read_is(r, '"')) return false;
	for (s = from = r->p + 1; r->end - s >= 2 && n < sizeof p->small; s++) {
		uint32_t b = (uint8_t)*s;
		if (b == '"') {
			p->text = (tok_span){from, (size_t)(s - from)};
			p->bytes = (tok_span){p->small, n};
			p->raw = false;
			r->p = s + 1;
			return true;
		}
		int byte = (int)b;
		if (b >= 0xC2 && b <= 0xC5 && ((uint8_t)s[1] & 0xC0) == 0x80) byte = uni_char_byte((b & 0x1F) << 6 | ((uint8_t) * ++s & 0x3F));
		else if (b <= 32 || b >= 127 || b == '\\') return false;
		if (byte < 0) return false;
		p->small[n++] = (char)byte;
	}
	return false;
}

static nh_status read_piece(tok_reader *r, piece *p)
{
	if (read_usual(r, p)) return NH_OK;
	TRY(tok_read_string(r, &p->scratch, &p->text));
	return decode_piece(p, r->e);
}

static nh_status add_piece(tokenizer *t, const piece *p, int64_t id, nh_error *e)
{
	size_t at = t->blob.len;
	uint32_t other;
	if (p->bytes.len > TOK_MAX_PIECE_BYTES)
		return ERR(e, NH_ERR_LIMIT, "%s: model.vocab: \"%.40s...\": has %zu bytes, at most %u are taken", t->name, p->text.at, p->bytes.len,
		    TOK_MAX_PIECE_BYTES);
	buf_append(&t->blob, p->bytes.at, p->bytes.len);
	TRY(tok_slot_set(t, id, at, p->raw ? TOK_RAW : 0, e));
	if (!tok_pieces_add(&t->pieces, t->blob.data, (uint32_t)at, p->bytes.len, p->raw, (uint32_t)id, &other)) return ERR_NOMEM(e);
	if (other == TOK_NONE) return NH_OK;
	return ERR(e, NH_ERR_CONFIG, "%s: model.vocab: \"%.*s\": given twice, ids %u and %lld", t->name,
	    p->text.len > 40 ? 40 : (int)p->text.len, p->text.at, other, (long long)id);
}

/* Reads the object at `at`; *after is what follows it. */
static nh_status load_vocab(tokenizer *t, const char *at, const char *end, const char **after, nh_error *e)
{
	tok_reader r = {at, end, at, t->name, "model.vocab", e};
	piece p = {0};
	nh_status s;
	TRY_GOTO(s, tok_read_char(&r, '{'), out);
	while (!tok_read_is(&r, '}')) {
		int64_t id;
		if (t->vocab > 0) TRY_GOTO(s, tok_read_char(&r, ','), out);
		TRY_GOTO(s, read_piece(&r, &p), out);
		TRY_GOTO(s, tok_read_char(&r, ':'), out);
		TRY_GOTO(s, tok_read_id(&r, TOK_MAX_IDS - 1, p.text, &id), out);
		TRY_GOTO(s, add_piece(t, &p, id, e), out);
	}
	s = tok_read_char(&r, '}');
	*after = r.p;
out:
	piece_deinit(&p);
	return s;
}

#define BATCH 16 /* merges looked up together, so that their waits for memory overlap */

typedef struct merge {
	piece side[2];
	tok_merge ids;
} merge;

/* Merges under way, and where what they give is looked for first. */
typedef struct merge_scratch {
	merge batch[BATCH];
	size_t count, first; /* in the batch; the number of its first */
	buf whole;           /* own */
	uint32_t last;       /* what the merge before gave: files list the merges in the order of what they give */
} merge_scratch;

/* Reads one merge, ["a", "b"] or "a b", into m->side. */
static nh_status read_merge(tok_reader *r, merge *m, size_t n)
{
	piece *a = &m->side[0], *b = &m->side[1];
	if (tok_read_is(r, '[')) {
		TRY(tok_read_char(r, '['));
		TRY(read_piece(r, a));
		TRY(tok_read_char(r, ','));
		TRY(read_piece(r, b));
		return tok_read_char(r, ']');
	}
	TRY(tok_read_string(r, &a->scratch, &a->text));
	tok_span whole = a->text;
	const char *space = memchr(whole.at, ' ', whole.len);
	if (!space || memchr(space + 1, ' ', whole.len - (size_t)(space + 1 - whole.at)))
		return ERR(r->e, NH_ERR_CONFIG, "%s: %s[%zu]: is \"%.*s\", expected two tokens with one space between", r->name, r->what, n,
		    whole.len > 40 ? 40 : (int)whole.len, whole.at);
	a->text.len = (size_t)(space - whole.at);
	b->text = (tok_span){space + 1, whole.len - a->text.len - 1};
	TRY(decode_piece(a, r->e));
	return decode_piece(b, r->e);
}

static nh_status unknown_part(const tokenizer *t, size_t n, tok_span part, nh_error *e)
{
	return ERR(
	    e, NH_ERR_CONFIG, "%s: model.merges[%zu]: \"%.*s\" is not in model.vocab", t->name, n, part.len > 80 ? 80 : (int)part.len, part.at);
}

/* Is id the piece that the two sides, both of the byte alphabet, give together? */
static bool is_whole(const tokenizer *t, uint32_t id, tok_span a, tok_span b)
{
	if (id >= t->vocab) return false;
	const tok_slot *s = &t->slots[id];
	return s->flags == TOK_PRESENT && s->len == a.len + b.len && memcmp(t->blob.data + s->at, a.at, a.len) == 0 &&
	       memcmp(t->blob.data + s->at + a.len, b.at, b.len) == 0;
}

/* The id of what the two sides of merge n give together. */
static nh_status merged_id(const tokenizer *t, merge_scratch *m, const merge *g, size_t n, uint32_t *id, nh_error *e)
{
	const piece *a = &g->side[0], *b = &g->side[1];
	bool raw = a->raw || b->raw;
	for (uint32_t i = 0; i < 2 && !raw; i++) /* most tokens have several merges, one after another */
		if (is_whole(t, *id = m->last + i, a->bytes, b->bytes)) return NH_OK;
	m->whole.len = 0;
	buf_append(&m->whole, raw ? a->text.at : a->bytes.at, raw ? a->text.len : a->bytes.len);
	buf_append(&m->whole, raw ? b->text.at : b->bytes.at, raw ? b->text.len : b->bytes.len);
	if (m->whole.failed) return ERR_NOMEM(e);
	*id = tok_piece_id(t, m->whole.data, m->whole.len, raw);
	if (*id != TOK_NONE) return NH_OK;
	m->whole.len = 0;
	buf_append(&m->whole, a->text.at, a->text.len);
	buf_append(&m->whole, b->text.at, b->text.len);
	return m->whole.failed ? ERR_NOMEM(e) : unknown_part(t, n, (tok_span){m->whole.data, m->whole.len}, e);
}

/* The ids of the merge g, which is number n. */
static nh_status resolve_merge(const tokenizer *t, merge_scratch *m, merge *g, size_t n, nh_error *e)
{
	uint32_t ids[2];
	for (int i = 0; i < 2; i++) {
		const piece *p = &g->side[i];
		ids[i] = p->text.len > 0 ? tok_piece_id(t, p->bytes.at, p->bytes.len, p->raw) : TOK_NONE;
		if (ids[i] == TOK_NONE) return unknown_part(t, n, p->text, e);
	}
	tok_merges_expect(&t->merges, ids[0], ids[1]);
	TRY(merged_id(t, m, g, n, &m->last, e));
	g->ids = (tok_merge){ids[0], ids[1], m->last};
	return NH_OK;
}

static int single_byte(const piece *p) { return p->bytes.len == 1 && !p->raw ? (uint8_t)p->bytes.at[0] : -1; }

/* Enters the batch and empties it. */
static nh_status add_batch(tokenizer *t, merge_scratch *m, nh_error *e)
{
	for (size_t i = 0; i < m->count; i++) TRY(resolve_merge(t, m, &m->batch[i], m->first + i, e));
	for (size_t i = 0; i < m->count; i++) {
		const merge *g = &m->batch[i];
		if (!tok_merges_add(&t->merges, g->ids, single_byte(&g->side[0]), single_byte(&g->side[1]))) return ERR_NOMEM(e);
	}
	m->first += m->count;
	m->count = 0;
	return NH_OK;
}

/* Fills the batch, as far as the array goes. */
static nh_status read_batch(const tokenizer *t, merge_scratch *m, tok_reader *r)
{
	for (; m->count < BATCH && !tok_read_is(r, ']'); m->count++) {
		merge *g = &m->batch[m->count];
		size_t n = m->first + m->count;
		if (n > 0) TRY(tok_read_char(r, ','));
		TRY(read_merge(r, g, n));
		for (int i = 0; i < 2; i++) tok_pieces_expect(&t->pieces, g->side[i].bytes.at, g->side[i].bytes.len, g->side[i].raw);
	}
	return NH_OK;
}

/* Reads the array at `at`; *after is what follows it. */
static nh_status load_merges(tokenizer *t, const char *at, const char *end, const char **after, nh_error *e)
{
	tok_reader r = {at, end, at, t->name, "model.merges", e};
	/* there are about as many merges as pieces, or twice as many; but a document of few bytes gets no big table */
	size_t most = (size_t)(end - at) / 6;
	merge_scratch *m = mem_alloc(sizeof *m);
	nh_status s = NH_OK;
	if (!m || !tok_merges_init(&t->merges, t->vocab < most ? t->vocab : most)) {
		mem_free(m);
		return ERR_NOMEM(e);
	}
	TRY_GOTO(s, tok_read_char(&r, '['), out);
	while (s == NH_OK && !tok_read_is(&r, ']')) {
		s = read_batch(t, m, &r);
		nh_status added = add_batch(t, m, e); /* mistakes before the one that stopped the reader are told first */
		if (added != NH_OK) s = added;
	}
	if (s == NH_OK) s = tok_read_char(&r, ']');
	*after = r.p;
out:
	for (size_t i = 0; i < BATCH; i++) {
		piece_deinit(&m->batch[i].side[0]);
		piece_deinit(&m->batch[i].side[1]);
	}
	buf_deinit(&m->whole);
	mem_free(m);
	return s;
}

/* A document under way: what was read where it stands. */
typedef struct loader {
	tokenizer *t;
	nh_error *e;
	bool vocab, merges; /* read */
	nh_status s;        /* out of memory on the way */
} loader;

static void forget_vocab(tokenizer *t)
{
	tok_pieces_deinit(&t->pieces);
	if (t->slots) memset(t->slots, 0, t->slots_cap * sizeof *t->slots);
	t->vocab = 0;
	t->blob.len = 1;
}

/* Reads a big member on the way. One that has mistakes is put off: those of the document around it are told first. */
static const char *take(void *user, bool is_vocab, const char *at, const char *end)
{
	loader *l = user;
	const char *after = NULL;
	if (l->s != NH_OK || (!is_vocab && !l->vocab)) return NULL;
	nh_status s = (is_vocab ? load_vocab : load_merges)(l->t, at, end, &after, l->e);
	if (s == NH_OK) *(is_vocab ? &l->vocab : &l->merges) = true;
	else if (s == NH_ERR_NOMEM) l->s = s;
	else if (is_vocab) forget_vocab(l->t);
	else tok_merges_deinit(&l->t->merges);
	return s == NH_OK ? after : NULL;
}

/* Bytes that the vocabulary lacks become the unknown token, where there is one. It need not be a piece while no byte is lacking. */
static nh_status load_unk(tokenizer *t, const char *text, nh_error *e)
{
	bool raw, lacking = false;
	buf bytes = {0};
	t->unk = -1;
	if (!text) return NH_OK;
	for (int i = 0; i < 256; i++) lacking |= t->byte_id[i] < 0;
	buf_char(&bytes, 0); /* never empty */
	tok_append_decoded(&bytes, text, strlen(text), &raw);
	uint32_t id = bytes.failed ? TOK_NONE : tok_piece_id(t, bytes.data + 1, bytes.len - 1, raw);
	nh_status s = bytes.failed ? ERR_NOMEM(e) : NH_OK;
	buf_deinit(&bytes);
	if (s == NH_OK && id == TOK_NONE && lacking)
		s = ERR(e, NH_ERR_CONFIG, "%s: model.unk_token: \"%.40s\" is not in model.vocab", t->name, text);
	if (id != TOK_NONE) t->unk = (int32_t)id;
	return s;
}

/* The model's small members; *unk is borrowed from it. */
static nh_status load_options(tokenizer *t, const json_t *model, const char **unk, nh_error *e)
{
	static const char *const KEYS[] = {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
	    "byte_fallback", "ignore_merges", "vocab", "merges", NULL};
	static const char *const EMPTY[] = {"continuing_subword_prefix", "end_of_word_suffix"};
	char where[512];
	const char *type, *text;
	double dropout;
	bool fallback;
	snprintf(where, sizeof where, "%s: model", t->name);
	TRY(jsn_get_string(model, where, "type", "BPE", &type, e));
	if (strcmp(type, "BPE") != 0) return ERR(e, NH_ERR_UNSUPPORTED, "%s.type: is \"%.40s\", expected \"BPE\"", where, type);
	TRY(tok_only_keys(t, model, "model", KEYS, e));
	TRY(jsn_get_real(model, where, "dropout", 0, &dropout, e));
	if (dropout != 0) return ERR(e, NH_ERR_UNSUPPORTED, "%s.dropout: is %g, expected null", where, dropout);
	for (size_t i = 0; i < ARRAY_LEN(EMPTY); i++) {
		TRY(jsn_get_string(model, where, EMPTY[i], "", &text, e));
		if (*text) return ERR(e, NH_ERR_UNSUPPORTED, "%s.%s: is \"%.40s\", expected null", where, EMPTY[i], text);
	}
	TRY(jsn_get_bool(model, where, "byte_fallback", false, &fallback, e));
	if (fallback) return ERR(e, NH_ERR_UNSUPPORTED, "%s.byte_fallback: is true, expected false", where);
	TRY(jsn_get_bool(model, where, "ignore_merges", false, &t->ignore_merges, e));
	TRY(jsn_get_bool(model, where, "fuse_unk", false, &t->fuse_unk, e));
	return jsn_get_string(model, where, "unk_token", NULL, unk, e);
}

static nh_status load_model(loader *l, const json_t *model, tok_span vocab, tok_span merges, nh_error *e)
{
	tokenizer *t = l->t;
	const char *unk, *after;
	if (!json_is_object(model)) return ERR(e, NH_ERR_CONFIG, "%s: model: absent or not an object", t->name);
	TRY(load_options(t, model, &unk, e));
	if (!vocab.at) return ERR(e, NH_ERR_CONFIG, "%s: model.vocab: absent or not an object", t->name);
	if (!merges.at) return ERR(e, NH_ERR_CONFIG, "%s: model.merges: absent or not an array", t->name);
	if (!l->vocab) TRY(load_vocab(t, vocab.at, vocab.at + vocab.len, &after, e));
	if (t->vocab == 0) return ERR(e, NH_ERR_CONFIG, "%s: model.vocab: is empty", t->name);
	if (!l->merges) TRY(load_merges(t, merges.at, merges.at + merges.len, &after, e));
	for (int i = 0; i < 256; i++) {
		char byte = (char)i;
		uint32_t id = tok_piece_id(t, &byte, 1, false);
		t->byte_id[i] = id == TOK_NONE ? -1 : (int32_t)id;
		t->lacks_bytes |= id == TOK_NONE;
	}
	return load_unk(t, unk, e);
}

/* The document without its two big members, which are read on the way. */
static nh_status read_document(loader *l, const char *json, size_t len, json_t **doc, tok_span *vocab, tok_span *merges)
{
	nh_status s = NH_OK;
	for (int lines = 0; lines < 2; lines++) { /* again where the error needs the number of its line */
		buf rest = {0};
		tok_json_cut(json, len, lines, lines ? NULL : take, l, &rest, vocab, merges);
		s = l->s != NH_OK ? l->s
		    : rest.failed ? ERR_NOMEM(l->e)
		                  : jsn_load_text(doc, rest.data ? rest.data : "", rest.len, l->t->name, l->e);
		buf_deinit(&rest);
		if (s == NH_OK || s == NH_ERR_NOMEM) break;
	}
	return s;
}

nh_status tok_load(tokenizer *t, const char *json, size_t len, nh_error *e)
{
	static const char *const KEYS[] = {
	    "version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder", "model", NULL};
	loader l = {.t = t, .e = e};
	tok_span vocab, merges;
	json_t *doc = NULL;
	const char *version;
	if (len > JSON_LIMIT_LARGE)
		return ERR(e, NH_ERR_LIMIT, "%s: is %zu bytes, at most %zu are read", t->name, len, (size_t)JSON_LIMIT_LARGE);
	nh_status s = read_document(&l, json, len, &doc, &vocab, &merges);
	if (s != NH_OK) goto out;
	if (!json_is_object(doc)) {
		s = ERR(e, NH_ERR_CONFIG, "%s: is not a JSON object", t->name);
		goto out;
	}
	TRY_GOTO(s, tok_only_keys(t, doc, "", KEYS, e), out);
	TRY_GOTO(s, jsn_get_string(doc, t->name, "version", "1.0", &version, e), out);
	if (strcmp(version, "1.0") != 0) {
		s = ERR(e, NH_ERR_UNSUPPORTED, "%s: version: is \"%.40s\", expected \"1.0\"", t->name, version);
		goto out;
	}
	TRY_GOTO(s, load_model(&l, json_object_get(doc, "model"), vocab, merges, e), out);
	TRY_GOTO(s, tok_load_normalizer(t, json_object_get(doc, "normalizer"), e), out);
	TRY_GOTO(s, tok_load_splits(t, json_object_get(doc, "pre_tokenizer"), e), out);
	TRY_GOTO(s, tok_load_added(t, json_object_get(doc, "added_tokens"), e), out);
	TRY_GOTO(s, tok_load_post(t, json_object_get(doc, "post_processor"), e), out);
	s = tok_load_decoder(t, json_object_get(doc, "decoder"), e);
	for (size_t i = 0; i < t->merges.count; i++) t->merges_to_special |= (t->slots[t->merges.list[i].id].flags & TOK_IS_SPECIAL) != 0;
out:
	json_decref(doc);
	return s;
}
