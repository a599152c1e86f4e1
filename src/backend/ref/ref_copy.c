/* SPDX-License-Identifier: Apache-2.0
 * ref_copy.c: slots and pages moved whole, and the sum over ranks, of which this arm has one. Contracts: op_copy.h.
 */
#include <string.h>

#include "backend/ref/ref.h"

/* Slots are contiguous inside; the pool may be a view with gaps between them. */
static void copy(exec *x, op_id op, const tensor *pool, const tensor *from, const tensor *to)
{
	const int64_t n = from->shape[0], slots = pool->shape[0];
	int64_t elements = 1;
	for (int i = pool->rank - 1; i > 0; i--) {
		if (pool->shape[i] > 1 && pool->stride[i] != elements) {
			exec_fail(x, op, NH_ERR_ARG, "the pool's slots are not contiguous");
			return;
		}
		elements *= pool->shape[i];
	}
	const size_t bytes = (size_t)elements * num_bytes(pool->dtype);
	for (int64_t i = 0; i < n; i++) {
		int32_t source = ref_i32(from, i), target = ref_i32(to, i);
		if (source < -1 || source >= slots || target < 0 || target >= slots) {
			exec_fail(x, op, NH_ERR_ARG, "pair %lld copies %d to %d, expected -1 or 0 .. %lld to 0 .. %lld", (long long)i, source, target,
			    (long long)slots - 1, (long long)slots - 1);
			return;
		}
		if (source < 0) memset(tensor_row(pool, target), 0, bytes);
		else if (source != target) memcpy(tensor_row(pool, target), tensor_row(pool, source), bytes);
	}
}

void ref_state_copy(exec *x, const op_state_copy *a)
{
	exec_count(x, OP_state_copy, a);
	copy(x, OP_state_copy, a->pool, a->from, a->to);
}

void ref_page_copy(exec *x, const op_page_copy *a)
{
	exec_count(x, OP_page_copy, a);
	copy(x, OP_page_copy, a->pool, a->from, a->to);
}

void ref_all_reduce(exec *x, const op_all_reduce *a) { exec_count(x, OP_all_reduce, a); }
