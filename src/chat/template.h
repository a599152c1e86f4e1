/* SPDX-License-Identifier: Apache-2.0
 * template.h: chat templates: a subset of Jinja, rendered as transformers' apply_chat_template renders them (its sandboxed
 * environment: trim_blocks, lstrip_blocks, loop controls, its own tojson). What is outside the subset is refused by name and line,
 * at open or when it is reached, and never rendered differently. A template can reach nothing but its variables.
 * Knows nothing of requests, files or tokens. What breaks first: a template that needs a filter or method that is not here.
 */
#ifndef CHAT_TEMPLATE_H
#define CHAT_TEMPLATE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base_buf.h"
#include "base/base_status.h"

typedef struct chat_template chat_template;

/* Limits of one render; a field of 0 means its default. */
typedef struct template_limits {
	size_t output_bytes; /* 64 MiB */
	size_t memory_bytes; /* 512 MiB, of values made while rendering */
	uint64_t steps;      /* 50,000,000: about one per node run, item visited or 64 bytes copied */
	int depth;           /* 400 levels of calls, expressions and nested data */
	int64_t now_seconds; /* Unix time that strftime_now shows, as UTC */
	bool has_now;        /* without it strftime_now is an error: the interpreter never looks at a clock */
} template_limits;

/* Parses `text` (UTF-8, len bytes; copied). `name` is what errors call it. NH_ERR_TEMPLATE: "<name>: line N: what"; NH_ERR_LIMIT, NH_ERR_NOMEM.
 * *out is NULL on failure. */
nh_status template_open(chat_template **out, const char *text, size_t len, const char *name, nh_error *e);
void template_close(chat_template *t); /* NULL is fine */

/* Renders with the members of the object `vars` (borrowed, unchanged) as variables; limits NULL = defaults. Appends to *out, which is
 * unchanged on failure. NH_ERR_TEMPLATE: the template failed; what it passed to raise_exception is in the text. One template may be
 * rendered by several threads at once. */
nh_status template_render(const chat_template *t, const json_t *vars, const template_limits *limits, buf *out, nh_error *e);

/* Whether a variable of this name is read anywhere in the template. */
bool template_reads(const chat_template *t, const char *variable);

/* Whether a for loop walks over something called `name`: x.name, x['name'], or a variable of that name. */
bool template_walks(const chat_template *t, const char *name);

#endif
