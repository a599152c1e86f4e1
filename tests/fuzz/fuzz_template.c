/* SPDX-License-Identifier: Apache-2.0
 * fuzz_template.c: any text as a chat template, with variables of its own after a line "---", else fixed ones. Beyond not crashing: output
 * is UTF-8, a failure says why and where, and leaves the output as it was.
 */
#include <stdlib.h>
#include <string.h>

#include "base/base_json.h"
#include "base/base_mem.h"
#include "chat/jinja_text.h"
#include "chat/template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char FIXED[] =
    "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi \\u00e9\"}, {\"role\": \"assistant\", \"content\": null, \"tool_calls\":"
    "[{\"function\": {\"name\": \"f\", \"arguments\": {\"x\": 1.5, \"y\": [true, null]}}}]}], \"n\": 3, \"l\": [3, 1, 2],"
    "\"s\": \"a b,c\", \"add_generation_prompt\": true}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data, *cut = size ? memmem(text, size, "\n---\n", 5) : NULL;
	size_t len = cut ? (size_t)(cut - text) : size;
	nh_error e = {0};
	json_t *vars = NULL;
	nh_status s = cut ? jsn_load_text(&vars, cut + 5, size - len - 5, "vars", &e) : jsn_load_text(&vars, FIXED, strlen(FIXED), "vars", &e);
	if (s == NH_OK && json_is_object(vars)) {
		const template_limits l = {
		    .steps = 200000, .memory_bytes = (size_t)16 << 20, .output_bytes = 1 << 20, .now_seconds = 1735689600, .has_now = true};
		chat_template *t;
		buf out = {0};
		buf_str(&out, "kept");
		s = template_open(&t, text, len, "t", &e);
		if (s == NH_OK) s = template_render(t, vars, &l, &out, &e);
		if (s == NH_OK && !jtext_valid(out.data, out.len)) abort();
		if (s != NH_OK && (out.len != 4 || e.code != s || (s != NH_ERR_NOMEM && strncmp(e.text, "t: line ", 8) != 0))) abort();
		template_close(t);
		buf_deinit(&out);
	}
	json_decref(vars);
	if (mem_live() != 0) abort();
	return 0;
}
