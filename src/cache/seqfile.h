/* SPDX-License-Identifier: Apache-2.0
 * seqfile.h: a whole sequence in a file: what it was computed by, its tokens and their forms, its state. Versioned, checksummed (XXH3-64 over everything
 * before it), little-endian, written to a temporary name and renamed. Used for sessions and by the spill.
 * The invariant that breaks first: a file that was cut, altered or written by a newer version is refused with the reason, before anything is used.
 */
#ifndef CACHE_SEQFILE_H
#define CACHE_SEQFILE_H

#include "cache/swap.h"

#define SEQFILE_VERSION 1
#define SEQFILE_LIMIT ((uint64_t)1 << 40)

typedef struct seqfile_head {
	uint32_t version;
	char identity[68], model[64], arm[32], tier[32], numerics[32], kv_dtype[16]; /* terminated */
	int64_t tokens;                                                              /* ids in the file: history, the pending one included */
	int64_t computed;                                                            /* tokens that the state covers */
	int64_t generated;                                                           /* of the history, tokens that the model chose */
	int64_t segment;                                                             /* origin of the segment that is open, or computed */
	int64_t created;                                                             /* Unix seconds */
	uint64_t content_bytes;
} seqfile_head;

nh_status seqfile_write(const char *path, const seqfile_head *head, const int32_t *ids, const swapped *state, nh_error *e);
/* The head alone, with the checksum of the whole file verified. */
nh_status seqfile_head_read(const char *path, seqfile_head *head, nh_error *e);
/* ids is fresh memory (mem_free). The shapes of s and p must make content_bytes. */
nh_status seqfile_read(const char *path, seqfile_head *head, int32_t **ids, const states *s, const pages *p, swapped **state, nh_error *e);

#endif
