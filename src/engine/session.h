/* SPDX-License-Identifier: Apache-2.0
 * session.h: what a session holds. Internal to the room. A body never changes and is shared by its forks and by requests that continue it;
 * the last holder frees it.
 */
#ifndef ENGINE_SESSION_H
#define ENGINE_SESSION_H

#include <stdatomic.h>

#include "cache/swap.h"
#include "engine/engine.h"

/* tokens is computed, or one more: then the last id is pending and will be fed in decode form. */
typedef struct session_body {
	atomic_int holders;
	swapped *state; /* own */
	int32_t *ids;   /* own [tokens] */
	int64_t tokens, computed, generated, created;
} session_body;

const session_body *session_of(const engine_session *s);
/* Of a sequence that has ended; takes the state also on failure. */
nh_status session_make(
    engine_session **out, struct engine *g, const int32_t *ids, int64_t tokens, int64_t generated, swapped *state, nh_error *e);
bool session_belongs(const engine_session *s, const struct engine *g);

#endif
