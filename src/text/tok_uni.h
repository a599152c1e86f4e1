/* SPDX-License-Identifier: Apache-2.0
 * tok_uni.h: UTF-8 and the Unicode facts that PCRE2 and utf8proc of this system do not share with the reference tokenizer.
 * Owns the generated tables (gen/uni_table.c) and the byte alphabet of byte-level BPE. Knows nothing of vocabularies.
 * First to break: a stand-in must have the UTF-8 length of what it stands for, or all offsets shift.
 */
#ifndef TOK_UNI_H
#define TOK_UNI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base_buf.h"

typedef struct uni_run {
	uint32_t first, last, stand;
} uni_run;

extern const uni_run UNI_STAND[];
extern const size_t UNI_STAND_COUNT;
extern const uni_run UNI_INERT[];
extern const size_t UNI_INERT_COUNT;

#define UNI_INVALID UINT32_MAX

/* Decodes one code point of at most `left` > 0 bytes. *used is the bytes consumed: for an invalid start (UNI_INVALID) the
 * longest prefix that could have begun a character, at least 1, which is what decoders replace by one U+FFFD. */
uint32_t uni_decode(const char *p, size_t left, size_t *used);

size_t uni_encode(uint32_t cp, char out[4]); /* bytes written */

size_t uni_valid_prefix(const char *s, size_t len); /* bytes before the first invalid one, = len when all is valid */

/* Appends s with each invalid subpart as U+FFFD. */
void uni_repair(buf *out, const char *s, size_t len);

/* The run of `runs` (sorted) that holds cp, or NULL. */
const uni_run *uni_find(const uni_run *runs, size_t count, uint32_t cp);

/* True when a run of UNI_STAND meets [first, last]. */
bool uni_stand_overlaps(uint32_t first, uint32_t last);

/* Valid UTF-8 s with every code point of UNI_STAND replaced, same length. Returns s itself when nothing differs; else out's data
 * (out is emptied first). NULL when out of memory. */
const char *uni_subject(buf *out, const char *s, size_t len);

bool uni_is_space(uint32_t cp); /* White_Space */

/* The alphabet of byte-level BPE: each byte has a printable code point below 0x144. */
uint32_t uni_byte_char(uint8_t byte);
int uni_char_byte(uint32_t cp); /* -1: not of the alphabet */

#endif
