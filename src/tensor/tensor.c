/* SPDX-License-Identifier: Apache-2.0
 * tensor.c: views.
 */
#include "tensor/tensor.h"

#include <assert.h>
#include <string.h>

#include "base/base_mem.h"

bool tensor_size(num_dtype dtype, int rank, const int64_t *shape, size_t *bytes)
{
	size_t n = 1;
	for (int i = 0; i < rank; i++)
		if (shape[i] < 0 || !mem_mul(n, (size_t)shape[i], &n)) return false;
	if (dtype == NUM_E2M1X2) n = n / 2 + n % 2;
	return mem_mul(n, num_bytes(dtype), bytes);
}

tensor tensor_nd(void *data, num_dtype dtype, int rank, const int64_t *shape)
{
	assert(rank >= 1 && rank <= TENSOR_RANK);
	tensor t = {.data = data, .dtype = dtype, .rank = rank};
	int64_t step = 1;
	for (int i = rank - 1; i >= 0; i--) {
		t.shape[i] = shape[i];
		t.stride[i] = step;
		/* An overflow wraps: such a view has room 0 and fits nowhere. */
		if (__builtin_mul_overflow(step, shape[i], &step)) continue;
	}
	if (!tensor_size(dtype, rank, shape, &t.room)) t.room = 0;
	return t;
}

tensor tensor_1d(void *data, num_dtype dtype, int64_t n) { return tensor_nd(data, dtype, 1, &n); }

tensor tensor_2d(void *data, num_dtype dtype, int64_t rows, int64_t cols)
{
	const int64_t shape[2] = {rows, cols}, most = (int64_t)1 << 30;
	if (rows < 0 || cols < 0 || rows > most || cols > most || dtype == NUM_E2M1X2) return tensor_nd(data, dtype, 2, shape);
	/* Nothing can overflow: nearly every tensor of a step. */
	return (tensor){.data = data,
	    .dtype = dtype,
	    .rank = 2,
	    .shape = {rows, cols},
	    .stride = {cols, 1},
	    .room = (size_t)rows * (size_t)cols * num_bytes(dtype)};
}

static tensor moved(const tensor *t, int dim, int64_t from, int64_t count)
{
	assert(from >= 0 && count >= 0 && from + count <= t->shape[dim]);
	tensor v = *t;
	size_t skip = (size_t)(from * t->stride[dim]) * num_bytes(t->dtype);
	v.data = t->data ? (char *)t->data + skip : NULL;
	v.room = skip <= t->room ? t->room - skip : 0;
	v.shape[dim] = count;
	return v;
}

tensor tensor_rows(const tensor *t, int64_t from, int64_t count) { return moved(t, 0, from, count); }
tensor tensor_cols(const tensor *t, int64_t from, int64_t count) { return moved(t, t->rank - 1, from, count); }

tensor tensor_split(const tensor *t, int64_t inner)
{
	int last = t->rank - 1;
	assert(t->rank < TENSOR_RANK && inner > 0 && t->shape[last] % inner == 0);
	tensor v = *t;
	v.rank++;
	v.shape[last] = t->shape[last] / inner;
	v.stride[last] = inner;
	v.shape[last + 1] = inner;
	v.stride[last + 1] = 1;
	return v;
}

int64_t tensor_count(const tensor *t)
{
	int64_t n = 1;
	for (int i = 0; i < t->rank; i++) n *= t->shape[i];
	return n;
}

size_t tensor_bytes(const tensor *t)
{
	size_t bytes;
	return tensor_size(t->dtype, t->rank, t->shape, &bytes) ? bytes : 0;
}

bool tensor_fits(const tensor *t)
{
	size_t last = 0;
	bool empty = false;
	for (int i = 0; i < t->rank; i++) {
		if (t->shape[i] < 0 || t->stride[i] < 0) return false;
		empty |= t->shape[i] == 0;
	}
	if (empty) return true;
	for (int i = 0; i < t->rank; i++) {
		size_t step;
		if (!mem_mul((size_t)t->shape[i] - 1, (size_t)t->stride[i], &step) || !mem_add(last, step, &last)) return false;
	}
	size_t bytes;
	return mem_add(last, 1, &last) && mem_mul(last, num_bytes(t->dtype), &bytes) &&
	       (t->dtype == NUM_E2M1X2 ? last / 2 + last % 2 : bytes) <= t->room;
}
