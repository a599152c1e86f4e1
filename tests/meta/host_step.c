/* SPDX-License-Identifier: Apache-2.0
 * host_step.c: what the host itself does in a step, on the arm that computes nothing: N sequences decode side by side, all of them in every step, and
 * nothing is allocated meanwhile. Run under callgrind by scripts/measure_step, which counts instructions; by itself it prints the processor time of the
 * engine's thread. usage: host_step MODEL_FOLDER SEQUENCES STEPS
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/null/null_backend.h"
#include "base/base_json.h"
#include "base/base_mem.h"
#include "engine/request.h"
#include "fmt/config.h"
#include "model/nemotron_h/nm_model.h"

#define MOST 1024

static _Noreturn void die(const char *what, const nh_error *e)
{
	fprintf(stderr, "host_step: %s: %s\n", what, e->text);
	exit(1);
}

/* Of the process but this thread: of the engine's, that is. */
static double engine_s(void)
{
	struct timespec all, own;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &all);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &own);
	return (double)(all.tv_sec - own.tv_sec) + (double)(all.tv_nsec - own.tv_nsec) / 1e9;
}

/* While the one token of a first request is being told, nothing runs, and all others are submitted. */
typedef struct gate {
	pthread_mutex_t lock;
	pthread_cond_t moved;
	bool open;
} gate;

static nh_status wait_at(void *self, int32_t id, engine_text *out, nh_error *e)
{
	(void)id;
	(void)e;
	gate *w = self;
	*out = (engine_text){0};
	pthread_mutex_lock(&w->lock);
	while (!w->open) pthread_cond_wait(&w->moved, &w->lock);
	pthread_mutex_unlock(&w->lock);
	return NH_OK;
}

static void open_gate(gate *w)
{
	pthread_mutex_lock(&w->lock);
	w->open = true;
	pthread_cond_signal(&w->moved);
	pthread_mutex_unlock(&w->lock);
}

/* The places of all events, which wait here to be read, in the process: not the system's work is measured. */
static void touch(engine_request *r)
{
	volatile char *at = (char *)r->place;
	for (size_t i = 0; i < (size_t)r->places * sizeof *r->place; i += 1024) at[i] = at[i];
}

/* Reads to the end; `first`: to the first token only. */
static void read_events(engine_request *r, bool first)
{
	engine_event v = {.type = NH_EVENT_ERROR};
	while (!(first && v.type == NH_EVENT_TOKEN) && engine_request_next(r, &v, -1) == NH_OK) continue;
	if (v.type == NH_EVENT_ERROR) die("run", v.error);
}

int main(int argc, char **argv)
{
	nh_error e = {0};
	exec *x;
	json_t *config;
	st_set *set;
	quant_config *quant;
	loader *l;
	model *m;
	engine *g;
	engine_request *r[MOST], *first;
	gate w = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
	char path[1024];
	const backend_options bo = {0};
	int sequences = argc == 4 ? atoi(argv[2]) : 0, steps = argc == 4 ? atoi(argv[3]) : 0;
	if (sequences < 1 || sequences > MOST || steps < 1 || steps > 2000) {
		fprintf(stderr, "usage: host_step MODEL_FOLDER SEQUENCES(1..%d) STEPS(1..2000)\n", MOST);
		return 2;
	}
	snprintf(path, sizeof path, "%s/config.json", argv[1]);
	if (null_backend.open(&x, &bo, &e) != NH_OK || config_load(&config, path, &e) != NH_OK ||
	    st_set_open(&set, argv[1], NULL, &e) != NH_OK || quant_open(&quant, config, path, NULL, NULL, &e) != NH_OK)
		die("model", &e);
	const loader_options lo = {.set = set, .quant = quant, .x = x, .arm = &null_backend, .files_name = argv[1]};
	if (loader_open(&l, &lo, &e) != NH_OK || nm_family.open(&m, config, path, l, &e) != NH_OK || loader_finish(l, &e) != NH_OK)
		die("weights", &e);
	engine_parts parts = {.arm = &null_backend, .base = x, .x = x, .m = m, .kv = NUM_BF16};
	const engine_options eo = {.max_context = 2048,
	    .max_sequences = sequences,
	    .step_tokens = sequences < 128 ? 512 : 4 * sequences,
	    .event_limit = steps + 8,
	    .no_prefix_cache = true,
	    .memory_bytes = (uint64_t)8 << 30};
	if (engine_open(&g, &parts, &eo, &e) != NH_OK) die("engine", &e);

	const int32_t prompt[4] = {40, 41, 42, 43};
	engine_spec spec = {.prompt = prompt,
	    .prompt_tokens = 4,
	    .max_tokens = 1,
	    .top_p = 1,
	    .repetition_penalty = 1,
	    .ignore_end = true,
	    .hooks = {.self = &w, .push = wait_at}};
	if (engine_submit(g, &spec, &first, &e) != NH_OK) die("submit", &e);
	spec.hooks = (engine_hooks){0};
	spec.max_tokens = steps;
	for (int i = 0; i < sequences; i++) {
		if (engine_submit(g, &spec, &r[i], &e) != NH_OK) die("submit", &e);
		touch(r[i]);
	}
	double start = engine_s();
	open_gate(&w);
	for (int i = 0; i < sequences; i++) read_events(r[i], true);
	mem_fail_after(0); /* from here on whoever allocates fails its request */
	for (int i = 0; i < sequences; i++) read_events(r[i], false);
	double us = (engine_s() - start) * 1e6 / steps;
	mem_fail_after(SIZE_MAX);
	engine_stats s;
	engine_get_stats(g, &s);
	/* The gate's step, the one of all prompts, and steps of nothing but rows in decode form, in which nobody is missing. */
	if (s.steps != (uint64_t)steps + 1) {
		fprintf(stderr, "host_step: %llu steps, expected %d: not everybody was in every step\n", (unsigned long long)s.steps, steps + 1);
		return 1;
	}
	printf("{\"sequences\": %d, \"steps\": %llu, \"tokens\": %llu, \"engine_us_a_step\": %.2f}\n", sequences, (unsigned long long)s.steps,
	    (unsigned long long)s.generated_tokens, us);
	for (int i = 0; i < sequences; i++) engine_request_release(r[i]);
	engine_request_release(first);
	engine_close(g);
	nm_family.close(m);
	loader_close(l);
	quant_close(quant);
	st_set_close(set);
	json_decref(config);
	null_backend.close(x);
	return 0;
}
