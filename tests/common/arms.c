/* SPDX-License-Identifier: Apache-2.0
 * arms.c: see arms.h. The invariant that breaks first: ref is entry 0, whatever the registry prefers.
 */
#include "common/arms.h"

#include <string.h>

#include "backend/registry.h"
#include "test.h"

static bool among(const test_arm *out, int n, const char *name)
{
	for (int i = 0; i < n; i++)
		if (strcmp(out[i].name, name) == 0) return true;
	return false;
}

int test_arms(test_arm out[TEST_ARMS])
{
	static const char *const HOST_TIERS[] = {"portable", "avx2", "avx512"};
	int n = 0;
	const backend *ref = backend_find("ref");
	assert_non_null(ref);
	out[n++] = (test_arm){ref, NULL, ref->name};
	for (int b = 0; backend_at(b); b++) {
		const backend *be = backend_at(b);
		for (int i = 0; be != ref && (be->tier_at ? be->tier_at(i) != NULL : i == 0); i++) {
			assert_true(n < TEST_ARMS);
			const char *isa = be->tier_at ? be->tier_at(i) : NULL;
			out[n++] = (test_arm){be, isa, isa ? isa : be->name};
		}
	}
	for (size_t i = 0; backend_find("cpu") && i < sizeof HOST_TIERS / sizeof *HOST_TIERS; i++)
		if (!among(out, n, HOST_TIERS[i])) printf("NOT RUN: tier %s: this processor does not have it\n", HOST_TIERS[i]);
	return n;
}

const char *test_arm_profile(const test_arm *a, const char *profile, const char *other)
{
	exec *x = NULL;
	const backend_options o = {.num = num_profile(profile), .isa = a->isa, .threads = 1};
	if (a->be->open(&x, &o, NULL) != NH_OK) return other;
	a->be->close(x);
	return profile;
}
