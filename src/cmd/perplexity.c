/* SPDX-License-Identifier: Apache-2.0
 * perplexity.c: how well a model foretells a text: the mean negative log-probability of its tokens, and the exponential of that, with the terms that
 * say what was counted. Prefill form: the text is given, nothing is drawn.
 * Breaks first: two numbers may be compared only where tokens, context and stride are the same, so all three are always told.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base_clock.h"
#include "base/base_mem.h"
#include "cmd/cmd_open.h"
#include "cmd/cmd_score.h"

#define CONTEXT 2048 /* unless the model or the text has less */

typedef struct totals {
	int64_t scored;
	double nll, squares; /* nats */
	json_t *list;        /* own: [position, token, logprob] each; NULL: not wanted */
} totals;

static void add(void *user, int64_t position, int32_t token, double logprob)
{
	totals *t = user;
	t->scored++;
	t->nll -= logprob;
	t->squares += logprob * logprob;
	if (t->list != NULL) json_array_append_new(t->list, json_pack("[I, i, f]", (json_int_t)position, (int)token, logprob));
}

typedef struct job {
	const cmd_args *a;
	const char *file;
	nh_model *model;
	nh_engine *engine;
	nh_model_info info;
	int32_t *ids; /* own */
	int64_t tokens, context, stride, windows;
	uint64_t bytes;
	int64_t us;
	totals t;
} job;

/* JSON has no infinity: a token that the model rules out makes these null. */
static json_t *real(double v) { return isfinite(v) ? json_real(v) : json_null(); }

static int tell(const job *j)
{
	double n = (double)j->t.scored, mean = j->t.nll / n, ppl = exp(mean);
	double spread = j->t.scored > 1 ? sqrt(fmax(0, j->t.squares / n - mean * mean) / (n - 1)) : 0;
	bool text = !cmd_flag(j->a, "ids");
	double bits_byte = j->t.nll / log(2) / (double)j->bytes;
	bool whole = !cmd_given(j->a, "max-tokens"); /* else the bytes are not those of the tokens */
	if (cmd_flag(j->a, "json")) {
		json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "model", j->info.path, "arm", j->info.arm,
		    "numerics", j->info.numerics, "kv_dtype", j->info.kv_dtype, "file", j->file, "tokens", (json_int_t)j->tokens, "scored",
		    (json_int_t)j->t.scored, "excluded", (json_int_t)(j->tokens - j->t.scored), "windows", (json_int_t)j->windows, "context",
		    (json_int_t)j->context, "stride", (json_int_t)j->stride);
		json_object_set_new(o, "nll_sum", real(j->t.nll));
		json_object_set_new(o, "nll_mean", real(mean));
		json_object_set_new(o, "nll_standard_error", real(spread));
		json_object_set_new(o, "perplexity", real(ppl));
		json_object_set_new(o, "bits_per_byte", text && whole ? real(bits_byte) : json_null());
		json_object_set_new(o, "seconds", json_real((double)j->us / 1e6));
		if (j->t.list != NULL) json_object_set(o, "logprobs", j->t.list);
		cmd_out_json(o, 2);
		return CMD_OK;
	}
	cmd_outf(
	    "model       %s (arm %s (%s), profile %s, KV %s)\n", j->info.path, j->info.arm, j->info.tier, j->info.numerics, j->info.kv_dtype);
	cmd_outf("tokens      %lld, scored %lld, not scored %lld: %s\n", (long long)j->tokens, (long long)j->t.scored,
	    (long long)(j->tokens - j->t.scored), j->stride < j->context ? "the first of the text" : "the first of each window");
	cmd_outf(
	    "windows     %lld of at most %lld tokens, one each %lld\n", (long long)j->windows, (long long)j->context, (long long)j->stride);
	cmd_outf("log-loss    %.6f nat a token, standard error %.6f; sum %.6f\n", mean, spread, j->t.nll);
	if (text && whole) cmd_outf("per byte    %.6f bit\n", bits_byte);
	cmd_outf("perplexity  %.6f\n", ppl);
	cmd_outf(
	    "time        %.2f s, %.1f tokens/s, loading excluded\n", (double)j->us / 1e6, (double)j->tokens / fmax(1e-6, (double)j->us / 1e6));
	return CMD_OK;
}

/* The windows, from options, model and text. */
static nh_status sizes(job *j, nh_error *e)
{
	int64_t most = j->info.max_context;
	j->context = cmd_int(j->a, "context", most < CONTEXT ? most : CONTEXT);
	if (j->context > most) return ERR(e, NH_ERR_ARG, "--context: is %lld, the model has %lld", (long long)j->context, (long long)most);
	j->stride = cmd_int(j->a, "stride", j->context);
	if (j->stride > j->context)
		return ERR(e, NH_ERR_ARG, "--stride: is %lld, more than the context of %lld: tokens between would be left out",
		    (long long)j->stride, (long long)j->context);
	j->windows = score_windows(j->tokens, j->context, j->stride);
	if (j->windows == 0)
		return ERR(
		    e, NH_ERR_ARG, "%s: has %lld tokens, expected at least 2: the first has nothing before it", j->file, (long long)j->tokens);
	return NH_OK;
}

static nh_status measure(job *j, const char *path, nh_error *e)
{
	nh_engine_options eo;
	cmd_progress progress;
	cmd_progress_init(&progress, j->a);
	TRY(cmd_open(j->a, path, NULL, NULL, &j->model, NULL, e));
	nh_model_get_info(j->model, &j->info, sizeof j->info);
	TRY(score_read(j->model, j->file, cmd_flag(j->a, "ids"), cmd_int(j->a, "max-tokens", 0), &j->ids, &j->tokens, &j->bytes, e));
	TRY(sizes(j, e));
	nh_engine_options_init(&eo, sizeof eo);
	eo.max_context = j->context;
	eo.max_sequences = 1;
	TRY(nh_engine_open(&j->engine, j->model, &eo, e));
	score_job sj = {.ids = j->ids,
	    .tokens = j->tokens,
	    .context = j->context,
	    .stride = j->stride,
	    .fn = add,
	    .user = &j->t,
	    .progress = cmd_progress_show,
	    .progress_user = &progress};
	int64_t start = clock_us();
	nh_status s = score_run(j->engine, &sj, e);
	j->us = clock_us() - start;
	cmd_progress_clear(&progress);
	return s;
}

static int run(const cmd_args *a)
{
	nh_error e = {0};
	char *path = NULL;
	job j = {.a = a, .file = cmd_operand(a, 1)};
	if (cmd_flag(a, "logprobs") && !cmd_flag(a, "json")) return cmd_bad_usage(a, "--logprobs needs --json");
	if (cmd_flag(a, "logprobs")) j.t.list = json_array();
	nh_status s = cmd_model_path(a, cmd_operand(a, 0), &path, &e);
	if (s == NH_OK) s = measure(&j, path, &e);
	int status = s == NH_OK ? tell(&j) : s == NH_ERR_ARG ? cmd_bad_usage(a, "%s", e.text) : cmd_fail_error(a, s, &e);
	nh_engine_close(j.engine);
	nh_model_close(j.model);
	nh_free(j.ids);
	json_decref(j.t.list);
	mem_free(path);
	return status;
}

static const cmd_option options[] = {
    {"context", 'c', CMD_INT, "N", "tokens a window (default: 2048, or what the model has)", 2, 1e9},
    {"stride", 0, CMD_INT, "N", "tokens from one window to the next (default: the context, so that windows do not overlap)", 1, 1e9},
    {"max-tokens", 'n', CMD_INT, "N", "only the first N tokens of the text", 2, 1e12},
    {"ids", 0, CMD_FLAG, NULL, "FILE holds token ids as decimal numbers instead of text", 0, 0},
    {"logprobs", 0, CMD_FLAG, NULL, "with --json: also [position, id, log-probability] of each scored token", 0, 0},
    CMD_OPTION_JSON,
    CMD_OPTION_NUMERICS,
    CMD_OPTION_ARM,
    CMD_OPTION_KV,
    CMD_OPTION_CACHE,
    CMD_OPTION_QUIET,
    CMD_OPTION_END,
};

const cmd_def cmd_perplexity = {
    .name = "perplexity",
    .summary = "how well a model foretells a text",
    .usage = "MODEL FILE",
    .about =
        "Gives the text (- : standard input) to the model in windows and averages the negative log-probabilities of its tokens, in\n"
        "nats; perplexity is the exponential of the mean. The text is tokenised as a whole, as it is, without a chat template. Each "
        "window\n"
        "starts from an empty state. With --stride below --context windows overlap, and a token counts in the first window that has it.\n"
        "Figures can be compared only where tokens, context and stride are the same.",
    .examples = "nemotron perplexity my-model text.txt\n"
                "nemotron perplexity my-model text.txt --context 4096 --stride 2048 --json\n"
                "nemotron tokenize my-model < text.txt | nemotron perplexity --ids my-model -\n",
    .options = options,
    .min_operands = 2,
    .max_operands = 2,
    .run = run,
};
