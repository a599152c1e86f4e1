/* SPDX-License-Identifier: Apache-2.0
 * test_config.c: which configurations are ours, the union of end tokens, sampling defaults.
 */
#include "test.h"

#include <string.h>

#include "base/base_mem.h"
#include "fmt/config.h"
#include "helper_fmt.h"

static void knows_its_family(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		nh_status code;
		const char *says;
		bool puzzle;
	} rows[] = {
	    {"{\"architectures\":[\"NemotronHForCausalLM\"],\"model_type\":\"nemotron_h\"}", NH_OK, "", false},
	    {"{\"architectures\":[\"NemotronHPuzzleForCausalLM\"],\"model_type\":\"nemotron_h_puzzle\"}", NH_OK, "", true},
	    {"{\"model_type\":\"nemotron_h_puzzle\"}", NH_OK, "", true},
	    {"{\"model_type\":\"nemotron_h\",\"architectures\":null}", NH_OK, "", false},
	    {"{\"architectures\":[\"NemotronHForCausalLM\"],\"x\":[Infinity,-Infinity,NaN]}", NH_OK, "", false},
	    {"{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"nemotron_h\"}", NH_ERR_UNSUPPORTED, "LlamaForCausalLM", false},
	    {"{\"architectures\":[\"NemotronHForCausalLM\"],\"model_type\":\"llama\"}", NH_ERR_UNSUPPORTED, "model_type: is \"llama\"", false},
	    {"{\"architectures\":[\"NemotronH_Nano_VL_V2\"]}", NH_ERR_UNSUPPORTED, "NemotronH_Nano_VL_V2", false},
	    {"{\"architectures\":[\"NemotronHForCausalLM\"],\"llm_config\":{}}", NH_ERR_UNSUPPORTED,
	        "llm_config: the language model is wrapped", false},
	    {"{\"architectures\":[\"NemotronHForCausalLM\"],\"text_config\":{\"a\":1}}", NH_ERR_UNSUPPORTED, "text_config", false},
	    {"{\"architectures\":[]}", NH_ERR_CONFIG, "architectures: is []", false},
	    {"{\"architectures\":\"NemotronHForCausalLM\"}", NH_ERR_CONFIG, "architectures", false},
	    {"{\"architectures\":[\"NemotronHForCausalLM\",\"Other\"]}", NH_ERR_CONFIG, "architectures", false},
	    {"{\"architectures\":[1]}", NH_ERR_CONFIG, "architectures", false},
	    {"{\"model_type\":7}", NH_ERR_UNSUPPORTED, "model_type: is 7", false},
	    {"{}", NH_ERR_CONFIG, "neither architectures nor model_type", false},
	    {"[]", NH_ERR_CONFIG, "expected an object", false},
	    {"3", NH_ERR_CONFIG, "expected an object", false},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		nh_error e = {0};
		json_t *v = fmt_json(rows[i].text);
		nh_status s = config_check(v, "config.json", &e);
		if (s != rows[i].code || !strstr(e.text, rows[i].says)) fail_msg("%s: %d %s", rows[i].text, s, e.text);
		if (s == NH_OK) assert_int_equal(config_is_puzzle(v), rows[i].puzzle);
		else assert_non_null(strstr(e.text, "config.json: "));
		json_decref(v);
	}
}

static void loads_files(void **state)
{
	(void)state;
	const char *dir = fmt_dir("config");
	nh_error e = {0};
	json_t *v;
	fmt_text(dir, "config.json", "{\"model_type\":\"nemotron_h\",\"time_step_limit\":[0.0,Infinity]}");
	fmt_text(dir, "bad.json", "{\"model_type\":\"gpt2\"}");
	char *good = fmt_path(dir, "config.json"), *bad = fmt_path(dir, "bad.json"), *none = fmt_path(dir, "none.json");
	assert_int_equal(config_load(&v, good, &e), NH_OK);
	json_decref(v);
	assert_int_equal(config_load(&v, bad, &e), NH_ERR_UNSUPPORTED);
	assert_non_null(strstr(e.text, "bad.json: model_type"));
	assert_null(v);
	assert_int_equal(config_load(&v, none, &e), NH_ERR_NOTFOUND);
	mem_free(good);
	mem_free(bad);
	mem_free(none);
	assert_int_equal(mem_live(), 0);
}

static nh_status read_both(generation *g, const char *config, const char *gen, nh_error *e)
{
	json_t *c = fmt_json(config), *v = gen ? fmt_json(gen) : NULL;
	nh_status s = generation_read(g, c, "config.json", v, "generation_config.json", e);
	json_decref(c);
	json_decref(v);
	return s;
}

static void joins_end_tokens(void **state)
{
	(void)state;
	static const struct {
		const char *config, *gen;
		int count;
		int32_t ids[4];
	} rows[] = {
	    {"{\"eos_token_id\":2}", "{\"eos_token_id\":[2,11]}", 2, {2, 11}},
	    {"{\"eos_token_id\":[2,11]}", "{\"eos_token_id\":2}", 2, {2, 11}},
	    {"{\"eos_token_id\":2}", "{\"eos_token_id\":11}", 2, {2, 11}},
	    {"{\"eos_token_id\":2}", NULL, 1, {2}},
	    {"{\"eos_token_id\":2}", "{}", 1, {2}},
	    {"{\"eos_token_id\":2}", "{\"eos_token_id\":null}", 1, {2}},
	    {"{\"eos_token_id\":0}", NULL, 1, {0}},
	    {"{\"eos_token_id\":0}", "{\"eos_token_id\":[0]}", 1, {0}},
	    {"{}", "{\"eos_token_id\":[0,3]}", 2, {0, 3}},
	    {"{\"eos_token_id\":null}", "{\"eos_token_id\":[]}", 0, {0}},
	    {"{\"eos_token_id\":[7,7,2,7]}", "{\"eos_token_id\":[2,9,9]}", 3, {7, 2, 9}},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		generation g;
		nh_error e = {0};
		if (read_both(&g, rows[i].config, rows[i].gen, &e) != NH_OK) fail_msg("row %zu: %s", i, e.text);
		assert_int_equal(g.end_count, rows[i].count);
		assert_memory_equal(g.end, rows[i].ids, (size_t)g.end_count * sizeof *g.end);
	}
}

static void reads_sampling(void **state)
{
	(void)state;
	generation g;
	nh_error e = {0};
	assert_int_equal(read_both(&g, "{\"eos_token_id\":2,\"bos_token_id\":1}", NULL, &e), NH_OK);
	assert_false(g.has_do_sample || g.has_temperature || g.has_top_p || g.has_top_k || g.has_min_p || g.has_repetition_penalty ||
	             g.has_max_new_tokens || g.do_sample);
	assert_true(g.temperature == 1 && g.top_p == 1 && g.top_k == 0 && g.min_p == 0 && g.repetition_penalty == 1 && g.max_new_tokens == 0);
	assert_int_equal(g.bos, 1);
	assert_int_equal(g.pad, -1);
	assert_int_equal(read_both(&g, "{\"bos_token_id\":1,\"pad_token_id\":5}",
	                     "{\"bos_token_id\":3,\"do_sample\":true,\"temperature\":0.7,\"top_p\":0.95,\"top_k\":40,\"min_p\":0.05,"
	                     "\"repetition_penalty\":1.1,\"max_new_tokens\":512}",
	                     &e),
	    NH_OK);
	assert_true(g.has_do_sample && g.has_temperature && g.has_top_p && g.has_top_k && g.has_min_p && g.has_repetition_penalty &&
	            g.has_max_new_tokens && g.do_sample);
	assert_true(g.temperature == 0.7 && g.top_p == 0.95 && g.top_k == 40 && g.min_p == 0.05 && g.repetition_penalty == 1.1);
	assert_int_equal(g.max_new_tokens, 512);
	assert_int_equal(g.bos, 3);
	assert_int_equal(g.pad, 5);
	assert_int_equal(read_both(&g, "{}", "{\"temperature\":0,\"top_k\":-1,\"do_sample\":null}", &e), NH_OK);
	assert_true(g.has_temperature && g.temperature == 0 && g.has_top_k && g.top_k == 0 && !g.has_do_sample);
}

static void refuses_values(void **state)
{
	(void)state;
	static const struct {
		const char *config, *gen, *says;
	} rows[] = {
	    {"{\"eos_token_id\":-1}", NULL, "config.json: eos_token_id: is -1"},
	    {"{\"eos_token_id\":\"2\"}", NULL, "eos_token_id: is \"2\""},
	    {"{\"eos_token_id\":2.0}", NULL, "eos_token_id"},
	    {"{\"eos_token_id\":[[2]]}", NULL, "eos_token_id: is [2]"},
	    {"{\"eos_token_id\":4096,\"vocab_size\":4096}", NULL, "from 0 to 4095"},
	    {"{\"vocab_size\":4096}", "{\"eos_token_id\":[2,4096]}", "generation_config.json: eos_token_id: is 4096"},
	    {"{\"eos_token_id\":4294967296}", NULL, "eos_token_id"},
	    {"{}", "{\"temperature\":-0.5}", "temperature: is -0.5"},
	    {"{}", "{\"temperature\":NaN}", "temperature"},
	    {"{}", "{\"temperature\":Infinity}", "temperature"},
	    {"{}", "{\"temperature\":\"hot\"}", "temperature"},
	    {"{}", "{\"top_p\":0}", "top_p: is 0"},
	    {"{}", "{\"top_p\":1.5}", "top_p"},
	    {"{}", "{\"min_p\":-0.1}", "min_p"},
	    {"{}", "{\"top_k\":-2}", "top_k"},
	    {"{}", "{\"top_k\":1.5}", "top_k"},
	    {"{}", "{\"repetition_penalty\":0}", "repetition_penalty"},
	    {"{}", "{\"max_new_tokens\":0}", "max_new_tokens"},
	    {"{}", "{\"do_sample\":1}", "do_sample"},
	    {"{\"bos_token_id\":-2}", NULL, "bos_token_id"},
	    {"{}", "[]", "generation_config.json: is []"},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		generation g;
		nh_error e = {0};
		nh_status s = read_both(&g, rows[i].config, rows[i].gen, &e);
		if (s != NH_ERR_CONFIG || !strstr(e.text, rows[i].says)) fail_msg("row %zu: %d %s, expected \"%s\"", i, s, e.text, rows[i].says);
	}
	buf b = {0};
	buf_str(&b, "{\"eos_token_id\":[0");
	for (int i = 1; i <= GENERATION_MAX_END; i++) buf_printf(&b, ",%d", i);
	buf_str(&b, "]}");
	generation g;
	assert_int_equal(read_both(&g, b.data, NULL, NULL), NH_ERR_LIMIT);
	buf_deinit(&b);
}

static void missing_file_is_fine(void **state)
{
	(void)state;
	const char *dir = fmt_dir("generation");
	fmt_text(dir, "generation_config.json", "{\"eos_token_id\":[2,11]}");
	fmt_text(dir, "broken.json", "{");
	char *there = fmt_path(dir, "generation_config.json"), *none = fmt_path(dir, "none.json"), *broken = fmt_path(dir, "broken.json");
	json_t *c = fmt_json("{\"eos_token_id\":2}");
	generation g;
	assert_int_equal(generation_load(&g, c, "config.json", there, NULL), NH_OK);
	assert_int_equal(g.end_count, 2);
	assert_int_equal(generation_load(&g, c, "config.json", none, NULL), NH_OK);
	assert_int_equal(g.end_count, 1);
	assert_int_equal(generation_load(&g, c, "config.json", NULL, NULL), NH_OK);
	assert_int_equal(g.end_count, 1);
	assert_int_equal(generation_load(&g, c, "config.json", broken, NULL), NH_ERR_FORMAT);
	json_decref(c);
	mem_free(there);
	mem_free(none);
	mem_free(broken);
	assert_int_equal(mem_live(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(knows_its_family), cmocka_unit_test(loads_files),
	    cmocka_unit_test(joins_end_tokens), cmocka_unit_test(reads_sampling), cmocka_unit_test(refuses_values),
	    cmocka_unit_test(missing_file_is_fine)};
	return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
