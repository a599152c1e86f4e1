/* SPDX-License-Identifier: Apache-2.0
 * verify.h: what the files of this command share: the run of one entry, and the three verdicts.
 */
#ifndef CMD_VERIFY_H
#define CMD_VERIFY_H

#include "cmd/cmd_open.h"
#include "cmd/verify/golden_file.h"

#define VERIFY_WANT 6 /* ids asked for at a position: the five best of the golden, and the token it has there */
#define VERIFY_BEST 5

/* Exit status of the command. */
enum { VERIFY_PASS = 0, VERIFY_DIFFERS = 1, VERIFY_SHORT = 2, VERIFY_REFUSED = 3, VERIFY_ERROR = 4 };

/* What this program said at one position. */
typedef struct verify_step {
	int32_t id;   /* token at this position: drawn, or forced */
	int32_t best; /* arg-max */
	double margin;
	nh_logprob want[VERIFY_WANT];
	int wants;
} verify_step;

typedef struct verify_run {
	verify_step *steps; /* own */
	size_t count;
	int finish; /* nh_finish */
} verify_run;

typedef struct verify {
	const cmd_args *a;
	const golden *g;
	nh_model *model;
	nh_engine *engine;
	nh_model_info info;
	json_t *report; /* own; filled with --json and without */
	bool json;
	nh_request **ahead; /* own [entry_count]; entries that run side by side while one is read: their bits are the same as alone */
	size_t submitted;
	bool forced;
} verify;

#define VERIFY_AHEAD 64

/* Generates after entry n's prompt: free, or along the entry's own tokens (decode form). Asks at each step for the golden's ids. Entries are taken in order, each
 * once, all forced or all free; the next ones are running already. */
nh_status verify_generate(verify *v, size_t n, bool forced, verify_run *out, nh_error *e);
void verify_let_go(verify *v); /* cancels what nobody reads any more; before the engine closes */
/* Computes the text in prefill form and tells each position; steps[0] is empty. */
nh_status verify_prefill(const verify *v, const golden_entry *x, verify_run *out, nh_error *e);
void verify_run_free(verify_run *r);

/* Each prints its findings, adds them to v->report and returns a status of the list above, or VERIFY_ERROR with e filled. */
int verify_exact(verify *v, nh_error *e);
int verify_strict(verify *v, nh_error *e);
int verify_distance(verify *v, const golden *noise, nh_error *e);
int verify_trace(const cmd_args *a, const char *model_path, const char *trace_path, nh_error *e);

/* A finding: to standard output unless --json. */
void verify_say(const verify *v, const char *format, ...) BASE_PRINTF(2, 3);

#endif
