/* SPDX-License-Identifier: Apache-2.0
 * wfmt_bf16.c: unquantised rows, BF16 in the file (F32 where a file keeps a matrix wide, as routers are).
 */
#include "num/num_conv.h"
#include "tensor/wfmt_list.h"

static int parts(int64_t n, int64_t k, wfmt_part p[WFMT_PARTS])
{
	p[0] = (wfmt_part){.suffix = ".weight", .file_dtype = NUM_BF16, .rank = 2, .shape = {n, k}};
	return 1;
}

static void decode_row(const weight *w, int64_t row, double *out)
{
	num_load_row(w->dtype, w->data, (size_t)(row * w->k), (size_t)w->k, out);
}

static size_t bytes(int64_t n, int64_t k) { return (size_t)n * (size_t)k * 2; }

const wfmt wfmt_bf16 = {NUM_SCHEME_NONE, "bf16", 1, parts, decode_row, bytes};
