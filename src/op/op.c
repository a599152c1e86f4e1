/* SPDX-License-Identifier: Apache-2.0
 * op.c: the list of ops by id. Knows no op by name but those that the list gives it.
 */
#include "op/op.h"

#include <stdio.h>
#include <string.h>

const char *op_name(op_id id)
{
	switch (id) {
#define NAME(name) \
	case OP_##name: return #name;
		OP_LIST(NAME)
#undef NAME
	case OP_COUNT: break;
	}
	return "?";
}

void op_describe(op_id id, const void *args, op_desc *d)
{
	switch (id) {
#define DESCRIBE(name) \
	case OP_##name: op_describe_##name(args, d); return;
		OP_LIST(DESCRIBE)
#undef DESCRIBE
	case OP_COUNT: break;
	}
	memset(d, 0, sizeof *d);
}

void op_cost_of(op_id id, const void *args, uint64_t context_tokens, op_cost *c)
{
	switch (id) {
#define COST(name) \
	case OP_##name: op_cost_##name(args, context_tokens, c); return;
		OP_LIST(COST)
#undef COST
	case OP_COUNT: break;
	}
	memset(c, 0, sizeof *c);
}

const char *op_check(op_id id, const void *args, char text[256])
{
	switch (id) {
#define CHECK(name) \
	case OP_##name: return op_check_##name(args, text);
		OP_LIST(CHECK)
#undef CHECK
	case OP_COUNT: break;
	}
	snprintf(text, 256, "op %d is not in the list", (int)id);
	return text;
}
