/* SPDX-License-Identifier: Apache-2.0
 * test_quant.c: exclusion patterns, the order of rules, both documents, and the published mixed-precision map.
 */
#include "test.h"

#include <string.h>

#include "base/base_json.h"
#include "base/base_mem.h"
#include "fmt/config.h"
#include "fmt/quant.h"
#include "helper_fmt.h"

static quant_config *open_text(const char *text)
{
	quant_config *q = NULL;
	nh_error e = {0};
	json_t *v = fmt_json(text);
	if (quant_open(&q, v, "config.json", NULL, NULL, &e) != NH_OK) fail_msg("%s: %s", text, e.text);
	json_decref(v);
	return q;
}

static void resolves(const quant_config *q, const char *module, num_scheme scheme, const char *why)
{
	quant_rule r;
	nh_error e = {0};
	if (quant_resolve(q, module, &r, &e) != NH_OK) fail_msg("%s: %s", module, e.text);
	if (r.scheme != scheme || !strstr(r.why, why))
		fail_msg("%s: %s by %s, expected %s by %s", module, num_scheme_name(r.scheme), r.why, num_scheme_name(scheme), why);
}

static void patterns(void **state)
{
	(void)state;
	static const struct {
		const char *pattern, *module;
		bool excluded;
	} rows[] = {
	    {"lm_head", "lm_head", true},
	    {"lm_head*", "lm_head", true},
	    {"*lm_head*", "lm_head", true},
	    {"lm_hea", "lm_head", true}, /* substring, as older exporters relied on */
	    {"lm_head", "backbone.layers.0.mixer.in_proj", false},
	    {"mtp*", "mtp.layers.0.eh_proj", true},
	    {"mtp*", "backbone.layers.0.mixer.in_proj", false},
	    {"mtp.*", "mtp.layers.0.mixer.q_proj", true},
	    {"mtp", "mtp.layers.1.mixer.experts.3.up_proj", true},
	    /* prefix styles, both ways */
	    {"backbone.layers.0.mixer.in_proj", "backbone.layers.0.mixer.in_proj", true},
	    {"backbone.layers.0.mixer.in_proj", "model.layers.0.mixer.in_proj", true},
	    {"backbone.layers.0.mixer.in_proj", "model.backbone.layers.0.mixer.in_proj", true},
	    {"model.layers.0.mixer.in_proj", "backbone.layers.0.mixer.in_proj", true},
	    {"model.backbone.layers.0.mixer.in_proj", "model.layers.0.mixer.in_proj", true},
	    {"backbone.layers.0.mixer.in_proj", "backbone.layers.0.mixer.out_proj", false},
	    {"backbone.layers.0.mixer.in_proj", "layers.0.mixer.in_proj", true},
	    {"layers.0.mixer.in_proj", "model.layers.0.mixer.in_proj", true},
	    /* a subtree, and no number cut in two */
	    {"backbone.layers.1", "backbone.layers.1.mixer.in_proj", true},
	    {"backbone.layers.1", "backbone.layers.10.mixer.in_proj", false},
	    {"layers.1", "backbone.layers.10.mixer.in_proj", false},
	    {"layers.1", "backbone.layers.1.mixer.in_proj", true},
	    {"1.mixer.in_proj", "backbone.layers.11.mixer.in_proj", false},
	    {"1.mixer.in_proj", "backbone.layers.1.mixer.in_proj", true},
	    {"experts.1", "backbone.layers.3.mixer.experts.12.up_proj", false},
	    {"mixer.gate", "backbone.layers.3.mixer.gate", true},
	    {"gate", "backbone.layers.3.mixer.gate", true},
	    {"backbone.layers.1", "mtp.layers.1.mixer.q_proj", false},
	    {"layers.1", "mtp.layers.1.mixer.q_proj", true},
	    /* wildcards */
	    {"backbone.layers.4*", "backbone.layers.4.mixer.in_proj", true},
	    {"backbone.layers.4*", "backbone.layers.4", true},
	    {"backbone.layers.4.*", "model.layers.4.mixer.in_proj", true},
	    {"*.mixer.in_proj", "backbone.layers.4.mixer.in_proj", true},
	    {"*.mixer.in_proj", "backbone.layers.4.mixer.in_proj_z", false},
	    {"*layers.[0-3].*", "backbone.layers.2.mixer.in_proj", true},
	    {"*layers.[0-3].*", "backbone.layers.4.mixer.in_proj", false},
	    {"*layers.[!0-3].*", "backbone.layers.4.mixer.in_proj", true},
	    {"*layers.[!0-3].*", "backbone.layers.2.mixer.in_proj", false},
	    {"backbone.layers.?.mixer.*", "backbone.layers.7.mixer.in_proj", true},
	    {"backbone.layers.?.mixer.*", "backbone.layers.17.mixer.in_proj", false},
	    {"*q_proj", "backbone.layers.5.mixer.q_proj", true},
	    {"*.shared_experts.*", "backbone.layers.1.mixer.shared_experts.up_proj", true},
	    {"*[", "backbone.layers.1.mixer.x[", true},
	    {"*[", "backbone.layers.1.mixer.x", false},
	    {"model.*", "lm_head", false},
	    {"backbone*", "lm_head", false},
	    {"backbone*", "mtp.layers.0.eh_proj", false},
	    {"backbone*", "model.layers.0.mixer.in_proj", true},
	    {"model.lm_head", "lm_head", true},
	    {"*", "lm_head", true},
	    {"*", "backbone.layers.0.mixer.in_proj", true},
	    {"", "lm_head", false},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (quant_excludes(rows[i].pattern, rows[i].module) != rows[i].excluded)
			fail_msg("pattern %s, module %s: expected %d", rows[i].pattern, rows[i].module, rows[i].excluded);
	/* a pattern made to backtrack must not take exponential time */
	char stars[401], name[401];
	for (int i = 0; i < 200; i++) memcpy(stars + 2 * i, "*a", 2);
	memset(name, 'a', 400);
	stars[400] = name[400] = 0;
	name[399] = 'b';
	assert_false(quant_excludes(stars, name));
}

static void one_algorithm(void **state)
{
	(void)state;
	quant_config *q =
	    open_text("{\"quantization_config\":{\"quant_method\":\"modelopt\",\"quant_algo\":\"fp8\",\"ignore\":[\"lm_head\",\"mtp*\","
	              "\"backbone.layers.4.mixer.in_proj\"],\"kv_cache_scheme\":{\"dynamic\":false,\"num_bits\":8,\"type\":\"float\"}}}");
	assert_string_equal(quant_algorithm(q), "FP8");
	assert_int_equal(quant_kv(q), NUM_E4M3);
	assert_int_equal(quant_exclusions(q), 3);
	assert_string_equal(quant_exclusion(q, 1), "mtp*");
	assert_null(quant_exclusion(q, 3));
	resolves(q, "backbone.layers.0.mixer.in_proj", NUM_SCHEME_FP8, "quant_algo: FP8");
	resolves(q, "model.layers.4.mixer.in_proj", NUM_SCHEME_NONE, "ignore: pattern backbone.layers.4.mixer.in_proj");
	resolves(q, "backbone.layers.40.mixer.in_proj", NUM_SCHEME_FP8, "quant_algo");
	resolves(q, "lm_head", NUM_SCHEME_NONE, "ignore: pattern lm_head");
	resolves(q, "mtp.layers.1.mixer.experts.0.up_proj", NUM_SCHEME_NONE, "ignore: pattern mtp*");
	resolves(q, "backbone.embeddings", NUM_SCHEME_NONE, "never");
	resolves(q, "backbone.layers.1.mixer.gate", NUM_SCHEME_NONE, "never");
	resolves(q, "backbone.layers.0.mixer.conv1d", NUM_SCHEME_NONE, "never");
	quant_close(q);
	static const struct {
		const char *word;
		num_scheme scheme;
	} words[] = {{"NVFP4", NUM_SCHEME_NVFP4}, {"W4A16_NVFP4", NUM_SCHEME_W4A16}, {"FP8", NUM_SCHEME_FP8}};
	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		char text[200];
		snprintf(text, sizeof text, "{\"quantization_config\":{\"quant_method\":\"modelopt\",\"quant_algo\":\"%s\"}}", words[i].word);
		q = open_text(text);
		resolves(q, "backbone.layers.0.mixer.in_proj", words[i].scheme, words[i].word);
		assert_int_equal(quant_kv(q), NUM_NONE);
		quant_close(q);
	}
	q = open_text("{}");
	resolves(q, "backbone.layers.0.mixer.in_proj", NUM_SCHEME_NONE, "no quantisation");
	assert_null(quant_source(q));
	assert_string_equal(quant_algorithm(q), "none");
	quant_close(q);
	q = open_text("{\"quantization_config\":null}");
	resolves(q, "lm_head", NUM_SCHEME_NONE, "no quantisation");
	quant_close(q);
	assert_int_equal(mem_live(), 0);
}

#define MIXED(ignore, layers)                                                                                        \
	"{\"quantization_config\":{\"quant_method\":\"modelopt\",\"quant_algo\":\"MIXED_PRECISION\",\"ignore\":[" ignore \
	"],\"quantized_layers\":{" layers "}}}"
#define F8(key) "\"" key "\":{\"quant_algo\":\"FP8\"}"
#define W4(key) "\"" key "\":{\"quant_algo\":\"W4A16_NVFP4\",\"group_size\":16}"
#define N4(key) "\"" key "\":{\"quant_algo\":\"NVFP4\",\"group_size\":16}"

static void mixed_rules(void **state)
{
	(void)state;
	quant_config *q =
	    open_text(
	        MIXED("\"mtp*\",\"backbone.layers.9.mixer.in_proj\"",
	            F8(
	                "backbone.layers.0.mixer.in_proj") "," F8("model.layers.2.mixer.in_proj") "," F8("backbone.layers.9.mixer.in_proj") "," W4("lm_"
	                                                                                                                                           "hea"
	                                                                                                                                           "d") "," W4("backbone.layers.1.mixer.experts") "," W4("backbone.layers.3.mixer.experts.0.up_proj") "," W4("backbone.layers.3.mixer.experts.0.down_proj") "," F8("backbone.layers.3.mixer.shared_experts.up_proj") "," N4("backbone.layers.4.mixer.up_proj") "," N4("backbone.layers.4.mixer."
	                                                                                                                                                                                                                                                                                                                                                                                                              "down_proj") "," F8("backbon"
	                                                                                                                                                                                                                                                                                                                                                                                                                                  "e."
	                                                                                                                                                                                                                                                                                                                                                                                                                                  "layers."
	                                                                                                                                                                                                                                                                                                                                                                                                                                  "5."
	                                                                                                                                                                                                                                                                                                                                                                                                                                  "mixer."
	                                                                                                                                                                                                                                                                                                                                                                                                                                  "o_proj") "," F8("backbone.layers.6.mixer.q_proj") "," F8("backbone.layers.7.mixer.shared_experts.up_proj")));
	resolves(q, "backbone.layers.0.mixer.in_proj", NUM_SCHEME_FP8, "exact key layers.0.mixer.in_proj");
	resolves(q, "model.backbone.layers.0.mixer.in_proj", NUM_SCHEME_FP8, "exact key");
	resolves(q, "backbone.layers.2.mixer.in_proj", NUM_SCHEME_FP8, "exact key");
	resolves(q, "backbone.layers.2.mixer.out_proj", NUM_SCHEME_NONE, "not listed");
	resolves(q, "backbone.layers.9.mixer.in_proj", NUM_SCHEME_NONE, "ignore: pattern"); /* excluded beats listed */
	resolves(q, "lm_head", NUM_SCHEME_W4A16, "exact key lm_head");
	resolves(q, "model.lm_head", NUM_SCHEME_W4A16, "exact key lm_head");
	resolves(q, "mtp.layers.0.mixer.q_proj", NUM_SCHEME_NONE, "ignore");
	resolves(q, "backbone.embeddings", NUM_SCHEME_NONE, "not listed");
	/* experts: by the key of the whole, by the experts that are listed, by the parent's keys; never from shared_experts */
	resolves(q, "backbone.layers.1.mixer.experts", NUM_SCHEME_W4A16, "exact key");
	resolves(q, "backbone.layers.1.mixer.experts.77.up_proj", NUM_SCHEME_W4A16, "key of the whole layers.1.mixer.experts");
	resolves(q, "backbone.layers.3.mixer.experts.5.up_proj", NUM_SCHEME_W4A16, "from layers.3.mixer.experts.0");
	resolves(q, "backbone.layers.3.mixer.experts", NUM_SCHEME_W4A16, "from");
	resolves(q, "backbone.layers.3.mixer.shared_experts.up_proj", NUM_SCHEME_FP8, "exact");
	resolves(q, "backbone.layers.4.mixer.experts.0.up_proj", NUM_SCHEME_NVFP4, "parent's layers.4.mixer.up_proj");
	resolves(q, "backbone.layers.7.mixer.experts.0.up_proj", NUM_SCHEME_NONE, "not listed");
	/* attention: nothing is borrowed from o_proj; q_proj speaks for its group */
	resolves(q, "backbone.layers.5.mixer.o_proj", NUM_SCHEME_FP8, "exact");
	resolves(q, "backbone.layers.5.mixer.q_proj", NUM_SCHEME_NONE, "not listed");
	resolves(q, "backbone.layers.5.mixer.k_proj", NUM_SCHEME_NONE, "not listed");
	resolves(q, "backbone.layers.5.mixer.v_proj", NUM_SCHEME_NONE, "not listed");
	resolves(q, "backbone.layers.5.mixer.qkv_proj", NUM_SCHEME_NONE, "not listed");
	resolves(q, "backbone.layers.6.mixer.k_proj", NUM_SCHEME_FP8, "same group as layers.6.mixer.q_proj");
	resolves(q, "backbone.layers.6.mixer.v_proj", NUM_SCHEME_FP8, "same group");
	resolves(q, "backbone.layers.6.mixer.o_proj", NUM_SCHEME_NONE, "not listed");
	resolves(q, "backbone.layers.6.mixer.qkv_proj", NUM_SCHEME_FP8, "shard layers.6.mixer.q_proj");
	quant_close(q);

	q = open_text(MIXED(
	    "", F8("backbone.layers.5.mixer.q_proj") "," N4("backbone.layers.5.mixer.v_proj") "," F8("backbone.layers.8.mixer.in_proj") "," W4(
	            "backbone.layers.3.mixer.experts.0.up_proj") "," F8("backbone.layers.3.mixer.experts.1.up_proj")));
	static const char *const torn[] = {"backbone.layers.5.mixer.k_proj", "backbone.layers.5.mixer.q_proj",
	    "backbone.layers.5.mixer.qkv_proj", "backbone.layers.3.mixer.experts.2.up_proj", "backbone.layers.3.mixer.experts"};
	for (size_t i = 0; i < ARRAY_LEN(torn); i++) {
		quant_rule r;
		nh_error e = {0};
		if (quant_resolve(q, torn[i], &r, &e) != NH_ERR_CONFIG || !strstr(e.text, "must agree"))
			fail_msg("%s: %s %s", torn[i], r.why, e.text);
	}
	resolves(q, "backbone.layers.3.mixer.experts.1.up_proj", NUM_SCHEME_FP8, "exact");
	quant_close(q);

	/* a head that is excluded and listed, and one that is neither */
	q = open_text(MIXED("\"lm_head*\"", W4("lm_head") "," F8("backbone.layers.0.mixer.in_proj")));
	resolves(q, "lm_head", NUM_SCHEME_NONE, "ignore: pattern lm_head*");
	quant_close(q);
	q = open_text(MIXED("", F8("backbone.layers.0.mixer.in_proj")));
	resolves(q, "lm_head", NUM_SCHEME_NONE, "not listed");
	quant_close(q);
	assert_int_equal(mem_live(), 0);
}

#define C(body) "{\"quantization_config\":{" body "}}"
#define M "\"quant_method\":\"modelopt\","

static void refuses(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		nh_status code;
		const char *says;
	} rows[] = {
	    {C(M "\"quant_algo\":\"INT4_AWQ\""), NH_ERR_UNSUPPORTED, "quant_algo: is \"INT4_AWQ\""},
	    {C(M "\"quant_algo\":\"FP8_PB_WO\""), NH_ERR_UNSUPPORTED, "FP8_PB_WO"},
	    {C(M "\"quant_algo\":\"FP8_PER_CHANNEL_PER_TOKEN\""), NH_ERR_UNSUPPORTED, "FP8_PER_CHANNEL_PER_TOKEN"},
	    {C(M "\"quant_algo\":\"MXFP8\""), NH_ERR_UNSUPPORTED, "MXFP8"},
	    {C(M "\"quant_algo\":\"W4A8_AWQ\""), NH_ERR_UNSUPPORTED, "W4A8_AWQ"},
	    {C(M "\"quant_algo\":\"\""), NH_ERR_UNSUPPORTED, "quant_algo"},
	    {C(M "\"quant_algo\":null"), NH_ERR_UNSUPPORTED, "quant_algo"},
	    {C(M "\"quant_algo\":8"), NH_ERR_UNSUPPORTED, "quant_algo: is 8"},
	    {C("\"quant_method\":\"modelopt\""), NH_ERR_UNSUPPORTED, "quant_algo: is absent"},
	    {C("\"quant_method\":\"fp8\",\"weight_block_size\":[128,128]"), NH_ERR_UNSUPPORTED, "quant_method: is \"fp8\""},
	    {C("\"quant_method\":\"compressed-tensors\""), NH_ERR_UNSUPPORTED, "compressed-tensors"},
	    {C("\"quant_method\":\"gptq\""), NH_ERR_UNSUPPORTED, "gptq"},
	    {C(M "\"quant_algo\":\"NVFP4\",\"group_size\":32"), NH_ERR_UNSUPPORTED, "group_size: is 32, expected 16"},
	    {C(M "\"quant_algo\":\"FP8\",\"group_size\":128"), NH_ERR_UNSUPPORTED, "group_size: is 128"},
	    {C(M "\"quant_algo\":\"FP8\",\"weight_block_size\":[128,128]"), NH_ERR_UNSUPPORTED, "weight_block_size"},
	    {C(M "\"quant_algo\":\"NVFP4\",\"pre_quant_scale\":true"), NH_ERR_UNSUPPORTED, "pre_quant_scale"},
	    {C(M "\"quant_algo\":\"FP8\",\"kv_cache_scheme\":{\"type\":\"int\",\"num_bits\":8}"), NH_ERR_UNSUPPORTED, "kv_cache_scheme"},
	    {C(M "\"quant_algo\":\"FP8\",\"kv_cache_scheme\":{\"type\":\"float\",\"num_bits\":4}"), NH_ERR_UNSUPPORTED, "kv_cache_scheme"},
	    {C(M "\"quant_algo\":\"FP8\",\"kv_cache_scheme\":{\"type\":\"float\",\"num_bits\":8,\"dynamic\":true}"), NH_ERR_UNSUPPORTED,
	        "kv_cache_scheme"},
	    {C(M "\"quant_algo\":\"FP8\",\"kv_cache_scheme\":\"FP8\""), NH_ERR_UNSUPPORTED, "kv_cache_scheme"},
	    {C(M "\"quant_algo\":\"FP8\",\"kv_cache_quant_algo\":\"NVFP4\""), NH_ERR_UNSUPPORTED, "kv_cache_quant_algo: is \"NVFP4\""},
	    {C(M "\"quant_algo\":\"FP8\",\"ignore\":\"lm_head\""), NH_ERR_CONFIG, "ignore: is \"lm_head\""},
	    {C(M "\"quant_algo\":\"FP8\",\"ignore\":[1]"), NH_ERR_CONFIG, "ignore: is 1"},
	    {C(M "\"quant_algo\":\"FP8\",\"ignore\":[\"\"]"), NH_ERR_CONFIG, "ignore: is \"\""},
	    {C(M "\"quant_algo\":\"FP8\",\"ignore\":[\"a\"],\"exclude_modules\":[\"b\"]"), NH_ERR_CONFIG, "exclude_modules"},
	    {C(M "\"quant_algo\":\"FP8\",\"new_feature\":1"), NH_ERR_UNSUPPORTED, "new_feature: is 1"},
	    {C(M "\"quant_algo\":\"MIXED_PRECISION\""), NH_ERR_CONFIG, "quantized_layers"},
	    {C(M "\"quant_algo\":\"MIXED_PRECISION\",\"quantized_layers\":[]"), NH_ERR_CONFIG, "quantized_layers"},
	    {C(M "\"quant_algo\":\"MIXED_PRECISION\",\"quantized_layers\":{\"a\":{\"quant_algo\":\"INT8\"}}"), NH_ERR_UNSUPPORTED,
	        "quantized_layers.a"},
	    {C(M "\"quant_algo\":\"MIXED_PRECISION\",\"quantized_layers\":{\"a\":\"FP8\"}"), NH_ERR_CONFIG, "quantized_layers.a"},
	    {C(M "\"quant_algo\":\"MIXED_PRECISION\",\"quantized_layers\":{\"a\":{\"quant_algo\":\"MIXED_PRECISION\"}}"), NH_ERR_UNSUPPORTED,
	        "quantized_layers.a"},
	    {C(M "\"quant_algo\":\"MIXED_PRECISION\",\"quantized_layers\":{\"a\":{\"quant_algo\":\"NVFP4\",\"group_size\":32}}"),
	        NH_ERR_UNSUPPORTED, "quantized_layers.a: is 32"},
	    {C(M "\"quant_algo\":\"MIXED_PRECISION\",\"quantized_layers\":{\"a\":{\"quant_algo\":\"FP8\",\"group_size\":128}}"),
	        NH_ERR_UNSUPPORTED, "quantized_layers.a"},
	    {C(M "\"quant_algo\":\"MIXED_PRECISION\",\"quantized_layers\":{\"a\":{\"quant_algo\":\"NVFP4\",\"awq\":1}}"), NH_ERR_UNSUPPORTED,
	        "quantized_layers.a"},
	    {C(M "\"quant_algo\":\"MIXED_PRECISION\",\"quantized_layers\":{\"language_model.x\":{\"quant_algo\":\"FP8\"}}"), NH_ERR_UNSUPPORTED,
	        "language_model.x"},
	    {MIXED("", F8("backbone.a") "," N4("model.a")), NH_ERR_CONFIG, "two prefix styles"},
	    {C(M "\"quant_algo\":\"FP8\",\"quantized_layers\":{\"a\":{\"quant_algo\":\"NVFP4\"}}"), NH_ERR_CONFIG, "quant_algo is FP8"},
	    {C(M "\"quant_algo\":\"NVFP4\",\"config_groups\":{\"g\":{\"weights\":{\"num_bits\":8,\"type\":\"float\"}}}"), NH_ERR_CONFIG,
	        "config_groups.g.weights"},
	    {C(M "\"quant_algo\":\"NVFP4\",\"config_groups\":{\"g\":{\"weights\":{\"num_bits\":4,\"type\":\"int\"}}}"), NH_ERR_UNSUPPORTED,
	        "config_groups.g.weights"},
	    {C(M "\"quant_algo\":\"NVFP4\",\"config_groups\":{\"g\":{\"weights\":{\"num_bits\":4,\"type\":\"float\",\"group_size\":32}}}"),
	        NH_ERR_UNSUPPORTED, "is 32"},
	    {C(M "\"quant_algo\":\"FP8\",\"config_groups\":{\"g\":{\"input_activations\":{\"num_bits\":8,\"type\":\"float\",\"dynamic\":true}}"
	         "}"),
	        NH_ERR_UNSUPPORTED, "input_activations"},
	    {C(M "\"quant_algo\":\"W4A16_NVFP4\",\"config_groups\":{\"g\":{\"input_activations\":{\"num_bits\":4,\"type\":\"float\"}}}"),
	        NH_ERR_CONFIG, "input_activations"},
	    {"{\"quantization_config\":[]}", NH_ERR_CONFIG, "not an object"},
	    {"{\"quantization_config\":\"fp8\"}", NH_ERR_CONFIG, "not an object"},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		quant_config *q = NULL;
		nh_error e = {0};
		json_t *v = fmt_json(rows[i].text);
		nh_status s = quant_open(&q, v, "config.json", NULL, NULL, &e);
		if (s != rows[i].code || !strstr(e.text, rows[i].says) || !strstr(e.text, "config.json: "))
			fail_msg("%s: %d %s, expected %d \"%s\"", rows[i].text, s, e.text, rows[i].code, rows[i].says);
		assert_null(q);
		json_decref(v);
	}
	assert_int_equal(mem_live(), 0);
	print_message("%zu documents refused\n", ARRAY_LEN(rows));
}

static void two_documents(void **state)
{
	(void)state;
	const char *mine =
	    C(M "\"quant_algo\":\"NVFP4\",\"ignore\":[\"lm_head\",\"mtp*\"],\"kv_cache_scheme\":{\"type\":\"float\",\"num_bits\":8}");
	static const struct {
		const char *hf;
		nh_status code;
		const char *says;
	} rows[] = {
	    {"{\"quantization\":{\"quant_algo\":\"NVFP4\",\"kv_cache_quant_algo\":\"FP8\",\"group_size\":16,\"exclude_modules\":[\"mtp*\",\"lm_"
	     "head\",\"mtp*\"]}}",
	        NH_OK, ""},
	    {"{\"quantization\":{\"quant_algo\":\"FP8\",\"kv_cache_quant_algo\":\"FP8\",\"exclude_modules\":[\"mtp*\",\"lm_head\"]}}",
	        NH_ERR_CONFIG, "disagree: quant_algo: NVFP4 and FP8"},
	    {"{\"quantization\":{\"quant_algo\":\"NVFP4\",\"exclude_modules\":[\"mtp*\",\"lm_head\"]}}", NH_ERR_CONFIG, "disagree: kv_cache"},
	    {"{\"quantization\":{\"quant_algo\":\"NVFP4\",\"kv_cache_quant_algo\":\"FP8\",\"exclude_modules\":[\"mtp*\"]}}", NH_ERR_CONFIG,
	        "only one has lm_head"},
	    {"{\"quantization\":{\"quant_algo\":\"NVFP4\",\"kv_cache_quant_algo\":\"FP8\",\"exclude_modules\":[\"mtp*\",\"lm_head\",\"x\"]}}",
	        NH_ERR_CONFIG, "only one has x"},
	    {"{\"quantization\":{\"quant_algo\":\"INT4\"}}", NH_ERR_UNSUPPORTED, "hf_quant_config.json: quantization.quant_algo"},
	    {"{\"quantization\":{\"quant_algo\":null}}", NH_ERR_CONFIG, "disagree: quant_algo: NVFP4 and none"},
	};
	json_t *c = fmt_json(mine);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		quant_config *q = NULL;
		nh_error e = {0};
		json_t *hf = fmt_json(rows[i].hf);
		nh_status s = quant_open(&q, c, "config.json", hf, "hf_quant_config.json", &e);
		if (s != rows[i].code || !strstr(e.text, rows[i].says)) fail_msg("%s: %d %s", rows[i].hf, s, e.text);
		if (s == NH_OK) assert_string_equal(quant_source(q), "config.json");
		quant_close(q);
		json_decref(hf);
	}
	json_decref(c);
	/* layers that differ */
	c = fmt_json(MIXED("", F8("backbone.a") "," F8("backbone.b")));
	json_t *hf = fmt_json(
	    "{\"quantization\":{\"quant_algo\":\"MIXED_PRECISION\",\"quantized_layers\":{" F8("backbone.a") "," N4("backbone.b") "}}}");
	quant_config *q = NULL;
	nh_error e = {0};
	assert_int_equal(quant_open(&q, c, "config.json", hf, "hf.json", &e), NH_ERR_CONFIG);
	assert_non_null(strstr(e.text, "disagree: quantized_layers: b"));
	json_decref(c);
	/* only the second document */
	c = fmt_json("{}");
	assert_int_equal(quant_open(&q, c, "config.json", hf, "hf.json", &e), NH_OK);
	assert_string_equal(quant_source(q), "hf.json");
	resolves(q, "backbone.b", NUM_SCHEME_NVFP4, "exact");
	quant_close(q);
	json_decref(hf);
	hf = fmt_json("{\"quantization\":{\"quant_algo\":null,\"kv_cache_quant_algo\":\"FP8\"}}");
	assert_int_equal(quant_open(&q, c, "config.json", hf, "hf.json", &e), NH_OK);
	assert_int_equal(quant_kv(q), NUM_E4M3);
	resolves(q, "backbone.b", NUM_SCHEME_NONE, "no quantisation");
	quant_close(q);
	json_decref(hf);
	json_decref(c);
	assert_int_equal(mem_live(), 0);
}

static void survives_no_memory(void **state)
{
	(void)state;
	json_t *v = fmt_json(MIXED("\"mtp*\",\"lm_head\"", F8("backbone.a") "," F8("backbone.b")));
	size_t failures = 0;
	for (size_t n = 0;; n++) {
		quant_config *q = NULL;
		mem_fail_after(n);
		nh_status s = quant_open(&q, v, "config.json", NULL, NULL, NULL);
		mem_fail_after(SIZE_MAX);
		if (s == NH_OK) {
			quant_close(q);
			break;
		}
		assert_int_equal(s, NH_ERR_NOMEM);
		assert_int_equal(mem_live(), 0);
		failures++;
	}
	assert_true(failures >= 3);
	json_decref(v);
}

/* The published 3.5 Lightning map: each key resolves by itself, and the sums are those of the model. */
static void published_mixed_map(void **state)
{
	(void)state;
	const char *path = NH_SHARED_DIR "/data/configs/lightning-30b-nvfp4.config.json";
	json_t *c = NULL;
	nh_error e = {0};
	quant_config *q = NULL;
	nh_status s = config_load(&c, path, &e);
	if (s == NH_ERR_NOTFOUND) NOT_RUN("%s", e.text);
	if (s != NH_OK || quant_open(&q, c, "config.json", NULL, NULL, &e) != NH_OK) fail_msg("%s", e.text);
	json_decref(c);
	static const char *const leaves[] = {"in_proj", "out_proj", "conv1d", "q_proj", "k_proj", "v_proj", "o_proj", "gate",
	    "shared_experts.up_proj", "shared_experts.down_proj"};
	size_t sums[NUM_SCHEME_COUNT] = {0}, listed[NUM_SCHEME_COUNT] = {0}, bf16 = 0;
	char module[200];
	quant_rule r;
	for (size_t i = 0; i < quant_layers(q); i++) {
		num_scheme scheme;
		assert_non_null(quant_layer(q, i, &scheme));
		listed[scheme]++;
	}
	assert_int_equal(listed[NUM_SCHEME_FP8], 46);
	assert_int_equal(listed[NUM_SCHEME_W4A16], 5935);
	const char *pattern = "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME";
	for (int l = 0; pattern[l]; l++) {
		size_t from = pattern[l] == 'M' ? 0 : pattern[l] == '*' ? 3 : 7, to = pattern[l] == 'M' ? 3 : pattern[l] == '*' ? 7 : 10;
		for (size_t i = from; i < to; i++) {
			snprintf(module, sizeof module, "backbone.layers.%d.mixer.%s", l, leaves[i]);
			assert_int_equal(quant_resolve(q, module, &r, &e), NH_OK);
			sums[r.scheme]++;
			bf16 += r.scheme == NUM_SCHEME_NONE;
		}
		for (int x = 0; pattern[l] == 'E' && x < 256; x++) {
			snprintf(module, sizeof module, "backbone.layers.%d.mixer.experts.%d.%s", l, x / 2, x % 2 ? "up_proj" : "down_proj");
			assert_int_equal(quant_resolve(q, module, &r, &e), NH_OK);
			assert_non_null(strstr(r.why, "exact key"));
			sums[r.scheme]++;
		}
	}
	resolves(q, "lm_head", NUM_SCHEME_W4A16, "exact key");
	sums[NUM_SCHEME_W4A16]++;
	resolves(q, "backbone.embeddings", NUM_SCHEME_NONE, "ignore: pattern backbone.embeddings");
	resolves(q, "mtp.layers.1.mixer.experts.0.up_proj", NUM_SCHEME_NONE, "ignore: pattern mtp*");
	assert_int_equal(sums[NUM_SCHEME_FP8], 46);
	assert_int_equal(sums[NUM_SCHEME_W4A16], 5935);
	assert_int_equal(sums[NUM_SCHEME_NVFP4], 0);
	assert_int_equal(bf16, 23 + 6 * 4 + 23);
	assert_int_equal(quant_kv(q), NUM_E4M3);
	quant_close(q);
	assert_int_equal(mem_live(), 0);
}

/* The published models' rules in short form (tests/data/configs): how many linears of each scheme they give. */
static void short_maps_of_published_models(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		size_t fp8, w4a4, w4a16; /* of in/out_proj, up/down_proj, every expert's, shared, latent, q k v o, lm_head */
		num_dtype kv;
	} rows[] = {
	    {"nano-9b-v2", 0, 0, 0, NUM_NONE},
	    {"nano-9b-v2-fp8", 2 * 27 + 2 * 25, 0, 0, NUM_NONE},
	    {"nano-12b-v2-fp8", 2 * 28 + 2 * 28, 0, 0, NUM_NONE},
	    {"nano-4b-fp8", 2 * 21 + 2 * 17, 0, 0, NUM_NONE},
	    {"nano-30b-fp8", 2 * (23 - 6) + 23 * 258, 0, 0, NUM_E4M3}, /* M before * stays bf16 */
	    {"nano-30b-nvfp4", 0, 2 * (23 - 6) + 23 * 258, 0, NUM_E4M3},
	    {"lightning-nvfp4", 46, 0, 5935, NUM_E4M3},
	    {"super-fp8", 80 + 40 * 1026, 0, 0, NUM_E4M3},
	    {"super-nvfp4", 80 + 80, 40 * 1024, 0, NUM_E4M3},
	    {"ultra-nvfp4", 96 + 96, 49152, 0, NUM_E4M3},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char path[512], module[200];
		json_t *c = NULL;
		nh_error e = {0};
		quant_config *q = NULL;
		quant_rule r;
		size_t sums[NUM_SCHEME_COUNT] = {0};
		snprintf(path, sizeof path, "%s/tests/data/configs/%s.json", NH_SOURCE_DIR, rows[i].name);
		if (config_load(&c, path, &e) != NH_OK || quant_open(&q, c, path, NULL, NULL, &e) != NH_OK) fail_msg("%s", e.text);
		const char *text = json_string_value(json_object_get(c, "hybrid_override_pattern"));
		const json_t *list = json_object_get(c, "layers_block_type");
		int experts = (int)json_integer_value(json_object_get(c, "n_routed_experts"));
		size_t layers = text ? strlen(text) : json_array_size(list);
		for (size_t l = 0; l < layers; l++) {
			const char *name = text ? NULL : json_string_value(json_array_get(list, l));
			char kind = text ? text[l] : strcmp(name, "mamba") == 0 ? 'M' : strcmp(name, "moe") == 0 ? 'E' : '*';
			const char *leaves = kind == 'M'   ? "in_proj out_proj"
			                     : kind == '*' ? "q_proj k_proj v_proj o_proj"
			                     : kind == '-' ? "up_proj down_proj"
			                                   : "shared_experts.up_proj shared_experts.down_proj fc1_latent_proj fc2_latent_proj gate";
			for (const char *p = leaves; *p; p += strcspn(p, " ") + (p[strcspn(p, " ")] == ' ')) {
				if (!json_is_integer(json_object_get(c, "moe_latent_size")) && strncmp(p, "fc", 2) == 0) continue;
				snprintf(module, sizeof module, "backbone.layers.%zu.mixer.%.*s", l, (int)strcspn(p, " "), p);
				if (quant_resolve(q, module, &r, &e) != NH_OK) fail_msg("%s", e.text);
				sums[r.scheme]++;
			}
			for (int x = 0; kind == 'E' && x < 2 * experts; x++) {
				snprintf(module, sizeof module, "backbone.layers.%zu.mixer.experts.%d.%s", l, x / 2, x % 2 ? "up_proj" : "down_proj");
				if (quant_resolve(q, module, &r, &e) != NH_OK) fail_msg("%s", e.text);
				sums[r.scheme]++;
			}
		}
		assert_int_equal(quant_resolve(q, "lm_head", &r, &e), NH_OK);
		sums[r.scheme]++;
		if (sums[NUM_SCHEME_FP8] != rows[i].fp8 || sums[NUM_SCHEME_NVFP4] != rows[i].w4a4 || sums[NUM_SCHEME_W4A16] != rows[i].w4a16)
			fail_msg(
			    "%s: fp8 %zu, w4a4 %zu, w4a16 %zu", rows[i].name, sums[NUM_SCHEME_FP8], sums[NUM_SCHEME_NVFP4], sums[NUM_SCHEME_W4A16]);
		assert_int_equal(quant_kv(q), rows[i].kv);
		quant_close(q);
		json_decref(c);
	}
	assert_int_equal(mem_live(), 0);
}

/* The project's own checkpoints carry both documents; they must agree. */
static void both_documents_of_the_tiny_models(void **state)
{
	(void)state;
	static const struct {
		const char *name, *algorithm;
	} models[] = {{"tiny-bf16", "none"}, {"tiny-fp8", "FP8"}, {"tiny-nvfp4", "MIXED_PRECISION"}, {"tiny-nvfp4-w4a4", "NVFP4"}};
	for (size_t i = 0; i < ARRAY_LEN(models); i++) {
		char config[512], hf[512];
		json_t *c = NULL;
		nh_error e = {0};
		quant_config *q = NULL;
		snprintf(config, sizeof config, "%s/models/%s/config.json", NH_SHARED_DIR, models[i].name);
		snprintf(hf, sizeof hf, "%s/models/%s/hf_quant_config.json", NH_SHARED_DIR, models[i].name);
		nh_status s = config_load(&c, config, &e);
		if (s == NH_ERR_NOTFOUND) NOT_RUN("%s", e.text);
		if (s != NH_OK || quant_load(&q, c, config, hf, &e) != NH_OK) fail_msg("%s", e.text);
		assert_string_equal(quant_algorithm(q), models[i].algorithm);
		quant_close(q);
		json_decref(c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(patterns), cmocka_unit_test(one_algorithm), cmocka_unit_test(mixed_rules),
	    cmocka_unit_test(refuses), cmocka_unit_test(two_documents), cmocka_unit_test(survives_no_memory),
	    cmocka_unit_test(published_mixed_map), cmocka_unit_test(short_maps_of_published_models),
	    cmocka_unit_test(both_documents_of_the_tiny_models)};
	return cmocka_run_group_tests_name("quant", tests, NULL, NULL);
}
