/* SPDX-License-Identifier: Apache-2.0
 * cmd.h: what every subcommand shares beside its options: results to standard output, everything else to standard error as
 * "nemotron CMD: text", progress, Ctrl-C, and the few paths that come from the environment (the library never reads it).
 * The invariant that breaks first: standard output carries results only.
 */
#ifndef CMD_H
#define CMD_H

#include <jansson.h>

#include "base/base_buf.h"
#include "cmd/cmd_args.h"

/* --- telling --- */

/* "nemotron CMD: text" on standard error; returns CMD_FAILED, so that a command can `return cmd_fail(...)`. */
int cmd_fail(const cmd_args *a, const char *format, ...) BASE_PRINTF(2, 3);
/* The same from an error record; where it is empty, the status's message. Nothing is printed for a cancelled call. */
int cmd_fail_error(const cmd_args *a, nh_status status, const nh_error *e);
/* A mistake in the arguments: also points to --help; returns CMD_USAGE. */
int cmd_bad_usage(const cmd_args *a, const char *format, ...) BASE_PRINTF(2, 3);
/* A notice on standard error, unless --quiet. */
void cmd_note(const cmd_args *a, const char *format, ...) BASE_PRINTF(2, 3);
/* nh_log_fn; user is the cmd_args. Errors and warnings always, notices unless --quiet, debug never. */
void cmd_log(void *user, nh_log_level level, const char *text);

/* --- results --- */

/* Standard output. False once it cannot be written: the reader went away (then the command should stop; it ends quietly), or the disk
 * is full (cmd_out_finish tells and fails). */
bool cmd_out(const char *data, size_t len);
bool cmd_outf(const char *format, ...) BASE_PRINTF(1, 2);
bool cmd_out_flush(void); /* so that streamed text appears now */
/* At the end of main: writes what is left. A reader that went away is no failure, a full disk is one. Returns the exit status. */
int cmd_out_finish(int status);
/* One JSON value and a newline, keys in the order of insertion; takes the reference. indent 0: one line. */
bool cmd_out_json(json_t *value, int indent);
bool cmd_out_is_terminal(void);
bool cmd_err_is_terminal(void);

/* --- input --- */

/* All of standard input, at most `limit` bytes, into out (zeroed). */
nh_status cmd_read_input(size_t limit, buf *out, nh_error *e);
/* The next line of standard input without its newline, into `line` (cleared first); false at the end or on an error (e->code set). */
bool cmd_read_line(size_t limit, buf *line, nh_error *e);

/* --- progress and Ctrl-C --- */

typedef struct cmd_progress {
	bool on;          /* standard error is a terminal and no --quiet */
	bool shown;       /* a line is on the screen */
	int64_t last_us;  /* of the last drawing */
	int64_t began_us; /* of the first call; 0: none yet */
} cmd_progress;
void cmd_progress_init(cmd_progress *p, const cmd_args *a);
/* nh_progress_fn; user is the cmd_progress. Asks to cancel after Ctrl-C. */
bool cmd_progress_show(void *user, const char *what, uint64_t done, uint64_t total);
void cmd_progress_clear(cmd_progress *p); /* takes the line off the screen */

/* The first Ctrl-C (or SIGTERM) sets the flag and calls `fn` in the signal handler: it must be async-signal-safe, as nh_request_cancel is. The
 * second one kills the program. fn NULL: only the flag. */
void cmd_on_interrupt(void (*fn)(void *user), void *user);
bool cmd_interrupted(void);
/* For a program that lives on: forgets what came, and from now on every Ctrl-C sets the flag and calls fn (may be NULL). */
void cmd_on_each_interrupt(void (*fn)(void *user), void *user);

/* --- places (mem_free what is given out) --- */

/* --cache, else $HF_HUB_CACHE, $HF_HOME/hub, ~/.cache/huggingface/hub; NULL where none can be told. */
char *cmd_cache_root(const cmd_args *a);
/* The model that comes with the program: ../share/nemotron/models/tiny or ../../models/tiny from where it lies. */
nh_status cmd_builtin_model(char **path, nh_error *e);
/* The folder of a MODEL argument for calls that take a path: a file or folder stays as it is, org/name is looked up in the cache. NULL: the
 * built-in model. */
nh_status cmd_model_path(const cmd_args *a, const char *model, char **path, nh_error *e);

/* 12.3 MB, 4.5 GB (powers of 1000), into out. */
void cmd_bytes_text(uint64_t bytes, char out[32]);

#endif
