/* SPDX-License-Identifier: Apache-2.0
 * cmd_open.c: see cmd_open.h.
 */
#include "cmd/cmd_open.h"

#include <string.h>

#include "base/base_mem.h"

nh_status cmd_open(const cmd_args *a, const char *path, const char *profile, const nh_engine_options *options, nh_model **model,
    nh_engine **engine, nh_error *e)
{
	return cmd_open_on(a, path, NULL, profile, options, model, engine, e);
}

nh_status cmd_open_on(const cmd_args *a, const char *path, const char *arm, const char *profile, const nh_engine_options *options,
    nh_model **model, nh_engine **engine, nh_error *e)
{
	nh_model_options mo;
	nh_engine_options eo;
	cmd_progress progress;
	char *cache = cmd_cache_root(a);
	cmd_progress_init(&progress, a);
	nh_model_options_init(&mo, sizeof mo);
	nh_engine_options_init(&eo, sizeof eo);
	mo.cache_root = cache;
	mo.arm = cmd_string(a, "arm", arm);
	mo.isa = cmd_string(a, "cpu-isa", NULL);
	mo.threads = (int32_t)cmd_int(a, "threads", 0);
	mo.numerics = profile ? profile : cmd_string(a, "numerics", NULL);
	mo.kv_dtype = cmd_string(a, "kv-dtype", NULL);
	mo.chat_template = cmd_string(a, "chat-template", NULL);
	mo.check = cmd_flag(a, "check");
	/* The time of each op is among the statistics; a bench wants what the ops had to move and compute. */
	mo.profile = cmd_flag(a, "stats") || (strcmp(cmd_definition(a)->name, "bench") == 0 && !cmd_flag(a, "no-count"));
	mo.load_format = cmd_string(a, "load-format", NULL);
	mo.like = cmd_string(a, "like", NULL);
	mo.layers = (int32_t)cmd_int(a, "layers", 0);
	mo.uniform_routing = cmd_flag(a, "uniform-routing");
	mo.log = cmd_log;
	mo.log_user = (void *)(uintptr_t)a;
	mo.log_level = NH_LOG_NOTICE;
	mo.progress = cmd_progress_show;
	mo.progress_user = &progress;
	*model = NULL;
	if (engine) *engine = NULL;
	nh_status s = nh_model_open(model, path, &mo, e);
	cmd_progress_clear(&progress);
	mem_free(cache);
	if (s == NH_OK && engine) s = nh_engine_open(engine, *model, options ? options : &eo, e);
	if (s != NH_OK) {
		nh_model_close(*model);
		*model = NULL;
	}
	return s;
}
