/* SPDX-License-Identifier: Apache-2.0
 * prefix_impl.h: what the parts of the prefix cache share: the table of snapshots (prefix_table.c), the memory of prompts that were seen
 * (prefix_ghost.c) and the cache itself (prefix.c). Tests look in here too: they weaken the hash.
 * The invariant that breaks first: an entry's `after` is the longest other entry that is a prefix of it.
 */
#ifndef CACHE_PREFIX_IMPL_H
#define CACHE_PREFIX_IMPL_H

#include "cache/prefix.h"

/* Key of a prefix that ends with these n ids (one unit), given the key of what is before them. Never relied on to tell prompts apart. */
typedef uint64_t (*prefix_hash_fn)(uint64_t before, const int32_t *ids, int64_t n);

typedef struct prefix_entry {
	uint64_t key;
	int64_t length; /* tokens; 0: the entry is free */
	int32_t *ids;   /* own [length] */
	int32_t *page;  /* own [length / PAGES_TOKENS], a reference each */
	int32_t slot;   /* a reference */
	int32_t next;   /* entry of the same bucket, or the next free one; -1: none */
	int32_t after;  /* entry of the next shorter prefix; -1: none */
	double clock;   /* of the table at its last use */
	uint64_t used;  /* the same as a serial number, for ties */
} prefix_entry;

typedef struct prefix_table {
	states *states;      /* borrow */
	pages *pages;        /* borrow */
	prefix_entry *entry; /* own [limit] */
	int32_t *bucket;     /* own [buckets] */
	uint32_t *held;      /* own [pages]; references of a page that are entries' */
	int32_t limit, count, vacant;
	uint32_t buckets; /* a power of two */
	double clock;
	uint64_t serial;
} prefix_table;

nh_status prefix_table_init(prefix_table *t, states *s, pages *p, int32_t limit, nh_error *e);
void prefix_table_deinit(prefix_table *t); /* drops all entries; safe on a zeroed one */
/* The entry of exactly these ids; -1: none. Compares the ids. */
int32_t prefix_table_find(const prefix_table *t, uint64_t key, const int32_t *ids, int64_t length);
/* An entry that takes over the reference to `slot` and shares the pages of m up to m->length; after: as above. There must be room. -1: out of
 * memory; the reference stays the caller's then. */
int32_t prefix_table_add(
    prefix_table *t, uint64_t key, const int32_t *ids, int64_t length, int32_t slot, const int32_t *page, int32_t after);
void prefix_table_drop(prefix_table *t, int32_t i);
void prefix_table_use(prefix_table *t, int32_t i);
/* The entry that is worth least, -1: none. Not `spared`; where no slot is wanted, only one with a page that nobody but entries holds. */
int32_t prefix_table_least(const prefix_table *t, bool slot, int32_t spared);
double prefix_table_worth(const prefix_table *t, int32_t i);
uint64_t prefix_table_bytes(const prefix_table *t);

/* Keys of prefixes that prompts had. Bounded: within a short run of places the one that was seen longest ago gives way. */
typedef struct prefix_ghost {
	struct ghost_place *place; /* own */
	uint64_t serial;
} prefix_ghost;

bool prefix_ghost_init(prefix_ghost *g);
void prefix_ghost_deinit(prefix_ghost *g);
void prefix_ghost_see(prefix_ghost *g, uint64_t key);
bool prefix_ghost_seen(const prefix_ghost *g, uint64_t key);

struct prefix_cache {
	prefix_options options;
	int64_t unit;
	prefix_hash_fn hash;
	prefix_table table;
	prefix_ghost ghost;
	tensor pair; /* [2] i32 in the arm's memory: from, to */
	prefix_stats stats;
};

#endif
