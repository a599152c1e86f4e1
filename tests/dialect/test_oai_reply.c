/* SPDX-License-Identifier: Apache-2.0
 * test_oai_reply.c: bodies made of events. Events are made here, so every order and every cut of the text can be tried.
 */
#include "helper_dialect.h"

#include <stdlib.h>
#include <string.h>

#include "base/base_mem.h"

#define CHAT "{'messages':[{'role':'user','content':'hi'}]}"

static nh_event token(int32_t choice, const char *reasoning, const char *content)
{
	return (nh_event){.type = NH_EVENT_TOKEN,
	    .token = 384,
	    .choice = choice,
	    .reasoning = reasoning,
	    .reasoning_bytes = strlen(reasoning),
	    .content = content,
	    .content_bytes = strlen(content),
	    .logprob = -0.5};
}

static nh_event done(int32_t choice, int32_t finish, uint64_t tokens, uint64_t thought)
{
	nh_event ev = token(choice, "", "");
	ev.type = NH_EVENT_DONE;
	ev.finish = finish;
	ev.stats = (nh_request_stats){.prompt_tokens = 7, .reused_tokens = 2, .generated_tokens = tokens, .reasoning_tokens = thought};
	return ev;
}

static oai_reply *reply_of(const oai_request *r)
{
	oai_error e = {0};
	oai_reply *reply;
	assert_int_equal(oai_reply_open(&reply, r, "id-1", 1000, "served", tiny_tokenizer(), &e), NH_OK);
	return reply;
}

static void put(oai_reply *reply, size_t index, nh_event ev)
{
	oai_error e = {0};
	if (oai_reply_event(reply, index, &ev, &e) != NH_OK) fail_msg("%s", e.message);
}

static void begin(oai_reply *reply, size_t index, size_t tokens)
{
	oai_error e = {0};
	int32_t ids[16] = {384, 1647};
	const oai_prompt p = {.ids = ids, .count = tokens};
	assert_int_equal(oai_reply_prompt(reply, index, &p, &e), NH_OK);
}

static void a_chat(void **state)
{
	(void)state;
	oai_request *r = request_of(OAI_CHAT, CHAT);
	oai_reply *reply = reply_of(r);
	begin(reply, 0, 7);
	put(reply, 0, token(0, "pl", ""));
	put(reply, 0, token(0, "an", ""));
	put(reply, 0, token(0, "", "an"));
	assert_false(oai_reply_done(reply));
	nh_event last = done(0, NH_FINISH_END, 5, 3);
	last.content = "swer"; /* was held back */
	last.content_bytes = 4;
	put(reply, 0, last);
	assert_true(oai_reply_done(reply) && oai_reply_prompt_done(reply, 0));
	json_is(oai_reply_body(reply),
	    "{'id':'id-1','object':'chat.completion','created':1000,'model':'served','choices':[{'index':0,'message':{'role':'assistant',"
	    "'content':'answer','reasoning_content':'plan'},'logprobs':null,'finish_reason':'stop'}],'usage':{'prompt_tokens':7,"
	    "'completion_tokens':5,'total_tokens':12,'completion_tokens_details':{'reasoning_tokens':3},'prompt_tokens_details':"
	    "{'cached_tokens':2}}}");
	oai_reply_close(reply);
	oai_request_free(r);
}

static void ends_and_empty_answers(void **state)
{
	(void)state;
	static const struct {
		const char *extra, *reasoning, *content;
		int32_t finish;
		const char *choice;
	} table[] = {
	    /* The thought used all. */
	    {"", "a long plan", "", NH_FINISH_LENGTH, "{'content':null,'reasoning_content':'a long plan'}|length"},
	    {"", "a long plan", "", NH_FINISH_CONTEXT, "{'content':null,'reasoning_content':'a long plan'}|length"},
	    {",'include_reasoning':false", "a long plan", "", NH_FINISH_LENGTH, "{'content':null}|length"},
	    /* Only a closing tag, or nothing: an empty answer is an answer. */
	    {"", "", "", NH_FINISH_END, "{'content':'','reasoning_content':null}|stop"},
	    {"", "", "", NH_FINISH_LENGTH, "{'content':'','reasoning_content':null}|length"},
	    {"", "plan", "", NH_FINISH_END, "{'content':'','reasoning_content':'plan'}|stop"},
	    {"", "plan", "x", NH_FINISH_LENGTH, "{'content':'x','reasoning_content':'plan'}|length"},
	    {"", "", "hello", NH_FINISH_STOP, "{'content':'hello','reasoning_content':null}|stop"},
	    {",'include_reasoning':false", "plan", "x", NH_FINISH_END, "{'content':'x'}|stop"},
	};
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		char body[256], want[256];
		snprintf(body, sizeof body, "{'messages':[{'role':'user','content':'hi'}]%s}", table[i].extra);
		oai_request *r = request_of(OAI_CHAT, body);
		oai_reply *reply = reply_of(r);
		begin(reply, 0, 7);
		put(reply, 0, token(0, table[i].reasoning, table[i].content));
		put(reply, 0, done(0, table[i].finish, 32, 32));
		json_t *found = oai_reply_body(reply), *choice = json_array_get(json_object_get(found, "choices"), 0);
		json_t *message = json_object_get(choice, "message");
		snprintf(want, sizeof want, "%.*s", (int)strcspn(table[i].choice, "|"), table[i].choice);
		assert_string_equal(json_string_value(json_object_get(message, "role")), "assistant");
		json_object_del(message, "role");
		json_is(json_incref(message), want);
		assert_string_equal(json_string_value(json_object_get(choice, "finish_reason")), strchr(table[i].choice, '|') + 1);
		json_decref(found);
		oai_reply_close(reply);
		oai_request_free(r);
	}
}

static void choices_of_prompts_come_in_any_order(void **state)
{
	(void)state;
	oai_request *r = request_of(OAI_COMPLETIONS, "{'model':'mine','prompt':['The','The capital'],'n':2}");
	oai_reply *reply = reply_of(r);
	begin(reply, 1, 2);
	put(reply, 1, token(1, "", "d"));
	begin(reply, 0, 1);
	put(reply, 0, token(1, "", "b"));
	put(reply, 0, done(1, NH_FINISH_LENGTH, 4, 0));
	assert_false(oai_reply_prompt_done(reply, 0));
	put(reply, 1, token(0, "", "c"));
	put(reply, 1, done(1, NH_FINISH_END, 8, 0));
	put(reply, 0, token(0, "", "a"));
	put(reply, 0, done(0, NH_FINISH_STOP, 1, 0));
	assert_true(oai_reply_prompt_done(reply, 0));
	assert_false(oai_reply_done(reply));
	put(reply, 1, done(0, NH_FINISH_LENGTH, 2, 0));
	assert_true(oai_reply_done(reply));
	/* Each prompt counts once, each answer's tokens count. */
	json_is(oai_reply_body(reply),
	    "{'id':'id-1','object':'text_completion','created':1000,'model':'mine','choices':["
	    "{'index':0,'text':'a','logprobs':null,'finish_reason':'stop'},{'index':1,'text':'b','logprobs':null,'finish_reason':'length'},"
	    "{'index':2,'text':'c','logprobs':null,'finish_reason':'length'},{'index':3,'text':'d','logprobs':null,'finish_reason':'stop'}],"
	    "'usage':{'prompt_tokens':3,'completion_tokens':15,'total_tokens':18,'completion_tokens_details':{'reasoning_tokens':0},"
	    "'prompt_tokens_details':{'cached_tokens':4}}}");
	oai_reply_close(reply);
	oai_request_free(r);
}

static void echo_begins_with_the_prompt(void **state)
{
	(void)state;
	static const char *const bodies[] = {"{'prompt':'The capital','echo':true,'logprobs':0}",
	    "{'prompt':[384,1647],'echo':true,'logprobs':0}", "{'prompt':['The capital'],'echo':true,'logprobs':0}",
	    "{'prompt':[[384,1647]],'echo':true,'logprobs':0}"};
	for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
		oai_request *r = request_of(OAI_COMPLETIONS, bodies[i]);
		oai_reply *reply = reply_of(r);
		begin(reply, 0, 2);
		put(reply, 0, (nh_event){.type = NH_EVENT_PROMPT, .token = 384, .position = 0});
		put(reply, 0, (nh_event){.type = NH_EVENT_PROMPT, .token = 1647, .position = 1, .logprob = -2});
		put(reply, 0, token(0, "", "The"));
		nh_event end = token(0, "", "");
		end.end_token = true; /* has no text, so it is not listed */
		put(reply, 0, end);
		put(reply, 0, done(0, NH_FINISH_END, 2, 0));
		json_t *body = oai_reply_body(reply);
		json_is(json_incref(json_array_get(json_object_get(body, "choices"), 0)),
		    "{'index':0,'text':'The capitalThe','logprobs':{'tokens':['The',' capital','The'],'token_logprobs':[null,-2.0,-0.5],"
		    "'top_logprobs':null,'text_offset':[0,3,11]},'finish_reason':'stop'}");
		json_decref(body);
		oai_reply_close(reply);
		oai_request_free(r);
	}
}

static void text_can_be_cut_anywhere(void **state)
{
	(void)state;
	static const char text[] = "caf\xC3\xA9 <b> \xF0\x9F\x98\x80 \"q\"\n";
	size_t cuts = 0;
	oai_request *r = request_of(OAI_CHAT, CHAT);
	for (size_t i = 0; i < sizeof text; i++, cuts++) {
		oai_reply *reply = reply_of(r);
		begin(reply, 0, 7);
		nh_event ev = token(0, "", text);
		ev.content_bytes = i;
		put(reply, 0, ev);
		put(reply, 0, token(0, "", text + i));
		put(reply, 0, done(0, NH_FINISH_END, 2, 0));
		json_t *body = oai_reply_body(reply);
		json_t *message = json_object_get(json_array_get(json_object_get(body, "choices"), 0), "message");
		assert_string_equal(json_string_value(json_object_get(message, "content")), text);
		json_decref(body);
		oai_reply_close(reply);
	}
	assert_int_equal(cuts, sizeof text);
	oai_request_free(r);
}

static void failures_are_told(void **state)
{
	(void)state;
	oai_request *r = request_of(OAI_CHAT, CHAT);
	oai_reply *reply = reply_of(r);
	oai_error e = {0};
	nh_event ev = {.type = NH_EVENT_ERROR, .error = {.code = NH_ERR_NUMERIC, .text = "layer 3: NaN"}};
	assert_int_equal(oai_reply_event(reply, 0, &ev, &e), NH_ERR_NUMERIC);
	assert_int_equal(e.status, 500);
	assert_string_equal(e.message, "layer 3: NaN");
	ev = done(0, NH_FINISH_CANCELLED, 0, 0);
	assert_int_equal(oai_reply_event(reply, 0, &ev, &e), NH_ERR_CANCELLED);
	ev = token(1, "", "x");
	assert_int_equal(oai_reply_event(reply, 0, &ev, &e), NH_ERR_INTERNAL);
	ev = token(0, "", "x");
	assert_int_equal(oai_reply_event(reply, 1, &ev, &e), NH_ERR_INTERNAL);
	assert_false(oai_reply_done(reply));
	oai_reply_close(reply);
	oai_request_free(r);
}

static void nothing_leaks_when_memory_ends(void **state)
{
	(void)state;
	size_t failed = 0;
	tiny_tokenizer();
	oai_request *r = request_of(OAI_COMPLETIONS, "{'prompt':[384,1647],'echo':true,'logprobs':1}");
	for (size_t n = 0;; n++, failed++) {
		size_t live = mem_live();
		oai_error e = {0};
		oai_reply *reply = NULL;
		int32_t ids[] = {384, 1647};
		const oai_prompt p = {.ids = ids, .count = 2};
		nh_event ev = token(0, "", "text");
		mem_fail_after(n);
		nh_status s = oai_reply_open(&reply, r, "id", 1, "m", tiny_tokenizer(), &e);
		if (s == NH_OK) s = oai_reply_prompt(reply, 0, &p, &e);
		if (s == NH_OK) s = oai_reply_event(reply, 0, &ev, &e);
		mem_fail_after(SIZE_MAX);
		oai_reply_close(reply);
		assert_int_equal(mem_live(), live);
		if (s == NH_OK) break;
		assert_int_equal(s, NH_ERR_NOMEM);
	}
	print_message("%zu allocations failed\n", failed);
	assert_true(failed >= 4);
	oai_request_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_chat), cmocka_unit_test(ends_and_empty_answers),
	    cmocka_unit_test(choices_of_prompts_come_in_any_order), cmocka_unit_test(echo_begins_with_the_prompt),
	    cmocka_unit_test(text_can_be_cut_anywhere), cmocka_unit_test(failures_are_told), cmocka_unit_test(nothing_leaks_when_memory_ends)};
	return cmocka_run_group_tests(tests, NULL, tiny_close);
}
