/* SPDX-License-Identifier: Apache-2.0
 * helper_host.h: an arm of host memory that can copy and nothing else, and a model whose state is a function of the token ids: what lies in a
 * slot after some tokens, and in a page at a position, depends on every id up to there and on nothing else. So a test can tell one position
 * too many, one too few, and another prompt's state.
 */
#ifndef HELPER_HOST_H
#define HELPER_HOST_H

#include "cache/seqmem.h"

typedef struct host {
	exec x, wrapper; /* the wrapper hands on to x, as those of room exec do */
	states s;
	pages p;
	int fail_after;  /* transfers that still work; -1: all */
	int fail_copies; /* state copies that still work; -1: all */
	uint64_t checked_bytes;
} host;

void host_open(host *h, num_dtype kv, int64_t slots, int64_t pages);
void host_close(host *h); /* asserts that nothing is held any more */
bool host_idle(const host *h);
void host_seqmem(host *h, seqmem *m, int64_t max_tokens);

/* Computes ids[m->length, to) into m: begins it where needed, reserves, and writes. Asserts that nobody else refers to what is written. */
void host_compute(host *h, seqmem *m, const int32_t *ids, int64_t to);
/* Asserts that m holds the state after ids[0, m->length), to the last byte. */
void host_check(host *h, const seqmem *m, const int32_t *ids);
bool host_holds(host *h, const seqmem *m, const int32_t *ids);
/* NaN bytes in all that nobody refers to. */
void host_poison(host *h);

/* Ids of a prompt: the first `common` follow from `family`, the rest from `seed`. */
void host_prompt(int32_t *ids, int64_t n, int64_t common, uint64_t family, uint64_t seed);

/* A fresh empty folder; emptied and removed again. */
void host_folder(char path[256], const char *name);
void host_folder_remove(const char *path);

#endif
