/* SPDX-License-Identifier: Apache-2.0
 * api_model.c: nh_model.h: the checkpoint with its weights (engine), its tokenizer and its chat template.
 */
#include <string.h>

#include "api/api_impl.h"
#include "base/base_file.h"
#include "base/base_mem.h"
#include "fmt/preset.h"

void nh_model_options_init(nh_model_options *options, size_t size)
{
	nh_model_options o = {.log_level = NH_LOG_NOTICE};
	api_init(options, size, &o, sizeof o);
}

/* The folder's regular files, hidden ones aside. */
static nh_status list_files(nh_model *m, nh_error *e)
{
	if (!m->m->dir.dir[0]) return NH_OK; /* a preset */
	TRY(file_list_dir(&m->files, m->m->dir.dir, e));
	size_t kept = 0;
	for (size_t i = 0; i < m->files.count; i++) {
		char *name = m->files.names[i], *path = path_join(m->m->dir.dir, name);
		bool keep = path && name[0] != '.' && file_exists(path) && !file_is_dir(path);
		mem_free(path);
		if (keep) m->files.names[kept++] = name;
		else mem_free(name);
	}
	m->files.count = kept;
	return NH_OK;
}

static nh_status open_text(nh_model *m, const char *template_path, nh_error *e)
{
	if (!m->m->dir.dir[0]) return NH_OK;
	char *path = path_join(m->m->dir.dir, "tokenizer.json");
	nh_status s = path ? NH_OK : ERR_NOMEM(e);
	if (s == NH_OK && file_exists(path)) s = nh_tokenizer_open(&m->tok, path, e);
	mem_free(path);
	TRY(s);
	return api_template_of_model(&m->chat, m->m->dir.dir, template_path, e);
}

/* Reads a part of every tensor once, when somebody asks: a person, or a session that is saved or loaded. */
static nh_status identity(const void *of, char hex[65], nh_error *e)
{
	nh_model *m = (nh_model *)(uintptr_t)of; /* a cache, under its lock */
	pthread_mutex_lock(&m->lock);
	nh_status s = m->identity[0] ? NH_OK : engine_model_identity(m->m, m->identity, e);
	if (s == NH_OK) memcpy(hex, m->identity, sizeof m->identity);
	else m->identity[0] = hex[0] = 0;
	pthread_mutex_unlock(&m->lock);
	return s;
}

nh_status nh_model_open(nh_model **out, const char *path, const nh_model_options *options, nh_error *e)
{
	nh_model_options o = {.log_level = NH_LOG_NOTICE};
	*out = NULL;
	TRY(api_in(&o, sizeof o, options, "nh_model_options", e));
	bool dummy = o.load_format && strcmp(o.load_format, "dummy") == 0;
	if (o.load_format && !dummy && strcmp(o.load_format, "auto") != 0)
		return ERR(e, NH_ERR_ARG, "load_format: is %.40s, expected one of: auto, dummy", o.load_format);
	if (!path && !o.like) return ERR(e, NH_ERR_ARG, "path: is NULL, and no preset is given (like)");
	nh_model *m = mem_alloc(sizeof *m);
	if (!m) return ERR_NOMEM(e);
	pthread_mutex_init(&m->lock, NULL);
	const open_options inner = {.cache_root = o.cache_root,
	    .arm = o.arm,
	    .numerics = o.numerics,
	    .kv_dtype = o.kv_dtype,
	    .threads = o.threads,
	    .check = o.check,
	    .profile = o.profile,
	    .dummy = dummy,
	    .uniform = o.uniform_routing,
	    .like = o.like,
	    .layers = o.layers,
	    .dummy_seed = o.dummy_seed,
	    .isa = o.isa,
	    .log = {.fn = o.log, .user = o.log_user, .level = o.log_level},
	    .progress = o.progress,
	    .progress_user = o.progress_user};
	nh_status s = engine_model_open(&m->m, path, &inner, e);
	if (s == NH_OK) {
		m->m->parts.identity = identity;
		m->m->parts.identity_self = m;
		m->m->parts.name = m->m->name;
		s = list_files(m, e);
	}
	if (s == NH_OK) s = open_text(m, o.chat_template, e);
	if (s == NH_OK) *out = m;
	else nh_model_close(m);
	return s;
}

void nh_model_close(nh_model *m)
{
	if (!m) return;
	nh_template_close(m->chat);
	nh_tokenizer_close(m->tok);
	file_list_free(&m->files);
	engine_model_close(m->m);
	pthread_mutex_destroy(&m->lock);
	mem_free(m);
}

void nh_model_get_info(const nh_model *of, nh_model_info *info, size_t size)
{
	const engine_model *m = of->m;
	const model_shape *s = &m->m->shape;
	char hex[65];
	identity(of, hex, NULL);                                         /* "" where that fails: the files went away */
	nh_model_info v = {.path = m->dir.dir[0] ? m->dir.dir : m->name, /* a preset has no folder */
	    .name = m->name,
	    .identity = of->identity,
	    .pattern = s->pattern,
	    .arm = m->parts.arm->name,
	    .tier = m->parts.base->tier ? m->parts.base->tier : m->parts.arm->name,
	    .numerics = m->parts.x->num->name,
	    .kv_dtype = m->parts.kv == NUM_E4M3 ? "fp8" : num_dtype_name(m->parts.kv),
	    .formats = m->formats.data,
	    .layers = s->layers,
	    .hidden = s->hidden,
	    .vocab = s->vocab,
	    .chunk = s->chunk,
	    .max_context = s->max_positions,
	    .weight_bytes = m->weight_bytes,
	    .scratch_bytes = m->scratch_bytes,
	    .kv_bytes_token = m->kv_bytes_token,
	    .state_bytes_sequence = m->state_bytes_sequence,
	    .has_w4a4 = loader_has_w4a4(m->loader),
	    .dummy = m->drawn,
	    .load_bytes = loader_bytes_done(m->loader),
	    .load_us = (uint64_t)loader_us(m->loader)};
	api_out(info, size, &v, sizeof v);
}

size_t nh_model_file_count(const nh_model *m) { return m->files.count; }
const char *nh_model_file_name(const nh_model *m, size_t index) { return index < m->files.count ? m->files.names[index] : NULL; }

nh_status nh_model_file_sha256(const nh_model *m, size_t index, char hex[65], nh_progress_fn progress, void *user, nh_error *e)
{
	if (index >= m->files.count) return ERR(e, NH_ERR_ARG, "file: index %zu, the model has %zu files", index, m->files.count);
	char *path = path_join(m->m->dir.dir, m->files.names[index]);
	nh_status s = path ? file_sha256(path, hex, progress, user, e) : ERR_NOMEM(e);
	mem_free(path);
	return s;
}

size_t nh_model_end_tokens(const nh_model *m, const int32_t **ids)
{
	if (ids) *ids = m->m->parts.end;
	return m->m->parts.end_count;
}

void nh_model_get_sampling_defaults(const nh_model *m, nh_sampling_defaults *defaults, size_t size)
{
	const generation *g = &m->m->gen;
	nh_sampling_defaults v = {.do_sample = g->has_do_sample ? g->do_sample : -1,
	    .top_k = g->has_top_k ? g->top_k : -1,
	    .temperature = g->has_temperature ? g->temperature : -1,
	    .top_p = g->has_top_p ? g->top_p : -1,
	    .min_p = g->has_min_p ? g->min_p : -1,
	    .repetition_penalty = g->has_repetition_penalty ? g->repetition_penalty : -1};
	api_out(defaults, size, &v, sizeof v);
}

const char *nh_preset_at(size_t index) { return index < 1024 ? preset_at((int)index) : NULL; }

bool nh_profile_at(size_t index, nh_profile *profile, size_t size)
{
	const nh_numerics *n = index < 64 ? num_profile_at((int)index) : NULL;
	if (!n) return false;
	nh_profile v = {.name = n->name,
	    .rounding = num_rounding_name(n->rounding),
	    .w4a4 = num_w4a4_name(n->w4a4),
	    .fp8_attention = num_fp8_attention_name(n->fp8_attention),
	    .fp8_sums = num_fp8_sums_name(n->fp8_sums),
	    .router_weight = num_router_weight_name(n->router_weight)};
	api_out(profile, size, &v, sizeof v);
	return true;
}
