/* SPDX-License-Identifier: Apache-2.0
 * test_weight.c: every format's rows against values written out from the definition of its codes: sign, exponent, mantissa. Which nibble
 * comes first, where a block ends, what a file must contain.
 */
#include "test.h"

#include <math.h>
#include <string.h>

#include "base/base_mem.h"
#include "tensor/weight.h"

/* A minifloat by its definition: (-1)^s 2^(e - bias) 1.m, subnormal 2^(1 - bias) 0.m. */
static double textbook(unsigned code, int ebits, int mbits, int bias)
{
	unsigned e = code >> mbits & ((1u << ebits) - 1), m = code & ((1u << mbits) - 1);
	double v = e ? ldexp(1.0 + m / (double)(1u << mbits), (int)e - bias) : ldexp(m / (double)(1u << mbits), 1 - bias);
	return code >> (ebits + mbits) & 1 ? -v : v;
}

static double e4m3(unsigned code) { return (code & 0x7F) == 0x7F ? NAN : textbook(code, 4, 3, 7); }
static double e2m1(unsigned code) { return textbook(code, 2, 1, 1); }

static void same(double have, double want)
{
	if (isnan(want)) assert_true(isnan(have));
	else assert_true(have == want && signbit(have) == signbit(want));
}

static uint32_t next(uint32_t *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return *seed >> 8;
}

/* All 65536 bf16 codes, in rows of 256; then F32 rows, unaligned. */
static void unquantised(void **state)
{
	(void)state;
	uint16_t *codes = mem_array(65536, sizeof *codes);
	assert_non_null(codes);
	for (unsigned i = 0; i < 65536; i++) codes[i] = (uint16_t)i;
	weight w = {.scheme = NUM_SCHEME_NONE, .dtype = NUM_BF16, .n = 256, .k = 256, .data = codes, .scale = 1};
	double row[256];
	int looked = 0;
	for (int64_t r = 0; r < 256; r++) {
		weight_decode_row(&w, r, row);
		for (int j = 0; j < 256; j++, looked++) {
			unsigned c = (unsigned)r * 256 + (unsigned)j;
			bool special = (c & 0x7F80) == 0x7F80;
			double want = !special ? textbook(c, 8, 7, 127) : c & 0x7F ? NAN : c >> 15 ? -INFINITY : INFINITY;
			same(row[j], want);
		}
	}
	assert_int_equal(looked, 65536);
	mem_free(codes);

	char bytes[1 + 6 * sizeof(float)];
	const float values[6] = {0.1f, -2.5f, 1e-40f, 3e38f, -0.0f, 7.0f};
	memcpy(bytes + 1, values, sizeof values);
	w = (weight){.scheme = NUM_SCHEME_NONE, .dtype = NUM_F32, .n = 2, .k = 3, .data = bytes + 1, .scale = 1};
	for (int64_t r = 0; r < 2; r++) {
		weight_decode_row(&w, r, row);
		for (int j = 0; j < 3; j++) same(row[j], (double)values[r * 3 + j]);
	}
}

static void fp8(void **state)
{
	(void)state;
	uint8_t codes[2 * 128];
	for (unsigned i = 0; i < 256; i++) codes[i] = (uint8_t)i;
	/* The per-tensor scales are not part of the grid: they must not show. */
	weight w = {.scheme = NUM_SCHEME_FP8, .dtype = NUM_E4M3, .n = 2, .k = 128, .data = codes, .scale = 3, .input_scale = 5};
	double row[128];
	int looked = 0;
	for (int64_t r = 0; r < 2; r++) {
		weight_decode_row(&w, r, row);
		for (int j = 0; j < 128; j++, looked++) same(row[j], e4m3((unsigned)r * 128 + (unsigned)j));
	}
	assert_int_equal(looked, 256);
	weight_decode_row(&w, 0, row);
	same(row[0x7E], 448.0);
	same(row[1], ldexp(1, -9));
}

/* Random codes and scales, three blocks a row, five rows; both FP4 schemes read the same layout. */
static void fp4(void **state)
{
	(void)state;
	enum { n = 5, k = 48 };
	uint8_t codes[n * k / 2], scales[n * k / 16];
	uint32_t seed = 7;
	int looked = 0;
	const num_scheme schemes[] = {NUM_SCHEME_NVFP4, NUM_SCHEME_W4A16};
	for (size_t s = 0; s < ARRAY_LEN(schemes); s++) {
		for (size_t i = 0; i < sizeof codes; i++) codes[i] = (uint8_t)next(&seed);
		for (size_t i = 0; i < sizeof scales; i++) scales[i] = (uint8_t)(next(&seed) % 0x7F);
		weight w = {
		    .scheme = schemes[s], .dtype = NUM_E2M1X2, .n = n, .k = k, .data = codes, .block_scale = scales, .scale = 9, .input_scale = 11};
		for (int64_t r = 0; r < n; r++) {
			double row[k + 1];
			row[k] = 12345;
			weight_decode_row(&w, r, row);
			for (int j = 0; j < k; j++, looked++) {
				uint8_t byte = codes[r * (k / 2) + j / 2];
				unsigned code = j % 2 ? byte >> 4 : byte & 15u;
				same(row[j], e2m1(code) * e4m3(scales[r * (k / 16) + j / 16]));
			}
			assert_true(row[k] == 12345);
		}
	}
	assert_int_equal(looked, 2 * n * k);
}

/* One code that is not zero and one scale that is not one, so that each of these faults alone shows: nibbles swapped, a block one off,
 * scales read by column. */
static void fp4_places(void **state)
{
	(void)state;
	enum { n = 2, k = 32 };
	uint8_t codes[n * k / 2], scales[n * k / 16];
	double row[k];
	for (int at = 0; at < n * k; at++) {
		memset(codes, 0, sizeof codes);
		memset(scales, 0x38, sizeof scales); /* 1.0 */
		int r = at / k, j = at % k;
		codes[at / 2] = (uint8_t)(at % 2 ? 0x70 : 0x07); /* 6.0 */
		scales[at / 16] = 0x40;                          /* 2.0 */
		weight w = {.scheme = NUM_SCHEME_W4A16, .dtype = NUM_E2M1X2, .n = n, .k = k, .data = codes, .block_scale = scales, .scale = 1};
		for (int64_t i = 0; i < n; i++) {
			weight_decode_row(&w, i, row);
			for (int c = 0; c < k; c++) same(row[c], i == r && c == j ? 12.0 : 0.0);
		}
	}
}

static void values_of_fp4(void **state)
{
	(void)state;
	const double grid[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
	for (unsigned c = 0; c < 16; c++) same(e2m1(c), c < 8 ? grid[c] : -grid[c - 8]);
	uint8_t codes[8], scales[1] = {0x38};
	for (unsigned i = 0; i < 8; i++) codes[i] = (uint8_t)(2 * i | (2 * i + 1) << 4);
	double row[16];
	weight w = {.scheme = NUM_SCHEME_NVFP4, .dtype = NUM_E2M1X2, .n = 1, .k = 16, .data = codes, .block_scale = scales, .scale = 1};
	weight_decode_row(&w, 0, row);
	for (unsigned c = 0; c < 16; c++) same(row[c], e2m1(c));
}

typedef struct part_row {
	const char *suffix;
	num_dtype dtype;
	int rank;
	int64_t shape[2];
} part_row;

static void parts(void **state)
{
	(void)state;
	const part_row bf16[] = {{".weight", NUM_BF16, 2, {96, 64}}};
	const part_row fp8_parts[] = {
	    {".weight", NUM_E4M3, 2, {96, 64}}, {".weight_scale", NUM_F32, 0, {0, 0}}, {".input_scale", NUM_F32, 0, {0, 0}}};
	const part_row fp4_parts[] = {{".weight", NUM_U8, 2, {96, 32}}, {".weight_scale", NUM_E4M3, 2, {96, 4}},
	    {".weight_scale_2", NUM_F32, 0, {0, 0}}, {".input_scale", NUM_F32, 0, {0, 0}}};
	const struct {
		num_scheme scheme;
		const part_row *rows;
		int count;
		int64_t multiple;
		size_t bytes;
	} wants[] = {{NUM_SCHEME_NONE, bf16, 1, 1, 96 * 64 * 2}, {NUM_SCHEME_FP8, fp8_parts, 3, 1, 96 * 64 + 8},
	    {NUM_SCHEME_NVFP4, fp4_parts, 4, 16, 96 * 36 + 4}, {NUM_SCHEME_W4A16, fp4_parts, 3, 16, 96 * 36 + 4}};
	assert_int_equal(ARRAY_LEN(wants), NUM_SCHEME_COUNT);
	int looked = 0;
	for (size_t i = 0; i < ARRAY_LEN(wants); i++) {
		const wfmt *f = wfmt_of(wants[i].scheme);
		assert_int_equal(f->scheme, wants[i].scheme);
		assert_string_equal(f->name, num_scheme_name(wants[i].scheme));
		assert_int_equal(f->k_multiple, wants[i].multiple);
		wfmt_part p[WFMT_PARTS];
		assert_int_equal(f->parts(96, 64, p), wants[i].count);
		for (int j = 0; j < wants[i].count; j++, looked++) {
			const part_row *want = &wants[i].rows[j];
			assert_string_equal(p[j].suffix, want->suffix);
			assert_int_equal(p[j].file_dtype, want->dtype);
			assert_int_equal(p[j].rank, want->rank);
			assert_false(p[j].optional);
			for (int d = 0; d < want->rank; d++) assert_int_equal(p[j].shape[d], want->shape[d]);
		}
		weight w = {.scheme = wants[i].scheme, .dtype = wants[i].rows[0].dtype, .n = 96, .k = 64};
		assert_int_equal(weight_bytes(&w), wants[i].bytes);
	}
	assert_int_equal(looked, 11);
	weight f32 = {.scheme = NUM_SCHEME_NONE, .dtype = NUM_F32, .n = 96, .k = 64};
	assert_int_equal(weight_bytes(&f32), 96 * 64 * 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(unquantised), cmocka_unit_test(fp8), cmocka_unit_test(fp4),
	    cmocka_unit_test(fp4_places), cmocka_unit_test(values_of_fp4), cmocka_unit_test(parts)};
	return cmocka_run_group_tests_name("weight", tests, NULL, NULL);
}
