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

/* Version of the library that is loaded: major << 16 | minor << 8 | patch, and as text. Any thread. */
NH_API uint32_t nh_version(void);
NH_API const char *nh_version_text(void);

#ifdef __cplusplus
}
#endif
#endif
