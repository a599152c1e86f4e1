/* SPDX-License-Identifier: Apache-2.0
 * helper_prefix.h: the prefix cache driven as the engine drives it, on the arm of helper_host.h.
 */
#ifndef HELPER_PREFIX_H
#define HELPER_PREFIX_H

#include "cache/prefix_impl.h"
#include "cache/spill.h"
#include "helper_host.h"

enum { UNIT = 128 };

prefix_cache *helper_prefix_open(host *h, int chunk, int32_t slots, spill *sp);
int64_t helper_prefix_request(host *h, prefix_cache *c, seqmem *m, const int32_t *ids, int64_t n);
prefix_stats helper_prefix_stats(const prefix_cache *c);
bool helper_prefix_kept(const prefix_cache *c, const int32_t *ids, int64_t length);
void helper_prefix_put(host *h, prefix_cache *c, seqmem *m, const int32_t *ids, int64_t n); /* computes and publishes; m is released */
void helper_prefix_links(const prefix_table *t);

#endif
