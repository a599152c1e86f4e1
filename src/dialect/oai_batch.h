/* SPDX-License-Identifier: Apache-2.0
 * oai_batch.h: the lines of OpenAI's batch files. In: {"custom_id", "method": "POST", "url", "body"}. Out: {"id", "custom_id", "response":
 * {"status_code", "request_id", "body"}, "error": null}; a refused request is a response of status 400 whose body holds the error.
 * Knows nothing of files. The invariant that breaks first: a bad line still tells its custom_id wherever it can be read.
 */
#ifndef OAI_BATCH_H
#define OAI_BATCH_H

#include "dialect/oai_request.h"

#define OAI_BATCH_LINE_MAX ((size_t)64 << 20)

typedef struct oai_batch_line {
	json_t *root;          /* own */
	const char *custom_id; /* borrow of root; NULL: it has none that can be used */
	oai_kind kind;
	json_t *body; /* borrow of root */
} oai_batch_line;

/* A line without its newline. Also after a failure the line is to be freed. Any thread. */
nh_status oai_batch_parse(oai_batch_line *out, const char *text, size_t len, oai_error *e);
void oai_batch_free(oai_batch_line *line); /* safe on a zeroed one */

/* The line that answers; takes the reference to body. NULL when out of memory. custom_id may be NULL. */
json_t *oai_batch_answer(const char *id, const char *custom_id, int status_code, const char *request_id, json_t *body);

#endif
