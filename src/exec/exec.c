/* SPDX-License-Identifier: Apache-2.0
 * exec.c: the sticky error, counters, types and scratch of any exec. Knows no arm.
 * The invariant that breaks first: the first failure stays until exec_clear.
 */
#include "exec/exec.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void exec_fail(exec *x, op_id op, nh_status status, const char *format, ...)
{
	if (x->status != NH_OK) return;
	char text[768], where[64] = "";
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	if (x->layer >= 0) snprintf(where, sizeof where, ", layer %d", x->layer);
	const char *name = (unsigned)op < OP_COUNT ? op_name(op) : "scratch";
	x->status = ERR(&x->error, status == NH_OK ? NH_ERR_INTERNAL : status, "%s: %s%s: %s", x->arm ? x->arm : "?", name, where, text);
}

nh_status exec_status(const exec *x, nh_error *e)
{
	if (x->status != NH_OK && e) *e = x->error;
	return x->status;
}

void exec_clear(exec *x)
{
	for (; x; x = x->inner) {
		x->status = NH_OK;
		memset(&x->error, 0, sizeof x->error);
	}
}

void exec_reset_counters(exec *x)
{
	for (; x; x = x->inner) memset(&x->counters, 0, sizeof x->counters);
}

void exec_count(exec *x, op_id op, const void *args)
{
	if ((unsigned)op >= OP_COUNT) return;
	op_desc d;
	op_cost c;
	op_describe(op, args, &d);
	op_cost_of(op, args, 0, &c);
	op_counter *n = &x->counters.op[op];
	n->calls++;
	n->rows += (uint64_t)d.rows;
	n->bytes += c.weight_bytes + c.state_bytes + c.activation_bytes;
}

exec_types exec_types_of(const nh_numerics *num, num_dtype exact)
{
	if (num->rounding == NUM_ROUND_NONE)
		return (exec_types){.act = exact, .wide = exact, .conv_state = exact, .ssm_state = exact, .kv = exact};
	return (exec_types){.act = NUM_BF16, .wide = NUM_F32, .conv_state = NUM_BF16, .ssm_state = NUM_F32, .kv = NUM_BF16};
}

/* Where there is no memory the tensor keeps its shape with data NULL, so that views into it stay legal until the step looks at the status. */
static tensor scratch(exec *x, tensor t)
{
	size_t bytes = t.room; /* 0: nothing, or more than can be counted */
	if (x->status != NH_OK) return t;
	if (!x->scratch) {
		exec_fail(x, OP_COUNT, NH_ERR_STATE, "the exec has no scratch");
	} else if (bytes == 0 && !tensor_size(t.dtype, t.rank, t.shape, &bytes)) {
		exec_fail(x, OP_COUNT, NH_ERR_LIMIT, "a shape is negative or too large");
	} else if ((t.data = arena_alloc(x->scratch, bytes)) == NULL) {
		exec_fail(x, OP_COUNT, NH_ERR_NOMEM, "%zu bytes wanted, %zu of %zu in use", bytes, x->scratch->used, x->scratch->cap);
	}
	return t;
}

tensor exec_scratch(exec *x, num_dtype dtype, int64_t rows, int64_t cols) { return scratch(x, tensor_2d(NULL, dtype, rows, cols)); }

tensor exec_scratch3(exec *x, num_dtype dtype, int64_t a, int64_t b, int64_t c)
{
	const int64_t shape[] = {a, b, c};
	return scratch(x, tensor_nd(NULL, dtype, 3, shape));
}
