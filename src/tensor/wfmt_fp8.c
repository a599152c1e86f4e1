/* SPDX-License-Identifier: Apache-2.0
 * wfmt_fp8.c: ModelOpt FP8 per tensor (model.md 2.4, 7): e4m3 codes, one f32 weight scale, one static f32 input scale.
 */
#include "num/num_conv.h"
#include "tensor/wfmt_list.h"

static int parts(int64_t n, int64_t k, wfmt_part p[WFMT_PARTS])
{
	p[0] = (wfmt_part){.suffix = ".weight", .file_dtype = NUM_E4M3, .rank = 2, .shape = {n, k}};
	p[1] = (wfmt_part){.suffix = ".weight_scale", .file_dtype = NUM_F32, .rank = 0};
	p[2] = (wfmt_part){.suffix = ".input_scale", .file_dtype = NUM_F32, .rank = 0};
	return 3;
}

static void decode_row(const weight *w, int64_t row, double *out)
{
	num_load_row(NUM_E4M3, w->data, (size_t)(row * w->k), (size_t)w->k, out);
}

static size_t bytes(int64_t n, int64_t k) { return (size_t)n * (size_t)k + 8; }

const wfmt wfmt_fp8 = {NUM_SCHEME_FP8, "fp8", 1, parts, decode_row, bytes};
