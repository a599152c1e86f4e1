/* SPDX-License-Identifier: Apache-2.0
 * api_text.c: tokenisers and streaming text of nh_text.h.
 */
#include <string.h>

#include "api/api_impl.h"
#include "base/base_file.h"
#include "base/base_mem.h"

void nh_free(void *memory) { mem_free(memory); }

nh_status nh_tokenizer_open(nh_tokenizer **out, const char *path, nh_error *e)
{
	*out = NULL;
	nh_tokenizer *t = mem_alloc(sizeof *t);
	char *file = file_is_dir(path) ? path_join(path, "tokenizer.json") : mem_strdup(path);
	nh_status s = t && file ? tok_open(&t->tok, file, e) : ERR_NOMEM(e);
	mem_free(file);
	if (s == NH_OK) *out = t;
	else mem_free(t);
	return s;
}

void nh_tokenizer_close(nh_tokenizer *t)
{
	if (!t) return;
	tok_close(t->tok);
	mem_free(t);
}

const nh_tokenizer *nh_model_tokenizer(const nh_model *m) { return m->tok; }

nh_status nh_tokenize(const nh_tokenizer *t, const char *text, size_t bytes, uint32_t flags, int32_t **ids, size_t *count, nh_error *e)
{
	tok_ids v = {0};
	*ids = NULL;
	*count = 0;
	if (!t) return ERR(e, NH_ERR_NOTFOUND, "the model has no tokenizer.json");
	if (flags & ~(uint32_t)(NH_TOKENIZE_SPECIAL | NH_TOKENIZE_PLAIN | NH_TOKENIZE_MARKED))
		return ERR(e, NH_ERR_ARG, "flags: 0x%x has unknown bits", flags);
	unsigned how = (flags & NH_TOKENIZE_SPECIAL ? TOK_ADD_SPECIAL : 0) | (flags & NH_TOKENIZE_PLAIN ? TOK_PLAIN_SPECIAL : 0) |
	               (flags & NH_TOKENIZE_MARKED ? TOK_MARKED : 0);
	nh_status s = tok_encode(t->tok, bytes ? text : "", bytes, how, &v, e);
	if (s == NH_OK && !v.ids && !(v.ids = mem_alloc(sizeof *v.ids))) s = ERR_NOMEM(e);
	if (s != NH_OK) {
		tok_ids_deinit(&v);
		return s;
	}
	*ids = v.ids;
	*count = v.count;
	return NH_OK;
}

nh_status nh_detokenize(const nh_tokenizer *t, const int32_t *ids, size_t count, bool skip_special, char **text, size_t *bytes, nh_error *e)
{
	detok d;
	buf b = {0};
	*text = NULL;
	if (bytes) *bytes = 0;
	if (!t) return ERR(e, NH_ERR_NOTFOUND, "the model has no tokenizer.json");
	detok_init(&d, t->tok, skip_special);
	nh_status s = NH_OK;
	for (size_t i = 0; i < count && s == NH_OK; i++) {
		s = detok_push(&d, ids[i], &b);
		if (s == NH_ERR_ARG) ERR(e, s, "ids: number %zu is %d, expected 0 or more", i, ids[i]);
		else if (s != NH_OK) ERR_NOMEM(e);
	}
	if (s == NH_OK && (s = detok_flush(&d, &b)) != NH_OK) ERR_NOMEM(e);
	if (s == NH_OK) {
		if (bytes) *bytes = b.len;
		*text = buf_take(&b);
		if (!*text) s = ERR_NOMEM(e);
	}
	buf_deinit(&b);
	return s;
}

size_t nh_tokenizer_vocab(const nh_tokenizer *t) { return tok_vocab(t->tok); }

const char *nh_token_piece(const nh_tokenizer *t, int32_t id, size_t *bytes)
{
	size_t n = 0;
	const char *p = tok_piece(t->tok, id, &n);
	if (bytes) *bytes = n;
	return p;
}

int32_t nh_token_find(const nh_tokenizer *t, const char *text) { return tok_find(t->tok, text, strlen(text)); }

nh_status nh_detok_open(nh_detok **out, const nh_tokenizer *t, bool skip_special, nh_error *e)
{
	*out = NULL;
	if (!t) return ERR(e, NH_ERR_NOTFOUND, "the model has no tokenizer.json");
	nh_detok *d = mem_alloc(sizeof *d);
	if (!d) return ERR_NOMEM(e);
	detok_init(&d->d, t->tok, skip_special);
	*out = d;
	return NH_OK;
}

static nh_status give(nh_detok *d, nh_status s, const char **text, size_t *bytes, nh_error *e)
{
	*text = d->text.data ? d->text.data : "";
	*bytes = s == NH_OK ? d->text.len : 0;
	if (s == NH_ERR_ARG) return ERR(e, s, "id: is negative, expected 0 or more");
	return s == NH_OK ? NH_OK : ERR_NOMEM(e);
}

nh_status nh_detok_push(nh_detok *d, int32_t id, const char **text, size_t *bytes, nh_error *e)
{
	d->text.len = 0;
	if (d->text.data) d->text.data[0] = 0;
	return give(d, detok_push(&d->d, id, &d->text), text, bytes, e);
}

nh_status nh_detok_flush(nh_detok *d, const char **text, size_t *bytes, nh_error *e)
{
	d->text.len = 0;
	if (d->text.data) d->text.data[0] = 0;
	return give(d, detok_flush(&d->d, &d->text), text, bytes, e);
}

void nh_detok_close(nh_detok *d)
{
	if (!d) return;
	buf_deinit(&d->text);
	mem_free(d);
}
