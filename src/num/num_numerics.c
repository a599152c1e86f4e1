/* SPDX-License-Identifier: Apache-2.0
 * num_numerics.c: the table of profiles.
 */
#include "num/num_numerics.h"

#include <string.h>

static const nh_numerics PROFILES[] = {
    {"exact", NUM_ROUND_NONE, NUM_W4A4_NATIVE, NUM_ATTN_KV, NUM_SUMS_EXACT, NUM_ROUTER_STORED, false},
    {"exact-wo", NUM_ROUND_NONE, NUM_W4A4_WEIGHT_ONLY, NUM_ATTN_KV, NUM_SUMS_EXACT, NUM_ROUTER_STORED, false},
    {"portable", NUM_ROUND_EAGER, NUM_W4A4_WEIGHT_ONLY, NUM_ATTN_KV, NUM_SUMS_EXACT, NUM_ROUTER_BF16, true},
    {"hopper", NUM_ROUND_EAGER, NUM_W4A4_WEIGHT_ONLY, NUM_ATTN_FA3, NUM_SUMS_HOPPER, NUM_ROUTER_BF16, true},
    {"blackwell", NUM_ROUND_EAGER, NUM_W4A4_NATIVE, NUM_ATTN_KV, NUM_SUMS_EXACT, NUM_ROUTER_BF16, true},
};

const nh_numerics *num_profile_at(int i) { return i >= 0 && (size_t)i < sizeof PROFILES / sizeof *PROFILES ? &PROFILES[i] : NULL; }

const nh_numerics *num_profile(const char *name)
{
	for (int i = 0; num_profile_at(i); i++)
		if (strcmp(PROFILES[i].name, name) == 0) return &PROFILES[i];
	return NULL;
}

const char *num_rounding_name(num_rounding v) { return v == NUM_ROUND_NONE ? "none" : "eager"; }
const char *num_w4a4_name(num_w4a4 v) { return v == NUM_W4A4_NATIVE ? "native" : "weight_only"; }
const char *num_fp8_attention_name(num_fp8_attention v) { return v == NUM_ATTN_KV ? "kv" : "fa3"; }
const char *num_fp8_sums_name(num_fp8_sums v) { return v == NUM_SUMS_EXACT ? "exact" : "hopper"; }
const char *num_router_weight_name(num_router_weight v) { return v == NUM_ROUTER_STORED ? "f32" : "bf16"; }
