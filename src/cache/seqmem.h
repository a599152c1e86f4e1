/* SPDX-License-Identifier: Apache-2.0
 * seqmem.h: what one sequence holds of the two pools: a state slot and the pages of its keys and values, and how many tokens are in them.
 * Growing happens before a step computes (reserve), counting after it has (length is the engine's to move at its commit point).
 * The invariant that breaks first: position p lies in page p / PAGES_TOKENS of the list, so pages are never skipped.
 */
#ifndef CACHE_SEQMEM_H
#define CACHE_SEQMEM_H

#include "cache/pages.h"
#include "cache/states.h"

typedef struct seqmem {
	states *states; /* borrow */
	pages *pages;   /* borrow */
	int32_t slot;   /* own reference; -1: none */
	int32_t *page;  /* own [page_limit]; the first page_count are held */
	int64_t page_count, page_limit;
	int64_t length; /* tokens computed into the memory */
} seqmem;

/* Memory for the page list of one sequence at a time, of at most max_tokens. */
nh_status seqmem_init(seqmem *m, states *s, pages *p, int64_t max_tokens, nh_error *e);
void seqmem_deinit(seqmem *m); /* releases what is held; safe on a zeroed one */

/* Begins a sequence: takes a slot, length 0. NH_ERR_LIMIT when no slot is free. Allocates nothing. */
nh_status seqmem_begin(seqmem *m, nh_error *e);
/* Takes pages until `tokens` fit. NH_ERR_LIMIT when the sequence or the pool is full; then nothing was taken. Allocates nothing. */
nh_status seqmem_reserve(seqmem *m, int64_t tokens, nh_error *e);
void seqmem_release(seqmem *m); /* gives everything back; may come twice */

/* The slot that a first (or next) row reads: -1 before anything was computed. */
static inline int32_t seqmem_slot_in(const seqmem *m) { return m->length == 0 ? -1 : m->slot; }
/* Where position `pos` is stored: page * PAGES_TOKENS + offset. The page must be reserved. */
static inline int64_t seqmem_kv_slot(const seqmem *m, int64_t pos)
{
	return (int64_t)m->page[pos / PAGES_TOKENS] * PAGES_TOKENS + pos % PAGES_TOKENS;
}

#endif
