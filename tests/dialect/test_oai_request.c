/* SPDX-License-Identifier: Apache-2.0
 * test_oai_request.c: bodies that are refused, with the exact words, and bodies that are taken, with all that they set. Covers oai_fields.c.
 */
#include "helper_dialect.h"

#include <string.h>

#include "base/base_mem.h"

#define M "'messages':[{'role':'user','content':'hi'}]"
#define P "'prompt':'hi'"

static const struct {
	oai_kind kind;
	const char *body, *param, *message;
} BAD[] = {
    {OAI_CHAT, "[]", "", "is [], expected a JSON object"},
    {OAI_CHAT, "{}", "messages", "messages: is absent, expected a list of at least one message"},
    {OAI_CHAT, "{'messages':[]}", "messages", "messages: is [], expected a list of at least one message"},
    {OAI_CHAT, "{'messages':'hi'}", "messages", "messages: is \"hi\", expected a list of at least one message"},
    {OAI_CHAT, "{'messages':['hi']}", "messages[0]", "messages[0]: is \"hi\", expected an object with role and content"},
    {OAI_CHAT, "{'messages':[{'content':'hi'}]}", "messages[0].role", "messages[0].role: is absent, expected a role such as \"user\""},
    {OAI_CHAT, "{'messages':[{'role':7,'content':'hi'}]}", "messages[0].role", "messages[0].role: is 7, expected a role such as \"user\""},
    {OAI_CHAT, "{'messages':[{'role':'user'}]}", "messages[0].content",
        "messages[0].content: is absent, expected a string or a list of text parts"},
    {OAI_CHAT, "{'messages':[{'role':'user','content':null}]}", "messages[0].content",
        "messages[0].content: is null, expected a string or a list of text parts"},
    {OAI_CHAT, "{" M ",'messages2':1,'model':3}", "model", "model: is 3, expected a string"},
    {OAI_CHAT, "{'messages':[{'role':'user','content':[{'type':'image_url','image_url':{'url':'x'}}]}]}", "messages[0].content[0].type",
        "messages[0].content[0].type: is \"image_url\", this is a text model: only \"text\" is supported"},
    {OAI_CHAT, "{'messages':[{'role':'user','content':[{'type':'text'}]}]}", "messages[0].content[0].text",
        "messages[0].content[0].text: is absent, expected a string"},
    {OAI_CHAT, "{'messages':[{'role':'user','content':[{}]}]}", "messages[0].content[0].type",
        "messages[0].content[0].type: is absent, expected \"text\""},
    {OAI_CHAT, "{'messages':[{'role':'user','content':[1]}]}", "messages[0].content[0]",
        "messages[0].content[0]: is 1, expected an object with type and text"},
    {OAI_CHAT, "{" M ",'temperature':-0.1}", "temperature", "temperature: is -0.1, expected a number from 0 to 100"},
    {OAI_CHAT, "{" M ",'temperature':'1'}", "temperature", "temperature: is \"1\", expected a number from 0 to 100"},
    {OAI_CHAT, "{" M ",'temperature':true}", "temperature", "temperature: is true, expected a number from 0 to 100"},
    {OAI_CHAT, "{" M ",'temperature':NaN}", "temperature", "temperature: is \"NaN\", expected a number from 0 to 100"},
    {OAI_CHAT, "{" M ",'top_p':1.5}", "top_p", "top_p: is 1.5, expected a number from 0 to 1"},
    {OAI_CHAT, "{" M ",'min_p':-1}", "min_p", "min_p: is -1, expected a number from 0 to 1"},
    {OAI_CHAT, "{" M ",'top_k':-2}", "top_k", "top_k: is -2, expected a whole number, -1 or more"},
    {OAI_CHAT, "{" M ",'top_k':1.5}", "top_k", "top_k: is 1.5, expected a whole number, -1 or more"},
    {OAI_CHAT, "{" M ",'presence_penalty':2.1}", "presence_penalty", "presence_penalty: is 2.1, expected a number from -2 to 2"},
    {OAI_CHAT, "{" M ",'frequency_penalty':-2.1}", "frequency_penalty", "frequency_penalty: is -2.1, expected a number from -2 to 2"},
    {OAI_CHAT, "{" M ",'repetition_penalty':0}", "repetition_penalty", "repetition_penalty: is 0, expected a number from 0.01 to 100"},
    {OAI_CHAT, "{" M ",'n':0}", "n", "n: is 0, expected a whole number from 1 to 128"},
    {OAI_CHAT, "{" M ",'n':129}", "n", "n: is 129, expected a whole number from 1 to 128"},
    {OAI_CHAT, "{" M ",'seed':'a'}", "seed", "seed: is \"a\", expected a whole number"},
    {OAI_CHAT, "{" M ",'seed':0.5}", "seed", "seed: is 0.5, expected a whole number"},
    {OAI_CHAT, "{" M ",'max_tokens':0}", "max_tokens", "max_tokens: is 0, expected a whole number, 1 or more"},
    {OAI_CHAT, "{" M ",'max_tokens':-5}", "max_tokens", "max_tokens: is -5, expected a whole number, 1 or more"},
    {OAI_CHAT, "{" M ",'max_completion_tokens':'9'}", "max_completion_tokens",
        "max_completion_tokens: is \"9\", expected a whole number, 1 or more"},
    {OAI_CHAT, "{" M ",'min_tokens':5,'max_tokens':4}", "min_tokens", "min_tokens: is 5, more than max_tokens"},
    {OAI_CHAT, "{" M ",'min_tokens':5,'max_completion_tokens':4}", "min_tokens", "min_tokens: is 5, more than max_completion_tokens"},
    {OAI_CHAT, "{" M ",'stop':7}", "stop", "stop: is 7, expected a string or a list of strings"},
    {OAI_CHAT, "{" M ",'stop':''}", "stop", "stop: is \"\", expected a string that is not empty and holds no NUL"},
    {OAI_CHAT, "{" M ",'stop':['a','\\u0000']}", "stop[1]",
        "stop[1]: is \"\\u0000\", expected a string that is not empty and holds no NUL"},
    {OAI_CHAT, "{" M ",'stop':['a',1]}", "stop[1]", "stop[1]: is 1, expected a string that is not empty and holds no NUL"},
    {OAI_CHAT, "{" M ",'stop':['1','2','3','4','5','6','7','8','9','a','b','c','d','e','f','g','h']}", "stop",
        "stop: has 17 strings, expected at most 16"},
    {OAI_CHAT, "{" M ",'stop_token_ids':[1,-1]}", "stop_token_ids[1]", "stop_token_ids[1]: is -1, expected a token id"},
    {OAI_CHAT, "{" M ",'stop_token_ids':3}", "stop_token_ids", "stop_token_ids: is 3, expected a list of token ids"},
    {OAI_CHAT, "{" M ",'logit_bias':[]}", "logit_bias", "logit_bias: is [], expected an object from token ids to numbers"},
    {OAI_CHAT, "{" M ",'logit_bias':{'the':1}}", "logit_bias", "logit_bias: \"the\" is no token id"},
    {OAI_CHAT, "{" M ",'logit_bias':{'-4':1}}", "logit_bias", "logit_bias: \"-4\" is no token id"},
    {OAI_CHAT, "{" M ",'logit_bias':{'99999999999':1}}", "logit_bias", "logit_bias: \"99999999999\" is no token id"},
    {OAI_CHAT, "{" M ",'logit_bias':{'5':101}}", "logit_bias.5", "logit_bias.5: is 101, expected a number from -100 to 100"},
    {OAI_CHAT, "{" M ",'top_logprobs':2}", "top_logprobs", "top_logprobs: needs logprobs true"},
    {OAI_CHAT, "{" M ",'logprobs':true,'top_logprobs':65}", "top_logprobs", "top_logprobs: is 65, expected a whole number from 0 to 64"},
    {OAI_CHAT, "{" M ",'logprobs':3}", "logprobs", "logprobs: is 3, expected true or false"},
    {OAI_CHAT, "{" M ",'stream':'yes'}", "stream", "stream: is \"yes\", expected true or false"},
    {OAI_CHAT, "{" M ",'stream_options':{'include_usage':true}}", "stream_options", "stream_options: needs stream true"},
    {OAI_CHAT, "{" M ",'tools':{}}", "tools", "tools: is {}, expected a list of tools"},
    {OAI_CHAT, "{" M ",'tools':[{'type':'function'}]}", "tools[0].function.name", "tools[0].function.name: is absent, expected a string"},
    {OAI_CHAT, "{" M ",'tool_choice':'required'}", "tool_choice",
        "tool_choice: a call can not be forced, only \"auto\" and \"none\" are supported"},
    {OAI_CHAT, "{" M ",'tool_choice':{'type':'function','function':{'name':'f'}}}", "tool_choice",
        "tool_choice: a call can not be forced, only \"auto\" and \"none\" are supported"},
    {OAI_CHAT, "{" M ",'tool_choice':'any'}", "tool_choice", "tool_choice: is \"any\", expected \"auto\" or \"none\""},
    {OAI_CHAT, "{" M ",'chat_template_kwargs':[]}", "chat_template_kwargs", "chat_template_kwargs: is [], expected an object"},
    {OAI_CHAT, "{" M ",'add_generation_prompt':1}", "add_generation_prompt", "add_generation_prompt: is 1, expected true or false"},
    {OAI_CHAT, "{" M ",'response_format':{'type':'json_object'}}", "response_format",
        "response_format: is {\"type\":\"json_object\"}, only {\"type\":\"text\"} is supported"},
    {OAI_CHAT, "{" M ",'functions':[]}", "functions", "functions: is [], only null is supported"},
    {OAI_CHAT, "{" M ",'guided_json':{}}", "guided_json", "guided_json: is {}, only null is supported"},
    {OAI_CHAT, "{" M ",'echo':true}", "echo", "echo: is true, only false is supported"},
    {OAI_CHAT, "{" M ",'modalities':['text','audio']}", "modalities", "modalities: is [\"text\",\"audio\"], only [\"text\"] is supported"},
    {OAI_CHAT, "{" M ",'continue_final_message':true}", "continue_final_message",
        "continue_final_message: is true, only false is supported"},
    {OAI_COMPLETIONS, "{}", "prompt",
        "prompt: is absent, expected a string, a list of strings, a list of token ids, or a list of such lists"},
    {OAI_COMPLETIONS, "{'prompt':[]}", "prompt",
        "prompt: is [], expected a string, a list of strings, a list of token ids, or a list of such lists"},
    {OAI_COMPLETIONS, "{'prompt':['a',1]}", "prompt[1]", "prompt[1]: is 1, expected a string, as the others are"},
    {OAI_COMPLETIONS, "{'prompt':[1,'a']}", "prompt[0]", "prompt[0]: is 1, expected a string or a list of token ids"},
    {OAI_COMPLETIONS, "{'prompt':[[1],[]]}", "prompt[1]", "prompt[1]: is [], expected a string or a list of token ids"},
    {OAI_COMPLETIONS, "{'prompt':[[1],[2.5]]}", "prompt[1]", "prompt[1]: is [2.5], expected a string or a list of token ids"},
    {OAI_COMPLETIONS, "{" P ",'max_tokens':0}", "max_tokens", "max_tokens: is 0, which needs echo"},
    {OAI_COMPLETIONS, "{" P ",'min_tokens':17}", "min_tokens", "min_tokens: is 17, more than max_tokens"},
    {OAI_COMPLETIONS, "{" P ",'logprobs':true}", "logprobs", "logprobs: is true, expected a whole number from 0 to 64"},
    {OAI_COMPLETIONS, "{" P ",'logprobs':-1}", "logprobs", "logprobs: is -1, expected a whole number from 0 to 64"},
    {OAI_COMPLETIONS, "{" P ",'best_of':4}", "best_of", "best_of: is 4, only 1 is supported"},
    {OAI_COMPLETIONS, "{" P ",'suffix':'end'}", "suffix", "suffix: is \"end\", only \"\" is supported"},
    {OAI_COMPLETIONS, "{" P ",'echo':1}", "echo", "echo: is 1, expected true or false"},
    {OAI_COMPLETIONS, "{" P ",'num_beams':4}", "num_beams", "num_beams: is 4, only 1 is supported"},
    {OAI_CHAT, "{" M ",'num_beams':1,'no_repeat_ngram_size':3}", "no_repeat_ngram_size", "no_repeat_ngram_size: is 3, only 0 is supported"},
    {OAI_COMPLETIONS, "{" P ",'use_beam_search':true}", "use_beam_search", "use_beam_search: is true, only false is supported"},
};

static void bad_bodies_are_refused_by_name(void **state)
{
	(void)state;
	const nh_sampling_defaults none = {.do_sample = -1, .top_k = -1, .temperature = -1, .top_p = -1, .min_p = -1, .repetition_penalty = -1};
	size_t checked = 0;
	for (size_t i = 0; i < ARRAY_LEN(BAD); i++, checked++) {
		oai_error e = {0};
		oai_request *r = (oai_request *)&e;
		json_t *body = json_of(BAD[i].body);
		nh_status s = oai_request_parse(&r, BAD[i].kind, body, &none, &e);
		if (s == NH_OK) fail_msg("%s: was taken", BAD[i].body);
		assert_null(r);
		if (strcmp(e.message, BAD[i].message) != 0) fail_msg("%s: said \"%s\", expected \"%s\"", BAD[i].body, e.message, BAD[i].message);
		assert_string_equal(e.param, BAD[i].param);
		assert_int_equal(e.status, 400);
		assert_string_equal(e.type, "invalid_request_error");
		if (s == NH_ERR_UNSUPPORTED) assert_string_equal(e.code, "unsupported_value");
		else assert_null(e.code);
		json_decref(body);
	}
	print_message("%zu bodies refused\n", checked);
	assert_true(checked > 70);
}

/* All that differs from an engine that was asked nothing. */
static void summary(const oai_request *r, buf *b)
{
	const nh_request_options *o = &r->options;
	buf_printf(b, "prompts %zu n %d max %lld", r->prompts, r->n, (long long)o->max_tokens);
	if (r->model != NULL) buf_printf(b, " model %s", r->model);
	if (o->temperature != 1) buf_printf(b, " t %g", o->temperature);
	if (o->top_p != 1) buf_printf(b, " p %g", o->top_p);
	if (o->top_k != 0) buf_printf(b, " k %d", o->top_k);
	if (o->min_p != 0) buf_printf(b, " min_p %g", o->min_p);
	if (o->repetition_penalty != 1) buf_printf(b, " rep %g", o->repetition_penalty);
	if (o->presence_penalty != 0) buf_printf(b, " pres %g", o->presence_penalty);
	if (o->frequency_penalty != 0) buf_printf(b, " freq %g", o->frequency_penalty);
	if (r->seeded) buf_printf(b, " seed %llu", (unsigned long long)o->seed);
	if (o->choices != r->n) buf_printf(b, " choices %d", o->choices);
	for (size_t i = 0; i < o->stop_count; i++) buf_printf(b, " stop <%s>", o->stop[i]);
	for (size_t i = 0; i < o->end_id_count; i++) buf_printf(b, " end %d", o->end_ids[i]);
	for (size_t i = 0; i < o->allowed_count; i++) buf_printf(b, " allow %d", o->allowed_ids[i]);
	for (size_t i = 0; i < o->bias_count; i++) buf_printf(b, " bias %d:%g", o->bias[i].id, (double)o->bias[i].add);
	if (o->min_tokens != 0) buf_printf(b, " min %lld", (long long)o->min_tokens);
	if (o->ignore_end) buf_str(b, " ignore_end");
	if (o->include_stop) buf_str(b, " include_stop");
	if (!o->skip_special) buf_str(b, " specials");
	if (o->split_reasoning != (r->kind == OAI_CHAT)) buf_str(b, " split?");
	if (o->top_logprobs != 0) buf_printf(b, " top %d", o->top_logprobs);
	if (r->logprobs >= 0) buf_printf(b, " logprobs %d", r->logprobs);
	if (o->prompt_logprobs) buf_printf(b, " prompt_top %d", o->prompt_top_logprobs);
	if (o->priority != 0) buf_printf(b, " priority %d", o->priority);
	if (r->echo) buf_str(b, " echo");
	if (r->stream) buf_str(b, r->stream_usage ? " stream+usage" : " stream");
	if (r->kind == OAI_CHAT && !r->include_reasoning) buf_str(b, " no_reasoning");
	if (r->no_thinking) buf_str(b, " no_thinking");
	if (r->add_special != (r->kind == OAI_COMPLETIONS)) buf_str(b, " add_special?");
	if (r->ignored.len > 0) buf_printf(b, " ignored <%s>", r->ignored.data);
}

static const struct {
	oai_kind kind;
	const char *body, *summary;
} GOOD[] = {
    {OAI_CHAT, "{" M "}", "prompts 1 n 1 max -1"},
    {OAI_CHAT, "{'model':'m'," M ",'temperature':0,'top_p':0.5,'top_k':20,'min_p':0.1}",
        "prompts 1 n 1 max -1 model m t 0 p 0.5 k 20 min_p 0.1"},
    {OAI_CHAT, "{" M ",'temperature':null,'top_p':null,'n':null,'stop':null,'seed':null,'logit_bias':null,'max_tokens':null,'tools':null}",
        "prompts 1 n 1 max -1"},
    {OAI_CHAT, "{" M ",'top_k':-1,'top_p':1.0,'n':2.0}", "prompts 1 n 2 max -1"},
    {OAI_CHAT, "{" M ",'presence_penalty':-2,'frequency_penalty':2,'repetition_penalty':1.1}",
        "prompts 1 n 1 max -1 rep 1.1 pres -2 freq 2"},
    {OAI_CHAT, "{" M ",'max_tokens':5}", "prompts 1 n 1 max 5"},
    {OAI_CHAT, "{" M ",'max_tokens':5,'max_completion_tokens':7,'min_tokens':7}", "prompts 1 n 1 max 7 min 7"},
    {OAI_CHAT, "{" M ",'seed':-1,'n':3}", "prompts 1 n 3 max -1 seed 18446744073709551615"},
    {OAI_CHAT, "{" M ",'seed':0}", "prompts 1 n 1 max -1 seed 0"},
    {OAI_CHAT, "{" M ",'stop':'END'}", "prompts 1 n 1 max -1 stop <END>"},
    {OAI_CHAT, "{" M ",'stop':[]}", "prompts 1 n 1 max -1"},
    {OAI_CHAT, "{" M ",'stop':['1','2','3','4','5','6','7','8','9','a','b','c','d','e','f','g']}",
        "prompts 1 n 1 max -1 stop <1> stop <2> stop <3> stop <4> stop <5> stop <6> stop <7> stop <8> stop <9> stop <a> stop <b> stop <c> "
        "stop <d> stop <e> stop <f> stop <g>"},
    {OAI_CHAT, "{" M ",'stop_token_ids':[0,2147483647],'allowed_token_ids':[4],'logit_bias':{'5':-100,'6':0.5},'ignore_eos':true}",
        "prompts 1 n 1 max -1 end 0 end 2147483647 allow 4 bias 5:-100 bias 6:0.5 ignore_end"},
    {OAI_CHAT, "{" M ",'include_stop_str_in_output':true,'skip_special_tokens':false,'include_reasoning':false}",
        "prompts 1 n 1 max -1 include_stop specials no_reasoning"},
    {OAI_CHAT, "{" M ",'logprobs':true}", "prompts 1 n 1 max -1 top 1 logprobs 0"},
    {OAI_CHAT, "{" M ",'logprobs':true,'top_logprobs':5}", "prompts 1 n 1 max -1 top 5 logprobs 5"},
    {OAI_CHAT, "{" M ",'logprobs':false,'top_logprobs':0}", "prompts 1 n 1 max -1"},
    {OAI_CHAT, "{" M ",'stream':true,'stream_options':{'include_usage':true}}", "prompts 1 n 1 max -1 stream+usage"},
    {OAI_CHAT, "{" M ",'priority':-3}", "prompts 1 n 1 max -1 priority 3"},
    {OAI_CHAT, "{" M ",'user':'u','metadata':{'a':'b'},'store':true,'service_tier':'flex','parallel_tool_calls':false}",
        "prompts 1 n 1 max -1"},
    {OAI_CHAT,
        "{" M ",'response_format':{'type':'text'},'function_call':'none','modalities':['text'],'best_of':1.0,'length_penalty':1.0,'num_"
        "beams':1,'typical_p':1}",
        "prompts 1 n 1 max -1"},
    {OAI_CHAT, "{" M ",'verbosity':'low','x, y':1}", "prompts 1 n 1 max -1 ignored <verbosity, x, y>"},
    {OAI_CHAT, "{" M ",'reasoning_effort':'none'}", "prompts 1 n 1 max -1 no_thinking"},
    {OAI_CHAT, "{" M ",'reasoning_effort':'high'}", "prompts 1 n 1 max -1 ignored <reasoning_effort>"},
    {OAI_CHAT, "{" M ",'prompt':'for completions'}", "prompts 1 n 1 max -1 ignored <prompt>"},
    {OAI_CHAT, "{'messages':[{'role':'assistant','content':null,'tool_calls':[]},{'role':'user','content':[{'type':'text','text':'a'}]}]}",
        "prompts 1 n 1 max -1"},
    {OAI_CHAT, "{" M ",'tools':[{'type':'function','function':{'name':'f'}}],'tool_choice':'auto'}", "prompts 1 n 1 max -1"},
    {OAI_COMPLETIONS, "{" P "}", "prompts 1 n 1 max 16"},
    {OAI_COMPLETIONS, "{'prompt':''}", "prompts 1 n 1 max 16"},
    {OAI_COMPLETIONS, "{'prompt':['a','b'],'n':2,'max_tokens':3}", "prompts 2 n 2 max 3"},
    {OAI_COMPLETIONS, "{'prompt':[5,6,7]}", "prompts 1 n 1 max 16"},
    {OAI_COMPLETIONS, "{'prompt':[[5],[6,7]]}", "prompts 2 n 1 max 16"},
    {OAI_COMPLETIONS, "{" P ",'echo':true,'max_tokens':0,'logprobs':0}", "prompts 1 n 1 max 0 top 1 logprobs 0 prompt_top 0 echo"},
    {OAI_COMPLETIONS, "{" P ",'echo':true,'logprobs':4}", "prompts 1 n 1 max 16 top 4 logprobs 4 prompt_top 4 echo"},
    {OAI_COMPLETIONS, "{" P ",'logprobs':false}", "prompts 1 n 1 max 16"},
    {OAI_COMPLETIONS, "{" P ",'add_special_tokens':false}", "prompts 1 n 1 max 16 add_special?"},
    {OAI_COMPLETIONS, "{" P ",'messages':[],'suffix':''}", "prompts 1 n 1 max 16 ignored <messages>"},
};

static void good_bodies_set_what_they_say(void **state)
{
	(void)state;
	size_t checked = 0;
	for (size_t i = 0; i < ARRAY_LEN(GOOD); i++, checked++) {
		buf b = {0};
		oai_request *r = request_of(GOOD[i].kind, GOOD[i].body);
		summary(r, &b);
		if (strcmp(b.data, GOOD[i].summary) != 0) fail_msg("%s: \"%s\", expected \"%s\"", GOOD[i].body, b.data, GOOD[i].summary);
		buf_deinit(&b);
		oai_request_free(r);
	}
	print_message("%zu bodies taken\n", checked);
	assert_true(checked > 35);
}

static void silence_is_the_models_default(void **state)
{
	(void)state;
	const nh_sampling_defaults d = {
	    .do_sample = 1, .top_k = 40, .temperature = 0.7, .top_p = 0.95, .min_p = 0.02, .repetition_penalty = 1.2};
	oai_error e = {0};
	oai_request *r;
	json_t *body = json_of("{" M "}");
	assert_int_equal(oai_request_parse(&r, OAI_CHAT, body, &d, &e), NH_OK);
	assert_true(r->options.temperature == 0.7 && r->options.top_p == 0.95 && r->options.min_p == 0.02);
	assert_true(r->options.top_k == 40 && r->options.repetition_penalty == 1.2);
	oai_request_free(r);
	json_decref(body);
	body = json_of("{" M ",'temperature':0,'top_p':1,'top_k':-1,'min_p':0,'repetition_penalty':1}");
	assert_int_equal(oai_request_parse(&r, OAI_CHAT, body, &d, &e), NH_OK);
	assert_true(r->options.temperature == 0 && r->options.top_p == 1 && r->options.min_p == 0);
	assert_true(r->options.top_k == 0 && r->options.repetition_penalty == 1);
	oai_request_free(r);
	json_decref(body);
	/* 0 is the narrowest, though the engine's 0 is off. */
	r = request_of(OAI_CHAT, "{" M ",'top_p':0}");
	assert_true(r->options.top_p > 0 && r->options.top_p < 1e-300);
	oai_request_free(r);
}

static void limits_of_counts(void **state)
{
	(void)state;
	const nh_sampling_defaults none = {.temperature = -1, .top_p = -1, .min_p = -1, .repetition_penalty = -1, .top_k = -1};
	static const struct {
		int prompts, n;
		const char *message;
	} cases[] = {{OAI_PROMPTS_MAX, 4, NULL}, {OAI_PROMPTS_MAX, 5, "n: is 5, with 1024 prompts more than 4096 answers"},
	    {OAI_PROMPTS_MAX + 1, 1, "prompt: has 1025 prompts, expected at most 1024"}};
	for (size_t k = 0; k < ARRAY_LEN(cases); k++) {
		json_t *body = json_object(), *list = json_array();
		for (int i = 0; i < cases[k].prompts; i++) json_array_append_new(list, json_string("a"));
		json_object_set_new(body, "prompt", list);
		json_object_set_new(body, "n", json_integer(cases[k].n));
		oai_error e = {0};
		oai_request *r;
		nh_status s = oai_request_parse(&r, OAI_COMPLETIONS, body, &none, &e);
		assert_int_equal(s == NH_OK, cases[k].message == NULL);
		if (cases[k].message != NULL) assert_string_equal(e.message, cases[k].message);
		oai_request_free(r);
		json_decref(body);
	}
}

static void nothing_leaks_when_memory_ends(void **state)
{
	(void)state;
	const nh_sampling_defaults none = {.temperature = -1, .top_p = -1, .min_p = -1, .repetition_penalty = -1, .top_k = -1};
	json_t *body = json_of("{" M ",'stop':['a'],'stop_token_ids':[1],'allowed_token_ids':[1],'logit_bias':{'1':1},'odd':1}");
	size_t failed = 0;
	for (size_t n = 0;; n++) {
		size_t live = mem_live();
		oai_error e = {0};
		oai_request *r;
		mem_fail_after(n);
		nh_status s = oai_request_parse(&r, OAI_CHAT, body, &none, &e);
		mem_fail_after(SIZE_MAX);
		oai_request_free(r);
		assert_int_equal(mem_live(), live);
		if (s == NH_OK) break;
		assert_int_equal(s, NH_ERR_NOMEM);
		assert_int_equal(e.status, 500);
		failed++;
	}
	print_message("%zu allocations failed\n", failed);
	assert_true(failed >= 6);
	json_decref(body);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(bad_bodies_are_refused_by_name), cmocka_unit_test(good_bodies_set_what_they_say),
	    cmocka_unit_test(silence_is_the_models_default), cmocka_unit_test(limits_of_counts),
	    cmocka_unit_test(nothing_leaks_when_memory_ends)};
	return cmocka_run_group_tests(tests, NULL, tiny_close);
}
