/* SPDX-License-Identifier: Apache-2.0
 * main.c: the table of subcommands and the way to one of them. A command is a file (or folder) and a row here.
 * Exit status: 0 done, 1 failed, 2 the arguments are wrong; a command's help page names others where it has them.
 */
#include <signal.h>
#include <string.h>

#include "cmd/cmd.h"
#include "nh/nh_version.h"

extern const cmd_def cmd_batch, cmd_bench, cmd_chat, cmd_golden, cmd_inspect, cmd_mkmodel, cmd_perplexity, cmd_quantize, cmd_run,
    cmd_session, cmd_template, cmd_tokenize, cmd_verify;

/* In the order in which a newcomer meets them. */
static const cmd_def *const commands[] = {
    &cmd_run,
    &cmd_chat,
    &cmd_session,
    &cmd_batch,
    &cmd_inspect,
    &cmd_verify,
    &cmd_golden,
    &cmd_perplexity,
    &cmd_bench,
    &cmd_tokenize,
    &cmd_template,
    &cmd_quantize,
    &cmd_mkmodel,
};

#define COMMAND_COUNT (sizeof commands / sizeof *commands)

static void print_help(FILE *to)
{
	fprintf(to, "nemotron: runs NVIDIA Nemotron-H models\n\nusage: nemotron COMMAND [options] ...\n\ncommands:\n");
	for (size_t i = 0; i < COMMAND_COUNT; i++) fprintf(to, "  %-12s%s\n", commands[i]->name, commands[i]->summary);
	fprintf(to, "\n  --version   the version of this program\n"
	            "  --help      this text; `nemotron help COMMAND` tells about one command\n");
}

static const cmd_def *find(const char *name)
{
	for (size_t i = 0; i < COMMAND_COUNT; i++) {
		if (strcmp(commands[i]->name, name) == 0) return commands[i];
	}
	return NULL;
}

static int unknown(const char *name)
{
	fprintf(stderr, "nemotron: unknown command %s\nTry: nemotron --help\n", name);
	return CMD_USAGE;
}

static int run_command(const cmd_def *def, int argc, char **argv)
{
	nh_error e = {0};
	cmd_args *a;
	bool help;
	if (cmd_args_parse(&a, def, argc, argv, &help, &e) != NH_OK) {
		fprintf(stderr, "nemotron %s: %s\nTry: nemotron %s --help\n", def->name, e.text, def->name);
		return e.code == NH_ERR_ARG ? CMD_USAGE : CMD_FAILED;
	}
	int status = CMD_OK;
	if (help) cmd_args_help(def, stdout);
	else status = def->run(a);
	cmd_args_free(a);
	return status;
}

static int dispatch(int argc, char **argv)
{
	if (argc < 2) {
		print_help(stderr);
		return CMD_USAGE;
	}
	const char *word = argv[1];
	if (strcmp(word, "--version") == 0 || strcmp(word, "version") == 0) {
		printf("nemotron %s\n", nh_version_text());
		return CMD_OK;
	}
	bool help = strcmp(word, "help") == 0 || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
	if (help && argc == 2) {
		print_help(stdout);
		return CMD_OK;
	}
	const cmd_def *def = find(help ? argv[2] : word);
	if (def == NULL) return unknown(help ? argv[2] : word);
	if (help) {
		cmd_args_help(def, stdout);
		return CMD_OK;
	}
	return run_command(def, argc - 2, argv + 2);
}

int main(int argc, char **argv)
{
	signal(SIGPIPE, SIG_IGN); /* the write fails with EPIPE instead, and the command ends in order */
	return cmd_out_finish(dispatch(argc, argv));
}
