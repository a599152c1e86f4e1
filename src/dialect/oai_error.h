/* SPDX-License-Identifier: Apache-2.0
 * oai_error.h: a refusal in OpenAI's shape: {"error": {"message", "type", "param", "code"}} with an HTTP status. `param` names the member of
 * the request at fault, as a path ("messages[1].content"). Knows nothing of connections or files.
 * The invariant that breaks first: what a client did is 4xx, what failed here is 5xx.
 */
#ifndef OAI_ERROR_H
#define OAI_ERROR_H

#include <jansson.h>

#include "base/base_status.h"

typedef struct oai_error {
	int status;         /* HTTP; 0: nothing was told yet */
	const char *type;   /* "invalid_request_error", "server_error"; static */
	const char *code;   /* "unsupported_value", "context_length_exceeded", ...; NULL: null; static */
	char param[160];    /* "": null */
	char message[1024]; /* one line, printable */
} oai_error;

/* 400: `param` (NULL: none) is not as expected. The text is "<param>: <what format says>". Returns NH_ERR_ARG. */
nh_status oai_bad(oai_error *e, const char *param, const char *format, ...) BASE_PRINTF(3, 4);
/* 400 with code unsupported_value: valid for others, but not served here. Returns NH_ERR_UNSUPPORTED. */
nh_status oai_refuse(oai_error *e, const char *param, const char *format, ...) BASE_PRINTF(3, 4);
/* 500. Returns NH_ERR_NOMEM. */
nh_status oai_nomem(oai_error *e);
/* From a failure of the library, while it looked at `param` (NULL: none): mistakes in the request are 400, all else 500. Returns
 * its code. */
nh_status oai_error_from(oai_error *e, nh_status status, const nh_error *error, const char *param);
/* From a submit that failed. The engine's names of options become the request's; `prompt` is the member that the prompt came from. */
nh_status oai_error_from_submit(oai_error *e, nh_status status, const nh_error *error, const char *prompt);

/* The body of the reply; NULL when out of memory. The caller's to json_decref. */
json_t *oai_error_body(const oai_error *e);

#endif
