/* SPDX-License-Identifier: Apache-2.0
 * test_proof_cpu.c: the goldens on every tier of the cpu arm that this machine has. Its sums are f32 in an order of its own, so three questions are asked in its
 * terms: strict tokens, where a different one is allowed only at a margin that vLLM itself moves by as much between two of its modes; distance, as for ref; and
 * exact, where BF16 must agree to 2e-4 and what lies on a coarse grid, where one value on the next code moves everything after it, must be four times nearer to float64
 * than a float64 run with eager roundings is. That nothing but such steps is behind it shows meta/test_lockstep. (docs/NUMERICS.md, the CPU arm)
 */
#include "helper_proof.h"

#include <math.h>
#include <string.h>

#include "base/base_json.h"
#include "common/arms.h"

static test_arm arms[TEST_ARMS];
static int arm_count;

static json_t *load(const char *model, const char *golden)
{
	char path[PROOF_PATH];
	json_t *d = NULL;
	nh_error e = {0};
	if (!proof_path(model, golden, path)) return NULL;
	if (jsn_load_path(&d, path, JSON_LIMIT_LARGE, &e) != NH_OK) fail_msg("%s", e.text);
	return d;
}

static const json_t *entry_named(const json_t *d, const char *name)
{
	const json_t *list = json_object_get(d, "entries");
	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *n = json_string_value(json_object_get(json_array_get(list, i), "name"));
		if (n && strcmp(n, name) == 0) return json_array_get(list, i);
	}
	return NULL;
}

static bool listed(const json_t *step, json_int_t id, double *logprob)
{
	for (size_t k = 0; k < json_array_size(step); k++) {
		const json_t *pair = json_array_get(step, k);
		if (json_integer_value(json_array_get(pair, 0)) != id) continue;
		*logprob = json_number_value(json_array_get(pair, 1));
		return true;
	}
	return false;
}

/* By how much the distance between vLLM's two best tokens moves from its eager to its compiled mode, at most, over steps with one history. */
static double margin_noise(const char *model)
{
	json_t *eager = load(model, "vllm-eager.json"), *compiled = load(model, "vllm-compiled.json");
	const json_t *list = json_object_get(eager, "entries");
	double largest = 0;
	for (size_t n = 0; compiled && n < json_array_size(list); n++) {
		const json_t *x = json_array_get(list, n), *o = entry_named(compiled, json_string_value(json_object_get(x, "name")));
		const json_t *ids = json_object_get(x, "token_ids"), *other = json_object_get(o, "token_ids");
		for (size_t i = 0; o && i < json_array_size(ids) && i < json_array_size(other); i++) {
			const json_t *a = json_array_get(json_object_get(x, "topk"), i), *b = json_array_get(json_object_get(o, "topk"), i);
			double lp[2][2];
			bool both = json_array_size(a) >= 2;
			for (size_t k = 0; both && k < 2; k++) {
				const json_t *pair = json_array_get(a, k);
				lp[0][k] = json_number_value(json_array_get(pair, 1));
				both = listed(b, json_integer_value(json_array_get(pair, 0)), &lp[1][k]);
			}
			if (both) largest = fmax(largest, fabs((lp[0][0] - lp[0][1]) - (lp[1][0] - lp[1][1])));
			if (!json_equal(json_array_get(ids, i), json_array_get(other, i))) break; /* from here on the histories differ */
		}
	}
	json_decref(eager);
	json_decref(compiled);
	return largest;
}

static void strict(void **state)
{
	(void)state;
	proof_begin();
	for (int a = 1; a < arm_count; a++)
		for (int i = 0; i < PROOF_MODELS; i++) {
			char options[100];
			snprintf(options, sizeof options, "--arm %s --cpu-isa %s --numerics portable", arms[a].be->name, arms[a].name);
			json_t *r = proof_report(proof_models[i], "vllm.strict.json", options);
			if (!r) continue;
			const json_t *wrong = json_object_get(r, "disagreements");
			const json_int_t entries = json_integer_value(json_object_get(r, "entries")),
			                 same = json_integer_value(json_object_get(r, "same"));
			const double noise = json_array_size(wrong) ? margin_noise(proof_models[i]) : 0;
			printf("PROOF strict %s %s: %d of %d prompts the same\n", proof_models[i], arms[a].name, (int)same, (int)entries);
			assert_true(entries > 20 && same + (json_int_t)json_array_size(wrong) == entries);
			for (size_t n = 0; n < json_array_size(wrong); n++) {
				const json_t *w = json_array_get(wrong, n), *margin = json_object_get(w, "golden_margin");
				printf(
				    "  %s, step %d: vLLM's margin %.4f nat, which moves by up to %.4f between its own modes; rank of its token here %d\n",
				    json_string_value(json_object_get(w, "entry")), (int)json_integer_value(json_object_get(w, "step")),
				    json_number_value(margin), noise, (int)json_integer_value(json_object_get(w, "rank")));
				assert_true(margin && json_number_value(margin) < noise && json_integer_value(json_object_get(w, "rank")) == 2);
			}
			assert_true((json_int_t)json_array_size(wrong) * 41 <= entries);
			json_decref(r);
		}
	proof_end((arm_count - 1) * PROOF_MODELS);
}

static void distance(void **state)
{
	(void)state;
	proof_begin();
	for (int a = 1; a < arm_count; a++)
		for (int i = 0; i < PROOF_MODELS; i++) {
			char noise[700];
			snprintf(noise, sizeof noise, "--arm %s --cpu-isa %s --numerics portable --noise '%s/goldens/%s.vllm-compiled.json'",
			    arms[a].be->name, arms[a].name, NH_SHARED_DIR, proof_models[i]);
			proof_expect(proof_models[i], "vllm-eager.json", noise, PROOF_GOLDEN, false, 0);
		}
	proof_end((arm_count - 1) * PROOF_MODELS);
}

/* Mean distance of two teacher-forced goldens' log-probabilities. */
static double apart(const char *model, const char *one, const char *other)
{
	json_t *a = load(model, one), *b = load(model, other);
	const json_t *x = json_object_get(a, "logprobs"), *y = json_object_get(b, "logprobs");
	double sum = 0;
	size_t n = json_array_size(x);
	if (!a || !b) return NAN;
	assert_true(n > 100 && n == json_array_size(y));
	for (size_t i = 1; i < n; i++) sum += fabs(json_number_value(json_array_get(x, i)) - json_number_value(json_array_get(y, i)));
	json_decref(a);
	json_decref(b);
	return sum / (double)(n - 1);
}

static void exact(void **state)
{
	(void)state;
	proof_begin();
	for (int a = 1; a < arm_count; a++)
		for (int i = 0; i < PROOF_MODELS; i++) {
			char options[100];
			snprintf(options, sizeof options, "--arm %s --cpu-isa %s", arms[a].be->name, arms[a].name);
			json_t *r = proof_report(proof_models[i], "f64-exact.teacher.json", options);
			if (!r) continue;
			const json_t *wrong = json_object_get(r, "disagreements");
			const double positions = json_number_value(json_object_get(r, "positions")),
			             largest = json_number_value(json_object_get(r, "largest_difference"));
			const double rounded = apart(proof_models[i], "f64-eager.teacher.json", "f64-exact.teacher.json");
			double sum = 0;
			for (size_t n = 0; n < json_array_size(wrong); n++) {
				const json_t *w = json_array_get(wrong, n), *mine = json_object_get(w, "logprob");
				if (mine) sum += fabs(json_number_value(mine) - json_number_value(json_object_get(w, "golden")));
			}
			printf("PROOF exact %s %s: largest difference %.3g, mean %.3g; of float64 with eager roundings: mean %.3g\n", proof_models[i],
			    arms[a].name, largest, sum / positions, rounded);
			assert_true(positions > 200);
			if (strcmp(proof_models[i], "tiny-bf16") == 0) assert_true(largest <= 2e-4);
			if (!isnan(rounded)) assert_true(4 * sum / positions < rounded);
			json_decref(r);
		}
	proof_end((arm_count - 1) * PROOF_MODELS);
}

static int find_arms(void **state)
{
	(void)state;
	arm_count = test_arms(arms);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(exact), cmocka_unit_test(strict), cmocka_unit_test(distance)};
	return cmocka_run_group_tests_name("proof_cpu", tests, find_arms, NULL);
}
