/* SPDX-License-Identifier: Apache-2.0
 * mk_plan.c: every tensor of a checkpoint with its name, shape and scheme (model.md 2.1, 2.2, 2.4, 2.6), and the lists that its
 * quantisation documents carry. Knows no values. Breaks first: names and shapes are those of the published files.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/base_mem.h"
#include "base/base_rng.h"
#include "cmd/mkmodel/mk.h"

typedef enum role { ROLE_MAMBA, ROLE_ATTN, ROLE_MLP, ROLE_EXPERT, ROLE_SHARED, ROLE_LATENT, ROLE_HEAD, ROLE_COUNT } role;

#define FP8 NUM_SCHEME_FP8
#define W4A4 NUM_SCHEME_NVFP4
#define W4A16 NUM_SCHEME_W4A16

/* model.md 2.6; what is not named is not quantised. */
static const num_scheme schemes[MK_FORMAT_COUNT][ROLE_COUNT] = {
    [MK_FP8] = {[ROLE_MAMBA] = FP8, [ROLE_MLP] = FP8, [ROLE_EXPERT] = FP8, [ROLE_SHARED] = FP8},
    [MK_NVFP4] = {[ROLE_MAMBA] = W4A4, [ROLE_MLP] = W4A4, [ROLE_EXPERT] = W4A4, [ROLE_SHARED] = W4A4},
    [MK_W4A16] = {[ROLE_MAMBA] = W4A16, [ROLE_MLP] = W4A16, [ROLE_EXPERT] = W4A16, [ROLE_SHARED] = W4A16},
    [MK_MIXED] = {[ROLE_MAMBA] = FP8, [ROLE_MLP] = W4A16, [ROLE_EXPERT] = W4A16, [ROLE_SHARED] = W4A16, [ROLE_HEAD] = W4A16},
    [MK_SUPER] = {[ROLE_MAMBA] = FP8, [ROLE_MLP] = FP8, [ROLE_EXPERT] = W4A4, [ROLE_SHARED] = FP8},
};

typedef struct planner {
	mk_plan *p;
	const nm_config *c;
	const mk_options *o;
	nh_error *e;
	nh_status s;     /* sticky */
	char prefix[64]; /* of the layer, with its dot */
	bool mtp;        /* BF16 whatever the format */
	bool keep_bf16;  /* this Mamba layer is left alone: Nano's habit right before attention */
} planner;

static const char *text(planner *b, const char *format, ...) BASE_PRINTF(2, 3);
static const char *text(planner *b, const char *format, ...)
{
	char line[256];
	va_list list;
	va_start(list, format);
	int n = vsnprintf(line, sizeof line, format, list);
	va_end(list);
	char *copy = arena_strndup(&b->p->memory, line, n > 0 && (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
	if (copy == NULL && b->s == NH_OK) b->s = ERR_NOMEM(b->e);
	return copy != NULL ? copy : "";
}

static mk_source *source(planner *b, const char *name, mk_fill fill, int64_t n, int64_t k)
{
	mk_source *s = arena_alloc(&b->p->memory, sizeof *s);
	if (s == NULL) {
		if (b->s == NH_OK) b->s = ERR_NOMEM(b->e);
		return NULL;
	}
	*s = (mk_source){.name = name, .fill = fill, .n = n, .k = k, .amax = -1, .seed = mk_seed(b->o->seed, name)};
	return s;
}

static void tensor_add(planner *b, const char *name, mk_source *s, mk_part part, num_dtype dtype, int rank, const int64_t *shape)
{
	mk_plan *p = b->p;
	if (b->s != NH_OK || s == NULL) return;
	if (p->count == p->room) {
		size_t room = p->room ? p->room * 2 : 256;
		mk_tensor *more = mem_resize(p->tensors, room, sizeof *more);
		if (more == NULL) {
			b->s = ERR_NOMEM(b->e);
			return;
		}
		p->tensors = more;
		p->room = room;
	}
	mk_tensor *t = &p->tensors[p->count++];
	*t = (mk_tensor){.name = name, .source = s, .part = part, .dtype = dtype, .rank = rank, .bytes = num_bytes(dtype)};
	for (int i = 0; i < rank; i++) {
		t->shape[i] = shape[i];
		t->bytes *= (uint64_t)shape[i]; /* dimensions are below 2^27 and at most three multiply: no overflow in 64 bits after nm_config */
	}
	p->bytes += t->bytes;
}

static void param(planner *b, const char *rest, mk_fill fill, bool f32, int rank, const int64_t *shape)
{
	const char *name = text(b, "%s%s", b->prefix, rest);
	int64_t n = 1;
	for (int i = 0; i < rank; i++) n *= shape[i];
	mk_source *s = source(b, name, fill, n, 1);
	if (s != NULL) s->wide = f32;
	tensor_add(b, name, s, MK_VALUES, f32 ? NUM_F32 : NUM_BF16, rank, shape);
}

static void vector(planner *b, const char *rest, mk_fill fill, int64_t n) { param(b, rest, fill, false, 1, &n); }

static void quantised(planner *b, const char *module, mk_source *s)
{
	const int64_t n = s->n, k = s->k;
	bool fp4 = s->scheme != FP8;
	if (fp4 && k % 16 != 0 && b->s == NH_OK)
		b->s = ERR(b->e, NH_ERR_CONFIG, "%s: has %lld columns, FP4 needs a multiple of 16", module, (long long)k);
	double u = rng_unit(s->seed, 0, 1); /* activations of order one reach about 8; each module has its own scale */
	s->input_scale = (float)(8.0 * (0.5 + u) / (fp4 ? 6.0 * 448 : 448));
	tensor_add(
	    b, text(b, "%s.weight", module), s, fp4 ? MK_FP4_CODES : MK_FP8_CODES, fp4 ? NUM_U8 : NUM_E4M3, 2, (int64_t[]){n, fp4 ? k / 2 : k});
	if (fp4) tensor_add(b, text(b, "%s.weight_scale", module), s, MK_BLOCK_SCALES, NUM_E4M3, 2, (int64_t[]){n, k / 16});
	tensor_add(b, text(b, fp4 ? "%s.weight_scale_2" : "%s.weight_scale", module), s, MK_SCALE, NUM_F32, 0, NULL);
	if (s->scheme != W4A16) tensor_add(b, text(b, "%s.input_scale", module), s, MK_INPUT_SCALE, NUM_F32, 0, NULL);
}

static const char *algorithm(num_scheme scheme) { return scheme == FP8 ? "FP8" : scheme == W4A4 ? "NVFP4" : "W4A16_NVFP4"; }

static void matrix(planner *b, const char *rest, role r, int64_t n, int64_t k, double gain)
{
	const char *module = text(b, "%s%s", b->prefix, rest);
	mk_source *s = source(b, module, MK_MATRIX, n, k);
	if (s == NULL) return;
	s->std = gain / __builtin_sqrt((double)k);
	s->scheme = b->mtp || (r == ROLE_MAMBA && b->keep_bf16) ? NUM_SCHEME_NONE : schemes[b->o->format][r];
	if (s->scheme == NUM_SCHEME_NONE) {
		tensor_add(b, text(b, "%s.weight", module), s, MK_VALUES, NUM_BF16, 2, (int64_t[]){n, k});
		if (b->p->ignore != NULL && !b->mtp) json_array_append_new(b->p->ignore, json_string(module));
		return;
	}
	quantised(b, module, s);
	if (b->p->quantized == NULL) return;
	json_t *entry = json_pack("{s:s}", "quant_algo", algorithm(s->scheme));
	if (s->scheme != FP8) json_object_set_new(entry, "group_size", json_integer(16));
	json_object_set_new(b->p->quantized, module, entry);
}

/* A module that is never quantised and that published exclusion lists name all the same. */
static void excluded(planner *b, const char *rest)
{
	if (b->p->ignore != NULL && !b->mtp) json_array_append_new(b->p->ignore, json_string(text(b, "%s%s", b->prefix, rest)));
}

static void plan_mamba(planner *b, const nm_mamba_dims *d)
{
	const int64_t conv[3] = {d->channels, 1, d->taps}, heads = d->heads, D = b->c->hidden;
	matrix(b, "mixer.in_proj", ROLE_MAMBA, d->proj, D, 1);
	if (b->c->proj_bias) vector(b, "mixer.in_proj.bias", MK_BIAS, d->proj);
	const char *name = text(b, "%smixer.conv1d.weight", b->prefix);
	mk_source *s = source(b, name, MK_MATRIX, d->channels, d->taps);
	if (s != NULL) s->std = 1 / __builtin_sqrt((double)d->taps);
	tensor_add(b, name, s, MK_VALUES, NUM_BF16, 3, conv);
	excluded(b, "mixer.conv1d");
	if (b->c->conv_bias) vector(b, "mixer.conv1d.bias", MK_BIAS, d->channels);
	bool f32 = b->o->f32_params && !b->mtp;
	param(b, "mixer.A_log", MK_A_LOG, f32, 1, &heads);
	param(b, "mixer.D", MK_D, f32, 1, &heads);
	param(b, "mixer.dt_bias", MK_DT_BIAS, f32, 1, &heads);
	vector(b, "mixer.norm.weight", MK_NORM, d->inner);
	matrix(b, "mixer.out_proj", ROLE_MAMBA, D, d->inner, 1);
	if (b->c->proj_bias) vector(b, "mixer.out_proj.bias", MK_BIAS, D);
}

static void plan_attention(planner *b, const nm_attn_dims *d)
{
	int64_t D = b->c->hidden, q = d->heads * d->head_dim, kv = d->kv_heads * d->head_dim, one = 1;
	matrix(b, "mixer.q_proj", ROLE_ATTN, q, D, 1.5); /* wider than 1: attention that looks somewhere */
	matrix(b, "mixer.k_proj", ROLE_ATTN, kv, D, 1.5);
	matrix(b, "mixer.v_proj", ROLE_ATTN, kv, D, 1);
	matrix(b, "mixer.o_proj", ROLE_ATTN, D, q, 1);
	if (!b->p->fp8_kv || b->mtp) return;
	param(b, "mixer.k_proj.k_scale", MK_KV_SCALE, true, 1, &one);
	param(b, "mixer.v_proj.v_scale", MK_KV_SCALE, true, 1, &one);
}

static void plan_mlp(planner *b, const char *at, role r, int64_t width)
{
	int64_t D = b->c->hidden;
	matrix(b, text(b, "mixer.%sup_proj", at), r, width, D, 1);
	matrix(b, text(b, "mixer.%sdown_proj", at), r, D, width, 0.7);
	if (!b->c->mlp_bias) return;
	vector(b, text(b, "mixer.%sup_proj.bias", at), MK_BIAS, width);
	vector(b, text(b, "mixer.%sdown_proj.bias", at), MK_BIAS, D);
}

/* The router: F32 in quantised releases and where asked, BF16 in the MTP block and in plain releases. */
static void plan_gate(planner *b, const nm_moe_dims *d)
{
	const int64_t shape[2] = {d->experts, b->c->hidden};
	bool wide = b->o->f32_params && !b->mtp, f32 = wide || (b->o->format != MK_BF16 && !b->mtp);
	const char *name = text(b, "%smixer.gate.weight", b->prefix);
	mk_source *s = source(b, name, MK_MATRIX, d->experts, b->c->hidden);
	if (s != NULL) s->std = 1 / __builtin_sqrt((double)b->c->hidden);
	if (s != NULL) s->wide = wide;
	tensor_add(b, name, s, MK_VALUES, f32 ? NUM_F32 : NUM_BF16, 2, shape);
	excluded(b, "mixer.gate");
	param(b, "mixer.gate.e_score_correction_bias", MK_ROUTER_BIAS, true, 1, &d->experts);
}

static void plan_moe(planner *b, const nm_moe_dims *d)
{
	int64_t D = b->c->hidden;
	plan_gate(b, d);
	for (int64_t x = 0; x < d->experts && b->s == NH_OK; x++) {
		matrix(b, text(b, "mixer.experts.%lld.up_proj", (long long)x), ROLE_EXPERT, d->width, d->in_width, 1);
		matrix(b, text(b, "mixer.experts.%lld.down_proj", (long long)x), ROLE_EXPERT, d->in_width, d->width, 0.5);
	}
	if (d->shared > 0) plan_mlp(b, "shared_experts.", ROLE_SHARED, d->shared);
	if (d->latent == 0) return;
	matrix(b, "mixer.fc1_latent_proj", ROLE_LATENT, d->latent, D, 1);
	matrix(b, "mixer.fc2_latent_proj", ROLE_LATENT, D, d->latent, 1);
	if (!b->c->mlp_bias) return;
	vector(b, "mixer.fc1_latent_proj.bias", MK_BIAS, d->latent);
	vector(b, "mixer.fc2_latent_proj.bias", MK_BIAS, D);
}

static void plan_layer(planner *b, const nm_layer_config *l)
{
	vector(b, "norm.weight", MK_NORM, b->c->hidden);
	switch (l->kind) {
	case NM_MAMBA: plan_mamba(b, &l->mamba); break;
	case NM_ATTN: plan_attention(b, &l->attn); break;
	case NM_MLP: plan_mlp(b, "", ROLE_MLP, l->mlp.width); break;
	default: plan_moe(b, &l->moe);
	}
}

static void plan_mtp(planner *b)
{
	int64_t D = b->c->hidden;
	b->mtp = true;
	for (int depth = 0; depth < b->c->mtp_depth; depth++) {
		for (int j = 0; j < b->c->mtp_inner && b->s == NH_OK; j++) {
			snprintf(b->prefix, sizeof b->prefix, "mtp.layers.%d.", depth * b->c->mtp_inner + j);
			if (j == 0) {
				matrix(b, "eh_proj", ROLE_ATTN, D, 2 * D, 1);
				vector(b, "enorm.weight", MK_NORM, D);
				vector(b, "hnorm.weight", MK_NORM, D);
			}
			plan_layer(b, &b->c->mtp_layer[j]);
			if (j == b->c->mtp_inner - 1) vector(b, "final_layernorm.weight", MK_NORM, D);
		}
	}
}

static void plan_all(planner *b)
{
	const nm_config *c = b->c;
	bool latent = false, moe = nm_config_count(c, NM_MOE) > 0;
	for (int i = 0; i < c->layers; i++) latent |= c->layer[i].moe.latent > 0;
	bool nano = moe && !latent && (b->o->format == MK_FP8 || b->o->format == MK_NVFP4 || b->o->format == MK_W4A16);
	mk_source *table = source(b, "backbone.embeddings.weight", MK_MATRIX, c->vocab, c->hidden);
	if (table != NULL) table->std = 1;
	tensor_add(b, "backbone.embeddings.weight", table, MK_VALUES, NUM_BF16, 2, (int64_t[]){c->vocab, c->hidden});
	for (int i = 0; i < c->layers && b->s == NH_OK; i++) {
		snprintf(b->prefix, sizeof b->prefix, "backbone.layers.%d.", i);
		b->keep_bf16 = nano && i + 1 < c->layers && c->layer[i + 1].kind == NM_ATTN;
		plan_layer(b, &c->layer[i]);
	}
	snprintf(b->prefix, sizeof b->prefix, "backbone.");
	vector(b, "norm_f.weight", MK_NORM, c->hidden);
	if (b->p->quantized != NULL) excluded(b, "embeddings");
	b->prefix[0] = '\0';
	if (!c->tied) matrix(b, "lm_head", ROLE_HEAD, c->vocab, c->hidden, 3); /* margins of about a nat between the best tokens */
	plan_mtp(b);
	if (b->p->ignore != NULL) json_array_append_new(b->p->ignore, json_string("mtp*"));
}

nh_status mk_plan_open(mk_plan *p, const nm_config *c, const mk_options *o, nh_error *e)
{
	*p = (mk_plan){.fp8_kv = !o->kv_bf16 && (o->kv_fp8 || o->format != MK_BF16)};
	arena_init(&p->memory);
	if (o->format != MK_BF16) p->ignore = json_array();
	if (o->format == MK_MIXED || o->format == MK_SUPER) p->quantized = json_object();
	planner b = {.p = p, .c = c, .o = o, .e = e};
	plan_all(&b);
	if (b.s != NH_OK) mk_plan_close(p);
	return b.s;
}

void mk_plan_close(mk_plan *p)
{
	mem_free(p->tensors);
	json_decref(p->ignore);
	json_decref(p->quantized);
	arena_deinit(&p->memory);
	*p = (mk_plan){0};
}
