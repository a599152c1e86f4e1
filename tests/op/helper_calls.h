/* SPDX-License-Identifier: Apache-2.0
 * helper_calls.h: one good call of every op, in host memory, that a test may damage. Dims are small and all different where they may
 * be, so that a mixed-up dimension shows.
 */
#ifndef HELPER_CALLS_H
#define HELPER_CALLS_H

#include "base/base_arena.h"
#include "op/op.h"

/* T rows, D width, V vocabulary, KX choices, EX experts, FX their width; conv channels C with TAPS taps; H heads of P by N in G groups;
 * attention QH heads over KV heads of HD; S segments; ST state slots; PG pages of PT tokens. */
enum {
	T = 3,
	D = 16,
	V = 40,
	NX = 24,
	KX = 2,
	EX = 6,
	FX = 32,
	C = 10,
	TAPS = 4,
	H = 4,
	P = 2,
	N = 5,
	G = 2,
	QH = 4,
	KV = 2,
	HD = 8,
	S = 2,
	ST = 5,
	PG = 6,
	PT = 4,
	L = 4,
	M = 2,
	TOP = 7
};

typedef struct call {
	op_id id;
	union {
#define CALL_ARGS(name) op_##name name;
		OP_LIST(CALL_ARGS)
#undef CALL_ARGS
	} a;
	tensor t[OP_DESC_MAX]; /* all operands but pages */
	int tensors;
	kv_pages pages;
	weight w, up[EX], down[EX];
	weight_experts experts;
	op_sample_row rows[T];
	op_logit_bias bias[2];
	float repetition[T], presence[T], frequency[T];
	arena mem; /* own */
} call;

/* Activations are bf16 (wide f32), weights bf16. The same bytes for the same op, every time. call_free it. */
void call_make(call *c, op_id id);
/* The call's matrices in another scheme (linear, expert_ffn). */
void call_scheme(call *c, num_scheme scheme);
void call_free(call *c);

/* The operand by field name, to be damaged; NULL when absent. */
tensor *call_operand(call *c, const char *field);
/* Makes a pointer of the arguments that points at t NULL. False when none does (pages). */
bool call_forget(call *c, const tensor *t);

#endif
