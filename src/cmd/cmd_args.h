/* SPDX-License-Identifier: Apache-2.0
 * cmd_args.h: the options of a subcommand as a table, the parser over it, and the help text made from it. A command declares a cmd_def,
 * is called with parsed cmd_args, and asks for values by their long names. It refuses to know what an option means.
 * A name that the command does not have counts as not given, so that shared code may ask for --quiet.
 * The invariant that breaks first: a command never sees a value that its table does not allow.
 *
 * Forms taken: --name value, --name=value, -l value, -lvalue, -abc (flags), -- (the rest are operands), - (an operand). A number such
 * as -1 is an operand or a value, never an option. Where a single-valued option is repeated, the last one counts.
 */
#ifndef CMD_ARGS_H
#define CMD_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "nh/nh_types.h"

typedef enum cmd_kind {
	CMD_FLAG,   /* no value */
	CMD_STRING, /* any text */
	CMD_CHOICE, /* one of the words of metavar, "auto|bf16|fp8" */
	CMD_INT,    /* decimal; lo..hi where hi > lo */
	CMD_REAL,   /* finite; lo..hi where hi > lo */
	CMD_BYTES,  /* a size: 24G, 512M, 1.5GiB, 800000; K M G T are powers of 1024, KB MB GB TB of 1000; in either case */
	CMD_LIST    /* text, may be repeated */
} cmd_kind;

typedef struct cmd_option {
	const char *name; /* long, without dashes; NULL ends the table */
	char letter;      /* short, or 0 */
	cmd_kind kind;
	const char *metavar; /* what the value is called in the help; NULL for flags */
	const char *help;    /* one sentence without a full stop; may contain \n */
	double lo, hi;       /* bounds of CMD_INT and CMD_REAL; both 0: none */
} cmd_option;

/* Options that every command has; main shows them in the help and sets quiet. --help needs no row. */
#define CMD_OPTION_QUIET                                                                   \
	{                                                                                      \
		"quiet", 'q', CMD_FLAG, NULL, "no notices and no progress on standard error", 0, 0 \
	}
#define CMD_OPTION_JSON                                       \
	{                                                         \
		"json", 0, CMD_FLAG, NULL, "the result as JSON", 0, 0 \
	}
#define CMD_OPTION_CACHE                                                                                                                   \
	{                                                                                                                                      \
		"cache", 0, CMD_STRING, "DIR", "where org/name is looked up\n(default: $HF_HUB_CACHE, $HF_HOME/hub, ~/.cache/huggingface/hub)", 0, \
		    0                                                                                                                              \
	}
#define CMD_OPTION_END                      \
	{                                       \
		NULL, 0, CMD_FLAG, NULL, NULL, 0, 0 \
	}

typedef struct cmd_args cmd_args;

/* One subcommand: `const cmd_def cmd_<name>` in its file, and a row in main.c. */
typedef struct cmd_def {
	const char *name;
	const char *summary;  /* one line for `nemotron --help` */
	const char *usage;    /* the operands: "[MODEL] [PROMPT]" */
	const char *about;    /* a paragraph or more under the usage line; may be NULL */
	const char *examples; /* lines, each ended by \n, printed indented; may be NULL */
	const cmd_option *options;
	int min_operands, max_operands; /* max -1: no limit */
	int (*run)(const cmd_args *a);  /* returns the exit status: 0 ok, 1 failure, 2 usage; verify has more */
} cmd_def;

#define CMD_OK 0
#define CMD_FAILED 1
#define CMD_USAGE 2

/* The value at `name`, or the fallback where it was not given. Texts are argv's own. */
bool cmd_given(const cmd_args *a, const char *name);
bool cmd_flag(const cmd_args *a, const char *name);
const char *cmd_string(const cmd_args *a, const char *name, const char *fallback);
int64_t cmd_int(const cmd_args *a, const char *name, int64_t fallback);
double cmd_real(const cmd_args *a, const char *name, double fallback);
uint64_t cmd_bytes(const cmd_args *a, const char *name, uint64_t fallback);
size_t cmd_list(const cmd_args *a, const char *name, const char *const **values); /* number of values, in order */

size_t cmd_operands(const cmd_args *a);
const char *cmd_operand(const cmd_args *a, size_t i); /* NULL past the end */
const cmd_def *cmd_definition(const cmd_args *a);

/* argv[0] is the first argument after the subcommand's name. Fails with NH_ERR_ARG and one line of text (the caller adds the command's
 * name). *help: --help or -h was there; then nothing else is checked. */
nh_status cmd_args_parse(cmd_args **out, const cmd_def *def, int argc, char **argv, bool *help, nh_error *e);
void cmd_args_free(cmd_args *a); /* NULL is fine */

/* The help page of a command. */
void cmd_args_help(const cmd_def *def, FILE *to);

/* Text to number with the rules above, all of the text; false otherwise. */
bool cmd_parse_int(const char *text, int64_t *out);
bool cmd_parse_real(const char *text, double *out);
bool cmd_parse_bytes(const char *text, uint64_t *out);

#endif
