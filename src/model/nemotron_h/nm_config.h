/* SPDX-License-Identifier: Apache-2.0
 * nm_config.h: everything that the forward pass needs to know from config.json, layer by layer, for every generation of the family
 * (model.md 1 and 10). Owns names of keys, their defaults and their mutual checks; knows no tensor, format or arm.
 * Breaks first: a key that changes the mathematics and is not implemented must be refused by name.
 */
#ifndef NM_CONFIG_H
#define NM_CONFIG_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/base_log.h"
#include "base/base_status.h"
#include "model/nemotron_h/nm_pattern.h"
#include "num/num_types.h"

/* Dimensions are counts of elements; 64-bit, so that products of two of them cannot overflow (each is below 2^27). */
typedef struct nm_mamba_dims {
	int64_t heads, head_dim; /* Hm, P */
	int64_t state, groups;   /* N, G; head h reads group h / (Hm / G) */
	int64_t taps;            /* convolution kernel; the state keeps taps - 1 inputs */
	int64_t inner;           /* I = Hm * P */
	int64_t channels;        /* channels of the convolution: I + 2 * G * N (x, B, C) */
	int64_t proj;            /* rows of in_proj: I + channels + Hm (z, x, B, C, dt) */
} nm_mamba_dims;

typedef struct nm_attn_dims {
	int64_t heads, kv_heads, head_dim; /* query head h reads KV head h / (heads / kv_heads) */
	int64_t window;                    /* positions seen, the own one included; 0: all */
} nm_attn_dims;

typedef struct nm_mlp_dims {
	int64_t width; /* rows of up_proj */
} nm_mlp_dims;

typedef struct nm_moe_dims {
	int64_t experts, chosen;     /* E, K */
	int64_t width;               /* rows of an expert's up_proj */
	int64_t latent;              /* width that routed experts run at; 0: hidden */
	int64_t in_width;            /* latent or hidden */
	int64_t shared;              /* width of the shared expert, all n_shared_experts together; 0: none */
	int64_t n_group, topk_group; /* group-limited routing; 1 and 1: off */
	bool norm_topk;              /* divide the chosen weights by their sum + 1e-20 */
	double factor;               /* routed_scaling_factor, on the summed routed output */
} nm_moe_dims;

typedef struct nm_layer_config {
	char kind;           /* NM_MAMBA, NM_ATTN, NM_MLP or NM_MOE: the letter of the pattern */
	int index;           /* position in the model, or in the MTP block */
	int ordinal;         /* among the layers of its kind */
	nm_mamba_dims mamba; /* NM_MAMBA, else zero */
	nm_attn_dims attn;   /* NM_ATTN, else zero */
	nm_mlp_dims mlp;     /* NM_MLP, else zero */
	nm_moe_dims moe;     /* NM_MOE, else zero */
} nm_layer_config;

/* Read and kept for the record; the reference engine does not use them and neither do we (model.md 1.3). */
typedef struct nm_ignored {
	double time_step_min, time_step_max, time_step_floor, time_step_limit[2];
	bool residual_in_fp32;
	int64_t expand;
} nm_ignored;

typedef struct nm_config {
	int64_t vocab, hidden;
	int layers;
	nm_layer_config *layer;     /* own [layers] */
	char *pattern;              /* own: letters of the layers */
	int mtp_depth;              /* num_nextn_predict_layers; 0: no MTP */
	int mtp_inner;              /* sub-layers of one depth; 0 without MTP */
	nm_layer_config *mtp_layer; /* own, mtp_inner of them, the same at each depth; file index = depth * mtp_inner + i */
	bool puzzle;                /* block_configs gave dimensions per layer */
	bool tied;                  /* the head is the embedding */
	bool proj_bias;             /* use_bias: in_proj and out_proj of Mamba layers have a bias */
	bool conv_bias;             /* use_conv_bias */
	bool mlp_bias;              /* dense MLP, shared experts and latent projections have a bias */
	double eps;                 /* of every norm */
	int64_t chunk;              /* scan chunk, tokens: mamba_chunk_size, else chunk_size, else 2048 */
	int64_t max_positions;
	num_dtype dtype;         /* NUM_BF16: the model's arithmetic; the files may hold others */
	num_dtype ssm_dtype;     /* storage of the SSM state: NUM_F32 unless another was asked for; an arm refuses what it cannot do */
	char ssm_dtype_text[24]; /* what the file says; "" when unset */
	int64_t max_experts;     /* over all layers, MTP included; 0 without MoE */
	nm_ignored ignored;
} nm_config;

/* config: a whole config.json (config_load); name: what errors call it. log (may be NULL) gets notices: keys not known, defaults used,
 * contradictions that the reference class decides. NH_ERR_CONFIG for values, NH_ERR_UNSUPPORTED for mathematics not implemented, each with
 * file and key. out need not be initialised and owns nothing after a failure. The result
 * is immutable: any thread may read it. */
nh_status nm_config_read(nm_config *out, const json_t *config, const char *name, const logger *log, nh_error *e);
void nm_config_deinit(nm_config *c);                /* safe on a zeroed one, and after a failed read */
int nm_config_count(const nm_config *c, char kind); /* layers of a kind */

/* Bytes of one sequence's state in all layers of the model, MTP not counted: SSM = sum of Hm * P * N at ssm_dtype's size,
 * convolution = sum of (taps - 1) * (I + 2 * G * N) at 2 bytes. */
uint64_t nm_config_ssm_bytes(const nm_config *c);
uint64_t nm_config_conv_bytes(const nm_config *c);
uint64_t nm_config_state_bytes(const nm_config *c); /* both */

/* KV elements that one token adds: sum over attention layers of 2 * kv_heads * head_dim; the second for one MTP depth. */
uint64_t nm_config_kv_elements(const nm_config *c);
uint64_t nm_config_mtp_kv_elements(const nm_config *c);

/* nm_config_keys.c: refuses keys that change the mathematics, lists the unknown ones in one notice. */
nh_status nm_config_check_keys(const json_t *config, const char *name, bool puzzle, const logger *log, nh_error *e);

#endif
