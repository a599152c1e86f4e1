/* SPDX-License-Identifier: Apache-2.0
 * fuzz_json.c: any bytes as a document: it loads or is refused with one clean line, and what loaded can be asked and shown.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/base_json.h"
#include "base/base_mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ask(const json_t *v, int depth)
{
	char brief[64];
	jsn_brief(v, brief);
	if (strlen(brief) > 60) abort();
	if (jsn_is_number(v)) (void)jsn_number(v);
	if (depth == 0) return;
	const char *key;
	json_t *child;
	size_t i;
	json_object_foreach((json_t *)(uintptr_t)v, key, child)
	{
		int64_t n;
		double d;
		bool b;
		const char *s;
		nh_error e = {0};
		if (jsn_get_int(v, "f", key, 0, -10, 10, &n, &e) == NH_OK && (n < -10 || n > 10)) abort();
		(void)jsn_get_real(v, "f", key, 0, &d, &e);
		(void)jsn_get_bool(v, "f", key, false, &b, &e);
		if (jsn_get_string(v, "f", key, "", &s, &e) == NH_OK && !s) abort();
		ask(child, depth - 1);
	}
	json_array_foreach(v, i, child) ask(child, depth - 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *v;
	nh_error e = {0};
	nh_status s = jsn_load_text(&v, (const char *)data, size, "f", &e);
	if ((s == NH_OK) != (v != NULL)) abort();
	if (s != NH_OK && (e.code != s || strncmp(e.text, "f: ", 3) != 0 || strchr(e.text, '\n'))) abort();
	if (v) ask(v, 8);
	json_decref(v);
	if (mem_live() != 0) abort();
	return 0;
}
