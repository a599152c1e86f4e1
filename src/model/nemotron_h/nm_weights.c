/* SPDX-License-Identifier: Apache-2.0
 * nm_weights.c: which tensor of the files is which field, with its shape (model.md 2.1, 2.2). One function a layer kind, one line a tensor; the
 * loader's ledger notices what is missing, wrong or left over. Tensors of the MTP block are accounted for and not used.
 */
#include <stdio.h>
#include <string.h>

#include "base/base_mem.h"
#include "model/nemotron_h/nm_model.h"

typedef struct binder {
	loader *l;
	nh_error *e;
	const nm_config *c;
	const char *root; /* "backbone", "model" or "model.backbone" */
	char prefix[96];  /* of the layer being bound, with its trailing dot */
	bool skip;        /* account only (MTP) */
} binder;

typedef struct full_name {
	char text[256];
} full_name;

static full_name name_of(const binder *b, const char *rest)
{
	full_name n;
	snprintf(n.text, sizeof n.text, "%s%s", b->prefix, rest);
	return n;
}

static nh_status matrix(binder *b, const char *rest, int64_t n, int64_t k, weight *out)
{
	full_name name = name_of(b, rest);
	return b->skip ? load_skip_weight(b->l, name.text, n, k, b->e) : load_weight(b->l, name.text, n, k, out, b->e);
}

static nh_status param(binder *b, const char *rest, load_kind kind, int rank, const int64_t *shape, tensor *out)
{
	full_name name = name_of(b, rest);
	return b->skip ? load_skip_param(b->l, name.text, rank, shape, b->e) : load_param(b->l, name.text, kind, rank, shape, out, b->e);
}

static nh_status vector(binder *b, const char *rest, load_kind kind, int64_t n, tensor *out) { return param(b, rest, kind, 1, &n, out); }

static nh_status bias(binder *b, bool wanted, const char *rest, int64_t n, tensor *out)
{
	return wanted ? vector(b, rest, LOAD_MODEL, n, out) : NH_OK;
}

static nh_status bind_mamba(binder *b, const nm_layer_config *lc, nm_mamba *m)
{
	const nm_mamba_dims *d = &lc->mamba;
	const int64_t conv[3] = {d->channels, 1, d->taps}, D = b->c->hidden;
	*m = (nm_mamba){.heads = d->heads, .head_dim = d->head_dim, .groups = d->groups, .state = d->state, .taps = d->taps};
	TRY(matrix(b, "mixer.in_proj", d->proj, D, &m->in));
	TRY(bias(b, b->c->proj_bias, "mixer.in_proj.bias", d->proj, &m->in_bias));
	TRY(param(b, "mixer.conv1d.weight", LOAD_MODEL, 3, conv, &m->conv_w));
	TRY(bias(b, b->c->conv_bias, "mixer.conv1d.bias", d->channels, &m->conv_b));
	TRY(vector(b, "mixer.A_log", LOAD_NEG_EXP, d->heads, &m->a));
	TRY(vector(b, "mixer.D", LOAD_MODEL, d->heads, &m->d));
	TRY(vector(b, "mixer.dt_bias", LOAD_MODEL, d->heads, &m->dt_bias));
	TRY(vector(b, "mixer.norm.weight", LOAD_MODEL, d->inner, &m->norm));
	TRY(matrix(b, "mixer.out_proj", D, d->inner, &m->out));
	return bias(b, b->c->proj_bias, "mixer.out_proj.bias", D, &m->out_bias);
}

/* Scales of FP8 pages. Without FP8 pages the reference engine forces them to 1 (model.md 5.1), so a file's own are told and not used. */
static nh_status bind_kv_scale(binder *b, const char *rest, bool fp8_kv, float *out, bool *missing)
{
	full_name name = name_of(b, rest);
	bool found;
	if (!fp8_kv || b->skip)
		return load_ignore(b->l, name.text, b->skip ? "the MTP block is not used" : "the configuration has no FP8 KV cache", b->e);
	TRY(load_kv_scale(b->l, name.text, 1.0f, out, &found, b->e));
	*missing |= !found;
	return NH_OK;
}

static nh_status bind_attn(binder *b, const nm_layer_config *lc, nm_attn *a, model_kv_shape *kv, bool fp8_kv, bool *missing)
{
	const nm_attn_dims *d = &lc->attn;
	int64_t D = b->c->hidden, q = d->heads * d->head_dim, k = d->kv_heads * d->head_dim;
	*a = (nm_attn){.heads = d->heads, .kv_heads = d->kv_heads, .head_dim = d->head_dim, .window = d->window};
	TRY(matrix(b, "mixer.q_proj", q, D, &a->q));
	TRY(matrix(b, "mixer.k_proj", k, D, &a->k));
	TRY(matrix(b, "mixer.v_proj", k, D, &a->v));
	TRY(matrix(b, "mixer.o_proj", D, q, &a->o));
	TRY(bind_kv_scale(b, "mixer.k_proj.k_scale", fp8_kv, &kv->k_scale, missing));
	return bind_kv_scale(b, "mixer.v_proj.v_scale", fp8_kv, &kv->v_scale, missing);
}

static nh_status bind_mlp(binder *b, const char *at, int64_t width, nm_mlp *m)
{
	int64_t D = b->c->hidden;
	full_name up, down;
	snprintf(up.text, sizeof up.text, "mixer.%sup_proj", at);
	snprintf(down.text, sizeof down.text, "mixer.%sdown_proj", at);
	TRY(matrix(b, up.text, width, D, &m->up));
	TRY(matrix(b, down.text, D, width, &m->down));
	if (!b->c->mlp_bias) return NH_OK;
	snprintf(up.text, sizeof up.text, "mixer.%sup_proj.bias", at);
	snprintf(down.text, sizeof down.text, "mixer.%sdown_proj.bias", at);
	TRY(vector(b, up.text, LOAD_MODEL, width, &m->up_bias));
	return vector(b, down.text, LOAD_MODEL, D, &m->down_bias);
}

static nh_status bind_experts(binder *b, const nm_moe_dims *d, weight_experts *x)
{
	for (int64_t i = 0; i < d->experts; i++) {
		full_name n;
		snprintf(n.text, sizeof n.text, "mixer.experts.%lld.up_proj", (long long)i);
		TRY(matrix(b, n.text, d->width, d->in_width, b->skip ? NULL : &x->up[i]));
		snprintf(n.text, sizeof n.text, "mixer.experts.%lld.down_proj", (long long)i);
		TRY(matrix(b, n.text, d->in_width, d->width, b->skip ? NULL : &x->down[i]));
		if (b->skip) continue;
		if (x->up[i].input_scale > x->up_input) x->up_input = x->up[i].input_scale;
		if (x->down[i].input_scale > x->down_input) x->down_input = x->down[i].input_scale;
		if (x->up[i].scheme != x->up[0].scheme || x->down[i].scheme != x->up[0].scheme)
			return ERR(b->e, NH_ERR_UNSUPPORTED,
			    "%s: %smixer.experts.%lld: is %s, expert 0 is %s: the experts of one layer must share a format", loader_files(b->l),
			    b->prefix, (long long)i, num_scheme_name(x->up[i].scheme), num_scheme_name(x->up[0].scheme));
	}
	return NH_OK;
}

static nh_status bind_moe(binder *b, const nm_layer_config *lc, nm_moe *m, weight **pool)
{
	const nm_moe_dims *d = &lc->moe;
	int64_t D = b->c->hidden;
	*m = (nm_moe){.chosen = d->chosen,
	    .n_group = d->n_group,
	    .topk_group = d->topk_group,
	    .norm_topk = d->norm_topk,
	    .has_shared = d->shared > 0,
	    .has_latent = d->latent > 0,
	    .factor = d->factor};
	m->experts = (weight_experts){.E = (int)d->experts};
	if (!b->skip) {
		m->experts.up = *pool;
		m->experts.down = *pool + d->experts;
	}
	if (!b->skip) *pool += 2 * d->experts;
	full_name gate = name_of(b, "mixer.gate"), gate_weight = name_of(b, "mixer.gate.weight");
	const int64_t gate_shape[2] = {d->experts, D};
	if (b->skip) TRY(load_skip_param(b->l, gate_weight.text, 2, gate_shape, b->e));
	else TRY(load_router(b->l, gate.text, d->experts, D, &m->gate, b->e));
	TRY(vector(b, "mixer.gate.e_score_correction_bias", LOAD_F32, d->experts, &m->bias));
	TRY(bind_experts(b, d, &m->experts));
	if (m->has_shared) TRY(bind_mlp(b, "shared_experts.", d->shared, &m->shared));
	if (!m->has_latent) return NH_OK;
	TRY(matrix(b, "mixer.fc1_latent_proj", d->latent, D, &m->fc1));
	TRY(matrix(b, "mixer.fc2_latent_proj", D, d->latent, &m->fc2));
	TRY(bias(b, b->c->mlp_bias, "mixer.fc1_latent_proj.bias", d->latent, &m->fc1_bias));
	return bias(b, b->c->mlp_bias, "mixer.fc2_latent_proj.bias", D, &m->fc2_bias);
}

static nh_status bind_layer(
    binder *b, const nm_layer_config *lc, nm_block *l, model_kv_shape *kv, bool fp8_kv, weight **pool, bool *missing)
{
	TRY(vector(b, "norm.weight", LOAD_MODEL, b->c->hidden, &l->norm));
	switch (lc->kind) {
	case NM_MAMBA: return bind_mamba(b, lc, &l->mamba);
	case NM_ATTN: return bind_attn(b, lc, &l->attn, kv, fp8_kv, missing);
	case NM_MLP: return bind_mlp(b, "", lc->mlp.width, &l->mlp);
	default: return bind_moe(b, lc, &l->moe, pool);
	}
}

/* The MTP block (model.md 2.2): two or more sub-layers a depth, flattened; its projections and extra norms sit at its ends. */
static nh_status account_mtp(binder *b)
{
	const nm_config *c = b->c;
	const int64_t D = c->hidden;
	b->skip = true;
	for (int depth = 0; depth < c->mtp_depth; depth++)
		for (int j = 0; j < c->mtp_inner; j++) {
			nm_block unused = {0};
			model_kv_shape kv;
			weight *none = NULL;
			bool missing = false;
			snprintf(b->prefix, sizeof b->prefix, "mtp.layers.%d.", depth * c->mtp_inner + j);
			if (j == 0) {
				TRY(matrix(b, "eh_proj", D, 2 * D, NULL));
				TRY(vector(b, "enorm.weight", LOAD_MODEL, D, NULL));
				TRY(vector(b, "hnorm.weight", LOAD_MODEL, D, NULL));
			}
			if (j == c->mtp_inner - 1) TRY(vector(b, "final_layernorm.weight", LOAD_MODEL, D, NULL));
			TRY(bind_layer(b, &c->mtp_layer[j], &unused, &kv, false, &none, &missing));
		}
	return NH_OK;
}

static const char *root_of(const loader *l)
{
	static const char *const ROOTS[] = {"backbone", "model", "model.backbone"};
	for (size_t i = 0; i < ARRAY_LEN(ROOTS); i++) {
		char name[64];
		snprintf(name, sizeof name, "%s.embeddings.weight", ROOTS[i]);
		if (load_has(l, name)) return ROOTS[i];
	}
	return ROOTS[0];
}

/* Where the configuration ties the head to the embedding it wins, as in the reference engine; a head of the file's own, in whatever format, is
 * told and not used. */
static nh_status bind_head(nm_model *m, binder *b)
{
	static const char *const OWN[] = {"lm_head.weight", "lm_head.weight_scale", "lm_head.weight_scale_2", "lm_head.input_scale"};
	const nm_config *c = b->c;
	b->prefix[0] = 0;
	if (!c->tied) return matrix(b, "lm_head", c->vocab, c->hidden, &m->head);
	for (size_t i = 0; i < ARRAY_LEN(OWN); i++) TRY(load_ignore(b->l, OWN[i], "tie_word_embeddings: the embedding is the head", b->e));
	return load_tied(b->l, "lm_head", &m->embedding, &m->head, b->e);
}

nh_status nm_bind(nm_model *m, loader *l, nh_error *e)
{
	const nm_config *c = &m->config;
	binder b = {.l = l, .e = e, .c = c, .root = root_of(l)};
	bool fp8_kv = loader_fp8_kv(l), missing = false;
	size_t experts = 0;
	for (int i = 0; i < c->layers; i++) experts += 2 * (size_t)c->layer[i].moe.experts;
	m->expert_weights = mem_array(experts, sizeof *m->expert_weights);
	if (!m->expert_weights) return ERR_NOMEM(e);
	weight *pool = m->expert_weights;

	full_name table;
	snprintf(table.text, sizeof table.text, "%s.embeddings.weight", b.root);
	TRY(load_table(l, table.text, c->vocab, c->hidden, &m->embedding, e));
	for (int i = 0; i < c->layers; i++) {
		nm_block *block = &m->layers[i];
		snprintf(b.prefix, sizeof b.prefix, "%s.layers.%d.", b.root, i);
		model_kv_shape *kv = c->layer[i].kind == NM_ATTN ? &m->kv_shapes[block->state] : NULL;
		TRY(bind_layer(&b, &c->layer[i], block, kv, fp8_kv, &pool, &missing));
	}
	if (missing)
		log_line(loader_log(l), NH_LOG_NOTICE,
		    "%s: FP8 KV cache without k_scale or v_scale in every attention layer: 1 is used where absent", loader_files(l));
	snprintf(b.prefix, sizeof b.prefix, "%s.", b.root);
	TRY(vector(&b, "norm_f.weight", LOAD_MODEL, c->hidden, &m->norm_f));
	TRY(bind_head(m, &b));
	m->base.shape.fp8_kv = fp8_kv;
	return account_mtp(&b);
}
