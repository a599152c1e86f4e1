/* SPDX-License-Identifier: Apache-2.0
 * states.h: the pool of recurrent state: one slot holds the conv and SSM state of all mamba layers after some token of some sequence.
 * Slots are never cleared: the first piece of a sequence reads slot -1, which ops take as zeros.
 * Owned by one thread. The invariant that breaks first: a slot has one writer.
 */
#ifndef CACHE_STATES_H
#define CACHE_STATES_H

#include "cache/pool.h"
#include "tensor/paged.h"

/* One mamba layer. */
typedef struct states_layer {
	int64_t taps, channels;         /* conv [taps - 1, channels] */
	int64_t heads, head_dim, state; /* SSM [heads, head_dim, state] */
} states_layer;

typedef struct states {
	pool pool;
	const backend *arm; /* borrow */
	exec *x;            /* borrow */
	mamba_state *layer; /* own [layers] */
	int layers;
} states;

/* Element types are the exec's. NH_ERR_NOMEM, NH_ERR_LIMIT. */
nh_status states_open(states *s, const backend *arm, exec *x, const states_layer *layer, int layers, int64_t slots, nh_error *e);
void states_close(states *s);         /* safe on a zeroed one */
size_t states_bytes(const states *s); /* of the whole pool */

#endif
