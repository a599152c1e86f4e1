/* SPDX-License-Identifier: Apache-2.0
 * nh_version.h: the version that a program was compiled against, and the one it runs with.
 */
#ifndef NH_VERSION_H
#define NH_VERSION_H

#include "nh_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NH_VERSION_MAJOR 0
#define NH_VERSION_MINOR 1
#define NH_VERSION_PATCH 0
#define NH_VERSION_TEXT "0.1.0"
/* Of these headers, as nh_version tells it of the library. */
#define NH_VERSION ((uint32_t)NH_VERSION_MAJOR << 16 | NH_VERSION_MINOR << 8 | NH_VERSION_PATCH)

/* Version of the library that is loaded: major << 16 | minor << 8 | patch, and as text. Any thread. */
NH_API uint32_t nh_version(void);
NH_API const char *nh_version_text(void);
/* Whether the loaded library serves a program that was compiled against these headers: nh_version_check(NH_VERSION, &error). It does when it is not
 * older and its major version is the same; before 1.0 the minor version too. NH_ERR_UNSUPPORTED names both. Any thread. */
NH_API nh_status nh_version_check(uint32_t compiled, nh_error *error);

#ifdef __cplusplus
}
#endif
#endif
