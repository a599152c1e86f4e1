/* SPDX-License-Identifier: Apache-2.0
 * pool.c: numbers with reference counts, and guarded views of the arm's memory. Numbers are handed out lowest first and the one that was
 * dropped last comes back first, so that a run is repeatable and touches little memory.
 */
#include "cache/pool.h"

#include <assert.h>
#include <string.h>

#include "base/base_mem.h"

nh_status pool_init(pool *p, int64_t count, const char *what, nh_error *e)
{
	memset(p, 0, sizeof *p);
	if (count < 1 || count >= INT32_MAX) return ERR(e, NH_ERR_LIMIT, "%s: %lld of them, expected 1 to 2^31 - 2", what, (long long)count);
	p->stack = mem_array((size_t)count, sizeof *p->stack);
	p->holds = mem_array((size_t)count, sizeof *p->holds);
	if (!p->stack || !p->holds) {
		pool_deinit(p);
		return ERR_NOMEM(e);
	}
	p->count = p->free_count = (int32_t)count;
	for (int32_t i = 0; i < p->count; i++) p->stack[i] = p->count - 1 - i;
	return NH_OK;
}

void pool_deinit(pool *p)
{
	mem_free(p->stack);
	mem_free(p->holds);
	memset(p, 0, sizeof *p);
}

int32_t pool_take(pool *p)
{
	if (p->free_count == 0) return -1;
	int32_t i = p->stack[--p->free_count];
	p->holds[i] = 1;
	return i;
}

void pool_share(pool *p, int32_t i)
{
	assert(i >= 0 && i < p->count && p->holds[i] > 0);
	p->holds[i]++;
}

void pool_drop(pool *p, int32_t i)
{
	assert(i >= 0 && i < p->count && p->holds[i] > 0);
	if (--p->holds[i] == 0) p->stack[p->free_count++] = i;
}

nh_status pool_view(
    tensor *out, void *base, size_t room, size_t offset, num_dtype dtype, int rank, const int64_t *shape, const char *what, nh_error *e)
{
	size_t bytes, end;
	memset(out, 0, sizeof *out);
	if (!tensor_size(dtype, rank, shape, &bytes) || !mem_add(offset, bytes, &end))
		return ERR(e, NH_ERR_LIMIT, "%s: more bytes than this machine can count", what);
	if (end > room) return ERR(e, NH_ERR_INTERNAL, "%s: a view of %zu bytes at %zu, the allocation holds %zu", what, bytes, offset, room);
	*out = tensor_nd((char *)base + offset, dtype, rank, shape);
	out->room = room - offset;
	return NH_OK;
}

nh_status pool_tensor(
    tensor *out, const backend *arm, exec *x, num_dtype dtype, int rank, const int64_t *shape, const char *what, nh_error *e)
{
	size_t bytes;
	memset(out, 0, sizeof *out);
	if (!tensor_size(dtype, rank, shape, &bytes)) return ERR(e, NH_ERR_LIMIT, "%s: more bytes than this machine can count", what);
	void *base = arm->alloc(x, bytes);
	if (!base) return ERR(e, NH_ERR_NOMEM, "%s: %s has no %zu bytes for it", what, arm->name, bytes);
	nh_status s = pool_view(out, base, bytes, 0, dtype, rank, shape, what, e);
	if (s != NH_OK) arm->free(x, base);
	return s;
}

void pool_tensor_free(tensor *t, const backend *arm, exec *x)
{
	if (t->data) arm->free(x, t->data);
	memset(t, 0, sizeof *t);
}
