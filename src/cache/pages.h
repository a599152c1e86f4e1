/* SPDX-License-Identifier: Apache-2.0
 * pages.h: the KV pool: pages of a fixed number of tokens, one number standing for that page in every attention layer. Refuses to know
 * which sequence a page belongs to. Memory is the arm's, zeroed, and on host arms costs nothing until it is touched.
 * Owned by one thread. The invariant that breaks first: a page that anyone refers to is never handed out.
 */
#ifndef CACHE_PAGES_H
#define CACHE_PAGES_H

#include "cache/pool.h"
#include "tensor/paged.h"

#define PAGES_TOKENS 64 /* tokens a page; divides every published chunk size of 128 and more, so that scan edges are page borders */

/* One attention layer. */
typedef struct pages_layer {
	int64_t kv_heads, head_dim;
	float k_scale, v_scale; /* used with e4m3 pages only */
} pages_layer;

typedef struct pages {
	pool pool;
	const backend *arm; /* borrow */
	exec *x;            /* borrow */
	kv_pages *layer;    /* own [layers]; k and v [pages, PAGES_TOKENS, KV heads, head dim] */
	int layers;
} pages;

/* dtype E4M3: codes, value = code * scale; any other float type: plain values, scales 1. NH_ERR_NOMEM, NH_ERR_LIMIT. */
nh_status pages_open(
    pages *p, const backend *arm, exec *x, const pages_layer *layer, int layers, num_dtype dtype, int64_t count, nh_error *e);
void pages_close(pages *p);           /* safe on a zeroed one */
size_t pages_bytes(const pages *p);   /* of the whole pool */
int64_t pages_needed(int64_t tokens); /* pages that hold so many tokens */

#endif
