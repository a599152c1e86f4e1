/* SPDX-License-Identifier: Apache-2.0
 * swap.h: a sequence's slot and pages copied to host memory and back, bit for bit: how a sequence makes room for another without being
 * computed again. Knows no request. Owned by the engine's thread.
 * The invariant that breaks first: either the pools or the copy hold a sequence's state, and the copy is made before anything is given back.
 */
#ifndef CACHE_SWAP_H
#define CACHE_SWAP_H

#include "cache/seqmem.h"

typedef struct swapped swapped; /* length, slot contents of all mamba layers, page contents of all attention layers */

/* Copies what m holds (its slot if length > 0, its pages), then releases it; m keeps its page limit and has length 0. On failure m is unchanged. */
nh_status swap_out(swapped **out, seqmem *m, nh_error *e);
/* Takes a slot and pages and copies back; m must be released. NH_ERR_LIMIT when the pools cannot hold it: nothing has changed. The copy stays the
 * caller's (swap_free). Shared pages come back as private ones. */
nh_status swap_in(const swapped *s, seqmem *m, nh_error *e);
void swap_free(swapped *s); /* NULL is fine */
int64_t swap_length(const swapped *s);
int64_t swap_pages(const swapped *s); /* that swap_in takes: those of swap_length tokens, not those that were reserved beyond */
size_t swap_bytes(const swapped *s);  /* of the contents */

/* The raw parts, for files: layer by layer, contiguous. Bytes of a sequence of `length` tokens, and its contents in one defined order: for each
 * mamba layer conv then SSM state; for each attention layer the k then the v rows of positions 0 .. length - 1. */
size_t swap_content_bytes(const states *s, const pages *p, int64_t length);
const void *swap_content(const swapped *s); /* swap_bytes of it */
/* A copy made of contents in that order (a file's); bytes must be swap_content_bytes. */
nh_status swap_from_content(swapped **out, const states *s, const pages *p, int64_t length, const void *content, size_t bytes, nh_error *e);
/* The same with contents that the caller writes: swap_bytes of them at swap_fill. Zeros until then. */
nh_status swap_blank(swapped **out, const states *s, const pages *p, int64_t length, nh_error *e);
void *swap_fill(swapped *s);
/* A copy without giving anything back: fork and save. */
nh_status swap_copy(swapped **out, const seqmem *m, nh_error *e);

#endif
