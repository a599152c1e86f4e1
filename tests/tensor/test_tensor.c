/* SPDX-License-Identifier: Apache-2.0
 * test_tensor.c: shapes, strides and rooms of views, against addresses worked out by hand; overflow in every product.
 */
#include "test.h"

#include <string.h>

#include "base/base_mem.h"
#include "tensor/tensor.h"

static void contiguous(void **state)
{
	(void)state;
	float data[2 * 3 * 4];
	tensor t = tensor_nd(data, NUM_F32, 3, (int64_t[]){2, 3, 4});
	assert_int_equal(t.rank, 3);
	assert_int_equal(t.stride[0], 12);
	assert_int_equal(t.stride[1], 4);
	assert_int_equal(t.stride[2], 1);
	assert_int_equal(t.room, sizeof data);
	assert_int_equal(tensor_count(&t), 24);
	assert_int_equal(tensor_bytes(&t), sizeof data);
	assert_true(tensor_fits(&t));
	assert_ptr_equal(tensor_row(&t, 1), data + 12);

	tensor v = tensor_1d(data, NUM_F32, 5), m = tensor_2d(data, NUM_F32, 4, 6);
	assert_int_equal(v.rank, 1);
	assert_int_equal(v.shape[0], 5);
	assert_ptr_equal(tensor_row(&v, 4), data + 4);
	assert_int_equal(m.stride[0], 6);
	assert_ptr_equal(tensor_row(&m, 3), data + 18);
}

static void absent(void **state)
{
	(void)state;
	tensor zero = {0}, shapes = tensor_2d(NULL, NUM_F32, 2, 2);
	char byte;
	tensor there = tensor_1d(&byte, NUM_U8, 1);
	assert_true(tensor_absent(NULL));
	assert_true(tensor_absent(&zero));
	assert_true(tensor_absent(&shapes));
	assert_false(tensor_absent(&there));
	/* Views of shapes without memory stay without memory. */
	tensor row = tensor_rows(&shapes, 1, 1), col = tensor_cols(&shapes, 1, 1);
	assert_true(tensor_absent(&row) && tensor_absent(&col));
}

/* Every view of rows and columns of a 4 x 6 matrix holds exactly the elements that it should, and room for no more than the matrix has. */
static void views(void **state)
{
	(void)state;
	uint16_t data[4 * 6];
	for (size_t i = 0; i < ARRAY_LEN(data); i++) data[i] = (uint16_t)i;
	tensor m = tensor_2d(data, NUM_BF16, 4, 6);
	int looked = 0;
	for (int64_t r = 0; r <= 4; r++)
		for (int64_t rows = 0; rows <= 4 - r; rows++)
			for (int64_t c = 0; c <= 6; c++)
				for (int64_t cols = 0; cols <= 6 - c; cols++) {
					tensor by_row = tensor_rows(&m, r, rows), v = tensor_cols(&by_row, c, cols);
					assert_int_equal(v.shape[0], rows);
					assert_int_equal(v.shape[1], cols);
					assert_int_equal(v.room, r * 6 + c < 24 ? sizeof data - 2 * (size_t)(r * 6 + c) : 0);
					assert_true(tensor_fits(&v));
					assert_int_equal(tensor_bytes(&v), 2 * rows * cols);
					for (int64_t i = 0; i < rows; i++)
						for (int64_t j = 0; j < cols; j++, looked++)
							assert_int_equal(((uint16_t *)tensor_row(&v, i))[j], (r + i) * 6 + c + j);
				}
	assert_int_equal(looked, 20 * 56); /* sums over all sub-ranges: of 4 rows 20, of 6 columns 56 */
}

static void splits(void **state)
{
	(void)state;
	int32_t data[3 * 8];
	for (int i = 0; i < 24; i++) data[i] = i;
	tensor m = tensor_2d(data, NUM_I32, 3, 8), right = tensor_cols(&m, 2, 6), s = tensor_split(&right, 2);
	assert_int_equal(s.rank, 3);
	assert_int_equal(s.shape[1], 3);
	assert_int_equal(s.shape[2], 2);
	assert_true(tensor_fits(&s));
	int looked = 0;
	for (int64_t t = 0; t < 3; t++)
		for (int64_t h = 0; h < 3; h++)
			for (int64_t p = 0; p < 2; p++, looked++)
				assert_int_equal(((int32_t *)s.data)[t * s.stride[0] + h * s.stride[1] + p * s.stride[2]], t * 8 + 2 + h * 2 + p);
	assert_int_equal(looked, 18);
}

static void fits_to_the_byte(void **state)
{
	(void)state;
	char data[64];
	/* 3 rows of 5 in steps of 8: the last element is 2 * 8 + 4, so 21 elements of 2 bytes. */
	tensor t = {.data = data, .dtype = NUM_BF16, .rank = 2, .shape = {3, 5}, .stride = {8, 1}, .room = 42};
	assert_true(tensor_fits(&t));
	t.room = 41;
	assert_false(tensor_fits(&t));

	/* Five FP4 elements take three bytes, six take three too. */
	tensor q = {.data = data, .dtype = NUM_E2M1X2, .rank = 1, .shape = {5}, .stride = {1}, .room = 3};
	assert_true(tensor_fits(&q));
	assert_int_equal(tensor_bytes(&q), 3);
	q.shape[0] = 6;
	assert_true(tensor_fits(&q));
	q.shape[0] = 7;
	assert_false(tensor_fits(&q));

	/* Nothing fits anywhere, but a negative extent fits nowhere, whatever its neighbours are. */
	tensor none = {.data = data, .dtype = NUM_F32, .rank = 2, .shape = {0, 5}, .stride = {5, 1}, .room = 0};
	assert_true(tensor_fits(&none));
	none.shape[1] = -1;
	assert_false(tensor_fits(&none));
	none.shape[1] = 5;
	none.stride[0] = -5;
	assert_false(tensor_fits(&none));
}

static void overflows(void **state)
{
	(void)state;
	const int64_t top = INT64_MAX;
	size_t bytes;
	assert_false(tensor_size(NUM_U8, 2, (int64_t[]){top, 4}, &bytes));
	assert_false(tensor_size(NUM_F64, 1, (int64_t[]){top}, &bytes));
	assert_false(tensor_size(NUM_F32, 4, (int64_t[]){1 << 16, 1 << 16, 1 << 16, 1 << 16}, &bytes));
	assert_false(tensor_size(NUM_F32, 2, (int64_t[]){3, -1}, &bytes));
	assert_true(tensor_size(NUM_U8, 1, (int64_t[]){top}, &bytes));
	assert_int_equal(bytes, (size_t)top);
	assert_true(tensor_size(NUM_E2M1X2, 2, (int64_t[]){top, 2}, &bytes)); /* 2 * top codes are top bytes */
	assert_int_equal(bytes, (size_t)top);

	/* A constructor with an impossible shape gives a view that fits nowhere. */
	const int64_t shapes[][4] = {
	    {top, 4, 1, 1}, {top, top, top, top}, {1ll << 32, 1ll << 32, 1, 1}, {1ll << 21, 1ll << 21, 1ll << 22, 1ll << 22}, {2, -3, 1, 1}};
	for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
		tensor t = tensor_nd(&bytes, NUM_F64, 4, shapes[i]);
		assert_int_equal(t.room, 0);
		assert_false(tensor_fits(&t));
	}

	/* Each step of the sum may wrap: product, sum, plus one, times bytes; and FP4's rounding up. */
	const struct {
		num_dtype dtype;
		int64_t shape[2], stride[2];
	} wide[] = {
	    {NUM_U8, {top, 1}, {4, 1}},     /* product */
	    {NUM_U8, {3, top}, {top, 1}},   /* sum: 2 * top + top - 1 */
	    {NUM_U8, {3, 2}, {top, 1}},     /* plus one: 2 * top + 1 = SIZE_MAX */
	    {NUM_F16, {2, 1}, {top, 1}},    /* times 2 bytes */
	    {NUM_E2M1X2, {3, 1}, {top, 1}}, /* 2 * top + 1 = SIZE_MAX codes, rounded up */
	};
	for (size_t i = 0; i < ARRAY_LEN(wide); i++) {
		tensor t = {.data = &bytes, .dtype = wide[i].dtype, .rank = 2, .room = 8};
		memcpy(t.shape, wide[i].shape, sizeof wide[i].shape);
		memcpy(t.stride, wide[i].stride, sizeof wide[i].stride);
		assert_false(tensor_fits(&t));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(contiguous), cmocka_unit_test(absent), cmocka_unit_test(views),
	    cmocka_unit_test(splits), cmocka_unit_test(fits_to_the_byte), cmocka_unit_test(overflows)};
	return cmocka_run_group_tests_name("tensor", tests, NULL, NULL);
}
