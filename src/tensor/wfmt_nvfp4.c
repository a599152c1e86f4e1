/* SPDX-License-Identifier: Apache-2.0
 * wfmt_nvfp4.c: NVFP4 (model.md 2.4, 8.1): two e2m1 codes a byte, low nibble first; one e4m3 scale per 16 along k; one f32 scale per
 * tensor. e2m1 times an e4m3 scale has at most 6 significant bits, so the decoded value is exact. W4A4 files carry an input scale too.
 */
#include "num/num_conv.h"
#include "tensor/wfmt_list.h"

#define BLOCK 16

static int weight_only_parts(int64_t n, int64_t k, wfmt_part p[WFMT_PARTS])
{
	p[0] = (wfmt_part){.suffix = ".weight", .file_dtype = NUM_U8, .rank = 2, .shape = {n, k / 2}};
	p[1] = (wfmt_part){.suffix = ".weight_scale", .file_dtype = NUM_E4M3, .rank = 2, .shape = {n, k / BLOCK}};
	p[2] = (wfmt_part){.suffix = ".weight_scale_2", .file_dtype = NUM_F32, .rank = 0};
	return 3;
}

static int w4a4_parts(int64_t n, int64_t k, wfmt_part p[WFMT_PARTS])
{
	weight_only_parts(n, k, p);
	p[3] = (wfmt_part){.suffix = ".input_scale", .file_dtype = NUM_F32, .rank = 0};
	return 4;
}

static void decode_row(const weight *w, int64_t row, double *out)
{
	const uint8_t *codes = (const uint8_t *)w->data + (size_t)row * (size_t)(w->k / 2);
	const uint8_t *scales = (const uint8_t *)w->block_scale + (size_t)row * (size_t)(w->k / BLOCK);
	for (int64_t b = 0; b < w->k / BLOCK; b++) {
		double s = (double)num_e4m3_value[scales[b]];
		for (int j = 0; j < BLOCK / 2; j++) {
			uint8_t two = *codes++;
			*out++ = (double)num_e2m1_value[two & 15] * s;
			*out++ = (double)num_e2m1_value[two >> 4] * s;
		}
	}
}

static size_t bytes(int64_t n, int64_t k) { return (size_t)n * ((size_t)k / 2 + (size_t)k / BLOCK) + 4; }

const wfmt wfmt_nvfp4 = {NUM_SCHEME_NVFP4, "nvfp4-w4a4", BLOCK, w4a4_parts, decode_row, bytes};
const wfmt wfmt_w4a16 = {NUM_SCHEME_W4A16, "nvfp4-w4a16", BLOCK, weight_only_parts, decode_row, bytes};
