/* SPDX-License-Identifier: Apache-2.0
 * test_identity.c: the digest is the one that identity.h defines, and each part that enters it changes it.
 */
#include "test.h"

#include <string.h>

#include "base/base_file.h"
#include "base/base_mem.h"
#include "fmt/identity.h"
#include "helper_fmt.h"

#define HEAD(n)                                                                                               \
	"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"big\":{\"dtype\":\"U8\",\"shape\":[" #n \
	"],\"data_offsets\":[2,100002]}}"

/* A model of two tensors, the second longer than what enters the digest; byte `flip` of the file is changed (0: none). */
static void digest(const char *config, const char *tokenizer, size_t flip, char hex[65])
{
	const char *dir = fmt_dir("identity"), *header = HEAD(100000);
	buf b = {0};
	st_set *set;
	nh_error e = {0};
	fmt_st(&b, header, 100002);
	if (flip) b.data[flip] = (char)(b.data[flip] ^ 1);
	fmt_text(dir, "config.json", config);
	fmt_write(dir, "model.safetensors", b.data, b.len);
	if (tokenizer) fmt_text(dir, "tokenizer.json", tokenizer);
	char *c = fmt_path(dir, "config.json"), *t = fmt_path(dir, "tokenizer.json");
	if (st_set_open(&set, dir, NULL, &e) != NH_OK) fail_msg("%s", e.text);
	if (identity_compute(c, tokenizer ? t : NULL, set, NULL, NULL, hex, &e) != NH_OK) fail_msg("%s", e.text);
	assert_int_equal(strlen(hex), 64);
	st_set_close(set);
	mem_free(c);
	mem_free(t);
	buf_deinit(&b);
	assert_int_equal(mem_live(), 0);
}

static void by_hand(sha256 *h, const char *kind, const char *name, const void *data, uint64_t n)
{
	uint8_t length[8];
	for (int i = 0; i < 8; i++) length[i] = (uint8_t)(n >> (8 * i));
	sha256_update(h, kind, strlen(kind) + 1);
	sha256_update(h, name, strlen(name) + 1);
	sha256_update(h, length, 8);
	sha256_update(h, data, n);
}

static void is_as_defined(void **state)
{
	(void)state;
	char got[65], want[65];
	const char *header = HEAD(100000);
	uint8_t data[100002];
	for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)i;
	sha256 *h = sha256_create();
	by_hand(h, "version", "nemotron.c checkpoint identity", "1", 1);
	by_hand(h, "file", "config.json", "{}", 2);
	by_hand(h, "file", "tokenizer.json", "[]", 2);
	by_hand(h, "header", "model.safetensors", header, strlen(header));
	by_hand(h, "tensor", "a", data, 2);
	by_hand(h, "tensor", "big", data + 2, 65536);
	sha256_finish(h, want);
	digest("{}", "[]", 0, got);
	assert_string_equal(got, want);
}

static void each_part_counts(void **state)
{
	(void)state;
	char base[65], other[65];
	size_t data = 8 + strlen(HEAD(100000));
	digest("{}", "[]", 0, base);
	digest("{} ", "[]", 0, other);
	assert_string_not_equal(base, other);
	digest("{}", "[ ]", 0, other);
	assert_string_not_equal(base, other);
	digest("{}", NULL, 0, other);
	assert_string_not_equal(base, other);
	digest("{}", "[]", data, other);
	assert_string_not_equal(base, other);
	digest("{}", "[]", data + 2 + 65535, other);
	assert_string_not_equal(base, other);
	digest("{}", "[]", data + 2 + 65536, other); /* past the 64 KiB: not seen, as defined */
	assert_string_equal(base, other);
}

static bool stop(void *user, const char *what, uint64_t done, uint64_t total)
{
	(void)what, (void)done, (void)total;
	++*(int *)user;
	return false;
}

static void fails_cleanly(void **state)
{
	(void)state;
	const char *dir = fmt_dir("identity_many");
	buf h = {0};
	nh_error e = {0};
	st_set *set;
	char hex[65];
	int calls = 0;
	buf_char(&h, '{');
	for (int i = 0; i < 100; i++)
		buf_printf(&h, "%s\"t%d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}", i ? "," : "", i, i, i + 1);
	buf_char(&h, '}');
	fmt_write_st(dir, "model.safetensors", h.data, 100);
	buf_deinit(&h);
	fmt_text(dir, "config.json", "{}");
	char *config = fmt_path(dir, "config.json"), *none = fmt_path(dir, "none");
	assert_int_equal(st_set_open(&set, dir, NULL, &e), NH_OK);
	assert_int_equal(identity_compute(config, NULL, set, stop, &calls, hex, &e), NH_ERR_CANCELLED);
	assert_int_equal(calls, 1);
	assert_string_equal(hex, "");
	assert_int_equal(identity_compute(config, none, set, NULL, NULL, hex, &e), NH_ERR_NOTFOUND);
	assert_string_equal(hex, "");
	assert_int_equal(identity_compute(config, NULL, NULL, NULL, NULL, hex, &e), NH_OK);
	assert_int_equal(strlen(hex), 64);
	st_set_close(set);
	mem_free(config);
	mem_free(none);
	assert_int_equal(mem_live(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(is_as_defined), cmocka_unit_test(each_part_counts), cmocka_unit_test(fails_cleanly)};
	return cmocka_run_group_tests_name("identity", tests, NULL, NULL);
}
