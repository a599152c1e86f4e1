/* SPDX-License-Identifier: Apache-2.0
 * num_types.c: sizes and names, from the lists.
 */
#include "num/num_types.h"

size_t num_bytes(num_dtype type)
{
	switch (type) {
#define BYTES(name, bytes, text) \
	case name: return bytes;
		NUM_DTYPE_LIST(BYTES)
#undef BYTES
	case NUM_DTYPE_COUNT: break;
	}
	return 0;
}

const char *num_dtype_name(num_dtype type)
{
	switch (type) {
#define NAME(name, bytes, text) \
	case name: return text;
		NUM_DTYPE_LIST(NAME)
#undef NAME
	case NUM_DTYPE_COUNT: break;
	}
	return "?";
}

const char *num_scheme_name(num_scheme scheme)
{
	switch (scheme) {
#define NAME(name, text) \
	case name: return text;
		NUM_SCHEME_LIST(NAME)
#undef NAME
	case NUM_SCHEME_COUNT: break;
	}
	return "?";
}
