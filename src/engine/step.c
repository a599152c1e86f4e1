/* SPDX-License-Identifier: Apache-2.0
 * step.c: the order of a step's stages, and the clock beside it. A step that fails as a whole fails every request that was in it.
 */
#include <string.h>

#include "base/base_clock.h"
#include "engine/engine_impl.h"

/* The arm failed: what its memory holds of these sequences is not known any more. */
static void fail_all(engine *g, const nh_error *e)
{
	step *s = &g->step;
	exec_clear(g->parts->x);
	for (int k = 0; k < s->items; k++) {
		step_item *i = &s->item[k];
		i->failed = true;
		spares_release(g, i, i->q->memory.slot);
		i->q->r->composed = 0;
		if (i->q->r->error.code == 0) i->q->r->error = *e;
	}
	step_emit(g);
}

/* Time of the stage that ends now. */
static void lap(int64_t *stage, int64_t *since)
{
	int64_t now = clock_us();
	*stage += now - *since;
	*since = now;
}

bool step_run(engine *g)
{
	int64_t us[ENGINE_STAGES] = {0}, since = clock_us();
	nh_error e = {0};
	step_admit(g);
	lap(&us[0], &since);
	bool any = step_reserve(g);
	lap(&us[1], &since);
	if (!any) {
		loop_drop_ended(g);
		stats_publish(g, NULL);
		return false;
	}
	nh_status s = step_inputs(g, &e);
	lap(&us[2], &since);
	if (s == NH_OK) s = step_forward(g, &e);
	lap(&us[3], &since);
	if (s == NH_OK) s = step_pick(g, &e);
	lap(&us[4], &since);
	if (s != NH_OK) {
		fail_all(g, &e);
		stats_publish(g, NULL);
	} else {
		step_commit(g);
		lap(&us[5], &since);
		stats_publish(g, us);
		step_emit(g);
		lap(&us[6], &since);
		stats_time(g, 6, us[6]);
	}
	loop_drop_ended(g);
	return true;
}
