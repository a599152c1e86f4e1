/* SPDX-License-Identifier: Apache-2.0
 * tok_table.h: the two big tables of a tokenizer, filled once and then only read: pieces (bytes to id) and merges (two ids to rank and id).
 * Made for few cache misses: a short piece is compared in its slot, a pair that does not merge is known by a slot of eight bytes, and pairs of
 * single bytes have a table of their own. Knows nothing of JSON, words or added tokens. Not thread-safe while being filled.
 * First to break: a slot only says where to look; equality is always decided on all bytes, or on both ids.
 */
#ifndef TOK_TABLE_H
#define TOK_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/tok_map.h"

#define TOK_MAX_PIECE_BYTES 0xFFFFFEu /* of one piece */

typedef struct tok_piece_slot {
	uint64_t key;      /* up to 7 bytes of piece with length and rawness on top; a longer one: where its bytes are, with its length */
	uint32_t hash, id; /* id + 1; 0: empty */
} tok_piece_slot;

typedef struct tok_pieces {
	tok_piece_slot *slots; /* own */
	size_t count, cap;     /* cap a power of two, or 0 */
} tok_pieces;

void tok_pieces_deinit(tok_pieces *x);
/* The id of a piece; TOK_NONE: absent. `blob` holds the bytes of all pieces. */
uint32_t tok_pieces_get(const tok_pieces *x, const char *blob, const char *bytes, size_t len, bool raw);
void tok_pieces_expect(const tok_pieces *x, const char *bytes, size_t len, bool raw); /* fetches what tok_pieces_get will need */
/* Enters the piece of `len` <= TOK_MAX_PIECE_BYTES bytes at blob[at]; *other is TOK_NONE, or the id that has these bytes already (then nothing is
 * entered). False: out of memory. */
bool tok_pieces_add(tok_pieces *x, const char *blob, uint32_t at, size_t len, bool raw, uint32_t id, uint32_t *other);

typedef struct tok_merge {
	uint32_t left, right, id;
} tok_merge;

typedef struct tok_pair_slot {
	uint32_t check, rank; /* rank + 1; 0: empty */
} tok_pair_slot;

typedef struct tok_merges {
	tok_merge *list; /* own; by rank: the order of the file */
	size_t count, list_cap;
	tok_pair_slot *slots; /* own */
	size_t pairs, cap;    /* cap a power of two, or 0 */
	uint32_t *bytes;      /* own; [first][second] byte to rank, TOK_NONE */
} tok_merges;

bool tok_merges_init(tok_merges *x, size_t expected); /* room for about as many pairs; false: out of memory */
void tok_merges_deinit(tok_merges *x);
void tok_merges_expect(const tok_merges *x, uint32_t left, uint32_t right); /* fetches what the next two will need */
/* Gives the pair the next rank; of two equal pairs the later one counts. first, second: the byte that each side is, -1 when it is longer. */
bool tok_merges_add(tok_merges *x, tok_merge m, int first, int second);
uint32_t tok_merges_rank(const tok_merges *x, uint32_t left, uint32_t right); /* TOK_NONE: they do not merge */

static inline uint32_t tok_merges_byte_rank(const tok_merges *x, uint8_t first, uint8_t second)
{
	return x->bytes[(size_t)first << 8 | second];
}

#endif
