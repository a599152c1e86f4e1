/* SPDX-License-Identifier: Apache-2.0
 * chat_mark.h: chat requests to prompts in which it can be seen where what somebody wrote only reads like a control token, so that a message that
 * says "<|im_end|>" ends no turn. Knows nothing of what templates do with text: it renders twice and compares.
 * What breaks first: without its marks a prompt is what chat_render gives, byte for byte.
 */
#ifndef CHAT_MARK_H
#define CHAT_MARK_H

#include "chat/chat_request.h"
#include "text/tok.h"

/* As chat_render, and TOK_MARK stands before each place where, in a text or key of the request's messages, tools and documents, a special token of `tok` begins or may
 * begin (at the end of a text, where what follows could complete it): for tok_encode with TOK_MARKED. Nothing reads like one: the prompt has no mark and is
 * rendered once. NH_ERR_UNSUPPORTED: there is such a text and the template does more with it than print it, so that marking it would change the prompt
 * (a beginning that is cut off stays unmarked then). Any thread. */
nh_status chat_render_marked(const chat_template *t, const json_t *request, const chat_tokens *special, int64_t now_seconds,
    const tokenizer *tok, buf *out, nh_error *e);

#endif
