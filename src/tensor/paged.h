/* SPDX-License-Identifier: Apache-2.0
 * paged.h: one step's rows as the ops see them: a ragged batch of decode rows and prefill segments, state slots and page tables.
 * Counts are host integers, because control flow may depend on shapes; everything else is a tensor in the arm's memory, because model
 * code never reads values. The engine fills it; ops read it through their argument structs.
 *
 * Rows [0, D) are in decode form: one row a token that the engine chose (or a draft of one), rows of one sequence adjacent and in order.
 * Rows [D, T) are in prefill form, cut into S segments: runs of given tokens of one sequence each.
 */
#ifndef TENSOR_PAGED_H
#define TENSOR_PAGED_H

#include "tensor/tensor.h"

typedef struct step_batch {
	int T; /* rows in the step */
	int D; /* of them in decode form */
	int S; /* prefill segments */
	int R; /* rows whose logits are wanted */

	tensor ids;      /* [T] i32, 0 <= id < V */
	tensor pos;      /* [T] i32, position in its sequence from 0 */
	tensor out_rows; /* [R] i32, ascending */

	/* Recurrent state. Slot -1 as input: no history (zeros). Input and output may be the same slot. */
	tensor slot_in, slot_out; /* [D] i32: a decode row reads one slot and writes another; the next row of the sequence reads that */
	tensor seg_row;           /* [S + 1] i32: first row of each segment; seg_row[0] = D, seg_row[S] = T */
	tensor seg_pos;           /* [S] i32: position of its first row */
	tensor seg_origin;        /* [S] i32: position at which its segment began in an earlier step, or seg_pos: a scan edge (grid rule) */
	tensor seg_in, seg_out;   /* [S] i32 slots */

	/* Attention. Row t sees the keys at positions 0..pos[t] of sequence row_seq[t]. */
	tensor row_seq;    /* [T] i32: line of page_table */
	tensor kv_slot;    /* [T] i64: page * page_tokens + offset where the row's key and value are stored; -1: not stored */
	tensor page_table; /* [sequences, pages] i32: page p holds positions p * page_tokens and on; -1: none */
	int page_tokens;
} step_batch;

/* The storage of one layer's state. Pools are the arm's memory, sized at open; slots and pages are chosen by the engine. */
typedef struct mamba_state {
	tensor conv; /* [slots, taps - 1, C] oldest first, raw inputs */
	tensor ssm;  /* [slots, H, P, N] */
} mamba_state;

typedef struct kv_pages {
	tensor k, v;            /* [pages, page_tokens, KV heads, head dim]; e4m3 codes or plain values */
	float k_scale, v_scale; /* value = code * scale where the pages are e4m3, else 1 */
} kv_pages;

#endif
