/* SPDX-License-Identifier: Apache-2.0
 * template.c: a chat request on standard input to the prompt that the model's template makes of it. Knows the public text interface only.
 * Breaks first: the prompt is written to the byte; nothing is added where standard output is not a terminal.
 */
#include <time.h>

#include "base/base_mem.h"
#include "cmd/cmd.h"
#include "nh/nh_text.h"

#define REQUEST_LIMIT ((size_t)256 << 20)

static nh_status print_text(const char *text, size_t bytes, bool json, nh_error *e)
{
	if (json) {
		json_t *v = json_stringn(text, bytes);
		if (v == NULL) return ERR(e, NH_ERR_TEMPLATE, "the prompt is not UTF-8");
		cmd_out_json(v, 0);
		return NH_OK;
	}
	cmd_out(text, bytes);
	if (cmd_out_is_terminal() && (bytes == 0 || text[bytes - 1] != '\n')) cmd_out("\n", 1);
	return NH_OK;
}

/* Prompts of chats are encoded without the tokenizer's additions: the template has written what there is to say. */
static nh_status print_ids(const char *path, const char *text, size_t bytes, bool json, nh_error *e)
{
	nh_tokenizer *tokenizer = NULL;
	int32_t *ids = NULL;
	size_t count = 0;
	nh_status s = nh_tokenizer_open(&tokenizer, path, e);
	if (s == NH_OK) s = nh_tokenize(tokenizer, text, bytes, 0, &ids, &count, e);
	if (s == NH_OK && json) cmd_outf("[");
	for (size_t i = 0; s == NH_OK && i < count; i++) cmd_outf("%s%d", i == 0 ? "" : json ? "," : " ", ids[i]);
	if (s == NH_OK) cmd_outf(json ? "]\n" : "\n");
	nh_free(ids);
	nh_tokenizer_close(tokenizer);
	return s;
}

static int run(const cmd_args *a)
{
	const char *file = cmd_string(a, "template", NULL);
	bool want_ids = cmd_flag(a, "ids");
	nh_error e = {0};
	buf request = {0};
	nh_template *t = NULL;
	char *model = NULL, *text = NULL;
	size_t bytes = 0;
	nh_status s = file != NULL && cmd_operands(a) == 0 && !want_ids ? NH_OK : cmd_model_path(a, cmd_operand(a, 0), &model, &e);
	if (s == NH_OK) s = nh_template_open(&t, file != NULL ? file : model, cmd_string(a, "name", NULL), &e);
	if (s == NH_OK) s = cmd_read_input(REQUEST_LIMIT, &request, &e);
	if (s == NH_OK)
		s = nh_template_render(t, request.data, request.len, cmd_flag(a, "adapt") ? NH_TEMPLATE_ADAPT : 0,
		    cmd_int(a, "now", (int64_t)time(NULL)), &text, &bytes, &e);
	if (s == NH_OK) {
		bool json = cmd_flag(a, "json");
		s = want_ids ? print_ids(cmd_string(a, "tokenizer", model), text, bytes, json, &e) : print_text(text, bytes, json, &e);
	}
	nh_free(text);
	nh_template_close(t);
	buf_deinit(&request);
	mem_free(model);
	return s == NH_OK ? CMD_OK : cmd_fail_error(a, s, &e);
}

static const cmd_option options[] = {{"template", 't', CMD_STRING, "FILE", "a template file used instead of the model's own", 0, 0},
    {"name", 0, CMD_STRING, "NAME", "which of several templates (default: default)", 0, 0},
    {"ids", 'i', CMD_FLAG, NULL, "the prompt's token ids", 0, 0},
    {"tokenizer", 0, CMD_STRING, "PATH", "with --ids: a tokenizer.json or model folder other than MODEL", 0, 0},
    {"adapt", 0, CMD_FLAG, NULL,
        "first bring client forms into template forms, as `run` does:\nJSON-text arguments, text parts, the variable chat_template_kwargs",
        0, 0},
    {"now", 0, CMD_INT, "SECONDS", "the time that the template sees, in Unix seconds (default: now)", -1e11, 1e12}, CMD_OPTION_JSON,
    CMD_OPTION_CACHE, CMD_OPTION_QUIET, CMD_OPTION_END};

const cmd_def cmd_template = {
    .name = "template",
    .summary = "a chat request to the prompt that the model sees",
    .usage = "[MODEL]",
    .about = "Reads a JSON object from standard input: messages, and optionally tools, chat_template_kwargs and\n"
             "add_generation_prompt (default true). Writes the rendered prompt, to the byte.\n"
             "MODEL is a model folder, org/name in the cache, or a template file; without it: the built-in model.",
    .examples = "echo '{\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]}' | nemotron template models/tiny\n"
                "nemotron template --ids models/tiny < request.json\n"
                "nemotron template --template chat_template.jinja < request.json\n",
    .options = options,
    .min_operands = 0,
    .max_operands = 1,
    .run = run,
};
