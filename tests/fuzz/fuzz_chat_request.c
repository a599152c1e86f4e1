/* SPDX-License-Identifier: Apache-2.0
 * fuzz_chat_request.c: any JSON as a chat request, adapted and rendered with a template that looks at all of it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/base_json.h"
#include "base/base_mem.h"
#include "chat/chat_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const TEMPLATES[] = {
    "{{ messages }}{{ tools }}{{ documents }}{{ add_generation_prompt }}{{ bos_token }}",
    "{% for m in messages %}{{ m.role ~ m.content }}{% for c in m.tool_calls or [] %}{% for k, v in c.function.arguments|items %}{{ k }}{{ "
    "v|tojson }}"
    "{% endfor %}{% endfor %}{% endfor %}{{ chat_template_kwargs.enable_thinking }}",
    "{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}{{ strftime_now('%Y') }}",
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	nh_error e = {0};
	json_t *request = NULL;
	const chat_tokens special = {.bos = "<s>"};
	if (jsn_load_text(&request, (const char *)data, size, "request", &e) != NH_OK) return 0;
	for (size_t i = 0; i < ARRAY_LEN(TEMPLATES); i++) {
		chat_template *t;
		json_t *adapted = NULL;
		buf out = {0};
		if (template_open(&t, TEMPLATES[i], strlen(TEMPLATES[i]), "t", &e) != NH_OK) abort();
		nh_status s = chat_render(t, request, &special, -1, &out, &e);
		if (s != NH_OK && (out.len || !e.text[0])) abort();
		s = chat_adapt(t, request, &adapted, &e);
		if (s == NH_OK) chat_render(t, adapted, NULL, 0, &out, &e);
		buf_deinit(&out);
		json_decref(adapted);
		template_close(t);
	}
	json_decref(request);
	if (mem_live() != 0) abort();
	return 0;
}
