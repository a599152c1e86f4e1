/* SPDX-License-Identifier: Apache-2.0
 * base_buf.h: a growing byte string with a sticky failure flag, so that a writer appends freely and checks once at the end.
 * `data` is always zero-terminated when not NULL; the terminator is not counted in len.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/base_status.h"

typedef struct buf {
	char *data; /* own */
	size_t len, cap;
	size_t limit; /* most bytes it may hold; 0 = no limit */
	bool failed;  /* out of memory or over the limit; further appends are no-ops */
	bool over;    /* it failed because of the limit */
} buf;

void buf_deinit(buf *b); /* safe on a zeroed buf */
void buf_append(buf *b, const void *data, size_t len);
void buf_str(buf *b, const char *s);
void buf_char(buf *b, char c);
void buf_utf8(buf *b, unsigned code_point); /* a code point over 0x10FFFF or a surrogate becomes U+FFFD */
void buf_printf(buf *b, const char *format, ...) BASE_PRINTF(2, 3);
char *buf_take(buf *b); /* hands over data (mem_free it), never NULL unless failed; the buf is empty again */

#endif
