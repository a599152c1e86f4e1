/* SPDX-License-Identifier: Apache-2.0
 * test_ref_backend.c: opening, refusing, importing, and the arm's memory; nothing leaked.
 */
#include "kit.h"

#include "base/base_mem.h"

static void opens_profiles(void **state)
{
	(void)state;
	nh_error e;
	for (int p = 0; p < KIT_PROFILE_COUNT; p++) {
		kit k = kit_open(KIT_PROFILES[p], 1);
		assert_string_equal(k.x->arm, "ref");
		assert_int_equal(k.x->layer, -1);
		assert_int_equal(k.x->types.act, kit_eager(&k) ? NUM_BF16 : NUM_F64);
		assert_int_equal(k.x->types.ssm_state, kit_eager(&k) ? NUM_F32 : NUM_F64);
		kit_close(&k);
	}
	exec *x = NULL;
	assert_int_equal(ref_backend.open(&x, NULL, &e), NH_OK);
	assert_string_equal(x->num->name, "portable");
	ref_backend.close(x);
	assert_int_equal(ref_backend.open(&x, &(backend_options){.num = num_profile("blackwell")}, &e), NH_ERR_UNSUPPORTED);
	assert_non_null(strstr(e.text, "blackwell"));
	assert_null(x);
	nh_numerics odd = *num_profile("exact");
	odd.fp8_sums = NUM_SUMS_HOPPER;
	assert_int_equal(ref_backend.open(&x, &(backend_options){.num = &odd}, &e), NH_ERR_UNSUPPORTED);
	mem_fail_after(0);
	assert_int_equal(ref_backend.open(&x, NULL, &e), NH_ERR_NOMEM);
	mem_fail_after(SIZE_MAX);
	ref_backend.close(NULL);
	assert_int_equal(mem_live(), 0);
}

static void no_slot_is_empty(void **state)
{
	(void)state;
	int slots = 0;
#define COUNT(name)                \
	assert_non_null(ref_ops.name); \
	slots++;
	OP_LIST(COUNT)
	assert_int_equal(slots, OP_COUNT);
}

static void refuses_weights(void **state)
{
	(void)state;
	kit k = kit_open("portable", 1);
	nh_error e;
	weight good = kit_weight_raw(&k, NUM_SCHEME_W4A16, NUM_E2M1X2, 4, 32), w = good;
	assert_int_equal(ref_backend.import(k.x, &w, &e), NH_OK);
	assert_non_null(w.bound);
	ref_backend.release(k.x, &w);
	assert_null(w.bound);
	const struct {
		weight w;
		nh_status status;
		const char *says;
	} bad[] = {
	    {{.name = "a",
	         .scheme = NUM_SCHEME_W4A16,
	         .dtype = NUM_E2M1X2,
	         .n = 4,
	         .k = 24,
	         .data = good.data,
	         .block_scale = good.block_scale,
	         .scale = 1},
	        NH_ERR_TENSOR, "a: 24 columns"},
	    {{.name = "b", .scheme = NUM_SCHEME_W4A16, .dtype = NUM_E2M1X2, .n = 4, .k = 32, .data = good.data, .scale = 1}, NH_ERR_TENSOR,
	        "no block scales"},
	    {{.name = "c", .scheme = NUM_SCHEME_W4A16, .dtype = NUM_BF16, .n = 4, .k = 32, .data = good.data, .scale = 1}, NH_ERR_UNSUPPORTED,
	        "bf16 elements"},
	    {{.name = "d", .scheme = NUM_SCHEME_NONE, .dtype = NUM_BF16, .n = 0, .k = 32, .data = good.data, .scale = 1}, NH_ERR_TENSOR,
	        "shape [0, 32]"},
	    {{.name = "e", .scheme = NUM_SCHEME_NONE, .dtype = NUM_BF16, .n = INT64_MAX, .k = 32, .data = good.data, .scale = 1}, NH_ERR_TENSOR,
	        "shape"},
	    {{.name = "f", .scheme = NUM_SCHEME_NONE, .dtype = NUM_BF16, .n = 1, .k = 2, .data = good.data}, NH_ERR_TENSOR, "expected 1"},
	    {{.name = "g", .scheme = NUM_SCHEME_NONE, .dtype = NUM_BF16, .n = 1, .k = 2, .scale = 1}, NH_ERR_TENSOR, "no data"},
	    {{.name = "h", .scheme = NUM_SCHEME_FP8, .dtype = NUM_E4M3, .n = 1, .k = 2, .data = good.data, .scale = 1}, NH_ERR_TENSOR,
	        "input scale 0"},
	    {{.name = "i", .scheme = NUM_SCHEME_FP8, .dtype = NUM_E4M3, .n = 1, .k = 2, .data = good.data, .scale = NAN, .input_scale = 1},
	        NH_ERR_TENSOR, "weight scale"},
	};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		w = bad[i].w;
		assert_int_equal(ref_backend.import(k.x, &w, &e), bad[i].status);
		if (!strstr(e.text, bad[i].says)) fail_msg("'%s' does not say '%s'", e.text, bad[i].says);
		assert_null(w.bound);
	}
	kit_close(&k);
}

static void moves_bytes(void **state)
{
	(void)state;
	kit k = kit_open("portable", 1);
	char out[4] = "";
	uint8_t *p = ref_backend.alloc(k.x, 100);
	assert_non_null(p);
	for (int i = 0; i < 100; i++) assert_int_equal(p[i], 0);
	assert_int_equal(ref_backend.upload(k.x, p, "abc", 4, NULL), NH_OK);
	assert_int_equal(ref_backend.download(k.x, out, p, 4, NULL), NH_OK);
	assert_string_equal(out, "abc");
	assert_int_equal(k.x->counters.bytes_uploaded, 4);
	ref_backend.free(k.x, p);
	void *none = ref_backend.alloc(k.x, 0);
	assert_non_null(none);
	ref_backend.free(k.x, none);
	kit_close(&k);
	assert_int_equal(mem_live(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(opens_profiles), cmocka_unit_test(no_slot_is_empty),
	    cmocka_unit_test(refuses_weights), cmocka_unit_test(moves_bytes)};
	return cmocka_run_group_tests_name("ref_backend", tests, NULL, NULL);
}
