/* SPDX-License-Identifier: Apache-2.0
 * session.c: the state of an ended sequence, kept in host memory: taken, forked, saved and loaded. Touches no pool: a session is continued by
 * a request, whose admission copies it in.
 * The invariant that breaks first: a body never changes after it is made, so everybody may share it.
 */
#include "engine/session.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/base_mem.h"
#include "cache/seqfile.h"
#include "engine/engine_impl.h"

struct engine_session {
	engine *g; /* borrow */
	session_body *body;
};

const session_body *session_of(const engine_session *s) { return s->body; }
bool session_belongs(const engine_session *s, const engine *g) { return s->g == g; }

static nh_status hand_out(engine_session **out, engine *g, session_body *body, nh_error *e)
{
	*out = mem_alloc(sizeof **out);
	if (!*out) return ERR_NOMEM(e);
	atomic_fetch_add(&body->holders, 1);
	**out = (engine_session){.g = g, .body = body};
	return NH_OK;
}

static void drop(session_body *b)
{
	if (atomic_fetch_sub(&b->holders, 1) > 1) return;
	swap_free(b->state);
	mem_free(b->ids);
	mem_free(b);
}

/* Takes ids and state in every case. */
static nh_status wrap(engine_session **out, engine *g, int32_t *ids, swapped *state, const session_body *like, nh_error *e)
{
	session_body *b = mem_alloc(sizeof *b);
	*out = NULL;
	if (!b) {
		mem_free(ids);
		swap_free(state);
		return ERR_NOMEM(e);
	}
	b->state = state;
	b->ids = ids;
	b->tokens = like->tokens;
	b->computed = like->computed;
	b->generated = like->generated;
	b->created = like->created;
	atomic_init(&b->holders, 1);
	nh_status s = hand_out(out, g, b, e);
	drop(b);
	return s;
}

nh_status session_make(engine_session **out, engine *g, const int32_t *ids, int64_t tokens, int64_t generated, swapped *state, nh_error *e)
{
	const session_body like = {.tokens = tokens, .computed = swap_length(state), .generated = generated, .created = (int64_t)time(NULL)};
	int32_t *copy = mem_array((size_t)tokens, sizeof *copy);
	*out = NULL;
	if (!copy) {
		swap_free(state);
		return ERR_NOMEM(e);
	}
	memcpy(copy, ids, (size_t)tokens * sizeof *copy);
	return wrap(out, g, copy, state, &like, e);
}

nh_status engine_session_take(engine_request *r, engine_session **out, nh_error *e)
{
	pthread_mutex_lock(&r->lock);
	bool ended = request_ended(r);
	*out = ended ? r->kept : NULL;
	if (ended) r->kept = NULL;
	pthread_mutex_unlock(&r->lock);
	if (*out) return NH_OK;
	if (!r->spec.keep_session) return ERR(e, NH_ERR_STATE, "session: the request was submitted without keep_session");
	return ERR(
	    e, NH_ERR_STATE, ended ? "session: there is none: it was taken, or nothing was computed" : "session: the request has not ended");
}

nh_status engine_session_fork(const engine_session *s, engine_session **out, nh_error *e) { return hand_out(out, s->g, s->body, e); }

void engine_session_close(engine_session *s)
{
	if (!s) return;
	drop(s->body);
	mem_free(s);
}

static nh_status fill_head(engine *g, const session_body *b, seqfile_head *h, bool named, nh_error *e)
{
	const engine_parts *p = g->parts;
	*h = (seqfile_head){.version = SEQFILE_VERSION,
	    .tokens = b ? b->tokens : 0,
	    .computed = b ? b->computed : 0,
	    .generated = b ? b->generated : 0,
	    .segment = b ? b->computed : 0,
	    .created = b ? b->created : 0,
	    .content_bytes = b ? swap_bytes(b->state) : 0};
	snprintf(h->model, sizeof h->model, "%s", p->name ? p->name : "");
	snprintf(h->arm, sizeof h->arm, "%s", p->arm->name);
	snprintf(h->tier, sizeof h->tier, "%s", p->base->tier ? p->base->tier : p->base->arm);
	snprintf(h->numerics, sizeof h->numerics, "%s", p->x->num->name);
	snprintf(h->kv_dtype, sizeof h->kv_dtype, "%s", num_dtype_name(p->kv));
	char hex[65] = "";
	nh_status s = engine_identity(g, hex, e);
	memcpy(h->identity, hex, sizeof hex);
	return named ? s : NH_OK;
}

static void tell(const seqfile_head *h, engine_session_info *out)
{
	*out = (engine_session_info){.version = h->version,
	    .tokens = h->tokens,
	    .computed = h->computed,
	    .generated = h->generated,
	    .created = h->created,
	    .bytes = h->content_bytes};
	memcpy(out->identity, h->identity, sizeof out->identity);
	memcpy(out->model, h->model, sizeof out->model);
	memcpy(out->arm, h->arm, sizeof out->arm);
	memcpy(out->tier, h->tier, sizeof out->tier);
	memcpy(out->numerics, h->numerics, sizeof out->numerics);
	memcpy(out->kv_dtype, h->kv_dtype, sizeof out->kv_dtype);
}

nh_status engine_session_save(const engine_session *s, const char *path, nh_error *e)
{
	seqfile_head h;
	TRY(fill_head(s->g, s->body, &h, true, e));
	return seqfile_write(path, &h, s->body->ids, s->body->state, e);
}

static nh_status same(const char *path, const char *what, const char *found, const char *expected, nh_error *e)
{
	if (strcmp(found, expected) == 0) return NH_OK;
	return ERR(e, NH_ERR_UNSUPPORTED, "%s: %s: is %.64s, this engine has %.64s", path, what, found, expected);
}

static nh_status check_head(engine *g, const char *path, const seqfile_head *h, uint32_t flags, nh_error *e)
{
	seqfile_head mine;
	if (flags & ~ENGINE_SESSION_OTHER_ARM) return ERR(e, NH_ERR_ARG, "session flags: %x has an unknown bit", flags);
	nh_status s = fill_head(g, NULL, &mine, true, e);
	if (s == NH_OK) s = same(path, "checkpoint", h->identity, mine.identity, e);
	if (s == NH_OK) s = same(path, "numerics", h->numerics, mine.numerics, e);
	if (s == NH_OK) s = same(path, "kv_dtype", h->kv_dtype, mine.kv_dtype, e);
	if (s == NH_OK && !(flags & ENGINE_SESSION_OTHER_ARM)) s = same(path, "arm", h->arm, mine.arm, e);
	if (s == NH_OK && !(flags & ENGINE_SESSION_OTHER_ARM)) s = same(path, "tier", h->tier, mine.tier, e);
	return s;
}

static nh_status check_ids(const engine *g, const char *path, const seqfile_head *h, const int32_t *ids, nh_error *e)
{
	int64_t vocab = g->parts->m->shape.vocab;
	if (h->computed < 1 || h->tokens < h->computed || h->tokens > h->computed + 1 || h->generated < 0 || h->generated > h->tokens)
		return ERR(e, NH_ERR_FORMAT, "%s: %lld tokens, %lld computed, %lld generated: no session has these", path, (long long)h->tokens,
		    (long long)h->computed, (long long)h->generated);
	for (int64_t i = 0; i < h->tokens; i++)
		if (ids[i] < 0 || ids[i] >= vocab)
			return ERR(e, NH_ERR_FORMAT, "%s: id %lld is %d, expected 0 to %lld", path, (long long)i, ids[i], (long long)vocab - 1);
	return NH_OK;
}

nh_status engine_session_load(engine *g, const char *path, uint32_t flags, engine_session **out, nh_error *e)
{
	seqfile_head h;
	int32_t *ids = NULL;
	swapped *state = NULL;
	*out = NULL;
	TRY(seqfile_head_read(path, &h, e));
	TRY(check_head(g, path, &h, flags, e));
	TRY(seqfile_read(path, &h, &ids, &g->states, &g->pages, &state, e));
	nh_status s = check_head(g, path, &h, flags, e); /* it may have been replaced meanwhile */
	if (s == NH_OK) s = check_ids(g, path, &h, ids, e);
	if (s == NH_OK) {
		const session_body like = {.tokens = h.tokens, .computed = h.computed, .generated = h.generated, .created = h.created};
		return wrap(out, g, ids, state, &like, e);
	}
	mem_free(ids);
	swap_free(state);
	return s;
}

void engine_session_get_info(const engine_session *s, engine_session_info *out)
{
	seqfile_head h;
	fill_head(s->g, s->body, &h, false, NULL);
	tell(&h, out);
}

nh_status engine_session_read_info(const char *path, engine_session_info *out, nh_error *e)
{
	seqfile_head h;
	*out = (engine_session_info){0};
	TRY(seqfile_head_read(path, &h, e));
	tell(&h, out);
	return NH_OK;
}

const int32_t *engine_session_tokens(const engine_session *s, size_t *count)
{
	*count = (size_t)s->body->tokens;
	return s->body->ids;
}
