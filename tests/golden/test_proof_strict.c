/* SPDX-License-Identifier: Apache-2.0
 * test_proof_strict.c: vLLM's own tokens, where its margins leave no honest doubt, under every profile that the goldens' gates name.
 */
#include "helper_proof.h"

static void strict(void **state)
{
	(void)state;
	proof_begin();
	for (int i = 0; i < PROOF_MODELS; i++) {
		proof_expect(proof_models[i], "vllm.strict.json", "--numerics portable", PROOF_GOLDEN, false, 0);
		proof_expect(proof_models[i], "vllm.strict.json", "--numerics hopper", PROOF_GOLDEN, false, 0);
		if (i < 3) proof_expect(proof_models[i], "vllm.strict.json", "--numerics exact-wo", PROOF_GOLDEN, false, 0);
	}
	proof_end(11);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(strict)};
	return cmocka_run_group_tests_name("proof_strict", tests, NULL, NULL);
}
