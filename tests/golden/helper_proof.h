/* SPDX-License-Identifier: Apache-2.0
 * helper_proof.h: runs the program's own `verify` on a golden and expects an exit status. The built-in model's goldens are in this tree; those of the other
 * checkpoints are read where they are published and are NOT RUN without. Under sanitizers, which are ten times slower, only the lines that ask for it run.
 */
#ifndef HELPER_PROOF_H
#define HELPER_PROOF_H

#include "test.h"

#include <jansson.h>
#include <stdbool.h>

#include "base/base_mem.h"

#define PROOF_MODELS 4
extern const char *const proof_models[PROOF_MODELS];

typedef enum { PROOF_GOLDEN, PROOF_TRACE } proof_kind;

void proof_begin(void);
/* quick: cheap enough for sanitizer builds. */
void proof_expect(const char *model, const char *golden, const char *options, proof_kind kind, bool quick, int status);
/* What verify says with --json, to be judged by the caller (json_decref); NULL, counted as left out, where the golden is not there or this is a sanitizer
 * build. Its exit status is not looked at. */
json_t *proof_report(const char *model, const char *golden, const char *options);
#define PROOF_PATH 512
/* Where a golden lies; false: not there. */
bool proof_path(const char *model, const char *golden, char path[PROOF_PATH]);
/* How many ran since proof_begin; fails if that is not `expected` although everything is there; skips if none ran. */
void proof_end(int expected);
/* A golden of another checkpoint than the built-in model must be refused. */
void proof_wrong_checkpoint(void);

#endif
