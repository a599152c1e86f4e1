/* SPDX-License-Identifier: Apache-2.0
 * test_api_request.c: the built-in model answers: text, thoughts, stop strings, forms and pieces on real layers, and a trace.
 */
#include "helper_tiny.h"

#include <signal.h>
#include <string.h>

#include "base/base_mem.h"
#include "test.h"

static void it_answers(void **state)
{
	(void)state;
	nh_model *m = tiny_open(NULL);
	nh_engine *g = tiny_engine(m, 0);
	size_t n;
	int32_t *ids = tiny_chat(m, "What is a cat?", &n);
	nh_request_options o = tiny_request(ids, n, 36);
	o.text = o.skip_special = o.split_reasoning = o.starts_in_reasoning = true;
	tiny_run run;
	tiny_do(&run, g, &o);
	assert_non_null(strstr(run.reasoning, "cat"));
	assert_non_null(strstr(run.content, "cat"));
	assert_null(strstr(run.content, "</think>"));
	assert_true(run.stats.reasoning_tokens > 3 && run.stats.reasoning_tokens < run.tokens);
	assert_int_equal(run.stats.prompt_tokens, n);

	/* The events' text is the text of all tokens. */
	o.split_reasoning = false;
	tiny_run plain;
	tiny_do(&plain, g, &o);
	char *whole;
	assert_int_equal(nh_detokenize(nh_model_tokenizer(m), plain.token, plain.tokens, true, &whole, NULL, NULL), NH_OK);
	assert_string_equal(plain.content, whole);
	assert_string_equal(plain.reasoning, "");
	assert_memory_equal(plain.token, run.token, run.tokens * sizeof *run.token);
	nh_free(whole);

	/* A stop string that the thought contains stops only the answer. */
	const char *stop[] = {"zzzz", "cat"};
	o.split_reasoning = true;
	o.stop = stop;
	o.stop_count = 2;
	tiny_run cut;
	tiny_do(&cut, g, &o);
	assert_int_equal(cut.finish, NH_FINISH_STOP);
	assert_int_equal(cut.stop_index, 1);
	assert_string_equal(cut.reasoning, run.reasoning);
	assert_null(strstr(cut.content, "cat"));
	assert_memory_equal(cut.content, run.content, strlen(cut.content));
	assert_true(cut.tokens < run.tokens);
	o.include_stop = true;
	tiny_do(&plain, g, &o);
	assert_int_equal(strlen(plain.content), strlen(cut.content) + 3);
	assert_int_equal(plain.tokens, cut.tokens);
	nh_free(ids);
	nh_engine_close(g);
	nh_model_close(m);
	assert_int_equal(mem_live(), 0);
}

/* Any split of a prompt is no split, bit for bit, on every layer kind; forcing what greedy chose is not forcing. */
static void pieces_and_forms(void **state)
{
	(void)state;
	static const char *const PROFILES[] = {"exact", "portable"};
	int compared = 0;
	for (size_t k = 0; k < ARRAY_LEN(PROFILES); k++) {
		nh_model *m = tiny_open(PROFILES[k]);
		int32_t prompt[140];
		for (int i = 0; i < 140; i++) prompt[i] = 20 + i * 37 % 4000;
		tiny_run run[3];
		static const int32_t STEPS[] = {512, 128, 512};
		for (int i = 0; i < (k == 0 ? 3 : 2); i++) { /* forcing once is enough */
			nh_engine *g = tiny_engine(m, STEPS[i]);
			nh_request_options o = tiny_request(prompt, 140, 4);
			o.prompt_logprobs = o.ignore_end = true;
			o.top_logprobs = 1;
			if (i == 2) o.forced = run[0].token, o.forced_tokens = 4;
			tiny_do(&run[i], g, &o);
			assert_int_equal(run[i].prompts, 140);
			assert_int_equal(run[i].tokens, 4);
			nh_engine_stats s;
			nh_engine_get_stats(g, &s, sizeof s);
			assert_int_equal(s.steps, (i == 1 ? 2 : 1) + 3);
			assert_true(s.scan_calls > 0 && s.state_update_rows > 0 && s.op_count > 20);
			assert_int_equal(s.reference_calls, 0);
			nh_engine_close(g);
			if (i == 0) continue;
			assert_memory_equal(run[i].prompt_logprob, run[0].prompt_logprob, sizeof run[0].prompt_logprob);
			assert_memory_equal(run[i].logprob, run[0].logprob, 4 * sizeof(double));
			assert_memory_equal(run[i].token, run[0].token, 4 * sizeof(int32_t));
			compared++;
		}
		nh_model_close(m);
	}
	assert_int_equal(compared, 3);
	assert_int_equal(mem_live(), 0);
}

typedef struct seen {
	int calls, logits, layers;
	size_t rows;
} seen;

static void trace(void *user, uint64_t step, const char *name, int64_t first, size_t rows, size_t columns, const double *values)
{
	seen *s = user;
	s->calls++;
	if (strcmp(name, "logits") == 0) {
		s->logits++;
		s->rows += rows;
		assert_int_equal(columns, 4096);
		assert_int_equal(first, step == 0 ? 0 : 9 + (int64_t)step);
	}
	if (strcmp(name, "layer.13.residual") == 0) s->layers++;
	assert_true(values[0] == values[0]);
}

static void a_trace_names_every_layer(void **state)
{
	(void)state;
	nh_model *m = tiny_open("exact");
	nh_engine *g = tiny_engine(m, 0);
	int32_t prompt[10] = {20, 30, 40, 50, 60, 70, 80, 90, 100, 110};
	seen s = {0};
	nh_request_options o = tiny_request(prompt, 10, 3);
	o.ignore_end = true;
	o.trace = trace;
	o.trace_user = &s;
	tiny_run run;
	tiny_do(&run, g, &o);
	assert_int_equal(s.logits, 3);
	assert_int_equal(s.rows, 12);
	assert_int_equal(s.layers, 3);
	assert_true(s.calls >= 3 * (14 * 4 + 3));
	nh_engine_close(g);
	nh_model_close(m);
}

static nh_request *running;
static void on_signal(int n) { (void)n, nh_request_cancel(running); }

static void cancel_from_a_signal_handler(void **state)
{
	(void)state;
	nh_model *m = tiny_open(NULL);
	nh_engine *g = tiny_engine(m, 0);
	int32_t prompt[2] = {20, 21};
	nh_request_options o = tiny_request(prompt, 2, -1);
	o.ignore_end = true;
	nh_error e = {0};
	assert_int_equal(nh_engine_submit(g, &o, &running, &e), NH_OK);
	signal(SIGUSR1, on_signal);
	raise(SIGUSR1);
	signal(SIGUSR1, SIG_DFL);
	tiny_run run;
	tiny_collect(&run, running);
	assert_int_equal(run.finish, NH_FINISH_CANCELLED);
	nh_engine_close(g);
	nh_model_close(m);
	assert_int_equal(mem_live(), 0);
}

static void options_that_can_not_be(void **state)
{
	(void)state;
	nh_model *m = tiny_open(NULL);
	nh_engine *g = tiny_engine(m, 0);
	int32_t prompt[2] = {20, 21}, bad[1] = {4096};
	const char *stop[] = {""}, *fine[] = {"x"};
	nh_error e;
	nh_request *r;
	nh_request_options o = tiny_request(bad, 1, 1);
	assert_int_equal(nh_engine_submit(g, &o, &r, &e), NH_ERR_ARG);
	assert_string_equal(e.text, "prompt: id 0 is 4096, expected 0 to 4095");
	assert_null(r);
	o = tiny_request(prompt, 2, 1);
	o.stop = fine;
	o.stop_count = 1;
	assert_int_equal(nh_engine_submit(g, &o, &r, &e), NH_ERR_ARG);
	assert_non_null(strstr(e.text, "stop strings need text"));
	o.text = true;
	o.stop = stop;
	assert_int_equal(nh_engine_submit(g, &o, &r, &e), NH_ERR_ARG);
	o.stop = NULL;
	assert_int_equal(nh_engine_submit(g, &o, &r, &e), NH_ERR_ARG);
	o = (nh_request_options){.size = sizeof o, .prompt = prompt, .prompt_tokens = 2, .max_tokens = 1}; /* zeros mean off */
	tiny_run run;
	tiny_do(&run, g, &o);
	assert_int_equal(run.tokens, 1);
	assert_int_equal(nh_engine_submit(g, NULL, &r, &e), NH_ERR_ARG);
	nh_engine_close(g);
	nh_model_close(m);
	assert_int_equal(mem_live(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(it_answers),
	    cmocka_unit_test(pieces_and_forms),
	    cmocka_unit_test(a_trace_names_every_layer),
	    cmocka_unit_test(cancel_from_a_signal_handler),
	    cmocka_unit_test(options_that_can_not_be),
	};
	return cmocka_run_group_tests_name("api_request", tests, NULL, NULL);
}
