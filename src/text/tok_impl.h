/* SPDX-License-Identifier: Apache-2.0
 * tok_impl.h: what the files of this room share: the tokenizer's tables and the state of one call. Not for other rooms.
 * First to break: everything reachable from a `const tokenizer` is read-only after tok_open; whatever a call changes lives in tok_call.
 */
#ifndef TOK_IMPL_H
#define TOK_IMPL_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/base_buf.h"
#include "base/base_json.h"
#include "text/tok.h"
#include "text/tok_map.h"
#include "text/tok_table.h"
#include "text/tok_uni.h"

#define TOK_MAX_STEPS 16 /* pre-tokenizer splits, normalizers, template items */

/* A token. Its bytes are what decoding gives: the alphabet's characters mapped to bytes, or, where the text has others, as it stands. */
typedef struct tok_slot {
	uint32_t at, len; /* in tokenizer.blob */
	uint32_t added;   /* with TOK_IS_ADDED: index into tokenizer.added, which has the text and the bytes */
	uint8_t flags;
} tok_slot;

#define TOK_PRESENT 1u
#define TOK_RAW 2u /* the text is not of the byte alphabet, so no merge of bytes can give it */
#define TOK_IS_ADDED 4u
#define TOK_IS_SPECIAL 8u

typedef struct tok_added {
	uint32_t at, len;                 /* text, in tokenizer.blob */
	uint32_t decoded_at, decoded_len; /* what decoding gives: the normalised text's bytes where the token is `normalized` */
	uint32_t id;
	bool special, normalized, single_word, lstrip, rstrip;
} tok_added;

typedef struct tok_regex {
	pcre2_code *code; /* own */
	bool ahead;       /* a match depends on what follows its start alone, and tok_regex_sure may be asked */
	bool jit;         /* translated to machine code */
} tok_regex;

typedef enum tok_behavior { TOK_REMOVED, TOK_ISOLATED, TOK_MERGED_PREVIOUS, TOK_MERGED_NEXT, TOK_CONTIGUOUS } tok_behavior;

typedef struct tok_step {
	tok_regex regex;
	char *literal; /* own; used when regex.code is NULL */
	size_t literal_len;
	tok_behavior behavior;
	bool invert;
} tok_step;

/* Added tokens to look for: a byte trie, edges in a map from (node, byte) to node; node 0 is the root. */
typedef struct tok_trie {
	tok_map edges;
	uint32_t *ends; /* own; per node: index into tokenizer.added + 1, or 0 */
	uint32_t count, cap;
	bool first[256]; /* bytes that leave the root */
} tok_trie;

typedef enum tok_form { TOK_NFC, TOK_NFD, TOK_NFKC, TOK_NFKD } tok_form;

struct tokenizer {
	char *name;      /* own; what errors call the document */
	buf blob;        /* own; bytes of all pieces and texts */
	tok_slot *slots; /* own; per id */
	size_t vocab, slots_cap;
	tok_pieces pieces; /* of the model: bytes and rawness to id */
	tok_merges merges;
	int32_t byte_id[256]; /* -1: the vocabulary lacks the byte */
	bool ignore_merges, fuse_unk;
	bool lacks_bytes;       /* some byte_id is -1 */
	bool merges_to_special; /* some merge gives a special token */
	int32_t unk;            /* -1: unknown bytes are dropped */

	tok_added *added; /* own */
	size_t added_count;
	tok_index added_index;        /* text to index into added */
	tok_trie raw_trie, norm_trie; /* tokens looked for before and after normalising */
	tok_regex word;               /* one word character; only where an added token is single_word */

	tok_form forms[TOK_MAX_STEPS];
	size_t form_count;

	tok_step steps[TOK_MAX_STEPS];
	size_t step_count;
	size_t prefix_at;                       /* before this step a space is put in front, */
	bool prefix_space;                      /* if at all */
	bool byte_level, decodes, has_template; /* seen while loading */

	uint32_t *before, *after; /* own; the post-processor's ids around the text's */
	size_t before_count, after_count;

	pcre2_general_context *general; /* own */
};

typedef struct tok_symbol {
	int32_t prev, next; /* -1: none */
	uint32_t id;
	uint32_t rank; /* of the merge with the next one; TOK_NONE: none, or the symbol is gone */
} tok_symbol;

#define TOK_SHORT_WORD 32   /* bytes of a word whose best merge is looked for by a scan */
#define TOK_CACHED_BYTES 20 /* of a word */
#define TOK_CACHED_IDS 9

/* A word that took merging, and its ids. */
typedef struct tok_cached {
	uint8_t len, count; /* len 0: empty */
	char bytes[TOK_CACHED_BYTES];
	uint32_t ids[TOK_CACHED_IDS];
} tok_cached;

#define TOK_SURE_BYTES 24 /* of a beginning */

/* A beginning of a text that decides its first piece, whatever follows, and that piece's id. */
typedef struct tok_sure {
	char bytes[TOK_SURE_BYTES];
	uint32_t id;
	uint8_t len, piece; /* bytes of the beginning (0: empty) and of the piece (0: the beginning does not decide) */
	bool has_id;        /* the piece is one token */
} tok_sure;

/* One call of tok_encode: scratch that is used again from word to word. */
typedef struct tok_call {
	const tokenizer *t;
	unsigned flags;
	tok_ids *out;
	nh_error *e;
	pcre2_match_data *match;
	pcre2_match_context *context;
	pcre2_jit_stack *stack; /* only once the small one was not enough */
	buf subject, prefixed, prefixed_subject, normal;
	tok_symbol *symbols;
	size_t symbols_cap;
	uint64_t *heap; /* rank << 32 | position: the order of merging */
	size_t heap_count, heap_cap;
	size_t text_len;
	tok_cached *cache;         /* own; a power of two of words, or NULL */
	size_t cache_mask, merged; /* words - 1; words so far that took merging */
	tok_sure *sure;            /* own; a power of two, or NULL */
	size_t sure_mask, pieces;  /* their number - 1; pieces so far */
	const char *whole;         /* the text without marks; NULL: none were asked for */
	size_t *marks;             /* own; ascending offsets into it */
	size_t mark_count, mark_cap;
	bool near_mark; /* the stretch whose normal form is looked through has a mark in it */
} tok_call;

/* tok_load.c and its parts */
nh_status tok_load(tokenizer *t, const char *json, size_t len, nh_error *e);
nh_status tok_load_added(tokenizer *t, const json_t *list, nh_error *e);
nh_status tok_load_normalizer(tokenizer *t, const json_t *v, nh_error *e);
nh_status tok_load_splits(tokenizer *t, const json_t *v, nh_error *e);
nh_status tok_load_post(tokenizer *t, const json_t *v, nh_error *e);
nh_status tok_load_decoder(tokenizer *t, const json_t *v, nh_error *e);
/* Fails, naming the key, when o has one that is not in the NULL-terminated list and not null. `where` is the path of o in the document. */
nh_status tok_only_keys(const tokenizer *t, const json_t *o, const char *where, const char *const *keys, nh_error *e);
/* Makes the slot of a new id; *at is where the text starts in the blob. The bytes are already appended from `at`. */
nh_status tok_slot_set(tokenizer *t, int64_t id, size_t at, uint8_t flags, nh_error *e);
/* Appends text in its decoded form to the blob; *raw: it is not of the byte alphabet. */
void tok_append_decoded(buf *b, const char *text, size_t len, bool *raw);
/* The id of a piece of the model by its bytes; TOK_NONE. */
uint32_t tok_piece_id(const tokenizer *t, const char *bytes, size_t len, bool raw);
/* The index of an added token by its text; TOK_NONE. */
uint32_t tok_added_find(const tokenizer *t, const char *text, size_t len);

/* tok_trie.c */
void tok_trie_deinit(tok_trie *r);
bool tok_trie_add(tok_trie *r, const char *text, size_t len, uint32_t added); /* false: out of memory. Of equal texts the first wins */

typedef nh_status (*tok_text_fn)(tok_call *c, const char *text, size_t len);
/* Cuts text at the added tokens of the trie: their ids are emitted, what is between goes to `rest`. */
nh_status tok_trie_cut(tok_call *c, const tok_trie *r, const char *text, size_t len, tok_text_fn rest);

/* tok_regex.c: compiles a pattern of the reference's regex dialect; constructs that mean something else in PCRE2 are translated or refused. */
nh_status tok_regex_compile(tok_regex *r, const tokenizer *t, const char *pattern, size_t len, const char *where, nh_error *e);
void tok_regex_deinit(tok_regex *r);
/* The next match in subject at or after `from`: *found, and its bounds. */
nh_status tok_regex_next(
    tok_call *c, const tok_regex *r, const char *subject, size_t len, size_t from, bool *found, size_t *start, size_t *end);
/* Does this beginning of a text have the same first match at its start whatever follows? *piece is its length. Only where r->ahead. */
bool tok_regex_sure(tok_call *c, const tok_regex *r, const char *beginning, size_t len, size_t *piece);
/* A whole-subject question, for one-character subjects. */
nh_status tok_regex_is(tok_call *c, const tok_regex *r, const char *subject, size_t len, bool *yes);
extern const char TOK_WORD_PATTERN[];
extern const char TOK_GPT2_PATTERN[];

/* Whether a special token must not begin at `at`, which points into the whole text or into a normal form of a stretch of it. */
bool tok_marked(const tok_call *c, const char *at);

/* tok_norm.c: the normal form of valid UTF-8, in *out (emptied first), or text itself when no form is asked for. */
nh_status tok_normalize(const tokenizer *t, buf *out, const char *text, size_t len, const char **normal, size_t *normal_len, nh_error *e);

/* tok_split.c: pieces of a text without added tokens, in order. */
nh_status tok_split(tok_call *c, const char *text, size_t len, tok_text_fn word);

/* tok_bpe.c: one word to ids. */
nh_status tok_word(tok_call *c, const char *bytes, size_t len);

#define TOK_NO_MEMORY (1u << 31) /* a flag of tok_encode for tests: nothing is remembered; the ids are the same */

/* What decoding makes of an id, NULL where there is none. Differs from tok_piece for added tokens whose text is of the byte alphabet. */
const char *tok_decoded(const tokenizer *t, int32_t id, size_t *len);

bool tok_regex_setup(tokenizer *t);            /* false: out of memory */
nh_status tok_grow(tok_call *c, size_t count); /* the slow part of the next */

/* Room for `count` more ids in the output. */
static inline nh_status tok_reserve(tok_call *c, size_t count) { return c->out->cap - c->out->count < count ? tok_grow(c, count) : NH_OK; }

static inline nh_status tok_emit(tok_call *c, uint32_t id)
{
	TRY(tok_reserve(c, 1));
	c->out->ids[c->out->count++] = (int32_t)id;
	return NH_OK;
}

nh_status tok_call_init(tok_call *c, const tokenizer *t, unsigned flags, tok_ids *out, nh_error *e);
void tok_call_deinit(tok_call *c);

#endif
