/* SPDX-License-Identifier: Apache-2.0
 * jinja_tests.c: what may follow `is`. Undefined values answer as Jinja's Undefined does: iterable, callable and a sequence, of length 0. What
 * breaks first: `sequence`, which asks for a length and for subscripts, so that dict views and generators are none.
 */
#include "base/base_mem.h"
#include "chat/jinja.h"
#include "chat/jinja_text.h"

enum {
	IS_DEFINED,
	IS_UNDEFINED,
	IS_NONE,
	IS_BOOLEAN,
	IS_TRUE,
	IS_FALSE,
	IS_INTEGER,
	IS_FLOAT,
	IS_NUMBER,
	IS_STRING,
	IS_MAPPING,
	IS_SEQUENCE,
	IS_ITERABLE,
	IS_CALLABLE,
	IS_LOWER,
	IS_UPPER,
	IS_ODD,
	IS_EVEN,
	IS_DIVISIBLE, /* from here on with one argument */
	IS_IN,
	IS_EQ,
	IS_NE,
	IS_LT,
	IS_LE,
	IS_GT,
	IS_GE,
	IS_SAME,
};

static const struct {
	const char *name;
	int id;
} TESTS[] = {{"defined", IS_DEFINED}, {"undefined", IS_UNDEFINED}, {"none", IS_NONE}, {"boolean", IS_BOOLEAN}, {"true", IS_TRUE},
    {"false", IS_FALSE}, {"integer", IS_INTEGER}, {"float", IS_FLOAT}, {"number", IS_NUMBER}, {"string", IS_STRING},
    {"mapping", IS_MAPPING}, {"sequence", IS_SEQUENCE}, {"iterable", IS_ITERABLE}, {"callable", IS_CALLABLE}, {"lower", IS_LOWER},
    {"upper", IS_UPPER}, {"odd", IS_ODD}, {"even", IS_EVEN}, {"divisibleby", IS_DIVISIBLE}, {"in", IS_IN}, {"eq", IS_EQ},
    {"equalto", IS_EQ}, {"==", IS_EQ}, {"ne", IS_NE}, {"!=", IS_NE}, {"lt", IS_LT}, {"lessthan", IS_LT}, {"<", IS_LT}, {"le", IS_LE},
    {"<=", IS_LE}, {"gt", IS_GT}, {"greaterthan", IS_GT}, {">", IS_GT}, {"ge", IS_GE}, {">=", IS_GE}, {"sameas", IS_SAME}};

int jinja_test_id(jv name)
{
	for (size_t i = 0; i < ARRAY_LEN(TESTS); i++)
		if (jv_is(name, TESTS[i].name)) return TESTS[i].id;
	return -1;
}

bool jinja_test_known(jv name)
{
	return jinja_test_id(name) >= 0 || jv_is(name, "escaped") || jv_is(name, "filter") || jv_is(name, "test");
}

static bool all_case(jenv *env, jv in, bool upper, bool *out)
{
	jv s;
	if (!jv_to_str(env, in, &s)) return false;
	if (!jtext_ascii(s.u.s, s.n))
		return jenv_fail(env, "test '%s' on a text that is not ASCII is not supported", upper ? "upper" : "lower");
	bool some = false, wrong = false;
	for (uint32_t i = 0; i < s.n; i++) {
		bool is_upper = s.u.s[i] >= 'A' && s.u.s[i] <= 'Z', is_lower = s.u.s[i] >= 'a' && s.u.s[i] <= 'z';
		some = some || (upper ? is_upper : is_lower);
		wrong = wrong || (upper ? is_lower : is_upper);
	}
	*out = some && !wrong;
	return jenv_step(env, s.n / 16);
}

static bool remainder_is(jenv *env, jv in, jv divisor, int64_t want, bool *out)
{
	jv m;
	return jinja_binary(env, T_MOD, in, divisor, &m) && jv_equal(env, m, jv_int(want), out);
}

static bool same_object(jenv *env, jv a, jv b, bool *out)
{
	if (a.kind != JV_NONE && a.kind != JV_BOOL && b.kind != JV_NONE && b.kind != JV_BOOL)
		return jenv_fail(env, "test 'sameas' with anything but true, false and none is not supported");
	*out = a.kind == b.kind && (a.kind == JV_NONE || a.u.b == b.u.b);
	return true;
}

static bool with_argument(jenv *env, int id, jv in, jv arg, bool *out)
{
	bool ok = true;
	switch (id) {
	case IS_DIVISIBLE: return remainder_is(env, in, arg, 0, out);
	case IS_IN: return jv_contains(env, in, arg, out);
	case IS_EQ: return jv_equal(env, in, arg, out);
	case IS_LT: return jv_less(env, in, arg, "<", out);
	case IS_GT: return jv_less(env, arg, in, ">", out);
	case IS_SAME: return same_object(env, in, arg, out);
	case IS_NE: ok = jv_equal(env, in, arg, out); break;
	case IS_LE: ok = jv_less(env, arg, in, "<=", out); break;
	default: ok = jv_less(env, in, arg, ">=", out); break;
	}
	if (ok) *out = !*out; /* a comparison that failed left nothing there */
	return ok;
}

bool jinja_test(jenv *env, int id, jv in, const jargs *args, bool *out)
{
	if (args->nnamed) return jenv_fail(env, "named arguments of tests are not supported");
	if (args->n != (id >= IS_DIVISIBLE)) return jenv_fail(env, "a test got %u arguments, expected %d", args->n, id >= IS_DIVISIBLE);
	if (id >= IS_DIVISIBLE) return with_argument(env, id, in, args->pos[0], out);
	jv_kind k = (jv_kind)in.kind;
	switch (id) {
	case IS_DEFINED: *out = k != JV_UNDEF; break;
	case IS_UNDEFINED: *out = k == JV_UNDEF; break;
	case IS_NONE: *out = k == JV_NONE; break;
	case IS_BOOLEAN: *out = k == JV_BOOL; break;
	case IS_TRUE: *out = k == JV_BOOL && in.u.b; break;
	case IS_FALSE: *out = k == JV_BOOL && !in.u.b; break;
	case IS_INTEGER: *out = k == JV_INT; break;
	case IS_FLOAT: *out = k == JV_FLOAT; break;
	case IS_NUMBER: *out = jv_number(in); break;
	case IS_STRING: *out = k == JV_STR; break;
	case IS_MAPPING: *out = k == JV_DICT; break;
	case IS_SEQUENCE: *out = k == JV_UNDEF || k == JV_STR || k == JV_LIST || k == JV_TUPLE || k == JV_DICT || k == JV_RANGE; break;
	case IS_ITERABLE: *out = jv_iterable(in); break;
	case IS_CALLABLE: *out = k == JV_UNDEF || k == JV_LOOP || k == JV_MACRO || k == JV_FUNC || k == JV_METHOD; break;
	case IS_LOWER:
	case IS_UPPER: return all_case(env, in, id == IS_UPPER, out);
	case IS_ODD: return remainder_is(env, in, jv_int(2), 1, out);
	default: return remainder_is(env, in, jv_int(2), 0, out);
	}
	return true;
}
