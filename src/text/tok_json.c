/* SPDX-License-Identifier: Apache-2.0
 * tok_json.c: the cut and the strict reader of tok_json.h. No recursion, so no depth limit is needed.
 */
#include "text/tok_json.h"

#include <string.h>

#include "text/tok_uni.h"

static const char *skip_space(const char *p, const char *end)
{
	/* indented documents are spaces for the most part */
	for (uint64_t word; end - p >= (ptrdiff_t)sizeof word; p += sizeof word) {
		memcpy(&word, p, sizeof word);
		if (word != 0x2020202020202020u) break;
	}
	while (p < end && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r')) p++;
	return p;
}

/* p is at the opening quote; returns what follows the closing one, or end. */
static const char *skip_string(const char *p, const char *end)
{
	for (p++; p < end && *p != '"'; p++)
		if (*p == '\\') p++;
	return p < end ? p + 1 : end; /* most strings here are a few bytes: memchr would not pay */
}

/* p is at a bracket; returns what follows its partner, or end. Kinds of brackets are left to the strict reader. */
static const char *skip_nested(const char *p, const char *end)
{
	size_t depth = 0;
	while (p < end) {
		if (*p == '"') {
			p = skip_string(p, end);
			continue;
		}
		if (*p == '{' || *p == '[') depth++;
		if ((*p == '}' || *p == ']') && --depth == 0) return p + 1;
		p++;
	}
	return end;
}

static bool same(tok_span s, const char *word) { return s.len == strlen(word) && memcmp(s.at, word, s.len) == 0; }

void tok_json_cut(const char *json, size_t len, bool lines, tok_take_fn take, void *user, buf *rest, tok_span *vocab, tok_span *merges)
{
	const char *p = json, *end = json + len, *copied = json;
	int64_t depth = 0;
	bool in_model = false;
	*vocab = *merges = (tok_span){0};
	while (p < end) {
		if (*p == '{' || *p == '[') depth++;
		if (*p == '}' || *p == ']') depth--;
		if (*p != '"') {
			p++;
			continue;
		}
		const char *after = skip_string(p, end);
		tok_span key = {p + 1, (size_t)(after - p) - 2};
		p = after;
		const char *colon = skip_space(p, end);
		if (colon >= end || *colon != ':') continue;
		if (depth == 1) in_model = same(key, "model");
		tok_span *span = depth != 2 || !in_model ? NULL : same(key, "vocab") ? vocab : same(key, "merges") ? merges : NULL;
		const char *value = skip_space(colon + 1, end);
		if (!span || span->at || value >= end || *value != (span == vocab ? '{' : '[')) continue;
		const char *taken = take ? take(user, span == vocab, value, end) : NULL;
		p = taken ? taken : skip_nested(value, end);
		*span = (tok_span){value, (size_t)(p - value)};
		buf_append(rest, copied, (size_t)(value - copied));
		buf_str(rest, "null");
		for (const char *q = value; lines && (q = memchr(q, '\n', (size_t)(p - q))); q++) buf_char(rest, '\n');
		copied = p;
	}
	buf_append(rest, copied, (size_t)(end - copied));
}

static nh_status bad(tok_reader *r, const char *expected)
{
	int n = r->end - r->p > 20 ? 20 : (int)(r->end - r->p);
	return ERR(r->e, NH_ERR_FORMAT, "%s: %s: byte %zu of it: found \"%.*s\", expected %s", r->name, r->what, (size_t)(r->p - r->start), n,
	    r->p, expected);
}

bool tok_read_is(tok_reader *r, char c)
{
	r->p = skip_space(r->p, r->end);
	return r->p < r->end && *r->p == c;
}

nh_status tok_read_char(tok_reader *r, char c)
{
	const char expected[] = {'\'', c, '\'', 0};
	if (!tok_read_is(r, c)) return bad(r, expected);
	r->p++;
	return NH_OK;
}

/* Four hex digits at p, or UNI_INVALID. */
static uint32_t hex4(const char *p, const char *end)
{
	uint32_t v = 0;
	if (end - p < 4) return UNI_INVALID;
	for (int i = 0; i < 4; i++) {
		int c = (uint8_t)p[i] | 0x20;
		int digit = p[i] >= '0' && p[i] <= '9' ? p[i] - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
		if (digit < 0) return UNI_INVALID;
		v = v << 4 | (uint32_t)digit;
	}
	return v;
}

/* r->p is behind the backslash; appends what the escape stands for. */
static nh_status escape(tok_reader *r, buf *out)
{
	static const char LETTERS[] = "\"\\/bfnrt", MEANS[] = "\"\\/\b\f\n\r\t";
	const char *found = r->p < r->end && *r->p ? strchr(LETTERS, *r->p) : NULL;
	if (found) {
		buf_char(out, MEANS[found - LETTERS]);
		r->p++;
		return NH_OK;
	}
	uint32_t cp = r->p < r->end && *r->p == 'u' ? hex4(r->p + 1, r->end) : UNI_INVALID;
	if (cp == UNI_INVALID || (cp >= 0xDC00 && cp <= 0xDFFF)) return bad(r, "an escape");
	r->p += 5;
	if (cp >= 0xD800 && cp <= 0xDBFF) {
		uint32_t low = r->end - r->p >= 6 && r->p[0] == '\\' && r->p[1] == 'u' ? hex4(r->p + 2, r->end) : 0;
		if (low < 0xDC00 || low > 0xDFFF) return bad(r, "the second half of a surrogate pair");
		cp = 0x10000 + ((cp - 0xD800) << 10) + (low - 0xDC00);
		r->p += 6;
	}
	buf_utf8(out, cp);
	return NH_OK;
}

nh_status tok_read_string(tok_reader *r, buf *scratch, tok_span *out)
{
	TRY(tok_read_char(r, '"'));
	const char *from = r->p;
	bool escaped = false, high = false;
	scratch->len = 0;
	for (;; r->p++) {
		if (r->p >= r->end || (uint8_t)*r->p < 0x20) return bad(r, "the rest of a string");
		if (*r->p == '"') break;
		high |= (uint8_t)*r->p >= 0x80;
		if (*r->p != '\\') continue;
		buf_append(scratch, from, (size_t)(r->p - from));
		r->p++;
		TRY(escape(r, scratch));
		escaped = true;
		from = r->p--;
	}
	*out = (tok_span){from, (size_t)(r->p - from)};
	r->p++;
	if (escaped) {
		buf_append(scratch, out->at, out->len);
		*out = (tok_span){scratch->data, scratch->len};
	}
	if (scratch->failed) return ERR_NOMEM(r->e);
	if (high && uni_valid_prefix(out->at, out->len) != out->len) {
		r->p = from;
		return bad(r, "UTF-8");
	}
	return NH_OK;
}

nh_status tok_read_id(tok_reader *r, int64_t max, tok_span key, int64_t *out)
{
	r->p = skip_space(r->p, r->end);
	const char *from = r->p;
	int64_t v = 0;
	for (; r->p < r->end && *r->p >= '0' && *r->p <= '9' && v <= max; r->p++) v = v * 10 + (*r->p - '0');
	bool ends = r->p < r->end && strchr(",} \n\t\r", *r->p) && *r->p;
	if (r->p > from && ends && v <= max && (*from != '0' || r->p - from == 1)) {
		*out = v;
		return NH_OK;
	}
	int found = 0;
	while (found < 24 && from + found < r->end && !strchr(",} \n\t\r", from[found])) found++;
	return ERR(r->e, NH_ERR_CONFIG, "%s: %s: \"%.*s\": id is %.*s, expected an integer from 0 to %lld", r->name, r->what,
	    key.len > 40 ? 40 : (int)key.len, key.at, found, from, (long long)max);
}
