/* SPDX-License-Identifier: Apache-2.0
 * oai_fields.c: typed members with bounds, and the list of all members that this program knows, served or not. A member that is not in the list is
 * accepted and mentioned. Breaks first: a member that changes the meaning is missing in the list and passes in silence.
 */
#include "dialect/oai_fields.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/base_json.h"
#include "base/base_mem.h"

#define CHAT OAI_FOR_CHAT
#define COMPLETIONS OAI_FOR_COMPLETIONS
#define BOTH (CHAT | COMPLETIONS)

/* neutral: the value, as JSON, that is as good as absent; NULL: the member is read by a parser, or harmless whatever it says. */
static const struct {
	const char *name;
	unsigned kinds;
	bool served; /* or harmless */
	const char *neutral;
} FIELDS[] = {
    {"model", BOTH, true, NULL},
    {"messages", CHAT, true, NULL},
    {"prompt", COMPLETIONS, true, NULL},
    {"max_tokens", BOTH, true, NULL},
    {"max_completion_tokens", CHAT, true, NULL},
    {"temperature", BOTH, true, NULL},
    {"top_p", BOTH, true, NULL},
    {"top_k", BOTH, true, NULL},
    {"min_p", BOTH, true, NULL},
    {"n", BOTH, true, NULL},
    {"stream", BOTH, true, NULL},
    {"stream_options", BOTH, true, NULL},
    {"stop", BOTH, true, NULL},
    {"stop_token_ids", BOTH, true, NULL},
    {"include_stop_str_in_output", BOTH, true, NULL},
    {"presence_penalty", BOTH, true, NULL},
    {"frequency_penalty", BOTH, true, NULL},
    {"repetition_penalty", BOTH, true, NULL},
    {"logit_bias", BOTH, true, NULL},
    {"allowed_token_ids", BOTH, true, NULL},
    {"seed", BOTH, true, NULL},
    {"logprobs", BOTH, true, NULL},
    {"top_logprobs", CHAT, true, NULL},
    {"echo", COMPLETIONS, true, NULL},
    {"min_tokens", BOTH, true, NULL},
    {"ignore_eos", BOTH, true, NULL},
    {"skip_special_tokens", BOTH, true, NULL},
    {"add_special_tokens", BOTH, true, NULL},
    {"priority", BOTH, true, NULL},
    {"tools", CHAT, true, NULL},
    {"tool_choice", CHAT, true, NULL},
    {"documents", CHAT, true, NULL},
    {"chat_template_kwargs", CHAT, true, NULL},
    {"add_generation_prompt", CHAT, true, NULL},
    {"include_reasoning", CHAT, true, NULL},
    /* Say who asks, or how fast: the answer is the same. */
    {"user", BOTH, true, NULL},
    {"metadata", BOTH, true, NULL},
    {"store", BOTH, true, NULL},
    {"service_tier", BOTH, true, NULL},
    {"safety_identifier", BOTH, true, NULL},
    {"prompt_cache_key", BOTH, true, NULL},
    {"prompt_cache_retention", BOTH, true, NULL},
    {"prediction", CHAT, true, NULL},
    {"request_id", BOTH, true, NULL},
    {"cache_salt", BOTH, true, NULL},
    /* Tool calls stay text, so there is nothing to split. */
    {"parallel_tool_calls", CHAT, true, NULL},
    /* Change the meaning and are not served. */
    {"response_format", BOTH, false, "{\"type\":\"text\"}"},
    {"structured_outputs", BOTH, false, "null"},
    {"guided_json", BOTH, false, "null"},
    {"guided_regex", BOTH, false, "null"},
    {"guided_choice", BOTH, false, "null"},
    {"guided_grammar", BOTH, false, "null"},
    {"grammar", BOTH, false, "null"},
    {"json_schema", BOTH, false, "null"},
    {"functions", CHAT, false, "null"},
    {"function_call", CHAT, false, "\"none\""},
    {"modalities", CHAT, false, "[\"text\"]"},
    {"audio", CHAT, false, "null"},
    {"web_search_options", CHAT, false, "null"},
    {"best_of", BOTH, false, "1"},
    {"suffix", COMPLETIONS, false, "\"\""},
    {"use_beam_search", BOTH, false, "false"},
    {"length_penalty", BOTH, false, "1"},
    {"num_beams", BOTH, false, "1"},
    {"early_stopping", BOTH, false, "false"},
    {"no_repeat_ngram_size", BOTH, false, "0"},
    {"typical_p", BOTH, false, "1"},
    {"epsilon_cutoff", BOTH, false, "0"},
    {"eta_cutoff", BOTH, false, "0"},
    {"logits_processors", BOTH, false, "[]"},
    {"bad_words", BOTH, false, "[]"},
    {"prompt_logprobs", BOTH, false, "null"},
    {"prompt_embeds", COMPLETIONS, false, "null"},
    {"truncate_prompt_tokens", BOTH, false, "null"},
    {"continue_final_message", CHAT, false, "false"},
    {"chat_template", CHAT, false, "null"},
    {"echo", CHAT, false, "false"},
    {"thinking_token_budget", BOTH, false, "null"},
    {"spaces_between_special_tokens", BOTH, false, "true"},
    {"return_token_ids", BOTH, false, "false"},
    {"return_tokens_as_token_ids", BOTH, false, "false"},
    {"kv_transfer_params", BOTH, false, "null"},
    {"mm_processor_kwargs", CHAT, false, "null"},
};

const json_t *oai_member(const json_t *object, const char *name)
{
	const json_t *v = json_object_get(object, name);
	return v != NULL && !json_is_null(v) ? v : NULL;
}

nh_status oai_expected(oai_error *e, const char *param, const json_t *found, const char *expected)
{
	char brief[64];
	jsn_brief(found, brief);
	return oai_bad(e, param, "is %s, expected %s", brief, expected);
}

nh_status oai_real(const json_t *object, const char *name, double lo, double hi, double *out, oai_error *e)
{
	const json_t *v = oai_member(object, name);
	if (v == NULL) return NH_OK;
	double d = json_number_value(v);
	if (!json_is_number(v) || !(d >= lo && d <= hi)) {
		char expected[80];
		snprintf(expected, sizeof expected, "a number from %g to %g", lo, hi);
		return oai_expected(e, name, v, expected);
	}
	*out = d;
	return NH_OK;
}

/* Whether v is a whole number; its value. */
static bool whole(const json_t *v, int64_t *out)
{
	if (json_is_integer(v)) {
		*out = (int64_t)json_integer_value(v);
		return true;
	}
	double d = json_real_value(v);
	if (!json_is_real(v) || d != floor(d) || fabs(d) > 9e15) return false;
	*out = (int64_t)d;
	return true;
}

nh_status oai_int(const json_t *object, const char *name, int64_t lo, int64_t hi, int64_t *out, oai_error *e)
{
	const json_t *v = oai_member(object, name);
	int64_t i;
	if (v == NULL) return NH_OK;
	if (!whole(v, &i) || i < lo || i > hi) {
		char expected[96];
		if (hi == INT64_MAX && lo == INT64_MIN) snprintf(expected, sizeof expected, "a whole number");
		else if (hi >= INT32_MAX) snprintf(expected, sizeof expected, "a whole number, %" PRId64 " or more", lo);
		else snprintf(expected, sizeof expected, "a whole number from %" PRId64 " to %" PRId64, lo, hi);
		return oai_expected(e, name, v, expected);
	}
	*out = i;
	return NH_OK;
}

nh_status oai_bool(const json_t *object, const char *name, bool *out, oai_error *e)
{
	const json_t *v = oai_member(object, name);
	if (v == NULL) return NH_OK;
	if (!json_is_boolean(v)) return oai_expected(e, name, v, "true or false");
	*out = json_is_true(v);
	return NH_OK;
}

bool oai_is_id(const json_t *v)
{
	int64_t i;
	return whole(v, &i) && i >= 0 && i <= INT32_MAX;
}

nh_status oai_ids(const json_t *object, const char *name, size_t limit, int32_t **ids, size_t *count, oai_error *e)
{
	const json_t *v = oai_member(object, name);
	*ids = NULL;
	*count = 0;
	if (v == NULL) return NH_OK;
	size_t n = json_array_size(v);
	if (!json_is_array(v)) return oai_expected(e, name, v, "a list of token ids");
	if (n > limit) return oai_bad(e, name, "has %zu ids, expected at most %zu", n, limit);
	for (size_t i = 0; i < n; i++) {
		char param[64];
		snprintf(param, sizeof param, "%s[%zu]", name, i);
		if (!oai_is_id(json_array_get(v, i))) return oai_expected(e, param, json_array_get(v, i), "a token id");
	}
	if (n == 0) return NH_OK;
	*ids = mem_array(n, sizeof **ids);
	if (*ids == NULL) return oai_nomem(e);
	for (size_t i = 0; i < n; i++) (*ids)[i] = (int32_t)json_number_value(json_array_get(v, i));
	*count = n;
	return NH_OK;
}

static bool same(const json_t *v, const char *neutral)
{
	json_t *n = json_loads(neutral, JSON_DECODE_ANY, NULL);
	bool equal = json_is_number(v) && json_is_number(n) ? json_number_value(v) == json_number_value(n) : json_equal(v, n);
	json_decref(n);
	return equal;
}

nh_status oai_check_unserved(const json_t *object, unsigned kind, oai_error *e)
{
	for (size_t i = 0; i < ARRAY_LEN(FIELDS); i++) {
		if (FIELDS[i].served || !(FIELDS[i].kinds & kind)) continue;
		const json_t *v = oai_member(object, FIELDS[i].name);
		if (v == NULL || same(v, FIELDS[i].neutral)) continue;
		char brief[64];
		jsn_brief(v, brief);
		return oai_refuse(e, FIELDS[i].name, "is %s, only %s is supported", brief, FIELDS[i].neutral);
	}
	return NH_OK;
}

bool oai_is_known(const char *name, unsigned kind)
{
	for (size_t i = 0; i < ARRAY_LEN(FIELDS); i++)
		if ((FIELDS[i].kinds & kind) && strcmp(FIELDS[i].name, name) == 0) return true;
	return false;
}
