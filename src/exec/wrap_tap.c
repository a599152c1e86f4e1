/* SPDX-License-Identifier: Apache-2.0
 * wrap_tap.c: hands each call to a function, before and after. Looks at nothing itself.
 */
#include "exec/wrap_core.h"

typedef struct tap {
	wrapper w;
	wrap_tap_fn fn;
	void *user; /* borrow */
} tap;

static void before(wrapper *w, op_id op, const void *args) { ((tap *)w)->fn(((tap *)w)->user, &w->x, op, args, false); }
static void after(wrapper *w, op_id op, const void *args) { ((tap *)w)->fn(((tap *)w)->user, &w->x, op, args, true); }

exec *wrap_tap_create(exec *inner, wrap_tap_fn fn, void *user)
{
	tap *t = wrap_new(inner, sizeof *t);
	if (!t) return NULL;
	t->fn = fn;
	t->user = user;
	t->w.before = before;
	t->w.after = after;
	return &t->w.x;
}
