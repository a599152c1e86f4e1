/* SPDX-License-Identifier: Apache-2.0
 * batch_out.h: the answers of a batch on disk. They gather in <out>.partial, one whole line each, in the order in which they come; an
 * interrupted batch finds them there again; the file takes its name when all lines are answered. Knows nothing of JSON or engines.
 * The invariant that breaks first: what lies in the partial file is whole lines, at any moment, whatever kills the program.
 */
#ifndef BATCH_OUT_H
#define BATCH_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base_status.h"

typedef struct batch_row {
	uint64_t line; /* of the input, from 1 */
	uint64_t at;   /* byte of the partial file */
	size_t len;    /* with its newline */
} batch_row;

typedef struct batch_out {
	const char *path; /* borrow */
	char *partial;    /* own */
	int fd;           /* own; locked; -1 */
	uint64_t size;    /* of the whole lines */
	batch_row *rows;  /* own; one a line of the partial file */
	size_t count, room;
	bool dirty; /* written since the last batch_out_sync */
} batch_out;

/* Tells the line of the input that an answer belongs to; fails where it belongs to none. */
typedef nh_status (*batch_owner_fn)(void *user, const char *text, size_t len, uint64_t *line, nh_error *e);

/* Opens <path>.partial and takes in the answers that lie there; a torn last line is cut off. NH_ERR_STATE: the file at `path` exists
 * (unless overwrite), or another process writes the same batch. restart: what lies in the partial file is dropped. */
nh_status batch_out_open(batch_out *o, const char *path, bool overwrite, bool restart, batch_owner_fn owner, void *user, nh_error *e);
/* text has no newline. On failure the file is as before. */
nh_status batch_out_put(batch_out *o, uint64_t line, const char *text, size_t len, nh_error *e);
nh_status batch_out_sync(batch_out *o, nh_error *e); /* to the disk */
/* All is answered: the file gets its name; in_order: sorted by line. */
nh_status batch_out_finish(batch_out *o, bool in_order, nh_error *e);
void batch_out_close(batch_out *o); /* keeps what was written, but no empty partial file; safe on a zeroed one with fd -1 */

#endif
