/* SPDX-License-Identifier: Apache-2.0
 * helper_dialect.c: see the header.
 */
#include "helper_dialect.h"

#include <stdlib.h>
#include <string.h>

#include "base/base_json.h"
#include "base/base_mem.h"

json_t *json_of(const char *text)
{
	json_t *v;
	nh_error e = {0};
	char *copy = mem_strdup(text);
	for (char *p = copy; *p != '\0'; p++)
		if (*p == '\'') *p = '"';
	if (jsn_load_text(&v, copy, strlen(copy), "test", &e) != NH_OK) fail_msg("%s: %s", copy, e.text);
	mem_free(copy);
	return v;
}

void json_is(json_t *found, const char *expected)
{
	json_t *want = json_of(expected);
	assert_non_null(found);
	if (!json_equal(found, want)) {
		char *text = json_dumps(found, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));
		fail_msg("found %s, expected %s", text, expected);
	}
	json_decref(want);
	json_decref(found);
}

oai_request *request_of(oai_kind kind, const char *body)
{
	const nh_sampling_defaults none = {.do_sample = -1, .top_k = -1, .temperature = -1, .top_p = -1, .min_p = -1, .repetition_penalty = -1};
	oai_error e = {0};
	oai_request *r = NULL;
	json_t *v = json_of(body);
	if (oai_request_parse(&r, kind, v, &none, &e) != NH_OK) fail_msg("%s: %s", body, e.message);
	json_decref(v);
	return r;
}

static nh_tokenizer *tokenizer;
static nh_template *chat;

const nh_tokenizer *tiny_tokenizer(void)
{
	nh_error e = {0};
	if (tokenizer == NULL && nh_tokenizer_open(&tokenizer, NH_SOURCE_DIR "/models/tiny", &e) != NH_OK) fail_msg("%s", e.text);
	return tokenizer;
}

const nh_template *tiny_template(void)
{
	nh_error e = {0};
	if (chat == NULL && nh_template_open(&chat, NH_SOURCE_DIR "/models/tiny", NULL, &e) != NH_OK) fail_msg("%s", e.text);
	return chat;
}

int tiny_close(void **state)
{
	(void)state;
	nh_tokenizer_close(tokenizer);
	nh_template_close(chat);
	tokenizer = NULL;
	chat = NULL;
	return mem_live() == 0 ? 0 : -1;
}
