/* SPDX-License-Identifier: Apache-2.0
 * tok.h: the byte-level BPE tokenizer of a tokenizer.json: text to ids, ids to bytes. Equal to the Hugging Face `tokenizers` library
 * for what it accepts; a file that asks for anything else is refused by name, never approximated.
 * Knows nothing of chat, models or templates. A tokenizer never changes after it is opened, so any number of threads may use one.
 *
 * Accepted: model BPE (merges as pairs or "a b", ignore_merges, unk_token, fuse_unk); added_tokens with all their flags; normalizer null,
 * NFC, NFD, NFKC, NFKD and sequences; pre_tokenizer Split (string or regex, every behavior, invert), then one ByteLevel; post_processor
 * null, ByteLevel, TemplateProcessing (its `single` part) and sequences; decoder ByteLevel. truncation and padding describe batches
 * and are ignored, as the serving stacks reset them.
 */
#ifndef TOK_H
#define TOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base_status.h"

#define TOK_MAX_IDS (1 << 22)      /* ids are below this */
#define TOK_MAX_ADDED_BYTES 1024   /* of one added token's text */
#define TOK_MAX_PATTERN_BYTES 8192 /* of one regex */

typedef struct tokenizer tokenizer;

/* Reads a file, or `len` bytes of JSON that errors call `name`. Errors name the document and the item: NH_ERR_FORMAT (JSON), NH_ERR_CONFIG
 * (contradictory), NH_ERR_UNSUPPORTED (not understood), NH_ERR_LIMIT, NH_ERR_NOTFOUND, NH_ERR_IO, NH_ERR_NOMEM. On failure *out is NULL. */
nh_status tok_open(tokenizer **out, const char *path, nh_error *e);
nh_status tok_open_text(tokenizer **out, const char *json, size_t len, const char *name, nh_error *e);
void tok_close(tokenizer *t); /* NULL is legal */

typedef struct tok_ids {
	int32_t *ids; /* own; mem_free */
	size_t count, cap;
} tok_ids;

void tok_ids_deinit(tok_ids *v); /* safe on a zeroed one */

/* Flags of tok_encode. */
#define TOK_ADD_SPECIAL 1u /* apply the post-processor: a template's BOS and its kin */
#define TOK_PLAIN_SPECIAL \
	2u /* texts of special tokens are ordinary text; other added tokens (<think>) are still recognised, as in the reference's
                                encode_special_tokens. No special id is then made from the text in any way */
#define TOK_MARKED \
	8u /* TOK_MARK is no text but a mark: at what follows it no special token begins, so it is ordinary text where it reads like one. Between
                                marks all is as without the flag. A text with marks must be UTF-8 else (NH_ERR_ARG) */
#define TOK_MARK '\xFF'    /* a byte that no UTF-8 text holds */
#define TOK_PLAIN_ADDED 4u /* texts of all added tokens are ordinary text; implies TOK_PLAIN_SPECIAL */

/* Appends the ids of `len` bytes of text to *out (zeroed or in use). Bytes that are not UTF-8 are read as U+FFFD, one for each
 * longest prefix of a character, as Python's errors="replace". On failure *out is as before. Time is n log n in the length of
 * a word, linear in the number of words, as far as the file's regex is. NH_ERR_LIMIT: over 1 GiB of text, or the regex gave up. */
nh_status tok_encode(const tokenizer *t, const char *text, size_t len, unsigned flags, tok_ids *out, nh_error *e);

size_t tok_vocab(const tokenizer *t); /* the largest id + 1; ids below may have holes */

/* The raw bytes of a token (not terminated; may be half a character), for added tokens their text. NULL and *len = 0 where there is no such id. Borrowed. */
const char *tok_piece(const tokenizer *t, int32_t id, size_t *len);

/* The id of an added token by its text, else of a vocabulary piece by its bytes; -1 when there is none. */
int32_t tok_find(const tokenizer *t, const char *text, size_t len);

/* Whether a special token's text begins at text[0]: the whole of it, only a beginning that the text's end cuts off, or neither. */
typedef enum tok_reads { TOK_READS_PLAIN, TOK_READS_PART, TOK_READS_SPECIAL } tok_reads;
tok_reads tok_reads_special(const tokenizer *t, const char *text, size_t len);

bool tok_is_special(const tokenizer *t, int32_t id); /* an added token with special: true; skipped by skip_special decoding */
bool tok_is_added(const tokenizer *t, int32_t id);

#endif
