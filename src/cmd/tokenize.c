/* SPDX-License-Identifier: Apache-2.0
 * tokenize.c: text to token ids and back, on standard input and output. Knows the public text interface only.
 * Breaks first: with --jsonl one line in is one line out, in order, so that two streams can be put side by side.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base_json.h"
#include "base/base_mem.h"
#include "cmd/cmd.h"
#include "nh/nh_text.h"

#define TEXT_LIMIT ((size_t)1 << 30) /* bytes of text or of one line */

typedef struct tokenize {
	const cmd_args *a;
	nh_tokenizer *tokenizer; /* own */
	uint32_t flags;
	bool decode, pieces, count, skip_special;
} tokenize;

/* A token's bytes as one printable word: UTF-8 as it is; backslash, control characters and stray bytes escaped. */
static void piece_text(const tokenize *t, int32_t id, buf *out)
{
	size_t n = 0;
	const unsigned char *p = (const unsigned char *)nh_token_piece(t->tokenizer, id, &n);
	for (size_t i = 0; p != NULL && i < n;) {
		size_t len = p[i] < 0x80 ? 1 : p[i] >= 0xF0 ? 4 : p[i] >= 0xE0 ? 3 : p[i] >= 0xC2 ? 2 : 0;
		char one[8] = {0};
		if (len > 0 && i + len <= n) memcpy(one, p + i, len);
		json_t *valid = one[0] != '\0' && len > 1 ? json_stringn(one, len) : NULL; /* NULL: not UTF-8 */
		if (valid != NULL) {
			buf_append(out, one, len);
		} else if (p[i] == '\n' || p[i] == '\t' || p[i] == '\r') {
			buf_str(out, p[i] == '\n' ? "\\n" : p[i] == '\t' ? "\\t" : "\\r");
		} else if (p[i] == '\\') {
			buf_str(out, "\\\\");
		} else if (p[i] >= 0x20 && p[i] < 0x7F) {
			buf_char(out, (char)p[i]);
		} else {
			buf_printf(out, "\\x%02X", p[i]);
		}
		i += valid != NULL ? len : 1;
		json_decref(valid);
	}
	buf_append(out, "", 0);
}

/* Ids as a JSON array, or with --pieces the array of their texts. */
static void ids_json(const tokenize *t, const int32_t *ids, size_t count, buf *out)
{
	buf_char(out, '[');
	for (size_t i = 0; i < count; i++) {
		if (i > 0) buf_char(out, ',');
		if (!t->pieces) {
			buf_printf(out, "%d", ids[i]);
			continue;
		}
		buf piece = {0};
		piece_text(t, ids[i], &piece);
		json_t *s = json_stringn(piece.failed ? "" : piece.data, piece.len);
		char *text = json_dumps(s, JSON_ENCODE_ANY);
		buf_str(out, text != NULL ? text : "\"\"");
		free(text);
		json_decref(s);
		buf_deinit(&piece);
	}
	buf_char(out, ']');
}

static nh_status print_ids(const tokenize *t, const int32_t *ids, size_t count, bool json, nh_error *e)
{
	buf out = {0};
	if (t->count) {
		buf_printf(&out, "%zu", count);
	} else if (json) {
		ids_json(t, ids, count, &out);
	} else if (t->pieces) {
		for (size_t i = 0; i < count; i++) {
			buf_printf(&out, "%s%d\t", i > 0 ? "\n" : "", ids[i]);
			piece_text(t, ids[i], &out);
		}
	} else {
		for (size_t i = 0; i < count; i++) buf_printf(&out, "%s%d", i > 0 ? " " : "", ids[i]);
	}
	if (!t->pieces || t->count || json || count > 0) buf_char(&out, '\n');
	nh_status s = out.failed ? ERR_NOMEM(e) : NH_OK;
	if (s == NH_OK) cmd_out(out.data, out.len);
	buf_deinit(&out);
	return s;
}

static nh_status encode(const tokenize *t, const char *text, size_t len, bool json, nh_error *e)
{
	int32_t *ids = NULL;
	size_t count = 0;
	TRY(nh_tokenize(t->tokenizer, text, len, t->flags, &ids, &count, e));
	nh_status s = print_ids(t, ids, count, json, e);
	nh_free(ids);
	return s;
}

static nh_status decode(const tokenize *t, const int32_t *ids, size_t count, bool json, nh_error *e)
{
	char *text = NULL;
	size_t bytes = 0;
	TRY(nh_detokenize(t->tokenizer, ids, count, t->skip_special, &text, &bytes, e));
	nh_status s = NH_OK;
	if (!json) {
		cmd_out(text, bytes);
	} else {
		json_t *v = json_stringn(text, bytes);
		if (v == NULL) s = ERR(e, NH_ERR_FORMAT, "the ids make no UTF-8 text");
		else cmd_out_json(v, 0);
	}
	nh_free(text);
	return s;
}

typedef struct id_list {
	int32_t *ids; /* own */
	size_t count, room;
} id_list;

static nh_status id_add(id_list *l, int64_t id, const char *name, nh_error *e)
{
	if (id < 0 || id > INT32_MAX) return ERR(e, NH_ERR_ARG, "%s: id %lld, expected 0 or more", name, (long long)id);
	if (l->count == l->room) {
		size_t room = l->room ? l->room * 2 : 1024;
		int32_t *ids = mem_resize(l->ids, room, sizeof *ids);
		if (ids == NULL) return ERR_NOMEM(e);
		l->ids = ids;
		l->room = room;
	}
	l->ids[l->count++] = (int32_t)id;
	return NH_OK;
}

/* Numbers between white space, commas and brackets. */
static nh_status parse_ids(const char *text, size_t len, id_list *l, nh_error *e)
{
	for (size_t i = 0; i < len;) {
		if (isspace((unsigned char)text[i]) || text[i] == ',' || text[i] == '[' || text[i] == ']') {
			i++;
			continue;
		}
		size_t start = i;
		int64_t id = 0;
		while (i < len && isdigit((unsigned char)text[i]) && id <= INT32_MAX) id = id * 10 + (text[i++] - '0');
		if (i == start) {
			char shown[16] = {0};
			snprintf(shown, sizeof shown, "%.12s", text + i);
			err_clean(shown);
			return ERR(e, NH_ERR_ARG, "standard input: %s, expected a token id at byte %zu", shown, i);
		}
		TRY(id_add(l, id, "standard input", e));
	}
	return NH_OK;
}

static nh_status one_line(const tokenize *t, const json_t *v, const char *name, nh_error *e)
{
	if (!t->decode) {
		if (!json_is_string(v)) return ERR(e, NH_ERR_FORMAT, "%s: not a JSON string", name);
		return encode(t, json_string_value(v), json_string_length(v), true, e);
	}
	if (!json_is_array(v)) return ERR(e, NH_ERR_FORMAT, "%s: not a JSON array", name);
	id_list l = {0};
	nh_status s = NH_OK;
	for (size_t i = 0; s == NH_OK && i < json_array_size(v); i++) {
		const json_t *id = json_array_get(v, i);
		s = json_is_integer(id) ? id_add(&l, json_integer_value(id), name, e) : ERR(e, NH_ERR_FORMAT, "%s: item %zu is not an id", name, i);
	}
	if (s == NH_OK) s = decode(t, l.ids, l.count, true, e);
	mem_free(l.ids);
	return s;
}

static nh_status all_lines(const tokenize *t, nh_error *e)
{
	buf line = {0};
	nh_status s = NH_OK;
	for (size_t n = 1; s == NH_OK && cmd_read_line(TEXT_LIMIT, &line, e); n++) {
		char name[40];
		snprintf(name, sizeof name, "line %zu", n);
		json_t *v = NULL;
		s = jsn_load_text(&v, line.len > 0 ? line.data : "", line.len, name, e);
		if (s == NH_OK) s = one_line(t, v, name, e);
		json_decref(v);
		if (s == NH_OK && !cmd_out("", 0)) break;
	}
	if (s == NH_OK) s = (nh_status)e->code;
	buf_deinit(&line);
	return s;
}

static nh_status whole_input(const tokenize *t, nh_error *e)
{
	buf text = {0};
	id_list l = {0};
	nh_status s = cmd_read_input(TEXT_LIMIT, &text, e);
	if (s == NH_OK && !t->decode) s = encode(t, text.data, text.len, cmd_flag(t->a, "json"), e);
	if (s == NH_OK && t->decode) s = parse_ids(text.data, text.len, &l, e);
	if (s == NH_OK && t->decode)
		s = t->pieces || t->count ? print_ids(t, l.ids, l.count, false, e) : decode(t, l.ids, l.count, cmd_flag(t->a, "json"), e);
	mem_free(l.ids);
	buf_deinit(&text);
	return s;
}

static int run(const cmd_args *a)
{
	nh_error e = {0};
	tokenize t = {.a = a,
	    .decode = cmd_flag(a, "decode"),
	    .pieces = cmd_flag(a, "pieces"),
	    .count = cmd_flag(a, "count"),
	    .skip_special = cmd_flag(a, "skip-special"),
	    .flags = (cmd_flag(a, "special") ? (uint32_t)NH_TOKENIZE_SPECIAL : 0u) | (cmd_flag(a, "plain") ? (uint32_t)NH_TOKENIZE_PLAIN : 0u)};
	if (t.decode && t.flags != 0) return cmd_bad_usage(a, "--special and --plain are about encoding, not --decode");
	if (t.skip_special && !t.decode) return cmd_bad_usage(a, "--skip-special needs --decode");
	if (t.decode && cmd_flag(a, "jsonl") && (t.pieces || t.count))
		return cmd_bad_usage(a, "--decode --jsonl takes neither --pieces nor --count");
	char *path = NULL;
	nh_status s = cmd_model_path(a, cmd_operand(a, 0), &path, &e);
	if (s == NH_OK) s = nh_tokenizer_open(&t.tokenizer, path, &e);
	if (s == NH_OK) s = cmd_flag(a, "jsonl") ? all_lines(&t, &e) : whole_input(&t, &e);
	nh_tokenizer_close(t.tokenizer);
	mem_free(path);
	return s == NH_OK ? CMD_OK : cmd_fail_error(a, s, &e);
}

static const cmd_option options[] = {{"decode", 'd', CMD_FLAG, NULL, "token ids in, text out", 0, 0},
    {"pieces", 'p', CMD_FLAG, NULL, "one line a token: its id and its text", 0, 0},
    {"count", 'c', CMD_FLAG, NULL, "only the number of tokens", 0, 0},
    {"jsonl", 0, CMD_FLAG, NULL, "one JSON string a line in, one JSON array of ids a line out\n(the other way round with --decode)", 0, 0},
    {"special", 's', CMD_FLAG, NULL, "add what the tokenizer adds around a raw text, such as <s>", 0, 0},
    {"plain", 0, CMD_FLAG, NULL, "the texts of control tokens are ordinary text", 0, 0},
    {"skip-special", 0, CMD_FLAG, NULL, "with --decode: control tokens make no text", 0, 0}, CMD_OPTION_JSON, CMD_OPTION_CACHE,
    CMD_OPTION_QUIET, CMD_OPTION_END};

const cmd_def cmd_tokenize = {
    .name = "tokenize",
    .summary = "text to token ids, and back",
    .usage = "[MODEL]",
    .about = "Reads text from standard input, to its last byte (a final newline is a token too), and writes its ids.\n"
             "MODEL is a model folder, org/name in the cache, or a tokenizer.json; without it: the built-in model.",
    .examples = "printf 'The capital' | nemotron tokenize models/tiny\n"
                "printf 'The capital' | nemotron tokenize --pieces tokenizer.json\n"
                "echo '10 11' | nemotron tokenize --decode models/tiny\n"
                "jq -c .text < lines.jsonl | nemotron tokenize --jsonl --count models/tiny\n",
    .options = options,
    .min_operands = 0,
    .max_operands = 1,
    .run = run,
};
