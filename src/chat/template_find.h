/* SPDX-License-Identifier: Apache-2.0
 * template_find.h: where a model folder keeps its chat template and its special tokens. Reads chat_template.jinja,
 * additional_chat_templates/ and tokenizer_config.json, and nothing else. Knows nothing of what a template means.
 */
#ifndef CHAT_TEMPLATE_FIND_H
#define CHAT_TEMPLATE_FIND_H

#include "chat/chat_request.h"

/* A template's text and where it came from, e.g. "dir/chat_template.jinja" or "dir/tokenizer_config.json: chat_template[tool_use]". */
typedef struct template_source {
	char *text; /* own; len bytes and a terminator */
	size_t len;
	char *origin; /* own */
} template_source;

/* The template of a model folder. `which` names one of several (NULL: "tool_use" when has_tools and there is one, else "default").
 * chat_template.jinja is "default" and wins over tokenizer_config.json; others lie in additional_chat_templates/<which>.jinja.
 * NH_ERR_NOTFOUND when there is none (the text names --chat-template), or none called `which` (the text lists those there are);
 * NH_ERR_CONFIG when tokenizer_config.json's chat_template has another shape. Zeroes *out on failure. */
nh_status template_find(template_source *out, const char *folder, const char *which, bool has_tools, nh_error *e);
void template_source_free(template_source *s); /* safe on a zeroed one */

/* The special tokens of tokenizer_config.json, each a string or an object with `content`. No such file, or a token that is absent
 * or null: NULL. Free with chat_tokens_free. */
nh_status chat_tokens_load(chat_tokens *out, const char *folder, nh_error *e);
void chat_tokens_free(chat_tokens *t); /* only of tokens from chat_tokens_load; safe on zeroed ones */

#endif
