/* SPDX-License-Identifier: Apache-2.0
 * test_ref_kernel.c: which kernel a format gets under which profile, and that its decoding is the format's own, for every code.
 */
#include "kit.h"

#include "backend/ref/ref_kernel.h"
#include "backend/ref/ref_math.h"
#include "tensor/weight.h"

static void choices(void **state)
{
	(void)state;
	static const struct {
		const char *profile;
		num_scheme scheme;
		num_dtype type;
		const char *kernel;
		bool grid;
	} WANT[] = {
	    {"exact", NUM_SCHEME_NONE, NUM_BF16, "bf16", false},
	    {"portable", NUM_SCHEME_NONE, NUM_F32, "f32", false},
	    {"exact", NUM_SCHEME_FP8, NUM_E4M3, "fp8", true},
	    {"portable", NUM_SCHEME_FP8, NUM_E4M3, "fp8", true},
	    {"hopper", NUM_SCHEME_FP8, NUM_E4M3, "fp8, hopper sums", true},
	    {"exact", NUM_SCHEME_NVFP4, NUM_E2M1X2, "fp4", true},
	    {"exact-wo", NUM_SCHEME_NVFP4, NUM_E2M1X2, "fp4, weights only", false},
	    {"portable", NUM_SCHEME_NVFP4, NUM_E2M1X2, "fp4, weights only", false},
	    {"hopper", NUM_SCHEME_W4A16, NUM_E2M1X2, "fp4, weights only", false},
	    {"exact", NUM_SCHEME_W4A16, NUM_E2M1X2, "fp4, weights only", false},
	    {"blackwell", NUM_SCHEME_NVFP4, NUM_E2M1X2, NULL, false},
	    {"exact", NUM_SCHEME_NONE, NUM_F16, NULL, false},
	    {"exact", NUM_SCHEME_FP8, NUM_BF16, NULL, false},
	    {"portable", NUM_SCHEME_W4A16, NUM_E4M3, NULL, false},
	};
	for (size_t i = 0; i < sizeof WANT / sizeof *WANT; i++) {
		const ref_kernel *k = ref_kernel_of(num_profile(WANT[i].profile), WANT[i].scheme, WANT[i].type);
		if (!WANT[i].kernel) {
			assert_null(k);
			continue;
		}
		assert_non_null(k);
		assert_string_equal(k->name, WANT[i].kernel);
		assert_int_equal(k->grid != NULL, WANT[i].grid);
		assert_true(k->dense && k->expert_up && k->expert_down && (k->decode != NULL) != k->hopper);
	}
}

static void decodes_every_code(void **state)
{
	(void)state;
	kit k = kit_open("portable", 61);
	int checked = 0;
	for (int scheme = 0; scheme <= NUM_SCHEME_COUNT; scheme++) { /* the last: unquantised in F32 */
		const bool f32 = scheme == NUM_SCHEME_COUNT;
		weight w = f32 ? kit_weight_raw(&k, NUM_SCHEME_NONE, NUM_F32, 3, 512) : kit_weight(&k, (num_scheme)scheme, 3, 512);
		uint8_t *p = (uint8_t *)(uintptr_t)w.data;
		for (int i = 0; w.dtype != NUM_BF16 && w.dtype != NUM_F32 && i < 512; i++) p[i] = (uint8_t)i;
		if (w.block_scale)
			for (int i = 0; i < 96; i++) ((uint8_t *)(uintptr_t)w.block_scale)[i] = (uint8_t)(i * 3);
		const ref_kernel *kernel = ref_kernel_of(k.x->num, w.scheme, w.dtype);
		for (int row = 0; row < 3; row++)
			for (int from = 0; from < 512; from += 256) {
				double want[512], other[512], got[256 * REF_TILE];
				weight_decode_row(&w, row, want), weight_decode_row(&w, 2 - row, other);
				kernel->decode(&w, (const int64_t[2]){row, 2 - row}, from, 256, got);
				for (int i = 0; i < 256; i++, checked++) {
					assert_true(memcmp(&got[i * REF_TILE], &want[from + i], 8) == 0 || (isnan(want[from + i]) && isnan(got[i * REF_TILE])));
					assert_true(got[i * REF_TILE + 1] == other[from + i] || isnan(other[from + i]));
				}
			}
	}
	assert_int_equal(checked, (NUM_SCHEME_COUNT + 1) * 3 * 512);
	kit_close(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(choices), cmocka_unit_test(decodes_every_code)};
	return cmocka_run_group_tests_name("ref_kernel", tests, NULL, NULL);
}
