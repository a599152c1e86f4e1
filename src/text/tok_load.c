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

static bool same_piece(const void *owner, uint32_t id, const void *bytes, size_t len, uint8_t flags)
{
	const tokenizer *t = owner;
	const tok_slot *s = &t->slots[id];
	return s->len == len && ((s->flags ^ flags) & TOK_RAW) == 0 && memcmp(t->blob.data + s->at, bytes, len) == 0;
}

uint32_t tok_piece_id(const tokenizer *t, const char *bytes, size_t len, bool raw)
{
	return tok_index_get(&t->index, tok_hash(bytes, len), same_piece, t, bytes, len, raw ? TOK_RAW : 0);
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

static nh_status load_vocab(tokenizer *t, tok_span span, nh_error *e)
{
	tok_reader r = {span.at, span.at + span.len, span.at, t->name, "model.vocab", e};
	buf scratch = {0};
	nh_status s;
	TRY_GOTO(s, tok_read_char(&r, '{'), out);
	while (!tok_read_is(&r, '}')) {
		tok_span key;
		int64_t id;
		bool raw;
		if (t->vocab > 0) TRY_GOTO(s, tok_read_char(&r, ','), out);
		TRY_GOTO(s, tok_read_string(&r, &scratch, &key), out);
		TRY_GOTO(s, tok_read_char(&r, ':'), out);
		TRY_GOTO(s, tok_read_id(&r, TOK_MAX_IDS - 1, key, &id), out);
		size_t at = t->blob.len;
		tok_append_decoded(&t->blob, key.at, key.len, &raw);
		TRY_GOTO(s, tok_slot_set(t, id, at, raw ? TOK_RAW : 0, e), out);
		const char *bytes = t->blob.data + at;
		size_t len = t->blob.len - at;
		uint32_t other = tok_piece_id(t, bytes, len, raw);
		if (other != TOK_NONE) {
			s = ERR(e, NH_ERR_CONFIG, "%s: model.vocab: \"%.*s\": given twice, ids %u and %lld", t->name, key.len > 40 ? 40 : (int)key.len,
			    key.at, other, (long long)id);
			goto out;
		}
		if (!tok_index_add(&t->index, tok_hash(bytes, len), (uint32_t)id)) {
			s = ERR_NOMEM(e);
			goto out;
		}
	}
	TRY_GOTO(s, tok_read_char(&r, '}'), out);
	TRY_GOTO(s, tok_read_end(&r), out);
	if (t->vocab == 0) s = ERR(e, NH_ERR_CONFIG, "%s: model.vocab: is empty", t->name);
out:
	buf_deinit(&scratch);
	return s;
}

/* The buffers of load_merges: the two sides as the document spells them and decoded. */
typedef struct merge_scratch {
	buf text[2], bytes[2];
	tok_span side[2];
	uint32_t id[2];
	bool raw[2];
} merge_scratch;

/* Reads one merge, ["a", "b"] or "a b", into m->side. */
static nh_status read_merge(tok_reader *r, merge_scratch *m, size_t n)
{
	if (tok_read_is(r, '[')) {
		TRY(tok_read_char(r, '['));
		TRY(tok_read_string(r, &m->text[0], &m->side[0]));
		TRY(tok_read_char(r, ','));
		TRY(tok_read_string(r, &m->text[1], &m->side[1]));
		return tok_read_char(r, ']');
	}
	TRY(tok_read_string(r, &m->text[0], &m->side[0]));
	tok_span whole = m->side[0];
	const char *space = memchr(whole.at, ' ', whole.len);
	if (!space || memchr(space + 1, ' ', whole.len - (size_t)(space + 1 - whole.at)))
		return ERR(r->e, NH_ERR_CONFIG, "%s: %s[%zu]: is \"%.*s\", expected two tokens with one space between", r->name, r->what, n,
		    whole.len > 40 ? 40 : (int)whole.len, whole.at);
	m->side[0].len = (size_t)(space - whole.at);
	m->side[1] = (tok_span){space + 1, whole.len - m->side[0].len - 1};
	return NH_OK;
}

static nh_status unknown_part(const tokenizer *t, size_t n, tok_span part, nh_error *e)
{
	return ERR(
	    e, NH_ERR_CONFIG, "%s: model.merges[%zu]: \"%.*s\" is not in model.vocab", t->name, n, part.len > 80 ? 80 : (int)part.len, part.at);
}

/* The id of what m's two sides give together. */
static nh_status merged_id(const tokenizer *t, merge_scratch *m, size_t n, uint32_t *id, nh_error *e)
{
	bool raw = m->raw[0] || m->raw[1];
	if (raw) {
		m->bytes[0].len = 0;
		buf_append(&m->bytes[0], m->side[0].at, m->side[0].len);
		buf_append(&m->bytes[0], m->side[1].at, m->side[1].len);
	} else buf_append(&m->bytes[0], m->bytes[1].data, m->bytes[1].len);
	if (m->bytes[0].failed) return ERR_NOMEM(e);
	*id = tok_piece_id(t, m->bytes[0].data, m->bytes[0].len, raw);
	if (*id != TOK_NONE) return NH_OK;
	buf shown = {0};
	buf_append(&shown, m->side[0].at, m->side[0].len);
	buf_append(&shown, m->side[1].at, m->side[1].len);
	nh_status s = shown.failed ? ERR_NOMEM(e) : unknown_part(t, n, (tok_span){shown.data, shown.len}, e);
	buf_deinit(&shown);
	return s;
}

static nh_status add_merge(tokenizer *t, merge_scratch *m, size_t n, size_t *cap, nh_error *e)
{
	for (int i = 0; i < 2; i++) {
		m->bytes[i].len = 0;
		if (m->side[i].len == 0) return unknown_part(t, n, m->side[i], e);
		tok_append_decoded(&m->bytes[i], m->side[i].at, m->side[i].len, &m->raw[i]);
		if (m->bytes[i].failed) return ERR_NOMEM(e);
		m->id[i] = tok_piece_id(t, m->bytes[i].data, m->bytes[i].len, m->raw[i]);
		if (m->id[i] == TOK_NONE) return unknown_part(t, n, m->side[i], e);
	}
	uint32_t id;
	TRY(merged_id(t, m, n, &id, e));
	if (n >= *cap) {
		size_t more = *cap ? *cap * 2 : 1024;
		tok_merge *grown = mem_resize(t->merge_list, more, sizeof *grown);
		if (!grown) return ERR_NOMEM(e);
		t->merge_list = grown;
		*cap = more;
	}
	t->merge_list[n] = (tok_merge){(uint32_t)n, id};
	/* of two equal merges the later one counts, as in the reference */
	return tok_map_set(&t->merges, (uint64_t)m->id[0] << 32 | m->id[1], (uint32_t)n) ? NH_OK : ERR_NOMEM(e);
}

static nh_status load_merges(tokenizer *t, tok_span span, nh_error *e)
{
	tok_reader r = {span.at, span.at + span.len, span.at, t->name, "model.merges", e};
	merge_scratch m = {0};
	size_t n = 0, cap = 0;
	nh_status s;
	TRY_GOTO(s, tok_read_char(&r, '['), out);
	for (; !tok_read_is(&r, ']'); n++) {
		if (n > 0) TRY_GOTO(s, tok_read_char(&r, ','), out);
		TRY_GOTO(s, read_merge(&r, &m, n), out);
		TRY_GOTO(s, add_merge(t, &m, n, &cap, e), out);
	}
	TRY_GOTO(s, tok_read_char(&r, ']'), out);
	s = tok_read_end(&r);
out:
	for (int i = 0; i < 2; i++) {
		buf_deinit(&m.text[i]);
		buf_deinit(&m.bytes[i]);
	}
	return s;
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

static nh_status load_model(tokenizer *t, const json_t *model, tok_span vocab, tok_span merges, nh_error *e)
{
	const char *unk;
	if (!json_is_object(model)) return ERR(e, NH_ERR_CONFIG, "%s: model: absent or not an object", t->name);
	TRY(load_options(t, model, &unk, e));
	if (!vocab.at) return ERR(e, NH_ERR_CONFIG, "%s: model.vocab: absent or not an object", t->name);
	if (!merges.at) return ERR(e, NH_ERR_CONFIG, "%s: model.merges: absent or not an array", t->name);
	TRY(load_vocab(t, vocab, e));
	TRY(load_merges(t, merges, e));
	for (int i = 0; i < 256; i++) {
		char byte = (char)i;
		uint32_t id = tok_piece_id(t, &byte, 1, false);
		t->byte_id[i] = id == TOK_NONE ? -1 : (int32_t)id;
	}
	return load_unk(t, unk, e);
}

nh_status tok_load(tokenizer *t, const char *json, size_t len, nh_error *e)
{
	static const char *const KEYS[] = {
	    "version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder", "model", NULL};
	buf rest = {0};
	tok_span vocab, merges;
	json_t *doc = NULL;
	const char *version;
	if (len > JSON_LIMIT_LARGE)
		return ERR(e, NH_ERR_LIMIT, "%s: is %zu bytes, at most %zu are read", t->name, len, (size_t)JSON_LIMIT_LARGE);
	tok_json_cut(json, len, &rest, &vocab, &merges);
	nh_status s = rest.failed ? ERR_NOMEM(e) : jsn_load_text(&doc, rest.data ? rest.data : "", rest.len, t->name, e);
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
	TRY_GOTO(s, load_model(t, json_object_get(doc, "model"), vocab, merges, e), out);
	TRY_GOTO(s, tok_load_normalizer(t, json_object_get(doc, "normalizer"), e), out);
	TRY_GOTO(s, tok_load_splits(t, json_object_get(doc, "pre_tokenizer"), e), out);
	TRY_GOTO(s, tok_load_added(t, json_object_get(doc, "added_tokens"), e), out);
	TRY_GOTO(s, tok_load_post(t, json_object_get(doc, "post_processor"), e), out);
	s = tok_load_decoder(t, json_object_get(doc, "decoder"), e);
out:
	json_decref(doc);
	buf_deinit(&rest);
	return s;
}
