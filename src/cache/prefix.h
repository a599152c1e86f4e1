/* SPDX-License-Identifier: Apache-2.0
 * prefix.h: prompt prefixes that are kept: at an edge, the recurrent state (a slot of the pool) beside the KV pages up to it, shared. A hit equals a
 * cold run bit for bit, because only prefill-form data of a request's first segment is published, at edges that are page borders too, and any
 * split at edges is no split (architecture 6.1, rule 4). Keys are hashes of the ids; on a hit the ids themselves are compared.
 * Owned by the engine's thread. The invariant that breaks first: a kept page is never written again by anyone.
 */
#ifndef CACHE_PREFIX_H
#define CACHE_PREFIX_H

#include "cache/seqmem.h"

typedef struct prefix_cache prefix_cache;

typedef struct prefix_options {
	states *states;      /* borrow */
	pages *pages;        /* borrow */
	exec *x;             /* borrow; who copies state (op state_copy), counted */
	int chunk;           /* scan chunk; the cache's unit is the least common multiple of chunk and PAGES_TOKENS */
	int32_t slot_limit;  /* most slots that snapshots may hold; 0: the cache is off and every call is a miss or a no-op */
	struct spill *spill; /* borrow; NULL: evicted snapshots are dropped */
} prefix_options;

typedef struct prefix_stats {
	uint64_t hits, misses, published, evictions, reused_tokens;
	int32_t snapshots;
	uint64_t bytes; /* of the state and pages that only snapshots hold on to */
} prefix_stats;

nh_status prefix_open(prefix_cache **out, const prefix_options *options, nh_error *e);
void prefix_close(prefix_cache *c); /* gives back slots and pages; NULL is fine */
int64_t prefix_unit(const prefix_cache *c);

/* The longest kept prefix of ids[0, n) whose length is at most n - 1, adopted into m (released, initialised): a fresh slot with a copy of the state, the
 * pages shared, m->length set. *length 0: a miss, m is still released. Other snapshots give way where no slot is free; NH_ERR_LIMIT when there is none even so,
 * or the exec's error: m is released then. */
nh_status prefix_adopt(prefix_cache *c, const int32_t *ids, int64_t n, seqmem *m, int64_t *length, nh_error *e);

/* The next position after `pos` at which a snapshot of this prompt is worth keeping, so that a piece should end there; n if none. Wanted are: the last two
 * units that are <= n - 1, units at doubling distances (1, 2, 4, ... units), and branch points: units up to which an earlier prompt had the same ids
 * while no snapshot is kept there (the last such unit). */
int64_t prefix_next(const prefix_cache *c, const int32_t *ids, int64_t n, int64_t pos);
/* Keeps the state of m at m->length, a unit that prefix_next named, for the prompt ids[0, n). A no-op when it is kept already, or when no slot can be had
 * (never by taking one that a sequence needs). Evicts by value: tokens that the snapshot saves beyond the next shorter one, per byte, aged by use. */
void prefix_publish(prefix_cache *c, const int32_t *ids, int64_t n, const seqmem *m);
/* Remembers the prompt's ids unit by unit (hashes only), for the branch points of later prompts: after the last prefix_next of this one, which
 * would else find itself. */
void prefix_seen(prefix_cache *c, const int32_t *ids, int64_t n);

/* Gives back slots and pages until so many are free, least valuable first; false when it could not: then all that helps has been given back. Called before
 * a sequence is swapped out. All slots of the pool: puts every snapshot into the spill, which prefix_close does not. */
bool prefix_evict(prefix_cache *c, int32_t free_slots, int64_t free_pages);
void prefix_get_stats(const prefix_cache *c, prefix_stats *out);

#endif
