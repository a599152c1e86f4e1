/* SPDX-License-Identifier: Apache-2.0
 * base_jobs.h: a pool of threads for work beside the steps: repacking, spilling, quantising, compiling grammars. Not for the ops of a
 * step: the CPU arm has its own pool, whose threads own memory. Owns threads and a bounded queue; knows nothing of what runs.
 * The invariant that breaks first: a job that was accepted runs exactly once, also when the pool is being destroyed.
 */
#ifndef BASE_BASE_JOBS_H
#define BASE_BASE_JOBS_H

#include <stddef.h>
#include <stdint.h>

#include "base/base_status.h"

typedef struct jobs jobs;
typedef void (*job_fn)(void *user);
typedef void (*job_each_fn)(void *user, int64_t index);

/* threads 0: as many as there are processors for this process (base_jobs_processors). NH_ERR_NOMEM, NH_ERR_STATE when no thread starts; with
 * fewer threads than asked it goes on. */
nh_status jobs_create(jobs **out, int threads, nh_error *e);
void jobs_destroy(jobs *p); /* runs what is queued, then ends the threads; NULL is fine */
int jobs_threads(const jobs *p);
int jobs_processors(void); /* processors that this process may run on, at least 1 */

/* Queues one job; `user` must live until it has run. NH_ERR_LIMIT (nothing happens) when JOBS_QUEUE jobs wait already. Any thread. */
nh_status jobs_submit(jobs *p, job_fn fn, void *user);
#define JOBS_QUEUE 256
/* Waits until nothing that was submitted before the call is queued or running. Not from a job. */
void jobs_drain(jobs *p);
/* fn(user, i) once for each i of [0, n), on the pool's threads and the caller's, in no order; returns when all are done. Not from a job. */
void jobs_for(jobs *p, int64_t n, job_each_fn fn, void *user);

#endif
