/* SPDX-License-Identifier: Apache-2.0
 * op_help.h: what the families' describe, cost and check functions share. Internal to the room. Reads shapes, strides, types and
 * addresses as numbers; never what lies at them.
 * The invariant that breaks first: helpers take any operand, NULL and rank 0 included, since a check meets broken calls first.
 */
#ifndef OP_OP_HELP_H
#define OP_OP_HELP_H

#include "base/base_status.h"
#include "op/op.h"

/* Sets of element types, a bit each. */
#define OP_BIT(type) (1u << (type))
#define OP_WIDE (OP_BIT(NUM_F64) | OP_BIT(NUM_F32))
#define OP_FLOAT (OP_WIDE | OP_BIT(NUM_F16) | OP_BIT(NUM_BF16))
#define OP_ANY (OP_BIT(NUM_DTYPE_COUNT) - 1u - OP_BIT(NUM_NONE))

/* An operand counts as absent where the pointer is NULL or the tensor is all zeros; data alone may be NULL (shapes without memory). */
static inline bool op_given(const tensor *t) { return t && (t->data || t->rank); }
/* Dimension i, -1 where there is none. */
static inline int64_t op_dim(const tensor *t, int i) { return op_given(t) && i < t->rank && i < TENSOR_RANK ? t->shape[i] : -1; }

/* describe */
void op_put(op_desc *d, const char *field, const tensor *t, bool in, bool out);
#define OP_IN(field) op_put(d, #field, a->field, true, false)
#define OP_OUT(field) op_put(d, #field, a->field, false, true)
#define OP_INOUT(field) op_put(d, #field, a->field, true, true)

/* cost: sizes of any operand, 0 where absent */
uint64_t op_rows(const tensor *t);      /* first dimension */
uint64_t op_count(const tensor *t);     /* elements */
uint64_t op_bytes(const tensor *t);     /* bytes of the elements */
uint64_t op_row_bytes(const tensor *t); /* bytes of one line of the first dimension: a slot, a page, a row */

/* check: the first objection stays */
typedef struct op_checker {
	char *text; /* borrow; 256 bytes */
	bool failed;
} op_checker;

void op_object(op_checker *c, const char *format, ...) BASE_PRINTF(2, 3);
/* A required operand of this shape (-1: any extent), one of these types, last stride 1, no line over another, inside its room. */
void op_expect(op_checker *c, const char *field, const tensor *t, unsigned types, int rank, const int64_t *shape);
void op_expect_any_shape(op_checker *c, const char *field, const tensor *t, unsigned types);
void op_same_type(op_checker *c, const char *field, const tensor *t, const char *as, const tensor *other);
void op_expect_weight(op_checker *c, const char *field, const weight *w, int64_t n, int64_t k);
void op_expect_pages(op_checker *c, const kv_pages *pages, int64_t page_tokens, int64_t kv_heads, int64_t head_dim);
/* No output touches another operand; `in_place`: an output may be exactly one of the inputs. Returns the text or NULL. */
const char *op_apart(op_checker *c, const op_desc *d, bool in_place);

#define OP_SHAPE(...) \
	(int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) { __VA_ARGS__ }
#define OP_NEED(field, types, ...) op_expect(&c, #field, a->field, types, OP_SHAPE(__VA_ARGS__))
#define OP_MAY(field, types, ...)                                   \
	do {                                                            \
		if (op_given(a->field)) OP_NEED(field, types, __VA_ARGS__); \
	} while (0)
#define OP_SAME(field, as) op_same_type(&c, #field, a->field, #as, a->as)
#define OP_REQUIRE(condition, ...)                                 \
	do {                                                           \
		if (!c.failed && !(condition)) op_object(&c, __VA_ARGS__); \
	} while (0)
#define OP_FINISH(name, in_place)              \
	do {                                       \
		if (c.failed) return text;             \
		op_desc desc_;                         \
		op_describe_##name(a, &desc_);         \
		return op_apart(&c, &desc_, in_place); \
	} while (0)

#endif
