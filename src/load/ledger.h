/* SPDX-License-Identifier: Apache-2.0
 * ledger.h: who has asked for which tensor. Collects what is missing, what has the wrong shape or type, what was asked for twice, and at the
 * end what nobody asked for. Internal to the room.
 */
#ifndef LOAD_LEDGER_H
#define LOAD_LEDGER_H

#include "base/base_arena.h"
#include "base/base_log.h"
#include "fmt/st_set.h"

typedef enum { LEDGER_MISSING, LEDGER_WRONG, LEDGER_TWICE, LEDGER_UNUSED, LEDGER_KINDS } ledger_kind;
#define LEDGER_TOLD 10

typedef struct ledger {
	const st_set *set;                           /* borrow; NULL: shapes only, everything exists */
	const char *files;                           /* borrow; name of the whole */
	bool *taken;                                 /* own [st_set_count] */
	arena text;                                  /* texts of problems */
	const char *told[LEDGER_KINDS][LEDGER_TOLD]; /* the first of each kind */
	size_t count[LEDGER_KINDS];
	bool nomem;
} ledger;

nh_status ledger_init(ledger *g, const st_set *set, const char *files, nh_error *e);
void ledger_deinit(ledger *g);
bool ledger_has(const ledger *g, const char *name);

/* The tensor, marked as consumed; NULL when it is missing (noted) or was consumed before (noted). Never called with shapes only. */
const st_tensor *ledger_take(ledger *g, const char *name);
/* Notes "<file>: tensor <name>: shape [..], config needs [..]" unless it matches; rank 0 accepts [] and [1]. */
bool ledger_shape(ledger *g, const st_tensor *t, int rank, const int64_t *shape);
void ledger_note(ledger *g, ledger_kind kind, const char *format, ...) BASE_PRINTF(3, 4);
const char *ledger_file(const ledger *g, const st_tensor *t);       /* base name of the file that holds it */
const st_file *ledger_file_of(const ledger *g, const st_tensor *t); /* that file; NULL for a tensor that is in none */

/* Adds what nobody took; NH_OK if there is no problem at all. */
nh_status ledger_finish(ledger *g, const logger *log, nh_error *e);

#endif
