/* SPDX-License-Identifier: Apache-2.0
 * nm_model.h: the weights of a Nemotron-H model in the shape that the forward pass reads, one struct a layer kind. Internal to the folder,
 * but for nm_family. All tensors and weights are borrowed from the loader that filled them.
 */
#ifndef MODEL_NEMOTRON_H_NM_MODEL_H
#define MODEL_NEMOTRON_H_NM_MODEL_H

#include "model/model.h"
#include "model/nemotron_h/nm_config.h"

typedef struct nm_mamba {
	int64_t heads, head_dim, groups, state, taps;
	weight in, out;           /* [2I + 2GN + H, D]: z, x, B, C, dt; [D, I]; I = heads * head_dim */
	tensor in_bias, out_bias; /* absent unless use_bias */
	tensor conv_w, conv_b;    /* [C, K], [C] or absent; C = I + 2GN */
	tensor a, d, dt_bias;     /* [H] */
	tensor norm;              /* [I] */
} nm_mamba;

typedef struct nm_attn {
	int64_t heads, kv_heads, head_dim, window;
	weight q, k, v, o;
} nm_attn;

typedef struct nm_mlp {
	weight up, down;
	tensor up_bias, down_bias; /* absent unless mlp_bias */
} nm_mlp;

typedef struct nm_moe {
	int64_t chosen, n_group, topk_group;
	bool norm_topk, has_shared, has_latent;
	double factor;
	weight gate; /* [E, D] */
	tensor bias; /* [E] */
	weight_experts experts;
	nm_mlp shared;
	weight fc1, fc2; /* [latent, D], [D, latent] */
	tensor fc1_bias, fc2_bias;
} nm_moe;

typedef struct nm_block {
	char kind; /* NM_MAMBA ... */
	int state; /* ordinal among the layers of its kind that carry state */
	tensor norm;
	union {
		nm_mamba mamba;
		nm_attn attn;
		nm_mlp mlp;
		nm_moe moe;
	};
} nm_block;

typedef struct nm_model {
	model base;
	nm_config config;                /* own */
	nm_block *layers;                /* own [layers] */
	model_mamba_shape *mamba_shapes; /* own */
	model_kv_shape *kv_shapes;       /* own */
	weight *expert_weights;          /* own; all experts of all layers */
	tensor embedding, norm_f;
	weight head;
	double eps;
} nm_model;

/* What one mixer needs: rows in, rows out, and where the step's state lies. */
typedef struct nm_step {
	exec *x;
	const step_batch *b;
	const model_state *state;
	const model_tap *tap;
	double eps;
	int chunk;
} nm_step;

nh_status nm_bind(nm_model *m, loader *l, nh_error *e);
void nm_tap(const nm_step *s, const char *what, const tensor *t); /* "layer.<n>.<what>", or `what` outside layers */

/* h = mixer(y). */
void nm_mamba_forward(const nm_step *s, const nm_block *l, const tensor *y, const tensor *h);
void nm_attn_forward(const nm_step *s, const nm_block *l, const tensor *y, const tensor *h);
void nm_mlp_forward(const nm_step *s, const nm_mlp *l, const tensor *y, const tensor *h);
void nm_moe_forward(const nm_step *s, const nm_block *l, const tensor *y, const tensor *h);

extern const model_family nm_family;

#endif
