/* SPDX-License-Identifier: Apache-2.0
 * helper_dialect.h: JSON with single quotes for tests, and the built-in model's tokeniser and template.
 */
#ifndef HELPER_DIALECT_H
#define HELPER_DIALECT_H

#include "test.h"

#include "dialect/oai_reply.h"
#include "dialect/oai_request.h"

/* 'a' is "a". Fails the test on bad JSON. */
json_t *json_of(const char *text);
/* Compares with JSON of single quotes; takes the reference. */
void json_is(json_t *found, const char *expected);
/* Parses a body that must be right, with defaults that say nothing. */
oai_request *request_of(oai_kind kind, const char *body);

const nh_tokenizer *tiny_tokenizer(void);
const nh_template *tiny_template(void);
int tiny_close(void **state); /* group teardown */

#endif
