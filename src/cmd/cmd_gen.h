/* SPDX-License-Identifier: Apache-2.0
 * cmd_gen.h: what the commands that generate text share: opening model and engine from the options, how to draw, prompts through the chat
 * template, thought and answer on standard output, statistics. Knows no conversation and no command's own options.
 * The invariant that breaks first: what standard output carries is the same whether it is a terminal or not, but for colour.
 */
#ifndef CMD_GEN_H
#define CMD_GEN_H

#include "cmd/cmd_open.h"

/* Rows of an option table. */
#define GEN_OPTION(name, letter, kind, metavar, help, lo, hi) \
	{                                                         \
		name, letter, kind, metavar, help, lo, hi             \
	}
#define GEN_OPTIONS_DRAW                                                                                                               \
	GEN_OPTION("temperature", 't', CMD_REAL, "T", "0 is greedy (default: generation_config.json, else 0)", 0, 100),                    \
	    GEN_OPTION("top-p", 0, CMD_REAL, "P", "smallest set of tokens whose probabilities reach P", 1e-9, 1),                          \
	    GEN_OPTION("top-k", 0, CMD_INT, "K", "the K most likely tokens; 0 is all", 0, 1e9),                                            \
	    GEN_OPTION("min-p", 0, CMD_REAL, "P", "tokens at least P times as likely as the best", 0, 1),                                  \
	    GEN_OPTION("seed", 0, CMD_INT, "N", "of the draws (default: a fresh one, shown at the end)", 0, 9e15),                         \
	    GEN_OPTION(                                                                                                                    \
	        "repetition-penalty", 0, CMD_REAL, "R", "divides logits of tokens that were there, prompt included; 1 is off", 1e-3, 1e3), \
	    GEN_OPTION("presence-penalty", 0, CMD_REAL, "P", "taken off the logits of tokens that were generated", -2, 2),                 \
	    GEN_OPTION("frequency-penalty", 0, CMD_REAL, "P", "the same, for each time", -2, 2),                                           \
	    GEN_OPTION("bias", 0, CMD_LIST, "TOKEN=ADD",                                                                                   \
	        "added to a token's logit; TOKEN is an id or its text, -inf forbids it;\nmay be repeated", 0, 0),                          \
	    GEN_OPTION("min-tokens", 0, CMD_INT, "N", "no end among the first N tokens", 0, 1e9),                                          \
	    GEN_OPTION("stop", 0, CMD_LIST, "TEXT", "end the answer before this text; may be repeated", 0, 0)
#define GEN_OPTIONS_OPEN                                                                                                               \
	GEN_OPTION("context", 0, CMD_INT, "N", "tokens a sequence may have", 1, 1e9),                                                      \
	    GEN_OPTION("memory", 0, CMD_BYTES, "SIZE",                                                                                     \
	        "for state, keys and values, and kept prefixes, such as 8G\n(default: half of what is free)", 0, 0),                       \
	    GEN_OPTION("draft", 0, CMD_CHOICE, "none|ngram", "who proposes tokens ahead; the answer stays the same (default none)", 0, 0), \
	    CMD_OPTION_NUMERICS, CMD_OPTION_KV, CMD_OPTION_ARM,                                                                            \
	    GEN_OPTION("chat-template", 0, CMD_STRING, "FILE", "instead of the model's own", 0, 0),                                        \
	    GEN_OPTION("allow-control-text", 0, CMD_FLAG, NULL,                                                                            \
	        "a control token's text in a message, such as <|im_end|>, is that token\n(default: ordinary text)", 0, 0),                 \
	    CMD_OPTIONS_DUMMY, CMD_OPTION_CHECK

typedef struct gen {
	const cmd_args *a;
	nh_model *model;   /* own */
	nh_engine *engine; /* own */
	nh_model_info info;
	nh_request_options o; /* how to draw and when to stop, as the options say */
	nh_bias *bias;        /* own; o.bias */
} gen;

/* Model, engine and g->o from the options above; `model` is a path, as cmd_model_path gives it. */
nh_status gen_open(gen *g, const cmd_args *a, const char *model, nh_error *e);
void gen_close(gen *g); /* also after a failure; safe on a zeroed one */
/* "temperature 0.7, seed 12" or "greedy". */
void gen_draw_text(const nh_request_options *o, char out[64]);

typedef struct gen_prompt {
	int32_t *ids; /* own: nh_free */
	size_t count;
	bool in_reasoning; /* it has opened the thought */
} gen_prompt;

/* chat_template_kwargs of a request. think: 0 no, 1 yes, -1 as the template has it. */
json_t *gen_kwargs(int think);
/* A whole chat request through the model's template. Takes the reference to the request; NULL means text that is no UTF-8. */
nh_status gen_render(const gen *g, json_t *request, gen_prompt *out, nh_error *e);
/* What a next user message adds after a history of which only the ids are known: the template renders a made-up turn with the message after it, and
 * what follows the made-up answer is given. NH_ERR_TEMPLATE where the template does not show earlier answers. */
nh_status gen_render_next(
    const gen *g, const char *user, size_t len, int think, const int32_t *history, size_t history_count, gen_prompt *out, nh_error *e);
/* Whether a history ends inside a thought. */
bool gen_in_reasoning(const gen *g, const int32_t *history, size_t count);

/* Thought and answer on standard output, thoughts dimmed on a terminal. */
typedef struct gen_view {
	bool hide;                       /* thoughts */
	bool dimmed, reasoned, answered; /* so far */
} gen_view;
void gen_show(gen_view *v, const nh_event *event);
void gen_dim(gen_view *v, bool on);

const char *gen_finish_word(int finish);
double gen_per_second(uint64_t n, int64_t us);
/* The engine's statistics on standard error, a line a topic. */
void gen_stats(const gen *g);
/* The same as JSON. */
json_t *gen_stats_json(const gen *g);

#endif
