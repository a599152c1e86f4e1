/* SPDX-License-Identifier: Apache-2.0
 * session.c: the state of an ended sequence, kept. This build keeps none: every function says so.
 */
#include "engine/engine_impl.h"

static nh_status none(nh_error *e) { return ERR(e, NH_ERR_UNSUPPORTED, "session: this build keeps none"); }

nh_status engine_session_take(engine_request *r, engine_session **out, nh_error *e) { return (void)r, *out = NULL, none(e); }
nh_status engine_session_fork(const engine_session *s, engine_session **out, nh_error *e) { return (void)s, *out = NULL, none(e); }
void engine_session_close(engine_session *s) { (void)s; }
nh_status engine_session_save(const engine_session *s, const char *path, nh_error *e) { return (void)s, (void)path, none(e); }
nh_status engine_session_load(engine *g, const char *path, uint32_t flags, engine_session **out, nh_error *e)
{
	return (void)g, (void)path, (void)flags, *out = NULL, none(e);
}
void engine_session_get_info(const engine_session *s, engine_session_info *out) { (void)s, *out = (engine_session_info){0}; }
nh_status engine_session_read_info(const char *path, engine_session_info *out, nh_error *e)
{
	return (void)path, *out = (engine_session_info){0}, none(e);
}
const int32_t *engine_session_tokens(const engine_session *s, size_t *count) { return (void)s, *count = 0, NULL; }
