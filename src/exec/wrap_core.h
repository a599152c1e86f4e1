/* SPDX-License-Identifier: Apache-2.0
 * wrap_core.h: what all wrappers are made of. Internal to the room. One op table serves every wrapper: each entry forwards layer and
 * scratch to the inner exec, asks `before`, runs the op, mirrors the inner exec's error and counters, tells `after`.
 * The invariant that breaks first: `wrapper` is the first member of every wrapper's struct, and `x` the first of it.
 */
#ifndef EXEC_WRAP_CORE_H
#define EXEC_WRAP_CORE_H

#include "exec/backend.h"
#include "exec/wrap.h"

typedef struct wrapper wrapper;
struct wrapper {
	exec x;
	/* Either may be NULL. `before` may fail w->x, then the op does not run; `after` is called only for an op that ran, whether or not it
	 * failed (w->x.status says). */
	void (*before)(wrapper *w, op_id op, const void *args);
	void (*after)(wrapper *w, op_id op, const void *args);
	void (*deinit)(wrapper *w); /* frees what the struct owns, not the struct; may be NULL */
};

/* A zeroed struct of `bytes` whose exec part is set up around inner. NULL when out of memory. */
void *wrap_new(exec *inner, size_t bytes);

/* Whether values of an op's operands can be read here: for wrappers that are not told. */
bool wrap_host_memory(const exec *inner);

/* Integer element i of a rank-1 I32 or I64 tensor in host memory. */
int64_t wrap_index(const tensor *t, int64_t i);
/* Keys that an attention call sees, added up over its rows; 0 for other ops. Reads values. */
uint64_t wrap_context(op_id op, const void *args);

/* Calls fn with each line of the last dimension: `row` counts them. Stops when fn returns false. */
typedef bool (*wrap_line_fn)(void *user, void *line, size_t bytes, int64_t row);
void wrap_each_line(const tensor *t, wrap_line_fn fn, void *user);

/* Value checks on host memory; NULL or what is wrong, in text. */
const char *wrap_check_values(op_id op, const void *args, char text[256]);

#endif
