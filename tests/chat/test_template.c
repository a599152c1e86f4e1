/* SPDX-License-Identifier: Apache-2.0
 * test_template.c: the interpreter against a table made by real Jinja2 (data/jinja_cases.json says by which), its limits, its errors,
 * threads, and failing allocations.
 */
#include "test.h"

#include <pthread.h>
#include <string.h>

#include "base/base_json.h"
#include "base/base_mem.h"
#include "chat/template.h"

static nh_status render(const char *text, size_t len, const json_t *vars, const template_limits *l, buf *out, nh_error *e)
{
	chat_template *t;
	nh_status s = template_open(&t, text, len, "t.jinja", e);
	if (s == NH_OK) s = template_render(t, vars, l, out, e);
	template_close(t);
	return s;
}

/* The part of Python's message that ours must hold: what follows the exception's name, if our message says the same. */
static bool line_named(const char *text) { return strncmp(text, "t.jinja: line ", 14) == 0 && text[14] >= '1' && text[14] <= '9'; }

static void agrees_with_jinja(void **state)
{
	(void)state;
	json_t *table;
	nh_error e;
	assert_int_equal(jsn_load_path(&table, NH_SOURCE_DIR "/tests/chat/data/jinja_cases.json", JSON_LIMIT_CONFIG, &e), NH_OK);
	const json_t *vars = json_object_get(table, "vars"), *cases = json_object_get(table, "cases");
	const template_limits l = {.now_seconds = json_integer_value(json_object_get(table, "now")), .has_now = true};
	size_t equal = 0, failed = 0, refused = 0, wrong = 0;
	for (size_t i = 0; i < json_array_size(cases); i++) {
		const json_t *c = json_array_get(cases, i), *text = json_object_get(c, "template"), *want = json_object_get(c, "expected");
		const char *refusal = json_string_value(json_object_get(c, "refused"));
		buf out = {0};
		nh_status s = render(json_string_value(text), json_string_length(text), vars, &l, &out, &e);
		bool good;
		if (want) {
			good = s == NH_OK && out.len == json_string_length(want) &&
			       memcmp(out.data ? out.data : "", json_string_value(want), out.len) == 0;
			equal += good;
		} else {
			good =
			    (s == NH_ERR_TEMPLATE || s == NH_ERR_LIMIT) && line_named(e.text) && out.len == 0 && (!refusal || strstr(e.text, refusal));
			failed += good && !refusal;
			refused += good && refusal;
		}
		if (!good) {
			wrong++;
			printf("case %zu: %s\n  got  %s%s\n  want %s\n", i, json_string_value(text),
			    s == NH_OK ? "" : "error: ", s == NH_OK ? (out.data ? out.data : "") : e.text,
			    want      ? json_string_value(want)
			    : refusal ? refusal
			              : "an error");
		}
		buf_deinit(&out);
	}
	json_decref(table);
	printf("Jinja2 cases: %zu equal, %zu fail on both sides, %zu refused by name\n", equal, failed, refused);
	assert_int_equal(wrong, 0);
	assert_true(equal >= 200 && failed >= 120 && refused >= 20);
	assert_int_equal(mem_live(), 0);
}

static nh_status quick(const char *text, const template_limits *l, nh_error *e)
{
	json_t *vars = json_pack("{s:[i,i,i],s:s}", "xs", 1, 2, 3, "s", "text");
	buf out = {0};
	nh_status s = render(text, strlen(text), vars, l, &out, e);
	buf_deinit(&out);
	json_decref(vars);
	return s;
}

static void limits_hold(void **state)
{
	(void)state;
	nh_error e;
	const char *loop = "{% for a in range(1000) %}{% for b in range(1000) %}x{% endfor %}{% endfor %}";
	assert_int_equal(quick(loop, &(template_limits){.steps = 10000}, &e), NH_ERR_LIMIT);
	assert_non_null(strstr(e.text, "steps"));
	assert_int_equal(quick(loop, &(template_limits){.output_bytes = 1000}, &e), NH_ERR_LIMIT);
	assert_non_null(strstr(e.text, "output"));
	assert_int_equal(quick("{{ s * 1000000000 }}", NULL, &e), NH_ERR_LIMIT);
	assert_int_equal(quick("{{ [1] * 100000000 }}", NULL, &e), NH_ERR_LIMIT);
	assert_int_equal(
	    quick("{% set n = namespace(t='ab') %}{% for i in range(60) %}{% set n.t = n.t ~ n.t %}{% endfor %}", NULL, &e), NH_ERR_LIMIT);
	assert_int_equal(quick("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", NULL, &e), NH_ERR_LIMIT);
	assert_non_null(strstr(e.text, "nests deeper"));
	assert_int_equal(
	    quick("{% set n = namespace(l=[]) %}{% for i in range(9999) %}{% set n.l = [n.l] %}{% endfor %}{{ n.l }}", NULL, &e), NH_ERR_LIMIT);
	assert_int_equal(
	    quick(
	        "{% set n = namespace(l=xs) %}{% for i in range(9999) %}{% set n.l = n.l|map('string') %}{% endfor %}{{ n.l|list }}", NULL, &e),
	    NH_ERR_LIMIT);
	assert_int_equal(quick("{{ range(100000)|list|sort|length }}", &(template_limits){.memory_bytes = 1 << 20}, &e), NH_ERR_LIMIT);
	assert_non_null(strstr(e.text, "memory"));
	assert_int_equal(mem_live(), 0);
}

/* A text of `n` copies of a between two ends. */
static nh_status nested(const char *a, const char *middle, const char *z, int n, nh_error *e)
{
	buf b = {0};
	for (int i = 0; i < n; i++) buf_str(&b, a);
	buf_str(&b, middle);
	for (int i = 0; i < n; i++) buf_str(&b, z);
	nh_status s = quick(b.data, NULL, e);
	buf_deinit(&b);
	return s;
}

static void nesting_is_limited(void **state)
{
	(void)state;
	nh_error e;
	for (int n = 1000; n <= 100000; n *= 10) {
		assert_int_equal(nested("{% if true %}", "x", "{% endif %}", n, &e), NH_ERR_TEMPLATE);
		assert_int_equal(nested("{{ (", "1", ") }}", 1, &e), NH_OK);
		assert_int_equal(nested("{% for a in xs %}", "x", "{% endfor %}", n, &e), NH_ERR_TEMPLATE);
		buf b = {0};
		const char *const parts[] = {
		    "(", "[", "-", "not ", "{1:", "1+", "1~", "1**", "1<", "1 if 1 else ", "1 or ", "x|", "x.y.", "f(", "1 is not "};
		for (size_t k = 0; k < ARRAY_LEN(parts); k++) {
			b.len = 0;
			buf_str(&b, "{{ ");
			for (int i = 0; i < n; i++) buf_str(&b, parts[k]);
			buf_str(&b, "1 }}");
			nh_status s = quick(b.data, NULL, &e);
			if (k != 6) assert_int_equal(s, NH_ERR_TEMPLATE); /* a concatenation is flat */
		}
		buf_deinit(&b);
		assert_int_equal(nested("{% if false %}", "", "{% elif x %}", 1, &e), NH_ERR_TEMPLATE);
	}
	assert_int_equal(mem_live(), 0);
}

static void hostile_values(void **state)
{
	(void)state;
	nh_error e;
	json_t *deep = json_array(), *vars;
	for (int i = 0; i < 1500; i++) {
		json_t *outer = json_array();
		json_array_append_new(outer, deep);
		deep = outer;
	}
	vars = json_pack("{s:o}", "deep", deep);
	buf out = {0};
	assert_int_equal(render("{{ deep }}", 10, vars, NULL, &out, &e), NH_ERR_LIMIT);
	assert_int_equal(render("x", 1, deep, NULL, &out, &e), NH_ERR_ARG);
	json_decref(vars);
	assert_int_equal(render("\xFF", 1, NULL, NULL, &out, &e), NH_ERR_TEMPLATE);
	assert_string_equal(e.text, "t.jinja: line 1: the template is not UTF-8");
	buf_deinit(&out);
	/* What was in the buffer stays when a render fails. */
	buf_str(&out, "kept");
	vars = json_object();
	assert_int_equal(render("abc{{ 1 / 0 }}", 14, vars, NULL, &out, &e), NH_ERR_TEMPLATE);
	assert_string_equal(out.data, "kept");
	assert_int_equal(render("a\n\n{{ x.y }}", 12, vars, NULL, &out, &e), NH_ERR_TEMPLATE);
	assert_string_equal(e.text, "t.jinja: line 3: 'x' is undefined");
	assert_int_equal(render("{{ strftime_now('%Y') }}", 24, vars, NULL, &out, &e), NH_ERR_TEMPLATE);
	assert_int_equal(render("{{ raise_exception('no such role') }}", 37, vars, NULL, &out, &e), NH_ERR_TEMPLATE);
	assert_string_equal(e.text, "t.jinja: line 1: no such role");
	buf_deinit(&out);
	json_decref(vars);
	assert_int_equal(mem_live(), 0);
}

static const char MIXED[] = "{% macro m(a, b=[1]) %}{{ a|upper }}{{ b|tojson }}{% endmacro %}{% set ns = namespace(t='') %}"
                            "{% for x in xs if x is odd %}{% set ns.t = ns.t ~ x ~ ',' %}{{ m(s, b=xs[::-1]) }}{{ loop.last }}{% endfor %}"
                            "{% set q %}{{ xs|map('string')|join('-') }}{% endset %}{{ q.split('-')|sort(reverse=true) }}{{ ns.t }}";
static const char MIXED_OUT[] = "TEXT[3, 2, 1]FalseTEXT[3, 2, 1]True['3', '2', '1']1,3,";

typedef struct job {
	const chat_template *t;
	const json_t *vars;
	int good;
} job;

static void *many_renders(void *arg)
{
	job *j = arg;
	for (int i = 0; i < 200; i++) {
		buf out = {0};
		nh_error e;
		if (template_render(j->t, j->vars, NULL, &out, &e) == NH_OK && strcmp(out.data, MIXED_OUT) == 0) j->good++;
		buf_deinit(&out);
	}
	return NULL;
}

static void threads_share_a_template(void **state)
{
	(void)state;
	chat_template *t;
	nh_error e;
	assert_int_equal(template_open(&t, MIXED, strlen(MIXED), "m", &e), NH_OK);
	pthread_t threads[4];
	job jobs[4];
	for (int i = 0; i < 4; i++) {
		/* Reference counts of JSON are not the interpreter's business: each thread brings its own. */
		jobs[i] = (job){.t = t, .vars = json_pack("{s:[i,i,i],s:s}", "xs", 1, 2, 3, "s", "text")};
		assert_int_equal(pthread_create(&threads[i], NULL, many_renders, &jobs[i]), 0);
	}
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(jobs[i].good, 200);
		json_decref((json_t *)(uintptr_t)jobs[i].vars);
	}
	assert_true(template_reads(t, "xs"));
	assert_false(template_reads(t, "chat_template_kwargs"));
	assert_true(template_walks(t, "xs"));
	assert_false(template_walks(t, "content"));
	template_close(t);
	assert_int_equal(mem_live(), 0);
}

static void survives_failing_allocations(void **state)
{
	(void)state;
	json_t *vars = json_pack("{s:[i,i,i],s:s}", "xs", 1, 2, 3, "s", "text");
	size_t failures = 0;
	for (size_t n = 0; n < 2000; n++) {
		buf out = {0};
		nh_error e;
		mem_fail_after(n);
		nh_status s = render(MIXED, strlen(MIXED), vars, NULL, &out, &e);
		mem_fail_after(SIZE_MAX);
		buf_deinit(&out);
		assert_int_equal(mem_live(), 0);
		if (s == NH_OK) break;
		assert_true(s == NH_ERR_NOMEM || s == NH_ERR_LIMIT);
		failures++;
	}
	json_decref(vars);
	printf("failing allocations: %zu\n", failures);
	assert_true(failures > 10 && failures < 2000);
}

/* Building a text piece by piece must not take quadratic memory or time. */
static void appending_is_linear(void **state)
{
	(void)state;
	const char *text =
	    "{% set n = namespace(t='') %}{% for i in range(100000) %}{% set n.t = n.t ~ '0123456789abcdef' ~ i %}{% endfor %}{{ n.t|length }}";
	json_t *vars = json_object();
	buf out = {0};
	nh_error e;
	assert_int_equal(render(text, strlen(text), vars, &(template_limits){.memory_bytes = (size_t)96 << 20}, &out, &e), NH_OK);
	assert_string_equal(out.data, "2088890");
	buf_deinit(&out);
	json_decref(vars);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(agrees_with_jinja), cmocka_unit_test(limits_hold),
	    cmocka_unit_test(nesting_is_limited), cmocka_unit_test(hostile_values), cmocka_unit_test(threads_share_a_template),
	    cmocka_unit_test(survives_failing_allocations), cmocka_unit_test(appending_is_linear)};
	return cmocka_run_group_tests_name("template", tests, NULL, NULL);
}
