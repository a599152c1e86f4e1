/* SPDX-License-Identifier: Apache-2.0
 * api_version.c: the version of the library that is running, and whether it serves a program that was compiled against another one.
 */
#include "base/base_status.h"
#include "nh/nh_version.h"

uint32_t nh_version(void) { return NH_VERSION; }
const char *nh_version_text(void) { return NH_VERSION_TEXT; }

nh_status nh_version_check(uint32_t compiled, nh_error *e)
{
	uint32_t mine = NH_VERSION, major = compiled >> 16, minor = compiled >> 8 & 255;
	bool same = major == mine >> 16 && (major != 0 || minor == (mine >> 8 & 255));
	if (same && compiled <= mine) return NH_OK;
	return ERR(e, NH_ERR_UNSUPPORTED, "libnemotron: is version %s, the program was compiled against %u.%u.%u", NH_VERSION_TEXT, major,
	    minor, compiled & 255);
}
