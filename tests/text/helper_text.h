/* SPDX-License-Identifier: Apache-2.0
 * helper_text.h: small tokenizers and comparisons for the tests of this folder. Failures are cmocka's.
 */
#ifndef HELPER_TEXT_H
#define HELPER_TEXT_H

#include "base/base_buf.h"
#include "base/base_json.h"
#include "text/tok.h"

/* A tokenizer.json with the 256 bytes at ids 4.. (in the order of bytes) after <unk> <s> </s> <think>, the pieces "ab" and "abc", two merges,
 * no splitting; `members` is JSON text that replaces or adds top-level members, e.g. "\"normalizer\": {\"type\": \"NFC\"}", or "". */
char *text_small_json(const char *members);      /* mem_free */
tokenizer *text_open_small(const char *members); /* must succeed */
#define TEXT_BYTE_ID(b) (4 + (b))
#define TEXT_AB 260
#define TEXT_ABC 261

int64_t text_cpu_us(void); /* processor time of this program, which other programs do not stretch */

json_t *text_load_data(const char *name); /* tests/text/data/<name>; must be there */

/* Encodes; fails the test where ids differ from the JSON array, naming `what`. */
void text_check_ids(const tokenizer *t, const char *text, size_t len, unsigned flags, const json_t *ids, const char *what);

/* Decodes ids at once, then id by id with a look at every prefix (valid UTF-8 only); both must be `want`. */
void text_check_decoded(const tokenizer *t, const json_t *ids, bool skip_special, const char *want, size_t len, const char *what);

#endif
