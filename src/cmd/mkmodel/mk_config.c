/* SPDX-License-Identifier: Apache-2.0
 * mk_config.c: the config.json of a random checkpoint: small defaults, or a published file's keys, then the options, then KEY=VALUE.
 * Knows names of keys, checks no values: nm_config does. Breaks first: a key given on the command line always wins.
 */
#include <string.h>

#include "base/base_json.h"
#include "base/base_mem.h"
#include "cmd/mkmodel/mk.h"
#include "fmt/preset.h"

/* Every dimension that multiplies is a multiple of 16, so that all of it can be FP4. */
static const char small_config[] =
    "{\"architectures\":[\"NemotronHForCausalLM\"],\"model_type\":\"nemotron_h\",\"torch_dtype\":\"bfloat16\",\"vocab_size\":512,"
    "\"hidden_size\":64,\"num_hidden_layers\":6,\"hybrid_override_pattern\":\"MEM*E-\",\"intermediate_size\":96,\"mlp_hidden_act\":"
    "\"relu2\","
    "\"mlp_bias\":false,\"use_bias\":false,\"mamba_num_heads\":8,\"mamba_head_dim\":16,\"n_groups\":2,\"ssm_state_size\":16,\"conv_"
    "kernel\":4,"
    "\"use_conv_bias\":true,\"chunk_size\":8,\"expand\":2,\"mamba_hidden_act\":\"silu\",\"mamba_proj_bias\":false,"
    "\"mamba_ssm_cache_dtype\":\"float32\",\"time_step_min\":0.001,\"time_step_max\":0.1,\"time_step_floor\":0.0001,"
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":16,\"attention_bias\":false,\"sliding_window\":null,"
    "\"n_routed_experts\":8,\"num_experts_per_tok\":2,\"moe_intermediate_size\":32,\"n_shared_experts\":1,"
    "\"moe_shared_expert_intermediate_size\":64,\"n_group\":1,\"topk_group\":1,\"norm_topk_prob\":true,\"routed_scaling_factor\":2.5,"
    "\"layer_norm_epsilon\":1e-05,\"residual_in_fp32\":false,\"initializer_range\":0.02,\"tie_word_embeddings\":false,\"use_cache\":true,"
    "\"max_position_embeddings\":4096,\"bos_token_id\":1,\"eos_token_id\":2,\"pad_token_id\":0,\"num_nextn_predict_layers\":0}";

static nh_status set_pattern(json_t *c, const char *pattern, nh_error *e)
{
	size_t n = strlen(pattern);
	if (n > NM_MAX_LAYERS) return ERR(e, NH_ERR_ARG, "pattern: has %zu layers, the limit is %d", n, NM_MAX_LAYERS);
	if (n == 0 || strspn(pattern, "M*-E") != n) return ERR(e, NH_ERR_ARG, "pattern %.80s: expected letters M, *, - and E", pattern);
	json_object_del(c, "layers_block_type");
	json_object_del(c, "layer_types");
	json_object_del(c, "block_configs");
	json_object_set_new(c, "hybrid_override_pattern", json_string(pattern));
	json_object_set_new(c, "num_hidden_layers", json_integer((json_int_t)n));
	return NH_OK;
}

/* The letters that the config names now, whatever its spelling; empty where it has none. */
static void pattern_of(const json_t *c, char text[NM_MAX_LAYERS + 1])
{
	static const char *const keys[] = {"layers_block_type", "layer_types", "hybrid_override_pattern"};
	int count = 0;
	text[0] = '\0';
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		const json_t *v = json_object_get(c, keys[i]);
		if (v != NULL && !json_is_null(v) && nm_pattern_read(v, "config", keys[i], text, &count, NULL) == NH_OK) return;
	}
}

static void set_list_form(json_t *c, const char *pattern)
{
	json_t *list = json_array();
	for (const char *p = pattern; *p != '\0'; p++) json_array_append_new(list, json_string(nm_kind_name(*p)));
	json_object_set_new(c, "layers_block_type", list);
	json_object_del(c, "hybrid_override_pattern");
}

static json_int_t get(const json_t *c, const char *key, json_int_t fallback)
{
	const json_t *v = json_object_get(c, key);
	return json_is_integer(v) ? json_integer_value(v) : fallback;
}

/* One layer's block: every second one of a kind differs from the config's own numbers, so that nothing can be taken from the wrong place. */
static json_t *puzzle_block(const json_t *c, char kind, int ordinal)
{
	json_t *b = json_pack("{s:s}", "block_type", nm_kind_name(kind));
	json_int_t experts = get(c, "n_routed_experts", 8), chosen = get(c, "num_experts_per_tok", 2),
	           width = get(c, "moe_intermediate_size", 32);
	switch (kind) {
	case NM_MOE:
		json_object_set_new(b, "n_routed_experts", json_integer(ordinal % 2 ? experts * 2 : experts));
		json_object_set_new(b, "num_experts_per_tok", json_integer(chosen + ordinal % 2));
		json_object_set_new(b, "moe_intermediate_size", json_integer(width + 16 * (ordinal % 3)));
		break;
	case NM_ATTN:
		if (ordinal % 2 == 0) json_object_set_new(b, "sliding_window", json_integer(16));
		break;
	case NM_MLP:
		if (json_is_integer(json_object_get(c, "intermediate_size")))
			json_object_set_new(b, "intermediate_size", json_integer(get(c, "intermediate_size", 96) + 16 * (ordinal % 2)));
		break;
	default:
		if (ordinal % 2) json_object_set_new(b, "ssm_state_size", json_integer(get(c, "ssm_state_size", 16) * 2));
	}
	return b;
}

static json_t *puzzle_blocks(const json_t *c, const char *pattern)
{
	int ordinal[128] = {0};
	json_t *blocks = json_array();
	for (const char *p = pattern; *p != '\0'; p++) json_array_append_new(blocks, puzzle_block(c, *p, ordinal[(unsigned char)*p & 127]++));
	return blocks;
}

static void set_puzzle(json_t *c, const char *pattern)
{
	json_object_set_new(c, "architectures", json_pack("[s]", "NemotronHPuzzleForCausalLM"));
	json_object_set_new(c, "model_type", json_string("nemotron_h_puzzle"));
	json_object_set_new(c, "block_configs", puzzle_blocks(c, pattern));
	json_object_set_new(c, "mtp_block_configs", puzzle_blocks(c, "*E"));
}

/* The pattern's letters have had their say once they are applied (take_pattern): the list form may have replaced them. */
static nh_status set_key(json_t *c, const char *assignment, bool take_pattern, nh_error *e)
{
	const char *equals = strchr(assignment, '=');
	if (equals == NULL || equals == assignment) return ERR(e, NH_ERR_ARG, "config %.80s: expected KEY=VALUE", assignment);
	char *key = mem_strndup(assignment, (size_t)(equals - assignment));
	if (key == NULL) return ERR_NOMEM(e);
	json_t *v = NULL;
	if (equals[1] == '\0' || jsn_load_text(&v, equals + 1, strlen(equals + 1), key, NULL) != NH_OK) v = json_string(equals + 1);
	nh_status s = v != NULL ? NH_OK : ERR(e, NH_ERR_ARG, "config %.80s: the value is not UTF-8", assignment);
	bool letters = strcmp(key, "hybrid_override_pattern") == 0 && json_is_string(v);
	if (s == NH_OK && letters && take_pattern) s = set_pattern(c, json_string_value(v), e);
	if (s == NH_OK && !letters && json_object_set(c, key, v) != 0) s = ERR(e, NH_ERR_ARG, "config %.80s: the key is not UTF-8", assignment);
	json_decref(v);
	mem_free(key);
	return s;
}

/* What the options add, from the numbers that are there now. */
static void derive(json_t *c, const mk_options *o, const char *pattern)
{
	if (o->latent) json_object_set_new(c, "moe_latent_size", json_integer(get(c, "hidden_size", 64) / 2));
	if (o->mtp) json_object_set_new(c, "num_nextn_predict_layers", json_integer(1));
	bool named = json_object_get(c, "mtp_layers_block_type") != NULL || json_object_get(c, "mtp_hybrid_override_pattern") != NULL;
	if (get(c, "num_nextn_predict_layers", 0) > 0 && !named) {
		if (o->list_form) json_object_set_new(c, "mtp_layers_block_type", json_pack("[s,s]", "attention", "moe"));
		else json_object_set_new(c, "mtp_hybrid_override_pattern", json_string("*E"));
	}
	if (o->puzzle) set_puzzle(c, pattern);
	if (o->list_form && pattern[0] != '\0') set_list_form(c, pattern);
}

static nh_status apply(json_t *c, const mk_options *o, nh_error *e)
{
	json_object_del(c, "quantization_config"); /* mk_quant says what is written here */
	if (o->pattern != NULL) TRY(set_pattern(c, o->pattern, e));
	for (size_t i = 0; i < o->config_count; i++) TRY(set_key(c, o->config[i], true, e));
	char *pattern = mem_alloc(NM_MAX_LAYERS + 1);
	if (pattern == NULL) return ERR_NOMEM(e);
	pattern_of(c, pattern);
	derive(c, o, pattern);
	mem_free(pattern);
	/* Once more, so that a key wins over what was derived. */
	for (size_t i = 0; i < o->config_count; i++) TRY(set_key(c, o->config[i], false, e));
	return NH_OK;
}

nh_status mk_config(json_t **out, const mk_options *o, nh_error *e)
{
	json_t *c = NULL;
	*out = NULL;
	if (o->like != NULL) TRY(preset_config(&c, o->like, o->layers, e));
	else if (o->from != NULL) TRY(jsn_load_path(&c, o->from, JSON_LIMIT_CONFIG, e));
	else TRY(jsn_load_text(&c, small_config, sizeof small_config - 1, "small config", e));
	nh_status s = json_is_object(c) ? apply(c, o, e) : ERR(e, NH_ERR_CONFIG, "%s: not a JSON object", o->from);
	if (s == NH_OK) *out = c;
	else json_decref(c);
	return s;
}
