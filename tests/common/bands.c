/* SPDX-License-Identifier: Apache-2.0
 * bands.c: see bands.h. Noise in the comments is the largest seen over test_conformance, test_published and test_lockstep (avx2 and portable), exact and
 * eager; mutants are test_conformance's smallest.
 */
#include "common/bands.h"

static const double BANDS[OP_COUNT][2] = {
    [OP_embed_rows] = {1e-7, 0},
    [OP_rms_norm] = {1e-6, 2e-3},     /* 7e-8, 0; mutant .006: eager lies under one bf16 step of a whole row */
    [OP_add_rms_norm] = {1e-6, 2e-3}, /* 1e-7, 0; .79 */
    [OP_linear] = {2e-5, 6e-3},       /* 6e-6 where a row cancels, 3.5e-3 where one squared element is all of a row; .12 */
    [OP_add] = {1e-7, 0},
    [OP_gather_rows] = {1e-7, 0},
    [OP_conv_step] = {1e-6, 2e-3}, /* 1e-7, 5e-4; .69 */
    [OP_conv_scan] = {1e-6, 2e-3},
    [OP_ssm_step] = {2e-6, 2e-3},     /* 4e-7, 1e-5; .46 */
    [OP_ssm_scan] = {3e-6, 1e-3},     /* 8e-7, 5e-4; 1.1, and .0022 where the entering state is not rounded */
    [OP_gated_norm] = {1e-6, 2e-3},   /* 2e-7, 7e-5; .57 */
    [OP_kv_write] = {1e-7, 0},        /* 4e-8, 0; .99 */
    [OP_attn_decode] = {2e-6, 2e-3},  /* 4e-7, 0; .2 */
    [OP_attn_prefill] = {3e-6, 2e-3}, /* 8e-7, 5e-4; .29 */
    [OP_route] = {1e-6, 1e-6},        /* 4e-7, 0; .38 */
    [OP_expert_ffn] = {2e-5, 1e-2},   /* 2e-6, 3.1e-3 where one inner element is squared after it moved by a step; .38 */
    [OP_moe_combine] = {1e-6, 0},     /* 1e-7, 0; .6 */
    [OP_logit_edit] = {2e-7, 0},      /* 3e-8, 0; .086 */
    [OP_sample_rows] = {0, 0},
    [OP_logprobs] = {1e-12, 1e-12}, /* 7e-15; .16 */
    [OP_pool_rows] = {1e-6, 1e-6},
    [OP_state_copy] = {1e-7, 0},
    [OP_page_copy] = {1e-7, 0},
    [OP_all_reduce] = {1e-7, 0},
};

double band_of(op_id op, bool eager) { return BANDS[op][eager]; }
