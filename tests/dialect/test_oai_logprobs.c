/* SPDX-License-Identifier: Apache-2.0
 * test_oai_logprobs.c: both forms of log-probabilities, and names of tokens that are no text.
 */
#include "helper_dialect.h"

#include <math.h>
#include <string.h>

#include "dialect/oai_logprobs.h"

/* A token of the built-in model that is one byte of a longer character. */
static int32_t byte_token(unsigned char byte)
{
	for (int32_t id = 0; id < (int32_t)nh_tokenizer_vocab(tiny_tokenizer()); id++) {
		size_t n;
		const char *piece = nh_token_piece(tiny_tokenizer(), id, &n);
		if (piece != NULL && n == 1 && (unsigned char)piece[0] == byte) return id;
	}
	fail_msg("no token is the byte %02x", byte);
	return -1;
}

static void every_token_has_a_name(void **state)
{
	(void)state;
	json_t *names = json_object();
	size_t count = 0, bytes = 0;
	for (int32_t id = 0; id < (int32_t)nh_tokenizer_vocab(tiny_tokenizer()); id++, count++) {
		buf b = {0};
		size_t n;
		if (nh_token_piece(tiny_tokenizer(), id, &n) == NULL) continue;
		oai_token_name(tiny_tokenizer(), id, &b);
		assert_false(b.failed);
		json_t *text = json_stringn(b.data, b.len);
		assert_non_null(text);
		json_decref(text);
		bytes += b.len > 6 && memcmp(b.data, "bytes:", 6) == 0;
		if (json_object_getn(names, b.data, b.len) != NULL) fail_msg("token %d: its name %s is another's", id, b.data);
		json_object_setn_new(names, b.data, b.len, json_integer(id));
		buf_deinit(&b);
	}
	print_message("%zu tokens, %zu named by bytes\n", count, bytes);
	assert_true(bytes >= 128);
	json_decref(names);
	buf b = {0};
	oai_token_name(tiny_tokenizer(), byte_token(0xE2), &b);
	assert_string_equal(b.data, "bytes:\\xe2");
	buf_deinit(&b);
}

static void a_chat_lists_objects(void **state)
{
	(void)state;
	oai_logprobs l;
	const nh_logprob top[] = {{.id = 384, .rank = 1, .logprob = -0.25}, {.id = 1647, .rank = 2, .logprob = -INFINITY}, {.id = 3}};
	assert_true(oai_logprobs_init(&l, true, 2));
	const nh_event ev = {.type = NH_EVENT_TOKEN, .token = 1647, .logprob = -INFINITY, .top = top, .top_count = 3};
	assert_true(oai_logprobs_add(&l, tiny_tokenizer(), &ev));
	json_is(oai_logprobs_take(&l),
	    "{'content':[{'token':' capital','logprob':-9999.0,'bytes':[32,99,97,112,105,116,97,108],'top_logprobs':["
	    "{'token':'The','logprob':-0.25,'bytes':[84,104,101]},"
	    "{'token':' capital','logprob':-9999.0,'bytes':[32,99,97,112,105,116,97,108]}]}]}");
	oai_logprobs_deinit(&l);
}

static void completions_list_columns(void **state)
{
	(void)state;
	oai_logprobs l;
	const nh_logprob top[] = {{.id = 384, .rank = 1, .logprob = -0.25}};
	assert_true(oai_logprobs_init(&l, false, 1));
	const nh_event events[] = {{.type = NH_EVENT_PROMPT, .token = 384, .position = 0},
	    {.type = NH_EVENT_PROMPT, .token = byte_token(0xC3), .position = 1, .logprob = -1, .top = top, .top_count = 1},
	    {.type = NH_EVENT_TOKEN, .token = byte_token(0xA9), .position = 2, .logprob = -2, .top = top, .top_count = 1},
	    {.type = NH_EVENT_TOKEN, .token = 384, .position = 3, .logprob = -0.25, .top = top, .top_count = 1}};
	for (size_t i = 0; i < sizeof events / sizeof *events; i++) assert_true(oai_logprobs_add(&l, tiny_tokenizer(), &events[i]));
	/* The two bytes are one character, which starts with the first of them. The token drawn is always among the best. */
	json_is(oai_logprobs_take(&l),
	    "{'tokens':['The','bytes:\\\\xc3','bytes:\\\\xa9','The'],'token_logprobs':[null,-1.0,-2.0,-0.25],'top_logprobs':[null,"
	    "{'The':-0.25,'bytes:\\\\xc3':-1.0},{'The':-0.25,'bytes:\\\\xa9':-2.0},{'The':-0.25}],'text_offset':[0,3,4,4]}");
	oai_logprobs_deinit(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_token_has_a_name), cmocka_unit_test(a_chat_lists_objects), cmocka_unit_test(completions_list_columns)};
	return cmocka_run_group_tests(tests, NULL, tiny_close);
}
