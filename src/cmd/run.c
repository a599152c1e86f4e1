/* SPDX-License-Identifier: Apache-2.0
 * run.c: one question, one streamed answer (or several of them). The answer goes to standard output, thoughts dimmed before it on a terminal; one line
 * about what it cost goes to standard error. A session can be continued and kept; its file is written when the answer has ended.
 * The invariant that breaks first: what standard output carries is the same whether it is a terminal or not, but for colour.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base_file.h"
#include "base/base_mem.h"
#include "cmd/cmd_gen.h"

#define PROMPT_LIMIT ((size_t)64 << 20)
#define CHOICES_MAX 256

/* What one choice said; the only one is shown as it comes. */
typedef struct run_choice {
	buf reasoning, content;
	json_t *ids;
	int finish;
} run_choice;

typedef struct run_job {
	const cmd_args *a;
	gen g;
	gen_view view;
	buf prompt_text; /* as given */
	gen_prompt prompt;
	nh_session *session; /* own until the request takes it */
	run_choice *choice;  /* own [choices] */
	size_t choices;
	bool json, ids_out, any_id;
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
	return j->prompt_text.len || cmd_given(j->a, "session") ? NH_OK : ERR(e, NH_ERR_ARG, "the prompt is empty");
}

/* "1 2,3" to ids. */
static nh_status parse_ids(run_job *j, nh_error *e)
{
	size_t room = j->prompt_text.len / 2 + 1;
	const char *p = j->prompt_text.data;
	j->prompt.ids = mem_array(room, sizeof *j->prompt.ids);
	if (!j->prompt.ids) return ERR_NOMEM(e);
	while (*(p += strspn(p, " ,\t\n[]"))) {
		char word[24];
		size_t n = strcspn(p, " ,\t\n[]");
		int64_t id = -1;
		snprintf(word, sizeof word, "%.*s", (int)(n < sizeof word ? n : sizeof word - 1), p);
		if (n >= sizeof word || !cmd_parse_int(word, &id) || id < 0 || id > INT32_MAX)
			return ERR(e, NH_ERR_ARG, "--ids: \"%.23s\" is no token id", word);
		j->prompt.ids[j->prompt.count++] = (int32_t)id;
		p += n;
	}
	return j->prompt.count ? NH_OK : ERR(e, NH_ERR_ARG, "--ids: the prompt holds no token id");
}

static int think(const cmd_args *a) { return cmd_flag(a, "think") ? 1 : cmd_flag(a, "no-think") ? 0 : -1; }

static json_t *chat_request(const run_job *j)
{
	const char *system = cmd_string(j->a, "system", NULL);
	json_t *messages = json_array();
	if (system) json_array_append_new(messages, json_pack("{s:s, s:s}", "role", "system", "content", system));
	json_array_append_new(messages, json_pack("{s:s, s:s%}", "role", "user", "content", j->prompt_text.data, j->prompt_text.len));
	return json_pack("{s:o, s:o, s:b}", "messages", messages, "chat_template_kwargs", gen_kwargs(think(j->a)), "add_generation_prompt", 1);
}

static nh_status make_prompt(run_job *j, nh_error *e)
{
	size_t count = 0;
	const int32_t *history = j->session ? nh_session_tokens(j->session, &count) : NULL;
	if (j->prompt_text.len == 0) { /* the session goes on by itself */
		j->prompt.in_reasoning = gen_in_reasoning(&j->g, history, count);
		return NH_OK;
	}
	if (cmd_flag(j->a, "ids")) return parse_ids(j, e);
	if (cmd_flag(j->a, "raw"))
		return nh_tokenize(nh_model_tokenizer(j->g.model), j->prompt_text.data, j->prompt_text.len, j->session ? 0 : NH_TOKENIZE_SPECIAL,
		    &j->prompt.ids, &j->prompt.count, e);
	if (j->session) return gen_render_next(&j->g, j->prompt_text.data, j->prompt_text.len, think(j->a), history, count, &j->prompt, e);
	return gen_render(&j->g, chat_request(j), &j->prompt, e);
}

static nh_status load_session(run_job *j, nh_error *e)
{
	const char *file = cmd_string(j->a, "session", NULL);
	if (!file) return NH_OK;
	return nh_session_load(j->g.engine, file, cmd_flag(j->a, "allow-other-arm") ? NH_SESSION_OTHER_ARM : 0, &j->session, e);
}

/* --- what comes back --- */

static void keep(run_job *j, const nh_event *ev)
{
	run_choice *c = &j->choice[ev->choice];
	buf_append(&c->reasoning, ev->reasoning, ev->reasoning_bytes);
	buf_append(&c->content, ev->content, ev->content_bytes);
	if (ev->type == NH_EVENT_TOKEN) json_array_append_new(c->ids, json_integer(ev->token));
	if (ev->type == NH_EVENT_DONE) c->finish = ev->finish;
}

static void show(run_job *j, const nh_event *ev)
{
	if (ev->choice < 0 || (size_t)ev->choice >= j->choices) return;
	if (j->json || j->choices > 1) keep(j, ev);
	else if (j->ids_out) {
		if (ev->type == NH_EVENT_TOKEN) cmd_outf("%s%d", j->any_id ? " " : "", ev->token);
		j->any_id |= ev->type == NH_EVENT_TOKEN;
		cmd_out_flush();
	} else gen_show(&j->view, ev);
}

/* Several answers, one after the other, each under its number. */
static void show_choices(run_job *j)
{
	for (size_t i = 0; i < j->choices; i++) {
		const run_choice *c = &j->choice[i];
		gen_view view = {.hide = j->view.hide};
		nh_event whole = {.reasoning = c->reasoning.data,
		    .reasoning_bytes = c->reasoning.len,
		    .content = c->content.data,
		    .content_bytes = c->content.len};
		cmd_outf("%s[%zu]\n", i ? "\n" : "", i + 1);
		if (j->ids_out) {
			for (size_t k = 0; k < json_array_size(c->ids); k++)
				cmd_outf("%s%d", k ? " " : "", (int)json_integer_value(json_array_get(c->ids, k)));
		} else gen_show(&view, &whole);
		gen_dim(&view, false);
		cmd_out("\n", 1);
	}
}

static void finish_text(run_job *j, const nh_event *ev)
{
	const nh_request_stats *s = &ev->stats;
	nh_engine_stats es;
	nh_engine_get_stats(j->g.engine, &es, sizeof es);
	gen_dim(&j->view, false);
	if (j->choices > 1) show_choices(j);
	else cmd_out("\n", 1);
	cmd_out_flush();
	uint64_t decoded = s->generated_tokens > 0 ? s->generated_tokens - 1 : 0; /* the first token comes out of the prompt */
	char drawn[64], reused[64] = "";
	gen_draw_text(&j->g.o, drawn);
	if (s->reused_tokens)
		snprintf(reused, sizeof reused, " (%" PRIu64 " reused, %" PRIu64 " computed)", s->reused_tokens, s->computed_tokens);
	cmd_note(j->a,
	    "%" PRIu64 " prompt%s + %" PRIu64
	    " generated tokens (%s); first token %.3f s; prefill %.0f tokens/s, decode %.0f tokens/s; %s; arm "
	    "%s (%s), profile %s; reference-tier calls: %" PRIu64,
	    s->prompt_tokens, reused, s->generated_tokens, gen_finish_word(ev->finish), (double)s->first_token_us / 1e6,
	    gen_per_second(s->computed_tokens, s->prefill_us), gen_per_second(decoded, s->decode_us), drawn, j->g.info.arm, j->g.info.tier,
	    j->g.info.numerics, es.reference_calls);
}

static json_t *choice_json(const run_choice *c)
{
	return json_pack("{s:s%, s:s%, s:O, s:s}", "reasoning", c->reasoning.data ? c->reasoning.data : "", c->reasoning.len, "content",
	    c->content.data ? c->content.data : "", c->content.len, "token_ids", c->ids, "finish_reason", gen_finish_word(c->finish));
}

static void finish_json(run_job *j, const nh_event *ev)
{
	const nh_request_stats *s = &ev->stats;
	const nh_request_options *o = &j->g.o;
	nh_engine_stats es;
	nh_engine_get_stats(j->g.engine, &es, sizeof es);
	uint64_t decoded = s->generated_tokens > 0 ? s->generated_tokens - 1 : 0;
	json_t *out = json_pack("{s:s}", "model", j->g.info.name), *first = choice_json(&j->choice[0]);
	json_t *rest =
	    json_pack("{s:{s:I, s:I, s:I, s:I, s:I}, s:{s:f, s:f, s:f, s:f}, s:{s:f, s:f, s:i, s:f, s:f, s:f, s:f, s:I}, s:s, s:s, s:I}",
	        "usage", "prompt_tokens", (json_int_t)s->prompt_tokens, "reused_tokens", (json_int_t)s->reused_tokens, "computed_tokens",
	        (json_int_t)s->computed_tokens, "completion_tokens", (json_int_t)s->generated_tokens, "reasoning_tokens",
	        (json_int_t)s->reasoning_tokens, "timings", "first_token_seconds", (double)s->first_token_us / 1e6, "prefill_tokens_per_second",
	        gen_per_second(s->computed_tokens, s->prefill_us), "decode_tokens_per_second", gen_per_second(decoded, s->decode_us),
	        "total_seconds", (double)s->total_us / 1e6, "sampling", "temperature", o->temperature, "top_p", o->top_p, "top_k", o->top_k,
	        "min_p", o->min_p, "repetition_penalty", o->repetition_penalty, "presence_penalty", o->presence_penalty, "frequency_penalty",
	        o->frequency_penalty, "seed", (json_int_t)o->seed, "arm", j->g.info.arm, "numerics", j->g.info.numerics, "reference_calls",
	        (json_int_t)es.reference_calls);
	if (j->choices > 1) {
		json_t *all = json_array();
		for (size_t i = 0; i < j->choices; i++) json_array_append_new(all, choice_json(&j->choice[i]));
		json_object_set_new(out, "choices", all);
	} else json_object_update(out, first);
	json_object_update(out, rest);
	if (cmd_flag(j->a, "stats")) json_object_set_new(out, "statistics", gen_stats_json(&j->g));
	json_decref(first);
	json_decref(rest);
	cmd_out_json(out, 2);
}

static void cancel(void *request) { nh_request_cancel(request); }

static nh_status save_session(run_job *j, nh_request *r, nh_error *e)
{
	const char *file = cmd_string(j->a, "save-session", NULL);
	nh_session *session;
	if (!file) return NH_OK;
	TRY(nh_request_take_session(r, &session, e));
	nh_status s = nh_session_save(session, file, e);
	size_t tokens = 0;
	nh_session_tokens(session, &tokens);
	if (s == NH_OK) cmd_note(j->a, "session of %zu tokens saved to %s", tokens, file);
	nh_session_close(session);
	return s;
}

static nh_status generate(run_job *j, nh_error *e)
{
	nh_request *r;
	nh_event ev;
	nh_request_options o = j->g.o;
	bool raw = cmd_flag(j->a, "raw");
	o.prompt = j->prompt.ids;
	o.prompt_tokens = j->prompt.count;
	o.text = nh_model_tokenizer(j->g.model) != NULL || !cmd_flag(j->a, "ids"); /* ids need no tokeniser */
	o.skip_special = !raw;
	o.split_reasoning = !raw && !cmd_flag(j->a, "ids");
	o.starts_in_reasoning = j->prompt.in_reasoning;
	o.choices = (int32_t)j->choices;
	o.keep_session = cmd_given(j->a, "save-session");
	o.session = j->session;
	TRY(nh_engine_submit(j->g.engine, &o, &r, e));
	j->session = NULL;
	cmd_on_interrupt(cancel, r);
	nh_status s;
	size_t ended = 0;
	do {
		s = nh_request_next(r, &ev, sizeof ev, -1);
		if (s == NH_OK) show(j, &ev);
		if (s == NH_OK && ev.type == NH_EVENT_ERROR) s = ERR(e, (nh_status)ev.error.code, "%s", ev.error.text);
		if (s == NH_OK && ev.type == NH_EVENT_DONE) ended++;
	} while (s == NH_OK && ended < j->choices);
	cmd_on_interrupt(NULL, NULL);
	if (s == NH_OK && j->json) finish_json(j, &ev);
	else if (s == NH_OK) finish_text(j, &ev);
	gen_dim(&j->view, false);
	if (s == NH_OK) s = save_session(j, r, e);
	if (cmd_flag(j->a, "stats") && !j->json) gen_stats(&j->g);
	nh_request_release(r);
	return s;
}

static nh_status open_choices(run_job *j, nh_error *e)
{
	j->choices = (size_t)cmd_int(j->a, "n", 1);
	j->choice = mem_array(j->choices, sizeof *j->choice);
	if (!j->choice) return ERR_NOMEM(e);
	for (size_t i = 0; i < j->choices; i++) j->choice[i].ids = json_array();
	return NH_OK;
}

static void close_all(run_job *j)
{
	nh_session_close(j->session);
	for (size_t i = 0; j->choice && i < j->choices; i++) {
		buf_deinit(&j->choice[i].reasoning);
		buf_deinit(&j->choice[i].content);
		json_decref(j->choice[i].ids);
	}
	mem_free(j->choice);
	nh_free(j->prompt.ids);
	buf_deinit(&j->prompt_text);
	gen_close(&j->g);
}

static int run(const cmd_args *a)
{
	nh_error e = {0};
	run_job j = {.a = a, .json = cmd_flag(a, "json"), .view.hide = cmd_flag(a, "hide-reasoning"), .ids_out = cmd_flag(a, "ids")};
	const char *model, *prompt;
	char *path = NULL;
	if (cmd_flag(a, "think") && cmd_flag(a, "no-think")) return cmd_bad_usage(a, "--think and --no-think exclude each other");
	if (cmd_int(a, "n", 1) > 1 && cmd_given(a, "save-session")) return cmd_bad_usage(a, "--save-session keeps one answer: leave out --n");
	if (cmd_given(a, "system") && cmd_given(a, "session"))
		return cmd_bad_usage(a, "--system and --session exclude each other: a session's beginning is fixed");
	/* Told before the weights are drawn, which takes long. */
	if (cmd_given(a, "like") && !cmd_flag(a, "ids"))
		return cmd_bad_usage(a, "--like has weights and no tokenizer: the prompt must be token ids, such as --ids \"1 2 3\"");
	operands(a, &model, &prompt);
	nh_status s = read_prompt(&j, prompt, &e);
	if (s == NH_OK) s = open_choices(&j, &e);
	if (s == NH_OK) s = cmd_model_path(a, model, &path, &e);
	if (s == NH_OK) s = gen_open(&j.g, a, path, &e);
	if (s == NH_OK) s = load_session(&j, &e);
	if (s == NH_OK) s = make_prompt(&j, &e);
	if (s == NH_OK) s = generate(&j, &e);
	close_all(&j);
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
    {"n", 0, CMD_INT, "N", "so many answers to the one prompt, with the seeds that follow", 1, CHOICES_MAX},
    GEN_OPTIONS_DRAW,
    {"session", 0, CMD_STRING, "FILE", "continue this session: nothing of it is computed again", 0, 0},
    {"save-session", 0, CMD_STRING, "FILE", "keep the whole state in this file when the answer has ended", 0, 0},
    {"allow-other-arm", 0, CMD_FLAG, NULL, "continue a session of another arm: its bits may then differ", 0, 0},
    GEN_OPTIONS_OPEN,
    {"stats", 0, CMD_FLAG, NULL, "the engine's statistics at the end, with the time of each op", 0, 0},
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
             "The answer goes to standard output; thoughts are dimmed on a terminal; one line about speed goes to standard error.\n"
             "With --session the prompt is what is said next; an empty one lets the answer go on.",
    .examples = "nemotron run \"What is a dog?\"\n"
                "nemotron run org/name \"Explain state space models\" --no-think --temperature 0\n"
                "echo \"courage, noun. 1.\" | nemotron run --raw -n 40\n"
                "nemotron run --ids \"98 3177 464\" -n 8 --json\n"
                "nemotron run \"What is a dog?\" --save-session dog.nhs\n"
                "nemotron run \"And a cat?\" --session dog.nhs\n",
    .options = options,
    .min_operands = 0,
    .max_operands = 2,
    .run = run,
};
