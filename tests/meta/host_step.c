/* SPDX-License-Identifier: Apache-2.0
 * host_step.c: what the host itself does in a step, on the arm that computes nothing: N sequences decode side by side for a number of steps. Run under callgrind
 * by scripts/measure_step, which counts instructions; by itself it prints processor time. usage: host_step MODEL_FOLDER SEQUENCES STEPS
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/null/null_backend.h"
#include "base/base_json.h"
#include "base/base_mem.h"
#include "engine/engine.h"
#include "fmt/config.h"
#include "model/nemotron_h/nm_model.h"

#define MOST 1024

static void die(const char *what, const nh_error *e)
{
	fprintf(stderr, "host_step: %s: %s\n", what, e->text);
	exit(1);
}

static double processor_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
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
	engine_request *r[MOST];
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
	    .event_limit = steps + 8,
	    .no_prefix_cache = true,
	    .memory_bytes = (uint64_t)8 << 30};
	if (engine_open(&g, &parts, &eo, &e) != NH_OK) die("engine", &e);

	const int32_t prompt[4] = {40, 41, 42, 43};
	const engine_spec spec = {
	    .prompt = prompt, .prompt_tokens = 4, .max_tokens = steps, .top_p = 1, .repetition_penalty = 1, .ignore_end = true};
	double start = processor_s();
	for (int i = 0; i < sequences; i++)
		if (engine_submit(g, &spec, &r[i], &e) != NH_OK) die("submit", &e);
	for (int i = 0; i < sequences; i++) {
		engine_event v;
		nh_event_type last = 0;
		while (engine_request_next(r[i], &v, -1) == NH_OK) last = v.type;
		if (last != NH_EVENT_DONE) die("run", &e);
		engine_request_release(r[i]);
	}
	engine_stats s;
	engine_get_stats(g, &s);
	printf("{\"sequences\": %d, \"steps\": %llu, \"tokens\": %llu, \"processor_us_a_step\": %.2f}\n", sequences,
	    (unsigned long long)s.steps, (unsigned long long)s.generated_tokens, (processor_s() - start) * 1e6 / (double)s.steps);
	engine_close(g);
	nm_family.close(m);
	loader_close(l);
	quant_close(quant);
	st_set_close(set);
	json_decref(config);
	null_backend.close(x);
	return 0;
}
