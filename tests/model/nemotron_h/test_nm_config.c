/* SPDX-License-Identifier: Apache-2.0
 * test_nm_config.c: the configuration reader: the published models' dimensions, counts, state and KV sizes (model.md 10.1 and 10.3); each
 * spelling; each override; each refusal.
 */
#include "test.h"

#include <math.h>
#include <string.h>

#include "base/base_file.h"
#include "base/base_json.h"
#include "base/base_mem.h"
#include "fmt/config.h"
#include "model/nemotron_h/nm_config.h"

/* A small complete model, every kind of layer in it. `more` is appended; a later key of the same name would be refused, so rows
 * that change one remove it first by `without`. */
static json_t *small(const char *more, const char *without)
{
	static const char *const base =
	    "{\"architectures\":[\"NemotronHForCausalLM\"],\"model_type\":\"nemotron_h\",\"torch_dtype\":\"bfloat16\",\"vocab_size\":512,"
	    "\"hidden_size\":64,\"num_hidden_layers\":5,\"hybrid_override_pattern\":\"M-E*M\",\"intermediate_size\":96,"
	    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":16,\"mamba_num_heads\":8,\"mamba_head_dim\":16,"
	    "\"n_groups\":2,\"ssm_state_size\":32,\"conv_kernel\":4,\"chunk_size\":8,\"n_routed_experts\":8,\"num_experts_per_tok\":3,"
	    "\"moe_intermediate_size\":48,\"n_shared_experts\":1,\"moe_shared_expert_intermediate_size\":80,\"routed_scaling_factor\":2.5,"
	    "\"max_position_embeddings\":1024}";
	json_t *v, *add;
	nh_error e = {0};
	assert_int_equal(jsn_load_text(&v, base, strlen(base), "base", &e), NH_OK);
	char word[64];
	for (const char *p = without; p && *p; p += strlen(word) + (p[strlen(word)] == ' ')) {
		snprintf(word, sizeof word, "%.*s", (int)strcspn(p, " "), p);
		assert_int_equal(json_object_del(v, word), 0);
	}
	if (jsn_load_text(&add, more, strlen(more), "more", &e) != NH_OK) fail_msg("%s: %s", e.text, more);
	assert_int_equal(json_object_update(v, add), 0);
	json_decref(add);
	return v;
}

static void keep(void *user, nh_log_level level, const char *text)
{
	(void)level;
	buf_printf(user, "%s\n", text);
}

/* Reads; on success with `notice` (which may be "" for none) checks the log; the caller deinits. */
static void accepts(nm_config *c, const char *more, const char *without, const char *notice)
{
	buf lines = {0};
	logger log = {.fn = keep, .user = &lines, .level = NH_LOG_DEBUG};
	nh_error e = {0};
	json_t *v = small(more, without);
	nh_status s = nm_config_read(c, v, "config.json", &log, &e);
	json_decref(v);
	if (s != NH_OK) fail_msg("%s: %d %s", more, s, e.text);
	const char *said = lines.data ? lines.data : "";
	if (*notice ? !strstr(said, notice) : *said) fail_msg("%s: log \"%s\", expected \"%s\"", more, said, notice);
	buf_deinit(&lines);
}

static void refuses(const char *more, const char *without, nh_status code, const char *says)
{
	nm_config c = {0};
	nh_error e = {0};
	json_t *v = small(more, without);
	nh_status s = nm_config_read(&c, v, "config.json", NULL, &e);
	json_decref(v);
	if (s != code || !strstr(e.text, says) || !strstr(e.text, "config.json: "))
		fail_msg("%s: %d %s, expected %d \"%s\"", more, s, e.text, code, says);
	assert_null(c.layer);
	assert_int_equal(mem_live(), 0);
}

typedef struct published {
	const char *name;
	int layers, m, a, d, e; /* counts of M * - E */
	int64_t hidden, heads, kv, mamba_heads, mamba_dim, state, ffn, experts, chosen, width, shared, latent;
	double factor;
	uint64_t kv_elements, ssm_bytes, conv_bytes;
	int mtp;
} published;

static const published PUBLISHED[] = {
    {"h-4b", 52, 24, 4, 24, 0, 3072, 32, 8, 112, 64, 128, 12288, 0, 0, 0, 0, 0, 0, 8192, 88080384, 1327104, 0},
    {"h-8b", 52, 24, 4, 24, 0, 4096, 32, 8, 128, 64, 128, 21504, 0, 0, 0, 0, 0, 0, 8192, 100663296, 1474560, 0},
    {"h-47b", 98, 45, 5, 48, 0, 8192, 64, 8, 256, 64, 256, 30720, 0, 0, 0, 0, 0, 0, 10240, 754974720, 5529600, 0},
    {"h-56b", 118, 54, 10, 54, 0, 8192, 64, 8, 256, 64, 256, 32768, 0, 0, 0, 0, 0, 0, 20480, 905969664, 6635520, 0},
    {"nano-9b-v2", 56, 27, 4, 25, 0, 4480, 40, 8, 128, 80, 128, 15680, 0, 0, 0, 0, 0, 0, 8192, 141557760, 1990656, 0},
    {"nano-12b-v2", 62, 28, 6, 28, 0, 5120, 40, 8, 128, 80, 128, 20480, 0, 0, 0, 0, 0, 0, 12288, 146800640, 2064384, 0},
    {"nano-4b", 42, 21, 4, 17, 0, 3136, 40, 8, 96, 80, 128, 12544, 0, 0, 0, 0, 0, 0, 8192, 82575360, 1225728, 0},
    {"nano-30b", 52, 23, 6, 0, 23, 2688, 32, 2, 64, 64, 128, 0, 128, 6, 1856, 3712, 0, 2.5, 3072, 48234496, 847872, 0},
    {"lightning", 52, 23, 6, 0, 23, 2688, 32, 2, 64, 64, 128, 0, 128, 6, 1856, 3712, 0, 2.5, 3072, 48234496, 847872, 1},
    {"super", 88, 40, 8, 0, 40, 4096, 32, 2, 128, 64, 128, 0, 512, 22, 2688, 5376, 1024, 5.0, 4096, 167772160, 2457600, 1},
    {"ultra", 108, 48, 12, 0, 48, 8192, 64, 2, 256, 64, 128, 0, 512, 22, 5120, 10240, 2048, 5.0, 6144, 402653184, 5308416, 1},
};

static void check_layer(const published *p, const nm_layer_config *l)
{
	if (l->kind == NM_MAMBA) {
		assert_int_equal(l->mamba.heads, p->mamba_heads);
		assert_int_equal(l->mamba.head_dim, p->mamba_dim);
		assert_int_equal(l->mamba.state, p->state);
		assert_int_equal(l->mamba.groups, 8);
		assert_int_equal(l->mamba.taps, 4);
		assert_int_equal(l->mamba.inner, p->mamba_heads * p->mamba_dim);
		assert_int_equal(l->mamba.channels, l->mamba.inner + 16 * p->state);
		assert_int_equal(l->mamba.proj, 2 * l->mamba.inner + 16 * p->state + p->mamba_heads);
	} else if (l->kind == NM_ATTN) {
		assert_int_equal(l->attn.heads, p->heads);
		assert_int_equal(l->attn.kv_heads, p->kv);
		assert_int_equal(l->attn.head_dim, 128);
		assert_int_equal(l->attn.window, 0);
	} else if (l->kind == NM_MLP) assert_int_equal(l->mlp.width, p->ffn);
	else {
		assert_int_equal(l->moe.experts, p->experts);
		assert_int_equal(l->moe.chosen, p->chosen);
		assert_int_equal(l->moe.width, p->width);
		assert_int_equal(l->moe.shared, p->shared);
		assert_int_equal(l->moe.latent, p->latent);
		assert_int_equal(l->moe.in_width, p->latent ? p->latent : p->hidden);
		assert_true(l->moe.factor == p->factor && l->moe.norm_topk);
	}
}

static void check_published(const published *p, const nm_config *c)
{
	assert_int_equal(c->layers, p->layers);
	assert_int_equal(strlen(c->pattern), p->layers);
	assert_int_equal(nm_config_count(c, NM_MAMBA), p->m);
	assert_int_equal(nm_config_count(c, NM_ATTN), p->a);
	assert_int_equal(nm_config_count(c, NM_MLP), p->d);
	assert_int_equal(nm_config_count(c, NM_MOE), p->e);
	assert_int_equal(c->hidden, p->hidden);
	assert_int_equal(c->vocab, 131072);
	assert_true(c->eps == 1e-5 && !c->tied && !c->puzzle && !c->proj_bias && !c->mlp_bias && c->conv_bias);
	assert_int_equal(c->dtype, NUM_BF16);
	assert_int_equal(c->ssm_dtype, NUM_F32);
	assert_int_equal(nm_config_kv_elements(c), p->kv_elements);
	assert_int_equal(nm_config_ssm_bytes(c), p->ssm_bytes);
	assert_int_equal(nm_config_conv_bytes(c), p->conv_bytes);
	assert_int_equal(nm_config_state_bytes(c), p->ssm_bytes + p->conv_bytes);
	assert_int_equal(c->max_experts, p->experts);
	assert_int_equal(c->mtp_depth, p->mtp);
	assert_int_equal(c->mtp_inner, p->mtp ? 2 : 0);
	for (int i = 0; i < c->layers; i++) {
		assert_int_equal(c->layer[i].kind, c->pattern[i]);
		assert_int_equal(c->layer[i].index, i);
		check_layer(p, &c->layer[i]);
	}
	for (int i = 0; i < c->mtp_inner; i++) check_layer(p, &c->mtp_layer[i]);
	assert_int_equal(nm_config_mtp_kv_elements(c), p->mtp ? 2 * p->kv * 128 : 0);
}

static void published_models(void **state)
{
	(void)state;
	size_t checked = 0;
	for (size_t i = 0; i < ARRAY_LEN(PUBLISHED); i++) {
		char path[512];
		json_t *v = NULL;
		nm_config c = {0};
		nh_error e = {0};
		buf lines = {0};
		logger log = {.fn = keep, .user = &lines, .level = NH_LOG_DEBUG};
		snprintf(path, sizeof path, "%s/tests/data/configs/%s.json", NH_SOURCE_DIR, PUBLISHED[i].name);
		if (config_load(&v, path, &e) != NH_OK || nm_config_read(&c, v, path, &log, &e) != NH_OK) fail_msg("%s", e.text);
		check_published(&PUBLISHED[i], &c);
		if (lines.len) fail_msg("%s: %s", path, lines.data);
		int64_t chunk = strcmp(PUBLISHED[i].name, "h-4b") == 0 || strcmp(PUBLISHED[i].name, "nano-4b") == 0 ? 256 : 128;
		assert_int_equal(c.chunk, chunk);
		nm_config_deinit(&c);
		json_decref(v);
		checked += (size_t)PUBLISHED[i].layers;
	}
	assert_int_equal(mem_live(), 0);
	assert_int_equal(checked, 52 + 52 + 98 + 118 + 56 + 62 + 42 + 52 + 52 + 88 + 108);
	print_message("%zu models, %zu layers\n", ARRAY_LEN(PUBLISHED), checked);
}

/* Attention at 5, 12, 19, 26, 33, 42 in the 30B pattern. */
static void published_config_file(void **state)
{
	(void)state;
	const char *path = NH_SHARED_DIR "/data/configs/lightning-30b-nvfp4.config.json";
	json_t *v = NULL;
	nm_config c = {0};
	nh_error e = {0};
	nh_status s = config_load(&v, path, &e);
	if (s == NH_ERR_NOTFOUND) NOT_RUN("%s", e.text);
	if (s != NH_OK || nm_config_read(&c, v, path, NULL, &e) != NH_OK) fail_msg("%s", e.text);
	json_decref(v);
	for (size_t i = 0; i < ARRAY_LEN(PUBLISHED); i++)
		if (strcmp(PUBLISHED[i].name, "lightning") == 0) check_published(&PUBLISHED[i], &c);
	const int at[] = {5, 12, 19, 26, 33, 42};
	for (int i = 0; i < 6; i++) {
		assert_int_equal(c.layer[at[i]].kind, NM_ATTN);
		assert_int_equal(c.layer[at[i]].ordinal, i);
	}
	assert_int_equal(c.max_positions, 1048576);
	nm_config_deinit(&c);
	static const char *const tiny[] = {"tiny-bf16", "tiny-fp8", "tiny-nvfp4", "tiny-nvfp4-w4a4"};
	for (size_t i = 0; i < ARRAY_LEN(tiny); i++) {
		char file[512];
		snprintf(file, sizeof file, "%s/models/%s/config.json", NH_SHARED_DIR, tiny[i]);
		if (config_load(&v, file, &e) != NH_OK || nm_config_read(&c, v, file, NULL, &e) != NH_OK) fail_msg("%s", e.text);
		assert_string_equal(c.pattern, "MEMEM*EMEMEM*E");
		assert_int_equal(c.layer[0].mamba.proj, 512 + 512 + 2 * 2 * 128 + 8);
		nm_config_deinit(&c);
		json_decref(v);
	}
	assert_int_equal(mem_live(), 0);
}

static void spellings_of_the_pattern(void **state)
{
	(void)state;
	static const struct {
		const char *more, *without, *pattern, *notice;
	} rows[] = {
	    {"{}", NULL, "M-E*M", ""},
	    {"{\"layers_block_type\":[\"mamba\",\"mlp\",\"moe\",\"attention\",\"mamba\"]}", "hybrid_override_pattern", "M-E*M", ""},
	    {"{\"layers_block_type\":[\"linear_attention\",\"mlp\",\"moe\",\"full_attention\",\"mamba\"]}", NULL, "M-E*M", ""},
	    {"{\"layer_types\":[\"linear_attention\",\"mlp\",\"moe\",\"full_attention\",\"linear_attention\"]}", "hybrid_override_pattern",
	        "M-E*M", ""},
	    {"{\"layers_block_type\":[\"mamba\",\"moe\"]}", "hybrid_override_pattern num_hidden_layers", "ME", ""},
	    {"{\"layers_block_type\":[\"mamba\",\"moe\"],\"num_hidden_layers\":2}", NULL, "ME",
	        "hybrid_override_pattern says other layers than layers_block_type"},
	    {"{\"layers_block_type\":[\"mamba\",\"moe\"]}", "hybrid_override_pattern", "ME",
	        "num_hidden_layers: is 5, but layers_block_type has 2"},
	    {"{\"layer_types\":[\"mamba\"],\"layers_block_type\":[\"moe\"],\"num_hidden_layers\":1}", "hybrid_override_pattern", "E",
	        "layer_types says other"},
	    {"{\"layers_block_type\":null}", NULL, "M-E*M", ""},
	    {"{}", "num_hidden_layers", "M-E*M", ""},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		nm_config c = {0};
		accepts(&c, rows[i].more, rows[i].without, rows[i].notice);
		assert_string_equal(c.pattern, rows[i].pattern);
		assert_int_equal(c.layers, strlen(rows[i].pattern));
		nm_config_deinit(&c);
	}
	refuses("{\"num_hidden_layers\":6}", NULL, NH_ERR_CONFIG, "num_hidden_layers: is 6, but hybrid_override_pattern has 5");
	refuses("{}", "hybrid_override_pattern", NH_ERR_CONFIG, "none of hybrid_override_pattern");
	refuses("{\"hybrid_override_pattern\":\"M-EXM\"}", NULL, NH_ERR_CONFIG, "hybrid_override_pattern: character 3 is 'X'");
	refuses("{\"layers_block_type\":[\"mamba\",\"rnn\"]}", NULL, NH_ERR_CONFIG, "layers_block_type: item 1");
	refuses("{\"layers_block_type\":\"M\",\"hybrid_override_pattern\":5}", NULL, NH_ERR_CONFIG, "hybrid_override_pattern: is 5");
}

static void legacy_names_override(void **state)
{
	(void)state;
	nm_config c = {0};
	accepts(&c,
	    "{\"mamba_n_groups\":4,\"mamba_d_conv\":3,\"mamba_chunk_size\":16,\"mamba_conv_bias\":false,\"mamba_expand\":7,\"expand\":2,"
	    "\"use_conv_bias\":true,\"mamba_dt_min\":0.5,\"time_step_min\":0.25,\"mamba_dt_max\":3,\"mamba_dt_init_floor\":0.125,"
	    "\"mamba_dt_limit\":[1.0,2.0],\"time_step_limit\":[0.0,Infinity]}",
	    NULL, "");
	assert_int_equal(c.layer[0].mamba.groups, 4);
	assert_int_equal(c.layer[0].mamba.taps, 3);
	assert_int_equal(c.layer[0].mamba.channels, 128 + 2 * 4 * 32);
	assert_int_equal(c.chunk, 16);
	assert_false(c.conv_bias);
	assert_int_equal(c.ignored.expand, 7);
	assert_true(c.ignored.time_step_min == 0.5 && c.ignored.time_step_max == 3 && c.ignored.time_step_floor == 0.125);
	assert_true(c.ignored.time_step_limit[0] == 1 && c.ignored.time_step_limit[1] == 2);
	nm_config_deinit(&c);
	accepts(&c, "{\"mamba_n_groups\":null,\"time_step_limit\":[0.0,Infinity]}", NULL, "");
	assert_int_equal(c.layer[0].mamba.groups, 2);
	assert_true(isinf(c.ignored.time_step_limit[1]));
	nm_config_deinit(&c);
	accepts(&c, "{\"attention_head_dim\":32}", "head_dim", "");
	assert_int_equal(c.layer[3].attn.head_dim, 32);
	nm_config_deinit(&c);
	accepts(&c, "{\"attention_head_dim\":16}", NULL, "");
	assert_int_equal(c.layer[3].attn.head_dim, 16);
	nm_config_deinit(&c);
	refuses("{\"attention_head_dim\":32}", NULL, NH_ERR_CONFIG, "attention_head_dim: is 32, but head_dim is 16");
	accepts(&c, "{\"num_local_experts\":16}", "n_routed_experts", "");
	assert_int_equal(c.layer[2].moe.experts, 16);
	nm_config_deinit(&c);
	accepts(&c, "{\"num_key_value_heads\":null}", NULL, "");
	assert_int_equal(c.layer[3].attn.kv_heads, 4);
	nm_config_deinit(&c);
	/* without a chunk size at all: what the reference engine falls back to */
	accepts(&c, "{}", "chunk_size", "class default used: chunk_size");
	assert_int_equal(c.chunk, 2048);
	nm_config_deinit(&c);
	accepts(&c, "{}", "conv_kernel n_groups", "class default used: n_groups, conv_kernel");
	assert_int_equal(c.layer[0].mamba.groups, 8);
	nm_config_deinit(&c);
	assert_int_equal(mem_live(), 0);
}

static void widths_per_layer(void **state)
{
	(void)state;
	nm_config c = {0};
	accepts(&c, "{\"hybrid_override_pattern\":\"-M-E-\",\"intermediate_size\":[10,20,30]}", NULL, "");
	assert_int_equal(c.layer[0].mlp.width, 10);
	assert_int_equal(c.layer[2].mlp.width, 20);
	assert_int_equal(c.layer[4].mlp.width, 30);
	assert_int_equal(c.layer[1].mlp.width, 0);
	nm_config_deinit(&c);
	accepts(&c, "{\"hybrid_override_pattern\":\"-M-E-\",\"intermediate_size\":[77]}", NULL, "");
	assert_int_equal(c.layer[0].mlp.width + c.layer[2].mlp.width + c.layer[4].mlp.width, 3 * 77);
	nm_config_deinit(&c);
	refuses("{\"hybrid_override_pattern\":\"-M-E-\",\"intermediate_size\":[1,2]}", NULL, NH_ERR_CONFIG, "intermediate_size: has 2 widths");
	refuses("{\"hybrid_override_pattern\":\"-M-E-\",\"intermediate_size\":[1,0,3]}", NULL, NH_ERR_CONFIG, "intermediate_size: item 1 is 0");
	refuses("{\"intermediate_size\":[\"9\"]}", NULL, NH_ERR_CONFIG, "intermediate_size: item 0 is \"9\"");
	refuses("{\"intermediate_size\":[]}", NULL, NH_ERR_CONFIG, "intermediate_size: has 0 widths");
}

static void latent_and_shared(void **state)
{
	(void)state;
	nm_config c = {0};
	accepts(&c, "{\"moe_latent_size\":24,\"n_shared_experts\":3,\"n_group\":4,\"topk_group\":2,\"norm_topk_prob\":false}", NULL, "");
	assert_int_equal(c.layer[2].moe.latent, 24);
	assert_int_equal(c.layer[2].moe.in_width, 24);
	assert_int_equal(c.layer[2].moe.shared, 240);
	assert_int_equal(c.layer[2].moe.n_group, 4);
	assert_int_equal(c.layer[2].moe.topk_group, 2);
	assert_false(c.layer[2].moe.norm_topk);
	nm_config_deinit(&c);
	static const char *const none[] = {"{\"n_shared_experts\":0}", "{\"n_shared_experts\":null}"};
	for (size_t i = 0; i < 2; i++) {
		accepts(&c, none[i], NULL, "");
		assert_int_equal(c.layer[2].moe.shared, 0);
		assert_int_equal(c.layer[2].moe.in_width, 64);
		nm_config_deinit(&c);
	}
	accepts(&c, "{\"tie_word_embeddings\":true,\"use_bias\":true,\"mlp_bias\":true,\"mamba_proj_bias\":true}", NULL, "");
	assert_true(c.tied && c.proj_bias && c.mlp_bias);
	nm_config_deinit(&c);
}

static void state_dtype(void **state)
{
	(void)state;
	static const struct {
		const char *more;
		num_dtype type;
		const char *text;
		uint64_t bytes;
	} rows[] = {
	    {"{}", NUM_F32, "", 4},
	    {"{\"mamba_ssm_cache_dtype\":null}", NUM_F32, "", 4},
	    {"{\"mamba_ssm_cache_dtype\":\"auto\"}", NUM_F32, "auto", 4},
	    {"{\"mamba_ssm_cache_dtype\":\"float32\"}", NUM_F32, "float32", 4},
	    {"{\"mamba_ssm_cache_dtype\":\"float16\"}", NUM_F16, "float16", 2},
	    {"{\"mamba_ssm_cache_dtype\":\"bfloat16\"}", NUM_BF16, "bfloat16", 2},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		nm_config c = {0};
		accepts(&c, rows[i].more, NULL, "");
		assert_int_equal(c.ssm_dtype, rows[i].type);
		assert_string_equal(c.ssm_dtype_text, rows[i].text);
		assert_int_equal(nm_config_ssm_bytes(&c), 2 * 8 * 16 * 32 * rows[i].bytes);
		assert_int_equal(nm_config_conv_bytes(&c), 2 * 3 * (128 + 2 * 2 * 32) * 2);
		assert_int_equal(nm_config_kv_elements(&c), 2 * 2 * 16);
		nm_config_deinit(&c);
	}
	refuses("{\"mamba_ssm_cache_dtype\":\"fp8\"}", NULL, NH_ERR_UNSUPPORTED, "mamba_ssm_cache_dtype: is \"fp8\"");
	refuses("{\"mamba_ssm_cache_dtype\":32}", NULL, NH_ERR_CONFIG, "mamba_ssm_cache_dtype: is 32");
}

static void mtp_spellings(void **state)
{
	(void)state;
	static const struct {
		const char *more, *kinds;
	} rows[] = {
	    {"{\"num_nextn_predict_layers\":1}", "*E"},
	    {"{\"num_nextn_predict_layers\":1,\"mtp_hybrid_override_pattern\":\"*E\"}", "*E"},
	    {"{\"num_nextn_predict_layers\":1,\"mtp_hybrid_override_pattern\":\"*-E\"}", "*-E"},
	    {"{\"num_nextn_predict_layers\":1,\"mtp_layers_block_type\":[\"attention\",\"moe\"]}", "*E"},
	    {"{\"num_nextn_predict_layers\":1,\"mtp_layers_block_type\":[\"full_attention\",\"mlp\",\"moe\"]}", "*-E"},
	    {"{\"num_nextn_predict_layers\":1,\"mtp_layers_block_type\":[\"moe\"],\"mtp_hybrid_override_pattern\":\"*E\"}", "E"},
	    {"{\"num_nextn_predict_layers\":1,\"mtp_layers_block_type\":[\"attention\",\"moe\"],\"mtp_hybrid_override_pattern\":\"E\"}", "E"},
	    {"{\"num_nextn_predict_layers\":0,\"mtp_hybrid_override_pattern\":\"\"}", ""},
	    {"{\"num_nextn_predict_layers\":null}", ""},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		nm_config c = {0};
		accepts(&c, rows[i].more, NULL, "");
		assert_int_equal(c.mtp_inner, strlen(rows[i].kinds));
		assert_int_equal(c.mtp_depth, c.mtp_inner > 0);
		for (int k = 0; k < c.mtp_inner; k++) assert_int_equal(c.mtp_layer[k].kind, rows[i].kinds[k]);
		nm_config_deinit(&c);
	}
	nm_config c = {0};
	accepts(&c, "{\"num_nextn_predict_layers\":1,\"mtp_n_routed_experts\":32}", NULL, "");
	assert_int_equal(c.mtp_layer[1].moe.experts, 32);
	assert_int_equal(c.layer[2].moe.experts, 8);
	assert_int_equal(c.max_experts, 32);
	assert_int_equal(nm_config_mtp_kv_elements(&c), 2 * 2 * 16);
	nm_config_deinit(&c);
	refuses("{\"num_nextn_predict_layers\":1,\"mtp_hybrid_override_pattern\":\"*X\"}", NULL, NH_ERR_CONFIG, "mtp_hybrid_override_pattern");
	refuses("{\"num_nextn_predict_layers\":1,\"mtp_layers_block_type\":[]}", NULL, NH_ERR_CONFIG, "mtp_layers_block_type");
	refuses("{\"num_nextn_predict_layers\":-1}", NULL, NH_ERR_CONFIG, "num_nextn_predict_layers: is -1");
}

#define PUZZLE "\"architectures\":[\"NemotronHPuzzleForCausalLM\"],\"model_type\":\"nemotron_h_puzzle\""

static void puzzle(void **state)
{
	(void)state;
	for (int reversed = 0; reversed < 2; reversed++) { /* expert counts 64 and 128 in either order: tables need 128 */
		char more[1200];
		nm_config c = {0};
		snprintf(more, sizeof more,
		    "{" PUZZLE ",\"num_nextn_predict_layers\":1,\"block_configs\":[{\"block_type\":\"mamba\",\"ssm_state_size\":96},"
		    "{\"block_type\":\"moe\",\"n_routed_experts\":%d,\"num_experts_per_tok\":5,\"moe_intermediate_size\":40,\"moe_latent_size\":12,"
		    "\"moe_shared_expert_intermediate_size\":20,\"routed_scaling_factor\":1.5},"
		    "{\"block_type\":\"attention\",\"sliding_window\":100},{\"block_type\":\"mamba\",\"ssm_state_size\":null},"
		    "{\"block_type\":\"moe\",\"n_routed_experts\":%d},{\"block_type\":\"attention\"},{\"block_type\":\"mlp\",\"intermediate_size\":"
		    "30}],"
		    "\"mtp_block_configs\":[{\"block_type\":\"attention\"},{\"block_type\":\"moe\",\"n_routed_experts\":16,\"num_experts_per_tok\":"
		    "7}]}",
		    reversed ? 128 : 64, reversed ? 64 : 128);
		accepts(&c, more, "hybrid_override_pattern num_hidden_layers", "");
		assert_true(c.puzzle);
		assert_string_equal(c.pattern, "ME*ME*-");
		assert_int_equal(c.max_experts, 128);
		assert_int_equal(c.layer[0].mamba.state, 96);
		assert_int_equal(c.layer[3].mamba.state, 32);
		assert_int_equal(c.layer[1].moe.experts, reversed ? 128 : 64);
		assert_int_equal(c.layer[1].moe.chosen, 5);
		assert_int_equal(c.layer[1].moe.width, 40);
		assert_int_equal(c.layer[1].moe.latent, 12);
		assert_int_equal(c.layer[1].moe.in_width, 12);
		assert_int_equal(c.layer[1].moe.shared, 20);
		assert_true(c.layer[1].moe.factor == 1.5);
		assert_int_equal(c.layer[4].moe.experts, reversed ? 64 : 128);
		assert_int_equal(c.layer[4].moe.chosen, 3);
		assert_int_equal(c.layer[4].moe.width, 48);
		assert_int_equal(c.layer[4].moe.latent, 0);
		assert_int_equal(c.layer[2].attn.window, 100);
		assert_int_equal(c.layer[5].attn.window, 0);
		assert_int_equal(c.layer[6].mlp.width, 30);
		assert_int_equal(c.mtp_layer[1].moe.experts, 16);
		assert_int_equal(c.mtp_layer[1].moe.chosen, 7);
		assert_int_equal(nm_config_ssm_bytes(&c), 8 * 16 * (96 + 32) * 4);
		nm_config_deinit(&c);
	}
	const char *gone = "hybrid_override_pattern num_hidden_layers";
	nm_config c = {0};
	accepts(&c, "{" PUZZLE ",\"block_configs\":[{\"block_type\":\"mamba\"},{\"block_type\":\"moe\"}]}", NULL, "block_configs wins");
	assert_string_equal(c.pattern, "ME");
	nm_config_deinit(&c);
	refuses("{" PUZZLE "}", NULL, NH_ERR_CONFIG, "block_configs: is absent");
	refuses("{" PUZZLE ",\"block_configs\":[]}", gone, NH_ERR_CONFIG, "block_configs: is []");
	refuses("{" PUZZLE ",\"block_configs\":{}}", gone, NH_ERR_CONFIG, "block_configs: is {}");
	refuses("{" PUZZLE ",\"block_configs\":[{\"block_type\":\"no_op\"}]}", gone, NH_ERR_CONFIG, "block_configs[0]");
	refuses("{" PUZZLE ",\"block_configs\":[{\"block_type\":\"mamba\"},3]}", gone, NH_ERR_CONFIG, "block_configs[1]: is 3");
	refuses("{" PUZZLE ",\"block_configs\":[{\"block_type\":\"attention\",\"q_indexer_top_k\":5}]}", gone, NH_ERR_UNSUPPORTED,
	    "block_configs[0]: q_indexer_top_k: is 5");
	refuses("{" PUZZLE ",\"block_configs\":[{\"block_type\":\"mamba\",\"moe_intermediate_size\":5}]}", gone, NH_ERR_UNSUPPORTED,
	    "block_configs[0]: moe_intermediate_size");
	refuses("{" PUZZLE ",\"block_configs\":[{\"block_type\":\"moe\",\"num_experts_per_tok\":9}]}", gone, NH_ERR_CONFIG,
	    "block_configs[0]: num_experts_per_tok: is 9");
	refuses("{" PUZZLE ",\"block_configs\":[{\"block_type\":\"moe\",\"n_routed_experts\":\"8\"}]}", gone, NH_ERR_CONFIG,
	    "block_configs[0]: n_routed_experts");
	refuses("{\"sliding_window\":128}", NULL, NH_ERR_UNSUPPORTED, "sliding_window: is 128");
}

static void refuses_values(void **state)
{
	(void)state;
	static const struct {
		const char *more;
		nh_status code;
		const char *says;
	} rows[] = {
	    {"{\"vocab_size\":0}", NH_ERR_CONFIG, "vocab_size: is 0"},
	    {"{\"vocab_size\":null}", NH_ERR_CONFIG, "vocab_size: is absent"},
	    {"{\"hidden_size\":-1}", NH_ERR_CONFIG, "hidden_size: is -1"},
	    {"{\"hidden_size\":1e30}", NH_ERR_CONFIG, "hidden_size"},
	    {"{\"hidden_size\":Infinity}", NH_ERR_CONFIG, "hidden_size"},
	    {"{\"hidden_size\":\"64\"}", NH_ERR_CONFIG, "hidden_size: is \"64\""},
	    {"{\"hidden_size\":64.5}", NH_ERR_CONFIG, "hidden_size: is 64.5"},
	    {"{\"mamba_num_heads\":9}", NH_ERR_CONFIG, "mamba_num_heads: is 9, expected a multiple of n_groups 2"},
	    {"{\"n_groups\":3}", NH_ERR_CONFIG, "multiple of n_groups 3"},
	    {"{\"n_groups\":0}", NH_ERR_CONFIG, "n_groups: is 0"},
	    {"{\"num_key_value_heads\":3}", NH_ERR_CONFIG, "num_attention_heads: is 4, expected a multiple of num_key_value_heads 3"},
	    {"{\"num_key_value_heads\":8}", NH_ERR_CONFIG, "num_attention_heads: is 4"},
	    {"{\"head_dim\":0}", NH_ERR_CONFIG, "head_dim: is 0"},
	    {"{\"mamba_num_heads\":65536,\"mamba_head_dim\":65536}", NH_ERR_LIMIT, "mamba_num_heads x mamba_head_dim"},
	    {"{\"num_attention_heads\":65536,\"head_dim\":65536}", NH_ERR_LIMIT, "num_attention_heads x head_dim"},
	    {"{\"n_groups\":1,\"ssm_state_size\":65536,\"mamba_head_dim\":65536,\"mamba_num_heads\":65536}", NH_ERR_LIMIT, "ssm_state_size"},
	    {"{\"conv_kernel\":1}", NH_ERR_CONFIG, "conv_kernel: is 1"},
	    {"{\"conv_kernel\":17}", NH_ERR_CONFIG, "conv_kernel: is 17"},
	    {"{\"chunk_size\":0}", NH_ERR_CONFIG, "chunk_size: is 0"},
	    {"{\"mamba_chunk_size\":0}", NH_ERR_CONFIG, "mamba_chunk_size: is 0"},
	    {"{\"intermediate_size\":0}", NH_ERR_CONFIG, "intermediate_size: is 0"},
	    {"{\"num_experts_per_tok\":9}", NH_ERR_CONFIG, "num_experts_per_tok: is 9, but a token can reach only 8"},
	    {"{\"num_experts_per_tok\":0}", NH_ERR_CONFIG, "num_experts_per_tok: is 0"},
	    {"{\"n_routed_experts\":0}", NH_ERR_CONFIG, "n_routed_experts: is 0"},
	    {"{\"n_group\":3}", NH_ERR_CONFIG, "n_routed_experts: is 8, expected a multiple of n_group 3"},
	    {"{\"n_group\":8}", NH_ERR_CONFIG, "num_experts_per_tok"},
	    {"{\"n_group\":8,\"topk_group\":8}", NH_ERR_CONFIG, "n_group: is 8, but a group's score needs two"},
	    {"{\"n_group\":2,\"topk_group\":3}", NH_ERR_CONFIG, "topk_group: is 3, expected at most n_group 2"},
	    {"{\"routed_scaling_factor\":0}", NH_ERR_CONFIG, "routed_scaling_factor: is 0"},
	    {"{\"routed_scaling_factor\":NaN}", NH_ERR_CONFIG, "routed_scaling_factor"},
	    {"{\"routed_scaling_factor\":Infinity}", NH_ERR_CONFIG, "routed_scaling_factor"},
	    {"{\"moe_latent_size\":0}", NH_ERR_CONFIG, "moe_latent_size: is 0"},
	    {"{\"layer_norm_epsilon\":0}", NH_ERR_CONFIG, "layer_norm_epsilon: is 0"},
	    {"{\"layer_norm_epsilon\":-1e-5}", NH_ERR_CONFIG, "layer_norm_epsilon"},
	    {"{\"layer_norm_epsilon\":NaN}", NH_ERR_CONFIG, "layer_norm_epsilon"},
	    {"{\"max_position_embeddings\":0}", NH_ERR_CONFIG, "max_position_embeddings"},
	    {"{\"torch_dtype\":\"float16\"}", NH_ERR_UNSUPPORTED, "torch_dtype: is \"float16\""},
	    {"{\"dtype\":\"float32\"}", NH_ERR_CONFIG, "dtype: is \"float32\", but torch_dtype"},
	    {"{\"time_step_limit\":[0.0]}", NH_ERR_CONFIG, "time_step_limit"},
	    {"{\"time_step_limit\":5}", NH_ERR_CONFIG, "time_step_limit: is 5"},
	    {"{\"use_bias\":1}", NH_ERR_CONFIG, "use_bias: is 1"},
	    {"{\"tie_word_embeddings\":\"no\"}", NH_ERR_CONFIG, "tie_word_embeddings"},
	    {"{\"architectures\":[\"MambaForCausalLM\"]}", NH_ERR_UNSUPPORTED, "MambaForCausalLM"},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) refuses(rows[i].more, NULL, rows[i].code, rows[i].says);
	print_message("%zu values refused\n", ARRAY_LEN(rows));
}

static void refuses_other_mathematics(void **state)
{
	(void)state;
	static const char *const rows[] = {"mamba_hidden_act\":\"gelu", "mlp_hidden_act\":\"silu", "hidden_act\":\"gelu",
	    "scoring_func\":\"softmax", "topk_method\":\"greedy", "position_embedding_type\":\"rope"};
	static const char *const more[] = {"{\"attention_bias\":true}", "{\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}}",
	    "{\"rope_parameters\":{\"rope_type\":\"yarn\"}}", "{\"qk_layernorm\":true}", "{\"final_logit_softcapping\":30.0}",
	    "{\"attn_logit_softcapping\":50}", "{\"logits_scaling\":2}", "{\"embedding_multiplier\":12}", "{\"residual_multiplier\":0.5}",
	    "{\"attention_multiplier\":0.125}", "{\"norm_before_gate\":true}", "{\"attention_sinks\":true}", "{\"is_encoder_decoder\":true}",
	    "{\"compression_config\":{\"a\":1}}", "{\"quantization\":{\"bits\":4}}", "{\"q_indexer_top_k\":4}", "{\"first_k_dense_replace\":1}",
	    "{\"mamba_proj_bias\":true}", "{\"use_sliding_window\":true}", "{\"moe_layer_freq\":2}"};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char text[120], key[60];
		snprintf(text, sizeof text, "{\"%s\"}", rows[i]);
		snprintf(key, sizeof key, "config.json: %.*s: is", (int)strcspn(rows[i], "\""), rows[i]);
		refuses(text, NULL, NH_ERR_UNSUPPORTED, key);
	}
	for (size_t i = 0; i < ARRAY_LEN(more); i++) {
		char key[60];
		snprintf(key, sizeof key, "config.json: %.*s: is", (int)strcspn(more[i] + 2, "\""), more[i] + 2);
		refuses(more[i], NULL, NH_ERR_UNSUPPORTED, key);
	}
	nm_config c = {0};
	accepts(&c,
	    "{\"attention_bias\":false,\"rope_scaling\":null,\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":10000},"
	    "\"mamba_hidden_act\":\"silu\",\"mlp_hidden_act\":\"relu2\",\"sliding_window\":null,\"rope_theta\":10000,\"norm_eps\":1e-6,"
	    "\"partial_rotary_factor\":1.0,\"residual_in_fp32\":true,\"rescale_prenorm_residual\":true,\"transformers_version\":\"5.8.1\","
	    "\"quantization_config\":{},\"logits_scaling\":1.0,\"scoring_func\":\"sigmoid\",\"final_logit_softcapping\":null}",
	    NULL, "");
	assert_true(c.ignored.residual_in_fp32);
	nm_config_deinit(&c);
	accepts(&c, "{\"brand_new_key\":5,\"other\":null}", NULL, "2 keys are not known and not used: brand_new_key, other");
	nm_config_deinit(&c);
}

static void survives_no_memory(void **state)
{
	(void)state;
	json_t *v = small("{\"num_nextn_predict_layers\":1,\"layers_block_type\":[\"mamba\",\"moe\",\"attention\"],\"new\":1}", "conv_kernel");
	size_t failures = 0;
	for (size_t n = 0; n < 100; n++) {
		nm_config c = {0};
		mem_fail_after(n);
		nh_status s = nm_config_read(&c, v, "config.json", NULL, NULL);
		mem_fail_after(SIZE_MAX);
		assert_true(s == NH_OK || s == NH_ERR_NOMEM);
		failures += s != NH_OK;
		nm_config_deinit(&c);
		assert_int_equal(mem_live(), 0);
	}
	assert_true(failures >= 4 && failures < 90);
	json_decref(v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(published_models), cmocka_unit_test(published_config_file),
	    cmocka_unit_test(spellings_of_the_pattern), cmocka_unit_test(legacy_names_override), cmocka_unit_test(widths_per_layer),
	    cmocka_unit_test(latent_and_shared), cmocka_unit_test(state_dtype), cmocka_unit_test(mtp_spellings), cmocka_unit_test(puzzle),
	    cmocka_unit_test(refuses_values), cmocka_unit_test(refuses_other_mathematics), cmocka_unit_test(survives_no_memory)};
	return cmocka_run_group_tests_name("nm_config", tests, NULL, NULL);
}
