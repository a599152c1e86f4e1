/* SPDX-License-Identifier: Apache-2.0
 * api_version.c: the version of the library that is running.
 */
#include "nh/nh_version.h"

uint32_t nh_version(void) { return (uint32_t)NH_VERSION_MAJOR << 16 | NH_VERSION_MINOR << 8 | NH_VERSION_PATCH; }
const char *nh_version_text(void) { return NH_VERSION_TEXT; }
