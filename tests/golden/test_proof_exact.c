/* SPDX-License-Identifier: Apache-2.0
 * test_proof_exact.c: the same mathematics written by other hands: log-probabilities within 1e-6 of a float64 oracle, and layer traces.
 */
#include "helper_proof.h"

static void exact(void **state)
{
	(void)state;
	proof_begin();
	for (int i = 0; i < PROOF_MODELS; i++) {
		proof_expect(proof_models[i], "f64-exact.json", "", PROOF_GOLDEN, false, 0);
		proof_expect(proof_models[i], "f64-exact.teacher.json", "", PROOF_GOLDEN, i == 2, 0);
	}
	proof_expect("tiny-nvfp4-w4a4", "f64-exact-weight-only.json", "", PROOF_GOLDEN, false, 0);
	proof_expect("tiny-nvfp4-w4a4", "f64-exact-weight-only.teacher.json", "", PROOF_GOLDEN, false, 0);
	proof_end(10);
}

static void traces(void **state)
{
	(void)state;
	proof_begin();
	proof_expect("tiny-bf16", "f64-exact.trace.safetensors", "", PROOF_TRACE, true, 0);
	proof_expect("tiny-nvfp4", "f64-exact.trace.safetensors", "", PROOF_TRACE, true, 0);
	for (int i = 0; i < PROOF_MODELS; i++) proof_expect(proof_models[i], "vllm-eager.layers.safetensors", "", PROOF_TRACE, true, 0);
	proof_end(6);
}

static void refusals(void **state)
{
	(void)state;
	proof_begin();
	proof_expect("tiny-nvfp4", "f64-exact.json", "--numerics portable", PROOF_GOLDEN, true, 3);
	proof_expect("tiny-nvfp4-w4a4", "vllm.strict.json", "--numerics exact", PROOF_GOLDEN, true, 3);
	proof_expect("tiny-nvfp4-w4a4", "vllm.strict.json", "--numerics exact-wo", PROOF_GOLDEN, true, 3); /* its gate does not name exact */
	proof_expect("tiny-nvfp4-w4a4", "vllm-eager.json", "--numerics exact", PROOF_GOLDEN, true, 3);
	proof_expect("tiny-nvfp4", "vllm-eager.json", "", PROOF_GOLDEN, false, 3); /* no --noise */
	proof_wrong_checkpoint();
	proof_end(6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(exact), cmocka_unit_test(traces), cmocka_unit_test(refusals)};
	return cmocka_run_group_tests_name("proof_exact", tests, NULL, NULL);
}
