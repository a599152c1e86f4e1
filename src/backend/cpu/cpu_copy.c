/* SPDX-License-Identifier: Apache-2.0
 * cpu_copy.c: slots and pages moved whole, and the sum over ranks, of which this arm has one. Contracts: op_copy.h. Pairs do not chain, so
 * the bytes of all pairs are split over the threads. The invariant that breaks first: a refused pair stops the call before any byte moves.
 */
#include "backend/cpu/cpu_kit.h"

#define PIECE 65536 /* bytes; slots are megabytes */

typedef struct copy {
	const tensor *pool, *from, *to;
	size_t bytes; /* of a slot */
} copy;

static void copy_run(void *user, int thread, int threads)
{
	const copy *c = user;
	const int64_t pieces = (int64_t)((c->bytes + PIECE - 1) / PIECE);
	int64_t first, end;
	cpu_range(c->from->shape[0] * pieces, 1, thread, threads, &first, &end);
	for (int64_t u = first; u < end; u++) {
		const int64_t i = u / pieces;
		const size_t at = (size_t)(u % pieces) * PIECE, n = c->bytes - at < PIECE ? c->bytes - at : PIECE;
		const int32_t source = ref_i32(c->from, i), target = ref_i32(c->to, i);
		char *out = (char *)tensor_row(c->pool, target) + at;
		if (source < 0) memset(out, 0, n);
		else if (source != target) memcpy(out, (const char *)tensor_row(c->pool, source) + at, n);
	}
}

/* Slots are contiguous inside; the pool may be a view with gaps between them. */
static void copy_slots(exec *x, op_id op, const tensor *pool, const tensor *from, const tensor *to)
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
	for (int64_t i = 0; i < n; i++) {
		const int32_t source = ref_i32(from, i), target = ref_i32(to, i);
		if (source >= -1 && source < slots && target >= 0 && target < slots) continue;
		exec_fail(x, op, NH_ERR_ARG, "pair %lld copies %d to %d, expected -1 or 0 .. %lld to 0 .. %lld", (long long)i, source, target,
		    (long long)slots - 1, (long long)slots - 1);
		return;
	}
	copy c = {.pool = pool, .from = from, .to = to, .bytes = (size_t)elements * num_bytes(pool->dtype)};
	if (c.bytes && n) cpu_go(x, n * (int64_t)(c.bytes / 16), copy_run, &c);
}

void cpu_state_copy(exec *x, const op_state_copy *a)
{
	exec_count(x, OP_state_copy, a);
	copy_slots(x, OP_state_copy, a->pool, a->from, a->to);
}

void cpu_page_copy(exec *x, const op_page_copy *a)
{
	exec_count(x, OP_page_copy, a);
	copy_slots(x, OP_page_copy, a->pool, a->from, a->to);
}

void cpu_all_reduce(exec *x, const op_all_reduce *a) { exec_count(x, OP_all_reduce, a); }
