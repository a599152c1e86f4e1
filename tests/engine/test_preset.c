/* SPDX-License-Identifier: Apache-2.0
 * test_preset.c: configurations of published shapes have the published numbers of parameters and bytes (model.md 10.3), in whole and cut.
 */
#include "test.h"

#include <math.h>
#include <string.h>

#include "base/base_mem.h"
#include "exec/wrap.h"
#include "fmt/preset.h"
#include "load/loader.h"
#include "model/nemotron_h/nm_model.h"

typedef struct counted {
	double parameters, bytes;
	char pattern[200];
} counted;

static void add(void *user, const load_record *r)
{
	counted *c = user;
	c->parameters += (double)r->n * (double)r->k;
	c->bytes += (double)r->file_bytes;
}

static counted count(const char *wanted, int layers)
{
	counted c = {0};
	nh_error e = {0};
	json_t *config;
	quant_config *quant;
	loader *l;
	model *m;
	exec *x = dry_create(num_profile("portable"), NUM_F64);
	if (preset_config(&config, wanted, layers, &e) != NH_OK || quant_open(&quant, config, wanted, NULL, NULL, &e) != NH_OK)
		fail_msg("%s: %s", wanted, e.text);
	const loader_options o = {.quant = quant, .x = x, .report = add, .report_user = &c};
	if (loader_open(&l, &o, &e) != NH_OK || nm_family.open(&m, config, wanted, l, &e) != NH_OK || loader_finish(l, &e) != NH_OK)
		fail_msg("%s: %s", wanted, e.text);
	snprintf(c.pattern, sizeof c.pattern, "%s", m->shape.pattern);
	m->family->close(m);
	loader_close(l);
	quant_close(quant);
	json_decref(config);
	dry_destroy(x);
	assert_int_equal(mem_live(), 0);
	return c;
}

static void whole_presets_are_as_large_as_their_releases(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		double parameters, bytes; /* 10^9; as far as the digits go */
		double digit;
	} PUBLISHED[] = {{"lightning-30b", 31.58, 18.889, 0.01}, {"nano-30b", 31.58, 63.2, 0.1}, {"nano-30b:fp8", 31.58, 32.7, 0.1},
	    {"nano-30b:nvfp4", 31.58, 19.3, 0.1}, {"super-120b", 120.67, 73.3, 0.1}, {"super-120b:bf16", 120.67, 241.3, 0.1},
	    {"super-120b:fp8", 120.67, 122.6, 0.1}, {"ultra-550b", 549.3, 329.9, 0.1}, {"ultra-550b:bf16", 549.3, 1098.6, 0.1}};
	for (size_t i = 0; i < ARRAY_LEN(PUBLISHED); i++) {
		counted c = count(PUBLISHED[i].name, 0);
		double p = c.parameters / 1e9, b = c.bytes / 1e9;
		printf("%s: %.3f B parameters, %.3f GB\n", PUBLISHED[i].name, p, b);
		if (fabs(p - PUBLISHED[i].parameters) > 0.06 || fabs(b - PUBLISHED[i].bytes) > PUBLISHED[i].digit / 1.5)
			fail_msg("%s: published are %g B, %g GB", PUBLISHED[i].name, PUBLISHED[i].parameters, PUBLISHED[i].bytes);
	}
}

static void a_cut_keeps_each_kind(void **state)
{
	(void)state;
	static const struct {
		int layers;
		const char *pattern;
	} CUTS[] = {{1, "M"}, {2, "ME"}, {3, "ME*"}, {4, "MEM*"}, {5, "MEME*"}, {6, "MEMEM*"}, {8, "MEMEM*EM"}};
	for (size_t i = 0; i < ARRAY_LEN(CUTS); i++) {
		counted c = count("lightning-30b", CUTS[i].layers);
		printf("%d: %s\n", CUTS[i].layers, c.pattern);
		assert_string_equal(c.pattern, CUTS[i].pattern);
	}
}

static void wrong_names_list_the_right_ones(void **state)
{
	(void)state;
	json_t *c;
	nh_error e = {0};
	assert_int_equal(preset_config(&c, "nano", 0, &e), NH_ERR_ARG);
	assert_non_null(strstr(e.text, "lightning-30b, nano-30b"));
	assert_int_equal(preset_config(&c, "nano-30b:int4", 0, &e), NH_ERR_ARG);
	assert_non_null(strstr(e.text, "mixed"));
	assert_int_equal(preset_config(&c, "nano-30b", 53, &e), NH_ERR_ARG);
	assert_non_null(strstr(e.text, "has 52"));
	assert_int_equal(preset_config(&c, "nano-30b", -1, &e), NH_ERR_ARG);
	assert_null(c);
	assert_string_equal(preset_format("lightning-30b"), "mixed");
	assert_string_equal(preset_format("lightning-30b:bf16"), "bf16");
	assert_null(preset_format("x"));
	assert_null(preset_format("nano-30b:x"));
	assert_null(preset_at(4));
	assert_null(preset_at(-1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(whole_presets_are_as_large_as_their_releases),
	    cmocka_unit_test(a_cut_keeps_each_kind), cmocka_unit_test(wrong_names_list_the_right_ones)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
