/* SPDX-License-Identifier: Apache-2.0
 * base_jobs.c: the pool of threads beside the steps. A ring of queued jobs and one running jobs_for, both under one lock; indices of a
 * jobs_for are handed out one by one, so jobs of it should be large (a millisecond or more). Knows nothing of what runs.
 * The invariant that breaks first: `busy` counts a job from the moment it leaves the queue until it has returned.
 */
#include "base/base_jobs.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

#include "base/base_mem.h"
#include "base/base_thread.h"

typedef struct job {
	job_fn fn;
	void *user;
} job;

/* The one jobs_for that may run at a time. */
typedef struct each {
	job_each_fn fn;
	void *user;
	int64_t next, n;
	int64_t running;
} each;

struct jobs {
	pthread_mutex_t lock;
	pthread_cond_t work, idle; /* something to do; something was finished */
	job queue[JOBS_QUEUE];
	size_t head, queued, busy;
	each *each;
	bool ending;
	int threads;
	pthread_t thread[];
};

int jobs_processors(void)
{
	cpu_set_t set;
	int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
	return n > 0 ? n : 1;
}

/* Takes indices until there are none. Called and returns with the lock held. */
static void take_indices(jobs *p, each *e)
{
	while (e->next < e->n) {
		int64_t i = e->next++;
		e->running++;
		pthread_mutex_unlock(&p->lock);
		e->fn(e->user, i);
		pthread_mutex_lock(&p->lock);
		e->running--;
	}
}

static void *run(void *user)
{
	jobs *p = user;
	pthread_mutex_lock(&p->lock);
	for (;;) {
		if (p->each && p->each->next < p->each->n) {
			take_indices(p, p->each);
			pthread_cond_broadcast(&p->idle);
		} else if (p->queued > 0) {
			job j = p->queue[p->head];
			p->head = (p->head + 1) % JOBS_QUEUE;
			p->queued--;
			p->busy++;
			pthread_mutex_unlock(&p->lock);
			j.fn(j.user);
			pthread_mutex_lock(&p->lock);
			p->busy--;
			pthread_cond_broadcast(&p->idle);
		} else if (p->ending) break;
		else pthread_cond_wait(&p->work, &p->lock);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

nh_status jobs_create(jobs **out, int threads, nh_error *e)
{
	*out = NULL;
	if (threads < 0) return ERR(e, NH_ERR_ARG, "threads: is %d, expected 0 or more", threads);
	int wanted = threads ? threads : jobs_processors();
	jobs *p = mem_alloc(sizeof *p + (size_t)wanted * sizeof p->thread[0]);
	if (!p) return ERR_NOMEM(e);
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->work, NULL);
	pthread_cond_init(&p->idle, NULL);
	while (p->threads < wanted && thread_start(&p->thread[p->threads], run, p)) p->threads++;
	if (p->threads == 0) {
		jobs_destroy(p);
		return ERR(e, NH_ERR_STATE, "no thread could be started for the job pool");
	}
	*out = p;
	return NH_OK;
}

void jobs_destroy(jobs *p)
{
	if (!p) return;
	pthread_mutex_lock(&p->lock);
	p->ending = true;
	pthread_cond_broadcast(&p->work);
	pthread_mutex_unlock(&p->lock);
	for (int i = 0; i < p->threads; i++) pthread_join(p->thread[i], NULL);
	pthread_cond_destroy(&p->idle);
	pthread_cond_destroy(&p->work);
	pthread_mutex_destroy(&p->lock);
	mem_free(p);
}

int jobs_threads(const jobs *p) { return p->threads; }

nh_status jobs_submit(jobs *p, job_fn fn, void *user)
{
	pthread_mutex_lock(&p->lock);
	nh_status s = p->queued < JOBS_QUEUE ? NH_OK : NH_ERR_LIMIT;
	if (s == NH_OK) {
		p->queue[(p->head + p->queued++) % JOBS_QUEUE] = (job){fn, user};
		pthread_cond_signal(&p->work);
	}
	pthread_mutex_unlock(&p->lock);
	return s;
}

void jobs_drain(jobs *p)
{
	pthread_mutex_lock(&p->lock);
	while (p->queued > 0 || p->busy > 0) pthread_cond_wait(&p->idle, &p->lock);
	pthread_mutex_unlock(&p->lock);
}

void jobs_for(jobs *p, int64_t n, job_each_fn fn, void *user)
{
	each e = {.fn = fn, .user = user, .n = n};
	pthread_mutex_lock(&p->lock);
	while (p->each) pthread_cond_wait(&p->idle, &p->lock); /* another thread's turn */
	p->each = &e;
	pthread_cond_broadcast(&p->work);
	take_indices(p, &e);
	while (e.running > 0) pthread_cond_wait(&p->idle, &p->lock);
	p->each = NULL;
	pthread_cond_broadcast(&p->idle);
	pthread_mutex_unlock(&p->lock);
}
