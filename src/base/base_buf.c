/* SPDX-License-Identifier: Apache-2.0
 * base_buf.c: growth by half, sticky failure.
 */
#include "base/base_buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/base_mem.h"

void buf_deinit(buf *b)
{
	mem_free(b->data);
	memset(b, 0, sizeof *b);
}

static bool reserve(buf *b, size_t more)
{
	size_t need;
	if (b->failed) return false;
	if (!mem_add(b->len, more, &need) || need == (size_t)-1 || (b->limit && need > b->limit)) {
		b->failed = b->over = true;
		return false;
	}
	if (b->data && need < b->cap) return true;
	size_t cap = b->cap + b->cap / 2 + 64;
	if (cap <= need) cap = need + 1;
	char *p = mem_resize(b->data, cap, 1);
	if (!p) {
		b->failed = true;
		return false;
	}
	b->data = p;
	b->cap = cap;
	return true;
}

void buf_append(buf *b, const void *data, size_t len)
{
	if (!reserve(b, len)) return;
	if (len) memcpy(b->data + b->len, data, len);
	b->len += len;
	b->data[b->len] = 0;
}

void buf_str(buf *b, const char *s) { buf_append(b, s, strlen(s)); }
void buf_char(buf *b, char c) { buf_append(b, &c, 1); }

void buf_utf8(buf *b, unsigned cp)
{
	char u[4];
	if (cp > 0x10FFFF || (cp >= 0xD800 && cp <= 0xDFFF)) cp = 0xFFFD;
	if (cp < 0x80) {
		buf_char(b, (char)cp);
		return;
	}
	int n = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
	for (int i = n - 1; i > 0; i--, cp >>= 6) u[i] = (char)(0x80 | (cp & 0x3F));
	u[0] = (char)((0xF00 >> n) | cp);
	buf_append(b, u, (size_t)n);
}

void buf_printf(buf *b, const char *format, ...)
{
	va_list args, again;
	va_start(args, format);
	va_copy(again, args);
	int n = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (n < 0) b->failed = true;
	else if (reserve(b, (size_t)n)) {
		vsnprintf(b->data + b->len, (size_t)n + 1, format, again);
		b->len += (size_t)n;
	}
	va_end(again);
}

char *buf_take(buf *b)
{
	if (!b->data) buf_append(b, "", 0);
	if (b->failed) {
		buf_deinit(b);
		return NULL;
	}
	char *p = b->data;
	memset(b, 0, sizeof *b);
	return p;
}
