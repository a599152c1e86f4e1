/* SPDX-License-Identifier: Apache-2.0
 * base_status.c: status names and error texts. Owns no state.
 */
#include "base/base_status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *nh_status_name(nh_status status)
{
	switch (status) {
#define NAME(name, value, message) \
	case name: return #name;
		NH_STATUS_LIST(NAME)
#undef NAME
	}
	return "NH_ERR_?";
}

const char *nh_status_message(nh_status status)
{
	switch (status) {
#define MESSAGE(name, value, message) \
	case name: return message;
		NH_STATUS_LIST(MESSAGE)
#undef MESSAGE
	}
	return "unknown status";
}

/* Length of the well-formed UTF-8 sequence at p (Unicode 16, table 3-7), 0 when there is none. Stops at the terminator. */
static int sequence(const unsigned char *p)
{
	if (p[0] < 0x80) return 1;
	if (p[0] < 0xC2 || p[0] > 0xF4) return 0;
	int n = p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
	unsigned lo = p[0] == 0xE0 ? 0xA0 : p[0] == 0xF0 ? 0x90 : 0x80, hi = p[0] == 0xED ? 0x9F : p[0] == 0xF4 ? 0x8F : 0xBF;
	if (p[1] < lo || p[1] > hi) return 0;
	for (int i = 2; i < n; i++)
		if ((p[i] & 0xC0) != 0x80) return 0;
	return n;
}

/* Error text may quote bytes of a hostile file, and a format's width may cut a character in two. A terminal must not interpret
 * them, and an error is one line. */
void err_clean(char *text)
{
	unsigned char *p = (unsigned char *)text;
	while (*p) {
		int n = sequence(p);
		bool control = *p < 0x20 || *p == 0x7F || (n == 2 && p[0] == 0xC2 && p[1] < 0xA0);
		if (n == 0 || control) memset(p, '?', n ? (size_t)n : 1);
		p += n ? n : 1;
	}
}

nh_status err_set(nh_error *e, nh_status code, const char *format, ...)
{
	if (!e) return code;
	va_list args;
	va_start(args, format);
	e->code = code;
	vsnprintf(e->text, sizeof e->text, format, args);
	va_end(args);
	err_clean(e->text);
	return code;
}

nh_status err_prefix(nh_error *e, nh_status code, const char *format, ...)
{
	if (!e) return code;
	char old[sizeof e->text], head[256];
	memcpy(old, e->text, sizeof old);
	va_list args;
	va_start(args, format);
	vsnprintf(head, sizeof head, format, args);
	va_end(args);
	int n = snprintf(e->text, sizeof e->text, "%s: ", head);
	if (n < 0 || (size_t)n >= sizeof e->text) n = 0;
	size_t room = sizeof e->text - (size_t)n - 1, len = strnlen(old, sizeof old - 1);
	if (len > room) len = room;
	memcpy(e->text + n, old, len);
	e->text[(size_t)n + len] = 0;
	err_clean(e->text);
	return code;
}
