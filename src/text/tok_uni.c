/* SPDX-License-Identifier: Apache-2.0
 * tok_uni.c: the code of tok_uni.h. All functions are pure; the tables are constants.
 */
#include "text/tok_uni.h"

#include <string.h>

uint32_t uni_decode(const char *p, size_t left, size_t *used)
{
	const uint8_t *s = (const uint8_t *)p;
	*used = 1;
	if (s[0] < 0x80) return s[0];
	if (s[0] < 0xC2 || s[0] > 0xF4) return UNI_INVALID;
	size_t want = s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
	/* the second byte's range excludes overlong forms, surrogates and code points over 0x10FFFF */
	uint8_t lo = s[0] == 0xE0 ? 0xA0 : s[0] == 0xF0 ? 0x90 : 0x80;
	uint8_t hi = s[0] == 0xED ? 0x9F : s[0] == 0xF4 ? 0x8F : 0xBF;
	uint32_t cp = s[0] & (0x7Fu >> want);
	for (size_t i = 1; i < want; i++) {
		if (i >= left || s[i] < lo || s[i] > hi) return UNI_INVALID;
		cp = cp << 6 | (s[i] & 0x3Fu);
		*used = i + 1;
		lo = 0x80;
		hi = 0xBF;
	}
	return cp;
}

size_t uni_encode(uint32_t cp, char out[4])
{
	if (cp < 0x80) {
		out[0] = (char)cp;
		return 1;
	}
	size_t n = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
	for (size_t i = n - 1; i > 0; i--, cp >>= 6) out[i] = (char)(0x80 | (cp & 0x3F));
	out[0] = (char)((0xF00u >> n & 0xFF) | cp);
	return n;
}

size_t uni_valid_prefix(const char *s, size_t len)
{
	size_t i = 0, used;
	while (i < len) {
		uint64_t word;
		if (len - i >= sizeof word) {
			memcpy(&word, s + i, sizeof word);
			if ((word & 0x8080808080808080u) == 0) {
				i += sizeof word;
				continue;
			}
		}
		if (uni_decode(s + i, len - i, &used) == UNI_INVALID) return i;
		i += used;
	}
	return len;
}

void uni_repair(buf *out, const char *s, size_t len)
{
	while (len > 0) {
		size_t good = uni_valid_prefix(s, len), bad = 0;
		buf_append(out, s, good);
		if (good < len) {
			uni_decode(s + good, len - good, &bad);
			buf_append(out, "\xEF\xBF\xBD", 3);
		}
		s += good + bad;
		len -= good + bad;
	}
}

/* The first run that ends at or after cp; count when there is none. */
static size_t run_after(const uni_run *runs, size_t count, uint32_t cp)
{
	size_t lo = 0, hi = count;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		if (runs[mid].last < cp) lo = mid + 1;
		else hi = mid;
	}
	return lo;
}

const uni_run *uni_find(const uni_run *runs, size_t count, uint32_t cp)
{
	size_t i = run_after(runs, count, cp);
	return i < count && runs[i].first <= cp ? &runs[i] : NULL;
}

bool uni_stand_overlaps(uint32_t first, uint32_t last)
{
	size_t i = run_after(UNI_STAND, UNI_STAND_COUNT, first);
	return i < UNI_STAND_COUNT && UNI_STAND[i].first <= last;
}

const char *uni_subject(buf *out, const char *s, size_t len)
{
	size_t copied = 0, used;
	out->len = 0;
	for (size_t i = 0; i < len; i += used) {
		uint64_t word;
		if (len - i >= sizeof word) {
			memcpy(&word, s + i, used = sizeof word);
			if ((word & 0x8080808080808080u) == 0) continue;
		}
		used = 1;
		if ((uint8_t)s[i] < 0xE0) continue; /* no code point below U+0800 differs; continuation bytes belong to one of those */
		uint32_t cp = uni_decode(s + i, len - i, &used);
		const uni_run *r = uni_find(UNI_STAND, UNI_STAND_COUNT, cp);
		if (!r) continue;
		char stand[4];
		buf_append(out, s + copied, i - copied);
		buf_append(out, stand, uni_encode(r->stand, stand));
		copied = i + used;
	}
	if (copied == 0) return s;
	buf_append(out, s + copied, len - copied);
	return out->failed ? NULL : out->data;
}

bool uni_is_space(uint32_t cp)
{
	if (cp <= 0x20) return cp == 0x20 || (cp >= 9 && cp <= 13);
	return cp == 0x85 || cp == 0xA0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200A) || cp == 0x2028 || cp == 0x2029 || cp == 0x202F ||
	       cp == 0x205F || cp == 0x3000;
}

/* Bytes that print as themselves: 33..126, 161..172, 174..255; the others, in order, are U+0100 and on. */
static bool plain_byte(uint32_t b) { return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255); }

uint32_t uni_byte_char(uint8_t b)
{
	if (plain_byte(b)) return b;
	return 0x100u + (b <= 32 ? b : b <= 160 ? b - 127u + 33u : 67u);
}

int uni_char_byte(uint32_t cp)
{
	if (cp < 0x100) return plain_byte(cp) ? (int)cp : -1;
	uint32_t n = cp - 0x100;
	return n <= 32 ? (int)n : n <= 66 ? (int)(n - 33 + 127) : n == 67 ? 173 : -1;
}
