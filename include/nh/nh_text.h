/* SPDX-License-Identifier: Apache-2.0
 * nh_text.h: text to token ids and back, and chat requests to prompts. Objects are immutable after open and may be shared by threads,
 * except nh_detok, which belongs to one.
 */
#ifndef NH_TEXT_H
#define NH_TEXT_H

#include "nh_model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nh_tokenizer nh_tokenizer;
typedef struct nh_template nh_template;
typedef struct nh_detok nh_detok;

/* Frees memory that a function of this library gave away (ids, text). NULL is fine. */
NH_API void nh_free(void *memory);

/* From a tokenizer.json or a model folder. */
NH_API nh_status nh_tokenizer_open(nh_tokenizer **out, const char *path, nh_error *error);
NH_API void nh_tokenizer_close(nh_tokenizer *tokenizer);
/* The model's own, borrowed: lives as long as the model. NULL where it has none; then nh_tokenize and requests with text say so. */
NH_API const nh_tokenizer *nh_model_tokenizer(const nh_model *model);

enum {
	NH_TOKENIZE_SPECIAL = 1, /* apply the post-processor (e.g. a leading BOS), as for raw prompts */
	NH_TOKENIZE_PLAIN = 2,   /* the texts of control tokens are ordinary text */
	NH_TOKENIZE_MARKED = 4   /* the text is of nh_template_render_marked: control tokens' texts are ordinary where it marks them */
};
/* *ids is fresh memory (nh_free), also when *count is 0. text need not be terminated. */
NH_API nh_status nh_tokenize(
    const nh_tokenizer *tokenizer, const char *text, size_t bytes, uint32_t flags, int32_t **ids, size_t *count, nh_error *error);
/* Whole-sequence decode into fresh, terminated memory; bytes may be NULL. */
NH_API nh_status nh_detokenize(
    const nh_tokenizer *tokenizer, const int32_t *ids, size_t count, bool skip_special, char **text, size_t *bytes, nh_error *error);
NH_API size_t nh_tokenizer_vocab(const nh_tokenizer *tokenizer);
/* The bytes of one token (not terminated); NULL for an unknown id. Lives as long as the tokeniser. */
NH_API const char *nh_token_piece(const nh_tokenizer *tokenizer, int32_t id, size_t *bytes);
NH_API int32_t nh_token_find(const nh_tokenizer *tokenizer, const char *text); /* -1: no such token */

/* Streaming: pieces of text that never end inside a character. Text lives until the next call on the object. */
NH_API nh_status nh_detok_open(nh_detok **out, const nh_tokenizer *tokenizer, bool skip_special, nh_error *error);
NH_API nh_status nh_detok_push(nh_detok *detok, int32_t id, const char **text, size_t *bytes, nh_error *error);
NH_API nh_status nh_detok_flush(nh_detok *detok, const char **text, size_t *bytes, nh_error *error);
NH_API void nh_detok_close(nh_detok *detok);

/* From a template file or a model folder (chat_template.jinja, else tokenizer_config.json; `name` picks one of several, NULL: default). */
NH_API nh_status nh_template_open(nh_template **out, const char *path, const char *name, nh_error *error);
NH_API void nh_template_close(nh_template *chat_template);
NH_API const nh_template *nh_model_template(const nh_model *model); /* NULL where the model has none */
enum {
	/* First bring what clients send into what templates expect, as servers do: tool-call arguments given as JSON text become objects, text parts become one
	 * string, and switches reach templates that read them from a variable chat_template_kwargs. Without it the request is rendered as it is, exactly as
	 * transformers' apply_chat_template does. */
	NH_TEMPLATE_ADAPT = 1
};
/* Renders a chat request, a JSON object with messages and optionally tools, chat_template_kwargs, add_generation_prompt (default true). *text is
 * fresh memory. now_seconds: Unix time that strftime_now sees. */
NH_API nh_status nh_template_render(const nh_template *chat_template, const char *request_json, size_t bytes, uint32_t flags,
    int64_t now_seconds, char **text, size_t *text_bytes, nh_error *error);
/* As nh_template_render, for nh_tokenize with NH_TOKENIZE_MARKED: the byte 0xFF, which no UTF-8 text holds, stands before each place where a message, a
 * tool or a document has the text of a control token of `tokenizer`, which then makes no control token. Without these bytes the text is nh_template_render's.
 * NH_ERR_UNSUPPORTED where the template cuts or compares such a text, so that marking it would change the prompt. */
NH_API nh_status nh_template_render_marked(const nh_template *chat_template, const nh_tokenizer *tokenizer, const char *request_json,
    size_t bytes, uint32_t flags, int64_t now_seconds, char **text, size_t *text_bytes, nh_error *error);

#ifdef __cplusplus
}
#endif
#endif
