/* SPDX-License-Identifier: Apache-2.0
 * test_api_model.c: opening the built-in model: what it is, what is refused, progress and log, and that every allocation may fail.
 */
#include "helper_tiny.h"

#include <string.h>

#include "base/base_mem.h"
#include "test.h"

static void it_is_what_it_is(void **state)
{
	(void)state;
	nh_model *m = tiny_open(NULL);
	nh_model_info i;
	nh_model_get_info(m, &i, sizeof i);
	assert_string_equal(i.path, TINY);
	assert_string_equal(i.name, "tiny");
	assert_string_equal(i.pattern, "MEMEM*EMEMEM*E");
	assert_string_equal(i.arm, "cpu");
	assert_true(strcmp(i.tier, "portable") == 0 || strcmp(i.tier, "avx2") == 0 || strcmp(i.tier, "avx512") == 0);
	assert_string_equal(i.numerics, "portable");
	assert_string_equal(i.kv_dtype, "fp8");
	assert_non_null(strstr(i.formats, "fp8 "));
	assert_int_equal(strlen(i.identity), 64);
	assert_int_equal(i.layers, 14);
	assert_int_equal(i.vocab, 4096);
	assert_int_equal(i.chunk, 128);
	assert_int_equal(i.max_context, 4096);
	assert_int_equal(i.kv_bytes_token, 512);
	assert_int_equal(i.state_bytes_sequence, 1609728);
	assert_true(i.weight_bytes > 12000000 && i.scratch_bytes > 1000000);

	const int32_t *end;
	assert_int_equal(nh_model_end_tokens(m, &end), 2);
	assert_int_equal(end[0] + end[1], 13);
	nh_sampling_defaults d;
	nh_model_get_sampling_defaults(m, &d, sizeof d);
	assert_int_equal(d.do_sample, 1);
	assert_true(d.temperature == 0.7 && d.top_p == 0.95 && d.min_p == -1 && d.top_k == -1);

	char hex[65];
	nh_error e = {0};
	bool config = false;
	for (size_t f = 0; f < nh_model_file_count(m); f++) config |= strcmp(nh_model_file_name(m, f), "config.json") == 0;
	assert_true(config);
	assert_null(nh_model_file_name(m, nh_model_file_count(m)));
	assert_int_equal(nh_model_file_sha256(m, 0, hex, NULL, NULL, &e), NH_OK);
	assert_int_equal(strlen(hex), 64);
	assert_int_equal(nh_model_file_sha256(m, 99, hex, NULL, NULL, &e), NH_ERR_ARG);
	nh_model_close(m);
	nh_model_close(NULL);
	assert_int_equal(mem_live(), 0);
}

static void what_is_refused(void **state)
{
	(void)state;
	nh_model *m;
	nh_error e;
	nh_model_options o;
	nh_model_options_init(&o, sizeof o);
	o.arm = "abacus";
	assert_int_equal(nh_model_open(&m, TINY, &o, &e), NH_ERR_ARG);
	assert_non_null(strstr(e.text, "arm: is abacus, expected one of: "));
	assert_null(m);
	o.arm = "ref";
	o.numerics = "loose";
	assert_int_equal(nh_model_open(&m, TINY, &o, &e), NH_ERR_ARG);
	assert_non_null(strstr(e.text, "numerics: is loose, expected one of: exact, exact-wo, portable, hopper, blackwell"));
	o.numerics = "blackwell";
	assert_int_equal(nh_model_open(&m, TINY, &o, &e), NH_ERR_UNSUPPORTED);
	o.numerics = NULL;
	o.kv_dtype = "int4";
	assert_int_equal(nh_model_open(&m, TINY, &o, &e), NH_ERR_ARG);
	assert_non_null(strstr(e.text, "kv_dtype: is int4, expected one of: auto, bf16, fp8"));
	o.kv_dtype = NULL;
	o.chat_template = NH_SOURCE_DIR "/no/such.jinja";
	assert_int_equal(nh_model_open(&m, TINY, &o, &e), NH_ERR_NOTFOUND);
	o.chat_template = NULL;
	assert_int_equal(nh_model_open(&m, NH_SOURCE_DIR "/no/model", &o, &e), NH_ERR_NOTFOUND);
	assert_int_equal(mem_live(), 0);
}

static void kv_types(void **state)
{
	(void)state;
	static const struct {
		const char *numerics, *asked, *got;
		uint64_t bytes;
	} CASES[] = {{NULL, "auto", "fp8", 512}, {NULL, "bf16", "bf16", 1024}, {"exact", "bf16", "f64", 4096}, {"exact", NULL, "fp8", 512}};
	for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
		nh_model *m;
		nh_model_options o;
		nh_model_info info;
		nh_model_options_init(&o, sizeof o);
		o.arm = "ref";
		o.numerics = CASES[i].numerics;
		o.kv_dtype = CASES[i].asked;
		assert_int_equal(nh_model_open(&m, TINY, &o, NULL), NH_OK);
		nh_model_get_info(m, &info, sizeof info);
		assert_string_equal(info.kv_dtype, CASES[i].got);
		assert_int_equal(info.kv_bytes_token, CASES[i].bytes);
		nh_model_close(m);
	}
}

/* Without a word about the arm, the first that has the profile. */
static void an_arm_by_profile(void **state)
{
	(void)state;
	nh_model *m;
	nh_error e;
	nh_model_options o;
	nh_model_info info;
	nh_model_options_init(&o, sizeof o);
	o.numerics = "hopper";
	assert_int_equal(nh_model_open(&m, TINY, &o, &e), NH_OK);
	nh_model_get_info(m, &info, sizeof info);
	assert_string_equal(info.arm, "ref");
	nh_model_close(m);
	o.arm = "cpu";
	assert_int_equal(nh_model_open(&m, TINY, &o, &e), NH_ERR_UNSUPPORTED);
	assert_non_null(strstr(e.text, "cpu: profile hopper"));
	o.numerics = NULL;
	o.isa = "abacus";
	assert_int_equal(nh_model_open(&m, TINY, &o, &e), NH_ERR_ARG);
	assert_non_null(strstr(e.text, "cpu_isa: is abacus, expected auto, portable, avx2 or avx512"));
	o.isa = "portable";
	o.arm = NULL;
	assert_int_equal(nh_model_open(&m, TINY, &o, &e), NH_OK);
	nh_model_get_info(m, &info, sizeof info);
	assert_string_equal(info.tier, "portable");
	nh_model_close(m);
	assert_int_equal(mem_live(), 0);
}

/* Built-in configurations: no file, no tokenizer. */
static void presets(void **state)
{
	(void)state;
	size_t count = 0;
	bool lightning = false;
	for (; nh_preset_at(count); count++) lightning |= strcmp(nh_preset_at(count), "lightning-30b") == 0;
	assert_true(count >= 4 && lightning);
	assert_null(nh_preset_at(count + 1));
	nh_model *m;
	nh_error e;
	nh_model_options o;
	nh_model_options_init(&o, sizeof o);
	o.like = "abacus-30b";
	assert_int_equal(nh_model_open(&m, NULL, &o, &e), NH_ERR_ARG);
	assert_non_null(strstr(e.text, "abacus-30b"));
	assert_int_equal(mem_live(), 0);
}

typedef struct watch {
	uint64_t calls, last, total;
	bool stop;
} watch;

static bool progress(void *user, const char *what, uint64_t done, uint64_t total)
{
	watch *w = user;
	w->calls++;
	if (strcmp(what, "bytes") == 0) {
		if (done < w->last || done > total)
			fail_msg("%llu after %llu of %llu", (unsigned long long)done, (unsigned long long)w->last, (unsigned long long)total);
		w->last = done;
		w->total = total;
	}
	return !w->stop;
}

static void progress_can_cancel(void **state)
{
	(void)state;
	nh_model *m;
	nh_error e;
	nh_model_options o;
	watch w = {0};
	nh_model_options_init(&o, sizeof o);
	o.progress = progress;
	o.progress_user = &w;
	assert_int_equal(nh_model_open(&m, TINY, &o, &e), NH_OK);
	assert_true(w.calls > 10);
	assert_int_equal(w.last, w.total);
	nh_model_close(m);
	w = (watch){.stop = true};
	assert_int_equal(nh_model_open(&m, TINY, &o, &e), NH_ERR_CANCELLED);
	assert_null(m);
	assert_int_equal(mem_live(), 0);
}

/* A sample of the thousands of allocations: each place in the first hundred, then ever sparser. */
static void allocations_may_fail(void **state)
{
	(void)state;
	int failed = 0;
	for (size_t after = 0;; after += after < 100 ? 1 : after / 16) {
		nh_model *m;
		nh_error e = {0};
		mem_fail_after(after);
		nh_status s = nh_model_open(&m, TINY, NULL, &e);
		mem_fail_after(SIZE_MAX);
		nh_model_close(m);
		assert_int_equal(mem_live(), 0);
		if (s == NH_OK) break;
		assert_int_equal(s, NH_ERR_NOMEM);
		failed++;
	}
	assert_true(failed > 100);
}

static void profiles(void **state)
{
	(void)state;
	nh_profile p;
	size_t n = 0;
	for (; nh_profile_at(n, &p, sizeof p); n++) assert_non_null(p.name);
	assert_int_equal(n, 5);
	assert_true(nh_profile_at(0, &p, sizeof p));
	assert_string_equal(p.name, "exact");
	assert_string_equal(p.rounding, "none");
	assert_string_equal(p.w4a4, "native");
	assert_false(nh_profile_at(SIZE_MAX, &p, sizeof p));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(it_is_what_it_is),
	    cmocka_unit_test(what_is_refused),
	    cmocka_unit_test(kv_types),
	    cmocka_unit_test(an_arm_by_profile),
	    cmocka_unit_test(presets),
	    cmocka_unit_test(progress_can_cancel),
	    cmocka_unit_test(allocations_may_fail),
	    cmocka_unit_test(profiles),
	};
	return cmocka_run_group_tests_name("api_model", tests, NULL, NULL);
}
