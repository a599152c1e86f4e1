/* SPDX-License-Identifier: Apache-2.0
 * nm_mlp.c: the dense MLP (docs/MODEL.md, "-"), also the shared expert: down(relu(up x)^2), no gate.
 */
#include "model/nemotron_h/nm_model.h"

void nm_mlp_forward(const nm_step *s, const nm_mlp *l, const tensor *y, const tensor *h)
{
	tensor up = exec_scratch(s->x, s->x->types.act, s->b->T, l->up.n);
	if (s->x->status != NH_OK) return;
	OP(s->x, linear, .y = &up, .x = y, .w = &l->up, .bias = tensor_absent(&l->up_bias) ? NULL : &l->up_bias, .act = OP_ACT_RELU2,
	    .decode_rows = s->b->D);
	nm_tap(s, "mlp_hidden", &up);
	OP(s->x, linear, .y = h, .x = &up, .w = &l->down, .bias = tensor_absent(&l->down_bias) ? NULL : &l->down_bias, .decode_rows = s->b->D);
}
