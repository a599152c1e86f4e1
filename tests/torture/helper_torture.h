/* SPDX-License-Identifier: Apache-2.0
 * helper_torture.h: what the torture tests share: a small model, an engine on it, one request with everything on, and the kinds of faults. Failures
 * end the running test.
 */
#ifndef HELPER_TORTURE_H
#define HELPER_TORTURE_H

#include "test.h"

#include <stdbool.h>

#include "base/base_mem.h"
#include "nh/nh.h"

#define TOKENS 6

typedef struct answer {
	nh_status status;
	int32_t token[2][TOKENS];
	int tokens[2];
} answer;

const char *torture_checkpoint(void); /* its folder */
/* arm NULL: the default; spill_dir may be NULL; memory_bytes 0: plenty. Both NULL on failure where the model failed; close both in any case. */
nh_status torture_open(const char *arm, nh_model **m, nh_engine **g, nh_error *e);
nh_status torture_engine(nh_model *m, nh_engine **g, const char *spill_dir, uint64_t memory_bytes, nh_error *e);

/* One request; choices 2 makes it fork, a session is continued with two more tokens. kept may be NULL. */
answer torture_ask(nh_engine *g, int choices, const nh_session *from, nh_session **kept);
/* A plain greedy request of n tokens. */
answer torture_ask_long(nh_engine *g, const int32_t *prompt, int64_t n);
bool torture_same(const answer *a, const answer *b);
/* Ends the test unless `got` is what was wanted. */
void torture_expect(const char *what, size_t n, const answer *want, const answer *got);

/* The nth operation of a kind fails, alone or with all behind it. */
void torture_arm(mem_fault kind, size_t n, bool all);
size_t torture_disarm(mem_fault kind); /* how many failed */
const char *torture_kind_name(mem_fault kind);

#endif
