/* SPDX-License-Identifier: Apache-2.0
 * jinja_text.h: Python's idea of text over UTF-8: code points, white space, lines, letter case, repr() of floats. Pure functions
 * over valid UTF-8; nothing here fails except by the buf it writes to. Case mapping and printability are Unicode's as of utf8proc,
 * completed by the one-to-many mappings of SpecialCasing.txt.
 */
#ifndef CHAT_JINJA_TEXT_H
#define CHAT_JINJA_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base_buf.h"

bool jtext_valid(const char *s, size_t n); /* UTF-8, no surrogates */
bool jtext_ascii(const char *s, size_t n);
size_t jtext_count(const char *s, size_t n);                /* code points */
size_t jtext_offset(const char *s, size_t n, size_t index); /* byte offset of a code point; n when past the end */
unsigned jtext_next(const char *s, size_t n, size_t *pos);  /* code point at *pos, which moves on; needs *pos < n */
size_t jtext_prev(const char *s, size_t pos);               /* start of the code point that ends at pos > 0 */
bool jtext_is_space(unsigned c);                            /* str.isspace() and what strip() strips */

enum { JTEXT_LEFT = 1, JTEXT_RIGHT = 2 };
/* strip(): chars NULL means white space. Moves *s and *n. */
void jtext_strip(const char **s, size_t *n, const char *chars, size_t nchars, int sides);

/* First or last occurrence at or after `from`, as a byte offset; SIZE_MAX when there is none. */
size_t jtext_find(const char *s, size_t n, const char *sub, size_t nsub, size_t from);
size_t jtext_rfind(const char *s, size_t n, const char *sub, size_t nsub);

/* One line of str.splitlines() at *pos: its length without the break; *pos moves past the break. `brk` is the break's length. */
size_t jtext_line(const char *s, size_t n, size_t *pos, size_t *brk);

enum jtext_case { JTEXT_UPPER, JTEXT_LOWER, JTEXT_CAPITALIZE, JTEXT_TITLE };
void jtext_case(const char *s, size_t n, enum jtext_case how, buf *out);

void jtext_repr(const char *s, size_t n, buf *out);
void jtext_repr_float(double d, buf *out); /* finite: shortest digits that read back, as repr(float) */

/* Python's float() and int() of a string; false when the syntax is not theirs. Floats may come out infinite or NaN;
 * *big is set when an integer is well formed but over 64 bits. Non-ASCII digits count as not well formed (*odd is set). */
bool jtext_read_float(const char *s, size_t n, double *out, bool *odd);
bool jtext_read_int(const char *s, size_t n, int64_t *out, bool *big, bool *odd);

#endif
