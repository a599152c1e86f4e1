/* SPDX-License-Identifier: Apache-2.0
 * test_chat_request.c: what a template sees of a request, what is refused, and how clients' forms are adapted.
 */
#include "test.h"

#include <string.h>

#include "base/base_json.h"
#include "base/base_mem.h"
#include "chat/chat_request.h"

static json_t *json_of(const char *text)
{
	json_t *v;
	nh_error e = {0};
	if (jsn_load_text(&v, text, strlen(text), "test", &e) != NH_OK) fail_msg("%s", e.text);
	return v;
}

static nh_status run(const char *text, const char *request, bool adapt, const chat_tokens *special, int64_t now, buf *out, nh_error *e)
{
	chat_template *t;
	json_t *r = json_of(request), *adapted = NULL;
	nh_status s = template_open(&t, text, strlen(text), "t", e);
	assert_int_equal(s, NH_OK);
	if (adapt) s = chat_adapt(t, r, &adapted, e);
	if (s == NH_OK) s = chat_render(t, adapt ? adapted : r, special, now, out, e);
	json_decref(adapted);
	json_decref(r);
	template_close(t);
	return s;
}

static void shows(const char *text, const char *request, bool adapt, const char *want)
{
	buf out = {0};
	nh_error e = {0};
	const chat_tokens special = {.bos = "<s>", .eos = "</s>"};
	if (run(text, request, adapt, &special, 86400, &out, &e) != NH_OK) fail_msg("%s", e.text);
	assert_string_equal(out.data ? out.data : "", want);
	buf_deinit(&out);
	assert_int_equal(mem_live(), 0);
}

static void refuses(const char *request, bool adapt, nh_status code, const char *part)
{
	buf out = {0};
	nh_error e = {0};
	assert_int_equal(run("{{ messages[0].content }}", request, adapt, NULL, -1, &out, &e), code);
	if (!strstr(e.text, part)) fail_msg("%s: has no %s", e.text, part);
	assert_int_equal(out.len, 0);
	assert_int_equal(mem_live(), 0);
}

static void prepares_as_transformers(void **state)
{
	(void)state;
	shows("{{ messages }}", "{\"messages\": [{\"role\": \"user\", \"content\": null, \"n\": {\"x\": null}}]}", false,
	    "[{'role': 'user', 'n': {'x': None}}]");
	shows("{{ messages[0] }}", "{\"messages\": [{\"role\": \"assistant\", \"reasoning\": \"why\", \"content\": \"c\"}]}", false,
	    "{'thinking': 'why', 'role': 'assistant', 'reasoning': 'why', 'content': 'c', 'reasoning_content': 'why'}");
	shows("{{ messages[0] }}", "{\"messages\": [{\"role\": \"a\", \"reasoning_content\": null, \"thinking\": \"t\"}]}", false,
	    "{'thinking': 't', 'role': 'a', 'reasoning_content': 't'}");
	shows("{{ tools }}{{ documents }}{{ add_generation_prompt }}{{ chat_template_kwargs is defined }}",
	    "{\"messages\": [{\"role\": \"u\"}]}", false, "NoneNoneTrueFalse");
	shows("{{ tools }}{{ add_generation_prompt }}", "{\"messages\": [{\"role\": \"u\"}], \"tools\": [], \"add_generation_prompt\": false}",
	    false, "[]False");
	shows("{{ k }}{{ bos_token }}{{ eos_token }}{{ pad_token is defined }}",
	    "{\"messages\": [{\"role\": \"u\"}], \"chat_template_kwargs\": {\"k\": 3, \"eos_token\": \"E\"}}", false, "3<s>EFalse");
	shows("{{ strftime_now('%Y-%m-%d') }}", "{\"messages\": [{\"role\": \"u\"}]}", false, "1970-01-02");
	/* cases.md 88: content null with calls, then a tool's result */
	shows("{% for m in messages %}{{ m.role }}:{{ m.content is defined }} {% endfor %}",
	    "{\"messages\": [{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": "
	    "\"{}\"}}]},"
	    "{\"role\": \"tool\", \"content\": \"r\"}]}",
	    true, "assistant:False tool:True ");
}

static void refuses_by_name(void **state)
{
	(void)state;
	refuses("[]", false, NH_ERR_ARG, "the whole");
	refuses("{}", false, NH_ERR_ARG, "request: messages: is absent, expected a list");
	refuses("{\"messages\": \"hi\"}", false, NH_ERR_ARG, "messages: is \"hi\"");
	refuses("{\"messages\": []}", false, NH_ERR_ARG, "empty conversation");
	refuses("{\"messages\": [3]}", false, NH_ERR_ARG, "messages[0]: is 3");
	refuses("{\"messages\": [{\"role\": \"u\"}, {\"content\": \"x\"}]}", false, NH_ERR_ARG, "messages[1].role: is absent");
	refuses("{\"messages\": [{\"role\": 1}]}", false, NH_ERR_ARG, "messages[0].role: is 1");
	refuses("{\"messages\": [{\"role\": \"u\"}], \"tools\": {}}", false, NH_ERR_ARG, "tools: is {}");
	refuses("{\"messages\": [{\"role\": \"u\"}], \"tools\": [\"f\"]}", false, NH_ERR_ARG, "tools[0]: is \"f\"");
	refuses("{\"messages\": [{\"role\": \"u\"}], \"documents\": [1]}", false, NH_ERR_ARG, "documents[0]");
	refuses("{\"messages\": [{\"role\": \"u\"}], \"add_generation_prompt\": 1}", false, NH_ERR_ARG, "add_generation_prompt: is 1");
	refuses("{\"messages\": [{\"role\": \"u\"}], \"continue_final_message\": true}", false, NH_ERR_ARG, "continue_final_message");
	refuses("{\"messages\": [{\"role\": \"u\"}], \"chat_template_kwargs\": []}", false, NH_ERR_ARG, "chat_template_kwargs: is []");
	refuses(
	    "{\"messages\": [{\"role\": \"u\"}], \"chat_template_kwargs\": {\"tools\": []}}", false, NH_ERR_ARG, "chat_template_kwargs: tools");
	refuses("{\"messages\": [{\"role\": \"u\", \"content\": [{\"type\": \"image_url\"}]}]}", true, NH_ERR_UNSUPPORTED,
	    "messages[0].content[0]");
	refuses("{\"messages\": [{\"role\": \"a\", \"tool_calls\": [{\"function\": {\"arguments\": \"{oops\"}}]}]}", true, NH_ERR_ARG,
	    "messages[0].tool_calls[0].function.arguments");
	refuses("{\"messages\": [{\"role\": \"a\", \"tool_calls\": [{\"function\": {\"arguments\": \"[1]\"}}]}]}", true, NH_ERR_ARG,
	    "not of an object");
}

static void adapts(void **state)
{
	(void)state;
	const char *parts =
	    "{\"messages\": [{\"role\": \"u\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}, {\"type\": \"text\", \"text\": \"b\"}]}]}";
	shows("{{ messages[0].content }}", parts, true, "a\nb");
	shows("{{ messages[0].content }}", parts, false, "[{'type': 'text', 'text': 'a'}, {'type': 'text', 'text': 'b'}]");
	shows("{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m['content'] %}<{{ p.text }}>{% endfor "
	      "%}{% endif %}"
	      "{% endfor %}",
	    parts, true, "<a><b>");
	const char *calls =
	    "{\"messages\": [{\"role\": \"a\", \"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": \"{\\\"x\\\": [1]}\"}},"
	    "{\"name\": \"g\", \"arguments\": \"\"}, {\"function\": {\"arguments\": {\"y\": 2}}}]}]}";
	shows("{% for c in messages[0].tool_calls %}{{ (c.function or c).arguments }}{% endfor %}", calls, true, "{'x': [1]}{}{'y': 2}");
	shows("{{ messages[0].tool_calls[0].function.arguments }}", calls, false, "{\"x\": [1]}");
	const char *switches = "{\"messages\": [{\"role\": \"u\"}], \"chat_template_kwargs\": {\"enable_thinking\": false}}";
	shows("{{ enable_thinking }}{{ chat_template_kwargs.enable_thinking }}", switches, true, "FalseFalse");
	shows("{{ enable_thinking }}{{ chat_template_kwargs is defined }}", switches, false, "FalseFalse");
}

static void failing_allocations(void **state)
{
	(void)state;
	/* Jansson allocates by its own means; these are the interpreter's and the parts' buffers. */
	size_t failures = 0;
	chat_template *t;
	nh_error e;
	assert_int_equal(template_open(&t, "{{ messages }}", 14, "t", &e), NH_OK);
	json_t *request = json_of("{\"messages\": [{\"role\": \"u\", \"content\": [\"a\", \"b\"]}]}");
	for (size_t n = 0; n < 100; n++) {
		buf out = {0};
		json_t *adapted = NULL;
		mem_fail_after(n);
		nh_status s = chat_adapt(t, request, &adapted, &e);
		if (s == NH_OK) s = chat_render(t, adapted, NULL, -1, &out, &e);
		mem_fail_after(SIZE_MAX);
		json_decref(adapted);
		buf_deinit(&out);
		if (s == NH_OK) break;
		failures++;
	}
	json_decref(request);
	template_close(t);
	assert_true(failures > 0 && failures < 100);
	assert_int_equal(mem_live(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(prepares_as_transformers), cmocka_unit_test(refuses_by_name),
	    cmocka_unit_test(adapts), cmocka_unit_test(failing_allocations)};
	return cmocka_run_group_tests_name("chat_request", tests, NULL, NULL);
}
