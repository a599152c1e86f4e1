/* SPDX-License-Identifier: Apache-2.0
 * test_variants.c: checkpoints whose files and configuration disagree, or agree in an unusual way: what is decided, what is told, what is refused. A
 * small checkpoint is written and one thing about it changed.
 */
#include "test.h"

#include <string.h>

#include "backend/registry.h"
#include "base/base_file.h"
#include "base/base_json.h"
#include "base/base_mem.h"
#include "common/model_bench.h"
#include "fmt/config.h"
#include "num/num_conv.h"

typedef struct {
	nh_status status;
	nh_error e;
	char notices[4096];
	/* what was loaded */
	bool tied_head, fp8_kv;
	float k_scale;
} outcome;

static void hear(void *user, nh_log_level level, const char *text)
{
	outcome *o = user;
	(void)level;
	snprintf(o->notices + strlen(o->notices), sizeof o->notices - strlen(o->notices), "%s\n", text);
}

/* Opens the folder with the changes of `patch` (a JSON object; null removes a key) made to its config. */
static outcome open_with(const char *dir, const char *patch)
{
	outcome o = {0};
	char path[1024];
	json_t *config, *changes, *v;
	const char *key;
	exec *x;
	st_set *set;
	quant_config *quant = NULL;
	loader *l = NULL;
	model *m = NULL;
	const backend *be = backend_find("ref");
	const backend_options bo = {.num = num_profile("portable")};
	const logger log = {.fn = hear, .user = &o, .level = NH_LOG_NOTICE};
	nh_error *e = &o.e;
	snprintf(path, sizeof path, "%s/config.json", dir);
	if (config_load(&config, path, e) != NH_OK || jsn_load_text(&changes, patch, strlen(patch), "patch", e) != NH_OK)
		fail_msg("%s", e->text);
	json_object_foreach(changes, key, v)
	{
		if (json_is_null(v)) json_object_del(config, key);
		else json_object_set(config, key, v);
	}
	assert_int_equal(be->open(&x, &bo, e), NH_OK);
	if (st_set_open(&set, dir, &log, e) != NH_OK) fail_msg("%s", e->text);
	o.status = quant_open(&quant, config, "config.json", NULL, NULL, e);
	const loader_options lo = {.set = set, .quant = quant, .x = x, .arm = be, .log = &log, .files_name = "checkpoint"};
	if (o.status == NH_OK) o.status = loader_open(&l, &lo, e);
	if (o.status == NH_OK) o.status = nm_family.open(&m, config, "config.json", l, e);
	if (o.status == NH_OK) o.status = loader_finish(l, e);
	if (o.status == NH_OK) {
		const nm_model *nm = (const nm_model *)m;
		o.tied_head = nm->head.data == nm->embedding.data;
		o.fp8_kv = m->shape.fp8_kv;
		o.k_scale = m->shape.attn_layers ? m->shape.kv[0].k_scale : 0;
	}
	if (m) nm_family.close(m);
	loader_close(l);
	quant_close(quant);
	st_set_close(set);
	json_decref(config);
	json_decref(changes);
	be->close(x);
	return o;
}

static const char *made(const char *name, mk_format format, bool mtp)
{
	static const char *config[] = {"hidden_size=64", "vocab_size=320"};
	const mk_options o = {.format = format, .seed = 5, .pattern = "ME*-", .config = config, .config_count = ARRAY_LEN(config), .mtp = mtp};
	return bench_checkpoint(name, &o);
}

/* (vLLM 53019, 53170; Qwen3-VL-Embedding 89) */
static void a_tied_head_is_the_embedding(void **state)
{
	(void)state;
	const char *dir = made("variant-head", MK_BF16, false);
	outcome own = open_with(dir, "{}"), tied = open_with(dir, "{\"tie_word_embeddings\": true}");
	assert_int_equal(own.status, NH_OK);
	assert_false(own.tied_head);
	assert_int_equal(tied.status, NH_OK); /* a head of its own is there: the configuration wins, and it is told */
	assert_true(tied.tied_head);
	assert_non_null(strstr(tied.notices, "lm_head.weight is not used: tie_word_embeddings"));
	outcome coded = open_with(made("variant-coded-head", MK_MIXED, false), "{\"tie_word_embeddings\": true}"); /* FP4, with its scales */
	if (coded.status != NH_OK) fail_msg("%s", coded.e.text);
	assert_true(coded.tied_head);
	assert_non_null(strstr(coded.notices, "lm_head.weight_scale_2 is not used: tie_word_embeddings"));
}

static void cache_scales_are_used_only_with_a_cache_for_them(void **state)
{
	(void)state;
	const char *dir = made("variant-kv", MK_FP8, false);
	outcome with = open_with(dir, "{}");
	assert_int_equal(with.status, NH_OK);
	assert_true(with.fp8_kv && with.k_scale > 0 && with.k_scale != 1.0f);
	assert_true((double)with.k_scale == num_round_bf16((double)with.k_scale)); /* as vLLM holds it */
	outcome plain = open_with(made("variant-plain", MK_BF16, false),
	    "{\"quantization_config\": {\"quant_method\": \"modelopt\", \"quant_algo\": \"FP8\", \"ignore\": [\"*\"],"
	    " \"kv_cache_scheme\": {\"dynamic\": false, \"num_bits\": 8, \"type\": \"float\"}}}");
	assert_int_equal(plain.status, NH_OK); /* FP8 pages without scales: 1, told once */
	assert_true(plain.fp8_kv && plain.k_scale == 1.0f);
	char *first = strstr(plain.notices, "without k_scale or v_scale");
	assert_non_null(first);
	assert_null(strstr(first + 1, "without k_scale or v_scale"));
}

static void mtp_tensors_are_accounted_for(void **state)
{
	(void)state;
	const char *dir = made("variant-mtp", MK_MIXED, true);
	assert_int_equal(open_with(dir, "{}").status, NH_OK);
	outcome none = open_with(dir, "{\"num_nextn_predict_layers\": 0}");
	assert_int_equal(none.status, NH_ERR_TENSOR);
	assert_non_null(strstr(none.e.text, "tensor mtp.layers.0.eh_proj.weight: nothing in the configuration asks for it"));
}

static void a_changed_shape_names_its_tensor(void **state)
{
	(void)state;
	const char *dir = made("variant-shape", MK_BF16, false);
	static const struct {
		const char *patch, *word;
	} CASES[] = {
	    {"{\"mamba_num_heads\": 2}", "layers.0.mixer."},
	    {"{\"ssm_state_size\": 32}", "layers.0.mixer.in_proj.weight: shape"},
	    {"{\"n_routed_experts\": 4}", "layers.1.mixer."},
	    {"{\"head_dim\": 8}", "layers.2.mixer.q_proj.weight: shape"},
	    {"{\"intermediate_size\": 16}", "layers.3.mixer.up_proj.weight: shape"},
	    {"{\"vocab_size\": 321}", "embeddings.weight: shape [320, 64], config needs [321, 64]"},
	    {"{\"use_conv_bias\": false}", "conv1d.bias: nothing in the configuration asks for it"},
	    {"{\"use_bias\": true}", "in_proj.bias: not in the files"},
	};
	for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
		outcome o = open_with(dir, CASES[i].patch);
		if (o.status != NH_ERR_TENSOR || !strstr(o.e.text, CASES[i].word))
			fail_msg("%s: status %d: %s", CASES[i].patch, o.status, o.e.text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_tied_head_is_the_embedding),
	    cmocka_unit_test(cache_scales_are_used_only_with_a_cache_for_them),
	    cmocka_unit_test(mtp_tensors_are_accounted_for),
	    cmocka_unit_test(a_changed_shape_names_its_tensor),
	};
	return cmocka_run_group_tests_name("variants", tests, NULL, NULL);
}
