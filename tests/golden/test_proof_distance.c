/* SPDX-License-Identifier: Apache-2.0
 * test_proof_distance.c: no farther from vLLM eager than vLLM compiled is.
 */
#include "helper_proof.h"

static void distance(void **state)
{
	(void)state;
	proof_begin();
	for (int i = 0; i < PROOF_MODELS; i++) {
		char noise[700];
		snprintf(noise, sizeof noise, "--noise '%s/goldens/%s.vllm-compiled.json' --numerics hopper", NH_SHARED_DIR, proof_models[i]);
		proof_expect(proof_models[i], "vllm-eager.json", noise, PROOF_GOLDEN, false, 0);
		snprintf(noise, sizeof noise, "--noise '%s/goldens/%s.vllm-compiled.json' --numerics portable", NH_SHARED_DIR, proof_models[i]);
		proof_expect(proof_models[i], "vllm-eager.json", noise, PROOF_GOLDEN, false, 0);
	}
	proof_end(8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(distance)};
	return cmocka_run_group_tests_name("proof_distance", tests, NULL, NULL);
}
