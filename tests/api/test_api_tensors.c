/* SPDX-License-Identifier: Apache-2.0
 * test_api_tensors.c: reading safetensors through the public interface.
 */
#include "nh/nh_tensors.h"

#include <string.h>

#include "base/base_mem.h"
#include "fmt/safetensors.h"
#include "test.h"

static void what_was_written_is_read(void **state)
{
	(void)state;
	const char *path = NH_BINARY_DIR "/api_tensors.safetensors";
	const float a[6] = {1, 2, 3, 4, 5, 6};
	const uint8_t b[2] = {7, 8};
	const int64_t shape_a[2] = {2, 3}, shape_b[1] = {2};
	nh_error e = {0};
	st_writer *w;
	assert_int_equal(st_writer_open(&w, path, &e), NH_OK);
	assert_int_equal(st_writer_meta(w, "made by", "a test", &e), NH_OK);
	assert_int_equal(st_writer_add(w, "b", NUM_E4M3, 1, shape_b, &e), NH_OK);
	assert_int_equal(st_writer_add(w, "a", NUM_F32, 2, shape_a, &e), NH_OK);
	assert_int_equal(st_writer_begin(w, &e), NH_OK);
	st_writer_put(w, b, sizeof b);
	st_writer_put(w, a, sizeof a);
	assert_int_equal(st_writer_commit(w, &e), NH_OK);

	nh_tensors *t;
	nh_tensor_view v;
	assert_int_equal(nh_tensors_open(&t, path, &e), NH_OK);
	assert_int_equal(nh_tensors_count(t), 2);
	assert_true(nh_tensors_at(t, 0, &v, sizeof v));
	assert_string_equal(v.name, "a");
	assert_string_equal(v.dtype, "f32");
	assert_int_equal(v.rank, 2);
	assert_int_equal(v.shape[1], 3);
	assert_int_equal(v.bytes, sizeof a);
	assert_memory_equal(v.data, a, sizeof a);
	assert_true(nh_tensors_find(t, "b", &v, sizeof v));
	assert_string_equal(v.dtype, "e4m3");
	assert_false(nh_tensors_find(t, "c", &v, sizeof v));
	assert_false(nh_tensors_at(t, 2, &v, sizeof v));
	assert_string_equal(nh_tensors_metadata(t, "made by"), "a test");
	assert_null(nh_tensors_metadata(t, "x"));
	nh_tensors_close(t);
	nh_tensors_close(NULL);
	assert_int_not_equal(nh_tensors_open(&t, NH_BINARY_DIR "/no.safetensors", &e), NH_OK);
	assert_null(t);
	assert_int_equal(mem_live(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(what_was_written_is_read)};
	return cmocka_run_group_tests_name("api_tensors", tests, NULL, NULL);
}
