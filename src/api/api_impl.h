/* SPDX-License-Identifier: Apache-2.0
 * api_impl.h: what stands behind the opaque types of include/nh, and how structs that carry their size cross the border. Internal to the
 * room. The invariant that breaks first: never read or write a struct of the caller's past the size that it declares.
 */
#ifndef API_API_IMPL_H
#define API_API_IMPL_H

#include <pthread.h>

#include "base/base_file.h"
#include "chat/chat_mark.h"
#include "chat/template_find.h"
#include "engine/open.h"
#include "nh/nh.h"
#include "text/detok.h"
#include "text/tok.h"

struct nh_tokenizer {
	tokenizer *tok; /* own */
};

/* A model's own template that can not be used is an error when it is rendered, not when the model is opened. */
struct nh_template {
	chat_template *plain; /* own; NULL: `error` says why */
	chat_template *tools; /* own; for requests with tools; NULL: plain serves them too */
	chat_tokens special;  /* own */
	nh_error error;
};

struct nh_detok {
	detok d;
	buf text; /* own */
};

struct nh_model {
	engine_model *m;      /* own */
	nh_tokenizer *tok;    /* own; NULL: the folder has none */
	nh_template *chat;    /* own; NULL: the folder has none */
	file_list files;      /* own */
	pthread_mutex_t lock; /* identity */
	char identity[65];    /* "" until asked for */
};

struct nh_engine {
	engine *g;             /* own */
	const nh_model *model; /* borrow */
};

struct nh_request {
	engine_request *r;       /* own reference */
	const nh_engine *engine; /* borrow */
};

struct nh_session {
	engine_session *s;       /* own */
	const nh_engine *engine; /* borrow */
};

/* Reads a struct of `size` bytes as its first member says into the `full` bytes of ours; what the caller's lacks is zero. NULL leaves *to as
 * it is. NH_ERR_ARG: a size that can not be; NH_ERR_UNSUPPORTED: a longer struct with something set in the part that is unknown here. */
nh_status api_in(void *to, size_t full, const void *from, const char *what, nh_error *e);
/* Writes at most `size` bytes of ours to the caller's and sets its size member. */
void api_out(void *to, size_t size, void *from, size_t full);
/* For _init functions: zeroes `size` bytes, then as api_out. */
void api_init(void *to, size_t size, void *from, size_t full);

/* A model's template: of the file at `path`, else the folder's own: then *out is NULL where it has none, and one that can not be used is kept
 * with its error. Special tokens are the folder's. */
nh_status api_template_of_model(nh_template **out, const char *folder, const char *path, nh_error *e);

/* Text hooks of a request; owns copies of the stop strings. Moves *out to the engine. */
nh_status api_filter_open(engine_hooks *out, const tokenizer *tok, const nh_request_options *o, nh_error *e);

#endif
