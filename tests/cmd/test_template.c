/* SPDX-License-Identifier: Apache-2.0
 * test_template.c: nemotron template through the built program, all published templates included.
 */
#include "helper_cmd.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/base_mem.h"

static const char request[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]}";

static void requests_become_prompts(void **state)
{
	(void)state;
	static const char prompt[] = "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n<think>\n";
	says(request, 0, "$N template", prompt, NULL);
	says(request, 0, "cp " NH_SOURCE_DIR "/models/tiny/chat_template.jinja $D/t && $N template --template $D/t", prompt, NULL);
	says(request, 0, "$N template " NH_SOURCE_DIR "/models/tiny/chat_template.jinja", prompt, NULL);
	says("{\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}],\"add_generation_prompt\":false}", 0, "$N template",
	    "<|im_start|>user\nHello<|im_end|>\n", NULL);
	says("{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"chat_template_kwargs\":{\"enable_thinking\":false}}", 0,
	    "$N template --json", "\"<|im_start|>user\\nHi<|im_end|>\\n<|im_start|>assistant\\n<think></think>\"\n", NULL);
	/* Ids of the prompt are those of its text. */
	outcome a = run_program(request, 0, "$N template --ids"), b = run_program(prompt, 0, "$N tokenize");
	assert_string_equal(a.out.data, b.out.data);
	outcome_free(&a);
	outcome_free(&b);
	has(request, "$N template --ids --json", "[10,");
	has(request, "$N template --ids --template $D/t --tokenizer " NH_SOURCE_DIR "/models/tiny/tokenizer.json", "10 ");
}

static void bad_requests_are_refused(void **state)
{
	(void)state;
	says("{", 1, "$N template", "", "nemotron template: ");
	says("{\"messages\":[{\"role\":\"wizard\",\"content\":\"x\"}]}", 1, "$N template", "", "unknown role: wizard");
	says(request, 1, "$N template $D/none", "", "none");
	says(request, 1, "$N template --name absent", "", "absent");
	dir_put("loop", "{% for i in range(1000000000) %}x{% endfor %}");
	outcome o = run_program(request, 1, "$N template --template $D/loop");
	assert_true(o.err.len > 0);
	outcome_free(&o);
}

/* The published templates, through the program, with every conversation of the golden file: the prompt, or a refusal. */
static void published_templates_are_exact(void **state)
{
	(void)state;
	json_error_t je;
	json_t *golden = json_load_file(NH_SHARED_DIR "/goldens/chat_templates.json", 0, &je);
	if (golden == NULL) NOT_RUN("%s/goldens/chat_templates.json is not there", NH_SHARED_DIR);
	size_t k, prompts = 0, refusals = 0;
	json_t *g;
	json_array_foreach(golden, k, g)
	{
		const char *name = json_string_value(json_object_get(g, "template"));
		const json_t *want = json_object_get(g, "expected"), *raw = json_object_get(g, "expected_raw");
		char command[1024];
		json_t *r = json_pack("{s:O,s:O,s:O}", "messages", json_object_get(g, "messages"), "chat_template_kwargs",
		    json_object_get(g, "kwargs"), "add_generation_prompt", json_object_get(g, "add_generation_prompt"));
		if (!json_is_null(json_object_get(g, "tools"))) json_object_set(r, "tools", json_object_get(g, "tools"));
		char *text = json_dumps(r, 0);
		assert_non_null(text);
		if (strcmp(name, "tiny") == 0) snprintf(command, sizeof command, "$N template; echo $? > $D/status");
		else
			snprintf(command, sizeof command, "$N template --template " NH_SHARED_DIR "/data/chat_templates/%s.jinja; echo $? > $D/status",
			    name);
		outcome o = run_program(text, 0, "%s", command);
		bool same = want != NULL && o.err.len == 0 && strcmp(json_string_value(want), o.out.data) == 0;
		bool same_raw = raw != NULL && o.err.len == 0 && strcmp(json_string_value(raw), o.out.data) == 0;
		bool refused = o.err.len > 0 && o.out.len == 0 && (json_object_get(g, "error") != NULL || json_object_get(g, "error_raw") != NULL);
		if (!same && !same_raw && !refused)
			fail_msg("%s, %s:\n%s\n%s", name, json_string_value(json_object_get(g, "name")), o.out.data, o.err.data);
		prompts += same || same_raw;
		refusals += refused;
		outcome_free(&o);
		free(text);
		json_decref(r);
	}
	print_message("%zu prompts, %zu refusals\n", prompts, refusals);
	assert_int_equal(prompts + refusals, json_array_size(golden));
	assert_true(prompts > 200 && refusals > 5);
	json_decref(golden);
}

int main(void)
{
	if (program_missing()) return 77;
#define ONE(name) cmocka_unit_test_setup_teardown(name, dir_setup, dir_teardown)
	const struct CMUnitTest tests[] = {ONE(requests_become_prompts), ONE(bad_requests_are_refused), ONE(published_templates_are_exact)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
