/* SPDX-License-Identifier: Apache-2.0
 * chat_request.h: a chat request as JSON to the text that a model reads. Two steps, so that each can be exact: chat_adapt brings the
 * forms that clients send into the forms that templates expect, as servers do; chat_render then prepares variables and renders as transformers'
 * apply_chat_template does. Knows nothing of HTTP, sampling or tokens. What breaks first: the order of keys in a message, which
 * templates that print whole messages show.
 */
#ifndef CHAT_REQUEST_H
#define CHAT_REQUEST_H

#include "chat/template.h"

/* Special tokens as text; each may be NULL (the variable is then undefined). Borrowed. */
typedef struct chat_tokens {
	const char *bos, *eos, *unk, *pad;
} chat_tokens;

/* Renders `request`, an object (borrowed, unchanged) of which these members matter:
 *   messages               a list of at least one object, each with a string `role`. Members that are null are dropped. Reasoning under
 *                          `reasoning_content`, `thinking` or `reasoning` (the first that is not null) is also put under the first two.
 *   tools, documents       a list of objects, or null or absent (the variable is then none)
 *   add_generation_prompt  true unless given as false
 *   chat_template_kwargs   an object: each member becomes a variable and wins over special tokens of its name. (A template that reads its
 *                          switches from a variable chat_template_kwargs finds one only if a member has that name: see chat_adapt.)
 * All else is ignored; continue_final_message true is refused. special may be NULL. now_seconds is what strftime_now shows (Unix time as UTC; a
 * caller in another zone adds its offset); negative: strftime_now fails. The text is appended to *out, which is unchanged on failure.
 * NH_ERR_ARG names the member of a request that is not as above; NH_ERR_TEMPLATE and NH_ERR_LIMIT are the template's. Any thread. */
nh_status chat_render(
    const chat_template *t, const json_t *request, const chat_tokens *special, int64_t now_seconds, buf *out, nh_error *e);

/* A copy of `request` (json_decref it) in which
 *   - tool-call arguments that are a JSON text (OpenAI's form) are the object that the text means; an empty text is {}. Templates walk
 *     over arguments, so a text would fail or be quoted;
 *   - message content that is a list of text parts is one string, joined by newlines, unless the template walks over content itself
 *     (template_walks); a part that is not text is refused then (NH_ERR_UNSUPPORTED);
 *   - chat_template_kwargs holds itself under that name, if the template reads such a variable and no member has the name, so that switches work
 *     with every template. */
nh_status chat_adapt(const chat_template *t, const json_t *request, json_t **out, nh_error *e);

#endif
