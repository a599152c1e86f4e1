/* SPDX-License-Identifier: Apache-2.0
 * oai_reply.h: from the engine's events to the JSON of a reply. Events of all choices of all prompts go in, in any mixture; each choice collects
 * its text, log-probabilities and end. A whole reply is what was collected, taken once at the end. Knows nothing of HTTP or files.
 * The invariant that breaks first: the text of a choice is all text of its events, DONE's included.
 */
#ifndef OAI_REPLY_H
#define OAI_REPLY_H

#include "dialect/oai_request.h"

typedef struct oai_reply oai_reply;

/* id ("chatcmpl-..."), model and the request are borrowed and must outlive the reply; model is what is echoed where the request names
 * none. created: Unix time. */
nh_status oai_reply_open(oai_reply **out, const oai_request *request, const char *id, int64_t created, const char *model,
    const nh_tokenizer *tokenizer, oai_error *e);
void oai_reply_close(oai_reply *r); /* NULL is fine */

/* Prompt `index` is being computed: with echo its text begins each of its answers. Before its first event. */
nh_status oai_reply_prompt(oai_reply *r, size_t index, const oai_prompt *prompt, oai_error *e);

/* An event of prompt `index`. An ERROR event is a failure of the request, which *e then tells; so is a cancelled one. */
nh_status oai_reply_event(oai_reply *r, size_t index, const nh_event *event, oai_error *e);

bool oai_reply_prompt_done(const oai_reply *r, size_t index); /* all choices of that prompt have ended */
bool oai_reply_done(const oai_reply *r);

typedef struct oai_usage {
	uint64_t prompt, cached, completion, reasoning; /* tokens */
} oai_usage;
oai_usage oai_reply_usage(const oai_reply *r);

/* The body; NULL when out of memory. Content of a chat is null where the thought used all tokens. The caller's to json_decref. Once. */
json_t *oai_reply_body(oai_reply *r);

#endif
