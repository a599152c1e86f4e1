/* SPDX-License-Identifier: Apache-2.0
 * ref_slot.h: the checks of slot and segment values that the recurrent ops share. Internal to the room.
 */
#ifndef REF_REF_SLOT_H
#define REF_REF_SLOT_H

#include "backend/ref/ref.h"

/* `what` i reads slot `in` (-1: none) and writes slot `out`, of `slots`. False: the exec has failed. */
static inline bool ref_slots(exec *x, op_id op, const char *what, int64_t i, int32_t in, int32_t out, int64_t slots)
{
	if (in >= -1 && in < slots && out >= 0 && out < slots) return true;
	exec_fail(x, op, NH_ERR_ARG, "%s %lld reads slot %d and writes slot %d, expected -1 .. %lld and 0 .. %lld", what, (long long)i, in, out,
	    (long long)slots - 1, (long long)slots - 1);
	return false;
}

/* Rows [from, to) of segment s, counted from the first segment's first row; `rows` is how many the call has. */
static inline bool ref_segment(exec *x, op_id op, const tensor *seg_row, int64_t s, int64_t rows, int64_t *from, int64_t *to)
{
	*from = (int64_t)ref_i32(seg_row, s) - ref_i32(seg_row, 0);
	*to = (int64_t)ref_i32(seg_row, s + 1) - ref_i32(seg_row, 0);
	if (*from >= 0 && *from <= *to && *to <= rows) return true;
	exec_fail(
	    x, op, NH_ERR_ARG, "segment %lld has rows %lld to %lld of %lld", (long long)s, (long long)*from, (long long)*to, (long long)rows);
	return false;
}

#endif
