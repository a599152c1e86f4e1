/* SPDX-License-Identifier: Apache-2.0
 * test_s_forward.c: a traced request among others sees its own rows alone, all of them, in order, and says what it says untraced.
 */
#include "helper_toy.h"

#include <string.h>

#include "base/base_mem.h"
#include "test.h"

static toy t;

typedef struct seen {
	int64_t next;
	uint64_t step;
	int rows, logits;
} seen;

static void traced(void *user, uint64_t step, const char *name, int64_t first, size_t rows, size_t columns, const double *values)
{
	seen *s = user;
	(void)values, (void)columns;
	if (strcmp(name, "logits") == 0) s->logits += (int)rows;
	if (strcmp(name, "embedding") != 0) return;
	assert_int_equal(first, s->next);
	assert_true(s->rows == 0 ? step == 0 : step == s->step + 1);
	s->next = first + (int64_t)rows;
	s->step = step;
	s->rows += (int)rows;
}

static void a_trace_is_of_one_request(void **state)
{
	(void)state;
	toy_open(&t, "exact", true);
	engine *g;
	assert_int_equal(
	    engine_open(&g, &t.parts, &(engine_options){.step_tokens = 16, .max_sequences = 8, .draft = NH_DRAFT_NGRAM}, NULL), NH_OK);
	int32_t *p = toy_prompt(50, 3);
	engine_spec spec = toy_spec(p, 50, 20);
	spec.ignore_end = true;
	spec.top_logprobs = 1;
	toy_run plain, run;
	toy_do(&plain, g, &spec);
	engine_request *r[6];
	seen s[2] = {{0}};
	for (int i = 0; i < 6; i++) {
		spec.trace = i % 3 == 0 ? traced : NULL;
		spec.trace_user = &s[i / 3];
		assert_int_equal(engine_submit(g, &spec, &r[i], NULL), NH_OK);
	}
	for (int i = 0; i < 6; i++) {
		toy_collect(&run, r[i]);
		toy_same_events(&plain, &run);
		toy_run_free(&run);
	}
	for (int i = 0; i < 2; i++) {
		assert_int_equal(s[i].rows, 69);
		assert_int_equal(s[i].logits, 69);
	}
	assert_true(atomic_load(&t.most) > 1);
	toy_run_free(&plain);
	mem_free(p);
	engine_close(g);
	toy_close(&t);
	assert_int_equal(mem_live(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_trace_is_of_one_request)};
	return cmocka_run_group_tests_name("s_forward", tests, NULL, NULL);
}
