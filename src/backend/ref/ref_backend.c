/* SPDX-License-Identifier: Apache-2.0
 * ref_backend.c: opening the reference arm, binding its kernels to weights, its memory (the host's). The invariant that breaks first:
 * no slot of the op table is empty, so that no caller need ask.
 */
#include "backend/ref/ref_backend.h"

#include <math.h>
#include <string.h>

#include "backend/ref/ref.h"
#include "backend/ref/ref_kernel.h"
#include "base/base_mem.h"
#include "tensor/weight.h"

#define REF_SLOT(name) .name = ref_##name,
const op_table ref_ops = {OP_LIST(REF_SLOT)};
#undef REF_SLOT

typedef struct ref_exec {
	exec x;
	ref_self self;
} ref_exec;

static nh_status ref_open(exec **out, const backend_options *options, nh_error *e)
{
	*out = NULL;
	const nh_numerics *num = options && options->num ? options->num : num_profile(ref_backend.default_profile);
#define REF_CHECK(op) \
	if (!ref_ops.op) return ERR(e, NH_ERR_UNSUPPORTED, "ref: has no %s", #op);
	OP_LIST(REF_CHECK)
#undef REF_CHECK
	if (num->rounding == NUM_ROUND_EAGER && num->w4a4 == NUM_W4A4_NATIVE)
		return ERR(e, NH_ERR_UNSUPPORTED,
		    "ref: profile %s: rounding eager with native W4A4 is not in this arm, expected exact, exact-wo, portable or hopper", num->name);
	if (num->rounding == NUM_ROUND_NONE && (num->fp8_sums == NUM_SUMS_HOPPER || num->fp8_attention == NUM_ATTN_FA3))
		return ERR(e, NH_ERR_UNSUPPORTED, "ref: profile %s: a machine's FP8 sums or attention without rounding, expected rounding eager",
		    num->name);
	ref_exec *r = mem_alloc(sizeof *r);
	if (!r) return ERR_NOMEM(e);
	r->x = (exec){.ops = &ref_ops,
	    .arm = "ref",
	    .tier = "ref",
	    .num = num,
	    .types = exec_types_of(num, NUM_F64),
	    .layer = -1,
	    .self = &r->self,
	    .backend = &ref_backend};
	*out = &r->x;
	return NH_OK;
}

static void ref_close(exec *x)
{
	if (!x) return;
	ref_work_free(x->self);
	mem_free((ref_exec *)x); /* x is its first member */
}

static bool positive(float v) { return isfinite(v) && v > 0.0f; }

nh_status ref_kernel_check(const exec *x, const weight *w, const ref_kernel **out, nh_error *e)
{
	const char *name = w->name ? w->name : "weight", *scheme = num_scheme_name(w->scheme);
	const ref_kernel *kernel = ref_kernel_of(x->num, w->scheme, w->dtype);
	if (!kernel)
		return ERR(e, NH_ERR_UNSUPPORTED, "%s: %s: scheme %s of %s elements under profile %s", x->arm, name, scheme,
		    num_dtype_name(w->dtype), x->num->name);
	const int64_t multiple = wfmt_of(w->scheme)->k_multiple;
	size_t elements;
	if (w->n < 1 || w->k < 1 || !mem_mul((size_t)w->n, (size_t)w->k, &elements) || elements > SIZE_MAX / 16)
		return ERR(e, NH_ERR_TENSOR, "%s: %s: shape [%lld, %lld]", x->arm, name, (long long)w->n, (long long)w->k);
	if (w->k % multiple)
		return ERR(e, NH_ERR_TENSOR, "%s: %s: %lld columns, %s needs a multiple of %lld", x->arm, name, (long long)w->k, scheme,
		    (long long)multiple);
	const bool fp4 = w->scheme == NUM_SCHEME_NVFP4 || w->scheme == NUM_SCHEME_W4A16;
	if (!w->data || (fp4 && !w->block_scale))
		return ERR(e, NH_ERR_TENSOR, "%s: %s: no %s", x->arm, name, w->data ? "block scales" : "data");
	if (w->scheme == NUM_SCHEME_NONE ? w->scale != 1.0f : !positive(w->scale))
		return ERR(e, NH_ERR_TENSOR, "%s: %s: weight scale %g, %s", x->arm, name, (double)w->scale,
		    w->scheme == NUM_SCHEME_NONE ? "expected 1 (unquantised)" : "expected a positive number");
	if (kernel->grid && !positive(w->input_scale))
		return ERR(e, NH_ERR_TENSOR, "%s: %s: input scale %g, expected a positive number", x->arm, name, (double)w->input_scale);
	*out = kernel;
	return NH_OK;
}

static nh_status ref_import(exec *x, weight *w, nh_error *e)
{
	const ref_kernel *kernel;
	TRY(ref_kernel_check(x, w, &kernel, e));
	w->bound = kernel;
	return NH_OK;
}

static void ref_release(exec *x, weight *w)
{
	(void)x;
	w->bound = NULL;
}

static void *ref_alloc(exec *x, size_t bytes)
{
	(void)x;
	return mem_alloc(bytes); /* fresh pages of the system are zero already: a large pool costs nothing until it is touched */
}

static void ref_free(exec *x, void *p)
{
	(void)x;
	mem_free(p);
}

static nh_status ref_upload(exec *x, void *to, const void *from, size_t bytes, nh_error *e)
{
	(void)e;
	if (bytes) memcpy(to, from, bytes);
	x->counters.bytes_uploaded += bytes;
	return NH_OK;
}

static nh_status ref_download(exec *x, void *to, const void *from, size_t bytes, nh_error *e)
{
	(void)x, (void)e;
	if (bytes) memcpy(to, from, bytes);
	return NH_OK;
}

const backend ref_backend = {
    .name = "ref",
    .default_profile = "portable",
    .host_memory = true,
    .open = ref_open,
    .close = ref_close,
    .import = ref_import,
    .release = ref_release,
    .alloc = ref_alloc,
    .free = ref_free,
    .upload = ref_upload,
    .download = ref_download,
};
