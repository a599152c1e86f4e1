/* SPDX-License-Identifier: Apache-2.0
 * open.c: opens a checkpoint on an arm, in the order in which things can be refused cheaply: names and configuration before tensors. Owns
 * no format and no layer. The invariant that breaks first: every tensor of the files is accounted for before the model is handed out.
 */
#include "engine/open.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/registry.h"
#include "base/base_file.h"
#include "base/base_mem.h"
#include "exec/wrap.h"
#include "fmt/identity.h"
#include "fmt/preset.h"
#include "model/nemotron_h/nm_model.h"

/* The caller's function never runs twice at once. */
static void log_locked(void *user, nh_log_level level, const char *text)
{
	engine_model *m = user;
	pthread_mutex_lock(&m->log_lock);
	m->user_log.fn(m->user_log.user, level, text);
	pthread_mutex_unlock(&m->log_lock);
}

/* "hub/models--org--name/snapshots/<revision>" is org/name; anything else is called after its folder. */
static char *display_name(const char *dir)
{
	char full[PATH_MAX];
	const char *path = realpath(dir, full) ? full : dir;
	const char *models = strstr(path, "/models--"), *end = models ? strstr(models, "/snapshots/") : NULL;
	if (!end) return mem_strdup(path_base(path));
	models += strlen("/models--");
	char *name = mem_strndup(models, (size_t)(end - models)), *dashes = name ? strstr(name, "--") : NULL;
	if (dashes) {
		*dashes = '/';
		memmove(dashes + 1, dashes + 2, strlen(dashes + 2) + 1);
	}
	return name;
}

/* A preset has no folder: its documents are made. Its name says what it is: "lightning-30b:mixed, 8 layers, dummy". */
static nh_status make_documents(engine_model *m, const open_options *o, nh_error *e)
{
	TRY(preset_config(&m->config, o->like, o->layers, e));
	buf name = {0};
	const char *colon = strchr(o->like, ':');
	buf_printf(&name, "%.*s:%s", colon ? (int)(colon - o->like) : (int)strlen(o->like), o->like, preset_format(o->like));
	if (o->layers) buf_printf(&name, ", %d layers", o->layers);
	buf_str(&name, ", dummy");
	m->name = buf_take(&name);
	m->dir.kind = MODEL_DIR_CONFIG_ONLY;
	m->dir.dir = mem_strdup("");
	m->dir.config = mem_strdup(o->like);
	if (!m->name || !m->dir.dir || !m->dir.config) return ERR_NOMEM(e);
	TRY(generation_load(&m->gen, m->config, m->dir.config, NULL, e));
	return quant_load(&m->quant, m->config, m->dir.config, NULL, e);
}

static nh_status read_documents(engine_model *m, const char *path, const open_options *o, nh_error *e)
{
	m->drawn = o->dummy || o->like;
	m->dummy_seed = o->dummy_seed;
	if (o->like) return make_documents(m, o, e);
	if (o->layers) return ERR(e, NH_ERR_ARG, "layers: is %d, only a preset (like) can be cut", o->layers);
	TRY(model_dir_resolve(path, o->cache_root, &m->dir, e));
	TRY(config_load(&m->config, m->dir.config, e));
	char *gen = path_join(m->dir.dir, "generation_config.json"), *quant = path_join(m->dir.dir, "hf_quant_config.json");
	nh_status s = gen && quant ? NH_OK : ERR_NOMEM(e);
	if (s == NH_OK) s = generation_load(&m->gen, m->config, m->dir.config, gen, e);
	if (s == NH_OK && m->gen.unserved[0])
		log_line(&m->log, NH_LOG_NOTICE, "%s: not done here, and without effect: %s", gen, m->gen.unserved);
	if (s == NH_OK) s = quant_load(&m->quant, m->config, m->dir.config, quant, e);
	mem_free(gen);
	mem_free(quant);
	if (s == NH_OK && !(m->name = display_name(m->dir.dir))) s = ERR_NOMEM(e);
	return s;
}

static nh_status unknown(const char *what, const char *given, const char *(*choice)(int i), nh_error *e)
{
	buf list = {0};
	for (int i = 0; choice(i); i++) buf_printf(&list, "%s%s", i ? ", " : "", choice(i));
	nh_status s = ERR(e, NH_ERR_ARG, "%s: is %.40s, expected one of: %s", what, given, list.data ? list.data : "");
	buf_deinit(&list);
	return s;
}

static const char *arm_name(int i) { return backend_at(i) ? backend_at(i)->name : NULL; }
static const char *profile_name(int i) { return num_profile_at(i) ? num_profile_at(i)->name : NULL; }
static const char *kv_name(int i) { return i < 3 ? (const char *const[]){"auto", "bf16", "fp8"}[i] : NULL; }

static nh_status open_on(engine_model *m, const backend *arm, const open_options *o, nh_error *e)
{
	const char *profile = o->numerics ? o->numerics : arm->default_profile;
	const backend_options b = {.log = &m->log, .threads = o->threads, .isa = o->isa, .num = num_profile(profile)};
	if (!b.num) return unknown("numerics", profile, profile_name, e);
	m->parts.arm = arm;
	return arm->open(&m->base, &b, e);
}

/* The arm that was asked for, or the first that has the profile: Hopper's sums, say, are ref's alone. */
static nh_status choose_arm(engine_model *m, const open_options *o, nh_error *e)
{
	const backend *asked = o->arm ? backend_find(o->arm) : backend_at(0);
	if (!asked) return unknown("arm", o->arm ? o->arm : "none", arm_name, e);
	nh_status s = open_on(m, asked, o, e);
	for (int i = 1; s == NH_ERR_UNSUPPORTED && !o->arm && !o->isa && backend_at(i); i++) s = open_on(m, backend_at(i), o, e);
	return s;
}

static nh_status open_arm(engine_model *m, const open_options *o, nh_error *e)
{
	engine_parts *p = &m->parts;
	TRY(choose_arm(m, o, e));
	p->base = p->x = m->base;
	if (o->uniform && !p->arm->host_memory)
		return ERR(
		    e, NH_ERR_UNSUPPORTED, "uniform routing: arm %s keeps its memory elsewhere, expected an arm with host memory", p->arm->name);
	if (o->uniform) {
		m->uniform = wrap_uniform_create(p->x, o->dummy_seed);
		if (!m->uniform) return ERR_NOMEM(e);
		p->x = m->uniform;
	}
	if (o->profile) {
		m->profile = wrap_profile_create(p->x);
		if (!m->profile) return ERR_NOMEM(e);
		p->profile = p->x = m->profile;
	}
	if (o->check) {
		m->check = wrap_check_create(p->x, p->arm->host_memory);
		if (!m->check) return ERR_NOMEM(e);
		p->x = m->check;
	}
	return NH_OK;
}

/* What the tensors of a drawn model take, for progress: shapes alone, bound to nothing. */
static nh_status expect_bytes(engine_model *m, uint64_t *bytes, nh_error *e)
{
	const loader_options o = {.quant = m->quant, .x = m->base, .files_name = m->dir.config};
	loader *l;
	model *shapes = NULL;
	TRY(loader_open(&l, &o, e));
	nh_status s = nm_family.open(&shapes, m->config, m->dir.config, l, e);
	if (s == NH_OK) *bytes = loader_bytes_done(l);
	if (shapes) shapes->family->close(shapes);
	loader_close(l);
	return s;
}

static nh_status load(engine_model *m, const open_options *o, nh_error *e)
{
	uint64_t expected = 0;
	if (m->drawn) TRY(expect_bytes(m, &expected, e));
	else TRY(st_set_open(&m->set, m->dir.dir, &m->log, e));
	const loader_options l = {.dummy = m->drawn,
	    .seed = o->dummy_seed,
	    .threads = o->threads,
	    .expected = expected,
	    .set = m->set,
	    .quant = m->quant,
	    .x = m->base,
	    .arm = m->parts.arm,
	    .log = &m->log,
	    .files_name = m->set ? m->dir.dir : m->dir.config,
	    .progress = o->progress,
	    .progress_user = o->progress_user};
	TRY(loader_open(&m->loader, &l, e));
	TRY(nm_family.open(&m->m, m->config, m->dir.config, m->loader, e));
	TRY(loader_finish(m->loader, e));
	m->parts.m = m->m;
	return NH_OK;
}

static nh_status choose_kv(engine_model *m, const char *wanted, nh_error *e)
{
	const model_shape *s = &m->m->shape;
	if (s->ssm_dtype != NUM_F32)
		return ERR(e, NH_ERR_UNSUPPORTED, "%s: mamba_ssm_cache_dtype: is %s, this arm supports float32", m->dir.config, s->ssm_dtype_text);
	num_dtype plain = m->base->types.kv;
	if (!wanted || strcmp(wanted, "auto") == 0) m->parts.kv = s->fp8_kv ? NUM_E4M3 : plain;
	else if (strcmp(wanted, "bf16") == 0) m->parts.kv = plain;
	else if (strcmp(wanted, "fp8") == 0) m->parts.kv = NUM_E4M3;
	else return unknown("kv_dtype", wanted, kv_name, e);
	return NH_OK;
}

/* Numbers that people ask for. */
static nh_status describe(engine_model *m, nh_error *e)
{
	const model_shape *s = &m->m->shape;
	const uint64_t *scheme = loader_scheme_bytes(m->loader);
	const exec_types *t = &m->base->types;
	m->weight_bytes = loader_param_bytes(m->loader);
	for (int i = 0; i < NUM_SCHEME_COUNT; i++) {
		m->weight_bytes += scheme[i];
		if (scheme[i])
			buf_printf(&m->formats, "%s%s %.1f MB", m->formats.len ? ", " : "", num_scheme_name((num_scheme)i), (double)scheme[i] / 1e6);
	}
	if (m->formats.failed || (!m->formats.data && (buf_str(&m->formats, ""), m->formats.failed))) return ERR_NOMEM(e);
	for (int i = 0; i < s->attn_layers; i++)
		m->kv_bytes_token += 2 * (uint64_t)(s->kv[i].kv_heads * s->kv[i].head_dim) * num_bytes(m->parts.kv);
	for (int i = 0; i < s->mamba_layers; i++) {
		const model_mamba_shape *l = &s->mamba[i];
		m->state_bytes_sequence += (uint64_t)((l->taps - 1) * l->channels) * num_bytes(t->conv_state);
		m->state_bytes_sequence += (uint64_t)(l->heads * l->head_dim * l->state) * num_bytes(t->ssm_state);
	}
	size_t scratch;
	TRY(engine_measure(&m->parts, &(engine_options){0}, &scratch, e));
	m->scratch_bytes = scratch;
	return NH_OK;
}

static nh_status identity_of(const void *self, char hex[65], nh_error *e) { return engine_model_identity(self, hex, e); }

nh_status engine_model_open(engine_model **out, const char *path, const open_options *o, nh_error *e)
{
	*out = NULL;
	engine_model *m = mem_alloc(sizeof *m);
	if (!m) return ERR_NOMEM(e);
	pthread_mutex_init(&m->log_lock, NULL);
	m->user_log = o->log;
	if (o->log.fn) m->log = (logger){.fn = log_locked, .user = m, .level = o->log.level};
	nh_status s = read_documents(m, path, o, e);
	if (s == NH_OK) s = open_arm(m, o, e);
	if (s == NH_OK) s = load(m, o, e);
	if (s == NH_OK) s = choose_kv(m, o->kv_dtype, e);
	if (s == NH_OK) {
		m->parts.end = m->gen.end;
		m->parts.end_count = (size_t)m->gen.end_count;
		m->parts.log = &m->log;
		m->parts.identity = identity_of;
		m->parts.identity_self = m;
		m->parts.name = m->name;
		s = describe(m, e);
	}
	if (s != NH_OK) {
		engine_model_close(m);
		return s;
	}
	*out = m;
	return NH_OK;
}

void engine_model_close(engine_model *m)
{
	if (!m) return;
	if (m->m) m->m->family->close(m->m);
	loader_close(m->loader);
	wrap_destroy(m->check);
	wrap_destroy(m->profile);
	wrap_destroy(m->uniform);
	if (m->base) m->parts.arm->close(m->base);
	st_set_close(m->set);
	quant_close(m->quant);
	json_decref(m->config);
	model_dir_free(&m->dir);
	buf_deinit(&m->formats);
	mem_free(m->name);
	pthread_mutex_destroy(&m->log_lock);
	mem_free(m);
}

static int hash_text(const char *text, size_t size, void *h)
{
	sha256_update(h, text, size);
	return 0;
}

/* Never that of a checkpoint with the same configuration: its words are others. */
static nh_status drawn_identity(const engine_model *m, char hex[65], nh_error *e)
{
	char head[80];
	sha256 *h = sha256_create();
	if (!h) return ERR_NOMEM(e);
	snprintf(head, sizeof head, "nemotron.c dummy weights 1, seed %llu", (unsigned long long)m->dummy_seed);
	sha256_update(h, head, strlen(head) + 1);
	json_dump_callback(m->config, hash_text, h, JSON_COMPACT | JSON_SORT_KEYS);
	sha256_finish(h, hex);
	return hex[0] ? NH_OK : ERR(e, NH_ERR_INTERNAL, "%s: the digest library failed", m->name);
}

nh_status engine_model_identity(const engine_model *m, char hex[65], nh_error *e)
{
	if (m->drawn) return drawn_identity(m, hex, e);
	char *tokenizer = path_join(m->dir.dir, "tokenizer.json");
	if (!tokenizer) return ERR_NOMEM(e);
	nh_status s = identity_compute(m->dir.config, file_exists(tokenizer) ? tokenizer : NULL, m->set, NULL, NULL, hex, e);
	mem_free(tokenizer);
	return s;
}
