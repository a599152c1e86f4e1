/* SPDX-License-Identifier: Apache-2.0
 * tok_map.h: two open-addressing tables, filled once and then only read. tok_map: 64-bit keys to 32-bit values. tok_index: byte strings
 * that live elsewhere to ids. Linear probing, at most two thirds full. Not thread-safe while being filled.
 */
#ifndef TOK_MAP_H
#define TOK_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tok_map_slot {
	uint64_t key;
	uint32_t value; /* + 1; 0: empty */
} tok_map_slot;

typedef struct tok_map {
	tok_map_slot *slots; /* own */
	size_t count, cap;   /* cap a power of two, or 0 */
} tok_map;

#define TOK_NONE UINT32_MAX

void tok_map_deinit(tok_map *m);
bool tok_map_reserve(tok_map *m, size_t count);             /* room for count keys in all; false: out of memory */
bool tok_map_set(tok_map *m, uint64_t key, uint32_t value); /* replaces; grows; value < TOK_NONE */
uint32_t tok_map_get(const tok_map *m, uint64_t key);       /* TOK_NONE: absent */

typedef struct tok_index_slot {
	uint32_t hash; /* upper half of the key's hash: the home, and a filter that spares comparing */
	uint32_t id;   /* + 1; 0: empty */
} tok_index_slot;

typedef struct tok_index {
	tok_index_slot *slots; /* own */
	size_t count, cap;
} tok_index;

uint64_t tok_hash(const void *bytes, size_t len);
void tok_index_deinit(tok_index *x);
bool tok_index_reserve(tok_index *x, size_t count);
/* Does the entry `id` equal the wanted key? */
typedef bool (*tok_same_fn)(const void *owner, uint32_t id, const void *bytes, size_t len, uint8_t flags);
uint32_t tok_index_get(
    const tok_index *x, uint64_t hash, tok_same_fn same, const void *owner, const void *bytes, size_t len, uint8_t flags);
bool tok_index_add(tok_index *x, uint64_t hash, uint32_t id); /* the key must be absent */

#endif
