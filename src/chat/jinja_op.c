/* SPDX-License-Identifier: Apache-2.0
 * jinja_op.c: arithmetic with Python's rules (floor division and modulo take the divisor's sign, integers are exact or refused past 64
 * bits, floats are finite or refused) and slices. What breaks first: true division of integers over 2^53, which Python rounds once and
 * C twice; it is refused.
 */
#include <inttypes.h>
#include <math.h>

#include "chat/jinja.h"
#include "chat/jinja_text.h"

static const char *op_text(int op)
{
	switch (op) {
	case T_ADD: return "+";
	case T_SUB: return "-";
	case T_MUL: return "*";
	case T_DIV: return "/";
	case T_FLOORDIV: return "//";
	case T_MOD: return "%";
	default: return "** or pow()";
	}
}

#define EXACT ((int64_t)1 << 53)

static bool exact(jenv *env, int64_t a, int64_t b)
{
	if (a <= EXACT && a >= -EXACT && b <= EXACT && b >= -EXACT) return true;
	return jenv_fail(env, "integers over 2**53 in a division or power with a fractional result are not supported");
}

static bool int_power(jenv *env, int64_t base, int64_t exponent, jv *out)
{
	if (exponent < 0) {
		if (base == 0) return jenv_fail(env, "0.0 cannot be raised to a negative power");
		return exact(env, base, exponent) && jv_float(env, pow((double)base, (double)exponent), out);
	}
	int64_t result = 1;
	bool over = false;
	while (exponent > 0 && !over) {
		if (exponent & 1) over = __builtin_mul_overflow(result, base, &result);
		exponent >>= 1;
		if (exponent && !over) over = __builtin_mul_overflow(base, base, &base);
	}
	if (over) return jenv_fail(env, "integer overflow in **");
	*out = jv_int(result);
	return true;
}

static bool int_op(jenv *env, int op, int64_t a, int64_t b, jv *out)
{
	int64_t r = 0;
	bool over = false;
	switch (op) {
	case T_ADD: over = __builtin_add_overflow(a, b, &r); break;
	case T_SUB: over = __builtin_sub_overflow(a, b, &r); break;
	case T_MUL: over = __builtin_mul_overflow(a, b, &r); break;
	case T_DIV:
		if (b == 0) return jenv_fail(env, "division by zero");
		return exact(env, a, b) && jv_float(env, (double)a / (double)b, out);
	case T_POW: return int_power(env, a, b, out);
	default:
		if (b == 0) return jenv_fail(env, op == T_MOD ? "integer modulo by zero" : "integer division or modulo by zero");
		if (b == -1) {
			if (op == T_FLOORDIV) over = __builtin_sub_overflow(0, a, &r);
			break;
		}
		int64_t q = a / b, m = a % b;
		if (m && (m < 0) != (b < 0)) q--, m += b;
		r = op == T_MOD ? m : q;
	}
	if (over) return jenv_fail(env, "integer overflow in %s", op_text(op));
	*out = jv_int(r);
	return true;
}

static bool float_op(jenv *env, int op, double a, double b, jv *out)
{
	double r;
	switch (op) {
	case T_ADD: r = a + b; break;
	case T_SUB: r = a - b; break;
	case T_MUL: r = a * b; break;
	case T_DIV:
		if (b == 0) return jenv_fail(env, "float division by zero");
		r = a / b;
		break;
	case T_POW:
		if (a == 0 && b < 0) return jenv_fail(env, "0.0 cannot be raised to a negative power");
		if (a < 0 && b != floor(b)) return jenv_fail(env, "a fractional power of a negative number is complex, which is not supported");
		r = pow(a, b);
		break;
	default: {
		if (b == 0) return jenv_fail(env, op == T_MOD ? "float modulo" : "float floor division by zero");
		/* As CPython: the quotient from the exact remainder, so that both agree. */
		double m = fmod(a, b), q = (a - m) / b;
		if (m != 0 && (b < 0) != (m < 0)) m += b, q -= 1;
		else if (m == 0) m = copysign(0.0, b);
		double whole = q != 0 ? floor(q) : copysign(0.0, a / b);
		if (q != 0 && q - whole > 0.5) whole += 1;
		r = op == T_MOD ? m : whole;
	}
	}
	return jv_float(env, r, out);
}

static bool repeat(jenv *env, jv seq, int64_t times, jv *out)
{
	if (times <= 0 || seq.n == 0) times = 0;
	if (seq.n && times > (int64_t)(UINT32_MAX / seq.n)) return jenv_limit(env, "a repeated value in the template is too large");
	size_t n = seq.n, unit = seq.kind == JV_STR ? 1 : sizeof(jv);
	if (!jenv_step(env, (uint64_t)times * (1 + n / 64))) return false;
	char *m = jenv_alloc(env, times && n ? n * (size_t)times : 1, unit);
	if (!m) return false;
	for (int64_t i = 0; i < times; i++) memcpy(m + (size_t)i * n * unit, seq.u.s, n * unit); /* s and items are one pointer */
	*out = seq;
	out->u.s = m;
	out->n = (uint32_t)(n * (size_t)times);
	return true;
}

static bool sequence(jv v) { return v.kind == JV_STR || v.kind == JV_LIST || v.kind == JV_TUPLE; }

static bool add_items(jenv *env, jv a, jv b, jv *out)
{
	if (a.n > UINT32_MAX - b.n) return jenv_limit(env, "a list in the template is too large");
	jv *items = jenv_alloc(env, (size_t)a.n + b.n, sizeof *items);
	if (!items || !jenv_step(env, (uint64_t)a.n + b.n)) return false;
	if (a.n) memcpy(items, a.u.items, a.n * sizeof *items);
	if (b.n) memcpy(items + a.n, b.u.items, b.n * sizeof *items);
	*out = (jv){.kind = a.kind, .n = a.n + b.n, .u.items = items};
	return true;
}

bool jinja_binary(jenv *env, int op, jv a, jv b, jv *out)
{
	if ((a.kind == JV_STR && a.flag) || (b.kind == JV_STR && b.flag))
		return jenv_fail(env, "operator %s on a |safe string would escape HTML, which is not supported", op_text(op));
	if (op == T_MOD && a.kind == JV_STR) return jenv_fail(env, "string formatting with %% is not supported");
	if (a.kind == JV_UNDEF) return jv_undefined_error(env, a);
	if (b.kind == JV_UNDEF) return jv_undefined_error(env, b);
	if (jv_number(a) && jv_number(b)) {
		if (a.kind == JV_FLOAT || b.kind == JV_FLOAT) return float_op(env, op, jv_double(a), jv_double(b), out);
		return int_op(env, op, jv_integer(a), jv_integer(b), out);
	}
	if (op == T_ADD && a.kind == JV_STR && b.kind == JV_STR) return jenv_join(env, (const jv[]){a, b}, 2, out);
	if (op == T_ADD && a.kind == JV_STR) return jenv_fail(env, "can only concatenate str (not \"%s\") to str", jv_type(b));
	if (op == T_ADD && a.kind == b.kind && sequence(a)) return add_items(env, a, b, out);
	if (op == T_ADD && (a.kind == JV_LIST || a.kind == JV_TUPLE))
		return jenv_fail(env, "can only concatenate %s (not \"%s\") to %s", jv_type(a), jv_type(b), jv_type(a));
	if (op == T_MUL && sequence(a) && jv_number(b) && b.kind != JV_FLOAT) return repeat(env, a, jv_integer(b), out);
	if (op == T_MUL && sequence(b) && jv_number(a) && a.kind != JV_FLOAT) return repeat(env, b, jv_integer(a), out);
	if (op == T_MUL && (sequence(a) || sequence(b)))
		return jenv_fail(env, "can't multiply sequence by non-int of type '%s'", jv_type(sequence(a) ? b : a));
	if (a.kind == JV_VIEW || b.kind == JV_VIEW)
		return jenv_fail(env, "operator %s on %s is not supported", op_text(op), jv_type(a.kind == JV_VIEW ? a : b));
	return jenv_fail(env, "unsupported operand type(s) for %s: '%s' and '%s'", op_text(op), jv_type(a), jv_type(b));
}

/* ---- slices ---- */

static bool slice_index(jenv *env, jv v, int64_t fallback, int64_t *out)
{
	*out = fallback;
	if (v.kind == JV_MISSING || v.kind == JV_NONE) return true;
	if (v.kind != JV_INT && v.kind != JV_BOOL) return jenv_fail(env, "slice indices must be integers or None or have an __index__ method");
	*out = jv_integer(v);
	return true;
}

static int64_t clamp(int64_t v, int64_t n, int64_t step)
{
	if (v < 0) v = v < -n ? -1 : v + n;
	else if (v >= n) return step < 0 ? n - 1 : n;
	if (v < 0) return step < 0 ? -1 : 0;
	return v;
}

bool jinja_slice(jenv *env, jv obj, jv start, jv stop, jv step, jv *out)
{
	if (obj.kind == JV_UNDEF) return jv_undefined_error(env, obj);
	if (obj.kind == JV_DICT) return jenv_fail(env, "unhashable type: 'slice'");
	if (!sequence(obj) && obj.kind != JV_RANGE) return jenv_fail(env, "'%s' object is not subscriptable", jv_type(obj));
	int64_t from, to, by, n = obj.n;
	if (!slice_index(env, step, 1, &by)) return false;
	if (by == 0) return jenv_fail(env, "slice step cannot be zero");
	bool ascii = true;
	if (obj.kind == JV_STR && !(ascii = jtext_ascii(obj.u.s, obj.n))) n = (int64_t)jtext_count(obj.u.s, obj.n);
	if (!jenv_step(env, obj.kind == JV_STR ? obj.n / 64 : 0)) return false;
	if (!slice_index(env, start, by < 0 ? INT64_MAX : 0, &from) || !slice_index(env, stop, by < 0 ? INT64_MIN : INT64_MAX, &to))
		return false;
	from = clamp(from, n, by);
	to = to == INT64_MIN ? (by < 0 ? -1 : 0) : clamp(to, n, by);
	if (by > n) by = n + 1; /* a larger step takes the same one item */
	if (by < -n) by = -n - 1;
	int64_t count = by > 0 ? (to > from ? (to - from + by - 1) / by : 0) : (from > to ? (from - to - by - 1) / -by : 0);
	*out = obj;
	if (obj.kind == JV_RANGE) {
		struct jrange *r = jenv_alloc(env, 1, sizeof *r);
		if (!r) return false;
		const struct jrange *o = obj.u.range;
		*r = (struct jrange){o->start + from * o->step, o->start + to * o->step, o->step * by};
		out->u.range = r;
		out->n = (uint32_t)count;
		return true;
	}
	if (obj.kind == JV_STR && by == 1) {
		size_t first = ascii ? (size_t)from : jtext_offset(obj.u.s, obj.n, (size_t)from);
		size_t len = ascii ? (size_t)count : jtext_offset(obj.u.s + first, obj.n - first, (size_t)count);
		*out = jv_str(obj.u.s + first, count ? len : 0);
		out->flag = obj.flag;
		return true;
	}
	if (obj.kind != JV_STR && by == 1) {
		out->u.items = count ? obj.u.items + from : obj.u.items;
		out->n = (uint32_t)count;
		return true;
	}
	if (!jenv_step(env, (uint64_t)count)) return false;
	if (obj.kind != JV_STR) {
		jv *items = jenv_alloc(env, (size_t)count, sizeof *items);
		for (int64_t i = 0; items && i < count; i++) items[i] = obj.u.items[from + i * by];
		out->u.items = items;
		out->n = (uint32_t)count;
		return items != NULL;
	}
	jv chars;
	if (!jv_list(env, obj, &chars)) return false;
	buf b = {.limit = jenv_room(env)};
	for (int64_t i = 0; i < count; i++) buf_append(&b, chars.u.items[from + i * by].u.s, chars.u.items[from + i * by].n);
	bool ok = jenv_take(env, &b, out);
	out->flag = ok && obj.flag;
	return ok;
}
