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

/* Error text may quote bytes of a hostile file; a terminal must not interpret them, and an error is one line. */
static void clean(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7f) *text = '?';
}

nh_status err_set(nh_error *e, nh_status code, const char *format, ...)
{
	if (!e) return code;
	va_list args;
	va_start(args, format);
	e->code = code;
	vsnprintf(e->text, sizeof e->text, format, args);
	va_end(args);
	clean(e->text);
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
	clean(e->text);
	return code;
}
