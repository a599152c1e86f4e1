/* SPDX-License-Identifier: Apache-2.0
 * backend.h: how an arm is opened, and its memory. A backend is a folder; the registry (src/backend) lists those of this build.
 */
#ifndef EXEC_BACKEND_H
#define EXEC_BACKEND_H

#include "base/base_log.h"
#include "exec/exec.h"

typedef struct backend_options {
	const nh_numerics *num; /* NULL: the arm's default profile */
	const logger *log;      /* borrow; may be NULL */
	int threads;            /* 0: the arm decides; ref uses one */
	const char *isa; /* borrow; NULL or "auto": the highest tier of this processor; other names: that tier, or a refusal. Host arms */
} backend_options;

typedef struct backend {
	const char *name;            /* "ref" */
	const char *default_profile; /* "portable" */
	bool host_memory;            /* its memory can be read and written here */

	/* Opens an exec for one engine. NH_ERR_UNSUPPORTED names what is missing: a profile, an op, a device. */
	nh_status (*open)(exec **out, const backend_options *options, nh_error *e);
	void (*close)(exec *x); /* NULL is fine */

	/* Binds a kernel set to a weight whose fields are filled from file memory that outlives it; may repack or upload and set `bound`.
	 * Refuses a scheme, type or shape that it cannot run, by name. */
	nh_status (*import)(exec *x, weight *w, nh_error *e);
	void (*release)(exec *x, weight *w);

	/* The arm's memory, zeroed. Host arms return host memory. */
	void *(*alloc)(exec *x, size_t bytes);
	void (*free)(exec *x, void *p);
	nh_status (*upload)(exec *x, void *to, const void *from, size_t bytes, nh_error *e); /* counted */
	nh_status (*download)(exec *x, void *to, const void *from, size_t bytes, nh_error *e);

	/* Names for options.isa that this machine can run, the best first, NULL past the end. No function: one tier, without a name. */
	const char *(*tier_at)(int i);

	/* After import the arm reads neither w->data nor w->block_scale: their memory may go away, and w->data may be NULL then. */
	bool repacks;
} backend;

#endif
