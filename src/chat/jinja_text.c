/* SPDX-License-Identifier: Apache-2.0
 * jinja_text.c: see jinja_text.h. The invariant that breaks first: every byte offset handed out is at the start of a code point.
 */
#include "chat/jinja_text.h"

#include <assert.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/base_mem.h"
#include "chat/gen/jinja_case.h"

bool jtext_valid(const char *s, size_t n)
{
	for (size_t i = 0; i < n;) {
		if ((unsigned char)s[i] < 0x80) {
			i++;
			continue;
		}
		utf8proc_int32_t c;
		utf8proc_ssize_t k = utf8proc_iterate((const utf8proc_uint8_t *)s + i, (utf8proc_ssize_t)(n - i), &c);
		if (k <= 0) return false;
		i += (size_t)k;
	}
	return true;
}

bool jtext_ascii(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)s[i] >= 0x80) return false;
	return true;
}

size_t jtext_count(const char *s, size_t n)
{
	size_t count = 0;
	for (size_t i = 0; i < n; i++) count += ((unsigned char)s[i] & 0xC0) != 0x80;
	return count;
}

size_t jtext_offset(const char *s, size_t n, size_t index)
{
	for (size_t i = 0; i < n; i++) {
		if (((unsigned char)s[i] & 0xC0) == 0x80) continue;
		if (index-- == 0) return i;
	}
	return n;
}

unsigned jtext_next(const char *s, size_t n, size_t *pos)
{
	const unsigned char *p = (const unsigned char *)s + *pos;
	size_t left = n - *pos;
	unsigned c = p[0];
	size_t k = c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
	if (k > left) k = left;
	if (k == 2) c = (c & 0x1F) << 6 | (p[1] & 0x3F);
	if (k == 3) c = (c & 0x0F) << 12 | (unsigned)(p[1] & 0x3F) << 6 | (p[2] & 0x3F);
	if (k == 4) c = (c & 0x07) << 18 | (unsigned)(p[1] & 0x3F) << 12 | (unsigned)(p[2] & 0x3F) << 6 | (p[3] & 0x3F);
	*pos += k;
	return c;
}

size_t jtext_prev(const char *s, size_t pos)
{
	do pos--;
	while (pos > 0 && ((unsigned char)s[pos] & 0xC0) == 0x80);
	return pos;
}

bool jtext_is_space(unsigned c)
{
	if (c < 0x80) return (c >= 9 && c <= 13) || (c >= 28 && c <= 32);
	return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
	       c == 0x205F || c == 0x3000;
}

static bool strips(unsigned c, const char *chars, size_t nchars)
{
	if (!chars) return jtext_is_space(c);
	for (size_t i = 0; i < nchars;)
		if (jtext_next(chars, nchars, &i) == c) return true;
	return false;
}

void jtext_strip(const char **s, size_t *n, const char *chars, size_t nchars, int sides)
{
	if (sides & JTEXT_LEFT) {
		size_t at = 0;
		while (at < *n) {
			size_t next = at;
			if (!strips(jtext_next(*s, *n, &next), chars, nchars)) break;
			at = next;
		}
		*s += at;
		*n -= at;
	}
	while ((sides & JTEXT_RIGHT) && *n > 0) {
		size_t at = jtext_prev(*s, *n), next = at;
		if (!strips(jtext_next(*s, *n, &next), chars, nchars)) break;
		*n = at;
	}
}

size_t jtext_find(const char *s, size_t n, const char *sub, size_t nsub, size_t from)
{
	if (from > n) return SIZE_MAX;
	if (nsub == 0) return from;
	const char *p = memmem(s + from, n - from, sub, nsub);
	return p ? (size_t)(p - s) : SIZE_MAX;
}

size_t jtext_rfind(const char *s, size_t n, const char *sub, size_t nsub)
{
	if (nsub > n) return SIZE_MAX;
	for (size_t i = n - nsub + 1; i-- > 0;)
		if (memcmp(s + i, sub, nsub) == 0) return i;
	return SIZE_MAX;
}

size_t jtext_line(const char *s, size_t n, size_t *pos, size_t *brk)
{
	size_t start = *pos;
	while (*pos < n) {
		size_t at = *pos;
		unsigned c = jtext_next(s, n, pos);
		bool ends = (c >= 10 && c <= 13) || (c >= 28 && c <= 30) || c == 0x85 || c == 0x2028 || c == 0x2029;
		if (!ends) continue;
		if (c == 13 && *pos < n && s[*pos] == '\n') (*pos)++;
		*brk = *pos - at;
		return at - start;
	}
	*brk = 0;
	return n - start;
}

/* ---- letter case ---- */

static const struct jcase *special(unsigned c)
{
	size_t lo = 0, hi = ARRAY_LEN(JCASE);
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (JCASE[mid].from < c) lo = mid + 1;
		else hi = mid;
	}
	return lo < ARRAY_LEN(JCASE) && JCASE[lo].from == c ? &JCASE[lo] : NULL;
}

static void put_all(const uint16_t c[3], buf *out)
{
	for (int i = 0; i < 3 && c[i]; i++) buf_utf8(out, c[i]);
}

/* Unicode's Cased, as far as it is not also Case_Ignorable. */
static bool is_cased(unsigned c)
{
	utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)c);
	return k == UTF8PROC_CATEGORY_LU || k == UTF8PROC_CATEGORY_LL || k == UTF8PROC_CATEGORY_LT || c == 0xAA || c == 0xBA ||
	       (c >= 0x2160 && c <= 0x217F) || (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
	       (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
}

static bool is_case_ignorable(unsigned c)
{
	static const unsigned MARKS[] = {
	    0x27, 0x2E, 0x3A, 0xB7, 0x387, 0x55F, 0x5F4, 0x2018, 0x2019, 0x2024, 0x2027, 0xFE13, 0xFE52, 0xFE55, 0xFF07, 0xFF0E, 0xFF1A};
	for (size_t i = 0; i < ARRAY_LEN(MARKS); i++)
		if (c == MARKS[i]) return true;
	utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)c);
	return k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_ME || k == UTF8PROC_CATEGORY_CF || k == UTF8PROC_CATEGORY_LM ||
	       k == UTF8PROC_CATEGORY_SK;
}

/* The Final_Sigma condition of SpecialCasing.txt for the capital sigma at [at, end). */
static bool final_sigma(const char *s, size_t n, size_t at, size_t end)
{
	bool before = false;
	while (at > 0) {
		size_t p = at = jtext_prev(s, at);
		unsigned c = jtext_next(s, n, &p);
		if (is_case_ignorable(c)) continue;
		before = is_cased(c);
		break;
	}
	if (!before) return false;
	while (end < n) {
		unsigned c = jtext_next(s, n, &end);
		if (!is_case_ignorable(c)) return !is_cased(c);
	}
	return true;
}

static void put_lower(const char *s, size_t n, size_t at, size_t end, unsigned c, buf *out)
{
	if (c == 0x130) buf_append(out, "i\xCC\x87", 3);
	else if (c == 0x3A3) buf_utf8(out, final_sigma(s, n, at, end) ? 0x3C2 : 0x3C3);
	else buf_utf8(out, (unsigned)utf8proc_tolower((utf8proc_int32_t)c));
}

static void put_upper(unsigned c, bool title, buf *out)
{
	const struct jcase *x = special(c);
	if (x) put_all(title ? x->title : x->upper, out);
	else buf_utf8(out, (unsigned)(title ? utf8proc_totitle((utf8proc_int32_t)c) : utf8proc_toupper((utf8proc_int32_t)c)));
}

void jtext_case(const char *s, size_t n, enum jtext_case how, buf *out)
{
	bool in_word = false;
	for (size_t at = 0; at < n;) {
		size_t end = at;
		unsigned c = jtext_next(s, n, &end);
		if (how == JTEXT_UPPER) put_upper(c, false, out);
		else if (how == JTEXT_LOWER || (how == JTEXT_CAPITALIZE && at > 0) || (how == JTEXT_TITLE && in_word))
			put_lower(s, n, at, end, c, out);
		else put_upper(c, true, out);
		in_word = is_cased(c);
		at = end;
	}
}

/* ---- repr ---- */

void jtext_repr(const char *s, size_t n, buf *out)
{
	bool single = memchr(s, '\'', n) != NULL, twice = memchr(s, '"', n) != NULL;
	char quote = single && !twice ? '"' : '\'';
	buf_char(out, quote);
	for (size_t i = 0; i < n && !out->failed;) {
		size_t at = i;
		unsigned c = jtext_next(s, n, &i);
		utf8proc_category_t k;
		if (c == (unsigned char)quote || c == '\\') buf_printf(out, "\\%c", (char)c);
		else if (c == '\n') buf_str(out, "\\n");
		else if (c == '\r') buf_str(out, "\\r");
		else if (c == '\t') buf_str(out, "\\t");
		else if (c < 0x20 || c == 0x7F) buf_printf(out, "\\x%02x", c);
		else if (c < 0x7F) buf_char(out, (char)c);
		else if (k = utf8proc_category((utf8proc_int32_t)c), k == UTF8PROC_CATEGORY_CN || k >= UTF8PROC_CATEGORY_ZS)
			buf_printf(out, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
		else buf_append(out, s + at, i - at);
	}
	buf_char(out, quote);
}

void jtext_repr_float(double d, buf *out)
{
	char text[40], digits[20];
	int precision = 0;
	do snprintf(text, sizeof text, "%.*e", precision, d);
	while (strtod(text, NULL) != d && ++precision < 17);
	/* Only the digits and the exponent are used, so the locale's decimal point does not matter. */
	int nd = 0;
	const char *p = text;
	for (; *p && *p != 'e'; p++)
		if (*p >= '0' && *p <= '9') digits[nd++] = *p;
	int exponent = (int)strtol(*p ? p + 1 : "0", NULL, 10);
	assert(nd > 0); /* %e always writes a digit */
	while (nd > 1 && digits[nd - 1] == '0') nd--;
	if (signbit(d)) buf_char(out, '-');
	if (exponent < -4 || exponent >= 16) {
		buf_char(out, digits[0]);
		if (nd > 1) {
			buf_char(out, '.');
			buf_append(out, digits + 1, (size_t)nd - 1);
		}
		buf_printf(out, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
		return;
	}
	if (exponent < 0) {
		buf_str(out, "0.");
		for (int i = exponent + 1; i < 0; i++) buf_char(out, '0');
		buf_append(out, digits, (size_t)nd);
		return;
	}
	for (int i = 0; i < nd || i <= exponent + 1; i++) {
		if (i == exponent + 1) buf_char(out, '.');
		buf_char(out, i < nd ? digits[i] : '0');
	}
}

/* ---- reading numbers ---- */

static bool digits_at(const char *s, size_t n, size_t *i, buf *out)
{
	size_t start = *i;
	while (*i < n) {
		char c = s[*i];
		if (c >= '0' && c <= '9') buf_char(out, c);
		else if (!(c == '_' && *i > start && *i + 1 < n && s[*i + 1] >= '0' && s[*i + 1] <= '9')) break;
		(*i)++;
	}
	return *i > start;
}

static bool word_is(const char *s, size_t n, const char *word) { return n == strlen(word) && strncasecmp(s, word, n) == 0; }

bool jtext_read_float(const char *s, size_t n, double *out, bool *odd)
{
	jtext_strip(&s, &n, NULL, 0, JTEXT_LEFT | JTEXT_RIGHT);
	*odd = !jtext_ascii(s, n);
	size_t i = n > 0 && (s[0] == '+' || s[0] == '-');
	bool negative = i && s[0] == '-', ok = false;
	if (word_is(s + i, n - i, "inf") || word_is(s + i, n - i, "infinity")) {
		*out = negative ? -INFINITY : INFINITY;
		return true;
	}
	if (word_is(s + i, n - i, "nan")) {
		*out = NAN;
		return true;
	}
	buf b = {0};
	bool whole = digits_at(s, n, &i, &b), part = false;
	if (i < n && s[i] == '.') {
		const struct lconv *l = localeconv(); /* strtod reads the locale's point */
		buf_str(&b, l && l->decimal_point && *l->decimal_point ? l->decimal_point : ".");
		i++;
		part = digits_at(s, n, &i, &b);
	}
	if (whole || part) {
		ok = true;
		if (i < n && (s[i] == 'e' || s[i] == 'E')) {
			buf_char(&b, 'e');
			i++;
			if (i < n && (s[i] == '+' || s[i] == '-')) buf_char(&b, s[i++]);
			ok = digits_at(s, n, &i, &b);
		}
		ok = ok && i == n && !b.failed;
		if (ok) *out = strtod(b.data, NULL) * (negative ? -1 : 1);
	}
	buf_deinit(&b);
	return ok;
}

bool jtext_read_int(const char *s, size_t n, int64_t *out, bool *big, bool *odd)
{
	jtext_strip(&s, &n, NULL, 0, JTEXT_LEFT | JTEXT_RIGHT);
	*odd = !jtext_ascii(s, n);
	*big = false;
	size_t i = n > 0 && (s[0] == '+' || s[0] == '-');
	bool negative = i && s[0] == '-';
	if (i >= n || s[i] < '0' || s[i] > '9') return false;
	int64_t v = 0;
	for (; i < n; i++) {
		if (s[i] == '_' && i + 1 < n && s[i + 1] >= '0' && s[i + 1] <= '9' && s[i - 1] != '_') continue;
		if (s[i] < '0' || s[i] > '9') return false;
		int64_t digit = s[i] - '0';
		*big = *big || __builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, negative ? -digit : digit, &v);
	}
	*out = v;
	return true;
}
