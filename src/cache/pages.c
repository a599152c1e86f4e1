/* SPDX-License-Identifier: Apache-2.0
 * pages.c: opens and closes the KV pool. A model without attention has a pool without tensors: pages are still counted, because the
 * context limit is a limit of pages.
 */
#include "cache/pages.h"

#include <string.h>

#include "base/base_mem.h"

int64_t pages_needed(int64_t tokens) { return tokens / PAGES_TOKENS + (tokens % PAGES_TOKENS != 0); }

nh_status pages_open(
    pages *p, const backend *arm, exec *x, const pages_layer *layer, int layers, num_dtype dtype, int64_t count, nh_error *e)
{
	memset(p, 0, sizeof *p);
	TRY(pool_init(&p->pool, count, "KV pages", e));
	p->arm = arm;
	p->x = x;
	p->layer = mem_array((size_t)layers, sizeof *p->layer);
	p->layers = p->layer ? layers : 0;
	nh_status s = p->layer ? NH_OK : ERR_NOMEM(e);
	for (int i = 0; s == NH_OK && i < layers; i++) {
		kv_pages *to = &p->layer[i];
		const int64_t shape[4] = {count, PAGES_TOKENS, layer[i].kv_heads, layer[i].head_dim};
		to->k_scale = dtype == NUM_E4M3 ? layer[i].k_scale : 1;
		to->v_scale = dtype == NUM_E4M3 ? layer[i].v_scale : 1;
		s = pool_tensor(&to->k, arm, x, dtype, 4, shape, "KV pages", e);
		if (s == NH_OK) s = pool_tensor(&to->v, arm, x, dtype, 4, shape, "KV pages", e);
	}
	if (s != NH_OK) pages_close(p);
	return s;
}

void pages_close(pages *p)
{
	for (int i = 0; i < p->layers; i++) {
		pool_tensor_free(&p->layer[i].k, p->arm, p->x);
		pool_tensor_free(&p->layer[i].v, p->arm, p->x);
	}
	mem_free(p->layer);
	pool_deinit(&p->pool);
	memset(p, 0, sizeof *p);
}

size_t pages_bytes(const pages *p)
{
	size_t sum = 0;
	for (int i = 0; i < p->layers; i++) sum += tensor_bytes(&p->layer[i].k) + tensor_bytes(&p->layer[i].v);
	return sum;
}
