/* SPDX-License-Identifier: Apache-2.0
 * preset.c: the table, and the documents made from a line of it. Rules of quantisation are written as a checkpoint's own document
 * spells them, because they are read back by the same reader.
 */
#include "fmt/preset.h"

#include <stdio.h>
#include <string.h>

#include "base/base_buf.h"
#include "base/base_mem.h"

#define MOST_LAYERS 128

typedef struct preset {
	const char *name, *format, *pattern;
	int hidden, heads, mamba_heads, experts, chosen, width, shared, latent; /* latent 0: experts at full width */
	double factor;
	int context; /* tokens */
} preset;

#define NANO "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"
#define SUPER3 "MEMEMEM*EMEMEMEM*EMEMEMEM*E"
#define SUPER4 "MEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*E"
#define ULTRA1 "M*EMEMEM*EMEMEMEM*EMEMEME"

static const preset PRESETS[] = {
    {"lightning-30b", "mixed", NANO, 2688, 32, 64, 128, 6, 1856, 3712, 0, 2.5, 1048576},
    {"nano-30b", "bf16", NANO, 2688, 32, 64, 128, 6, 1856, 3712, 0, 2.5, 262144},
    {"super-120b", "super", SUPER3 SUPER4 "MEMEMEM*EMEMEMEME", 4096, 32, 128, 512, 22, 2688, 5376, 1024, 5.0, 262144},
    {"ultra-550b", "super", "MEMEME" ULTRA1 ULTRA1 ULTRA1 ULTRA1 "ME", 8192, 64, 256, 512, 22, 5120, 10240, 2048, 5.0, 1048576},
};

/* Which algorithm each part has; NULL: plain. `one`: the document names one algorithm for all and what is excluded. */
static const struct {
	const char *name, *one, *mamba, *experts, *shared, *head;
} FORMATS[] = {
    {"bf16", NULL, NULL, NULL, NULL, NULL},
    {"fp8", "FP8", NULL, NULL, NULL, NULL},
    {"nvfp4", "NVFP4", NULL, NULL, NULL, NULL},
    {"w4a16", "W4A16_NVFP4", NULL, NULL, NULL, NULL},
    {"mixed", NULL, "FP8", "W4A16_NVFP4", "W4A16_NVFP4", "W4A16_NVFP4"},
    {"super", NULL, "FP8", "NVFP4", "FP8", NULL},
};

const char *preset_at(int i) { return i >= 0 && (size_t)i < ARRAY_LEN(PRESETS) ? PRESETS[i].name : NULL; }

/* The lines of NAME and FORMAT; either is -1 where it is not known. */
static void find(const char *wanted, int *line, int *format)
{
	const char *colon = strchr(wanted, ':');
	size_t n = colon ? (size_t)(colon - wanted) : strlen(wanted);
	*line = *format = -1;
	for (size_t i = 0; i < ARRAY_LEN(PRESETS); i++)
		if (strlen(PRESETS[i].name) == n && strncmp(PRESETS[i].name, wanted, n) == 0) *line = (int)i;
	if (*line < 0) return;
	const char *word = colon ? colon + 1 : PRESETS[*line].format;
	for (size_t i = 0; i < ARRAY_LEN(FORMATS); i++)
		if (strcmp(FORMATS[i].name, word) == 0) *format = (int)i;
}

const char *preset_format(const char *wanted)
{
	int line, format;
	find(wanted, &line, &format);
	return format < 0 ? NULL : FORMATS[format].name;
}

static int count(const char *pattern, char kind)
{
	int n = 0;
	for (; *pattern; pattern++) n += *pattern == kind;
	return n;
}

static void cut_pattern(char out[MOST_LAYERS + 1], const char *whole, int layers)
{
	size_t n = strlen(whole);
	if (layers > 0 && (size_t)layers < n) n = (size_t)layers;
	memcpy(out, whole, n);
	out[n] = 0;
	for (const char *kind = "M*E"; *kind; kind++) {
		if (!count(whole, *kind) || count(out, *kind)) continue;
		for (size_t i = n; i-- > 0;)
			if (count(out, out[i]) > 1) {
				out[i] = *kind;
				break;
			}
	}
}

static void name_add(json_t *list, const char *format, int layer)
{
	char name[96];
	snprintf(name, sizeof name, format, layer);
	json_array_append_new(list, json_string(name));
}

static void layer_add(json_t *layers, const char *format, int layer, const char *algorithm)
{
	char name[96];
	if (!algorithm) return;
	snprintf(name, sizeof name, format, layer);
	json_t *v = json_pack("{s:s}", "quant_algo", algorithm);
	if (strcmp(algorithm, "FP8") != 0) json_object_set_new(v, "group_size", json_integer(16));
	json_object_set_new(layers, name, v);
}

/* What a document with one algorithm leaves alone: attention, the head, latent projections, and (Nano) the Mamba layer in front of attention. */
static json_t *exclusions(const preset *p, const char *pattern)
{
	json_t *list = json_pack("[s,s]", "lm_head", "mtp*");
	for (int i = 0; pattern[i]; i++) {
		bool before = pattern[i] == 'M' && pattern[i + 1] == '*' && !p->latent;
		if (before || pattern[i] == '*') name_add(list, "backbone.layers.%d.mixer*", i);
		if (pattern[i] == 'E' && p->latent) name_add(list, "backbone.layers.%d.mixer.fc1_latent_proj", i);
		if (pattern[i] == 'E' && p->latent) name_add(list, "backbone.layers.%d.mixer.fc2_latent_proj", i);
	}
	return list;
}

static json_t *quantisation(const preset *p, const char *pattern, int format)
{
	json_t *q =
	    json_pack("{s:s,s:{s:s,s:i,s:b}}", "quant_method", "modelopt", "kv_cache_scheme", "type", "float", "num_bits", 8, "dynamic", 0);
	if (FORMATS[format].one) {
		json_object_set_new(q, "quant_algo", json_string(FORMATS[format].one));
		json_object_set_new(q, "ignore", exclusions(p, pattern));
		return q;
	}
	json_t *layers = json_object();
	for (int i = 0; pattern[i]; i++) {
		if (pattern[i] == 'M') {
			layer_add(layers, "backbone.layers.%d.mixer.in_proj", i, FORMATS[format].mamba);
			layer_add(layers, "backbone.layers.%d.mixer.out_proj", i, FORMATS[format].mamba);
		} else if (pattern[i] == 'E') {
			layer_add(layers, "backbone.layers.%d.mixer.experts", i, FORMATS[format].experts);
			layer_add(layers, "backbone.layers.%d.mixer.shared_experts.up_proj", i, FORMATS[format].shared);
			layer_add(layers, "backbone.layers.%d.mixer.shared_experts.down_proj", i, FORMATS[format].shared);
		}
	}
	layer_add(layers, "lm_head", 0, FORMATS[format].head);
	json_object_set_new(q, "quant_algo", json_string("MIXED_PRECISION"));
	json_object_set_new(q, "quantized_layers", layers);
	return q;
}

static json_t *document(const preset *p, const char *pattern)
{
	json_t *c = json_pack("{s:[s],s:s,s:s,s:s,s:i,s:i,s:i}", "architectures", "NemotronHForCausalLM", "model_type", "nemotron_h",
	    "torch_dtype", "bfloat16", "hybrid_override_pattern", pattern, "num_hidden_layers", (int)strlen(pattern), "vocab_size", 131072,
	    "hidden_size", p->hidden);
	json_t *attention = json_pack("{s:i,s:i,s:i,s:b,s:n}", "num_attention_heads", p->heads, "num_key_value_heads", 2, "head_dim", 128,
	    "attention_bias", 0, "sliding_window");
	json_t *mamba = json_pack("{s:i,s:i,s:i,s:i,s:i,s:i,s:b,s:b,s:b,s:s,s:s}", "mamba_num_heads", p->mamba_heads, "mamba_head_dim", 64,
	    "ssm_state_size", 128, "n_groups", 8, "conv_kernel", 4, "chunk_size", 128, "use_conv_bias", 1, "use_bias", 0, "mamba_proj_bias", 0,
	    "mamba_hidden_act", "silu", "mamba_ssm_cache_dtype", "float32");
	json_t *moe = json_pack("{s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:b,s:f,s:s,s:b}", "n_routed_experts", p->experts, "num_experts_per_tok",
	    p->chosen, "moe_intermediate_size", p->width, "intermediate_size", p->width, "n_shared_experts", 1,
	    "moe_shared_expert_intermediate_size", p->shared, "n_group", 1, "topk_group", 1, "norm_topk_prob", 1, "routed_scaling_factor",
	    p->factor, "mlp_hidden_act", "relu2", "mlp_bias", 0);
	json_t *rest = json_pack("{s:f,s:b,s:b,s:i,s:i,s:i,s:i,s:i}", "layer_norm_epsilon", 1e-5, "residual_in_fp32", 0, "tie_word_embeddings",
	    0, "max_position_embeddings", p->context, "bos_token_id", 1, "eos_token_id", 2, "pad_token_id", 0, "num_nextn_predict_layers", 0);
	bool ok = json_object_update(c, attention) == 0 && json_object_update(c, mamba) == 0 && json_object_update(c, moe) == 0 &&
	          json_object_update(c, rest) == 0;
	if (ok && p->latent) json_object_set_new(c, "moe_latent_size", json_integer(p->latent));
	json_decref(attention);
	json_decref(mamba);
	json_decref(moe);
	json_decref(rest);
	if (ok) return c;
	json_decref(c);
	return NULL;
}

nh_status preset_config(json_t **out, const char *wanted, int layers, nh_error *e)
{
	int line, format;
	char pattern[MOST_LAYERS + 1];
	*out = NULL;
	find(wanted, &line, &format);
	if (line < 0 || format < 0) {
		buf list = {0};
		for (size_t i = 0; line < 0 && i < ARRAY_LEN(PRESETS); i++) buf_printf(&list, "%s%s", i ? ", " : "", PRESETS[i].name);
		for (size_t i = 0; line >= 0 && i < ARRAY_LEN(FORMATS); i++) buf_printf(&list, "%s%s", i ? ", " : "", FORMATS[i].name);
		nh_status s = ERR(e, NH_ERR_ARG, "like: is %.60s, expected %s one of: %s", wanted, line < 0 ? "a name that is" : "a format that is",
		    list.data ? list.data : "");
		buf_deinit(&list);
		return s;
	}
	const preset *p = &PRESETS[line];
	if (layers < 0 || (size_t)layers > strlen(p->pattern))
		return ERR(e, NH_ERR_ARG, "layers: is %d, %s has %zu", layers, p->name, strlen(p->pattern));
	cut_pattern(pattern, p->pattern, layers);
	json_t *c = document(p, pattern), *q = strcmp(FORMATS[format].name, "bf16") != 0 ? quantisation(p, pattern, format) : NULL;
	if (c && q) json_object_set(c, "quantization_config", q);
	json_decref(q);
	if (!c) return ERR_NOMEM(e);
	*out = c;
	return NH_OK;
}
