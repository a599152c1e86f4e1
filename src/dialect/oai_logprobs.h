/* SPDX-License-Identifier: Apache-2.0
 * oai_logprobs.h: log-probabilities in OpenAI's two forms: a list of objects (chat), four parallel lists (completions). Internal to the
 * room. A token that is no whole UTF-8 text is written as "bytes:\xe2\x80", so that different tokens have different names.
 * Knows nothing of choices. The invariant that breaks first: -inf is no JSON; it is told as -9999, as vLLM does.
 */
#ifndef OAI_LOGPROBS_H
#define OAI_LOGPROBS_H

#include <jansson.h>

#include "base/base_buf.h"
#include "nh/nh.h"

typedef struct oai_logprobs {
	bool chat;
	int32_t alternatives;                    /* told of each token */
	json_t *content;                         /* own; chat */
	json_t *tokens, *values, *top, *offsets; /* own; completions */
	int64_t offset;                          /* characters of the tokens so far */
} oai_logprobs;

bool oai_logprobs_init(oai_logprobs *l, bool chat, int32_t alternatives); /* false when out of memory */
void oai_logprobs_deinit(oai_logprobs *l);                                /* safe on a zeroed one */
/* Adds the token of a TOKEN or PROMPT event; the first token of a sequence has no probability. False when out of memory. */
bool oai_logprobs_add(oai_logprobs *l, const nh_tokenizer *tokenizer, const nh_event *event);
/* The member "logprobs" of a choice; NULL when out of memory. */
json_t *oai_logprobs_take(oai_logprobs *l);

/* The name of a token in replies, appended to *out. */
void oai_token_name(const nh_tokenizer *tokenizer, int32_t id, buf *out);

#endif
