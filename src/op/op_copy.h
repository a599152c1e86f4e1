/* SPDX-License-Identifier: Apache-2.0
 * op_copy.h: moving state, and the place where ranks meet.
 */
#ifndef OP_OP_COPY_H
#define OP_OP_COPY_H

#include "tensor/tensor.h"

/* pool[to[i]] = pool[from[i]] for each pair, all of the slot; -1 as source clears the slot. Pairs do not chain. */
typedef struct op_state_copy {
	const tensor *pool;      /* in/out [slots, ...] */
	const tensor *from, *to; /* [n] i32 */
} op_state_copy;

/* The same for pages of one pool. */
typedef struct op_page_copy {
	const tensor *pool;      /* in/out [pages, ...] */
	const tensor *from, *to; /* [n] i32 */
} op_page_copy;

/* y = sum over ranks of y, ranks in ascending order. With one rank: y unchanged. */
typedef struct op_all_reduce {
	const tensor *y; /* in/out */
} op_all_reduce;

#endif
