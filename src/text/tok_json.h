/* SPDX-License-Identifier: Apache-2.0
 * tok_json.h: the two big members of a tokenizer.json, model.vocab and model.merges, read without building a tree of a million values;
 * everything else is left to Jansson. Knows JSON, not tokens. The cut is only a cut: the reader afterwards is strict.
 */
#ifndef TOK_JSON_H
#define TOK_JSON_H

#include "base/base_buf.h"

typedef struct tok_span {
	const char *at; /* borrow; NULL: not there */
	size_t len;
} tok_span;

/* Called with the first byte of a big member: reads it where it stands and returns what follows it, or NULL: then it is skipped. */
typedef const char *(*tok_take_fn)(void *user, bool is_vocab, const char *at, const char *end);

/* Copies the document to rest with the values of model.vocab (an object) and model.merges (an array) as null, and returns their spans. Each is offered
 * to `take` (may be NULL) on the way, so that millions of bytes are read once. With `lines` the line ends of the values are kept, for errors that count them.
 * Malformed documents are copied as they are, as far as they go. Keys spelled with escapes are not found. */
void tok_json_cut(const char *json, size_t len, bool lines, tok_take_fn take, void *user, buf *rest, tok_span *vocab, tok_span *merges);

typedef struct tok_reader {
	const char *p, *end, *start; /* borrow */
	const char *name, *what;     /* for errors: document and member */
	nh_error *e;
} tok_reader;

bool tok_read_is(tok_reader *r, char c); /* skips white space; is the next byte c? Consumes nothing else */
nh_status tok_read_char(tok_reader *r, char c);
/* A string's text: inside the document where it has no escapes, else in scratch (emptied first). Valid UTF-8. */
nh_status tok_read_string(tok_reader *r, buf *scratch, tok_span *out);
/* An integer from 0 to max; anything else is an error that quotes it, and `key`, which it belongs to. */
nh_status tok_read_id(tok_reader *r, int64_t max, tok_span key, int64_t *out);

#endif
