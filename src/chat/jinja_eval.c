/* SPDX-License-Identifier: Apache-2.0
 * jinja_eval.c: expressions to values, calls, and assignment to targets. Operands are evaluated in Python's order; and, or and
 * chained comparisons stop early. Knows nothing of output. What breaks first: env->line, which must name the node that failed.
 */
#include <inttypes.h>

#include "chat/jinja.h"
#include "chat/jinja_text.h"

static jv *slot(jenv *env, const jnode *n) { return (n->flag ? env->root : env->local) + n->slot; }

static bool eval_list(jenv *env, const jnode *n, jv *out)
{
	jv *items = jenv_alloc(env, n->nkids, sizeof *items);
	bool ok = items != NULL;
	for (uint32_t i = 0; ok && i < n->nkids; i++) ok = jinja_eval(env, n->kids[i], &items[i]);
	*out = (jv){.kind = n->kind == N_TUPLE ? JV_TUPLE : JV_LIST, .n = n->nkids, .u.items = items};
	return ok;
}

static bool eval_dict(jenv *env, const jnode *n, jv *out)
{
	struct jnamespace d = {0};
	for (uint32_t i = 0; i + 1 < n->nkids; i += 2) {
		jv k, v;
		if (!jinja_eval(env, n->kids[i], &k) || !jinja_eval(env, n->kids[i + 1], &v) || !jnamespace_put(env, &d, k, v)) return false;
	}
	*out = (jv){.kind = JV_DICT, .n = d.n, .u.pairs = d.pairs};
	return true;
}

static bool eval_logic(jenv *env, const jnode *n, jv *out)
{
	bool truth;
	if (!jinja_eval(env, n->a, out) || !jv_truth(env, *out, &truth)) return false;
	return truth == (n->kind == N_OR) || jinja_eval(env, n->b, out);
}

static bool compare(jenv *env, int op, jv a, jv b, bool *out)
{
	bool ok = true;
	switch (op) {
	case T_EQ: return jv_equal(env, a, b, out);
	case T_NE: ok = jv_equal(env, a, b, out); break;
	case T_LT: return jv_less(env, a, b, "<", out);
	case T_GT: return jv_less(env, b, a, ">", out);
	case T_GE: ok = jv_less(env, a, b, ">=", out); break;
	case T_LE: ok = jv_less(env, b, a, "<=", out); break;
	case J_IN: return jv_contains(env, a, b, out);
	default: ok = jv_contains(env, a, b, out); break;
	}
	*out = !*out;
	return ok;
}

static bool eval_compare(jenv *env, const jnode *n, jv *out)
{
	jv a, b;
	bool result = true;
	if (!jinja_eval(env, n->a, &a)) return false;
	for (uint32_t i = 0; result && i < n->nkids; i++) {
		if (!jinja_eval(env, n->kids[i], &b)) return false;
		if (!compare(env, n->ops[i], a, b, &result)) return false;
		a = b;
	}
	*out = jv_bool(result);
	return true;
}

static bool eval_concat(jenv *env, const jnode *n, jv *out)
{
	jv few[8], *parts = n->nkids <= 8 ? few : jenv_alloc(env, n->nkids, sizeof *parts);
	bool ok = parts != NULL;
	for (uint32_t i = 0; ok && i < n->nkids; i++) ok = jinja_eval(env, n->kids[i], &parts[i]);
	for (uint32_t i = 0; ok && i < n->nkids; i++) ok = jv_to_str(env, parts[i], &parts[i]);
	return ok && jenv_join(env, parts, n->nkids, out);
}

static bool eval_condition(jenv *env, const jnode *n, jv *out)
{
	bool truth;
	if (!jinja_eval(env, n->a, out) || !jv_truth(env, *out, &truth)) return false;
	if (truth) return jinja_eval(env, n->b, out);
	if (n->c) return jinja_eval(env, n->c, out);
	buf b = {0};
	jv hint;
	buf_printf(&b, "the inline if-expression on line %" PRIu32 " evaluated to false and no else section was defined.", n->line);
	buf_char(&b, 0);
	return jenv_take(env, &b, &hint) && jv_undef_hint(env, hint.u.s, out);
}

static bool eval_sign(jenv *env, const jnode *n, jv *out)
{
	if (!jinja_eval(env, n->a, out)) return false;
	bool minus = n->kind == N_NEG;
	if (out->kind == JV_UNDEF) return jv_undefined_error(env, *out);
	if (!jv_number(*out)) return jenv_fail(env, "bad operand type for unary %c: '%s'", minus ? '-' : '+', jv_type(*out));
	if (out->kind == JV_FLOAT) return *out = (jv){.kind = JV_FLOAT, .u.d = minus ? -out->u.d : out->u.d}, true;
	return minus ? jinja_binary(env, T_SUB, jv_int(0), *out, out) : jinja_binary(env, T_ADD, jv_int(0), *out, out);
}

bool jinja_eval_args(jenv *env, const jnode *n, jargs *out)
{
	jv *pos = jenv_alloc(env, n->nkids, sizeof *pos);
	jarg *named = pos ? jenv_alloc(env, n->nkeywords, sizeof *named) : NULL;
	bool ok = named != NULL;
	for (uint32_t i = 0; ok && i < n->nkids; i++) ok = jinja_eval(env, n->kids[i], &pos[i]);
	for (uint32_t i = 0; ok && i < n->nkeywords; i++) {
		named[i].name = n->keywords[i].name;
		ok = jinja_eval(env, n->keywords[i].value, &named[i].value);
	}
	*out = (jargs){.pos = pos, .named = named, .n = n->nkids, .nnamed = n->nkeywords};
	return ok;
}

static bool unknown(jenv *env, const jnode *n, const char *what, bool in_jinja)
{
	int len = n->value.n < 60 ? (int)n->value.n : 60;
	if (in_jinja) return jenv_fail(env, "%s '%.*s' is not supported", what, len, n->value.u.s);
	return jenv_fail(env, "No %s named '%.*s' found.", what, len, n->value.u.s);
}

static bool eval_filter(jenv *env, const jnode *n, jv *out)
{
	if (n->id < 0) return unknown(env, n, "filter", jinja_filter_known(n->value));
	jv in;
	jargs args;
	if (!n->a) return jenv_fail(env, "a filter without input");
	if (!jinja_eval(env, n->a, &in) || !jinja_eval_args(env, n, &args)) return false;
	env->line = n->line;
	return jinja_filter(env, n->id, in, &args, out);
}

static bool eval_test(jenv *env, const jnode *n, jv *out)
{
	if (n->id < 0) return unknown(env, n, "test", jinja_test_known(n->value));
	jv in;
	jargs args;
	bool result;
	if (!jinja_eval(env, n->a, &in) || !jinja_eval_args(env, n, &args)) return false;
	env->line = n->line;
	if (!jinja_test(env, n->id, in, &args, &result)) return false;
	*out = jv_bool(result);
	return true;
}

static bool eval_call(jenv *env, const jnode *n, jv *out)
{
	jv callee;
	jargs args;
	if (!jinja_eval(env, n->a, &callee) || !jinja_eval_args(env, n, &args)) return false;
	env->line = n->line;
	return jinja_call(env, callee, &args, out);
}

static bool eval_inner(jenv *env, const jnode *n, jv *out)
{
	jv a, part[3];
	bool truth;
	switch ((jnode_kind)n->kind) {
	case N_CONST: *out = n->value; return true;
	case N_NAME: {
		const jv *v = slot(env, n);
		if (v->kind != JV_MISSING) return *out = *v, true;
		return jv_undef(env, NULL, env->t->names[n->name], out);
	}
	case N_LIST:
	case N_TUPLE: return eval_list(env, n, out);
	case N_DICT: return eval_dict(env, n, out);
	case N_NOT:
		if (!jinja_eval(env, n->a, &a) || !jv_truth(env, a, &truth)) return false;
		*out = jv_bool(!truth);
		return true;
	case N_NEG:
	case N_POS: return eval_sign(env, n, out);
	case N_AND:
	case N_OR: return eval_logic(env, n, out);
	case N_BINARY:
		return jinja_eval(env, n->a, &part[0]) && jinja_eval(env, n->b, &part[1]) && jinja_binary(env, n->op, part[0], part[1], out);
	case N_CONCAT: return eval_concat(env, n, out);
	case N_COMPARE: return eval_compare(env, n, out);
	case N_CONDITION: return eval_condition(env, n, out);
	case N_ATTR: return jinja_eval(env, n->a, &a) && jinja_getattr(env, a, n->value, out);
	case N_ITEM: return jinja_eval(env, n->a, &a) && jinja_eval(env, n->b, &part[0]) && jinja_getitem(env, a, part[0], out);
	case N_SLICE:
		if (!jinja_eval(env, n->a, &a)) return false;
		for (int i = 0; i < 3; i++) {
			part[i] = jv_of(JV_MISSING);
			if (n->kids[i] && !jinja_eval(env, n->kids[i], &part[i])) return false;
		}
		return jinja_slice(env, a, part[0], part[1], part[2], out);
	case N_CALL: return eval_call(env, n, out);
	case N_FILTER: return eval_filter(env, n, out);
	case N_TEST: return eval_test(env, n, out);
	default: return jenv_fail(env, "not an expression");
	}
}

bool jinja_eval(jenv *env, const jnode *n, jv *out)
{
	if (!jenv_step(env, 1) || !jenv_enter(env)) return false;
	env->line = n->line;
	bool ok = eval_inner(env, n, out);
	jenv_leave(env);
	return ok;
}

/* ---- assignment ---- */

static bool unpack(jenv *env, const jnode *target, jv value)
{
	jiter *it;
	if (!jv_iterable(value)) return jenv_fail(env, "cannot unpack non-iterable %s object", jv_type(value));
	if (!jv_iter(env, value, &it)) return false;
	jv *items = jenv_alloc(env, target->nkids, sizeof *items), extra;
	if (!items) return false;
	for (uint32_t i = 0; i < target->nkids; i++) {
		int more = jiter_next(env, it, &items[i]);
		if (more < 0) return false;
		if (!more) return jenv_fail(env, "not enough values to unpack (expected %" PRIu32 ", got %" PRIu32 ")", target->nkids, i);
	}
	int more = jiter_next(env, it, &extra);
	if (more < 0) return false;
	if (more) return jenv_fail(env, "too many values to unpack (expected %" PRIu32 ")", target->nkids);
	for (uint32_t i = 0; i < target->nkids; i++)
		if (!jinja_assign(env, target->kids[i], items[i])) return false;
	return true;
}

bool jinja_assign(jenv *env, const jnode *target, jv value)
{
	if (target->kind == N_TUPLE) return unpack(env, target, value);
	jv *s = slot(env, target);
	if (target->kind == N_NAME) return *s = value, true;
	if (s->kind != JV_NAMESPACE) return jenv_fail(env, "cannot assign attribute on non-namespace object");
	if (target->value.u.s[0] == '_') return jenv_fail(env, "a namespace cannot store attributes that start with an underscore");
	return jnamespace_put(env, s->u.ns, target->value, value);
}

/* ---- calls ---- */

bool jinja_bind(jenv *env, const char *what, const jargs *args, const char *const *params, int required, jv *values)
{
	uint32_t n = 0;
	while (params[n]) values[n++] = jv_of(JV_MISSING);
	if (args->n > n) return jenv_fail(env, "%s takes at most %" PRIu32 " arguments (%" PRIu32 " given)", what, n, args->n);
	for (uint32_t i = 0; i < args->n; i++) values[i] = args->pos[i];
	for (uint32_t k = 0; k < args->nnamed; k++) {
		jv name = args->named[k].name;
		uint32_t i = 0;
		while (i < n && !jv_is(name, params[i])) i++;
		int len = name.n < 60 ? (int)name.n : 60;
		if (i == n) return jenv_fail(env, "%s got an unexpected keyword argument '%.*s'", what, len, name.u.s);
		if (values[i].kind != JV_MISSING) return jenv_fail(env, "%s got multiple values for argument '%.*s'", what, len, name.u.s);
		values[i] = args->named[k].value;
	}
	for (int i = 0; i < required; i++)
		if (values[i].kind == JV_MISSING) return jenv_fail(env, "%s misses the argument '%s'", what, params[i]);
	return true;
}

static bool call_range(jenv *env, const jargs *a, jv *out)
{
	int64_t v[3] = {0, 0, 1};
	if (a->nnamed) return jenv_fail(env, "range() takes no keyword arguments");
	if (a->n < 1 || a->n > 3) return jenv_fail(env, "range expected 1 to 3 arguments, got %" PRIu32, a->n);
	for (uint32_t i = 0; i < a->n; i++) {
		if (a->pos[i].kind != JV_INT && a->pos[i].kind != JV_BOOL)
			return jenv_fail(env, "'%s' object cannot be interpreted as an integer", jv_type(a->pos[i]));
		v[a->n == 1 ? 1 : i] = jv_integer(a->pos[i]);
	}
	if (v[2] == 0) return jenv_fail(env, "range() arg 3 must not be zero");
	/* Differences as unsigned: the span of two 64-bit integers may take 64 bits. */
	bool up = v[2] > 0, empty = up ? v[1] <= v[0] : v[1] >= v[0];
	uint64_t span = up ? (uint64_t)v[1] - (uint64_t)v[0] : (uint64_t)v[0] - (uint64_t)v[1];
	uint64_t step = up ? (uint64_t)v[2] : 0 - (uint64_t)v[2], count = empty ? 0 : (span - 1) / step + 1;
	if (count > 100000) return jenv_fail(env, "Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000).");
	for (int i = 0; i < 3; i++)
		if (v[i] > INT64_MAX / 200000 || v[i] < INT64_MIN / 200000) return jenv_fail(env, "a range of numbers over 2**45 is not supported");
	struct jrange *r = jenv_alloc(env, 1, sizeof *r);
	if (!r) return false;
	*r = (struct jrange){v[0], v[1], v[2]};
	*out = (jv){.kind = JV_RANGE, .n = (uint32_t)count, .u.range = r};
	return true;
}

static bool put_pairs(jenv *env, struct jnamespace *d, jv from)
{
	if (from.kind == JV_DICT) {
		for (uint32_t i = 0; i < from.n; i++)
			if (!jnamespace_put(env, d, from.u.pairs[i].k, from.u.pairs[i].v)) return false;
		return true;
	}
	jiter *it;
	if (!jv_iter(env, from, &it)) return false;
	for (uint32_t i = 0;; i++) {
		jv item, pair;
		int more = jiter_next(env, it, &item);
		if (more <= 0) return more == 0;
		if (!jv_iterable(item)) return jenv_fail(env, "cannot convert dictionary update sequence element #%" PRIu32 " to a sequence", i);
		if (!jv_list(env, item, &pair)) return false;
		if (pair.n != 2)
			return jenv_fail(env, "dictionary update sequence element #%" PRIu32 " has length %" PRIu32 "; 2 is required", i, pair.n);
		if (!jnamespace_put(env, d, pair.u.items[0], pair.u.items[1])) return false;
	}
}

/* dict(...) and namespace(...). */
static bool call_dict(jenv *env, bool space, const jargs *a, jv *out)
{
	struct jnamespace *d = jenv_alloc(env, 1, sizeof *d);
	if (!d) return false;
	if (a->n > 1) return jenv_fail(env, "dict expected at most 1 argument, got %" PRIu32, a->n);
	if (a->n == 1 && !put_pairs(env, d, a->pos[0])) return false;
	for (uint32_t i = 0; i < a->nnamed; i++)
		if (!jnamespace_put(env, d, a->named[i].name, a->named[i].value)) return false;
	for (uint32_t i = 0; space && i < d->n; i++)
		if (d->pairs[i].k.kind == JV_STR && d->pairs[i].k.n && d->pairs[i].k.u.s[0] == '_')
			return jenv_fail(env, "a namespace cannot store attributes that start with an underscore");
	if (space) *out = (jv){.kind = JV_NAMESPACE, .u.ns = d};
	else *out = (jv){.kind = JV_DICT, .n = d->n, .u.pairs = d->pairs};
	return true;
}

static bool call_raise(jenv *env, const jargs *a)
{
	jv message, text;
	if (!jinja_bind(env, "raise_exception()", a, (const char *const[]){"message", NULL}, 1, &message) || !jv_to_str(env, message, &text))
		return false;
	return jenv_fail(env, "%.*s", text.n < 800 ? (int)text.n : 800, text.u.s);
}

static bool call_strftime(jenv *env, const jargs *a, jv *out)
{
	jv format;
	if (!jinja_bind(env, "strftime_now()", a, (const char *const[]){"format", NULL}, 1, &format)) return false;
	if (format.kind != JV_STR) return jenv_fail(env, "strftime() argument 1 must be str, not %s", jv_type(format));
	if (!env->has_now) return jenv_fail(env, "strftime_now: the time was not given");
	return jinja_strftime(env, env->now, format, out);
}

bool jinja_call(jenv *env, jv callee, const jargs *args, jv *out)
{
	if (callee.kind == JV_UNDEF) return jv_undefined_error(env, callee);
	if (callee.kind == JV_MACRO) return jinja_call_macro(env, callee.u.macro, args, out);
	if (callee.kind == JV_METHOD) return jinja_call_method(env, callee.u.method->self, callee.u.method->name, args, out);
	if (callee.kind == JV_LOOP) return jenv_fail(env, "The loop must have the 'recursive' marker to be called recursively.");
	if (callee.kind != JV_FUNC) return jenv_fail(env, "'%s' object is not callable", jv_type(callee));
	switch ((enum jinja_func)callee.flag) {
	case F_RANGE: return call_range(env, args, out);
	case F_NAMESPACE: return call_dict(env, true, args, out);
	case F_DICT: return call_dict(env, false, args, out);
	case F_RAISE: return call_raise(env, args);
	case F_STRFTIME: return call_strftime(env, args, out);
	default: return jenv_fail(env, "cycler, joiner and lipsum are not supported");
	}
}
