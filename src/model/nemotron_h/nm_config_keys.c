/* SPDX-License-Identifier: Apache-2.0
 * nm_config_keys.c: what each key of a config.json means to us: read, harmless, or allowed only with the value that switches it off.
 * A key in none of the lists is reported once; it is not refused, because files carry much that only a trainer reads.
 */
#include <stdio.h>
#include <string.h>

#include "base/base_buf.h"
#include "base/base_json.h"
#include "base/base_mem.h"
#include "model/nemotron_h/nm_config.h"

/* Read by nm_config.c, config.c or quant.c. */
static const char *const READ[] = {"architectures", "model_type", "vocab_size", "hidden_size", "num_hidden_layers",
    "hybrid_override_pattern", "layers_block_type", "layer_types", "intermediate_size", "num_attention_heads", "num_key_value_heads",
    "head_dim", "attention_head_dim", "mlp_bias", "use_bias", "mamba_num_heads", "mamba_head_dim", "n_groups", "mamba_n_groups",
    "ssm_state_size", "conv_kernel", "mamba_d_conv", "use_conv_bias", "mamba_conv_bias", "chunk_size", "mamba_chunk_size",
    "layer_norm_epsilon", "max_position_embeddings", "tie_word_embeddings", "n_routed_experts", "num_local_experts", "num_experts_per_tok",
    "n_shared_experts", "moe_intermediate_size", "moe_shared_expert_intermediate_size", "moe_latent_size", "n_group", "topk_group",
    "norm_topk_prob", "routed_scaling_factor", "mamba_ssm_cache_dtype", "num_nextn_predict_layers", "mtp_hybrid_override_pattern",
    "mtp_layers_block_type", "mtp_block_configs", "mtp_n_routed_experts", "block_configs", "torch_dtype", "dtype", "time_step_min",
    "time_step_max", "time_step_floor", "time_step_limit", "mamba_dt_min", "mamba_dt_max", "mamba_dt_limit", "mamba_dt_init_floor",
    "residual_in_fp32", "expand", "mamba_expand", "quantization_config", "eos_token_id", "bos_token_id", "pad_token_id", "sliding_window",
    "mamba_proj_bias", "rope_parameters"};

/* Training, bookkeeping, or unused by every implementation of this family. */
static const char *const HARMLESS[] = {"_name_or_path", "transformers_version", "auto_map", "attention_dropout", "hidden_dropout",
    "initializer_range", "norm_eps", "rms_norm_eps", "num_logits_to_keep", "use_cache", "use_mamba_kernels", "rescale_prenorm_residual",
    "rope_theta", "partial_rotary_factor", "rms_norm", "moe_shared_expert_overlap", "blockwise_members", "return_dict",
    "return_dict_in_generate", "output_hidden_states", "output_attentions", "output_router_logits", "output_scores", "tokenizer_class",
    "_attn_implementation", "attn_implementation", "_attn_implementation_autoset", "_attn_implementation_internal", "id2label", "label2id",
    "num_labels", "problem_type", "use_bfloat16", "torchscript", "router_aux_loss_coef", "router_jitter_noise", "finetuning_task",
    "task_specific_params", "tf_legacy_loss", "is_decoder", "sep_token_id", "decoder_start_token_id", "prefix", "max_length", "min_length",
    "do_sample", "temperature", "top_k", "top_p", "typical_p", "repetition_penalty", "length_penalty", "diversity_penalty", "num_beams",
    "num_beam_groups", "num_return_sequences", "early_stopping", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "bad_words_ids",
    "begin_suppress_tokens", "suppress_tokens", "forced_bos_token_id", "forced_eos_token_id", "remove_invalid_values",
    "exponential_decay_length_penalty", "cross_attention_hidden_size", "pruned_heads", "_commit_hash", "seq_length",
    "fp32_residual_connection"};

/* Must be absent, null, false, 0, "" or empty. */
static const char *const OFF[] = {"attention_bias", "rope_scaling", "lm_head_bias", "attention_out_bias", "qkv_bias", "add_cross_attention",
    "is_encoder_decoder", "chunk_size_feed_forward", "use_qk_norm", "qk_norm", "qk_layernorm", "use_qk_layernorm", "attn_logit_softcapping",
    "final_logit_softcapping", "logits_soft_cap", "attention_softcap", "attn_output_gate", "attention_sinks", "use_attention_sinks",
    "use_sliding_window", "attention_chunk_size", "compression_config", "quantization", "norm_before_gate", "mamba_norm_before_gate",
    "gated_mlp", "mlp_gated", "moe_gated", "first_k_dense_replace", "attention_multiplier", "layer_norm_bias", "norm_bias", "use_rope",
    "use_rotary", "moe_apply_router_weight_on_input", "router_bias", "moe_router_bias", "cross_layer_kv_sharing", "num_kv_shared_layers"};

/* Must be absent, null or 1. */
static const char *const ONE[] = {"embedding_multiplier", "residual_multiplier", "logits_scaling", "logit_scale", "lm_head_multiplier",
    "embedding_scale", "moe_layer_freq", "pretraining_tp", "ssm_in_multiplier", "ssm_out_multiplier"};

/* Must be absent, null or one of the words. */
static const struct {
	const char *key, *words[3];
} WORDS[] = {
    {"mamba_hidden_act", {"silu", "swish", NULL}},
    {"mlp_hidden_act", {"relu2", NULL, NULL}},
    {"hidden_act", {"relu2", NULL, NULL}},
    {"hidden_activation", {"relu2", NULL, NULL}},
    {"moe_hidden_act", {"relu2", NULL, NULL}},
    {"scoring_func", {"sigmoid", NULL, NULL}},
    {"moe_router_score_function", {"sigmoid", NULL, NULL}},
    {"router_activation", {"sigmoid", NULL, NULL}},
    {"topk_method", {"noaux_tc", NULL, NULL}},
    {"position_embedding_type", {"none", "nope", NULL}},
    {"normalization", {"RMSNorm", "rmsnorm", NULL}},
};

static bool in_list(const char *s, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(s, list[i]) == 0) return true;
	return false;
}

static bool is_off(const json_t *v)
{
	if (!v || json_is_null(v) || json_is_false(v)) return true;
	if (json_is_number(v)) return json_number_value(v) == 0;
	if (json_is_string(v)) return json_string_length(v) == 0;
	return json_is_object(v) ? json_object_size(v) == 0 : json_is_array(v) && json_array_size(v) == 0;
}

static nh_status refuse(const char *name, const char *key, const json_t *v, const char *expected, nh_error *e)
{
	char found[64];
	jsn_brief(v, found);
	return ERR(e, NH_ERR_UNSUPPORTED, "%s: %s: is %s, expected %s", name, key, found, expected);
}

static nh_status check_word(const char *name, size_t row, const json_t *v, nh_error *e)
{
	const char *s = json_string_value(v);
	char expected[80];
	if (json_is_null(v)) return NH_OK;
	for (size_t i = 0; s && WORDS[row].words[i]; i++)
		if (strcmp(s, WORDS[row].words[i]) == 0) return NH_OK;
	snprintf(expected, sizeof expected, "\"%s\"", WORDS[row].words[0]);
	return refuse(name, WORDS[row].key, v, expected, e);
}

/* No layer of this family rotates, so the default kind of rotation is a leftover; a scaled one says that somebody meant it. */
static nh_status check_rope(const char *name, const json_t *v, nh_error *e)
{
	const char *type = json_string_value(json_object_get(v, "rope_type"));
	if (!v || json_is_null(v) || (json_is_object(v) && (!type || strcmp(type, "default") == 0))) return NH_OK;
	return refuse(name, "rope_parameters", v, "null or rope_type default", e);
}

static nh_status check_one(const char *name, const char *key, const json_t *v, bool *known, nh_error *e)
{
	*known = true;
	if (in_list(key, READ, ARRAY_LEN(READ)) || in_list(key, HARMLESS, ARRAY_LEN(HARMLESS))) return NH_OK;
	if (in_list(key, OFF, ARRAY_LEN(OFF)) || strncmp(key, "q_indexer_", 10) == 0)
		return is_off(v) ? NH_OK : refuse(name, key, v, "null, false or 0 (not implemented)", e);
	if (in_list(key, ONE, ARRAY_LEN(ONE)))
		return json_is_null(v) || (json_is_number(v) && json_number_value(v) == 1) ? NH_OK : refuse(name, key, v, "1 (not implemented)", e);
	for (size_t i = 0; i < ARRAY_LEN(WORDS); i++)
		if (strcmp(key, WORDS[i].key) == 0) return check_word(name, i, v, e);
	*known = false;
	return NH_OK;
}

nh_status nm_config_check_keys(const json_t *config, const char *name, bool puzzle, const logger *log, nh_error *e)
{
	const char *key;
	json_t *v;
	buf unknown = {0};
	size_t count = 0;
	nh_status s = NH_OK;
	json_object_foreach((json_t *)(uintptr_t)config, key, v)
	{
		bool known;
		s = check_one(name, key, v, &known, e);
		if (s != NH_OK) break;
		if (!known && count++ < 20) buf_printf(&unknown, "%s%.60s", count > 1 ? ", " : "", key);
	}
	const json_t *window = json_object_get(config, "sliding_window"), *bias = json_object_get(config, "mamba_proj_bias");
	if (s == NH_OK) s = check_rope(name, json_object_get(config, "rope_parameters"), e);
	if (s == NH_OK && !puzzle && !is_off(window)) s = refuse(name, "sliding_window", window, "null (only block_configs have windows)", e);
	if (s == NH_OK && json_is_true(bias) && !json_is_true(json_object_get(config, "use_bias")))
		s = refuse(name, "mamba_proj_bias", bias, "false, as use_bias is not true", e);
	if (s == NH_OK && count && !unknown.failed)
		log_line(log, NH_LOG_NOTICE, "%s: %zu keys are not known and not used: %s%s", name, count, unknown.data, count > 20 ? ", ..." : "");
	buf_deinit(&unknown);
	return s;
}
