/* SPDX-License-Identifier: Apache-2.0
 * ins_open.c: opens what is there of a checkpoint and lets the loader bind it, to an arm that takes everything and computes nothing. Knows no
 * layout of its output. Breaks first: a checkpoint that does not balance is shown with its problems, not refused.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/base_file.h"
#include "base/base_mem.h"
#include "cmd/inspect/ins.h"
#include "fmt/config.h"
#include "fmt/identity.h"
#include "model/nemotron_h/nm_model.h"

/* The paper arm: host memory, imports as they come. */
static nh_status paper_import(exec *x, weight *w, nh_error *e)
{
	(void)x, (void)w, (void)e;
	return NH_OK;
}

static void paper_release(exec *x, weight *w) { (void)x, (void)w; }

static void *paper_alloc(exec *x, size_t bytes)
{
	(void)x;
	return mem_alloc(bytes);
}

static void paper_free(exec *x, void *p)
{
	(void)x;
	mem_free(p);
}

static nh_status paper_copy(exec *x, void *to, const void *from, size_t bytes, nh_error *e)
{
	(void)x, (void)e;
	memcpy(to, from, bytes);
	return NH_OK;
}

static const backend paper = {.name = "paper",
    .default_profile = "portable",
    .host_memory = true,
    .import = paper_import,
    .release = paper_release,
    .alloc = paper_alloc,
    .free = paper_free,
    .upload = paper_copy,
    .download = paper_copy};

static const char *keep(inspection *i, const char *text)
{
	char *copy = arena_strndup(&i->memory, text, strlen(text));
	if (copy == NULL) i->nomem = true;
	return copy != NULL ? copy : "";
}

static void on_log(void *user, nh_log_level level, const char *text)
{
	inspection *i = user;
	if (level == NH_LOG_ERROR) ins_problem(i, "%s", text);
	else if (i->notice_count < ARRAY_LEN(i->notices)) i->notices[i->notice_count++] = keep(i, text);
}

void ins_problem(inspection *i, const char *format, ...)
{
	char line[1024];
	va_list list;
	va_start(list, format);
	vsnprintf(line, sizeof line, format, list);
	va_end(list);
	i->problem_total++;
	if (i->problem_count < ARRAY_LEN(i->problems)) i->problems[i->problem_count++] = keep(i, line);
	i->ledger = NH_ERR_TENSOR;
}

static void on_report(void *user, const load_record *r)
{
	inspection *i = user;
	if (i->count == i->room) {
		size_t room = i->room ? i->room * 2 : 1024;
		ins_module *more = mem_resize(i->modules, room, sizeof *more);
		if (more == NULL) {
			i->nomem = true;
			return;
		}
		i->modules = more;
		i->room = room;
	}
	ins_module *m = &i->modules[i->count++];
	*m = (ins_module){.name = keep(i, r->module),
	    .role = ins_role_of(r->module, r->used),
	    .layer = ins_layer_of(r->module),
	    .scheme = r->scheme,
	    .dtype = r->dtype,
	    .n = r->n,
	    .k = r->k,
	    .bytes = r->file_bytes,
	    .matrix = r->matrix,
	    .used = r->used};
	/* Thousands of experts share one rule. */
	m->rule = i->count > 1 && strcmp(m[-1].rule, r->rule) == 0 ? m[-1].rule : keep(i, r->rule);
	uint64_t params = (uint64_t)r->n * (uint64_t)r->k;
	bool mtp = m->role == INS_MTP;
	i->params += r->used ? params : 0;
	i->mtp_params += mtp ? params : 0;
	i->bytes += r->used ? r->file_bytes : 0;
	i->mtp_bytes += mtp ? r->file_bytes : 0;
}

static nh_status open_files(inspection *i, const logger *log, nh_error *e)
{
	if (i->dir.kind == MODEL_DIR_FULL) {
		TRY(st_set_open(&i->set, i->dir.dir, log, e));
		char *tokenizer = model_dir_file(&i->dir, "tokenizer.json");
		nh_status s = identity_compute(i->dir.config, tokenizer, i->set, NULL, NULL, i->identity, e);
		mem_free(tokenizer);
		return s;
	}
	if (i->dir.kind != MODEL_DIR_INDEX_ONLY) return NH_OK;
	char *path = model_dir_file(&i->dir, ST_INDEX_NAME);
	nh_status s = path == NULL ? ERR_NOMEM(e) : st_index_open(&i->index, path, e);
	mem_free(path);
	return s;
}

static nh_status open_all(inspection *i, const char *path, const char *cache_root, nh_error *e)
{
	logger log = {.fn = on_log, .user = i, .level = NH_LOG_NOTICE};
	TRY(model_dir_resolve(path, cache_root, &i->dir, e));
	snprintf(i->name, sizeof i->name, "%s", path_base(i->dir.kind == MODEL_DIR_CONFIG_ONLY ? path : i->dir.dir));
	TRY(config_load(&i->config, i->dir.config, e));
	char *hf = model_dir_file(&i->dir, "hf_quant_config.json");
	nh_status s = quant_load(&i->quant, i->config, i->dir.config, hf, e);
	mem_free(hf);
	if (s != NH_OK) return s;
	TRY(nm_config_read(&i->c, i->config, i->dir.config, NULL, e));
	TRY(open_files(i, &log, e));
	i->x = dry_create(num_profile("portable"), NUM_F64);
	if (i->x == NULL) return ERR_NOMEM(e);
	loader_options o = {.set = i->set,
	    .quant = i->quant,
	    .x = i->x,
	    .arm = &paper,
	    .log = &log,
	    .files_name = i->dir.dir,
	    .report = on_report,
	    .report_user = i};
	TRY(loader_open(&i->l, &o, e));
	TRY(nm_family.open(&i->m, i->config, i->dir.config, i->l, e));
	i->ledger = loader_finish(i->l, &i->ledger_error);
	if (i->ledger != NH_OK && i->problem_count == 0) ins_problem(i, "%s", i->ledger_error.text);
	memcpy(i->scheme_bytes, loader_scheme_bytes(i->l), sizeof i->scheme_bytes);
	i->param_bytes = loader_param_bytes(i->l);
	ins_group_all(i);
	if (i->index != NULL) ins_check_index(i);
	TRY(ins_measure(i, e));
	return i->nomem ? ERR_NOMEM(e) : NH_OK;
}

nh_status ins_open(inspection *i, const char *path, const char *cache_root, nh_error *e)
{
	*i = (inspection){0};
	arena_init(&i->memory);
	nh_status s = open_all(i, path, cache_root, e);
	if (s != NH_OK) ins_close(i);
	return s;
}

void ins_close(inspection *i)
{
	if (i->m != NULL) i->m->family->close(i->m);
	loader_close(i->l);
	dry_destroy(i->x);
	st_set_close(i->set);
	st_index_close(i->index);
	nm_config_deinit(&i->c);
	quant_close(i->quant);
	json_decref(i->config);
	model_dir_free(&i->dir);
	mem_free(i->modules);
	arena_deinit(&i->memory);
	*i = (inspection){0};
}

ins_fit ins_fits(const inspection *i, uint64_t memory, uint64_t context, bool fp8_kv)
{
	ins_fit f = {.memory = memory, .context = context, .weights = i->bytes};
	f.kv_token = nm_config_kv_elements(&i->c) * (fp8_kv ? 1 : 2);
	f.state = nm_config_state_bytes(&i->c);
	f.sequence = f.state + f.kv_token * context; /* both below 2^40 and 2^50: nm_config's limits */
	if (memory > f.weights && f.sequence > 0) f.sequences = (memory - f.weights) / f.sequence;
	return f;
}
