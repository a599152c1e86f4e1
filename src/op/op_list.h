/* SPDX-License-Identifier: Apache-2.0
 * op_list.h: the only list of ops. X(name): the argument struct is op_<name>, in op_<family>.h with its contract.
 * A new op needs a line here, its struct and contract, op_describe_<name>, op_cost_<name>, a ref version, a corpus and two mutants.
 */
#ifndef OP_OP_LIST_H
#define OP_OP_LIST_H

#define OP_LIST(X)                                                                                   \
	X(embed_rows)   /* token ids to rows of the embedding table */                                   \
	X(rms_norm)     /* RMS norm of rows */                                                           \
	X(add_rms_norm) /* residual add, then RMS norm */                                                \
	X(linear)       /* rows times a weight matrix of any format */                                   \
	X(add)          /* sum of two rows: latent MoE adds its shared expert after the up-projection */ \
	X(gather_rows)  /* chosen rows, in order */                                                      \
	X(conv_step)    /* causal conv + SiLU, decode form */                                            \
	X(conv_scan)    /* causal conv + SiLU, prefill form */                                           \
	X(ssm_step)     /* selective state update, decode form */                                        \
	X(ssm_scan)     /* chunked selective scan, prefill form */                                       \
	X(gated_norm)   /* SiLU gate, then RMS norm by group */                                          \
	X(kv_write)     /* keys and values into pages */                                                 \
	X(attn_decode)  /* paged attention, decode form */                                               \
	X(attn_prefill) /* paged attention, prefill form */                                              \
	X(route)        /* expert choice and weights */                                                  \
	X(expert_ffn)   /* chosen experts' squared-ReLU MLPs, weighted rows */                           \
	X(moe_combine)  /* sum over chosen experts, scale, shared expert */                              \
	X(logit_edit)   /* penalties, bias, mask */                                                      \
	X(sample_rows)  /* one token a row */                                                            \
	X(logprobs)     /* log-probabilities, ranks, best tokens */                                      \
	X(pool_rows)    /* embedding output: last or mean of rows, normalised */                         \
	X(state_copy)   /* recurrent state slot to slot */                                               \
	X(page_copy)    /* KV page to page */                                                            \
	X(all_reduce)   /* sum over ranks; identity on one */

typedef enum op_id {
#define OP_ENUM(name) OP_##name,
	OP_LIST(OP_ENUM)
#undef OP_ENUM
	    OP_COUNT
} op_id;

#endif
