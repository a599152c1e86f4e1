/* SPDX-License-Identifier: Apache-2.0
 * oai_error.c: the texts and statuses of refusals. Breaks first: a text that came from the request is made printable before it is told.
 */
#include "dialect/oai_error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A cut may fall into a character; err_clean makes its bytes '?'. */
static void fill(oai_error *e, int status, const char *code, const char *param, const char *format, va_list list)
{
	*e = (oai_error){.status = status, .type = status < 500 ? "invalid_request_error" : "server_error", .code = code};
	snprintf(e->param, sizeof e->param, "%s", param != NULL ? param : "");
	err_clean(e->param);
	size_t n = 0;
	if (e->param[0] != '\0') n = (size_t)snprintf(e->message, sizeof e->message, "%s: ", e->param);
	vsnprintf(e->message + n, sizeof e->message - n, format, list);
	err_clean(e->message);
}

nh_status oai_bad(oai_error *e, const char *param, const char *format, ...)
{
	va_list list;
	va_start(list, format);
	fill(e, 400, NULL, param, format, list);
	va_end(list);
	return NH_ERR_ARG;
}

nh_status oai_refuse(oai_error *e, const char *param, const char *format, ...)
{
	va_list list;
	va_start(list, format);
	fill(e, 400, "unsupported_value", param, format, list);
	va_end(list);
	return NH_ERR_UNSUPPORTED;
}

static void tell(oai_error *e, int status, const char *code, const char *param, const char *format, ...) BASE_PRINTF(5, 6);
static void tell(oai_error *e, int status, const char *code, const char *param, const char *format, ...)
{
	va_list list;
	va_start(list, format);
	fill(e, status, code, param, format, list);
	va_end(list);
}

nh_status oai_nomem(oai_error *e)
{
	tell(e, 500, NULL, NULL, "out of memory");
	return NH_ERR_NOMEM;
}

static int http_status(nh_status status)
{
	switch (status) {
	case NH_ERR_ARG:
	case NH_ERR_FORMAT:
	case NH_ERR_CONFIG:
	case NH_ERR_UNSUPPORTED:
	case NH_ERR_LIMIT:
	case NH_ERR_TEMPLATE: return 400;
	default: return 500;
	}
}

nh_status oai_error_from(oai_error *e, nh_status status, const nh_error *error, const char *param)
{
	const char *text = error != NULL && error->text[0] != '\0' ? error->text : nh_status_message(status);
	int http = http_status(status);
	const char *code = http == 400 && status == NH_ERR_UNSUPPORTED ? "unsupported_value" : NULL;
	tell(e, http, code, http == 400 ? param : NULL, "%s", text);
	return status;
}

nh_status oai_error_from_submit(oai_error *e, nh_status status, const nh_error *error, const char *prompt)
{
	static const char *const names[][2] = {{"end_ids", "stop_token_ids"}, {"bias", "logit_bias"}, {"allowed_ids", "allowed_token_ids"},
	    {"choices", "n"}, {"min_tokens", "min_tokens"}, {"max_tokens", "max_tokens"}, {"stop", "stop"}};
	const char *param = prompt, *text = error->text;
	size_t word = strcspn(text, ":");
	bool of_prompt = strncmp(text, "prompt:", 7) == 0;
	if (of_prompt) text += 7 + strspn(text + 7, " ");
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		if (strlen(names[i][0]) != word || memcmp(names[i][0], text, word) != 0) continue;
		param = names[i][1];
		text += word;
		text += strspn(text, ": ");
		break;
	}
	nh_error shown = {.code = error->code};
	snprintf(shown.text, sizeof shown.text, "%s", text);
	oai_error_from(e, status, &shown, param);
	if (of_prompt && status == NH_ERR_LIMIT) e->code = "context_length_exceeded";
	return status;
}

json_t *oai_error_body(const oai_error *e)
{
	return json_pack("{s:{s:s, s:s, s:s?, s:s?}}", "error", "message", e->message, "type", e->type, "param",
	    e->param[0] != '\0' ? e->param : NULL, "code", e->code);
}
