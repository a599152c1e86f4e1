/* SPDX-License-Identifier: Apache-2.0
 * test_oai_batch.c: lines of batch files, in and out.
 */
#include "helper_dialect.h"

#include <stdlib.h>
#include <string.h>

#include "base/base_mem.h"
#include "dialect/oai_batch.h"

static void good_lines(void **state)
{
	(void)state;
	static const struct {
		const char *text, *id;
		oai_kind kind;
	} table[] = {
	    {"{\"custom_id\":\"a\",\"method\":\"POST\",\"url\":\"/v1/chat/completions\",\"body\":{}}", "a", OAI_CHAT},
	    {" {\"custom_id\":\"\\u00e9\",\"url\":\"/v1/completions\",\"body\":{\"x\":1},\"more\":2} \r", "\xC3\xA9", OAI_COMPLETIONS},
	};
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		oai_batch_line l;
		oai_error e = {0};
		if (oai_batch_parse(&l, table[i].text, strlen(table[i].text), &e) != NH_OK) fail_msg("%s", e.message);
		assert_string_equal(l.custom_id, table[i].id);
		assert_int_equal(l.kind, table[i].kind);
		assert_true(json_is_object(l.body));
		oai_batch_free(&l);
	}
}

static void bad_lines_keep_their_id(void **state)
{
	(void)state;
#define URLS "\"/v1/chat/completions\" or \"/v1/completions\""
	static const struct {
		const char *text, *id, *param, *message;
	} table[] = {
	    {"nonsense", NULL, "", "request: line 1, column 8: not valid JSON: invalid token near 'nonsense'"},
	    {"", NULL, "", "request: line 1, column 0: not valid JSON: '[' or '{' expected near end of file"},
	    {"[1]", NULL, "", "is [1], expected a JSON object with custom_id, method, url and body"},
	    {"{}", NULL, "custom_id", "custom_id: is absent, expected a string that is not empty"},
	    {"{\"custom_id\":\"\"}", NULL, "custom_id", "custom_id: is \"\", expected a string that is not empty"},
	    {"{\"custom_id\":7}", NULL, "custom_id", "custom_id: is 7, expected a string that is not empty"},
	    {"{\"custom_id\":\"a\",\"method\":\"GET\"}", "a", "method", "method: is \"GET\", expected \"POST\""},
	    {"{\"custom_id\":\"a\",\"method\":\"POST\"}", "a", "url", "url: is absent, expected " URLS},
	    {"{\"custom_id\":\"a\",\"url\":\"/v1/embeddings\"}", "a", "url", "url: is \"/v1/embeddings\", only " URLS " are supported"},
	    {"{\"custom_id\":\"a\",\"url\":\"/v1/completions\"}", "a", "body", "body: is absent, expected a JSON object"},
	    {"{\"custom_id\":\"a\",\"url\":\"/v1/completions\",\"body\":[]}", "a", "body", "body: is [], expected a JSON object"},
	    {"{\"custom_id\":\"a\",\"custom_id\":\"b\"}", NULL, "",
	        "request: line 1, column 28: not valid JSON: duplicate object key near "
	        "'\"custom_id\"'"},
	};
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		oai_batch_line l;
		oai_error e = {0};
		assert_int_not_equal(oai_batch_parse(&l, table[i].text, strlen(table[i].text), &e), NH_OK);
		if (i != 1 && strcmp(e.message, table[i].message) != 0) fail_msg("%s: said \"%s\"", table[i].text, e.message);
		assert_string_equal(e.param, table[i].param);
		assert_int_equal(e.status, 400);
		assert_int_equal(l.custom_id == NULL, table[i].id == NULL);
		if (table[i].id != NULL) assert_string_equal(l.custom_id, table[i].id);
		oai_batch_free(&l);
	}
}

static void a_line_has_a_limit(void **state)
{
	(void)state;
	oai_batch_line l;
	oai_error e = {0};
	/* The length is looked at first: nothing is read. */
	assert_int_equal(oai_batch_parse(&l, "", OAI_BATCH_LINE_MAX + 1, &e), NH_ERR_ARG);
	assert_string_equal(e.message, "the line has 67108865 bytes, expected at most 67108864");
	oai_batch_free(&l);
}

static void answers(void **state)
{
	(void)state;
	json_is(oai_batch_answer("batch_req_1", "a", 200, "req_1", json_of("{'x':1}")),
	    "{'id':'batch_req_1','custom_id':'a','response':{'status_code':200,'request_id':'req_1','body':{'x':1}},'error':null}");
	json_is(oai_batch_answer("batch_req_1", NULL, 400, "req_1", json_of("{}")),
	    "{'id':'batch_req_1','custom_id':null,'response':{'status_code':400,'request_id':'req_1','body':{}},'error':null}");
	assert_null(oai_batch_answer("batch_req_1", NULL, 400, "req_1", NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(good_lines), cmocka_unit_test(bad_lines_keep_their_id),
	    cmocka_unit_test(a_line_has_a_limit), cmocka_unit_test(answers)};
	return cmocka_run_group_tests(tests, NULL, tiny_close);
}
