/* SPDX-License-Identifier: Apache-2.0
 * run.c: one question, one streamed answer. The answer goes to standard output, thoughts dimmed before it on a terminal; one line about what it cost
 * goes to standard error. The invariant that breaks first: what standard output carries is the same whether it is a terminal or not, but for colour.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/base_clock.h"
#include "base/base_file.h"
#include "base/base_mem.h"
#include "base/base_rng.h"
#include "cmd/cmd.h"
#include "nh/nh.h"

#define PROMPT_LIMIT ((size_t)64 << 20)

typedef struct run_job {
	const cmd_args *a;
	nh_model *model;
	nh_engine *engine;
	nh_model_info info;
	cmd_progress progress;
	buf prompt_text; /* as given */
	int32_t *ids;    /* own (nh_free) */
	size_t id_count;
	bool in_reasoning; /* the rendered prompt opened the thought */
	nh_request_options o;
	buf reasoning, content; /* for --json */
	json_t *out_ids;
	bool dimmed, hide, json, ids_out, any_content;
} run_job;

/* --- what to ask --- */

/* One operand is the prompt, unless it is a model and the prompt comes from standard input. */
static void operands(const cmd_args *a, const char **model, const char **prompt)
{
	const char *first = cmd_operand(a, 0), *second = cmd_operand(a, 1);
	*model = cmd_string(a, "model", NULL);
	*prompt = first;
	if (second) {
		*model = first;
		*prompt = second;
	} else if (first && !*model && !isatty(STDIN_FILENO)) {
		char *config = path_join(first, "config.json");
		if (config && file_exists(config)) {
			*model = first;
			*prompt = NULL;
		}
		mem_free(config);
	}
}

static nh_status read_prompt(run_job *j, const char *prompt, nh_error *e)
{
	if (prompt) buf_str(&j->prompt_text, prompt);
	else {
		if (isatty(STDIN_FILENO)) cmd_note(j->a, "reading the prompt from the terminal; end it with Ctrl-D");
		TRY(cmd_read_input(PROMPT_LIMIT, &j->prompt_text, e));
		while (j->prompt_text.len && j->prompt_text.data[j->prompt_text.len - 1] == '\n') j->prompt_text.data[--j->prompt_text.len] = 0;
	}
	if (j->prompt_text.failed) return ERR_NOMEM(e);
	return j->prompt_text.len ? NH_OK : ERR(e, NH_ERR_ARG, "the prompt is empty");
}

/* "1 2,3" to ids. */
static nh_status parse_ids(run_job *j, nh_error *e)
{
	size_t room = j->prompt_text.len / 2 + 1;
	const char *p = j->prompt_text.data;
	j->ids = mem_array(room, sizeof *j->ids);
	if (!j->ids) return ERR_NOMEM(e);
	while (*(p += strspn(p, " ,\t\n[]"))) {
		char word[24];
		size_t n = strcspn(p, " ,\t\n[]");
		int64_t id = -1;
		snprintf(word, sizeof word, "%.*s", (int)(n < sizeof word ? n : sizeof word - 1), p);
		if (n >= sizeof word || !cmd_parse_int(word, &id) || id < 0 || id > INT32_MAX)
			return ERR(e, NH_ERR_ARG, "--ids: \"%.23s\" is no token id", word);
		j->ids[j->id_count++] = (int32_t)id;
		p += n;
	}
	return j->id_count ? NH_OK : ERR(e, NH_ERR_ARG, "--ids: the prompt holds no token id");
}

static json_t *chat_request(const run_job *j)
{
	const char *system = cmd_string(j->a, "system", NULL);
	json_t *messages = json_array(), *kwargs = json_object();
	if (system) json_array_append_new(messages, json_pack("{s:s, s:s}", "role", "system", "content", system));
	json_array_append_new(messages, json_pack("{s:s, s:s%}", "role", "user", "content", j->prompt_text.data, j->prompt_text.len));
	if (cmd_flag(j->a, "think")) json_object_set_new(kwargs, "enable_thinking", json_true());
	if (cmd_flag(j->a, "no-think")) json_object_set_new(kwargs, "enable_thinking", json_false());
	return json_pack("{s:o, s:o, s:b}", "messages", messages, "chat_template_kwargs", kwargs, "add_generation_prompt", 1);
}

static bool ends_with(const char *text, size_t len, const char *tail)
{
	size_t n = strlen(tail);
	return len >= n && memcmp(text + len - n, tail, n) == 0;
}

static nh_status render(run_job *j, nh_error *e)
{
	const nh_template *t = nh_model_template(j->model);
	if (!t) return ERR(e, NH_ERR_NOTFOUND, "%s: has no chat template: use --raw, or --chat-template FILE", j->info.path);
	json_t *request = chat_request(j);
	char *json = request ? json_dumps(request, JSON_COMPACT) : NULL, *text = NULL;
	size_t len = 0;
	json_decref(request);
	if (!json) return ERR(e, NH_ERR_ARG, "the prompt or --system is not UTF-8 text");
	nh_status s = nh_template_render(t, json, strlen(json), NH_TEMPLATE_ADAPT, (int64_t)time(NULL), &text, &len, e);
	free(json);
	if (s == NH_OK) {
		j->in_reasoning = ends_with(text, len, "<think>") || ends_with(text, len, "<think>\n");
		/* The template writes the control tokens, so their texts are control tokens here. */
		s = nh_tokenize(nh_model_tokenizer(j->model), text, len, 0, &j->ids, &j->id_count, e);
	}
	nh_free(text);
	return s;
}

static nh_status make_prompt(run_job *j, nh_error *e)
{
	if (cmd_flag(j->a, "ids")) return parse_ids(j, e);
	if (cmd_flag(j->a, "raw"))
		return nh_tokenize(
		    nh_model_tokenizer(j->model), j->prompt_text.data, j->prompt_text.len, NH_TOKENIZE_SPECIAL, &j->ids, &j->id_count, e);
	return render(j, e);
}

/* Sampling: the options, else generation_config.json, else greedy. */
static void sampling(run_job *j)
{
	const cmd_args *a = j->a;
	nh_sampling_defaults d;
	nh_model_get_sampling_defaults(j->model, &d, sizeof d);
	bool sampled = d.do_sample == 1 || (d.do_sample < 0 && d.temperature >= 0);
	double temperature = !sampled ? 0 : d.temperature >= 0 ? d.temperature : 1;
	j->o.temperature = cmd_real(a, "temperature", temperature);
	j->o.top_p = cmd_real(a, "top-p", d.top_p >= 0 ? d.top_p : 1);
	j->o.min_p = cmd_real(a, "min-p", d.min_p >= 0 ? d.min_p : 0);
	j->o.top_k = (int32_t)cmd_int(a, "top-k", d.top_k >= 0 ? d.top_k : 0);
	j->o.repetition_penalty = d.repetition_penalty > 0 ? d.repetition_penalty : 1;
	uint64_t fresh = rng_mix((uint64_t)clock_ns() ^ (uint64_t)time(NULL) << 32 ^ (uint64_t)getpid()) >> 32; /* short enough to type again */
	j->o.seed = cmd_given(a, "seed") ? (uint64_t)cmd_int(a, "seed", 0) : fresh;
}

/* --- what comes back --- */

static void dim(run_job *j, bool on)
{
	if (j->dimmed == on || !cmd_out_is_terminal()) return;
	cmd_out(on ? "\033[2m" : "\033[0m", 4);
	j->dimmed = on;
}

static void show(run_job *j, const nh_event *ev)
{
	if (j->json) {
		buf_append(&j->reasoning, ev->reasoning, ev->reasoning_bytes);
		buf_append(&j->content, ev->content, ev->content_bytes);
		if (ev->type == NH_EVENT_TOKEN) json_array_append_new(j->out_ids, json_integer(ev->token));
		return;
	}
	if (j->ids_out) {
		if (ev->type == NH_EVENT_TOKEN) cmd_outf("%s%d", j->any_content ? " " : "", ev->token);
		j->any_content |= ev->type == NH_EVENT_TOKEN;
		cmd_out_flush();
		return;
	}
	if (ev->reasoning_bytes && !j->hide) {
		dim(j, true);
		cmd_out(ev->reasoning, ev->reasoning_bytes);
		buf_append(&j->reasoning, ev->reasoning, ev->reasoning_bytes);
	}
	if (ev->content_bytes) {
		dim(j, false);
		if (!j->any_content && j->reasoning.len) cmd_out("\n\n", 2);
		cmd_out(ev->content, ev->content_bytes);
		j->any_content = true;
	}
	cmd_out_flush();
}

static const char *finish_word(int finish)
{
	static const char *const WORDS[] = {"none", "end", "stop", "length", "context", "cancelled", "error"};
	return finish >= 0 && finish < (int)ARRAY_LEN(WORDS) ? WORDS[finish] : "?";
}

static double per_second(uint64_t n, int64_t us) { return us > 0 ? (double)n * 1e6 / (double)us : 0; }

static void finish_text(run_job *j, const nh_event *ev)
{
	const nh_request_stats *s = &ev->stats;
	nh_engine_stats es;
	nh_engine_get_stats(j->engine, &es, sizeof es);
	dim(j, false);
	cmd_out("\n", 1);
	cmd_out_flush();
	uint64_t decoded = s->generated_tokens > 0 ? s->generated_tokens - 1 : 0; /* the first token comes out of the prompt */
	char drawn[64] = "greedy";
	if (j->o.temperature > 0) snprintf(drawn, sizeof drawn, "temperature %g, seed %" PRIu64, j->o.temperature, j->o.seed);
	cmd_note(j->a,
	    "%" PRIu64 " prompt + %" PRIu64 " generated tokens (%s); first token %.3f s; prefill %.0f tokens/s, decode %.0f tokens/s; %s; arm "
	    "%s, %s; reference-tier calls: %" PRIu64,
	    s->prompt_tokens, s->generated_tokens, finish_word(ev->finish), (double)s->first_token_us / 1e6,
	    per_second(s->computed_tokens, s->prefill_us), per_second(decoded, s->decode_us), drawn, j->info.arm, j->info.numerics,
	    es.reference_calls);
}

static void finish_json(run_job *j, const nh_event *ev)
{
	const nh_request_stats *s = &ev->stats;
	nh_engine_stats es;
	nh_engine_get_stats(j->engine, &es, sizeof es);
	uint64_t decoded = s->generated_tokens > 0 ? s->generated_tokens - 1 : 0;
	cmd_out_json(
	    json_pack("{s:s, s:s%, s:s%, s:O, s:s, s:{s:I, s:I, s:I}, s:{s:f, s:f, s:f, s:f}, s:{s:f, s:f, s:i, s:f, s:I}, s:s, s:s, s:I}",
	        "model", j->info.name, "reasoning", j->reasoning.data ? j->reasoning.data : "", j->reasoning.len, "content",
	        j->content.data ? j->content.data : "", j->content.len, "token_ids", j->out_ids, "finish_reason", finish_word(ev->finish),
	        "usage", "prompt_tokens", (json_int_t)s->prompt_tokens, "completion_tokens", (json_int_t)s->generated_tokens,
	        "reasoning_tokens", (json_int_t)s->reasoning_tokens, "timings", "first_token_seconds", (double)s->first_token_us / 1e6,
	        "prefill_tokens_per_second", per_second(s->computed_tokens, s->prefill_us), "decode_tokens_per_second",
	        per_second(decoded, s->decode_us), "total_seconds", (double)s->total_us / 1e6, "sampling", "temperature", j->o.temperature,
	        "top_p", j->o.top_p, "top_k", j->o.top_k, "min_p", j->o.min_p, "seed", (json_int_t)j->o.seed, "arm", j->info.arm, "numerics",
	        j->info.numerics, "reference_calls", (json_int_t)es.reference_calls),
	    2);
}

static void cancel(void *request) { nh_request_cancel(request); }

static nh_status generate(run_job *j, nh_error *e)
{
	nh_request *r;
	nh_event ev;
	j->o.prompt = j->ids;
	j->o.prompt_tokens = j->id_count;
	j->o.max_tokens = cmd_int(j->a, "max-tokens", -1);
	j->o.stop_count = cmd_list(j->a, "stop", &j->o.stop);
	j->o.text = true;
	j->o.skip_special = !cmd_flag(j->a, "raw");
	j->o.split_reasoning = !cmd_flag(j->a, "raw") && !cmd_flag(j->a, "ids");
	j->o.starts_in_reasoning = j->in_reasoning;
	TRY(nh_engine_submit(j->engine, &j->o, &r, e));
	cmd_on_interrupt(cancel, r);
	nh_status s;
	do {
		s = nh_request_next(r, &ev, sizeof ev, -1);
		if (s == NH_OK) show(j, &ev);
		if (s == NH_OK && ev.type == NH_EVENT_ERROR) s = ERR(e, (nh_status)ev.error.code, "%s", ev.error.text);
	} while (s == NH_OK && ev.type != NH_EVENT_DONE);
	cmd_on_interrupt(NULL, NULL);
	if (s == NH_OK && j->json) finish_json(j, &ev);
	else if (s == NH_OK) finish_text(j, &ev);
	dim(j, false);
	nh_request_release(r);
	return s;
}

static nh_status open_all(run_job *j, const char *model, nh_error *e)
{
	nh_model_options mo;
	nh_engine_options eo;
	char *cache = cmd_cache_root(j->a);
	nh_model_options_init(&mo, sizeof mo);
	nh_engine_options_init(&eo, sizeof eo);
	mo.cache_root = cache;
	mo.arm = cmd_string(j->a, "arm", NULL);
	mo.numerics = cmd_string(j->a, "numerics", NULL);
	mo.kv_dtype = cmd_string(j->a, "kv-dtype", NULL);
	mo.chat_template = cmd_string(j->a, "chat-template", NULL);
	mo.check = cmd_flag(j->a, "check");
	mo.log = cmd_log;
	mo.log_user = (void *)(uintptr_t)j->a;
	mo.log_level = NH_LOG_NOTICE;
	mo.progress = cmd_progress_show;
	mo.progress_user = &j->progress;
	eo.max_context = cmd_int(j->a, "context", 0);
	nh_status s = nh_model_open(&j->model, model, &mo, e);
	cmd_progress_clear(&j->progress);
	mem_free(cache);
	TRY(s);
	nh_model_get_info(j->model, &j->info, sizeof j->info);
	return nh_engine_open(&j->engine, j->model, &eo, e);
}

static int run(const cmd_args *a)
{
	nh_error e = {0};
	run_job j = {
	    .a = a, .json = cmd_flag(a, "json"), .hide = cmd_flag(a, "hide-reasoning"), .ids_out = cmd_flag(a, "ids"), .out_ids = json_array()};
	const char *model, *prompt;
	char *path = NULL;
	if (cmd_flag(a, "think") && cmd_flag(a, "no-think")) return cmd_bad_usage(a, "--think and --no-think exclude each other");
	cmd_progress_init(&j.progress, a);
	nh_request_options_init(&j.o, sizeof j.o);
	operands(a, &model, &prompt);
	nh_status s = read_prompt(&j, prompt, &e);
	if (s == NH_OK) s = cmd_model_path(a, model, &path, &e);
	if (s == NH_OK) s = open_all(&j, path, &e);
	if (s == NH_OK) s = make_prompt(&j, &e);
	if (s == NH_OK) {
		sampling(&j);
		s = generate(&j, &e);
	}
	nh_engine_close(j.engine);
	nh_model_close(j.model);
	nh_free(j.ids);
	buf_deinit(&j.prompt_text);
	buf_deinit(&j.reasoning);
	buf_deinit(&j.content);
	json_decref(j.out_ids);
	mem_free(path);
	return s == NH_OK ? CMD_OK : cmd_fail_error(a, s, &e);
}

static const cmd_option options[] = {
    {"model", 'm', CMD_STRING, "MODEL", "folder, cache snapshot or org/name (default: the built-in model)", 0, 0},
    {"raw", 0, CMD_FLAG, NULL, "continue the text; no chat template", 0, 0},
    {"ids", 0, CMD_FLAG, NULL, "the prompt is token ids, and so is the answer", 0, 0},
    {"system", 's', CMD_STRING, "TEXT", "system message", 0, 0},
    {"think", 0, CMD_FLAG, NULL, "let the model think first (the template's default where it has one)", 0, 0},
    {"no-think", 0, CMD_FLAG, NULL, "answer at once", 0, 0},
    {"hide-reasoning", 0, CMD_FLAG, NULL, "do not show thoughts", 0, 0},
    {"max-tokens", 'n', CMD_INT, "N", "tokens to generate at most (default: until an end)", 1, 1e9},
    {"temperature", 't', CMD_REAL, "T", "0 is greedy (default: generation_config.json, else 0)", 0, 100},
    {"top-p", 0, CMD_REAL, "P", "smallest set of tokens whose probabilities reach P", 1e-9, 1},
    {"top-k", 0, CMD_INT, "K", "the K most likely tokens; 0 is all", 0, 1e9},
    {"min-p", 0, CMD_REAL, "P", "tokens at least P times as likely as the best", 0, 1},
    {"seed", 0, CMD_INT, "N", "of the draws (default: a fresh one, shown at the end)", 0, 9e15},
    {"stop", 0, CMD_LIST, "TEXT", "end the answer before this text; may be repeated", 0, 0},
    {"context", 0, CMD_INT, "N", "tokens a sequence may have", 1, 1e9},
    {"numerics", 0, CMD_STRING, "PROFILE", "exact, exact-wo, portable or hopper (default: the arm's)", 0, 0},
    {"kv-dtype", 0, CMD_CHOICE, "auto|bf16|fp8", "storage of keys and values (default auto: the checkpoint's)", 0, 0},
    {"arm", 0, CMD_STRING, "NAME", "who computes", 0, 0},
    {"chat-template", 0, CMD_STRING, "FILE", "instead of the model's own", 0, 0},
    {"check", 0, CMD_FLAG, NULL, "check the contract of every op while running (slow)", 0, 0},
    CMD_OPTION_JSON,
    CMD_OPTION_CACHE,
    CMD_OPTION_QUIET,
    CMD_OPTION_END,
};

const cmd_def cmd_run = {
    .name = "run",
    .summary = "ask a model one question and stream the answer",
    .usage = "[MODEL] [PROMPT]",
    .about = "Without MODEL the built-in model answers. Without PROMPT it is read from standard input.\n"
             "The answer goes to standard output; thoughts are dimmed on a terminal; one line about speed goes to standard error.",
    .examples = "nemotron run \"What is a dog?\"\n"
                "nemotron run org/name \"Explain state space models\" --no-think --temperature 0\n"
                "echo \"courage, noun. 1.\" | nemotron run --raw -n 40\n"
                "nemotron run --ids \"98 3177 464\" -n 8 --json\n",
    .options = options,
    .min_operands = 0,
    .max_operands = 2,
    .run = run,
};
