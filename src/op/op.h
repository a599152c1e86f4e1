/* SPDX-License-Identifier: Apache-2.0
 * op.h: all argument structs, and what can be said of any op without knowing which arm runs it: a uniform description of its
 * operands (for the wrappers) and its cost (for profiles, the dry arm and benches).
 */
#ifndef OP_OP_H
#define OP_OP_H

#include "op/op_attn.h"
#include "op/op_basic.h"
#include "op/op_copy.h"
#include "op/op_list.h"
#include "op/op_moe.h"
#include "op/op_sample.h"
#include "op/op_ssm.h"

#define OP_DESC_MAX 16

/* One tensor operand. Pointers are into the argument struct: they die with it. */
typedef struct op_operand {
	const char *field; /* static; the struct's field name */
	const tensor *t;   /* NULL where the operand is absent */
	bool in, out;
} op_operand;

typedef struct op_desc {
	op_operand operand[OP_DESC_MAX];
	int operands;
	const weight *w;               /* linear */
	const weight_experts *experts; /* expert_ffn */
	int64_t rows;                  /* rows the call computes */
} op_desc;

/* What one call must move and compute at least. Weight bytes count each matrix once a call (experts: distinct experts are not known from
 * shapes, so min(E, T * K)); state bytes are read plus written. Attention's keys are not known from shapes: positions are values, so the
 * caller of op_cost gives the total context. */
typedef struct op_cost {
	uint64_t weight_bytes, state_bytes, activation_bytes, flops;
} op_cost;

const char *op_name(op_id id); /* "linear"; "?" outside the list */

#define OP_DECLARE(name)                                                                                                                    \
	void op_describe_##name(const op_##name *a, op_desc *d);                                                                                \
	void op_cost_##name(const op_##name *a, uint64_t context_tokens, op_cost *c);                                                           \
	/* NULL when the call keeps its contract (ranks, shapes, types, views inside their room), else what is wrong, into `text`. Looks at   \
	 * shapes and types only. */ \
	const char *op_check_##name(const op_##name *a, char text[256]);
OP_LIST(OP_DECLARE)
#undef OP_DECLARE

/* The same, by id. */
void op_describe(op_id id, const void *args, op_desc *d);
void op_cost_of(op_id id, const void *args, uint64_t context_tokens, op_cost *c);
const char *op_check(op_id id, const void *args, char text[256]);

#endif
