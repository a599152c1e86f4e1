/* SPDX-License-Identifier: Apache-2.0
 * vec_ssm.h: the selective state space recurrence of one head: one token, or one chunk (model.md 4.4 and 4.5). Rows of f32 arrays are
 * padded with zeros to a multiple of VEC_SSM_PAD; sizes that are padded so end in p.
 */
#ifndef CPU_VEC_VEC_SSM_H
#define CPU_VEC_VEC_SSM_H

#include "backend/cpu/vec/vec.h"

#define VEC_SSM_PAD 16
static inline int64_t vec_ssm_up(int64_t n) { return (n + VEC_SSM_PAD - 1) / VEC_SSM_PAD * VEC_SSM_PAD; }

/* One thread's arrays for chunks of at most `len` tokens. */
typedef struct vec_chunk {
	int64_t len, N, P, lenp, Np, Pp; /* len, lenp: of this chunk */
	float *b, *c;                    /* [len, Np] of the group */
	float *turned;                   /* [max(N, P), max(lenp, Pp)] B of the group, later the state */
	float *cb;                       /* [len, lenp] C_m . B_k, k <= m */
	float *x, *y;                    /* [len, Pp] of the head */
	float *dt, *cs;                  /* [lenp] of the head: step size, inclusive sum of dt * a */
	float *bs;                       /* [len, Np] decayed B as bf16 */
	float *w;                        /* [6, lenp] */
	float *S, *add;                  /* [P, Np]: the state, in and out; what the chunk adds to it */
} vec_chunk;

typedef struct vec_ssm {
	/* out = in * da + db[n] x[p] (in NULL: zeros), y[p] = sum over n of out * c[n] + d * x[p]. in and out [P, N] with rows `pitch` apart; they
	 * may be one. */
	void (*step)(float *out, const float *in, int64_t pitch, const float *db, const float *c, float da, float d, const float *x, float *y,
	    int64_t P, int64_t N);
	void (*scaled)(float *out, const float *in, float by, int64_t n); /* out = in * by */
	void (*chunk_group)(const vec_chunk *k);                          /* cb from b and c */
	void (*chunk_head)(const vec_chunk *k, float d);                  /* y and S from x, dt, cs, cb, b, c */
} vec_ssm;

VEC_TABLES(vec_ssm)

#endif
