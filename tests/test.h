/* SPDX-License-Identifier: Apache-2.0
 * test.h: cmocka with its required headers, and the word for a test whose data is not there. Exit status 77 means NOT RUN to ctest.
 */
#ifndef TEST_H
#define TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

/* Prints why and skips the running test; the test command counts these. */
#define NOT_RUN(...)                     \
	do {                                 \
		printf("NOT RUN: " __VA_ARGS__); \
		printf("\n");                    \
		skip();                          \
	} while (0)

#endif
