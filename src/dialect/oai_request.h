/* SPDX-License-Identifier: Apache-2.0
 * oai_request.h: the body of POST /v1/chat/completions and /v1/completions, checked, as what the engine is to do. OpenAI's names, and vLLM's
 * additions. Refused by name: what is out of bounds, and what would change the answer but is not served. Accepted: all else; what
 * nobody knows is listed. Knows nothing of HTTP, files or the engine. The invariant that breaks first: pointers in `options` live as long as the
 * request.
 */
#ifndef OAI_REQUEST_H
#define OAI_REQUEST_H

#include "base/base_buf.h"
#include "dialect/oai_error.h"
#include "nh/nh.h"

#define OAI_STOPS_MAX 16
#define OAI_CHOICES_MAX 128  /* n */
#define OAI_PROMPTS_MAX 1024 /* in one request */
#define OAI_ANSWERS_MAX 4096 /* prompts times n */
#define OAI_LOGPROBS_MAX 64  /* alternatives a token */
#define OAI_IDS_MAX 4096     /* stop_token_ids, logit_bias */

typedef enum oai_kind { OAI_CHAT, OAI_COMPLETIONS } oai_kind;

typedef struct oai_request {
	oai_kind kind;
	json_t *body;         /* own reference */
	const char *model;    /* as asked; NULL: not said; borrow of body */
	const json_t *prompt; /* completions; borrow */
	size_t prompts;       /* chat: 1 */
	int32_t n;            /* choices a prompt; choice index = prompt * n + choice */
	bool stream, stream_usage;
	bool seeded; /* else the caller sets options.seed */
	bool echo;
	bool include_reasoning;
	bool add_special;   /* the tokeniser's post-processor applies to text prompts */
	bool allow_control; /* for the caller to set: a control token's text in a message is that token, as in vLLM */
	bool no_thinking;   /* reasoning_effort none, where chat_template_kwargs say nothing */
	int32_t logprobs;   /* -1: none; else alternatives a token */
	/* All of it but prompt, prompt_tokens and starts_in_reasoning. */
	nh_request_options options;
	const char **stop;          /* own array, borrows of body */
	int32_t *end_ids, *allowed; /* own */
	nh_bias *bias;              /* own */
	buf ignored;                /* own; members that nobody knows, "a, b"; empty: none */
} oai_request;

/* `defaults` fill what the request does not say, as vLLM does with generation_config.json; where they say nothing either, temperature is 1. On failure *out
 * is NULL and *e says why. Keeps a reference to body, which must not change. Any thread. */
nh_status oai_request_parse(oai_request **out, oai_kind kind, json_t *body, const nh_sampling_defaults *defaults, oai_error *e);
void oai_request_free(oai_request *r); /* NULL is fine */

/* One prompt of a request as the engine takes it. */
typedef struct oai_prompt {
	int32_t *ids; /* own (nh_free) */
	size_t count;
	bool in_reasoning; /* the template has opened a thought */
} oai_prompt;

/* Chat: renders (through `chat`, which may be NULL: an error) and tokenises; completions: prompt `index`. now_seconds is what the template's clock shows. Free
 * with oai_prompt_free. Any thread. */
nh_status oai_prompt_make(const oai_request *r, size_t index, const nh_tokenizer *tokenizer, const nh_template *chat, int64_t now_seconds,
    oai_prompt *out, oai_error *e);
void oai_prompt_free(oai_prompt *p); /* safe on a zeroed one */

#endif
