/* SPDX-License-Identifier: Apache-2.0
 * num_numerics.h: the choices on which correct engines differ, as data (docs/NUMERICS.md). Ops read these; model code never does.
 * Element types of activations and state follow from the profile, so that they are decided in one place.
 */
#ifndef NUM_NUMERICS_H
#define NUM_NUMERICS_H

#include <stdbool.h>

#include "num/num_types.h"

typedef enum { NUM_ROUND_NONE, NUM_ROUND_EAGER } num_rounding;
typedef enum { NUM_W4A4_NATIVE, NUM_W4A4_WEIGHT_ONLY } num_w4a4;
typedef enum { NUM_ATTN_KV, NUM_ATTN_FA3 } num_fp8_attention;
typedef enum { NUM_SUMS_EXACT, NUM_SUMS_HOPPER } num_fp8_sums;
typedef enum { NUM_ROUTER_STORED, NUM_ROUTER_BF16 } num_router_weight;

typedef struct nh_numerics {
	const char *name;                /* static; of the profile */
	num_rounding rounding;           /* none, or at vLLM's eager rounding points */
	num_w4a4 w4a4;                   /* FP4 activations, or weights only (input_scale ignored) */
	num_fp8_attention fp8_attention; /* with FP8 pages: grid on K and V only, or FlashAttention 3's: q and P too */
	num_fp8_sums fp8_sums;           /* sums of FP8 products: exact, or as Hopper's tensor core */
	num_router_weight router_weight; /* F32 router weights as stored, or rounded to bf16 */
	bool kv_scale_bf16;              /* k_scale and v_scale rounded to bf16 when loaded */
} nh_numerics;

/* exact, exact-wo, portable, hopper, blackwell; NULL for another name. Static. */
const nh_numerics *num_profile(const char *name);
/* The i-th profile, NULL past the end. */
const nh_numerics *num_profile_at(int i);

/* Names of one profile's choices as golden files spell them: rounding "none"/"eager", w4a4 "native"/"weight_only",
 * fp8_attention "kv"/"fa3", fp8_sums "exact"/"hopper", router_weight "f32"/"bf16". */
const char *num_rounding_name(num_rounding v);
const char *num_w4a4_name(num_w4a4 v);
const char *num_fp8_attention_name(num_fp8_attention v);
const char *num_fp8_sums_name(num_fp8_sums v);
const char *num_router_weight_name(num_router_weight v);

#endif
