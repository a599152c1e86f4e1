/* SPDX-License-Identifier: Apache-2.0
 * cpu_pool.c: spin, then sleep on a futex. A job is announced by raising `epoch`; a worker enters by counting up `door` while that is open,
 * begins when the caller has closed it, and answers by counting up `done`. Who finds it closed has missed the job. Knows no op.
 * The invariant that breaks first: nobody reads fn and user before it has entered and seen the door closed.
 */
#include "backend/cpu/cpu_pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/base_jobs.h"
#include "base/base_mem.h"
#include "base/base_thread.h"

/* Between the ops of a step lie microseconds; between steps, perhaps seconds. About 50 us of looking, then sleep. */
#define SPINS 2000
#define LINE 64
/* A small job waits for so many looks, then begins without the workers that are absent: other processes have their processors. After that
 * a growing number of small jobs, at most ALONE_MOST, does not ask for them at all. */
#define PATIENCE 200
#define ALONE_LEAST 8
#define ALONE_MOST 4096
#define CLOSED 0x80000000u /* of door; the rest is the number of workers that have entered */

typedef struct seat {
	_Alignas(LINE) cpu_pool *pool;
	int index;
	pthread_t thread;
} seat;

struct cpu_pool {
	_Alignas(LINE) atomic_uint epoch;          /* of jobs; workers wait for its change */
	_Alignas(LINE) atomic_uint door;           /* entered workers, CLOSED */
	_Alignas(LINE) atomic_uint done;           /* workers that have finished the job */
	_Alignas(LINE) atomic_uint arrived, phase; /* of the barrier */
	_Alignas(LINE) atomic_int sleeping;        /* workers in the futex */
	cpu_job_fn fn;
	void *user;
	atomic_bool ending, stalled; /* stalled: someone slept within the job */
	int threads;
	int alone, penalty; /* the caller's: small jobs to run alone yet; how many after the next disappointment */
	seat seats[];
};

static void relax(void)
{
#if defined __x86_64__
	__builtin_ia32_pause();
#endif
}

static void futex_wait(atomic_uint *word, unsigned seen) { syscall(SYS_futex, (unsigned *)word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0); }

static void futex_wake(atomic_uint *word) { syscall(SYS_futex, (unsigned *)word, FUTEX_WAKE_PRIVATE, 0x7fffffff, NULL, NULL, 0); }

/* Returns when *word is no longer `seen`. True: slept meanwhile. */
static bool await_change(cpu_pool *p, atomic_uint *word, unsigned seen)
{
	for (int i = 0; i < SPINS; i++) {
		if (atomic_load_explicit(word, memory_order_acquire) != seen) return false;
		relax();
	}
	atomic_fetch_add(
	    &p->sleeping, 1); /* sequentially consistent, and before the last look: the other side stores the word, then looks here */
	while (atomic_load(word) == seen) futex_wait(word, seen);
	atomic_fetch_sub(&p->sleeping, 1);
	return true;
}

static void announce(cpu_pool *p, atomic_uint *word)
{
	atomic_fetch_add(word, 1);
	if (atomic_load(&p->sleeping) > 0) futex_wake(word);
}

/* Returns the worker's number among those that entered, from 1; 0: the door is closed. */
static unsigned enter(cpu_pool *p)
{
	unsigned in = atomic_load(&p->door);
	while (!(in & CLOSED))
		if (atomic_compare_exchange_weak(&p->door, &in, in + 1)) {
			if (in + 2 == (unsigned)p->threads && atomic_load(&p->sleeping) > 0) futex_wake(&p->door); /* the caller awaits the last */
			return in + 1;
		}
	return 0;
}

static void *work(void *user)
{
	seat *s = user;
	cpu_pool *p = s->pool;
	unsigned seen = 0;
	for (;;) {
		await_change(p, &p->epoch, seen);
		seen = atomic_load_explicit(&p->epoch, memory_order_acquire);
		if (atomic_load(&p->ending)) return NULL;
		const unsigned me = enter(p);
		if (me == 0) continue;
		unsigned in;
		while (!((in = atomic_load_explicit(&p->door, memory_order_acquire)) & CLOSED)) await_change(p, &p->door, in);
		const int team = (int)(in & ~CLOSED) + 1;
		p->fn(p->user, team == p->threads ? s->index : (int)me, team); /* a full team: everyone meets its own weights again */
		if (atomic_fetch_add(&p->done, 1) + 2 == (unsigned)team && atomic_load(&p->sleeping) > 0) futex_wake(&p->done);
	}
}

/* Worker i on the i-th processor that the process may use; the caller is left where it is. A refusal does no harm. */
static void pin(const cpu_pool *p, int i)
{
	cpu_set_t may, one;
	if (sched_getaffinity(0, sizeof may, &may) != 0 || p->threads > CPU_COUNT(&may)) return;
	int n = 0;
	for (int c = 0; c < CPU_SETSIZE; c++) {
		if (!CPU_ISSET(c, &may) || n++ != i) continue;
		CPU_ZERO(&one);
		CPU_SET(c, &one);
		pthread_setaffinity_np(p->seats[i].thread, sizeof one, &one);
		return;
	}
}

nh_status cpu_pool_create(cpu_pool **out, int threads, nh_error *e)
{
	*out = NULL;
	if (threads < 0 || threads > CPU_THREADS_MAX) return ERR(e, NH_ERR_ARG, "threads: is %d, expected 0 to %d", threads, CPU_THREADS_MAX);
	int wanted = threads ? threads : jobs_processors();
	if (wanted > CPU_THREADS_MAX) wanted = CPU_THREADS_MAX;
	cpu_pool *p = mem_aligned(LINE, sizeof *p + (size_t)wanted * sizeof p->seats[0]);
	if (!p) return ERR_NOMEM(e);
	p->threads = wanted;
	atomic_store(&p->door, CLOSED);
	for (int i = 1; i < wanted; i++) {
		p->seats[i] = (seat){.pool = p, .index = i};
		if (!thread_start(&p->seats[i].thread, work, &p->seats[i])) {
			p->threads = i;
			cpu_pool_destroy(p);
			return ERR(e, NH_ERR_STATE, "thread %d of %d could not be started", i + 1, wanted);
		}
		pin(p, i);
	}
	*out = p;
	return NH_OK;
}

void cpu_pool_destroy(cpu_pool *p)
{
	if (!p) return;
	atomic_store(&p->ending, true);
	announce(p, &p->epoch);
	for (int i = 1; i < p->threads; i++) pthread_join(p->seats[i].thread, NULL);
	mem_free(p);
}

int cpu_pool_threads(const cpu_pool *p) { return p->threads; }

/* Whoever has come after `patience` looks (0: everyone) runs the job with the caller. True: everyone came, and nobody slept. */
static bool run(cpu_pool *p, cpu_job_fn fn, void *user, int patience)
{
	const unsigned all = (unsigned)p->threads - 1;
	unsigned in, done;
	p->fn = fn;
	p->user = user;
	atomic_store(&p->done, 0);
	atomic_store(&p->stalled, false);
	atomic_store(&p->door, 0);
	announce(p, &p->epoch);
	for (int i = 0; (in = atomic_load_explicit(&p->door, memory_order_acquire)) != all; i++) {
		if (patience && i >= patience) break;
		if (!patience && i >= SPINS) await_change(p, &p->door, in);
		else relax();
	}
	in = atomic_fetch_or(&p->door, CLOSED);
	if (in > 0 && atomic_load(&p->sleeping) > 0) futex_wake(&p->door);
	fn(user, 0, (int)in + 1);
	bool slept = false;
	while ((done = atomic_load_explicit(&p->done, memory_order_acquire)) != in) slept |= await_change(p, &p->done, done);
	return in == all && !slept && !atomic_load(&p->stalled);
}

void cpu_pool_run(cpu_pool *p, cpu_job_fn fn, void *user)
{
	if (p->threads == 1) fn(user, 0, 1);
	else run(p, fn, user, 0);
}

void cpu_pool_run_some(cpu_pool *p, cpu_job_fn fn, void *user)
{
	if (p->threads == 1 || p->alone > 0) {
		p->alone -= p->alone > 0;
		atomic_store(&p->door, CLOSED); /* a team of one, as barriers see it */
		fn(user, 0, 1);
	} else if (run(p, fn, user, PATIENCE)) p->penalty /= 2;
	else {
		p->alone = p->penalty > ALONE_LEAST ? p->penalty : ALONE_LEAST;
		p->penalty = p->alone < ALONE_MOST ? 2 * p->alone : ALONE_MOST;
	}
}

void cpu_pool_barrier(cpu_pool *p)
{
	const unsigned team = (atomic_load_explicit(&p->door, memory_order_relaxed) & ~CLOSED) + 1; /* closed: it does not change */
	if (team == 1) return;
	const unsigned phase = atomic_load(&p->phase);
	if (atomic_fetch_add(&p->arrived, 1) + 1 == team) {
		atomic_store(&p->arrived, 0);
		announce(p, &p->phase);
	} else if (await_change(p, &p->phase, phase)) atomic_store(&p->stalled, true);
}
