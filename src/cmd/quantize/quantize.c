/* SPDX-License-Identifier: Apache-2.0
 * quantize.c: the command line of the quantiser and the order of its work: look, measure, write file by file, tell. Knows options, no value of a tensor.
 * Breaks first: what is refused is refused before anything is written, and a run that stops leaves a folder that is no model and can be continued.
 */
#include <stdlib.h>
#include <string.h>

#include "base/base_file.h"
#include "base/base_json.h"
#include "base/base_mem.h"
#include "cmd/quantize/qz.h"
#include "fmt/config.h"
#include "fmt/identity.h"
#include "fmt/quant.h"
#include "nh/nh.h"

typedef struct run_data {
	const cmd_args *a;
	const char *out;
	char *in; /* own */
	qz_options o;
	st_set *set; /* own */
	qz_plan plan;
	qz_state state;
	jobs *pool; /* own */
	cmd_progress progress;
	json_t *report; /* own */
	size_t kept;    /* files of an earlier run */
} run_data;

static nh_status join(const char *dir, const char *name, char **out, nh_error *e)
{
	*out = path_join(dir, name);
	return *out != NULL ? NH_OK : ERR_NOMEM(e);
}

/* A BF16 checkpoint of the family, and nothing that is quantised already. */
static nh_status look(run_data *r, nh_error *e)
{
	logger log = {.fn = cmd_log, .user = (void *)(uintptr_t)r->a, .level = NH_LOG_NOTICE};
	char *config = NULL, *hf = NULL;
	json_t *doc = NULL;
	quant_config *q = NULL;
	nh_status s = join(r->in, "config.json", &config, e);
	if (s == NH_OK) s = join(r->in, "hf_quant_config.json", &hf, e);
	if (s == NH_OK) s = config_load(&doc, config, e);
	if (s == NH_OK) s = quant_load(&q, doc, config, hf, e);
	if (s == NH_OK && quant_source(q) != NULL)
		s = ERR(e, NH_ERR_CONFIG, "%s: says that the checkpoint is quantised already (%s%s): quantise from the original in BF16",
		    quant_source(q), quant_algorithm(q), quant_kv(q) == NUM_E4M3 ? ", FP8 keys and values" : "");
	if (s == NH_OK) s = st_set_open(&r->set, r->in, &log, e);
	if (s == NH_OK) s = qz_plan_open(&r->plan, r->set, &r->o, e);
	if (s == NH_OK) s = nh_version_check(NH_VERSION, e);
	quant_close(q);
	json_decref(doc);
	mem_free(config);
	mem_free(hf);
	return s;
}

/* What a later run must have in common with this one to write the same bytes. */
static nh_status facts(run_data *r, json_t **out, nh_error *e)
{
	static const char *const formats[] = {[QZ_FP8] = "fp8", [QZ_NVFP4] = "nvfp4", [QZ_MIXED] = "mixed"};
	char identity[65], text[65] = "";
	char *config = NULL, *tokenizer = NULL;
	nh_status s = join(r->in, "config.json", &config, e);
	if (s == NH_OK) s = join(r->in, "tokenizer.json", &tokenizer, e);
	if (s == NH_OK)
		s = identity_compute(config, file_exists(tokenizer) ? tokenizer : NULL, r->set, cmd_progress_show, &r->progress, identity, e);
	if (s == NH_OK && r->o.calib != NULL) s = file_sha256(r->o.calib, text, cmd_progress_show, &r->progress, e);
	cmd_progress_clear(&r->progress);
	if (s == NH_OK) {
		*out = json_pack("{s:s, s:i, s:s, s:s, s:b, s:b, s:s, s:I}", "by", QZ_PRODUCER, "revision", QZ_REVISION, "source", identity,
		    "format", formats[r->o.format], "weight_only", r->o.weight_only, "kv_fp8", r->o.kv_fp8, "calibration_sha256", text,
		    "calibration_tokens", (json_int_t)(r->o.calib != NULL ? r->o.calib_tokens : 0));
		if (*out == NULL) s = ERR_NOMEM(e);
	}
	mem_free(config);
	mem_free(tokenizer);
	return s;
}

/* The state: what an earlier run has measured, or a measurement now. The folder exists afterwards. */
static nh_status measure(run_data *r, nh_error *e)
{
	json_t *f = NULL;
	size_t count = r->o.calib != NULL ? (size_t)r->plan.layer_count * QZ_SITES : 0;
	TRY(facts(r, &f, e));
	TRY(qz_state_open(&r->state, r->out, f, cmd_flag(r->a, "resume"), count, e));
	if (count > 0 && r->state.amax == NULL) {
		r->state.amax = mem_array(count, sizeof *r->state.amax);
		if (r->state.amax == NULL) return ERR_NOMEM(e);
		TRY(qz_calibrate(r->a, r->in, &r->plan, r->pool, r->state.amax, &r->state.tokens, e));
	}
	return qz_state_save(&r->state, e);
}

/* A source without an index has one file, whatever it is called; the result's has the name that every reader looks for. */
static nh_status file_path(const run_data *r, size_t i, char **path, nh_error *e)
{
	char *index = NULL;
	TRY(join(r->in, ST_INDEX_NAME, &index, e));
	const char *name = file_exists(index) ? path_base(st_file_path(st_set_file(r->set, i))) : ST_SINGLE_NAME;
	mem_free(index);
	return join(r->out, name, path, e);
}

static uint64_t bytes_of(const run_data *r, const st_file *f)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < st_set_count(r->set); i++)
		if (st_set_file_of(r->set, i) == f) bytes += st_set_at(r->set, i)->bytes;
	return bytes;
}

static nh_status write_files(run_data *r, nh_error *e)
{
	qz_writing w = {.a = r->a, .plan = &r->plan, .amax = r->state.amax, .pool = r->pool, .progress = &r->progress};
	for (size_t i = 0; i < st_set_files(r->set); i++) {
		char *path = NULL;
		TRY(file_path(r, i, &path, e));
		nh_status s = NH_OK;
		if (file_exists(path)) { /* a file has its name only when it is whole */
			r->kept++;
			w.done += 2 * bytes_of(r, st_set_file(r->set, i));
		} else s = qz_shard(&w, i, path, e);
		mem_free(path);
		if (s != NH_OK) return s;
	}
	cmd_progress_clear(&r->progress);
	TRY(qz_copy_rest(r->in, r->out, e));
	TRY(qz_documents(&r->plan, r->in, r->out, e));
	qz_state_finish(&r->state);
	return NH_OK;
}

/* Figures for --report and for the terminal. */
static nh_status judge(run_data *r, nh_error *e)
{
	const char *path = cmd_string(r->a, "report", NULL), *text = cmd_string(r->a, "eval", r->o.calib);
	json_t *weights = NULL, *quality = NULL;
	if (path == NULL && !cmd_given(r->a, "eval")) return NH_OK;
	TRY(qz_weight_report(&r->plan, r->out, r->pool, &weights, e));
	r->report = json_pack("{s:s, s:s, s:s, s:O, s:o}", "schema", "nemotron-quantize-report/1", "source", r->in, "result", r->out, "options",
	    r->state.facts, "weights", weights);
	json_object_set_new(r->report, "calibration_tokens_read", json_integer((json_int_t)r->state.tokens));
	if (text != NULL) TRY(qz_quality(r->a, r->in, r->out, text, cmd_int(r->a, "eval-tokens", 2048), &quality, e));
	if (quality != NULL)
		json_object_set_new(quality, "same_text_as_calibration", json_boolean(r->o.calib != NULL && strcmp(text, r->o.calib) == 0));
	json_object_set_new(r->report, "quality", quality != NULL ? quality : json_null());
	if (path == NULL) return NH_OK;
	char *words = json_dumps(r->report, JSON_INDENT(1));
	file_writer w;
	nh_status s = words != NULL ? file_writer_open(&w, path, e) : ERR_NOMEM(e);
	if (s == NH_OK) {
		file_writer_put(&w, words, strlen(words));
		file_writer_put(&w, "\n", 1);
		s = file_writer_commit(&w, e);
	}
	free(words);
	return s;
}

static double at(const json_t *o, const char *a, const char *b) { return json_number_value(json_object_get(json_object_get(o, a), b)); }

static void tell(const run_data *r)
{
	cmd_outf("%s: %zu matrices quantised", r->out, r->plan.quantised);
	if (r->plan.odd > 0) cmd_outf(", %zu left in BF16 because 16 does not divide their columns", r->plan.odd);
	if (r->kept > 0) cmd_outf(", %zu of %zu files were there already", r->kept, st_set_files(r->set));
	cmd_outf("\n");
	if (r->report == NULL) return;
	const json_t *weights = json_object_get(r->report, "weights"), *q = json_object_get(r->report, "quality");
	char from[32], to[32];
	cmd_bytes_text((uint64_t)json_integer_value(json_object_get(weights, "source_bytes")), from);
	cmd_bytes_text((uint64_t)json_integer_value(json_object_get(weights, "bytes")), to);
	cmd_outf("weights   %s to %s, relative error %.5f, worst %.5f (%s)\n", from, to,
	    json_number_value(json_object_get(weights, "relative_error")), at(weights, "worst", "relative_error"),
	    json_string_value(json_object_get(json_object_get(weights, "worst"), "module")));
	if (!json_is_object(q)) return;
	cmd_outf("log-loss  %.6f, the source has %.6f, over %lld tokens of %s%s\n", at(q, "result", "nll_mean"), at(q, "source", "nll_mean"),
	    (long long)json_integer_value(json_object_get(q, "scored")), json_string_value(json_object_get(q, "text")),
	    json_is_true(json_object_get(q, "same_text_as_calibration")) ? ", which was the calibration text too" : "");
	cmd_outf("KL        %.6f nat a token, standard error %.6f, largest %.4f; the best token is the same at %.2f %%\n", at(q, "kl", "mean"),
	    at(q, "kl", "standard_error"), at(q, "kl", "largest"), 100 * json_number_value(json_object_get(q, "same_best_token")));
}

static nh_status work(run_data *r, nh_error *e)
{
	TRY(cmd_model_path(r->a, cmd_operand(r->a, 0), &r->in, e));
	TRY(look(r, e));
	TRY(jobs_create(&r->pool, (int)cmd_int(r->a, "threads", 0), e));
	TRY(measure(r, e));
	nh_status s = write_files(r, e);
	cmd_progress_clear(&r->progress);
	if (s != NH_OK) {
		cmd_note(r->a, "%s is not finished; the same command with --resume continues it", r->out);
		return s;
	}
	return judge(r, e);
}

/* Empty where the options go together, else why not. */
static const char *choose(const cmd_args *a, qz_options *o)
{
	const char *format = cmd_string(a, "format", ""), *kv = cmd_string(a, "kv-cache", "auto");
	*o = (qz_options){.format = strcmp(format, "fp8") == 0     ? QZ_FP8
	                            : strcmp(format, "mixed") == 0 ? QZ_MIXED
	                                                           : QZ_NVFP4,
	    .weight_only = cmd_flag(a, "weight-only"),
	    .calib = cmd_string(a, "calibration", NULL),
	    .calib_tokens = cmd_int(a, "calibration-tokens", 4096)};
	if (format[0] == '\0') return "--format is missing: fp8, nvfp4 or mixed";
	if (o->weight_only && o->format != QZ_NVFP4) return "--weight-only goes with --format nvfp4; FP8 layers quantise their input";
	if (o->calib == NULL && o->format != QZ_NVFP4)
		return "--calibration is missing: FP8 layers quantise their input with a scale that only a text can give";
	if (o->calib == NULL && strcmp(kv, "fp8") == 0)
		return "--kv-cache fp8 needs --calibration: the scales of keys and values come from a text";
	if (o->calib != NULL && strcmp(o->calib, "-") == 0) return "--calibration needs a file: a run that is resumed reads it again";
	if (o->calib == NULL) o->weight_only = true;
	o->kv_fp8 = o->calib != NULL && strcmp(kv, "bf16") != 0;
	return "";
}

static int run(const cmd_args *a)
{
	nh_error e = {0};
	run_data r = {.a = a, .out = cmd_operand(a, 1)};
	const char *wrong = choose(a, &r.o);
	if (wrong[0] != '\0') return cmd_bad_usage(a, "%s", wrong);
	cmd_progress_init(&r.progress, a);
	cmd_on_interrupt(NULL, NULL);
	const char *eval = cmd_string(a, "eval", "-");
	if (strcmp(eval, "-") != 0 && !file_exists(eval)) return cmd_fail(a, "%s: is not there", eval); /* not at the end of a long run */
	if (r.o.calib == NULL && !cmd_flag(a, "weight-only"))
		cmd_note(a, "no --calibration: only weights are quantised (W4A16_NVFP4), activations, keys and values stay BF16");
	nh_status s = work(&r, &e);
	cmd_progress_clear(&r.progress);
	if (s == NH_OK) tell(&r);
	jobs_destroy(r.pool);
	qz_state_close(&r.state);
	qz_plan_close(&r.plan);
	st_set_close(r.set);
	json_decref(r.report);
	mem_free(r.in);
	return s == NH_OK ? CMD_OK : cmd_fail_error(a, s, &e);
}

static const cmd_option options[] = {
    {"format", 'f', CMD_CHOICE, "fp8|nvfp4|mixed", "what the matrices become (see above)", 0, 0},
    {"calibration", 0, CMD_STRING, "TEXT", "a text file that the source model reads, for the scales of activations, keys and values", 0, 0},
    {"calibration-tokens", 0, CMD_INT, "N", "at most so many of its tokens (default 4096)", 2, 1e9},
    {"weight-only", 0, CMD_FLAG, NULL, "nvfp4 without input scales even with a calibration text (W4A16_NVFP4)", 0, 0},
    {"kv-cache", 0, CMD_CHOICE, "auto|fp8|bf16", "keys and values: auto is fp8 with a calibration text, else bf16", 0, 0},
    {"report", 0, CMD_STRING, "FILE", "write the quality report, JSON: errors by layer and role, log-loss, KL divergence", 0, 0},
    {"eval", 0, CMD_STRING, "TEXT", "the text of log-loss and KL (default: the calibration text)", 0, 0},
    {"eval-tokens", 0, CMD_INT, "N", "at most so many of its tokens (default 2048)", 2, 1e9},
    {"threads", 't', CMD_INT, "N", "threads that quantise (default: one a processor); changes no byte", 1, 1024},
    {"resume", 0, CMD_FLAG, NULL, "go on in a folder in which the same command was stopped", 0, 0},
    CMD_OPTION_CACHE,
    CMD_OPTION_QUIET,
    CMD_OPTION_END,
};

const cmd_def cmd_quantize = {
    .name = "quantize",
    .summary = "makes an FP8, NVFP4 or mixed checkpoint of a BF16 one",
    .usage = "IN OUT",
    .about = "Reads the BF16 checkpoint IN and writes the folder OUT in the layout of the published quantised releases.\n"
             "  fp8    Mamba, expert and dense matrices in FP8 with one scale each, as Nano FP8; needs --calibration\n"
             "  nvfp4  the same matrices in NVFP4, as Nano NVFP4; without --calibration weight-only (W4A16_NVFP4)\n"
             "  mixed  Mamba in FP8; experts, dense layers and head in weight-only NVFP4, as 3.5 Lightning; needs --calibration\n"
             "Attention, router, convolution, norms, embeddings and the MTP block stay as they are; in fp8 and nvfp4 so does, as\n"
             "published, the Mamba layer right before attention in a model with experts. Nothing that was written is half a file, and OUT\n"
             "has its config.json only when it is complete.",
    .examples = "nemotron quantize my-bf16 my-nvfp4 --format nvfp4\n"
                "nemotron quantize my-bf16 my-mixed --format mixed --calibration text.txt --report report.json --eval other.txt\n"
                "nemotron quantize my-bf16 my-mixed --format mixed --calibration text.txt --resume\n",
    .options = options,
    .min_operands = 2,
    .max_operands = 2,
    .run = run,
};
