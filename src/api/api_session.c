/* SPDX-License-Identifier: Apache-2.0
 * api_session.c: nh_session.h over the engine's sessions. Knows no file format: that is the cache's.
 * The invariant that breaks first: *out is NULL after every failure, and what failed has changed nothing.
 */
#include <string.h>

#include "api/api_impl.h"
#include "base/base_mem.h"

/* An empty handle to fill; so that nothing can fail after the engine has given a session away. */
static nh_session *handle(const nh_engine *g)
{
	nh_session *s = mem_alloc(sizeof *s);
	if (s) s->engine = g;
	return s;
}

static nh_status give(nh_session *s, nh_status status, nh_session **out)
{
	if (status == NH_OK) *out = s;
	else mem_free(s);
	return status;
}

nh_status nh_request_take_session(nh_request *r, nh_session **out, nh_error *e)
{
	*out = NULL;
	nh_session *s = handle(r->engine);
	if (!s) return ERR_NOMEM(e);
	return give(s, engine_session_take(r->r, &s->s, e), out);
}

nh_status nh_session_fork(const nh_session *from, nh_session **out, nh_error *e)
{
	*out = NULL;
	nh_session *s = handle(from->engine);
	if (!s) return ERR_NOMEM(e);
	return give(s, engine_session_fork(from->s, &s->s, e), out);
}

void nh_session_close(nh_session *s)
{
	if (!s) return;
	engine_session_close(s->s);
	mem_free(s);
}

nh_status nh_session_save(const nh_session *s, const char *path, nh_error *e) { return engine_session_save(s->s, path, e); }

nh_status nh_session_load(nh_engine *g, const char *path, uint32_t flags, nh_session **out, nh_error *e)
{
	_Static_assert(ENGINE_SESSION_OTHER_ARM == NH_SESSION_OTHER_ARM, "one flag");
	*out = NULL;
	if (flags & ~(uint32_t)NH_SESSION_OTHER_ARM) return ERR(e, NH_ERR_ARG, "flags: 0x%x has unknown bits", flags);
	nh_session *s = handle(g);
	if (!s) return ERR_NOMEM(e);
	return give(s, engine_session_load(g->g, path, flags, &s->s, e), out);
}

static void tell(const engine_session_info *in, nh_session_info *info, size_t size)
{
	nh_session_info v = {.version = in->version,
	    .tokens = in->tokens,
	    .computed = in->computed,
	    .generated = in->generated,
	    .created = in->created,
	    .bytes = in->bytes};
	_Static_assert(sizeof v.identity == sizeof in->identity && sizeof v.model == sizeof in->model && sizeof v.arm == sizeof in->arm &&
	                   sizeof v.numerics == sizeof in->numerics && sizeof v.kv_dtype == sizeof in->kv_dtype,
	    "texts of one size");
	memcpy(v.identity, in->identity, sizeof v.identity);
	memcpy(v.model, in->model, sizeof v.model);
	memcpy(v.arm, in->arm, sizeof v.arm);
	memcpy(v.numerics, in->numerics, sizeof v.numerics);
	memcpy(v.kv_dtype, in->kv_dtype, sizeof v.kv_dtype);
	api_out(info, size, &v, sizeof v);
}

void nh_session_get_info(const nh_session *s, nh_session_info *info, size_t size)
{
	engine_session_info in;
	engine_session_get_info(s->s, &in);
	tell(&in, info, size);
}

nh_status nh_session_read_info(const char *path, nh_session_info *info, size_t size, nh_error *e)
{
	engine_session_info in;
	TRY(engine_session_read_info(path, &in, e));
	tell(&in, info, size);
	return NH_OK;
}

const int32_t *nh_session_tokens(const nh_session *s, size_t *count)
{
	size_t n = 0;
	const int32_t *ids = engine_session_tokens(s->s, &n);
	if (count) *count = n;
	return ids;
}
