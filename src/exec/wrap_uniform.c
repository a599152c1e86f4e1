/* SPDX-License-Identifier: Apache-2.0
 * wrap_uniform.c: routing as if every expert were as likely as any other: what random weights do not give, because their tokens agree with each
 * other, and what a measurement of memory traffic assumes. The choice is a hash of (call, row), so a run repeats; a request's tokens do
 * depend on its company then. Knows no weights. Breaks first: the K experts of a row are distinct.
 */
#include <string.h>

#include "base/base_rng.h"
#include "exec/wrap_core.h"
#include "num/num_conv.h"

typedef struct uniform {
	wrapper w;
	uint64_t seed, calls;
} uniform;

/* K of E without repetition, every set as likely (Floyd's method): element j of the last K places is drawn from all before it, or is itself. */
static void choose(uint64_t seed, uint64_t call, int64_t row, int64_t E, int64_t K, int32_t *out)
{
	for (int64_t k = 0; k < K; k++) {
		int64_t last = E - K + k;
		uint64_t bits = rng_u64(seed ^ call, (uint64_t)row, (uint64_t)k) >> 32;
		int32_t pick = (int32_t)(bits * (uint64_t)(last + 1) >> 32);
		for (int64_t i = 0; i < k; i++)
			if (out[i] == pick) {
				pick = (int32_t)last;
				break;
			}
		out[k] = pick;
	}
}

static void after(wrapper *w, op_id op, const void *args)
{
	uniform *u = (uniform *)w;
	if (op != OP_route || w->x.status != NH_OK) return;
	const op_route *a = args;
	int64_t T = a->idx->shape[0], K = a->idx->shape[1], E = a->logits->shape[1];
	uint64_t call = u->calls++;
	if (tensor_absent(a->idx) || tensor_absent(a->w)) return;
	for (int64_t t = 0; t < T; t++) {
		choose(u->seed, call, t, E, K, tensor_row(a->idx, t));
		void *weights = tensor_row(a->w, t);
		for (int64_t k = 0; k < K; k++) num_store(a->w->dtype, weights, (size_t)k, 1.0 / (double)K);
	}
}

exec *wrap_uniform_create(exec *inner, uint64_t seed)
{
	uniform *u = wrap_new(inner, sizeof *u);
	if (!u) return NULL;
	u->seed = seed;
	u->w.after = after;
	return &u->w.x;
}
