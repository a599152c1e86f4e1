/* SPDX-License-Identifier: Apache-2.0
 * states.c: opens and closes the pool of recurrent state. Knows shapes; what a state means is the ops' business.
 */
#include "cache/states.h"

#include <string.h>

#include "base/base_mem.h"

nh_status states_open(states *s, const backend *arm, exec *x, const states_layer *layer, int layers, int64_t slots, nh_error *e)
{
	memset(s, 0, sizeof *s);
	TRY(pool_init(&s->pool, slots, "state slots", e));
	s->arm = arm;
	s->x = x;
	s->layer = mem_array((size_t)layers, sizeof *s->layer);
	s->layers = s->layer ? layers : 0;
	nh_status status = s->layer ? NH_OK : ERR_NOMEM(e);
	for (int i = 0; status == NH_OK && i < layers; i++) {
		const states_layer *l = &layer[i];
		const int64_t conv[3] = {slots, l->taps - 1, l->channels};
		const int64_t ssm[4] = {slots, l->heads, l->head_dim, l->state};
		status = pool_tensor(&s->layer[i].conv, arm, x, x->types.conv_state, 3, conv, "conv state", e);
		if (status == NH_OK) status = pool_tensor(&s->layer[i].ssm, arm, x, x->types.ssm_state, 4, ssm, "SSM state", e);
	}
	if (status != NH_OK) states_close(s);
	return status;
}

void states_close(states *s)
{
	for (int i = 0; i < s->layers; i++) {
		pool_tensor_free(&s->layer[i].conv, s->arm, s->x);
		pool_tensor_free(&s->layer[i].ssm, s->arm, s->x);
	}
	mem_free(s->layer);
	pool_deinit(&s->pool);
	memset(s, 0, sizeof *s);
}

size_t states_bytes(const states *s)
{
	size_t sum = 0;
	for (int i = 0; i < s->layers; i++) sum += tensor_bytes(&s->layer[i].conv) + tensor_bytes(&s->layer[i].ssm);
	return sum;
}
