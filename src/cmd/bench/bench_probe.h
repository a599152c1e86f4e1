/* SPDX-License-Identifier: Apache-2.0
 * bench_probe.h: what this machine gives right now: bytes a second from memory and from cache, operations a second. A gang of pinned threads
 * with a buffer of their own that is far larger than the caches. Knows no model and no op.
 * The invariant that breaks first: every figure is of all threads together, from the first that begins to the last that ends.
 */
#ifndef BENCH_PROBE_H
#define BENCH_PROBE_H

#include "base/base_status.h"
#include "cmd/bench/bench_loops.h"

#define PROBE_LOOPS 16

typedef struct probe probe;

typedef struct probe_options {
	int threads;  /* 0: one a processor that this process may run on */
	size_t bytes; /* of the buffer; 0: 16 times the largest cache, 512 MiB to 1 GiB, at most a quarter of what is free */
	bool
	    thread_time; /* seconds of processor time of the slowest thread instead of seconds of the clock: for machines that others use too */
} probe_options;

typedef struct probe_reading {
	double bytes_s;                /* of the best loop */
	const char *loop;              /* static; its name */
	int loops;                     /* tried in this reading */
	double each[PROBE_LOOPS];      /* bytes a second */
	const char *name[PROBE_LOOPS]; /* static */
} probe_reading;

typedef struct probe_peak {
	double f32, bf16; /* operations a second; bf16 0 where the processor has no dot product of bf16 pairs */
	const char *f32_name, *bf16_name;
	double best; /* the larger */
} probe_peak;

/* Starts the threads, touches the buffer (each its own part), and finds the fastest loops. NH_ERR_NOMEM, NH_ERR_STATE. */
nh_status probe_open(probe **out, const probe_options *options, nh_error *e);
void probe_close(probe *p); /* NULL is fine */
int probe_threads(const probe *p);
size_t probe_bytes(const probe *p);

/* Every loop over the whole buffer: slow, thorough. */
void probe_read_all(probe *p, probe_reading *out);
/* The four loops that were the fastest at the opening, a part of the buffer each: some tens of milliseconds. */
void probe_read(probe *p, probe_reading *out);
/* Bytes a second where the data stays in a core's second cache (128 KiB a thread). */
double probe_cache(probe *p);
void probe_maths(probe *p, probe_peak *out);

#endif
