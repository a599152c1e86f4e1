/* SPDX-License-Identifier: Apache-2.0
 * bench.h: what the benches share: the run with its probe, one measured line, and how lines become text, JSON and records.
 * The invariant that breaks first: a figure that was not measured is absent (NAN here, "UNMEASURED" in text, null in JSON), never zero.
 */
#ifndef BENCH_H
#define BENCH_H

#include <jansson.h>

#include "cmd/bench/bench_probe.h"
#include "cmd/cmd_open.h"

#define BENCH_PASSES_MAX 99

typedef struct bench {
	const cmd_args *a;
	const char *what; /* static: "decode", "ops" ... */
	probe *probe;     /* own; NULL for benches that need none */
	probe_peak peak;  /* read at the beginning */
	double cache_bytes_s;
	bool thread_time;
	int passes;
	json_t *head;    /* own; what the record tells beside its results */
	json_t *results; /* own; a list */
} bench;

/* Probe, passes and the head of the record. */
nh_status bench_begin(bench *b, const cmd_args *a, const char *what, bool probe, nh_error *e);
/* Adds one result; takes the reference. */
void bench_add(bench *b, json_t *result);
/* Prints the JSON where --json asks for it, and writes --record FILE. */
nh_status bench_finish(bench *b, nh_error *e);
void bench_deinit(bench *b); /* safe on a zeroed one */
/* The same minute's read bandwidth, bytes a second. */
double bench_bandwidth(bench *b);

/* --- figures --- */

/* Median, smallest and largest of n >= 1 values, which it sorts. */
typedef struct bench_spread {
	double median, min, max;
	int n;
} bench_spread;
bench_spread bench_spread_of(double *values, int n);
/* Seconds that bytes and operations need at least. A rate that is not positive leaves its part out. `limit`: which of the two, static. */
double bench_bound(double bytes, double bytes_s, double flops, double flops_s, const char **limit);
/* A number, or null where it is not finite. */
json_t *bench_real(double v);
json_t *bench_spread_json(bench_spread s);
/* "12.3" with `digits` digits after the point, or "UNMEASURED". Four results live at a time. */
const char *bench_text(double v, int digits);
/* "1,8,32" or "1k,32k" (powers of 1024) into out[max]; the number of items, -1 for text that is no such list. */
int bench_list(const char *text, int64_t *out, int max);
/* Whether `word` stands in the comma-separated list; NULL has every word. */
bool bench_named(const char *list, const char *word);

/* --- another program --- */

/* Runs --rival once; its figure, more than 0. */
nh_status bench_rival(const cmd_args *a, double *out, nh_error *e);
/* Its figures beside ours, in one unit, larger is better: into the result and as a line. */
void bench_tell_rival(bench *b, json_t *result, bench_spread ours, bench_spread rival, const char *unit);

/* --- the machine --- */

/* {"cpu", "flags", "processors", "kernel", "huge_pages", "memory_bytes"}. */
json_t *bench_machine(void);
const char *bench_commit(void); /* of the source that this program was made from; static; "unknown" where there was no git */

/* --- records --- */

/* Writes under another name beside it, then renames. */
nh_status bench_record_write(const char *path, const json_t *record, nh_error *e);
nh_status bench_record_read(const char *path, json_t **out, nh_error *e);

/* --- the benches; each returns the exit status --- */

int bench_run_probe(const cmd_args *a);
int bench_run_ops(const cmd_args *a);
int bench_run_model(const cmd_args *a); /* decode, batch, prefill, context: by its first operand */
int bench_run_load(const cmd_args *a);
int bench_run_tokenize(const cmd_args *a);
int bench_run_compare(const cmd_args *a);

#endif
