/* SPDX-License-Identifier: Apache-2.0
 * base_arena.c: bump allocation. The invariant that breaks first: used <= cap in a fixed arena, whatever is asked.
 */
#include "base/base_arena.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/base_mem.h"

#define BLOCK_BYTES ((size_t)64 << 10)
/* A measuring arena hands out addresses from here: aligned, never NULL, and outside what a process can map, so that a touch
 * faults at once however much was asked for. */
#define MEASURE_BASE ((uintptr_t)1 << 62)

struct arena_block {
	arena_block *next;
	size_t cap, used;
	char *data; /* aligned start inside this allocation */
};

void arena_init(arena *a) { memset(a, 0, sizeof *a); }

bool arena_init_fixed(arena *a, size_t bytes)
{
	memset(a, 0, sizeof *a);
	a->fixed = true;
	a->base = mem_aligned(ARENA_ALIGN, bytes);
	a->cap = a->base ? bytes : 0;
	return a->base != NULL;
}

void arena_init_measure(arena *a)
{
	memset(a, 0, sizeof *a);
	a->fixed = a->measuring = true;
	a->cap = SIZE_MAX / 4;
}

static bool round_up(size_t bytes, size_t *out)
{
	if (!mem_add(bytes, ARENA_ALIGN - 1, out)) return false;
	*out &= ~(size_t)(ARENA_ALIGN - 1);
	if (*out == 0) *out = ARENA_ALIGN;
	return true;
}

static void *grow(arena *a, size_t bytes)
{
	size_t cap = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
	size_t head = (sizeof(arena_block) + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1), whole;
	if (!mem_add(cap, head, &whole)) return NULL;
	arena_block *b = mem_aligned(ARENA_ALIGN, whole);
	if (!b) return NULL;
	b->data = (char *)b + head;
	b->cap = cap;
	b->used = bytes;
	b->next = a->head;
	a->head = b;
	return b->data;
}

void *arena_alloc(arena *a, size_t bytes)
{
	size_t n;
	if (!round_up(bytes, &n)) return NULL;
	if (!a->fixed) {
		arena_block *b = a->head;
		if (!b || n > b->cap - b->used) return grow(a, n);
		void *p = b->data + b->used;
		b->used += n;
		return p;
	}
	if (n > a->cap - a->used) return NULL;
	uintptr_t base = a->measuring ? MEASURE_BASE : (uintptr_t)a->base;
	void *p = (void *)(base + a->used);
	a->used += n;
	if (a->used > a->peak) a->peak = a->used;
	return p;
}

void *arena_array(arena *a, size_t count, size_t size)
{
	size_t bytes;
	return mem_mul(count, size, &bytes) ? arena_alloc(a, bytes) : NULL;
}

char *arena_strndup(arena *a, const char *s, size_t n)
{
	char *p = n < SIZE_MAX ? arena_alloc(a, n + 1) : NULL;
	if (p && !a->measuring) {
		memcpy(p, s, n);
		p[n] = 0;
	}
	return p;
}

size_t arena_mark(const arena *a)
{
	assert(a->fixed);
	return a->used;
}

void arena_rewind(arena *a, size_t mark)
{
	assert(a->fixed && mark <= a->used);
	a->used = mark;
}

void arena_reset(arena *a)
{
	a->used = 0;
	while (a->head) {
		arena_block *b = a->head;
		a->head = b->next;
		mem_free(b);
	}
}

void arena_deinit(arena *a)
{
	arena_reset(a);
	mem_free(a->base);
	memset(a, 0, sizeof *a);
}
