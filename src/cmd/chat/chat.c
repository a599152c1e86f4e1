/* SPDX-License-Identifier: Apache-2.0
 * chat.c: the loop of `nemotron chat`: lines that begin with / are commands, all others are said to the model. Answers go to standard output,
 * everything else to standard error. Knows no turn: that is chat_talk.c's.
 * The invariant that breaks first: no mistake of a line ends the program.
 */
#include "cmd/chat/chat.h"

#include <string.h>

#include "base/base_file.h"
#include "base/base_mem.h"
#include "base/base_status.h"

static const char help_text[] = "/system TEXT     what the model is told first; without TEXT nothing\n"
                                "/think on|off    whether it thinks before it answers\n"
                                "/save FILE       keep the whole state; `nemotron chat --session FILE` goes on from there\n"
                                "/load FILE       go on from such a file\n"
                                "/fork            keep a copy of the conversation as it is now\n"
                                "/back            go back to the last copy\n"
                                "/retry           answer the last message again\n"
                                "/new             begin a new conversation\n"
                                "/stats           what the engine has done\n"
                                "/help            this text\n"
                                "/quit            end; so does Ctrl-D. Ctrl-C stops an answer\n"
                                "A line that begins with // is said with one /.\n";

typedef struct chat {
	const cmd_args *a;
	talk t;
	bool quit;
} chat;

static nh_status do_think(chat *c, const char *rest, nh_error *e)
{
	if (strcmp(rest, "on") == 0) c->t.think = 1;
	else if (strcmp(rest, "off") == 0) c->t.think = 0;
	else return ERR(e, NH_ERR_ARG, "/think: is \"%.40s\", expected on or off", rest);
	return NH_OK;
}

static nh_status do_file(chat *c, const char *command, const char *file, nh_error *e)
{
	bool save = strcmp(command, "save") == 0;
	if (!*file) return ERR(e, NH_ERR_ARG, "/%s: which file?", command);
	TRY(save ? talk_save(&c->t, file, e) : talk_load(&c->t, file, e));
	cmd_note(c->a, save ? "%zu tokens saved to %s" : "%zu tokens from %s", talk_tokens(&c->t), file);
	return NH_OK;
}

static nh_status do_stats(chat *c)
{
	cmd_note(c->a, "the conversation has %zu messages, its state %zu tokens", json_array_size(c->t.now.messages), talk_tokens(&c->t));
	gen_stats(&c->t.g);
	return NH_OK;
}

/* `line` without its slash. */
static nh_status command(chat *c, const char *line, nh_error *e)
{
	char word[16];
	size_t n = strcspn(line, " \t");
	snprintf(word, sizeof word, "%.*s", (int)(n < sizeof word ? n : sizeof word - 1), line);
	const char *rest = line + n + strspn(line + n, " \t");
	if (strcmp(word, "quit") == 0 || strcmp(word, "exit") == 0) c->quit = true;
	else if (strcmp(word, "system") == 0) return talk_system(&c->t, rest, e);
	else if (strcmp(word, "think") == 0) return do_think(c, rest, e);
	else if (strcmp(word, "save") == 0 || strcmp(word, "load") == 0) return do_file(c, word, rest, e);
	else if (strcmp(word, "fork") == 0) return talk_fork(&c->t, e);
	else if (strcmp(word, "back") == 0) return talk_back(&c->t, e);
	else if (strcmp(word, "retry") == 0) return talk_retry(&c->t, e);
	else if (strcmp(word, "new") == 0) talk_new(&c->t);
	else if (strcmp(word, "stats") == 0) return do_stats(c);
	else if (strcmp(word, "help") == 0) fputs(help_text, stderr);
	else return ERR(e, NH_ERR_ARG, "/%s: no such command; /help lists them", word);
	return NH_OK;
}

static nh_status take_line(chat *c, char *line, size_t len, nh_error *e)
{
	while (len && (line[len - 1] == '\r' || line[len - 1] == ' ' || line[len - 1] == '\t')) line[--len] = 0;
	if (len == 0) return NH_OK;
	if (line[0] == '/' && line[1] != '/') return command(c, line + 1, e);
	if (line[0] == '/') line++, len--;
	return talk_turn(&c->t, line, len, e);
}

/* Until the end of the lines. Without a terminal a line that failed makes the exit status, after the others had their turn. */
static int loop(chat *c, chat_lines *lines)
{
	buf line = {0};
	int status = CMD_OK;
	cmd_on_each_interrupt(NULL, NULL);
	while (!c->quit) {
		nh_error e = {0};
		cmd_on_each_interrupt(NULL, NULL);
		lines_got got = lines_next(lines, &line, &e);
		if (got == LINES_INTERRUPTED && lines_interactive(lines)) continue;
		if (got == LINES_FAILED) status = cmd_fail_error(c->a, (nh_status)e.code, &e);
		if (got != LINES_TEXT) break;
		buf_append(&line, "", 0);
		nh_status s = line.failed ? ERR_NOMEM(&e) : take_line(c, line.data, line.len, &e);
		if (s == NH_ERR_CANCELLED) cmd_note(c->a, "%s", e.text);
		else if (s != NH_OK) cmd_fail(c->a, "%s", e.text[0] ? e.text : nh_status_message(s));
		if (s != NH_OK && !lines_interactive(lines)) status = CMD_FAILED;
		if (!cmd_out_flush()) break;
	}
	if (lines_interactive(lines) && !c->quit) cmd_out("\n", 1);
	buf_deinit(&line);
	return status;
}

static nh_status begin(chat *c, const char *session, nh_error *e)
{
	if (!session) return NH_OK;
	if (!file_exists(session)) {
		cmd_note(c->a, "%s is not there yet: a new conversation, which will be saved to it", session);
		return NH_OK;
	}
	return do_file(c, "load", session, e);
}

static int run(const cmd_args *a)
{
	nh_error e = {0};
	chat c = {.a = a};
	char *path = NULL;
	int status = CMD_OK;
	const char *session = cmd_string(a, "session", NULL), *model = cmd_operand(a, 0);
	if (cmd_flag(a, "think") && cmd_flag(a, "no-think")) return cmd_bad_usage(a, "--think and --no-think exclude each other");
	if (cmd_given(a, "like")) return cmd_bad_usage(a, "--like has weights and no tokenizer: run --ids and bench take it");
	chat_lines *lines = lines_open();
	nh_status s = lines ? cmd_model_path(a, model ? model : cmd_string(a, "model", NULL), &path, &e) : ERR_NOMEM(&e);
	if (s == NH_OK) s = talk_open(&c.t, a, path, &e);
	if (s == NH_OK) s = begin(&c, session, &e);
	if (s == NH_OK) {
		if (lines_interactive(lines)) cmd_note(a, "%s, arm %s; /help lists the commands", c.t.g.info.name, c.t.g.info.arm);
		status = loop(&c, lines);
		if (session && c.t.now.session) s = do_file(&c, "save", session, &e);
		if (cmd_flag(a, "stats")) gen_stats(&c.t.g);
	}
	talk_close(&c.t);
	lines_close(lines);
	mem_free(path);
	return s == NH_OK ? status : cmd_fail_error(a, s, &e);
}

static const cmd_option options[] = {
    {"model", 'm', CMD_STRING, "MODEL", "folder, cache snapshot or org/name (default: the built-in model)", 0, 0},
    {"system", 's', CMD_STRING, "TEXT", "system message", 0, 0},
    {"think", 0, CMD_FLAG, NULL, "let the model think first (the template's default where it has one)", 0, 0},
    {"no-think", 0, CMD_FLAG, NULL, "answer at once", 0, 0},
    {"hide-reasoning", 0, CMD_FLAG, NULL, "do not show thoughts", 0, 0},
    {"session", 0, CMD_STRING, "FILE", "go on from this file where it is there, and save to it at the end", 0, 0},
    {"allow-other-arm", 0, CMD_FLAG, NULL, "go on from a session of another arm: its bits may then differ", 0, 0},
    {"max-tokens", 'n', CMD_INT, "N", "tokens of an answer at most (default: until an end)", 1, 1e9},
    GEN_OPTIONS_DRAW,
    GEN_OPTIONS_OPEN,
    {"stats", 0, CMD_FLAG, NULL, "the engine's statistics at the end, with the time of each op", 0, 0},
    CMD_OPTION_CACHE,
    CMD_OPTION_QUIET,
    CMD_OPTION_END,
};

const cmd_def cmd_chat = {
    .name = "chat",
    .summary = "a conversation in the terminal, or line by line from standard input",
    .usage = "[MODEL]",
    .about =
        "Each line is said to the model; lines that begin with / are commands, /help lists them. Ctrl-C stops an answer, Ctrl-D ends.\n"
        "Answers go to standard output; a line on standard error tells how many tokens were reused and how many computed.\n"
        "\n"
        "Every turn is rendered whole by the model's template, which leaves out old thoughts. Where that only adds to what the\n"
        "model has seen, its state goes on and nothing is computed again; else the turn begins anew, on the prefixes that the\n"
        "engine has kept. A session file holds token ids and state, no text: after it was loaded, turns are added to it as they\n"
        "are, old thoughts stay, and /system can not change its beginning.",
    .examples = "nemotron chat\n"
                "nemotron chat org/name --system \"Answer in one sentence.\" --no-think\n"
                "nemotron chat --session cats.nhs\n"
                "printf 'What is a cat?\\nAnd a dog?\\n' | nemotron chat --temperature 0\n",
    .options = options,
    .min_operands = 0,
    .max_operands = 1,
    .run = run,
};
