/* SPDX-License-Identifier: Apache-2.0
 * base_arena.h: memory that is given back all at once. Two kinds: a growing arena (parsers, requests) and a fixed one
 * (step scratch, sized by a dry run; when full it returns NULL and never allocates). Allocations are 64-byte aligned and zeroed
 * in the growing kind only. Not thread-safe. Pointers die at arena_rewind past their mark, arena_reset or arena_deinit.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#define ARENA_ALIGN 64u

typedef struct arena_block arena_block;

typedef struct arena {
	arena_block *head; /* own; newest block of a growing arena */
	char *base;        /* own; the one block of a fixed arena, NULL while measuring */
	size_t cap, used;  /* bytes of the fixed kind */
	size_t peak;       /* high-water mark of `used`, also while measuring */
	bool fixed, measuring;
} arena;

void arena_init(arena *a);                     /* growing */
bool arena_init_fixed(arena *a, size_t bytes); /* one block now; false when out of memory */
void arena_init_measure(arena *a); /* fixed kind without memory: hands out fake non-NULL addresses that must not be touched, and counts */
void *arena_alloc(arena *a, size_t bytes); /* NULL when out of memory or full */
void *arena_array(arena *a, size_t count, size_t size);
char *arena_strndup(arena *a, const char *s, size_t n);
size_t arena_mark(const arena *a);        /* fixed kind only */
void arena_rewind(arena *a, size_t mark); /* fixed kind only */
void arena_reset(arena *a);               /* fixed: used = 0; growing: frees all blocks */
void arena_deinit(arena *a);              /* safe on a zeroed arena */

#endif
