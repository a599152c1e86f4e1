/* SPDX-License-Identifier: Apache-2.0
 * spill.h: evicted prefix snapshots as files in a folder: found again by identity of checkpoint, arm, profile and ids. Checksummed; written to a temporary
 * name and renamed; safe against a crash, a full disk and strange files. Never more bytes than its limit: the oldest files go first.
 * Files are written on a thread of a job pool while the engine goes on. All functions here are the engine's thread's, and none of them waits
 * for a disk to take bytes, but spill_close.
 * The invariant that breaks first: what does not verify is deleted and counted, never used.
 */
#ifndef CACHE_SPILL_H
#define CACHE_SPILL_H

#include "base/base_jobs.h"
#include "base/base_log.h"
#include "cache/swap.h"

typedef struct spill spill;

/* Snapshots that may be on their way to the disk: what is evicted while so many are is lost, because host memory is not for slow disks. */
#define SPILL_PENDING 32
#define SPILL_PENDING_BYTES ((uint64_t)512 << 20) /* a larger one goes alone */

typedef struct spill_stats {
	uint64_t stored, loaded, rejected, failed_writes, dropped, bytes; /* stored: complete under their names */
	uint64_t pending;                                                 /* on their way, as last looked at */
} spill_stats;

/* tag: what must agree besides the ids: identity, arm, tier, profile, KV type; any text without newlines. The folder is made if absent. Files of other
 * tags are left alone. writer: who writes (borrow; outlives the spill); NULL: spill_store itself. */
nh_status spill_open(spill **out, const char *folder, uint64_t limit_bytes, const char *tag, const logger *log, jobs *writer, nh_error *e);
void spill_close(spill *s); /* waits for what is on its way; files stay; NULL is fine */
/* Stores the state after ids[0, length), unless it is stored or larger than the limit; found from now on. Takes the state over, the ids are
 * copied. A failed write is counted and told once, and is no error. */
void spill_store(spill *s, const int32_t *ids, int64_t length, swapped *state);
/* Takes note of writes that have ended. The other functions do so too; for an engine that has nothing to store or find. */
void spill_adopt(spill *s);
/* The longest stored prefix of ids[0, n) with length <= n - 1 and length > longer_than, a multiple of unit; *out NULL: none. */
nh_status spill_find(spill *s, const int32_t *ids, int64_t n, int64_t longer_than, int64_t unit, const states *st, const pages *p,
    swapped **out, nh_error *e);
void spill_get_stats(const spill *s, spill_stats *out);

#endif
