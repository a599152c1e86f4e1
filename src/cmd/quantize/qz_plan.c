/* SPDX-License-Identifier: Apache-2.0
 * qz_plan.c: what happens to each tensor of a source, by its name alone (model.md 2.1, 2.6). What no published release quantises is left alone.
 * Knows no value. Breaks first: the experts of a layer are all of one scheme, for one kernel reads them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base_mem.h"
#include "cmd/quantize/qz.h"

#define LAYERS_MOST 4096

/* model.md 2.6: Nano FP8, Nano NVFP4, and Lightning. */
static const num_scheme schemes[3][QZ_EMBED + 1] = {
    [QZ_FP8] = {[QZ_MAMBA] = NUM_SCHEME_FP8, [QZ_MLP] = NUM_SCHEME_FP8, [QZ_EXPERT] = NUM_SCHEME_FP8, [QZ_SHARED] = NUM_SCHEME_FP8},
    [QZ_NVFP4] =
        {[QZ_MAMBA] = NUM_SCHEME_NVFP4, [QZ_MLP] = NUM_SCHEME_NVFP4, [QZ_EXPERT] = NUM_SCHEME_NVFP4, [QZ_SHARED] = NUM_SCHEME_NVFP4},
    [QZ_MIXED] = {[QZ_MAMBA] = NUM_SCHEME_FP8,
        [QZ_MLP] = NUM_SCHEME_W4A16,
        [QZ_EXPERT] = NUM_SCHEME_W4A16,
        [QZ_SHARED] = NUM_SCHEME_W4A16,
        [QZ_HEAD] = NUM_SCHEME_W4A16},
};

/* The names inside a layer's mixer; %d of an expert apart. */
static const struct {
	const char *name;
	qz_role role;
	char kind;
	qz_site site;
	bool up;
} mixer_names[] = {
    {"in_proj", QZ_MAMBA, 'M', QZ_INPUT, false},
    {"out_proj", QZ_MAMBA, 'M', QZ_OUT_INPUT, false},
    {"conv1d", QZ_OTHER, 'M', QZ_INPUT, false},
    {"q_proj", QZ_ATTN, '*', QZ_INPUT, false},
    {"k_proj", QZ_ATTN, '*', QZ_INPUT, false},
    {"v_proj", QZ_ATTN, '*', QZ_INPUT, false},
    {"o_proj", QZ_ATTN, '*', QZ_INPUT, false},
    {"up_proj", QZ_MLP, '-', QZ_INPUT, true},
    {"down_proj", QZ_MLP, '-', QZ_HIDDEN, false},
    {"gate", QZ_OTHER, 'E', QZ_INPUT, false},
    {"fc1_latent_proj", QZ_LATENT, 'E', QZ_INPUT, false},
    {"fc2_latent_proj", QZ_LATENT, 'E', QZ_INPUT, false},
    {"shared_experts.up_proj", QZ_SHARED, 'E', QZ_INPUT, true},
    {"shared_experts.down_proj", QZ_SHARED, 'E', QZ_HIDDEN, false},
};

/* A number at *text that ends at `stop`; -1 where there is none. Moves *text behind the stop. */
static int number(const char **text, char stop)
{
	size_t digits = strspn(*text, "0123456789");
	if (digits == 0 || digits > 6 || (*text)[digits] != stop) return -1;
	int v = (int)strtol(*text, NULL, 10);
	*text += digits + 1;
	return v;
}

static const char *after(const char *text, const char *prefix)
{
	size_t n = strlen(prefix);
	return strncmp(text, prefix, n) == 0 ? text + n : NULL;
}

/* The part behind the styles that mean the same (fmt/quant.h). */
static const char *plain(const char *name)
{
	const char *rest = after(name, "model.");
	if (rest != NULL) name = rest;
	rest = after(name, "backbone.");
	return rest != NULL ? rest : name;
}

static void name_item(qz_item *it, const char *module, char *kind)
{
	const char *p = plain(module), *rest;
	if (strcmp(p, "lm_head") == 0) it->role = QZ_HEAD;
	if (strcmp(p, "embeddings") == 0 || strcmp(p, "embed_tokens") == 0) it->role = QZ_EMBED;
	if ((p = after(p, "layers.")) == NULL || (it->layer = number(&p, '.')) < 0 || (p = after(p, "mixer.")) == NULL) return;
	if ((rest = after(p, "experts.")) != NULL && (it->expert = number(&rest, '.')) >= 0) {
		it->up = strcmp(rest, "up_proj") == 0;
		if (!it->up && strcmp(rest, "down_proj") != 0) return;
		it->role = QZ_EXPERT;
		it->site = it->up ? QZ_EXPERT_IN : QZ_EXPERT_HIDDEN;
		*kind = 'E';
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(mixer_names); i++) {
		if (strcmp(p, mixer_names[i].name) != 0) continue;
		it->role = mixer_names[i].role;
		it->site = mixer_names[i].site;
		it->up = mixer_names[i].up;
		*kind = mixer_names[i].kind;
	}
}

/* Names, roles and layers. */
static nh_status sort_out(qz_plan *p, nh_error *e)
{
	for (size_t i = 0; i < p->count; i++) {
		qz_item *it = &p->items[i];
		*it = (qz_item){.t = st_set_at(p->set, i), .layer = -1, .expert = -1};
		p->source_bytes += it->t->bytes;
		size_t n = strlen(it->t->name);
		if (n <= 7 || strcmp(it->t->name + n - 7, ".weight") != 0 || strncmp(it->t->name, "mtp.", 4) == 0) continue;
		char *module = arena_strndup(&p->memory, it->t->name, n - 7), kind = 0;
		if (module == NULL) return ERR_NOMEM(e);
		it->module = module;
		name_item(it, module, &kind);
		if (it->layer >= LAYERS_MOST) return ERR(e, NH_ERR_LIMIT, "tensor %.200s: more than %d layers", it->t->name, LAYERS_MOST);
		if (it->layer < 0 || kind == 0) continue;
		if (it->layer >= p->layer_count) p->layer_count = it->layer + 1;
		p->layers[it->layer].kind = kind;
		if (it->role == QZ_EXPERT && it->t->rank == 2 && it->t->shape[1] % 16 != 0) p->layers[it->layer].odd_expert = true;
	}
	return NH_OK;
}

static nh_status check_matrix(const qz_item *it, nh_error *e)
{
	const st_tensor *t = it->t;
	bool known = t->dtype == NUM_BF16 || t->dtype == NUM_F16 || t->dtype == NUM_F32;
	if (t->rank != 2 || t->shape[0] < 1 || t->shape[1] < 1)
		return ERR(e, NH_ERR_TENSOR, "tensor %.200s: has rank %d, expected a matrix", t->name, t->rank);
	if (!known)
		return ERR(e, NH_ERR_TENSOR, "tensor %.200s: is %s, expected bf16, f16 or f32: quantise from the original", t->name,
		    num_dtype_name(t->dtype));
	return NH_OK;
}

static nh_status choose(qz_plan *p, nh_error *e)
{
	bool experts = false, latent = false;
	for (size_t i = 0; i < p->count; i++) {
		experts |= p->items[i].role == QZ_EXPERT;
		latent |= p->items[i].role == QZ_LATENT;
	}
	/* The Nano releases keep the Mamba layer right before attention; Super, Ultra (latent) and the dense models do not. */
	for (int i = 0; i + 1 < p->layer_count && p->o->format != QZ_MIXED && experts && !latent; i++)
		p->layers[i].keep = p->layers[i].kind == 'M' && p->layers[i + 1].kind == '*';
	for (size_t i = 0; i < p->count; i++) {
		qz_item *it = &p->items[i];
		num_scheme s = schemes[p->o->format][it->role];
		if (s == NUM_SCHEME_NVFP4 && p->o->weight_only) s = NUM_SCHEME_W4A16;
		if (s == NUM_SCHEME_NONE || (it->role == QZ_MAMBA && p->layers[it->layer].keep)) continue;
		TRY(check_matrix(it, e));
		bool odd = it->role == QZ_EXPERT ? p->layers[it->layer].odd_expert : it->t->shape[1] % 16 != 0;
		if (s != NUM_SCHEME_FP8 && odd) {
			p->odd++;
			continue;
		}
		it->scheme = s;
		p->quantised++;
	}
	if (p->quantised == 0) return ERR(e, NH_ERR_TENSOR, "no tensor has a name that this format quantises");
	return NH_OK;
}

nh_status qz_plan_open(qz_plan *p, const st_set *set, const qz_options *o, nh_error *e)
{
	*p = (qz_plan){.set = set, .count = st_set_count(set), .o = o};
	arena_init(&p->memory);
	p->items = mem_array(p->count + 1, sizeof *p->items);
	p->layers = mem_array(LAYERS_MOST, sizeof *p->layers);
	nh_status s = p->items != NULL && p->layers != NULL ? sort_out(p, e) : ERR_NOMEM(e);
	if (s == NH_OK) s = choose(p, e);
	if (s != NH_OK) qz_plan_close(p);
	return s;
}

void qz_plan_close(qz_plan *p)
{
	mem_free(p->items);
	mem_free(p->layers);
	arena_deinit(&p->memory);
	*p = (qz_plan){0};
}
