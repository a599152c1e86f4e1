/* SPDX-License-Identifier: Apache-2.0
 * load_impl.h: what the files of this room share.
 */
#ifndef LOAD_LOAD_IMPL_H
#define LOAD_LOAD_IMPL_H

#include "load/dummy.h"
#include "load/ledger.h"
#include "load/loader.h"

/* Something to give back when the loader closes. */
typedef struct load_owned {
	struct load_owned *next;
	weight *imported; /* to release from the arm */
	void *memory;     /* the arm's memory */
} load_owned;

struct loader {
	loader_options o;
	ledger ledger;
	arena keep; /* names, owned lines, imported weights */
	load_owned *owned;
	uint64_t scheme_bytes[NUM_SCHEME_COUNT], param_bytes;
	uint64_t bytes_done;
	bool has_w4a4;
	dummy *dummy; /* own; NULL: values come from files, or there are none */
	int64_t opened_us, finished_us;
	const st_file *ahead_file; /* where the next tensors were asked for, up to ahead_end */
	size_t ahead_from, ahead_end;
};

load_owned *load_own(loader *l);                   /* a zeroed line in the list; NULL when out of memory */
void *load_memory(loader *l, size_t bytes);        /* the arm's memory, given back at close */
void load_forget(loader *l, const void *memory);   /* gives it back now */
void load_report(loader *l, const load_record *r); /* sums, and the caller's function */
nh_status load_progress(loader *l, size_t bytes, nh_error *e);
/* Progress over a tensor without values: with shapes only it counts, so that a drawn model knows beforehand what it will draw. */
nh_status load_absent(loader *l, size_t bytes, nh_error *e);
bool load_eager(const loader *l);
bool load_float(ledger *g, const st_tensor *t); /* BF16 or F32, else noted */
/* Notes a module that the configuration lists as quantised but that is kept plain by this family: table and router. */
nh_status load_plain_only(loader *l, const char *module, nh_error *e);
/* A float tensor of the given shape. *out is NULL with shapes only, and for a problem that is in the ledger. A drawn one has the type `habit`;
 * keep: its values are needed as long as the loader, else until the next is taken. */
nh_status load_take(
    loader *l, const char *name, num_dtype habit, bool keep, int rank, const int64_t *shape, const st_tensor **out, nh_error *e);
void load_read_ahead(loader *l, const st_tensor *t); /* asks for the pages of a tensor that is about to be read, and for those behind it */

#endif
