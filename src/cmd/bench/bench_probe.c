/* SPDX-License-Identifier: Apache-2.0
 * bench_probe.c: see bench_probe.h. The gang waits on a condition between jobs and meets at a counter before each, so that all begin together.
 * Refuses to know what the loops do. The buffer is touched by its readers, in huge pages where the system gives them.
 * The invariant that breaks first: one job at a time, and the caller sleeps while it runs, so that it takes no processor from the gang.
 */
#include "cmd/bench/bench_probe.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/base_clock.h"
#include "base/base_jobs.h"
#include "base/base_mem.h"

#define CACHE_BYTES ((size_t)128 << 10)
#define FAST_LOOPS 4
#define THREADS_MAX 1024

typedef struct member {
	struct probe *p;
	pthread_t thread;
	int index, cpu; /* cpu -1: not pinned */
	char *slice;    /* borrow */
	size_t bytes;   /* multiple of LOOP_UNIT * 4 */
	int64_t from, to, cpu_ns;
	uint64_t sum;
	float sink;
	double ops;
} member;

typedef enum { JOB_TOUCH, JOB_READ, JOB_CACHE, JOB_MATHS, JOB_END } job_kind;

struct probe {
	member *member; /* own */
	int threads, started;
	char *buffer; /* own; mem_pages */
	size_t bytes;
	bool thread_time;

	pthread_mutex_t lock;
	pthread_cond_t begin, done;
	uint64_t job; /* number of the job; guarded */
	int running;  /* guarded */
	atomic_int arrived;

	/* The job; written before it begins. */
	job_kind kind;
	loop_read read;
	loop_maths maths;
	size_t offset, length; /* within each slice */
	uint64_t rounds;

	loop_read fast[FAST_LOOPS];
	int fast_count;
	size_t cursor;
	uint64_t keep; /* sums end here, so that they are wanted */
};

static int64_t thread_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void work(probe *p, member *m)
{
	m->sum = 0;
	m->ops = 0;
	switch (p->kind) {
	case JOB_TOUCH:
		for (size_t i = 0; i < m->bytes / 8; i++) ((uint64_t *)(void *)m->slice)[i] = i * 0x9E3779B97F4A7C15u;
		break;
	case JOB_READ: m->sum = p->read.run(m->slice + p->offset, p->length); break;
	case JOB_CACHE:
		for (uint64_t r = 0; r < p->rounds; r++) m->sum += p->read.run(m->slice, CACHE_BYTES);
		break;
	case JOB_MATHS: m->ops = p->maths.run(p->rounds, &m->sink); break;
	case JOB_END: break;
	}
}

static void *member_main(void *user)
{
	member *m = user;
	probe *p = m->p;
	uint64_t seen = 0;
	if (m->cpu >= 0) {
		cpu_set_t set;
		CPU_ZERO(&set);
		CPU_SET(m->cpu, &set);
		pthread_setaffinity_np(pthread_self(), sizeof set, &set);
	}
	for (;;) {
		pthread_mutex_lock(&p->lock);
		while (p->job == seen) pthread_cond_wait(&p->begin, &p->lock);
		seen = p->job;
		pthread_mutex_unlock(&p->lock);
		if (p->kind == JOB_END) return NULL;
		atomic_fetch_add(&p->arrived, 1);
		while (atomic_load(&p->arrived) < p->threads) sched_yield();
		int64_t cpu = thread_ns();
		m->from = clock_ns();
		work(p, m);
		m->to = clock_ns();
		m->cpu_ns = thread_ns() - cpu;
		pthread_mutex_lock(&p->lock);
		if (--p->running == 0) pthread_cond_signal(&p->done);
		pthread_mutex_unlock(&p->lock);
	}
}

/* Runs the job that p holds; returns its seconds. */
static double run_job(probe *p)
{
	atomic_store(&p->arrived, 0);
	pthread_mutex_lock(&p->lock);
	p->running = p->threads;
	p->job++;
	pthread_cond_broadcast(&p->begin);
	while (p->running > 0) pthread_cond_wait(&p->done, &p->lock);
	pthread_mutex_unlock(&p->lock);
	int64_t from = p->member[0].from, to = p->member[0].to, cpu = 0;
	for (int i = 0; i < p->threads; i++) {
		const member *m = &p->member[i];
		if (m->from < from) from = m->from;
		if (m->to > to) to = m->to;
		if (m->cpu_ns > cpu) cpu = m->cpu_ns;
		p->keep += m->sum;
	}
	int64_t ns = p->thread_time ? cpu : to - from;
	return (double)(ns > 0 ? ns : 1) * 1e-9;
}

static double read_part(probe *p, const loop_read *loop, size_t offset, size_t length)
{
	p->kind = JOB_READ;
	p->read = *loop;
	p->offset = offset;
	p->length = length;
	return (double)length * p->threads / run_job(p);
}

static void note(probe_reading *out, const char *name, double rate)
{
	if (out->loops < PROBE_LOOPS) {
		out->name[out->loops] = name;
		out->each[out->loops++] = rate;
	}
	if (rate <= out->bytes_s) return;
	out->bytes_s = rate;
	out->loop = name;
}

void probe_read_all(probe *p, probe_reading *out)
{
	loop_read loop;
	memset(out, 0, sizeof *out);
	for (int i = 0; loop_read_at(i, &loop); i++) note(out, loop.name, read_part(p, &loop, 0, p->member[0].bytes));
}

void probe_read(probe *p, probe_reading *out)
{
	size_t part = p->member[0].bytes / 4;
	memset(out, 0, sizeof *out);
	for (int i = 0; i < p->fast_count; i++) {
		note(out, p->fast[i].name, read_part(p, &p->fast[i], p->cursor * part, part));
		p->cursor = (p->cursor + 1) % 4;
	}
}

double probe_cache(probe *p)
{
	double best = 0;
	for (int i = 0; i < p->fast_count; i++) {
		p->kind = JOB_CACHE;
		p->read = p->fast[i];
		p->rounds = 400;
		double rate = (double)(CACHE_BYTES * p->rounds) * p->threads / run_job(p);
		if (rate > best) best = rate;
	}
	return best;
}

void probe_maths(probe *p, probe_peak *out)
{
	memset(out, 0, sizeof *out);
	p->kind = JOB_MATHS;
	for (int i = 0; loop_maths_at(i, &p->maths); i++) {
		for (int pass = 0; pass < 3; pass++) {
			double ops = 0;
			p->rounds = 1000000;
			double s = run_job(p);
			for (int k = 0; k < p->threads; k++) ops += p->member[k].ops;
			double rate = ops / s, *into = p->maths.kind == LOOP_BF16 ? &out->bf16 : &out->f32;
			if (rate <= *into) continue;
			*into = rate;
			*(p->maths.kind == LOOP_BF16 ? &out->bf16_name : &out->f32_name) = p->maths.name;
		}
	}
	out->best = out->bf16 > out->f32 ? out->bf16 : out->f32;
}

/* The fastest four, by three rounds over everything. */
static void choose(probe *p)
{
	probe_reading sum = {0}, one;
	loop_read loop;
	for (int pass = 0; pass < 3; pass++) {
		probe_read_all(p, &one);
		for (int i = 0; i < one.loops; i++) sum.each[i] = one.each[i] > sum.each[i] ? one.each[i] : sum.each[i];
		sum.loops = one.loops;
	}
	for (p->fast_count = 0; p->fast_count < FAST_LOOPS && p->fast_count < sum.loops; p->fast_count++) {
		int best = 0;
		for (int i = 1; i < sum.loops; i++) {
			if (sum.each[i] > sum.each[best]) best = i;
		}
		loop_read_at(best, &loop);
		p->fast[p->fast_count] = loop;
		sum.each[best] = -1;
	}
}

static size_t default_bytes(void)
{
	long cache = sysconf(_SC_LEVEL3_CACHE_SIZE), page = sysconf(_SC_PAGESIZE), pages = sysconf(_SC_AVPHYS_PAGES);
	size_t want = cache > 0 ? (size_t)cache * 16 : 0, free_bytes = page > 0 && pages > 0 ? (size_t)page * (size_t)pages : 0;
	if (want < (size_t)512 << 20) want = (size_t)512 << 20;
	if (want > (size_t)1 << 30) want = (size_t)1 << 30; /* some systems name the cache of a whole socket */
	if (free_bytes && want > free_bytes / 4) want = free_bytes / 4;
	return want;
}

/* The processors that this process may run on, one a thread; fewer than threads: the rest float. */
static void place(probe *p)
{
	cpu_set_t set;
	int cpu = 0;
	bool known = sched_getaffinity(0, sizeof set, &set) == 0;
	for (int i = 0; i < p->threads; i++) {
		while (known && cpu < CPU_SETSIZE && !CPU_ISSET(cpu, &set)) cpu++;
		p->member[i].cpu = known && cpu < CPU_SETSIZE ? cpu++ : -1;
	}
}

nh_status probe_open(probe **out, const probe_options *options, nh_error *e)
{
	*out = NULL;
	probe *p = mem_alloc(sizeof *p);
	if (!p) return ERR_NOMEM(e);
	nh_status s = NH_OK;
	int threads = options->threads > 0 ? options->threads : jobs_processors();
	if (threads > THREADS_MAX) threads = THREADS_MAX;
	size_t unit = LOOP_UNIT * 4, slice = (options->bytes ? options->bytes : default_bytes()) / (size_t)threads / unit * unit;
	if (slice < CACHE_BYTES * 4) slice = CACHE_BYTES * 4;
	p->threads = threads;
	p->bytes = slice * (size_t)threads;
	p->thread_time = options->thread_time;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->begin, NULL);
	pthread_cond_init(&p->done, NULL);
	p->member = mem_array((size_t)threads, sizeof *p->member);
	p->buffer = mem_pages(p->bytes);
	if (!p->member || !p->buffer) TRY_GOTO(s, ERR(e, NH_ERR_NOMEM, "the probe's buffer: %zu bytes", p->bytes), fail);
	place(p);
	for (; p->started < threads; p->started++) {
		member *m = &p->member[p->started];
		m->p = p;
		m->index = p->started;
		m->slice = p->buffer + slice * (size_t)p->started;
		m->bytes = slice;
		if (pthread_create(&m->thread, NULL, member_main, m) != 0)
			TRY_GOTO(s, ERR(e, NH_ERR_STATE, "the probe: thread %d of %d does not start", p->started + 1, threads), fail);
	}
	p->kind = JOB_TOUCH;
	run_job(p);
	choose(p);
	*out = p;
	return NH_OK;
fail:
	probe_close(p);
	return s;
}

void probe_close(probe *p)
{
	if (!p) return;
	pthread_mutex_lock(&p->lock);
	p->kind = JOB_END;
	p->job++;
	pthread_cond_broadcast(&p->begin);
	pthread_mutex_unlock(&p->lock);
	for (int i = 0; i < p->started; i++) pthread_join(p->member[i].thread, NULL);
	pthread_cond_destroy(&p->begin);
	pthread_cond_destroy(&p->done);
	pthread_mutex_destroy(&p->lock);
	mem_pages_free(p->buffer);
	mem_free(p->member);
	mem_free(p);
}

int probe_threads(const probe *p) { return p->threads; }
size_t probe_bytes(const probe *p) { return p->bytes; }
