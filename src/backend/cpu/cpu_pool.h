/* SPDX-License-Identifier: Apache-2.0
 * cpu_pool.h: the threads that run ops. The caller is thread 0; the others are pinned, spin for a while between jobs and then sleep.
 * Work is split in fixed ranges by thread number, so that a thread meets the same weights every time (first touch, caches). Which thread
 * computes a row never changes the row: the number of threads changes no bit. Internal to the room.
 */
#ifndef CPU_CPU_POOL_H
#define CPU_CPU_POOL_H

#include <stdint.h>

#include "base/base_status.h"

typedef struct cpu_pool cpu_pool;
typedef void (*cpu_job_fn)(void *user, int thread, int threads);

/* threads 0: one a processor that this process may run on (at most CPU_THREADS_MAX). */
#define CPU_THREADS_MAX 256
nh_status cpu_pool_create(cpu_pool **out, int threads, nh_error *e);
void cpu_pool_destroy(cpu_pool *p); /* NULL is fine */
int cpu_pool_threads(const cpu_pool *p);

/* fn(user, i, n) on all n threads, the caller's as i = 0; returns when all have returned. One caller at a time. */
void cpu_pool_run(cpu_pool *p, cpu_job_fn fn, void *user);
/* The same for a small job (less than a fraction of a millisecond): workers whose processors are busy elsewhere are not waited for, so that
 * n is 1 to cpu_pool_threads. */
void cpu_pool_run_some(cpu_pool *p, cpu_job_fn fn, void *user);
/* Inside a job: returns when all threads of the job have called it. Every thread must call it equally often. */
void cpu_pool_barrier(cpu_pool *p);

/* The range [from, to) of thread i of n over `count` items in whole units of `unit`. */
static inline void cpu_range(int64_t count, int64_t unit, int i, int n, int64_t *from, int64_t *to)
{
	const int64_t units = (count + unit - 1) / unit;
	const int64_t a = units * i / n * unit, b = units * (i + 1) / n * unit;
	*from = a < count ? a : count;
	*to = b < count ? b : count;
}

#endif
