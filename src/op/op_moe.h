/* SPDX-License-Identifier: Apache-2.0
 * op_moe.h: mixture of experts. Routed rows are stored per (token, k) and summed in score order, so that the sum of a token never
 * depends on which other tokens chose the same expert.
 */
#ifndef OP_OP_MOE_H
#define OP_OP_MOE_H

#include "tensor/tensor.h"
#include "tensor/weight.h"

/* Sigmoid routing with a selection-only bias (model.md 6.3): s = sigmoid(logit); c = s + bias; with n_group > 1 only the topk_group groups
 * of experts with the largest sums of their two best c take part; the K largest c win, equal c: the lower expert; idx in descending c.
 *   exact: weight s. eager: s = 0.5 * tanh(0.5 * logit) + 0.5, c, and weight c - bias, each an f32.
 * norm: weight * (1 / (sum + 1e-20)). The routed scaling factor is NOT applied here. */
typedef struct op_route {
	const tensor *idx;    /* out [T, K] i32 */
	const tensor *w;      /* out [T, K] wide */
	const tensor *logits; /* [T, E] wide */
	const tensor *bias;   /* [E] F32 */
	int n_group, topk_group;
	bool norm;
} op_route;

/* rows[t, k] = weight[t, k] * down_e( relu2( up_e(x[t]) ) ), e = idx[t, k]. Roundings by the experts' scheme (model.md 6.6-6.8):
 *   bf16, fp8   up -> bf16; relu2 -> bf16; down: bf16(f32(sum, scaled) * weight). fp8: both inputs quantised with the layer's largest
 *               input scale (up_input, down_input)
 *   w4a16 and weight-only w4a4 (Marlin)  up -> bf16(sum * scale); relu2 -> bf16; down: bf16(sum), then bf16(that * bf16(weight * scale))
 *   native w4a4 (6.7) up -> bf16; relu2 in f32 straight to the FP4 grid; down: bf16(sum * alpha), times weight in f32, not rounded again
 * In exact profiles nothing is rounded but the formats' own grids. rows is wide for native w4a4 and exact, else act. */
typedef struct op_expert_ffn {
	const tensor *rows; /* out [T, K, W] */
	const tensor *x;    /* [T, W] act */
	const tensor *idx;  /* [T, K] i32 */
	const tensor *w;    /* [T, K] wide */
	const weight_experts *experts;
	int decode_rows;
} op_expert_ffn;

/* r = act(sum_k rows[t, k]), k ascending (eager: f32 additions in that order); r = act(r * factor); y = shared ? act(shared + r) : r. */
typedef struct op_moe_combine {
	const tensor *y;      /* out [T, W] act */
	const tensor *rows;   /* [T, K, W] */
	const tensor *shared; /* [T, W] act or NULL */
	double factor;        /* routed_scaling_factor; eager: used as the f32 that it rounds to */
} op_moe_combine;

#endif
