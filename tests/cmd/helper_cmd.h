/* SPDX-License-Identifier: Apache-2.0
 * helper_cmd.h: a temporary folder, and the built program run through the shell with its output caught.
 */
#ifndef HELPER_CMD_H
#define HELPER_CMD_H

#include "test.h"

#include <stdbool.h>

#include "base/base_buf.h"

int dir_setup(void **state);    /* cmocka fixture: a fresh folder */
int dir_teardown(void **state); /* removes it with all that is in it */
/* A path in that folder; four results live at a time. */
const char *dir_path(const char *name);
void dir_put(const char *name, const char *text);

typedef struct outcome {
	int status; /* exit status; 128 + signal where one killed it */
	buf out, err;
} outcome;

/* Runs a shell command in which $N is the program and $D the temporary folder; `in` (may be NULL) is its standard input. Prints both outputs
 * where the status is not `want`. Free with outcome_free. */
outcome run_program(const char *in, int want, const char *format, ...) BASE_PRINTF(3, 4);
void outcome_free(outcome *o);
/* Runs a command and compares: `out` is all of standard output (NULL: anything), `err` a part of standard error (NULL: anything). */
void says(const char *in, int status, const char *command, const char *out, const char *err);
/* Status 0, and `text` is a part of standard output. */
void has(const char *in, const char *command, const char *text);
/* Prints NOT RUN and returns 77 where the program is not built, else 0. */
int program_missing(void);

#endif
