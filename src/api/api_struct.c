/* SPDX-License-Identifier: Apache-2.0
 * api_struct.c: structs that carry their size, so that programs built against older and newer headers both work.
 */
#include <string.h>

#include "api/api_impl.h"

nh_status api_in(void *to, size_t full, const void *from, const char *what, nh_error *e)
{
	if (!from) return NH_OK;
	size_t size;
	memcpy(&size, from, sizeof size);
	if (size < sizeof size || size > ((size_t)1 << 16))
		return ERR(e, NH_ERR_ARG, "%s: size is %zu: set it with the _init function", what, size);
	for (size_t i = full; i < size; i++)
		if (((const unsigned char *)from)[i])
			return ERR(
			    e, NH_ERR_UNSUPPORTED, "%s: byte %zu is set, this library knows %zu bytes: it is older than the program", what, i, full);
	memset(to, 0, full);
	memcpy(to, from, size < full ? size : full);
	memcpy(to, &full, sizeof full);
	return NH_OK;
}

void api_out(void *to, size_t size, void *from, size_t full)
{
	if (!to || size < sizeof size) return;
	memcpy(from, &size, sizeof size);
	memcpy(to, from, size < full ? size : full);
}

void api_init(void *to, size_t size, void *from, size_t full)
{
	if (!to) return;
	memset(to, 0, size);
	api_out(to, size, from, full);
}
