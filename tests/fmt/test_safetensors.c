/* SPDX-License-Identifier: Apache-2.0
 * test_safetensors.c: every rule of the container, each by a file that breaks it alone, and the files that look odd and are right.
 */
#include "test.h"

#include <string.h>

#include "base/base_mem.h"
#include "fmt/safetensors.h"
#include "helper_fmt.h"

#define T(dtype, shape, from, to) "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #from "," #to "]}"

static nh_status parse(const char *header, size_t data, st_file **f, buf *b, nh_error *e)
{
	fmt_st(b, header, data);
	memset(e, 0, sizeof *e);
	return st_file_parse(f, (const uint8_t *)b->data, b->len, "x.safetensors", e);
}

static void refuses(void **state)
{
	(void)state;
	static const struct {
		const char *header;
		size_t data;
		nh_status code;
		const char *says; /* besides the file's name */
	} bad[] = {
	    {"", 0, NH_ERR_FORMAT, "does not start"}, {" {}", 0, NH_ERR_FORMAT, "does not start"}, {"[]", 0, NH_ERR_FORMAT, "does not start"},
	    {"{", 0, NH_ERR_FORMAT, "not valid JSON"}, {"{}x", 0, NH_ERR_FORMAT, "not valid JSON"},
	    {"{\"a\":" T("U8", "[1]", 0, 1) ",\"a\":" T("U8", "[1]", 0, 1) "}", 1, NH_ERR_FORMAT, "duplicate"},
	    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, NH_ERR_FORMAT, "duplicate"},
	    {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, NH_ERR_FORMAT, "duplicate"},
	    {"{\"__metadata__\":[]}", 0, NH_ERR_FORMAT, "__metadata__"}, {"{\"__metadata__\":{\"k\":1}}", 0, NH_ERR_FORMAT, "__metadata__: k"},
	    {"{\"__metadata__\":{\"k\":null}}", 0, NH_ERR_FORMAT, "__metadata__: k"}, {"{\"a\":3}", 0, NH_ERR_FORMAT, "tensor a"},
	    {"{\"a\":{}}", 0, NH_ERR_FORMAT, "dtype is absent"},
	    {"{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, NH_ERR_FORMAT, "shape is absent"},
	    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, NH_ERR_FORMAT, "data_offsets is absent"},
	    {"{\"a\":" T("F4", "[1]", 0, 1) "}", 1, NH_ERR_FORMAT, "\"F4\""},
	    {"{\"a\":" T("bf16", "[1]", 0, 2) "}", 2, NH_ERR_FORMAT, "\"bf16\""},
	    {"{\"a\":" T("F8_E8M0", "[1]", 0, 1) "}", 1, NH_ERR_FORMAT, "F8_E8M0"},
	    {"{\"a\":" T("", "[1]", 0, 1) "}", 1, NH_ERR_FORMAT, "dtype"},
	    {"{\"a\":{\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,1]}}", 1, NH_ERR_FORMAT, "dtype is 7"},
	    {"{\"a\":" T("U8", "[-1]", 0, 1) "}", 1, NH_ERR_FORMAT, "shape is [-1]"},
	    {"{\"a\":" T("U8", "[-1,-1]", 0, 1) "}", 1, NH_ERR_FORMAT, "shape is [-1,-1]"},
	    {"{\"a\":" T("U8", "[1.0]", 0, 1) "}", 1, NH_ERR_FORMAT, "shape is"},
	    {"{\"a\":" T("U8", "[\"1\"]", 0, 1) "}", 1, NH_ERR_FORMAT, "shape is"},
	    {"{\"a\":" T("U8", "1", 0, 1) "}", 1, NH_ERR_FORMAT, "shape is 1"},
	    {"{\"a\":" T("U8", "[Infinity]", 0, 1) "}", 1, NH_ERR_FORMAT, "shape is"},
	    {"{\"a\":" T("U8", "[9223372036854775808]", 0, 1) "}", 1, NH_ERR_FORMAT, "x.safetensors"},
	    {"{\"a\":" T("U8", "[4294967296,4294967296]", 0, 0) "}", 0, NH_ERR_FORMAT, "64 bits"},
	    {"{\"a\":" T("F32", "[4611686018427387904]", 0, 0) "}", 0, NH_ERR_FORMAT, "64 bits"},
	    {"{\"a\":" T("U8", "[4294967297,4294967296]", 0, 0) "}", 0, NH_ERR_FORMAT, "64 bits"},
	    {"{\"a\":" T("U8", "[1,1,1,1,1,1,1,1,1]", 0, 1) "}", 1, NH_ERR_LIMIT, "8 dimensions"},
	    {"{\"a\":" T("U8", "[1]", 1, 0) "}", 1, NH_ERR_FORMAT, "reversed"},
	    {"{\"a\":" T("U8", "[1]", -1, 0) "}", 1, NH_ERR_FORMAT, "data_offsets is"},
	    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}}", 1, NH_ERR_FORMAT, "data_offsets is"},
	    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,1]}}", 1, NH_ERR_FORMAT, "data_offsets is"},
	    {"{\"a\":" T("U8", "[2]", 0, 2) "}", 1, NH_ERR_FORMAT, "1 bytes of data"},
	    {"{\"a\":" T("U8", "[9223372036854775807]", 0, 9223372036854775807) "}", 1, NH_ERR_FORMAT, "1 bytes of data"},
	    {"{\"a\":" T("U8", "[1]", 9223372036854775806, 9223372036854775807) "}", 1, NH_ERR_FORMAT, "1 bytes of data"},
	    {"{\"a\":" T("BF16", "[2]", 0, 2) "}", 2, NH_ERR_FORMAT, "needs 4"},
	    {"{\"a\":" T("BF16", "[1]", 0, 4) "}", 4, NH_ERR_FORMAT, "needs 2"},
	    {"{\"a\":" T("F32", "[]", 0, 0) "}", 0, NH_ERR_FORMAT, "needs 4"},
	    {"{\"a\":" T("U8", "[1]", 1, 2) "}", 2, NH_ERR_FORMAT, "end at 0"},                                /* gap at the front */
	    {"{\"a\":" T("U8", "[1]", 0, 1) "}", 2, NH_ERR_FORMAT, "its tensors end at 1"},                    /* left over */
	    {"{}", 1, NH_ERR_FORMAT, "its tensors end at 0"},                                                  /* data, no tensor */
	    {"{\"a\":" T("U8", "[1]", 0, 1) ",\"b\":" T("U8", "[1]", 2, 3) "}", 3, NH_ERR_FORMAT, "end at 1"}, /* gap between */
	    {"{\"a\":" T("U8", "[2]", 0, 2) ",\"b\":" T("U8", "[2]", 1, 3) "}", 3, NH_ERR_FORMAT, "inside"},   /* overlap */
	    {"{\"a\":" T("U8", "[1]", 0, 1) ",\"b\":" T("U8", "[1]", 0, 1) "}", 1, NH_ERR_FORMAT, "inside"},   /* the same bytes twice */
	    {"{\"a\":" T("U8", "[3]", 0, 3) ",\"b\":" T("U8", "[0]", 1, 1) "}", 3, NH_ERR_FORMAT, "inside"},   /* an empty one inside */
	};
	size_t asserted = 0;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		buf b = {0};
		st_file *f = NULL;
		nh_error e;
		nh_status s = parse(bad[i].header, bad[i].data, &f, &b, &e);
		if (s != bad[i].code || !strstr(e.text, bad[i].says) || strncmp(e.text, "x.safetensors: ", 15) != 0)
			fail_msg("row %zu (%s): %d %s, expected %d and \"%s\"", i, bad[i].header, s, e.text, bad[i].code, bad[i].says);
		assert_null(f);
		buf_deinit(&b);
		asserted++;
	}
	assert_int_equal(mem_live(), 0);
	assert_int_equal(asserted, ARRAY_LEN(bad));
	print_message("%zu broken headers refused\n", asserted);
}

static void accepts(void **state)
{
	(void)state;
	static const struct {
		const char *header;
		size_t data, count;
	} good[] = {
	    {"{}", 0, 0},
	    {"{}   \n\t ", 0, 0},
	    {"{\"__metadata__\":{}}", 0, 0},
	    {"{\"__metadata__\":null}", 0, 0},
	    {"{\"__metadata__\":{\"format\":\"pt\"},\"a\":" T("U8", "[1]", 0, 1) "}", 1, 1},
	    {"{\"a\":" T("U8", "[1]", 0, 1) "}       ", 1, 1},
	    {"{\"a\":" T("F32", "[]", 0, 4) "}", 4, 1},
	    {"{\"a\":" T("F32", "[0]", 0, 0) "}", 0, 1},
	    {"{\"a\":" T("F32", "[0,9223372036854775807]", 0, 0) "}", 0, 1},
	    {"{\"a\":" T("U8", "[0]", 0, 0) ",\"b\":" T("U8", "[2]", 0, 2) ",\"c\":" T("U8", "[0]", 2, 2) "}", 2, 3},
	    {"{\"b\":" T("U8", "[1]", 1, 2) ",\"a\":" T("U8", "[1]", 0, 1) "}", 2, 2},  /* written out of order */
	    {"{\"a\":" T("U8", "[1]", 0, 1) ",\"b\":" T("F64", "[1]", 1, 9) "}", 9, 2}, /* not aligned */
	    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"note\":[1]}}", 1,
	        1}, /* the reference reader ignores other keys */
	    {"{\"\":" T("U8", "[1]", 0, 1) "}", 1, 1},
	    {"{\"\\u00e9\":" T("U8", "[1]", 0, 1) "}", 1, 1},
	    {"{\"a\":" T("U8", "[1,1,1,1,1,1,1,1]", 0, 1) "}", 1, 1},
	};
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		buf b = {0};
		st_file *f = NULL;
		nh_error e;
		if (parse(good[i].header, good[i].data, &f, &b, &e) != NH_OK) fail_msg("row %zu (%s): %s", i, good[i].header, e.text);
		assert_int_equal(st_file_count(f), good[i].count);
		assert_null(st_file_at(f, good[i].count));
		st_file_close(f);
		buf_deinit(&b);
	}
	assert_int_equal(mem_live(), 0);
}

static void knows_every_type(void **state)
{
	(void)state;
	static const struct {
		const char *word;
		num_dtype type;
		size_t bytes;
	} types[] = {{"F64", NUM_F64, 8}, {"F32", NUM_F32, 4}, {"F16", NUM_F16, 2}, {"BF16", NUM_BF16, 2}, {"F8_E4M3", NUM_E4M3, 1},
	    {"F8_E5M2", NUM_E5M2, 1}, {"U8", NUM_U8, 1}, {"I8", NUM_I8, 1}, {"I16", NUM_I16, 2}, {"I32", NUM_I32, 4}, {"I64", NUM_I64, 8},
	    {"U16", NUM_U16, 2}, {"U32", NUM_U32, 4}, {"U64", NUM_U64, 8}, {"BOOL", NUM_BOOL, 1}};
	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		char header[200];
		snprintf(header, sizeof header, "{\"a\":{\"dtype\":\"%s\",\"shape\":[3,2],\"data_offsets\":[0,%zu]}}", types[i].word,
		    6 * types[i].bytes);
		buf b = {0};
		st_file *f = NULL;
		nh_error e;
		assert_int_equal(parse(header, 6 * types[i].bytes, &f, &b, &e), NH_OK);
		const st_tensor *t = st_file_find(f, "a");
		assert_non_null(t);
		assert_int_equal(t->dtype, types[i].type);
		assert_int_equal(t->rank, 2);
		assert_int_equal(t->shape[0], 3);
		assert_int_equal(t->shape[1], 2);
		assert_int_equal(t->bytes, 6 * types[i].bytes);
		for (size_t k = 0; k < t->bytes; k++) assert_int_equal(t->data[k], k);
		assert_string_equal(st_dtype_name(t->dtype), types[i].word);
		st_file_close(f);
		buf_deinit(&b);
	}
	assert_null(st_dtype_name(NUM_E2M1X2));
	assert_null(st_dtype_name(NUM_NONE));
}

static void finds_and_orders(void **state)
{
	(void)state;
	buf b = {0};
	st_file *f = NULL;
	nh_error e;
	/* one byte in front, so that the second starts at an odd place wherever the buffer lies */
	assert_int_equal(
	    parse("{\"z\":" T("U8", "[1]", 0, 1) ",\"m\":" T("F32", "[2]", 1, 9) ",\"a\":" T("BF16", "[0]", 9, 9) "}", 9, &f, &b, &e), NH_OK);
	assert_string_equal(st_file_at(f, 0)->name, "a");
	assert_string_equal(st_file_at(f, 1)->name, "m");
	assert_string_equal(st_file_at(f, 2)->name, "z");
	const st_tensor *m = st_file_find(f, "m");
	size_t header;
	assert_ptr_equal(st_file_header(f, &header), (const uint8_t *)b.data + 8);
	assert_int_equal(header, b.len - 8 - 9);
	assert_int_equal(m->offset, 8 + header + 1);
	assert_int_equal(m->aligned, (uintptr_t)m->data % 4 == 0);
	assert_true(st_file_find(f, "a")->aligned);
	assert_null(st_file_find(f, "b"));
	assert_int_equal(st_file_data_bytes(f), 9);
	st_file_close(f);
	buf_deinit(&b);
}

/* Header lengths at and around the sizes that readers like to use inside. */
static void any_header_length(void **state)
{
	(void)state;
	static const size_t sizes[] = {64, 128, 256, 512, 1024, 4096, 8192, 16384, 32768, 65536, 131072, 1 << 20};
	const char *core = "{\"a\":" T("U8", "[1]", 0, 1) "}";
	size_t asserted = 0;
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
		for (int d = -1; d <= 1; d++) {
			size_t n = sizes[i] + (size_t)(ptrdiff_t)d;
			char *header = mem_alloc(n + 1);
			memset(header, ' ', n);
			memcpy(header, core, strlen(core));
			buf b = {0};
			st_file *f = NULL;
			nh_error e;
			if (parse(header, 1, &f, &b, &e) != NH_OK) fail_msg("header of %zu bytes: %s", n, e.text);
			assert_int_equal(st_file_find(f, "a")->data[0], 0);
			st_file_close(f);
			buf_deinit(&b);
			mem_free(header);
			asserted++;
		}
	assert_int_equal(asserted, 36);
}

static void refuses_lengths_and_every_prefix(void **state)
{
	(void)state;
	buf b = {0};
	fmt_st(&b, "{\"a\":" T("U8", "[3]", 0, 3) "}", 3);
	st_file *f;
	nh_error e;
	uint8_t *exact;
	for (size_t n = 0; n < b.len; n++) { /* a copy of exactly n bytes, so that a sanitizer sees one byte too many */
		exact = mem_alloc(n);
		memcpy(exact, b.data, n);
		assert_int_not_equal(st_file_parse(&f, exact, n, "x", &e), NH_OK);
		mem_free(exact);
	}
	for (uint64_t over = 1; over <= 8; over++) {
		uint64_t length = b.len - 8 + over;
		for (int k = 0; k < 8; k++) b.data[k] = (char)(length >> (8 * k));
		assert_int_equal(st_file_parse(&f, (const uint8_t *)b.data, b.len, "x", &e), NH_ERR_FORMAT);
		assert_non_null(strstr(e.text, "bytes follow"));
	}
	static const uint64_t lengths[] = {UINT64_MAX, UINT64_MAX - 7, (uint64_t)1 << 63, 100000001, 100000000, 1000};
	for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
		for (int k = 0; k < 8; k++) b.data[k] = (char)(lengths[i] >> (8 * k));
		nh_status s = st_file_parse(&f, (const uint8_t *)b.data, b.len, "x", &e);
		assert_int_equal(s, lengths[i] > ST_MAX_HEADER ? NH_ERR_LIMIT : NH_ERR_FORMAT);
		assert_non_null(strstr(e.text, "header length is"));
	}
	buf_deinit(&b);
	assert_int_equal(mem_live(), 0);
}

static void writes_what_it_reads(void **state)
{
	(void)state;
	const char *dir = fmt_dir("writer");
	char *path = fmt_path(dir, "w.safetensors");
	nh_error e = {0};
	st_writer *w;
	const int64_t shape[] = {2, 3}, none[] = {0}, huge[] = {INT64_MAX, 2}, minus[] = {-1};
	assert_int_equal(st_writer_open(&w, path, &e), NH_OK);
	assert_int_equal(st_writer_meta(w, "format", "pt", &e), NH_OK);
	assert_int_equal(st_writer_add(w, "z", NUM_BF16, 2, shape, &e), NH_OK);
	assert_int_equal(st_writer_add(w, "empty", NUM_F32, 1, none, &e), NH_OK);
	assert_int_equal(st_writer_add(w, "a", NUM_U8, 0, NULL, &e), NH_OK);
	assert_int_equal(st_writer_add(w, "a", NUM_U8, 0, NULL, &e), NH_ERR_ARG);
	assert_int_equal(st_writer_add(w, "h", NUM_U8, 2, huge, &e), NH_ERR_ARG);
	assert_int_equal(st_writer_add(w, "m", NUM_U8, 1, minus, &e), NH_ERR_ARG);
	assert_int_equal(st_writer_add(w, "f", NUM_E2M1X2, 1, none, &e), NH_ERR_ARG);
	assert_int_equal(st_writer_add(w, "\xff", NUM_U8, 1, none, &e), NH_ERR_ARG);
	assert_int_equal(st_writer_begin(w, &e), NH_OK);
	assert_int_equal(st_writer_add(w, "late", NUM_U8, 0, NULL, &e), NH_ERR_STATE);
	const uint8_t bytes[13] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13};
	st_writer_put(w, bytes, 5);
	st_writer_put(w, bytes + 5, 8);
	assert_int_equal(st_writer_commit(w, &e), NH_OK);
	st_file *f;
	if (st_file_open(&f, path, &e) != NH_OK) fail_msg("%s", e.text);
	assert_int_equal(st_file_count(f), 3);
	assert_string_equal(st_file_metadata(f, "format"), "pt");
	assert_null(st_file_metadata(f, "other"));
	assert_memory_equal(st_file_find(f, "z")->data, bytes, 12);
	assert_true(st_file_find(f, "z")->aligned);
	assert_int_equal(st_file_find(f, "a")->data[0], 13);
	assert_int_equal(st_file_find(f, "a")->rank, 0);
	size_t header;
	st_file_header(f, &header);
	assert_int_equal(header % 8, 0);
	st_file_drop(f, st_file_find(f, "z"));
	assert_memory_equal(st_file_find(f, "z")->data, bytes, 12);
	st_file_close(f);

	/* too few, too many, nothing: no file */
	for (int i = 0; i < 3; i++) {
		remove(path);
		assert_int_equal(st_writer_open(&w, path, &e), NH_OK);
		assert_int_equal(st_writer_add(w, "a", NUM_U8, 1, (const int64_t[]){4}, &e), NH_OK);
		if (i < 2) assert_int_equal(st_writer_begin(w, &e), NH_OK);
		st_writer_put(w, bytes, i == 0 ? 3 : 5);
		assert_int_equal(st_writer_commit(w, &e), NH_ERR_STATE);
		assert_int_equal(st_file_open(&f, path, &e), NH_ERR_NOTFOUND);
	}
	mem_free(path);
	assert_int_equal(mem_live(), 0);
}

static void survives_no_memory(void **state)
{
	(void)state;
	buf b = {0};
	fmt_st(&b, "{\"a\":" T("U8", "[1]", 0, 1) ",\"b\":" T("U8", "[1]", 1, 2) "}", 2);
	size_t live = mem_live(), failures = 0;
	for (size_t n = 0;; n++) {
		st_file *f;
		mem_fail_after(n);
		nh_status s = st_file_parse(&f, (const uint8_t *)b.data, b.len, "x", NULL);
		mem_fail_after(SIZE_MAX);
		if (s == NH_OK) {
			st_file_close(f);
			break;
		}
		assert_int_equal(s, NH_ERR_NOMEM);
		assert_int_equal(mem_live(), live);
		failures++;
	}
	assert_true(failures >= 3);
	assert_int_equal(mem_live(), live);
	buf_deinit(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(refuses), cmocka_unit_test(accepts), cmocka_unit_test(knows_every_type),
	    cmocka_unit_test(finds_and_orders), cmocka_unit_test(any_header_length), cmocka_unit_test(refuses_lengths_and_every_prefix),
	    cmocka_unit_test(writes_what_it_reads), cmocka_unit_test(survives_no_memory)};
	return cmocka_run_group_tests_name("safetensors", tests, NULL, NULL);
}
