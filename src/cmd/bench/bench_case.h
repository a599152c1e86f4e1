/* SPDX-License-Identifier: Apache-2.0
 * bench_case.h: one op at one shape, ready to be called again and again: what `bench ops` measures. A family of cases fills it from made-up
 * operands; the driver knows only this struct.
 * The invariant that breaks first: `bytes` and `flops` are those of the calls that ran, so a case whose work depends on the turn counts it itself.
 */
#ifndef BENCH_CASE_H
#define BENCH_CASE_H

#include "cmd/bench/bench_made.h"

#define CASE_ROTATE_MAX 4096

typedef struct op_case {
	/* What is asked. */
	const char *op;     /* static: "linear" */
	const char *name;   /* static: "in_proj" */
	const char *format; /* static: of the weights, keys or state */
	int64_t rows;
	int64_t context;     /* attention: tokens a row sees; else 0 */
	bool decode;         /* the form */
	bool in_cache;       /* one operand instead of many: what the kernel does when memory does not hold it up */
	size_t rotate_bytes; /* at least so many bytes of weights or state before one is met again */

	/* What the family fills in. */
	char shape[48];
	void (*call)(struct op_case *c, uint64_t turn); /* runs the op once */
	double bytes;                                   /* of weights, state and keys that one call moves; mean over the turns */
	double activation_bytes;
	double flops;
	double experts; /* distinct ones a call; 0 where there are none */
	made m;
	void *self; /* the family's own; lives in m */
} op_case;

/* The families. Each sets up c, or returns false where it does not know c->op and c->name; errors are in c->m.status. */
bool case_matrix(op_case *c); /* linear, expert_ffn */
bool case_state(op_case *c);  /* conv, ssm, attention */
bool case_rows(op_case *c);   /* norms, route, combine, sampling */

/* The cases of the 30B shapes; false past the end. */
typedef struct case_name {
	const char *op, *name;
	bool weights;         /* has a format of weights */
	bool decode, prefill; /* forms in which it occurs */
	bool context;         /* is asked at contexts */
} case_name;
bool case_at(int i, case_name *out);

#endif
