/* SPDX-License-Identifier: Apache-2.0
 * cmd_gen.c: see the header. Opening, drawing, prompts and what comes back; the statistics are cmd_gen_stats.c's.
 * The invariant that breaks first: an option that was not given leaves generation_config.json's word, or the library's default.
 */
#include "cmd/cmd_gen.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/base_clock.h"
#include "base/base_mem.h"
#include "base/base_rng.h"
#include "base/base_status.h"

#define BIAS_MAX 4096

/* --- opening --- */

/* "TOKEN=ADD": the last = counts, so that a token's text may hold one. */
static nh_status parse_bias(const gen *g, const char *text, nh_bias *out, nh_error *e)
{
	const char *equals = strrchr(text, '=');
	char token[256];
	int64_t id = -1;
	double add = 0;
	if (!equals || equals == text || (size_t)(equals - text) >= sizeof token)
		return ERR(e, NH_ERR_ARG, "--bias: is %.100s, expected TOKEN=ADD", text);
	snprintf(token, sizeof token, "%.*s", (int)(equals - text), text);
	if (strcmp(equals + 1, "-inf") == 0) add = -INFINITY;
	else if (!cmd_parse_real(equals + 1, &add)) return ERR(e, NH_ERR_ARG, "--bias: %.100s adds no number", text);
	if (!cmd_parse_int(token, &id)) {
		const nh_tokenizer *t = nh_model_tokenizer(g->model);
		id = t ? nh_token_find(t, token) : -1;
		if (id < 0) return ERR(e, NH_ERR_ARG, "--bias: \"%.100s\" is no token of the model", token);
	}
	if (id < 0 || id >= g->info.vocab) return ERR(e, NH_ERR_ARG, "--bias: id %" PRId64 ", expected 0 to %d", id, g->info.vocab - 1);
	*out = (nh_bias){(int32_t)id, (float)add};
	return NH_OK;
}

/* The options, else generation_config.json, else greedy. */
static nh_status drawing(gen *g, nh_error *e)
{
	const cmd_args *a = g->a;
	const char *const *bias;
	nh_sampling_defaults d;
	nh_model_get_sampling_defaults(g->model, &d, sizeof d);
	bool sampled = d.do_sample == 1 || (d.do_sample < 0 && d.temperature >= 0);
	double temperature = !sampled ? 0 : d.temperature >= 0 ? d.temperature : 1;
	g->o.temperature = cmd_real(a, "temperature", temperature);
	g->o.top_p = cmd_real(a, "top-p", d.top_p >= 0 ? d.top_p : 1);
	g->o.min_p = cmd_real(a, "min-p", d.min_p >= 0 ? d.min_p : 0);
	g->o.top_k = (int32_t)cmd_int(a, "top-k", d.top_k >= 0 ? d.top_k : 0);
	g->o.repetition_penalty = cmd_real(a, "repetition-penalty", d.repetition_penalty > 0 ? d.repetition_penalty : 1);
	g->o.presence_penalty = cmd_real(a, "presence-penalty", 0);
	g->o.frequency_penalty = cmd_real(a, "frequency-penalty", 0);
	g->o.min_tokens = cmd_int(a, "min-tokens", 0);
	g->o.max_tokens = cmd_int(a, "max-tokens", -1);
	g->o.stop_count = cmd_list(a, "stop", &g->o.stop);
	uint64_t fresh = rng_mix((uint64_t)clock_ns() ^ (uint64_t)time(NULL) << 32 ^ (uint64_t)getpid()) >> 32; /* short enough to type again */
	g->o.seed = cmd_given(a, "seed") ? (uint64_t)cmd_int(a, "seed", 0) : fresh;
	size_t n = cmd_list(a, "bias", &bias);
	if (n > BIAS_MAX) return ERR(e, NH_ERR_LIMIT, "--bias: given %zu times, at most %d", n, BIAS_MAX);
	g->bias = mem_array(n ? n : 1, sizeof *g->bias);
	if (!g->bias) return ERR_NOMEM(e);
	for (size_t i = 0; i < n; i++) TRY(parse_bias(g, bias[i], &g->bias[i], e));
	g->o.bias = g->bias;
	g->o.bias_count = n;
	return NH_OK;
}

nh_status gen_open(gen *g, const cmd_args *a, const char *model, nh_error *e)
{
	nh_engine_options eo;
	*g = (gen){.a = a};
	TRY(nh_version_check(NH_VERSION, e));
	nh_request_options_init(&g->o, sizeof g->o);
	nh_engine_options_init(&eo, sizeof eo);
	eo.max_context = cmd_int(a, "context", 0);
	eo.memory_bytes = cmd_bytes(a, "memory", 0);
	eo.draft = strcmp(cmd_string(a, "draft", "none"), "ngram") == 0 ? NH_DRAFT_NGRAM : NH_DRAFT_NONE;
	TRY(cmd_open(a, model, NULL, &eo, &g->model, &g->engine, e));
	nh_model_get_info(g->model, &g->info, sizeof g->info);
	return drawing(g, e);
}

void gen_close(gen *g)
{
	nh_engine_close(g->engine);
	nh_model_close(g->model);
	mem_free(g->bias);
	*g = (gen){0};
}

void gen_draw_text(const nh_request_options *o, char out[64])
{
	if (o->temperature > 0) snprintf(out, 64, "temperature %g, seed %" PRIu64, o->temperature, o->seed);
	else snprintf(out, 64, "greedy");
}

/* --- prompts --- */

json_t *gen_kwargs(int think)
{
	json_t *kwargs = json_object();
	if (think >= 0) json_object_set_new(kwargs, "enable_thinking", json_boolean(think));
	return kwargs;
}

static bool ends_with(const char *text, size_t len, const char *tail)
{
	size_t n = strlen(tail);
	return len >= n && memcmp(text + len - n, tail, n) == 0;
}

static nh_status render_text(const gen *g, json_t *request, char **text, size_t *len, nh_error *e)
{
	const nh_template *t = nh_model_template(g->model);
	char *json = request && t ? json_dumps(request, JSON_COMPACT) : NULL;
	json_decref(request);
	if (!t) return ERR(e, NH_ERR_NOTFOUND, "%s: has no chat template: use --raw, or --chat-template FILE", g->info.path);
	if (!json) return ERR(e, NH_ERR_ARG, "the prompt or the system message is not UTF-8 text");
	int64_t now = (int64_t)time(NULL);
	nh_status s = cmd_flag(g->a, "allow-control-text") ? nh_template_render(t, json, strlen(json), NH_TEMPLATE_ADAPT, now, text, len, e)
	                                                   : nh_template_render_marked(t, nh_model_tokenizer(g->model), json, strlen(json),
	                                                         NH_TEMPLATE_ADAPT, now, text, len, e);
	free(json);
	return s;
}

/* The template writes the control tokens, so their texts are control tokens here, but not where they are marked as a message's. */
static nh_status to_prompt(const gen *g, const char *text, size_t len, gen_prompt *out, nh_error *e)
{
	out->in_reasoning = ends_with(text, len, "<think>") || ends_with(text, len, "<think>\n");
	return nh_tokenize(nh_model_tokenizer(g->model), text, len, NH_TOKENIZE_MARKED, &out->ids, &out->count, e);
}

nh_status gen_render(const gen *g, json_t *request, gen_prompt *out, nh_error *e)
{
	char *text = NULL;
	size_t len = 0;
	*out = (gen_prompt){0};
	TRY(render_text(g, request, &text, &len, e));
	nh_status s = to_prompt(g, text, len, out, e);
	nh_free(text);
	return s;
}

/* Length of the end token's text that `text` begins with; 0: it begins with none. */
static size_t begins_with_end(const gen *g, const char *text, size_t len)
{
	const int32_t *end;
	size_t ends = nh_model_end_tokens(g->model, &end);
	for (size_t i = 0; i < ends; i++) {
		size_t n = 0;
		const char *piece = nh_token_piece(nh_model_tokenizer(g->model), end[i], &n);
		if (piece && n && n <= len && memcmp(text, piece, n) == 0) return n;
	}
	return 0;
}

static bool is_end_token(const gen *g, int32_t id)
{
	const int32_t *end;
	size_t ends = nh_model_end_tokens(g->model, &end);
	for (size_t i = 0; i < ends; i++)
		if (end[i] == id) return true;
	return false;
}

/* The made-up turn's answer: what follows it is what a next message adds. */
#define ANSWER "answer-made-up-6f1d"

nh_status gen_render_next(
    const gen *g, const char *user, size_t len, int think, const int32_t *history, size_t history_count, gen_prompt *out, nh_error *e)
{
	char *text = NULL;
	size_t text_len = 0;
	*out = (gen_prompt){0};
	if (!nh_model_tokenizer(g->model)) return ERR(e, NH_ERR_NOTFOUND, "the model has no tokenizer.json");
	json_t *message = json_pack("{s:s, s:s%}", "role", "user", "content", user, len);
	json_t *turns = message ? json_pack("[{s:s, s:s}, {s:s, s:s}, o]", "role", "user", "content", "question", "role", "assistant",
	                              "content", ANSWER, message)
	                        : NULL;
	json_t *request =
	    turns ? json_pack("{s:o, s:o, s:b}", "messages", turns, "chat_template_kwargs", gen_kwargs(think), "add_generation_prompt", 1)
	          : NULL;
	TRY(render_text(g, request, &text, &text_len, e));
	const char *rest = strstr(text, ANSWER), *stop = text + text_len;
	nh_status s = rest ? NH_OK : ERR(e, NH_ERR_TEMPLATE, "the chat template does not show earlier answers: a loaded session can not go on");
	if (s == NH_OK) {
		rest += strlen(ANSWER);
		/* A history that ends with the end token has it already; one that ends in the middle of an answer gets it first. */
		const char *end = rest + strspn(rest, " \n");
		size_t n = begins_with_end(g, end, (size_t)(stop - end));
		if (n && history_count && is_end_token(g, history[history_count - 1])) rest = end + n;
		s = to_prompt(g, rest, (size_t)(stop - rest), out, e);
	}
	nh_free(text);
	return s;
}

bool gen_in_reasoning(const gen *g, const int32_t *history, size_t count)
{
	const nh_tokenizer *t = nh_model_tokenizer(g->model);
	int32_t open = t ? nh_token_find(t, "<think>") : -1, close = t ? nh_token_find(t, "</think>") : -1;
	if (open < 0 || close < 0) return false;
	for (size_t i = count; i > 0; i--) {
		if (history[i - 1] == close) return false;
		if (history[i - 1] == open) return true;
	}
	return false;
}

/* --- what comes back --- */

void gen_dim(gen_view *v, bool on)
{
	if (v->dimmed == on || !cmd_out_is_terminal()) return;
	cmd_out(on ? "\033[2m" : "\033[0m", 4);
	v->dimmed = on;
}

void gen_show(gen_view *v, const nh_event *ev)
{
	if (ev->reasoning_bytes && !v->hide) {
		gen_dim(v, true);
		cmd_out(ev->reasoning, ev->reasoning_bytes);
		v->reasoned = true;
	}
	if (ev->content_bytes) {
		gen_dim(v, false);
		if (!v->answered && v->reasoned) cmd_out("\n\n", 2);
		cmd_out(ev->content, ev->content_bytes);
		v->answered = true;
	}
	cmd_out_flush();
}

const char *gen_finish_word(int finish)
{
	static const char *const WORDS[] = {"none", "end", "stop", "length", "context", "cancelled", "error", "deadline"};
	return finish >= 0 && finish < (int)ARRAY_LEN(WORDS) ? WORDS[finish] : "?";
}

double gen_per_second(uint64_t n, int64_t us) { return us > 0 ? (double)n * 1e6 / (double)us : 0; }
