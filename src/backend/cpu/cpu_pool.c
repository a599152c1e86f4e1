/* SPDX-License-Identifier: Apache-2.0
 * cpu_pool.c: spin, then sleep on a futex. A job is announced by raising `epoch`; every thread answers by counting down `left`. Knows no op.
 * The invariant that breaks first: nobody reads fn and user before it has seen the epoch that published them.
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

typedef struct seat {
	_Alignas(LINE) cpu_pool *pool;
	int index;
	pthread_t thread;
} seat;

struct cpu_pool {
	_Alignas(LINE) atomic_uint epoch;          /* of jobs; workers wait for its change */
	_Alignas(LINE) atomic_uint left;           /* workers that have not finished the job; the caller waits for 0 */
	_Alignas(LINE) atomic_uint arrived, phase; /* of the barrier */
	_Alignas(LINE) atomic_int sleeping;        /* workers in the futex */
	cpu_job_fn fn;
	void *user;
	bool ending;
	int threads;
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

/* Returns when *word is no longer `seen`. */
static void await_change(cpu_pool *p, atomic_uint *word, unsigned seen)
{
	for (int i = 0; i < SPINS; i++) {
		if (atomic_load_explicit(word, memory_order_acquire) != seen) return;
		relax();
	}
	atomic_fetch_add(
	    &p->sleeping, 1); /* sequentially consistent, and before the last look: the other side stores the word, then looks here */
	while (atomic_load(word) == seen) futex_wait(word, seen);
	atomic_fetch_sub(&p->sleeping, 1);
}

static void announce(cpu_pool *p, atomic_uint *word)
{
	atomic_fetch_add(word, 1);
	if (atomic_load(&p->sleeping) > 0) futex_wake(word);
}

static void *work(void *user)
{
	seat *s = user;
	cpu_pool *p = s->pool;
	unsigned seen = 0;
	for (;;) {
		await_change(p, &p->epoch, seen);
		seen = atomic_load_explicit(&p->epoch, memory_order_acquire);
		if (p->ending) return NULL;
		p->fn(p->user, s->index, p->threads);
		if (atomic_fetch_sub(&p->left, 1) == 1 && atomic_load(&p->sleeping) > 0) futex_wake(&p->left);
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
	p->ending = true;
	announce(p, &p->epoch);
	for (int i = 1; i < p->threads; i++) pthread_join(p->seats[i].thread, NULL);
	mem_free(p);
}

int cpu_pool_threads(const cpu_pool *p) { return p->threads; }

void cpu_pool_run(cpu_pool *p, cpu_job_fn fn, void *user)
{
	if (p->threads == 1) {
		fn(user, 0, 1);
		return;
	}
	p->fn = fn;
	p->user = user;
	atomic_store(&p->left, (unsigned)p->threads - 1);
	announce(p, &p->epoch);
	fn(user, 0, p->threads);
	unsigned left;
	while ((left = atomic_load_explicit(&p->left, memory_order_acquire)) != 0) await_change(p, &p->left, left);
}

void cpu_pool_barrier(cpu_pool *p)
{
	if (p->threads == 1) return;
	const unsigned phase = atomic_load(&p->phase);
	if (atomic_fetch_add(&p->arrived, 1) + 1 == (unsigned)p->threads) {
		atomic_store(&p->arrived, 0);
		announce(p, &p->phase);
	} else await_change(p, &p->phase, phase);
}
