/* SPDX-License-Identifier: Apache-2.0
 * base_log.c: formats one line, makes it printable and hands it over.
 */
#include "base/base_log.h"

#include <stdarg.h>
#include <stdio.h>

void log_line(const logger *l, nh_log_level level, const char *format, ...)
{
	if (!l || !l->fn || level > l->level) return;
	char text[1024];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	err_clean(text);
	l->fn(l->user, level, text);
}
