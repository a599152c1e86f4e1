/* SPDX-License-Identifier: Apache-2.0
 * test_oai_error.c: statuses and bodies of refusals.
 */
#include "helper_dialect.h"

#include <string.h>

static void bodies(void **state)
{
	(void)state;
	oai_error e = {0};
	assert_int_equal(oai_bad(&e, "n", "is %d, expected %d", 0, 1), NH_ERR_ARG);
	json_is(oai_error_body(&e), "{'error':{'message':'n: is 0, expected 1','type':'invalid_request_error','param':'n','code':null}}");
	assert_int_equal(oai_refuse(&e, "suffix", "is not served"), NH_ERR_UNSUPPORTED);
	json_is(oai_error_body(&e),
	    "{'error':{'message':'suffix: is not served','type':'invalid_request_error','param':'suffix','code':'unsupported_value'}}");
	assert_int_equal(oai_bad(&e, NULL, "no JSON"), NH_ERR_ARG);
	json_is(oai_error_body(&e), "{'error':{'message':'no JSON','type':'invalid_request_error','param':null,'code':null}}");
	assert_int_equal(oai_nomem(&e), NH_ERR_NOMEM);
	json_is(oai_error_body(&e), "{'error':{'message':'out of memory','type':'server_error','param':null,'code':null}}");
	assert_int_equal(e.status, 500);
}

static void texts_are_printable_and_cut(void **state)
{
	(void)state;
	oai_error e = {0};
	char longer[3000];
	memset(longer, 'x', sizeof longer);
	longer[sizeof longer - 1] = '\0';
	oai_bad(&e, longer, "%s", longer);
	assert_int_equal(strlen(e.param), sizeof e.param - 1);
	assert_int_equal(strlen(e.message), sizeof e.message - 1);
	json_t *body = oai_error_body(&e);
	assert_non_null(body);
	json_decref(body);
	oai_bad(&e, "a\nb", "\xff\x01");
	assert_string_equal(e.message, "a?b: ??");
	body = oai_error_body(&e);
	assert_non_null(body);
	json_decref(body);
}

static void failures_of_the_library(void **state)
{
	(void)state;
	static const struct {
		nh_status status;
		int http;
	} table[] = {{NH_ERR_ARG, 400}, {NH_ERR_TEMPLATE, 400}, {NH_ERR_LIMIT, 400}, {NH_ERR_UNSUPPORTED, 400}, {NH_ERR_FORMAT, 400},
	    {NH_ERR_NOMEM, 500}, {NH_ERR_NUMERIC, 500}, {NH_ERR_BACKEND, 500}, {NH_ERR_INTERNAL, 500}, {NH_ERR_CANCELLED, 500}};
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		oai_error e = {0};
		assert_int_equal(oai_error_from(&e, table[i].status, NULL, "messages"), table[i].status);
		assert_int_equal(e.status, table[i].http);
		assert_string_equal(e.param, table[i].http == 400 ? "messages" : "");
		assert_non_null(strstr(e.message, nh_status_message(table[i].status)));
	}
}

static void names_of_the_engine_become_the_requests(void **state)
{
	(void)state;
	static const struct {
		nh_status status;
		const char *text, *param, *message, *code;
	} table[] = {
	    {NH_ERR_LIMIT, "prompt: 90 tokens, the context holds 64", "messages", "messages: 90 tokens, the context holds 64",
	        "context_length_exceeded"},
	    {NH_ERR_ARG, "end_ids: id 0 is 9, expected 0 to 7", "stop_token_ids", "stop_token_ids: id 0 is 9, expected 0 to 7", NULL},
	    {NH_ERR_ARG, "bias: id 0 is 9", "logit_bias", "logit_bias: id 0 is 9", NULL},
	    {NH_ERR_ARG, "prompt: id 3 is 9", "messages", "messages: id 3 is 9", NULL},
	    {NH_ERR_ARG, "stop", "stop", "stop: ", NULL},
	    {NH_ERR_ARG, "else: where", "messages", "messages: else: where", NULL},
	};
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		oai_error e = {0};
		nh_error error = {.code = table[i].status};
		snprintf(error.text, sizeof error.text, "%s", table[i].text);
		oai_error_from_submit(&e, table[i].status, &error, "messages");
		assert_string_equal(e.param, table[i].param);
		if (table[i].text[4] != '\0') assert_string_equal(e.message, table[i].message);
		assert_true((e.code == NULL) == (table[i].code == NULL));
		if (e.code != NULL) assert_string_equal(e.code, table[i].code);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(bodies), cmocka_unit_test(texts_are_printable_and_cut),
	    cmocka_unit_test(failures_of_the_library), cmocka_unit_test(names_of_the_engine_become_the_requests)};
	return cmocka_run_group_tests(tests, NULL, tiny_close);
}
