/* SPDX-License-Identifier: Apache-2.0
 * oai_batch.c: see the header. Breaks first: members beside the four are ignored, as OpenAI does; the body is checked elsewhere.
 */
#include "dialect/oai_batch.h"

#include <string.h>

#include "base/base_json.h"
#include "dialect/oai_fields.h"

static nh_status parse(oai_batch_line *l, oai_error *e)
{
	static const char urls[] = "\"/v1/chat/completions\" or \"/v1/completions\"";
	const json_t *id = json_object_get(l->root, "custom_id"), *method = oai_member(l->root, "method");
	const char *url = json_string_value(json_object_get(l->root, "url"));
	if (!json_is_object(l->root)) return oai_expected(e, NULL, l->root, "a JSON object with custom_id, method, url and body");
	if (json_string_length(id) == 0 || strlen(json_string_value(id)) != json_string_length(id))
		return oai_expected(e, "custom_id", id, "a string that is not empty");
	l->custom_id = json_string_value(id);
	if (method != NULL && (!json_is_string(method) || strcmp(json_string_value(method), "POST") != 0))
		return oai_expected(e, "method", method, "\"POST\"");
	if (url == NULL) return oai_expected(e, "url", json_object_get(l->root, "url"), urls);
	if (strcmp(url, "/v1/chat/completions") == 0) l->kind = OAI_CHAT;
	else if (strcmp(url, "/v1/completions") == 0) l->kind = OAI_COMPLETIONS;
	else return oai_refuse(e, "url", "is \"%.60s\", only %s are supported", url, urls);
	l->body = json_object_get(l->root, "body");
	if (!json_is_object(l->body)) return oai_expected(e, "body", l->body, "a JSON object");
	return NH_OK;
}

nh_status oai_batch_parse(oai_batch_line *out, const char *text, size_t len, oai_error *e)
{
	nh_error error = {0};
	*out = (oai_batch_line){0};
	if (len > OAI_BATCH_LINE_MAX) return oai_bad(e, NULL, "the line has %zu bytes, expected at most %zu", len, OAI_BATCH_LINE_MAX);
	nh_status s = jsn_load_text(&out->root, text, len, "request", &error);
	return s == NH_OK ? parse(out, e) : oai_error_from(e, s, &error, NULL);
}

void oai_batch_free(oai_batch_line *l)
{
	json_decref(l->root);
	*l = (oai_batch_line){0};
}

json_t *oai_batch_answer(const char *id, const char *custom_id, int status_code, const char *request_id, json_t *body)
{
	if (body == NULL) return NULL;
	return json_pack("{s:s, s:s?, s:{s:i, s:s, s:o}, s:n}", "id", id, "custom_id", custom_id, "response", "status_code", status_code,
	    "request_id", request_id, "body", body, "error");
}
