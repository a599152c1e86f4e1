/* SPDX-License-Identifier: Apache-2.0
 * base_json.c: the bare words of published files become strings before Jansson sees them; jsn_number reads them back.
 * A JSON string "Infinity" is therefore also taken where a number is expected, as other readers of these files do.
 */
#include "base/base_json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/base_buf.h"
#include "base/base_file.h"

static const char *const WORDS[] = {"-Infinity", "Infinity", "NaN"};

static size_t word_at(const char *p, size_t left)
{
	for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++) {
		size_t n = strlen(WORDS[i]);
		if (n <= left && memcmp(p, WORDS[i], n) == 0) return n;
	}
	return 0;
}

/* A bare word before a colon would become a key, which no writer means: it stays as it is, so that the parser refuses it. */
static bool is_key(const char *p, size_t left)
{
	while (left && (*p == ' ' || *p == '\t' || *p == '\r' || *p == '\n')) p++, left--;
	return left && *p == ':';
}

/* Copies the text with the bare words quoted. Bytes inside strings stay as they are. */
static void quote_words(buf *b, const char *text, size_t len)
{
	size_t from = 0, i = 0;
	while (i < len) {
		if (text[i] == '"') {
			for (i++; i < len && text[i] != '"'; i++)
				if (text[i] == '\\') i++;
			i++;
			continue;
		}
		size_t n = text[i] == '-' || text[i] == 'I' || text[i] == 'N' ? word_at(text + i, len - i) : 0;
		if (n == 0 || is_key(text + i + n, len - i - n)) {
			i++;
			continue;
		}
		buf_append(b, text + from, i - from);
		buf_char(b, '"');
		buf_append(b, text + i, n);
		buf_char(b, '"');
		i += n;
		from = i;
	}
	if (from < len) buf_append(b, text + from, len - from);
}

static bool may_hold_words(const char *text, size_t len)
{
	return memmem(text, len, "Infinity", 8) != NULL || memmem(text, len, "NaN", 3) != NULL;
}

nh_status jsn_load_text(json_t **out, const char *text, size_t len, const char *name, nh_error *e)
{
	json_error_t je;
	buf b = {0};
	*out = NULL;
	if (may_hold_words(text, len)) {
		quote_words(&b, text, len);
		if (b.failed) {
			buf_deinit(&b);
			return ERR_NOMEM(e);
		}
		text = b.data;
		len = b.len;
	}
	*out = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &je);
	buf_deinit(&b);
	if (*out) return NH_OK;
	if (json_error_code(&je) == json_error_out_of_memory) return ERR_NOMEM(e);
	return ERR(e, NH_ERR_FORMAT, "%s: line %d, column %d: not valid JSON: %s", name, je.line, je.column, je.text);
}

nh_status jsn_load_path(json_t **out, const char *path, size_t limit, nh_error *e)
{
	buf b = {0};
	*out = NULL;
	TRY(file_read(path, limit, &b, e));
	nh_status s = jsn_load_text(out, b.data, b.len, path, e);
	buf_deinit(&b);
	return s;
}

bool jsn_is_number(const json_t *v)
{
	if (json_is_number(v)) return true;
	const char *s = json_string_value(v);
	for (size_t i = 0; s && i < sizeof WORDS / sizeof *WORDS; i++)
		if (strcmp(s, WORDS[i]) == 0) return true;
	return false;
}

double jsn_number(const json_t *v)
{
	const char *s = json_string_value(v);
	if (!s) return json_number_value(v);
	return s[0] == 'N' ? (double)NAN : s[0] == '-' ? -(double)INFINITY : (double)INFINITY;
}

enum { BRIEF = 56 };

typedef struct brief {
	char text[BRIEF + 4];
	size_t len;
} brief;

/* Takes the first BRIEF bytes of the dump, then stops it. */
static int take_brief(const char *data, size_t size, void *user)
{
	brief *b = user;
	size_t n = size < BRIEF - b->len ? size : BRIEF - b->len;
	memcpy(b->text + b->len, data, n);
	b->len += n;
	if (n == size) return 0;
	memcpy(b->text + b->len, "...", 3);
	return -1;
}

void jsn_brief(const json_t *v, char out[64])
{
	brief b = {{0}, 0};
	if (v) json_dump_callback(v, take_brief, &b, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));
	snprintf(out, 64, "%s", v ? b.text : "absent");
	err_clean(out);
}

static const json_t *present(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);
	return v && !json_is_null(v) ? v : NULL;
}

static nh_status wrong(const json_t *v, const char *name, const char *key, const char *expected, nh_error *e)
{
	char found[64];
	jsn_brief(v, found);
	return ERR(e, NH_ERR_CONFIG, "%s: %s: is %s, expected %s", name, key, found, expected);
}

nh_status jsn_get_int(
    const json_t *o, const char *name, const char *key, int64_t fallback, int64_t lo, int64_t hi, int64_t *out, nh_error *e)
{
	const json_t *v = present(o, key);
	*out = fallback;
	if (!v) return NH_OK;
	bool whole = json_is_integer(v);
	int64_t i = whole ? (int64_t)json_integer_value(v) : 0;
	if (jsn_is_number(v) && json_is_number(v) && !whole) { /* 2.0 is an integer to the writers of these files */
		double d = json_real_value(v);
		whole = d == floor(d) && fabs(d) < 9e15;
		i = whole ? (int64_t)d : 0;
	}
	if (!whole || i < lo || i > hi) {
		char expected[96];
		snprintf(expected, sizeof expected, "an integer from %" PRId64 " to %" PRId64, lo, hi);
		return wrong(v, name, key, expected, e);
	}
	*out = i;
	return NH_OK;
}

nh_status jsn_get_real(const json_t *o, const char *name, const char *key, double fallback, double *out, nh_error *e)
{
	const json_t *v = present(o, key);
	*out = fallback;
	if (!v) return NH_OK;
	if (!jsn_is_number(v)) return wrong(v, name, key, "a number", e);
	*out = jsn_number(v);
	return NH_OK;
}

nh_status jsn_get_bool(const json_t *o, const char *name, const char *key, bool fallback, bool *out, nh_error *e)
{
	const json_t *v = present(o, key);
	*out = fallback;
	if (!v) return NH_OK;
	if (!json_is_boolean(v)) return wrong(v, name, key, "true or false", e);
	*out = json_is_true(v);
	return NH_OK;
}

nh_status jsn_get_string(const json_t *o, const char *name, const char *key, const char *fallback, const char **out, nh_error *e)
{
	const json_t *v = present(o, key);
	*out = fallback;
	if (!v) return NH_OK;
	if (!json_is_string(v) || strlen(json_string_value(v)) != json_string_length(v)) return wrong(v, name, key, "a string without NUL", e);
	*out = json_string_value(v);
	return NH_OK;
}
