/* SPDX-License-Identifier: Apache-2.0
 * test_builtin.c: the built-in model against the goldens in this tree, without engine and program: quick, and enough to notice any change of the mathematics.
 * test_proof_*.c run the whole of it.
 */
#include "test.h"

#include <math.h>
#include <string.h>

#include "base/base_json.h"
#include "base/base_mem.h"
#include "common/model_bench.h"

#define TEXT 300
#define DECODED 12

static json_t *golden(const char *name)
{
	char path[700];
	json_t *d;
	nh_error e = {0};
	snprintf(path, sizeof path, "%s/tests/golden/data/%s", NH_SOURCE_DIR, name);
	if (jsn_load_path(&d, path, JSON_LIMIT_LARGE, &e) != NH_OK) fail_msg("%s", e.text);
	return d;
}

static void open_model(model_bench *b, const char *profile)
{
	char path[700];
	snprintf(path, sizeof path, "%s/models/tiny", NH_SOURCE_DIR);
	bench_open(b, path, profile, 1, 80, 16, false);
	for (int p = 0; p < 64; p++) b->table[0][p] = p; /* one sequence may have them all */
}

static int ids_of(const json_t *list, int32_t *ids, int room)
{
	int n = (int)json_array_size(list) < room ? (int)json_array_size(list) : room;
	for (int i = 0; i < n; i++) ids[i] = (int32_t)json_integer_value(json_array_get(list, (size_t)i));
	return n;
}

static double log_sum(const double *row, int V)
{
	double top = row[0], sum = 0;
	for (int i = 1; i < V; i++) top = fmax(top, row[i]);
	for (int i = 0; i < V; i++) sum += exp(row[i] - top);
	return top + log(sum);
}

static int arg_max(const double *row, int V)
{
	int best = 0;
	for (int i = 1; i < V; i++)
		if (row[i] > row[best]) best = i;
	return best;
}

static void exact_prefill(void **state)
{
	(void)state;
	json_t *d = golden("tiny-nvfp4.f64-exact.teacher.json");
	int32_t ids[TEXT];
	model_bench b;
	open_model(&b, "exact");
	int V = b.m->shape.vocab, n = ids_of(json_object_get(d, "prompt_token_ids"), ids, TEXT), compared = 0;
	double *logits = mem_array((size_t)TEXT * (size_t)V, sizeof *logits), worst = 0;
	const int ends[1] = {n};
	bench_prefill(&b, 0, 0, 0, ids, n, ends, 1, logits);
	for (int i = 1; i < n; i++, compared++) {
		const double *row = logits + (size_t)(i - 1) * (size_t)V;
		worst =
		    fmax(worst, fabs(row[ids[i]] - log_sum(row, V) - json_number_value(json_array_get(json_object_get(d, "logprobs"), (size_t)i))));
		assert_int_equal(arg_max(row, V), json_integer_value(json_array_get(json_object_get(d, "argmax_after"), (size_t)i - 1)));
	}
	printf("%d log-probabilities, largest difference %.3g\n", compared, worst);
	assert_int_equal(compared, TEXT - 1);
	assert_true(worst <= 1e-6);
	mem_free(logits);
	bench_close(&b);
	json_decref(d);
}

/* The first steps after each prompt of a golden, its tokens forced: listed log-probabilities (exact) or the tokens alone (strict). */
static void decode(const char *file, const char *profile, size_t entries, bool listed)
{
	json_t *d = golden(file), *list = json_object_get(d, "entries");
	model_bench b;
	open_model(&b, profile);
	int V = b.m->shape.vocab, steps = 0, values = 0;
	double *logits = mem_array((size_t)TEXT * (size_t)V, sizeof *logits), worst = 0;
	for (size_t n = 0; n < entries && n < json_array_size(list); n++) {
		const json_t *entry = json_array_get(list, n), *topk = json_object_get(entry, "topk");
		int32_t prompt[TEXT], tokens[DECODED];
		int count = ids_of(json_object_get(entry, "prompt_token_ids"), prompt, TEXT),
		    made = ids_of(json_object_get(entry, "token_ids"), tokens, DECODED);
		const int ends[1] = {count};
		bench_prefill(&b, 0, 0, 0, prompt, count, ends, 1, logits);
		double *row = logits + (size_t)(count - 1) * (size_t)V;
		for (int i = 0; i < made; i++, steps++) {
			double all = log_sum(row, V);
			assert_int_equal(arg_max(row, V), tokens[i]);
			const json_t *best = json_array_get(topk, (size_t)i);
			for (size_t k = 0; listed && k < json_array_size(best); k++, values++) {
				const json_t *pair = json_array_get(best, k);
				worst =
				    fmax(worst, fabs(row[json_integer_value(json_array_get(pair, 0))] - all - json_number_value(json_array_get(pair, 1))));
			}
			const bench_row next = {.seq = 0, .slot_in = 0, .slot_out = 0, .pos = count + i, .id = tokens[i]};
			row = logits;
			bench_step(&b, &next, 1, NULL, 0, row);
		}
	}
	printf("%s, %s: %d steps, %d log-probabilities, largest difference %.3g\n", file, profile, steps, values, worst);
	assert_true(steps >= (int)entries * DECODED - DECODED && (!listed || values >= 5 * steps));
	assert_true(worst <= 1e-6);
	mem_free(logits);
	bench_close(&b);
	json_decref(d);
}

static void exact_decode(void **state) { (void)state, decode("tiny-nvfp4.f64-exact.json", "exact", 4, true); }
static void strict_portable(void **state) { (void)state, decode("tiny-nvfp4.vllm.strict.json", "portable", 6, false); }
static void strict_hopper(void **state) { (void)state, decode("tiny-nvfp4.vllm.strict.json", "hopper", 6, false); }

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(exact_prefill), cmocka_unit_test(exact_decode), cmocka_unit_test(strict_portable),
	    cmocka_unit_test(strict_hopper)};
	return cmocka_run_group_tests_name("builtin", tests, NULL, NULL);
}
