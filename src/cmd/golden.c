/* SPDX-License-Identifier: Apache-2.0
 * golden.c: writes what this program says as a golden: schema nemotron-golden/1, with its own provenance, so that another arm, another build or
 * another machine can be judged by it. The invariant that breaks first: every option that can change a token stands in the file.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/base_file.h"
#include "base/base_json.h"
#include "base/base_mem.h"
#include "cmd/cmd_open.h"

typedef struct golden_job {
	const cmd_args *a;
	nh_model *model;
	nh_engine *engine;
	nh_model_info info;
	int64_t tokens;
	int32_t top;
	bool ignore_end;
	cmd_progress progress;
} golden_job;

/* "model name" of /proc/cpuinfo, for the record. */
static void cpu_name(char out[128])
{
	FILE *f = fopen("/proc/cpuinfo", "r");
	char line[512];
	snprintf(out, 128, "unknown");
	while (f && fgets(line, sizeof line, f)) {
		char *colon = strchr(line, ':');
		if (strncmp(line, "model name", 10) != 0 || !colon) continue;
		line[strcspn(line, "\n")] = 0;
		snprintf(out, 128, "%.127s", colon + 2);
		break;
	}
	if (f) fclose(f);
}

static json_t *oracle(const golden_job *j)
{
	char cpu[128];
	struct utsname u;
	cpu_name(cpu);
	memset(&u, 0, sizeof u);
	uname(&u);
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "name", "nemotron.c", "version", nh_version_text(), "arm",
	    j->info.arm, "profile", j->info.numerics, "formats", j->info.formats, "kv_dtype", j->info.kv_dtype, "cpu", cpu, "machine",
	    u.machine, "identity", j->info.identity);
}

static json_t *numerics(const golden_job *j)
{
	nh_profile p;
	for (size_t i = 0; nh_profile_at(i, &p, sizeof p); i++)
		if (strcmp(p.name, j->info.numerics) == 0)
			return json_pack("{s:s, s:s, s:s, s:s, s:s}", "rounding", p.rounding, "w4a4", p.w4a4, "fp8_attention", p.fp8_attention,
			    "fp8_sums", p.fp8_sums, "router_weight", p.router_weight);
	return json_object();
}

/* SHA-256 of what the tokens depend on: the configuration, the tokeniser and the tensors. */
static nh_status digests(golden_job *j, json_t **out, nh_error *e)
{
	*out = json_object();
	for (size_t i = 0; i < nh_model_file_count(j->model); i++) {
		const char *name = nh_model_file_name(j->model, i), *dot = strrchr(name, '.');
		bool tensors = dot && strcmp(dot, ".safetensors") == 0;
		char hex[65];
		if (!tensors && strcmp(name, "config.json") != 0 && strcmp(name, "tokenizer.json") != 0) continue;
		TRY(nh_model_file_sha256(j->model, i, hex, cmd_progress_show, &j->progress, e));
		json_object_set_new(*out, name, json_string(hex));
	}
	cmd_progress_clear(&j->progress);
	return NH_OK;
}

static void cancel(void *request) { nh_request_cancel(request); }

static void add_token(const nh_event *ev, json_t *ids, json_t *topk, json_t *margins)
{
	json_t *list = json_array();
	for (size_t k = 0; k < ev->top_count; k++) json_array_append_new(list, json_pack("[i, f]", ev->top[k].id, ev->top[k].logprob));
	json_array_append_new(ids, json_integer(ev->token));
	json_array_append_new(topk, list);
	json_array_append_new(margins, json_real(ev->margin));
}

static nh_status entry(golden_job *j, const char *path, const char *name, const int32_t *prompt, size_t count, json_t *entries, nh_error *e)
{
	nh_request_options o;
	nh_request *r;
	nh_event ev;
	nh_request_options_init(&o, sizeof o);
	o.prompt = prompt;
	o.prompt_tokens = count;
	o.max_tokens = j->tokens;
	o.ignore_end = j->ignore_end;
	o.top_logprobs = j->top;
	nh_status s = nh_engine_submit(j->engine, &o, &r, e);
	if (s != NH_OK) return err_prefix(e, s, "%s: %s", path, name);
	cmd_on_interrupt(cancel, r);
	json_t *ids = json_array(), *topk = json_array(), *margins = json_array();
	do {
		s = nh_request_next(r, &ev, sizeof ev, -1);
		if (s == NH_OK && ev.type == NH_EVENT_TOKEN) add_token(&ev, ids, topk, margins);
		if (s == NH_OK && ev.type == NH_EVENT_ERROR) s = ERR(e, (nh_status)ev.error.code, "%s: %s: %s", path, name, ev.error.text);
	} while (s == NH_OK && ev.type != NH_EVENT_DONE);
	if (s == NH_OK && ev.finish == NH_FINISH_CANCELLED) s = ERR(e, NH_ERR_CANCELLED, "cancelled");
	cmd_on_interrupt(NULL, NULL);
	nh_request_release(r);
	json_t *given = json_array();
	for (size_t i = 0; i < count; i++) json_array_append_new(given, json_integer(prompt[i]));
	json_array_append_new(
	    entries, json_pack("{s:s, s:o, s:o, s:s, s:o, s:o}", "name", name, "prompt_token_ids", given, "token_ids", ids, "finish_reason",
	                 s == NH_OK && ev.finish == NH_FINISH_END ? "stop" : "length", "topk", topk, "top2_margin", margins));
	return s;
}

/* One prompt of the input: ids, or raw text for the model's tokeniser. */
static nh_status prompt_ids(golden_job *j, const json_t *p, const char *path, size_t index, int32_t **ids, size_t *count, nh_error *e)
{
	const json_t *list = json_object_get(p, "prompt_token_ids");
	const char *text = json_string_value(json_object_get(p, "prompt"));
	if (!list && text) return nh_tokenize(nh_model_tokenizer(j->model), text, strlen(text), NH_TOKENIZE_SPECIAL, ids, count, e);
	*count = json_array_size(list);
	if (*count == 0)
		return ERR(e, NH_ERR_FORMAT, "%s: prompt %zu: expected prompt_token_ids (a list of ids) or prompt (a text)", path, index);
	*ids = mem_array(*count, sizeof **ids);
	if (!*ids) return ERR_NOMEM(e);
	for (size_t i = 0; i < *count; i++) {
		const json_t *v = json_array_get(list, i);
		if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > INT32_MAX)
			return ERR(e, NH_ERR_FORMAT, "%s: prompt %zu: prompt_token_ids[%zu]: expected a token id", path, index, i);
		(*ids)[i] = (int32_t)json_integer_value(v);
	}
	return NH_OK;
}

static nh_status all_entries(golden_job *j, const json_t *prompts, const char *path, json_t *entries, nh_error *e)
{
	const json_t *list = json_is_object(prompts) ? json_object_get(prompts, "prompts") : prompts;
	if (!json_is_array(list) || json_array_size(list) == 0)
		return ERR(e, NH_ERR_FORMAT, "%s: expected a list of one prompt or more, or an object with the key prompts", path);
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *p = json_array_get(list, i);
		const char *name = json_string_value(json_object_get(p, "name"));
		int32_t *ids = NULL;
		size_t count = 0;
		char number[32];
		snprintf(number, sizeof number, "%zu", i);
		nh_status s = prompt_ids(j, p, path, i, &ids, &count, e);
		if (s == NH_OK) s = entry(j, path, name ? name : number, ids, count, entries, e);
		nh_free(ids);
		TRY(s);
		cmd_progress_show(&j->progress, "prompts", i + 1, json_array_size(list));
	}
	cmd_progress_clear(&j->progress);
	return NH_OK;
}

static nh_status write_out(const char *path, json_t *document, nh_error *e)
{
	if (!path) {
		cmd_out_json(document, 0);
		return NH_OK;
	}
	char *text = json_dumps(document, JSON_COMPACT | JSON_REAL_PRECISION(12));
	json_decref(document);
	if (!text) return ERR_NOMEM(e);
	file_writer w;
	nh_status s = file_writer_open(&w, path, e);
	if (s == NH_OK) {
		file_writer_put(&w, text, strlen(text));
		file_writer_put(&w, "\n", 1);
		s = file_writer_commit(&w, e);
	}
	free(text);
	return s;
}

static nh_status make(golden_job *j, const char *model, const char *prompts_path, nh_error *e)
{
	json_t *prompts = NULL, *files = NULL, *entries = json_array();
	nh_status s = jsn_load_path(&prompts, prompts_path, JSON_LIMIT_CONFIG, e);
	/* What is called exact is judged in float64, so it is made there unless --arm says otherwise. */
	const char *asked = cmd_string(j->a, "numerics", "");
	const char *arm = strcmp(asked, "exact") == 0 || strcmp(asked, "exact-wo") == 0 ? "ref" : NULL;
	if (s == NH_OK) s = cmd_open_on(j->a, model, arm, NULL, NULL, &j->model, &j->engine, e);
	if (s == NH_OK) nh_model_get_info(j->model, &j->info, sizeof j->info);
	if (s == NH_OK) s = digests(j, &files, e);
	if (s == NH_OK) s = all_entries(j, prompts, prompts_path, entries, e);
	json_decref(prompts);
	if (s != NH_OK) {
		json_decref(files);
		json_decref(entries);
		return s;
	}
	json_t *d = json_pack("{s:s, s:o, s:o, s:{s:s}, s:{s:s, s:o}, s:{s:f, s:I, s:b, s:i, s:s}, s:o}", "schema", "nemotron-golden/1",
	    "oracle", oracle(j), "numerics", numerics(j), "gate", "kind", "distance", "model", "name", j->info.name, "files", files, "sampling",
	    "temperature", 0.0, "max_tokens", (json_int_t)j->tokens, "ignore_eos", j->ignore_end, "logprobs", j->top, "tie", "lowest id",
	    "entries", entries);
	return d ? write_out(cmd_string(j->a, "output", NULL), d, e) : ERR_NOMEM(e);
}

static int run(const cmd_args *a)
{
	nh_error e = {0};
	char *path = NULL;
	golden_job j = {
	    .a = a, .tokens = cmd_int(a, "tokens", 64), .top = (int32_t)cmd_int(a, "top", 5), .ignore_end = !cmd_flag(a, "stop-at-end")};
	cmd_progress_init(&j.progress, a);
	nh_status s = cmd_model_path(a, cmd_operand(a, 0), &path, &e);
	if (s == NH_OK) s = make(&j, path, cmd_operand(a, 1), &e);
	nh_engine_close(j.engine);
	nh_model_close(j.model);
	mem_free(path);
	return s == NH_OK ? CMD_OK : cmd_fail_error(a, s, &e);
}

static const cmd_option options[] = {
    {"output", 'o', CMD_STRING, "FILE", "write here, atomically (default: standard output)", 0, 0},
    {"tokens", 'n', CMD_INT, "N", "tokens to generate for each prompt (default 64)", 1, 1000000},
    {"top", 0, CMD_INT, "K", "log-probabilities listed for each token (default 5)", 1, 64},
    {"stop-at-end", 0, CMD_FLAG, NULL, "end tokens end an entry", 0, 0},
    CMD_OPTION_NUMERICS,
    CMD_OPTION_ARM,
    CMD_OPTION_KV,
    CMD_OPTION_CACHE,
    CMD_OPTION_QUIET,
    CMD_OPTION_END,
};

const cmd_def cmd_golden = {
    .name = "golden",
    .summary = "write this program's own answers as a golden file",
    .usage = "MODEL PROMPTS.json",
    .about = "PROMPTS.json is a list of {\"name\", \"prompt_token_ids\" or \"prompt\"}. The file has the schema nemotron-golden/1, greedy "
             "tokens,\n"
             "the best log-probabilities and margins of each step, and where it comes from: version, arm, profile, formats, CPU, options, "
             "digests.",
    .examples = "nemotron golden models/tiny prompts.json -o tiny.ref.json\n"
                "nemotron golden org/name prompts.json --numerics hopper --tokens 128 -o out.json\n",
    .options = options,
    .min_operands = 2,
    .max_operands = 2,
    .run = run,
};
