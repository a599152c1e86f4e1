/* SPDX-License-Identifier: Apache-2.0
 * test_layout.c: programs built against older headers: the public structs as abi/nh.layout has them, and every function that fills or reads a
 * struct with a size keeps to the size that it is told, at every length that an older header could have had.
 */
#include "test.h"

#include <string.h>

#include "base/base_buf.h"
#include "base/base_file.h"
#include "base/base_mem.h"
#include "nh/nh.h"

#define TINY NH_SOURCE_DIR "/models/tiny"
#define GUARD 0xA5

static const struct {
	const char *name;
	size_t bytes;
} structs[] = {
#define ONE(type)           \
	{                       \
#type, sizeof(type) \
	}
    ONE(nh_bias),
    ONE(nh_engine_options),
    ONE(nh_engine_stats),
    ONE(nh_error),
    ONE(nh_event),
    ONE(nh_logprob),
    ONE(nh_model_info),
    ONE(nh_model_options),
    ONE(nh_op_stat),
    ONE(nh_profile),
    ONE(nh_request_options),
    ONE(nh_request_stats),
    ONE(nh_sampling_defaults),
    ONE(nh_session_info),
    ONE(nh_tensor_view),
#undef ONE
};

/* The compiler of the tests and the file agree on every struct; the file knows no other. */
static void sizes_are_the_golden_ones(void **state)
{
	(void)state;
	buf text = {0};
	nh_error e = {0};
	size_t found = 0, total = 0;
	if (file_read(NH_SOURCE_DIR "/abi/nh.layout", 1 << 20, &text, &e) != NH_OK) fail_msg("%s", e.text);
	for (const char *line = text.data; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		size_t word = strcspn(line, " \n"), rest = strcspn(line, "\n");
		if (strncmp(line, "nh_", 3) != 0 || memchr(line, '.', rest)) continue;
		total++;
		for (size_t i = 0; i < ARRAY_LEN(structs); i++) {
			char want[80];
			if (strlen(structs[i].name) != word || memcmp(structs[i].name, line, word) != 0) continue;
			int n = snprintf(want, sizeof want, "%s %zu", structs[i].name, structs[i].bytes);
			if ((size_t)n != rest || memcmp(want, line, rest) != 0) fail_msg("abi/nh.layout: %.*s, here %s", (int)rest, line, want);
			found++;
		}
	}
	assert_int_equal(found, ARRAY_LEN(structs));
	assert_int_equal(total, ARRAY_LEN(structs));
	buf_deinit(&text);
}

typedef bool (*fill_fn)(void *user, void *out, size_t size);

/* Fills at every size from the shortest to twice the struct: the same bytes as the whole one has, the size told, and nothing past it. */
static int filled(const char *what, fill_fn fill, void *user, size_t full)
{
	static _Alignas(16) unsigned char whole[8192], part[8192];
	int sizes = 0;
	assert_true(2 * full <= sizeof whole);
	memset(whole, 0, sizeof whole);
	assert_true(fill(user, whole, full));
	for (size_t size = 16; size <= 2 * full; size += 4, sizes++) {
		size_t told;
		memset(part, GUARD, sizeof part);
		assert_true(fill(user, part, size));
		memcpy(&told, part, sizeof told);
		if (told != size) fail_msg("%s: told size %zu, was given %zu", what, told, size);
		if (memcmp(part + sizeof told, whole + sizeof told, (size < full ? size : full) - sizeof told) != 0)
			fail_msg("%s: other bytes at size %zu", what, size);
		for (size_t i = size; i < sizeof part; i++)
			if (part[i] != GUARD) fail_msg("%s: byte %zu is written, the struct has %zu", what, i, size);
	}
	return sizes;
}

static bool fill_engine_options(void *user, void *out, size_t size) { return (void)user, nh_engine_options_init(out, size), true; }
static bool fill_model_options(void *user, void *out, size_t size) { return (void)user, nh_model_options_init(out, size), true; }
static bool fill_request_options(void *user, void *out, size_t size) { return (void)user, nh_request_options_init(out, size), true; }
static bool fill_profile(void *user, void *out, size_t size) { return (void)user, nh_profile_at(1, out, size); }
static bool fill_info(void *m, void *out, size_t size) { return nh_model_get_info(m, out, size), true; }
static bool fill_defaults(void *m, void *out, size_t size) { return nh_model_get_sampling_defaults(m, out, size), true; }
static bool fill_stats(void *g, void *out, size_t size) { return nh_engine_get_stats(g, out, size), true; }
static bool fill_view(void *t, void *out, size_t size) { return nh_tensors_at(t, 0, out, size); }

static void functions_keep_to_the_size(void **state)
{
	(void)state;
	nh_error e = {0};
	nh_model *m;
	nh_engine *g = NULL;
	nh_tensors *t;
	if (nh_model_open(&m, TINY, NULL, &e) != NH_OK || nh_engine_open(&g, m, NULL, &e) != NH_OK) fail_msg("%s", e.text);
	if (nh_tensors_open(&t, TINY "/model-00001-of-00002.safetensors", &e) != NH_OK) fail_msg("%s", e.text);
	int n = 0;
	n += filled("nh_engine_options_init", fill_engine_options, NULL, sizeof(nh_engine_options));
	n += filled("nh_model_options_init", fill_model_options, NULL, sizeof(nh_model_options));
	n += filled("nh_request_options_init", fill_request_options, NULL, sizeof(nh_request_options));
	n += filled("nh_profile_at", fill_profile, NULL, sizeof(nh_profile));
	n += filled("nh_model_get_info", fill_info, m, sizeof(nh_model_info));
	n += filled("nh_model_get_sampling_defaults", fill_defaults, m, sizeof(nh_sampling_defaults));
	n += filled("nh_engine_get_stats", fill_stats, g, sizeof(nh_engine_stats));
	n += filled("nh_tensors_at", fill_view, t, sizeof(nh_tensor_view));
	assert_true(n > 2000);
	nh_tensors_close(t);
	nh_engine_close(g);
	nh_model_close(m);
	assert_int_equal(mem_live(), 0);
}

/* A program that was built before the struct grew runs, whatever lies behind its shorter struct; one that was built after it runs too, as long as it
 * leaves the unknown tail alone. */
static void old_and_new_programs_submit(void **state)
{
	(void)state;
	nh_error e = {0};
	nh_model *m;
	nh_engine *g = NULL;
	struct {
		nh_request_options o;
		unsigned char tail[64];
	} grown = {0};
	static const int32_t prompt[] = {20, 30, 40};
	static const size_t sizes[] = {offsetof(nh_request_options, presence_penalty), offsetof(nh_request_options, bias),
	    offsetof(nh_request_options, choices), sizeof(nh_request_options), sizeof grown};
	int32_t first = -1;
	if (nh_model_open(&m, TINY, NULL, &e) != NH_OK || nh_engine_open(&g, m, NULL, &e) != NH_OK) fail_msg("%s", e.text);
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		nh_request *r;
		nh_event ev;
		memset(&grown.o, GUARD, sizeof grown.o); /* what an old program's stack may hold */
		nh_request_options_init(&grown.o, sizes[i] < sizeof grown.o ? sizes[i] : sizeof grown.o);
		grown.o.size = sizes[i];
		grown.o.prompt = prompt;
		grown.o.prompt_tokens = 3;
		grown.o.max_tokens = 1;
		if (nh_engine_submit(g, &grown.o, &r, &e) != NH_OK) fail_msg("size %zu: %s", sizes[i], e.text);
		assert_int_equal(nh_request_next(r, &ev, sizeof ev, -1), NH_OK);
		assert_int_equal(ev.type, NH_EVENT_TOKEN);
		if (i == 0) first = ev.token;
		assert_int_equal(ev.token, first);
		nh_request_release(r);
	}
	nh_request *r;
	grown.tail[63] = 1; /* asks for something that this library does not have */
	assert_int_equal(nh_engine_submit(g, &grown.o, &r, &e), NH_ERR_UNSUPPORTED);
	nh_engine_close(g);
	nh_model_close(m);
	assert_int_equal(mem_live(), 0);
}

static void versions(void **state)
{
	(void)state;
	nh_error e = {0};
	assert_int_equal(nh_version(), NH_VERSION);
	assert_int_equal(nh_version_check(NH_VERSION, &e), NH_OK);
	assert_int_equal(nh_version_check(NH_VERSION + 1, &e), NH_ERR_UNSUPPORTED); /* a newer patch */
	assert_string_equal(e.text, "libnemotron: is version 0.1.0, the program was compiled against 0.1.1");
	assert_int_equal(nh_version_check(NH_VERSION + 256, NULL), NH_ERR_UNSUPPORTED);
	assert_int_equal(nh_version_check(0, NULL), NH_ERR_UNSUPPORTED); /* 0.0.0: before 1.0 another minor version is another interface */
	assert_int_equal(nh_version_check((uint32_t)1 << 16, NULL), NH_ERR_UNSUPPORTED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(sizes_are_the_golden_ones),
	    cmocka_unit_test(functions_keep_to_the_size),
	    cmocka_unit_test(old_and_new_programs_submit),
	    cmocka_unit_test(versions),
	};
	return cmocka_run_group_tests_name("layout", tests, NULL, NULL);
}
