/* SPDX-License-Identifier: Apache-2.0
 * base_log.h: the library never prints; it hands lines to the caller's function. A zeroed logger is silent.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/base_status.h"

typedef struct logger {
	nh_log_fn fn;       /* may be NULL */
	void *user;         /* borrow */
	nh_log_level level; /* lines above this are dropped */
} logger;

void log_line(const logger *l, nh_log_level level, const char *format, ...) BASE_PRINTF(3, 4);

#endif
