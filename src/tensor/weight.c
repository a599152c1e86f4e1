/* SPDX-License-Identifier: Apache-2.0
 * weight.c: scheme to format.
 */
#include "tensor/weight.h"

#include "tensor/wfmt_list.h"

const wfmt *wfmt_of(num_scheme scheme)
{
	switch (scheme) {
	case NUM_SCHEME_FP8: return &wfmt_fp8;
	case NUM_SCHEME_NVFP4: return &wfmt_nvfp4;
	case NUM_SCHEME_W4A16: return &wfmt_w4a16;
	case NUM_SCHEME_NONE:
	case NUM_SCHEME_COUNT: break;
	}
	return &wfmt_bf16;
}

size_t weight_bytes(const weight *w)
{
	size_t bytes = wfmt_of(w->scheme)->bytes(w->n, w->k);
	return w->dtype == NUM_F32 ? 2 * bytes : bytes;
}

void weight_decode_row(const weight *w, int64_t row, double *out) { wfmt_of(w->scheme)->decode_row(w, row, out); }
