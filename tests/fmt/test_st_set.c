/* SPDX-License-Identifier: Apache-2.0
 * test_st_set.c: shards against their index: agreement, and each way to disagree.
 */
#include "test.h"

#include <string.h>

#include "base/base_file.h"
#include "base/base_mem.h"
#include "fmt/st_set.h"
#include "helper_fmt.h"

#define U8(name, from, to) "\"" name "\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[" #from "," #to "]}"

/* Two shards: a, b in the first, c in the second. */
static const char *good_dir(const char *name, const char *index)
{
	const char *dir = fmt_dir(name);
	fmt_write_st(dir, "model-00001-of-00002.safetensors", "{" U8("a", 0, 2) "," U8("b", 2, 4) "}", 4);
	fmt_write_st(dir, "model-00002-of-00002.safetensors", "{" U8("c", 0, 2) "}", 2);
	if (index) fmt_text(dir, ST_INDEX_NAME, index);
	return dir;
}

#define ONE "\"model-00001-of-00002.safetensors\""
#define TWO "\"model-00002-of-00002.safetensors\""
#define GOOD "{\"metadata\":{\"total_size\":6},\"weight_map\":{\"a\":" ONE ",\"b\":" ONE ",\"c\":" TWO "}}"

static void refused(const char *dir, nh_status code, const char *says, const char *also)
{
	nh_error e = {0};
	st_set *s;
	nh_status got = st_set_open(&s, dir, NULL, &e);
	if (got != code || !strstr(e.text, says) || !strstr(e.text, also))
		fail_msg("%d %s, expected %d, \"%s\", \"%s\"", got, e.text, code, says, also);
	assert_null(s);
	assert_int_equal(mem_live(), 0);
}

static void opens_shards(void **state)
{
	(void)state;
	nh_error e = {0};
	buf lines = {0};
	logger log = fmt_logger(&lines);
	st_set *s;
	if (st_set_open(&s, good_dir("good", GOOD), &log, &e) != NH_OK) fail_msg("%s", e.text);
	assert_int_equal(st_set_count(s), 3);
	assert_int_equal(st_set_files(s), 2);
	assert_int_equal(st_set_bytes(s), 6);
	assert_string_equal(st_set_at(s, 2)->name, "c");
	assert_null(st_set_at(s, 3));
	assert_ptr_equal(st_set_find(s, "b"), st_set_at(s, 1));
	assert_int_equal(st_set_find(s, "b")->data[0], 2);
	assert_null(st_set_find(s, "bb"));
	assert_null(st_set_find(s, ""));
	assert_string_equal(path_base(st_file_path(st_set_file_of(s, 2))), "model-00002-of-00002.safetensors");
	assert_int_equal(lines.len, 0);
	st_set_close(s);
	assert_int_equal(mem_live(), 0);
}

static void index_wins_over_strays(void **state)
{
	(void)state;
	nh_error e = {0};
	buf lines = {0};
	logger log = fmt_logger(&lines);
	const char *dir = good_dir("stray", "{\"metadata\":{\"total_size\":7},\"weight_map\":{\"a\":" ONE ",\"b\":" ONE ",\"c\":" TWO "}}");
	fmt_write_st(dir, ST_SINGLE_NAME, "{" U8("a", 0, 2) "," U8("old", 2, 4) "}", 4);
	fmt_text(dir, "model-00003-of-00002.safetensors", "not even one");
	st_set *s;
	if (st_set_open(&s, dir, &log, &e) != NH_OK) fail_msg("%s", e.text);
	assert_int_equal(st_set_count(s), 3);
	assert_null(st_set_find(s, "old"));
	assert_non_null(strstr(lines.data, "not read: model-00003-of-00002.safetensors, model.safetensors"));
	assert_non_null(strstr(lines.data, "total_size is 7, the tensors have 6"));
	st_set_close(s);
	buf_deinit(&lines);
}

static void refuses_mismatches(void **state)
{
	(void)state;
	const char *dir =
	    good_dir("gone", "{\"weight_map\":{\"a\":" ONE ",\"b\":" ONE ",\"c\":" TWO ",\"d\":\"model-00003-of-00003.safetensors\","
	                     "\"e\":\"model-00004-of-00003.safetensors\"}}");
	refused(dir, NH_ERR_NOTFOUND, "2 of the 4 files", "model-00003-of-00003.safetensors, model-00004-of-00003.safetensors");
	dir = good_dir("absent", "{\"weight_map\":{\"a\":" ONE ",\"b\":" ONE ",\"c\":" TWO ",\"d\":" TWO "}}");
	refused(dir, NH_ERR_TENSOR, "1 tensors are not in their file", "d in model-00002");
	dir = good_dir("extra", "{\"weight_map\":{\"a\":" ONE ",\"c\":" TWO "}}");
	refused(dir, NH_ERR_TENSOR, "does not list 1 tensors", "b in model-00001");
	dir = good_dir("moved", "{\"weight_map\":{\"a\":" ONE ",\"b\":" TWO ",\"c\":" TWO "}}");
	refused(dir, NH_ERR_TENSOR, "in another file", "b in model-00001");
	dir = good_dir("twice", GOOD);
	fmt_write_st(dir, "model-00002-of-00002.safetensors", "{" U8("c", 0, 2) "," U8("a", 2, 4) "}", 4);
	refused(dir, NH_ERR_TENSOR, "more than one shard", "a in model-00002");
	dir = good_dir("broken", GOOD);
	fmt_text(dir, "model-00002-of-00002.safetensors", "12345678");
	refused(dir, NH_ERR_LIMIT, "model-00002-of-00002.safetensors: header length", "");
}

static void names_at_most_ten(void **state)
{
	(void)state;
	buf b = {0};
	buf_str(&b, "{\"weight_map\":{\"a\":" ONE ",\"b\":" ONE ",\"c\":" TWO);
	for (int i = 0; i < 30; i++) buf_printf(&b, ",\"x%02d\":" ONE, i);
	buf_str(&b, "}}");
	const char *dir = good_dir("many", b.data);
	buf_deinit(&b);
	refused(dir, NH_ERR_TENSOR, "30 tensors are not in their file", "x09 in model-00001-of-00002.safetensors, ...");
}

static void refuses_paths_and_nonsense(void **state)
{
	(void)state;
	static const char *const bad[] = {"{}", "[]", "{\"weight_map\":{}}", "{\"weight_map\":[]}", "{\"weight_map\":{\"a\":1}}",
	    "{\"weight_map\":{\"a\":\"\"}}", "{\"weight_map\":{\"a\":\"../x.safetensors\"}}", "{\"weight_map\":{\"a\":\"..\"}}",
	    "{\"weight_map\":{\"a\":\"/etc/passwd\"}}", "{\"weight_map\":{\"a\":\"sub/x.safetensors\"}}", "{\"weight_map\":{\"a\":\"a\\\\b\"}}",
	    "{\"weight_map\":{\"a\":" ONE ",\"a\":" TWO "}}", "{\"weight_map\":", "{\"metadata\":{\"total_size\":1}}"};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		nh_error e = {0};
		st_index *x;
		nh_status s = st_index_parse(&x, bad[i], strlen(bad[i]), "i.json", &e);
		if (s != NH_ERR_FORMAT || strncmp(e.text, "i.json: ", 8) != 0) fail_msg("%s: %d %s", bad[i], s, e.text);
		assert_null(x);
	}
	refused(good_dir("escape", "{\"weight_map\":{\"a\":\"../x\"}}"), NH_ERR_FORMAT, "weight_map: a", "without a path");
}

static void opens_without_index(void **state)
{
	(void)state;
	nh_error e = {0};
	buf lines = {0};
	logger log = fmt_logger(&lines);
	st_set *s;
	refused(
	    good_dir("two", NULL), NH_ERR_CONFIG, "model-00001-of-00002.safetensors, model-00002-of-00002.safetensors", "no " ST_INDEX_NAME);
	const char *dir = fmt_dir("none");
	refused(dir, NH_ERR_NOTFOUND, "has neither", ST_INDEX_NAME);
	fmt_write_st(dir, "weights.safetensors", "{" U8("w", 0, 2) "}", 2);
	assert_int_equal(st_set_open(&s, dir, &log, &e), NH_OK);
	assert_non_null(st_set_find(s, "w"));
	assert_int_equal(lines.len, 0);
	st_set_close(s);
	fmt_write_st(dir, ST_SINGLE_NAME, "{" U8("m", 0, 2) "}", 2);
	assert_int_equal(st_set_open(&s, dir, &log, &e), NH_OK);
	assert_non_null(st_set_find(s, "m"));
	assert_null(st_set_find(s, "w"));
	assert_non_null(strstr(lines.data, "weights.safetensors"));
	st_set_close(s);
	buf_deinit(&lines);
	assert_int_equal(st_set_open(&s, FMT_SCRATCH "/nowhere", NULL, &e), NH_ERR_NOTFOUND);
}

static void index_alone(void **state)
{
	(void)state;
	nh_error e = {0};
	st_index *x;
	assert_int_equal(st_index_parse(&x, GOOD, strlen(GOOD), "i.json", &e), NH_OK);
	assert_int_equal(st_index_count(x), 3);
	assert_int_equal(st_index_shards(x), 2);
	assert_string_equal(st_index_shard(x, 1), "model-00002-of-00002.safetensors");
	assert_int_equal(st_index_find(x, "c")->shard, 1);
	assert_null(st_index_find(x, "d"));
	assert_int_equal(st_index_total_bytes(x), 6);
	st_index_close(x);
	const char *bare = "{\"weight_map\":{\"a\":" ONE "}}";
	assert_int_equal(st_index_parse(&x, bare, strlen(bare), "i.json", &e), NH_OK);
	assert_int_equal(st_index_total_bytes(x), -1);
	st_index_close(x);
}

static void survives_no_memory(void **state)
{
	(void)state;
	const char *dir = good_dir("memory", GOOD);
	size_t failures = 0;
	for (size_t n = 0;; n++) {
		st_set *s;
		mem_fail_after(n);
		nh_status st = st_set_open(&s, dir, NULL, NULL);
		mem_fail_after(SIZE_MAX);
		if (st == NH_OK) {
			st_set_close(s);
			break;
		}
		assert_int_equal(st, NH_ERR_NOMEM);
		assert_int_equal(mem_live(), 0);
		failures++;
	}
	assert_true(failures > 10);
}

static void published_layouts(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		size_t files;
	} models[] = {{"tiny-bf16", 3}, {"tiny-fp8", 1}, {"tiny-nvfp4", 2}, {"tiny-nvfp4-w4a4", 2}};
	for (size_t i = 0; i < ARRAY_LEN(models); i++) {
		char dir[512];
		nh_error e = {0};
		buf lines = {0};
		logger log = fmt_logger(&lines);
		st_set *s;
		snprintf(dir, sizeof dir, "%s/models/%s", NH_SHARED_DIR, models[i].name);
		if (!file_is_dir(dir)) NOT_RUN("%s is not there", models[i].name);
		if (st_set_open(&s, dir, &log, &e) != NH_OK) fail_msg("%s", e.text);
		assert_int_equal(st_set_files(s), models[i].files);
		const st_tensor *t = st_set_find(s, "backbone.embeddings.weight");
		assert_non_null(t);
		assert_int_equal(t->shape[0], 4096);
		assert_int_equal(t->shape[1], 256);
		assert_int_equal(lines.len, 0);
		st_set_close(s);
		buf_deinit(&lines);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(opens_shards), cmocka_unit_test(index_wins_over_strays),
	    cmocka_unit_test(refuses_mismatches), cmocka_unit_test(names_at_most_ten), cmocka_unit_test(refuses_paths_and_nonsense),
	    cmocka_unit_test(opens_without_index), cmocka_unit_test(index_alone), cmocka_unit_test(survives_no_memory),
	    cmocka_unit_test(published_layouts)};
	return cmocka_run_group_tests_name("st_set", tests, NULL, NULL);
}
