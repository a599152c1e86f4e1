/* SPDX-License-Identifier: Apache-2.0
 * helper_fake.h: an arm that writes something into every output, the same each time, and can be told to misbehave.
 */
#ifndef HELPER_FAKE_H
#define HELPER_FAKE_H

#include "exec/exec.h"
#include "op/helper_calls.h"

typedef struct fake {
	exec x;
	arena scratch; /* fixed */
	int calls;
	int layer;           /* seen at the last call */
	bool forget;         /* leaves the last line of every pure output as it was */
	bool nan;            /* writes quiet NaNs of its own */
	op_id fail_at;       /* this op fails; OP_COUNT: none */
	size_t want_scratch; /* bytes of scratch that each call takes and gives back */
} fake;

void fake_init(fake *f);
void fake_deinit(fake *f);
/* Runs the call through any exec, as the macro OP would. */
void run_call(exec *x, const call *c);

#endif
