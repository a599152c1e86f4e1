/* SPDX-License-Identifier: Apache-2.0
 * tok_load_parts.c: the members of a tokenizer.json around the model: added tokens, normalizer, pre_tokenizer, post_processor, decoder.
 * Sequences are flattened: the tokenizer knows only lists. Whatever has another type is refused by its path and type.
 */
#include <stdio.h>
#include <string.h>

#include "base/base_json.h"
#include "base/base_mem.h"
#include "text/tok_impl.h"

#define PATH_SIZE 192
#define TEMPLATE_LIMIT 1024 /* ids on one side of the text */
#define NEST_LIMIT 8        /* sequences within sequences */

static const char *type_of(const json_t *v) { return json_is_object(v) ? json_string_value(json_object_get(v, "type")) : NULL; }

static nh_status bad_type(const tokenizer *t, const json_t *v, const char *where, const char *expected, nh_error *e)
{
	char found[64];
	const char *type = type_of(v);
	jsn_brief(type ? json_object_get(v, "type") : v, found);
	return ERR(e, NH_ERR_UNSUPPORTED, "%s: %s%s: is %s, expected %s", t->name, where, type ? ".type" : "", found, expected);
}

/* Flattens {"type": "Sequence", `key`: [...]} and hands every leaf to `leaf`. */
typedef nh_status (*leaf_fn)(tokenizer *t, const json_t *v, const char *where, nh_error *e);

static nh_status each_leaf(tokenizer *t, const json_t *v, const char *where, const char *key, int depth, leaf_fn leaf, nh_error *e)
{
	const char *type = type_of(v);
	if (!type || strcmp(type, "Sequence") != 0) return leaf(t, v, where, e);
	const char *const keys[] = {"type", key, NULL};
	const json_t *list = json_object_get(v, key), *item;
	size_t i;
	TRY(tok_only_keys(t, v, where, keys, e));
	if (!json_is_array(list)) return ERR(e, NH_ERR_CONFIG, "%s: %s.%s: absent or not an array", t->name, where, key);
	if (depth >= NEST_LIMIT) return ERR(e, NH_ERR_LIMIT, "%s: %s: sequences nested deeper than %d", t->name, where, NEST_LIMIT);
	json_array_foreach(list, i, item)
	{
		char path[PATH_SIZE];
		snprintf(path, sizeof path, "%.120s.%s[%zu]", where, key, i);
		TRY(each_leaf(t, item, path, key, depth + 1, leaf, e));
	}
	return NH_OK;
}

static nh_status too_many(const tokenizer *t, const char *where, nh_error *e)
{
	return ERR(e, NH_ERR_LIMIT, "%s: %s: more than %d in all", t->name, where, TOK_MAX_STEPS);
}

/* ---- added tokens ---- */

static bool same_added(const void *owner, uint32_t i, const void *bytes, size_t len, uint8_t flags)
{
	const tokenizer *t = owner;
	(void)flags;
	return t->added[i].len == len && memcmp(t->blob.data + t->added[i].at, bytes, len) == 0;
}

uint32_t tok_added_find(const tokenizer *t, const char *text, size_t len)
{
	return tok_index_get(&t->added_index, tok_hash(text, len), same_added, t, text, len, 0);
}

static nh_status read_added(const tokenizer *t, const json_t *v, const char *where, tok_added *a, const char **text, nh_error *e)
{
	static const char *const KEYS[] = {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special", NULL};
	int64_t id;
	if (!json_is_object(v)) return ERR(e, NH_ERR_CONFIG, "%s: %s: is not an object", t->name, where);
	TRY(tok_only_keys(t, v, where, KEYS, e));
	nh_status s = jsn_get_string(v, where, "content", "", text, e);
	if (s == NH_OK) s = jsn_get_int(v, where, "id", -1, 0, TOK_MAX_IDS - 1, &id, e);
	if (s == NH_OK) s = jsn_get_bool(v, where, "special", false, &a->special, e);
	if (s == NH_OK) s = jsn_get_bool(v, where, "normalized", !a->special, &a->normalized, e);
	if (s == NH_OK) s = jsn_get_bool(v, where, "single_word", false, &a->single_word, e);
	if (s == NH_OK) s = jsn_get_bool(v, where, "lstrip", false, &a->lstrip, e);
	if (s == NH_OK) s = jsn_get_bool(v, where, "rstrip", false, &a->rstrip, e);
	if (s != NH_OK) return err_prefix(e, s, "%s", t->name);
	size_t len = json_string_length(json_object_get(v, "content"));
	if (id < 0) return ERR(e, NH_ERR_CONFIG, "%s: %s.id: absent", t->name, where);
	if (len == 0) return ERR(e, NH_ERR_CONFIG, "%s: %s.content: absent or empty", t->name, where);
	if (len > TOK_MAX_ADDED_BYTES)
		return ERR(e, NH_ERR_LIMIT, "%s: %s.content: is %zu bytes, at most %d are taken", t->name, where, len, TOK_MAX_ADDED_BYTES);
	a->id = (uint32_t)id;
	a->len = (uint32_t)len;
	return NH_OK;
}

/* Gives the token its id: the vocabulary's where it has the text, else a new one. */
static nh_status place_added(tokenizer *t, tok_added *a, const char *text, const char *where, nh_error *e)
{
	bool raw;
	a->at = (uint32_t)t->blob.len;
	buf_append(&t->blob, text, a->len);
	size_t at = t->blob.len;
	tok_append_decoded(&t->blob, text, a->len, &raw);
	if (t->blob.failed) return ERR_NOMEM(e);
	uint32_t id = tok_piece_id(t, t->blob.data + at, t->blob.len - at, raw);
	if (id == TOK_NONE) {
		nh_status s = tok_slot_set(t, a->id, at, raw ? TOK_RAW : 0, e);
		if (s != NH_OK) return err_prefix(e, s, "%s", where);
	} else if (id != a->id)
		return ERR(e, NH_ERR_CONFIG, "%s: %s: \"%.60s\" has id %u, model.vocab says %u", t->name, where, text, a->id, id);
	tok_slot *s = &t->slots[a->id];
	s->flags |= TOK_IS_ADDED | (a->special ? TOK_IS_SPECIAL : 0);
	s->added = (uint32_t)(a - t->added);
	return NH_OK;
}

/* What is looked for in text, and what decoding gives. Special tokens first: of two texts that normalise to the same, the reference finds
 * the special one. */
static nh_status prepare_added(tokenizer *t, nh_error *e)
{
	buf out = {0};
	nh_status s = NH_OK;
	for (int special = 1; special >= 0 && s == NH_OK; special--)
		for (size_t i = 0; i < t->added_count && s == NH_OK; i++) {
			tok_added *a = &t->added[i];
			const char *text = t->blob.data + a->at;
			size_t len = a->len;
			bool raw;
			if (a->special != (special == 1)) continue;
			if (a->normalized) TRY_GOTO(s, tok_normalize(t, &out, text, len, &text, &len, e), out);
			if (!tok_trie_add(a->normalized ? &t->norm_trie : &t->raw_trie, text, len, (uint32_t)i)) s = ERR_NOMEM(e);
			a->decoded_at = (uint32_t)t->blob.len;
			if (text != out.data) { /* the blob may move while it grows: copy first */
				out.len = 0;
				buf_append(&out, text, len);
			}
			if (!out.failed) tok_append_decoded(&t->blob, out.data, len, &raw);
			a->decoded_len = (uint32_t)(t->blob.len - a->decoded_at);
			if (out.failed || t->blob.failed) s = ERR_NOMEM(e);
		}
out:
	buf_deinit(&out);
	return s;
}

nh_status tok_load_added(tokenizer *t, const json_t *list, nh_error *e)
{
	size_t i;
	const json_t *item;
	bool words = false;
	if (!list || json_is_null(list)) return NH_OK;
	if (!json_is_array(list)) return ERR(e, NH_ERR_CONFIG, "%s: added_tokens: is not an array", t->name);
	if (json_array_size(list) > TOK_MAX_IDS) return ERR(e, NH_ERR_LIMIT, "%s: added_tokens: more than %d", t->name, TOK_MAX_IDS);
	t->added = mem_array(json_array_size(list), sizeof *t->added);
	if (!t->added) return ERR_NOMEM(e);
	json_array_foreach(list, i, item)
	{
		char where[PATH_SIZE];
		const char *text;
		tok_added *a = &t->added[i];
		snprintf(where, sizeof where, "added_tokens[%zu]", i);
		TRY(read_added(t, item, where, a, &text, e));
		uint32_t twin = tok_added_find(t, text, a->len);
		if (twin != TOK_NONE) return ERR(e, NH_ERR_CONFIG, "%s: %s: \"%.60s\" is already added_tokens[%u]", t->name, where, text, twin);
		TRY(place_added(t, a, text, where, e));
		t->added_count = i + 1;
		if (!tok_index_add(&t->added_index, tok_hash(text, a->len), (uint32_t)i)) return ERR_NOMEM(e);
		words |= a->single_word;
	}
	if (words) TRY(tok_regex_compile(&t->word, t, TOK_WORD_PATTERN, strlen(TOK_WORD_PATTERN), "single_word", e));
	return prepare_added(t, e);
}

/* ---- normalizer ---- */

static nh_status normalizer_leaf(tokenizer *t, const json_t *v, const char *where, nh_error *e)
{
	static const char *const KEYS[] = {"type", NULL};
	static const char *const NAMES[] = {"NFC", "NFD", "NFKC", "NFKD"}; /* in the order of tok_form */
	const char *type = type_of(v);
	for (int i = 0; type && i < 4; i++) {
		if (strcmp(type, NAMES[i]) != 0) continue;
		if (t->form_count >= TOK_MAX_STEPS) return too_many(t, where, e);
		t->forms[t->form_count++] = (tok_form)i;
		return tok_only_keys(t, v, where, KEYS, e);
	}
	return bad_type(t, v, where, "NFC, NFD, NFKC, NFKD or Sequence", e);
}

nh_status tok_load_normalizer(tokenizer *t, const json_t *v, nh_error *e)
{
	if (!v || json_is_null(v)) return NH_OK;
	return each_leaf(t, v, "normalizer", "normalizers", 0, normalizer_leaf, e);
}

/* ---- pre_tokenizer ---- */

static nh_status load_pattern(tokenizer *t, const json_t *v, const char *where, tok_step *step, nh_error *e)
{
	static const char *const KEYS[] = {"Regex", "String", NULL};
	char path[PATH_SIZE + 16];
	snprintf(path, sizeof path, "%s.pattern", where);
	if (!json_is_object(v)) return ERR(e, NH_ERR_CONFIG, "%s: %s: absent or not an object", t->name, path);
	TRY(tok_only_keys(t, v, path, KEYS, e));
	const json_t *regex = json_object_get(v, "Regex"), *literal = json_object_get(v, "String");
	if (json_is_string(regex) == json_is_string(literal))
		return ERR(e, NH_ERR_CONFIG, "%s: %s: expected a string as either Regex or String", t->name, path);
	if (regex) return tok_regex_compile(&step->regex, t, json_string_value(regex), json_string_length(regex), path, e);
	step->literal_len = json_string_length(literal);
	if (step->literal_len == 0) return ERR(e, NH_ERR_UNSUPPORTED, "%s: %s.String: is empty", t->name, path);
	step->literal = mem_strndup(json_string_value(literal), step->literal_len);
	return step->literal ? NH_OK : ERR_NOMEM(e);
}

static nh_status load_split(tokenizer *t, const json_t *v, const char *where, nh_error *e)
{
	static const char *const KEYS[] = {"type", "pattern", "behavior", "invert", NULL};
	static const char *const NAMES[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"}; /* as tok_behavior */
	const char *behavior;
	TRY(tok_only_keys(t, v, where, KEYS, e));
	if (t->step_count >= TOK_MAX_STEPS - 1) return too_many(t, where, e); /* one is left for ByteLevel */
	tok_step *step = &t->steps[t->step_count++];
	TRY(load_pattern(t, json_object_get(v, "pattern"), where, step, e));
	nh_status s = jsn_get_bool(v, where, "invert", false, &step->invert, e);
	if (s == NH_OK) s = jsn_get_string(v, where, "behavior", "absent", &behavior, e);
	if (s != NH_OK) return err_prefix(e, s, "%s", t->name);
	for (size_t i = 0; i < ARRAY_LEN(NAMES); i++) {
		step->behavior = (tok_behavior)i;
		if (strcmp(behavior, NAMES[i]) == 0) return NH_OK;
	}
	return ERR(e, NH_ERR_UNSUPPORTED, "%s: %s.behavior: is \"%.40s\", not one that is known", t->name, where, behavior);
}

static nh_status split_leaf(tokenizer *t, const json_t *v, const char *where, nh_error *e)
{
	static const char *const KEYS[] = {"type", "add_prefix_space", "trim_offsets", "use_regex", NULL};
	const char *type = type_of(v);
	bool regex, trim;
	if (type && t->byte_level)
		return ERR(e, NH_ERR_UNSUPPORTED, "%s: %s: \"%.40s\" after ByteLevel, expected ByteLevel last", t->name, where, type);
	if (type && strcmp(type, "Split") == 0) return load_split(t, v, where, e);
	if (!type || strcmp(type, "ByteLevel") != 0) return bad_type(t, v, where, "Split, ByteLevel or Sequence", e);
	TRY(tok_only_keys(t, v, where, KEYS, e));
	nh_status s = jsn_get_bool(v, where, "add_prefix_space", true, &t->prefix_space, e);
	if (s == NH_OK) s = jsn_get_bool(v, where, "trim_offsets", true, &trim, e);
	if (s == NH_OK) s = jsn_get_bool(v, where, "use_regex", true, &regex, e);
	if (s != NH_OK) return err_prefix(e, s, "%s", t->name);
	t->byte_level = true;
	t->prefix_at = t->step_count;
	if (!regex) return NH_OK;
	tok_step *step = &t->steps[t->step_count++];
	step->behavior = TOK_ISOLATED;
	return tok_regex_compile(&step->regex, t, TOK_GPT2_PATTERN, strlen(TOK_GPT2_PATTERN), where, e);
}

nh_status tok_load_splits(tokenizer *t, const json_t *v, nh_error *e)
{
	if (v && !json_is_null(v)) TRY(each_leaf(t, v, "pre_tokenizer", "pretokenizers", 0, split_leaf, e));
	if (!t->byte_level) return ERR(e, NH_ERR_UNSUPPORTED, "%s: pre_tokenizer: has no ByteLevel, so this is no byte-level BPE", t->name);
	return NH_OK;
}

/* ---- post_processor ---- */

static nh_status add_template_id(uint32_t **list, size_t *count, uint32_t id, const char *where, nh_error *e)
{
	if (*count >= TEMPLATE_LIMIT) return ERR(e, NH_ERR_LIMIT, "%s.single: more than %d ids", where, TEMPLATE_LIMIT);
	uint32_t *grown = mem_resize(*list, *count + 1, sizeof *grown);
	if (!grown) return ERR_NOMEM(e);
	grown[(*count)++] = id;
	*list = grown;
	return NH_OK;
}

/* The ids of a special token that a template names, appended to *list. */
static nh_status template_special(
    const tokenizer *t, const json_t *specials, const json_t *piece, const char *where, uint32_t **list, size_t *count, nh_error *e)
{
	const char *name = json_string_value(json_object_get(piece, "id"));
	const json_t *ids = name ? json_object_get(json_object_get(specials, name), "ids") : NULL, *item;
	size_t i;
	if (!json_is_array(ids))
		return ERR(e, NH_ERR_CONFIG, "%s: %s.special_tokens: has no ids for \"%.40s\"", t->name, where, name ? name : "?");
	json_array_foreach(ids, i, item)
	{
		json_int_t id = json_is_integer(item) ? json_integer_value(item) : -1;
		if (id < 0 || (size_t)id >= t->vocab || !(t->slots[id].flags & TOK_PRESENT)) {
			char found[64];
			jsn_brief(item, found);
			return ERR(e, NH_ERR_CONFIG, "%s: %s.special_tokens.%.40s.ids[%zu]: is %s, expected the id of a token", t->name, where, name, i,
			    found);
		}
		nh_status s = add_template_id(list, count, (uint32_t)id, where, e);
		if (s != NH_OK) return err_prefix(e, s, "%s", t->name);
	}
	return NH_OK;
}

static nh_status template_leaf(tokenizer *t, const json_t *v, const char *where, nh_error *e)
{
	static const char *const KEYS[] = {"type", "single", "pair", "special_tokens", NULL};
	const json_t *single = json_object_get(v, "single"), *specials = json_object_get(v, "special_tokens"), *item;
	size_t i, texts = 0;
	if (t->has_template) return ERR(e, NH_ERR_UNSUPPORTED, "%s: %s: a second TemplateProcessing", t->name, where);
	t->has_template = true;
	TRY(tok_only_keys(t, v, where, KEYS, e));
	if (!json_is_array(single)) return ERR(e, NH_ERR_CONFIG, "%s: %s.single: absent or not an array", t->name, where);
	json_array_foreach(single, i, item)
	{
		const json_t *special = json_object_get(item, "SpecialToken"), *sequence = json_object_get(item, "Sequence");
		const char *id = json_string_value(json_object_get(sequence, "id"));
		if (json_object_size(item) == 1 && special)
			TRY(template_special(
			    t, specials, special, where, texts ? &t->after : &t->before, texts ? &t->after_count : &t->before_count, e));
		else if (json_object_size(item) == 1 && id && strcmp(id, "A") == 0) texts++;
		else return ERR(e, NH_ERR_UNSUPPORTED, "%s: %s.single[%zu]: expected a SpecialToken or the Sequence A", t->name, where, i);
	}
	if (texts == 1) return NH_OK;
	return ERR(e, NH_ERR_UNSUPPORTED, "%s: %s.single: has the text %zu times, expected once", t->name, where, texts);
}

/* ByteLevel moves offsets only, so here it does nothing. */
static nh_status byte_level_leaf(const tokenizer *t, const json_t *v, const char *where, const char *expected, nh_error *e)
{
	static const char *const KEYS[] = {"type", "add_prefix_space", "trim_offsets", "use_regex", NULL};
	const char *type = type_of(v);
	if (!type || strcmp(type, "ByteLevel") != 0) return bad_type(t, v, where, expected, e);
	return tok_only_keys(t, v, where, KEYS, e);
}

static nh_status post_leaf(tokenizer *t, const json_t *v, const char *where, nh_error *e)
{
	const char *type = type_of(v);
	if (type && strcmp(type, "TemplateProcessing") == 0) return template_leaf(t, v, where, e);
	return byte_level_leaf(t, v, where, "TemplateProcessing, ByteLevel or Sequence", e);
}

nh_status tok_load_post(tokenizer *t, const json_t *v, nh_error *e)
{
	if (!v || json_is_null(v)) return NH_OK;
	return each_leaf(t, v, "post_processor", "processors", 0, post_leaf, e);
}

/* ---- decoder ---- */

static nh_status decoder_leaf(tokenizer *t, const json_t *v, const char *where, nh_error *e)
{
	if (t->decodes) return ERR(e, NH_ERR_UNSUPPORTED, "%s: %s: more than one decoder, expected ByteLevel alone", t->name, where);
	t->decodes = true;
	return byte_level_leaf(t, v, where, "ByteLevel", e);
}

nh_status tok_load_decoder(tokenizer *t, const json_t *v, nh_error *e)
{
	TRY(each_leaf(t, v, "decoder", "decoders", 0, decoder_leaf, e));
	return t->decodes ? NH_OK : ERR(e, NH_ERR_UNSUPPORTED, "%s: decoder: is empty, expected ByteLevel", t->name);
}
