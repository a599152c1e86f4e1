/* SPDX-License-Identifier: Apache-2.0
 * test_f32_params.c: roundings that happen once, when parameters are loaded (docs/NUMERICS.md). The published goldens cannot see them, because their files
 * hold bf16 values; this checkpoint's F32 parameters are values that bf16 cannot hold.
 */
#include "test.h"

#include <math.h>
#include <string.h>

#include "base/base_mem.h"
#include "common/model_bench.h"
#include "num/num_conv.h"

static const char *checkpoint(void)
{
	const char *config[] = {"hidden_size=64", "vocab_size=320"};
	const mk_options o = {
	    .format = MK_BF16, .seed = 5, .pattern = "ME", .config = config, .config_count = ARRAY_LEN(config), .f32_params = true};
	return bench_checkpoint("f32-params", &o);
}

static const st_tensor *stored(const model_bench *b, const char *name)
{
	const st_tensor *t = st_set_find(b->set, name);
	if (!t) fail_msg("%s: not in the checkpoint", name);
	assert_int_equal(t->dtype, NUM_F32);
	return t;
}

/* How many of a parameter's values are what `f` makes of the stored ones, and how many of those differ from the stored ones. */
static void every(const st_tensor *file, const tensor *loaded, double (*f)(double), int *changed)
{
	int64_t n = tensor_count(loaded);
	assert_true(n > 0);
	for (int64_t i = 0; i < n; i++) {
		double v = num_load(NUM_F32, file->data, (size_t)i), got = num_load(loaded->dtype, loaded->data, (size_t)i);
		if (got != f(v)) fail_msg("%s[%d]: stored %.9g, loaded %.9g, expected %.9g", file->name, (int)i, v, got, f(v));
		*changed += got != v;
	}
}

static double to_bf16(double v) { return num_round_bf16(v); }
static double as_stored(double v) { return v; }
static double neg_exp_f32(double v) { return -num_round_f32(exp(v)); }
static double neg_exp(double v) { return -exp(v); }

static const nm_block *layer(const model_bench *b, int i) { return &((const nm_model *)b->m)->layers[i]; }

static void eager_rounds_d_and_dt_bias(void **state)
{
	(void)state;
	static const char *const PROFILES[] = {"portable", "hopper"};
	for (size_t i = 0; i < ARRAY_LEN(PROFILES); i++) {
		model_bench b;
		int changed = 0;
		bench_open(&b, checkpoint(), PROFILES[i], 1, 4, 16, false);
		const nm_mamba *m = &layer(&b, 0)->mamba;
		every(stored(&b, "backbone.layers.0.mixer.D"), &m->d, to_bf16, &changed);
		every(stored(&b, "backbone.layers.0.mixer.dt_bias"), &m->dt_bias, to_bf16, &changed);
		assert_true(changed >= 6); /* the values really are off the bf16 grid */
		every(stored(&b, "backbone.layers.0.mixer.A_log"), &m->a, neg_exp_f32, &changed);
		bench_close(&b);
	}
}

static void exact_keeps_them(void **state)
{
	(void)state;
	model_bench b;
	int changed = 0, made = 0;
	bench_open(&b, checkpoint(), "exact", 1, 4, 16, false);
	const nm_mamba *m = &layer(&b, 0)->mamba;
	every(stored(&b, "backbone.layers.0.mixer.D"), &m->d, as_stored, &changed);
	every(stored(&b, "backbone.layers.0.mixer.dt_bias"), &m->dt_bias, as_stored, &changed);
	assert_int_equal(changed, 0);
	every(stored(&b, "backbone.layers.0.mixer.A_log"), &m->a, neg_exp, &made);
	bench_close(&b);
}

/* The router's weights: bf16 in eager profiles, as stored in exact; its bias is an f32 everywhere. */
static void router_follows_the_profile(void **state)
{
	(void)state;
	for (int exact = 0; exact < 2; exact++) {
		model_bench b;
		int off_grid = 0, bias_changed = 0;
		bench_open(&b, checkpoint(), exact ? "exact" : "portable", 1, 4, 16, false);
		const nm_moe *m = &layer(&b, 1)->moe;
		const st_tensor *file = stored(&b, "backbone.layers.1.mixer.gate.weight");
		double row[64];
		assert_int_equal(m->gate.k, 64);
		for (int64_t i = 0; i < m->gate.n; i++) {
			weight_decode_row(&m->gate, i, row);
			for (int64_t k = 0; k < 64; k++) {
				double v = num_load(NUM_F32, file->data, (size_t)(i * 64 + k));
				assert_true(row[k] == (exact ? v : num_round_bf16(v)));
				off_grid += num_round_bf16(v) != v;
			}
		}
		assert_true(off_grid > 64);
		every(stored(&b, "backbone.layers.1.mixer.gate.e_score_correction_bias"), &m->bias, as_stored, &bias_changed);
		assert_int_equal(bias_changed, 0);
		bench_close(&b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(eager_rounds_d_and_dt_bias), cmocka_unit_test(exact_keeps_them), cmocka_unit_test(router_follows_the_profile)};
	return cmocka_run_group_tests_name("f32_params", tests, NULL, NULL);
}
