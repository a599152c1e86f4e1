/* SPDX-License-Identifier: Apache-2.0
 * api_filter.c: from token ids to the two texts of an event, on the engine's thread: bytes to whole characters, thought from answer, and
 * stop strings in the answer. Each is a push filter that holds back only what is not certain.
 * The invariant that breaks first: all text of all events together is the text of all tokens, cut at the stop string.
 */
#include <string.h>

#include "api/api_impl.h"
#include "base/base_mem.h"
#include "chat/reasoning.h"
#include "chat/stop.h"

#define THINK "<think>"
#define THINK_END "</think>"

typedef struct filter {
	const tokenizer *tok; /* borrow */
	detok detok;
	reasoning_split split;
	stop_filter stop;
	buf raw, reasoning, content; /* own; of the running call */
	int32_t open_id, close_id;   /* of the tags as tokens; -1 */
	bool splits;
	nh_status status; /* of the running call, from inside the callback */
} filter;

static void sort(void *user, reasoning_kind kind, const char *text, size_t len)
{
	filter *f = user;
	if (kind == REASONING_THOUGHT) buf_append(&f->reasoning, text, len);
	else if (f->status == NH_OK) f->status = stop_push(&f->stop, text, len, &f->content, NULL);
}

static void begin(filter *f)
{
	f->raw.len = f->reasoning.len = f->content.len = 0;
	f->status = NH_OK;
}

static nh_status end(filter *f, engine_text *out, nh_error *e)
{
	if (f->status != NH_OK || f->raw.failed || f->reasoning.failed || f->content.failed) return ERR_NOMEM(e);
	*out = (engine_text){.reasoning = f->reasoning.data,
	    .reasoning_bytes = f->reasoning.len,
	    .content = f->content.data,
	    .content_bytes = f->content.len,
	    .stopped = f->stop.found >= 0,
	    .stop_index = f->stop.found};
	return NH_OK;
}

static nh_status pass_on(filter *f, nh_error *e)
{
	if (f->raw.len == 0) return NH_OK;
	if (f->splits) return reasoning_push(&f->split, f->raw.data, f->raw.len, e);
	return stop_push(&f->stop, f->raw.data, f->raw.len, &f->content, e);
}

/* Inside a thought, as far as it is known. */
static bool inside(const filter *f)
{
	return f->splits && f->split.state != REASONING_MAY_OPEN && f->split.state != REASONING_CLOSED && f->split.state != REASONING_AFTER;
}

/* The tags count even where they are control tokens that make no text. */
static nh_status decode(filter *f, int32_t id)
{
	if (!f->splits || !f->detok.skip_special || (id != f->open_id && id != f->close_id) || !tok_is_special(f->tok, id))
		return detok_push(&f->detok, id, &f->raw);
	nh_status s = detok_flush(&f->detok, &f->raw);
	buf_str(&f->raw, id == f->open_id ? THINK : THINK_END);
	return s;
}

static nh_status push(void *self, int32_t id, engine_text *out, nh_error *e)
{
	filter *f = self;
	begin(f);
	bool before = inside(f);
	if (decode(f, id) != NH_OK) return ERR_NOMEM(e);
	TRY(pass_on(f, e));
	TRY(end(f, out, e));
	out->in_reasoning = before || inside(f);
	return NH_OK;
}

static nh_status finish(void *self, engine_text *out, nh_error *e)
{
	filter *f = self;
	begin(f);
	if (f->stop.found < 0) {
		if (detok_flush(&f->detok, &f->raw) != NH_OK) return ERR_NOMEM(e);
		TRY(pass_on(f, e));
		if (f->splits) TRY(reasoning_finish(&f->split, e));
		if (f->status == NH_OK) f->status = stop_finish(&f->stop, &f->content, e);
	}
	return end(f, out, e);
}

static void close_filter(void *self)
{
	filter *f = self;
	reasoning_deinit(&f->split);
	stop_deinit(&f->stop);
	buf_deinit(&f->raw);
	buf_deinit(&f->reasoning);
	buf_deinit(&f->content);
	mem_free(f);
}

nh_status api_filter_open(engine_hooks *out, const tokenizer *tok, const nh_request_options *o, nh_error *e)
{
	filter *f = mem_alloc(sizeof *f);
	if (!f) return ERR_NOMEM(e);
	f->tok = tok;
	detok_init(&f->detok, tok, o->skip_special);
	f->splits = o->split_reasoning;
	if (f->splits) reasoning_init(&f->split, o->starts_in_reasoning, THINK, THINK_END, sort, f);
	f->open_id = tok_find(tok, THINK, strlen(THINK));
	f->close_id = tok_find(tok, THINK_END, strlen(THINK_END));
	nh_status s = o->stop_count && !o->stop ? ERR(e, NH_ERR_ARG, "stop: NULL with a count of %zu", o->stop_count)
	                                        : stop_init(&f->stop, o->stop, o->stop_count, o->include_stop, e);
	if (s != NH_OK) {
		close_filter(f);
		return s;
	}
	*out = (engine_hooks){.self = f, .push = push, .finish = finish, .close = close_filter};
	return NH_OK;
}
