/* SPDX-License-Identifier: Apache-2.0
 * arms.h: every arm of this build and every tier of it that this machine can run, for laws that hold on all of them. Knows their names only; a tier that
 * the processor lacks is told as NOT RUN, never passed over in silence.
 */
#ifndef TESTS_COMMON_ARMS_H
#define TESTS_COMMON_ARMS_H

#include "exec/backend.h"

typedef struct test_arm {
	const backend *be;
	const char *isa;  /* NULL: the arm has one tier */
	const char *name; /* the tier's name, or the arm's */
} test_arm;

#define TEST_ARMS 8

/* Fills out, the definition (ref) first; prints the tiers of this build that the processor lacks. Returns how many. */
int test_arms(test_arm out[TEST_ARMS]);
/* `profile`, or where the arm refuses it, `other`. */
const char *test_arm_profile(const test_arm *a, const char *profile, const char *other);

#endif
