/* SPDX-License-Identifier: Apache-2.0
 * jinja_value.c: what values are and do, in Python's sense: type names, truth, equality, order, membership, length. The order of cases
 * is Python's: an undefined operand fails before types are looked at. What breaks first: integers beyond 2^53 against floats, which
 * are compared exactly here.
 */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/base_mem.h"
#include "chat/jinja.h"
#include "chat/jinja_text.h"

/* ---- the render's services ---- */

static bool fail(jenv *env, nh_status code, const char *format, va_list args)
{
	if (env->status != NH_OK) return false;
	char text[900];
	vsnprintf(text, sizeof text, format, args);
	env->status = ERR(env->e, code, "%s: line %" PRIu32 ": %s", env->t->name, env->line, text);
	return false;
}

bool jenv_fail(jenv *env, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	fail(env, NH_ERR_TEMPLATE, format, args);
	va_end(args);
	return false;
}

bool jenv_limit(jenv *env, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	fail(env, NH_ERR_LIMIT, format, args);
	va_end(args);
	return false;
}

bool jenv_step(jenv *env, uint64_t cost)
{
	if (env->status != NH_OK) return false;
	if (cost > env->step_limit - env->steps) return jenv_limit(env, "the template takes more than %" PRIu64 " steps", env->step_limit);
	env->steps += cost;
	return true;
}

bool jenv_enter(jenv *env)
{
	if (env->depth >= env->depth_limit) return jenv_limit(env, "the template nests deeper than %d levels", env->depth_limit);
	env->depth++;
	return true;
}

void jenv_leave(jenv *env) { env->depth--; }

size_t jenv_room(const jenv *env) { return env->memory_limit - env->used; }

void *jenv_alloc(jenv *env, size_t count, size_t size)
{
	size_t bytes, whole;
	if (!mem_mul(count, size, &bytes) || !mem_add(bytes, ARENA_ALIGN, &whole) || whole > jenv_room(env)) {
		jenv_limit(env, "the template needs more than %zu bytes of memory", env->memory_limit);
		return NULL;
	}
	env->used += whole;
	void *m = arena_alloc(&env->mem, bytes);
	if (!m && env->status == NH_OK) env->status = ERR_NOMEM(env->e);
	return m;
}

bool jenv_take(jenv *env, buf *b, jv *out)
{
	bool ok = !b->failed && env->status == NH_OK;
	if (b->failed && env->status == NH_OK) {
		if (b->over) jenv_limit(env, "a text in the template is over %zu bytes", b->limit);
		else env->status = ERR_NOMEM(env->e);
	}
	if (ok && b->len > UINT32_MAX) ok = jenv_limit(env, "a text in the template is over 4 GiB");
	char *s = ok && jenv_step(env, b->len / 64) ? jenv_alloc(env, b->len ? b->len : 1, 1) : NULL;
	if (s && b->len) memcpy(s, b->data, b->len);
	if (s) *out = jv_str(s, b->len);
	buf_deinit(b);
	return s != NULL;
}

bool jenv_join(jenv *env, const jv *v, size_t n, jv *out)
{
	size_t total = 0;
	for (size_t i = 0; i < n; i++) total += v[i].n; /* at most 2^32 each, and they are in memory */
	if (total > UINT32_MAX) return jenv_limit(env, "a text in the template is over 4 GiB");
	bool append = n > 0 && v[0].n > 0 && v[0].u.s == env->tail && v[0].n == env->tail_len && total <= env->tail_cap;
	if (!jenv_step(env, (total - (append ? v[0].n : 0)) / 64)) return false;
	if (!append) {
		/* Room to grow, so that building a text piece by piece is linear. */
		size_t cap = total + (n > 0 && v[0].n >= 256 ? total : 0);
		char *s = jenv_alloc(env, cap ? cap : 1, 1);
		if (!s) return false;
		if (n && v[0].n) memcpy(s, v[0].u.s, v[0].n);
		env->tail = s;
		env->tail_cap = cap;
	}
	size_t at = n ? v[0].n : 0;
	for (size_t i = 1; i < n; i++) {
		if (v[i].n) memcpy(env->tail + at, v[i].u.s, v[i].n);
		at += v[i].n;
	}
	env->tail_len = total;
	*out = jv_str(env->tail, total);
	return true;
}

bool jvec_push(jenv *env, jvec *v, jv item)
{
	if (v->n == v->cap) {
		uint32_t cap = v->cap ? v->cap * 2 : 8;
		jv *grown = cap > v->cap ? jenv_alloc(env, cap, sizeof *grown) : NULL;
		if (!grown) return false;
		if (v->n) memcpy(grown, v->items, v->n * sizeof *grown);
		v->items = grown;
		v->cap = cap;
	}
	v->items[v->n++] = item;
	return true;
}

/* ---- types ---- */

const char *jv_type(jv v)
{
	static const char *const VIEWS[] = {"dict_keys", "dict_values", "dict_items"};
	switch ((jv_kind)v.kind) {
	case JV_NONE: return "NoneType";
	case JV_BOOL: return "bool";
	case JV_INT: return "int";
	case JV_FLOAT: return "float";
	case JV_STR: return v.flag ? "Markup" : "str";
	case JV_LIST: return "list";
	case JV_TUPLE: return "tuple";
	case JV_DICT: return "dict";
	case JV_VIEW: return VIEWS[v.flag];
	case JV_RANGE: return "range";
	case JV_ITER: return v.u.iter->generator ? "generator" : "list_reverseiterator";
	case JV_NAMESPACE: return "Namespace";
	case JV_LOOP: return "LoopContext";
	case JV_MACRO: return "Macro";
	case JV_FUNC: return "function";
	case JV_METHOD: return "builtin_function_or_method";
	case JV_UNDEF:
	case JV_MISSING: break;
	}
	return "Undefined";
}

bool jv_number(jv v) { return v.kind == JV_BOOL || v.kind == JV_INT || v.kind == JV_FLOAT; }
int64_t jv_integer(jv v) { return v.kind == JV_BOOL ? v.u.b : v.u.i; }
double jv_double(jv v) { return v.kind == JV_FLOAT ? v.u.d : (double)jv_integer(v); }

bool jv_float(jenv *env, double d, jv *out)
{
	if (!isfinite(d)) return jenv_fail(env, "a number in the template is infinite or not a number, which is not supported");
	*out = (jv){.kind = JV_FLOAT, .u.d = d};
	return true;
}

bool jv_undef(jenv *env, const char *type, jv name, jv *out)
{
	struct jundef *u = jenv_alloc(env, 1, sizeof *u);
	if (!u) return false;
	u->type = type;
	u->name = name;
	*out = (jv){.kind = JV_UNDEF, .u.undef = u};
	return true;
}

bool jv_undef_hint(jenv *env, const char *hint, jv *out)
{
	struct jundef *u = jenv_alloc(env, 1, sizeof *u);
	if (!u) return false;
	u->hint = hint;
	*out = (jv){.kind = JV_UNDEF, .u.undef = u};
	return true;
}

bool jv_undefined_error(jenv *env, jv v)
{
	const struct jundef *u = v.u.undef;
	int len = u->name.kind == JV_STR ? (u->name.n < 100 ? (int)u->name.n : 100) : 0;
	if (u->hint) return jenv_fail(env, "%s", u->hint);
	const char *type = u->type && strcmp(u->type, "NoneType") == 0 ? "None" : u->type;
	const char *object = type && strcmp(type, "None") == 0 ? "" : " object";
	if (u->unsafe) return jenv_fail(env, "access to attribute '%.*s' of '%s' object is unsafe.", len, u->name.u.s, type);
	if (!u->type) return jenv_fail(env, "'%.*s' is undefined", len, u->name.u.s);
	if (u->name.kind == JV_STR) return jenv_fail(env, "'%s%s' has no attribute '%.*s'", type, object, len, u->name.u.s);
	buf b = {.limit = 200};
	jv_write_repr(env, u->name, &b);
	jenv_fail(env, "%s%s has no element %s", type, object, b.data ? b.data : "?");
	buf_deinit(&b);
	return false;
}

/* ---- truth, equality, order ---- */

bool jv_truth(jenv *env, jv v, bool *out)
{
	*out = true;
	switch ((jv_kind)v.kind) {
	case JV_MISSING:
	case JV_UNDEF:
	case JV_NONE: *out = false; break;
	case JV_BOOL: *out = v.u.b; break;
	case JV_INT: *out = v.u.i != 0; break;
	case JV_FLOAT: *out = v.u.d != 0; break;
	case JV_STR:
	case JV_LIST:
	case JV_TUPLE:
	case JV_DICT:
	case JV_VIEW:
	case JV_RANGE: *out = v.n != 0; break;
	case JV_LOOP: return jenv_fail(env, "the truth of the loop variable is not supported");
	default: break;
	}
	return true;
}

/* -1, 0, 1: exact also where an integer does not fit a double. */
static int compare_int_double(int64_t i, double d)
{
	if (d >= 0x1p63) return -1;
	if (d < -0x1p63) return 1;
	int64_t whole = (int64_t)d; /* toward zero */
	if (i != whole) return i < whole ? -1 : 1;
	double part = d - (double)whole;
	return part > 0 ? -1 : part < 0 ? 1 : 0;
}

static int compare_numbers(jv a, jv b)
{
	if (a.kind == JV_FLOAT && b.kind == JV_FLOAT) return a.u.d < b.u.d ? -1 : a.u.d > b.u.d;
	if (a.kind == JV_FLOAT) return -compare_int_double(jv_integer(b), a.u.d);
	if (b.kind == JV_FLOAT) return compare_int_double(jv_integer(a), b.u.d);
	return jv_integer(a) < jv_integer(b) ? -1 : jv_integer(a) > jv_integer(b);
}

static bool equal_items(jenv *env, jv a, jv b, bool *out)
{
	*out = a.n == b.n;
	for (uint32_t i = 0; *out && i < a.n; i++)
		if (!jv_equal(env, a.u.items[i], b.u.items[i], out)) return false;
	return true;
}

static bool equal_dicts(jenv *env, jv a, jv b, bool *out)
{
	*out = a.n == b.n;
	for (uint32_t i = 0; *out && i < a.n; i++) {
		bool ok = true;
		const jv *other = jv_find(env, b.u.pairs, b.n, a.u.pairs[i].k, &ok);
		if (!ok) return false;
		*out = other != NULL;
		if (other && !jv_equal(env, a.u.pairs[i].v, *other, out)) return false;
	}
	return true;
}

static bool equal_inner(jenv *env, jv a, jv b, bool *out)
{
	*out = false;
	if (jv_number(a) && jv_number(b)) return *out = compare_numbers(a, b) == 0, true;
	if (a.kind != b.kind) return true;
	switch ((jv_kind)a.kind) {
	case JV_STR: *out = jv_same_str(a, b); return jenv_step(env, a.n == b.n ? a.n / 64 : 0);
	case JV_NONE:
	case JV_UNDEF: *out = true; break;
	case JV_LIST:
	case JV_TUPLE: return equal_items(env, a, b, out);
	case JV_DICT: return equal_dicts(env, a, b, out);
	case JV_RANGE:
		*out = a.n == b.n && (a.n == 0 || (a.u.range->start == b.u.range->start && (a.n == 1 || a.u.range->step == b.u.range->step)));
		break;
	case JV_VIEW: return jenv_fail(env, "comparing %s is not supported", jv_type(a));
	case JV_NAMESPACE: *out = a.u.ns == b.u.ns; break;
	case JV_ITER: *out = a.u.iter == b.u.iter; break;
	case JV_LOOP: *out = a.u.loop == b.u.loop; break;
	case JV_MACRO: *out = a.u.macro == b.u.macro; break;
	case JV_FUNC: *out = a.flag == b.flag; break;
	default: return jenv_fail(env, "comparing methods is not supported");
	}
	return true;
}

bool jv_equal(jenv *env, jv a, jv b, bool *out)
{
	if (!jenv_step(env, 1) || !jenv_enter(env)) return false;
	bool ok = equal_inner(env, a, b, out);
	jenv_leave(env);
	return ok;
}

static bool less_items(jenv *env, jv a, jv b, const char *op, bool *out)
{
	uint32_t n = a.n < b.n ? a.n : b.n;
	bool same = true;
	for (uint32_t i = 0; i < n; i++) {
		if (!jv_equal(env, a.u.items[i], b.u.items[i], &same)) return false;
		if (same) continue;
		if (!jenv_enter(env)) return false;
		bool ok = jv_less(env, a.u.items[i], b.u.items[i], op, out);
		jenv_leave(env);
		return ok;
	}
	*out = a.n < b.n;
	return true;
}

bool jv_less(jenv *env, jv a, jv b, const char *op, bool *out)
{
	if (!jenv_step(env, 1)) return false;
	if (a.kind == JV_UNDEF) return jv_undefined_error(env, a);
	if (b.kind == JV_UNDEF) return jv_undefined_error(env, b);
	if (jv_number(a) && jv_number(b)) return *out = compare_numbers(a, b) < 0, true;
	if (a.kind == JV_STR && b.kind == JV_STR) {
		uint32_t n = a.n < b.n ? a.n : b.n; /* the order of UTF-8 bytes is the order of code points */
		int c = n ? memcmp(a.u.s, b.u.s, n) : 0;
		*out = c ? c < 0 : a.n < b.n;
		return jenv_step(env, n / 64);
	}
	if (a.kind == b.kind && (a.kind == JV_LIST || a.kind == JV_TUPLE)) return less_items(env, a, b, op, out);
	if (a.kind == JV_VIEW && b.kind == JV_VIEW) return jenv_fail(env, "comparing %s is not supported", jv_type(a));
	return jenv_fail(env, "'%s' not supported between instances of '%s' and '%s'", op, jv_type(a), jv_type(b));
}

/* ---- lookups ---- */

bool jv_hashable(jenv *env, jv v)
{
	if (v.kind == JV_LIST || v.kind == JV_DICT || v.kind == JV_VIEW) return jenv_fail(env, "unhashable type: '%s'", jv_type(v));
	if (v.kind != JV_TUPLE) return true;
	if (!jenv_enter(env)) return false;
	bool ok = true;
	for (uint32_t i = 0; ok && i < v.n; i++) ok = jenv_step(env, 1) && jv_hashable(env, v.u.items[i]);
	jenv_leave(env);
	return ok;
}

const jv *jv_find_str(const jpair *pairs, uint32_t n, const char *key)
{
	for (uint32_t i = 0; i < n; i++)
		if (jv_is(pairs[i].k, key)) return &pairs[i].v;
	return NULL;
}

const jv *jv_find(jenv *env, const jpair *pairs, uint32_t n, jv key, bool *ok)
{
	*ok = jenv_step(env, 1 + n / 16);
	for (uint32_t i = 0; *ok && i < n; i++) {
		jv k = pairs[i].k;
		bool same = false;
		if (k.kind == JV_STR || key.kind == JV_STR) same = k.kind == key.kind && jv_same_str(k, key);
		else *ok = jv_equal(env, k, key, &same);
		if (same) return &pairs[i].v;
	}
	return NULL;
}

bool jnamespace_put(jenv *env, struct jnamespace *d, jv key, jv value)
{
	bool ok = jv_hashable(env, key);
	const jv *old = ok ? jv_find(env, d->pairs, d->n, key, &ok) : NULL;
	if (!ok) return false;
	if (old) {
		*(jv *)(uintptr_t)old = value; /* one of d's own pairs */
		return true;
	}
	if (d->n == d->cap) {
		uint32_t cap = d->cap ? d->cap * 2 : 8;
		jpair *grown = cap > d->cap ? jenv_alloc(env, cap, sizeof *grown) : NULL;
		if (!grown) return false;
		if (d->n) memcpy(grown, d->pairs, d->n * sizeof *grown);
		d->pairs = grown;
		d->cap = cap;
	}
	d->pairs[d->n++] = (jpair){key, value};
	return true;
}

static bool contains_walk(jenv *env, jv item, jv seq, bool *out)
{
	jiter *it;
	if (!jv_iter(env, seq, &it)) return false;
	jv v;
	int more;
	*out = false;
	while (!*out && (more = jiter_next(env, it, &v)) != 0)
		if (more < 0 || !jv_equal(env, v, item, out)) return false;
	return true;
}

bool jv_contains(jenv *env, jv item, jv seq, bool *out)
{
	bool ok = true;
	switch ((jv_kind)seq.kind) {
	case JV_STR:
		if (item.kind != JV_STR) return jenv_fail(env, "'in <string>' requires string as left operand, not %s", jv_type(item));
		if (!jenv_step(env, 1 + seq.n / 64)) return false;
		*out = jtext_find(seq.u.s, seq.n, item.u.s, item.n, 0) != SIZE_MAX;
		return true;
	case JV_DICT:
		if (!jv_hashable(env, item)) return false;
		*out = jv_find(env, seq.u.pairs, seq.n, item, &ok) != NULL;
		return ok;
	case JV_VIEW:
		if (seq.flag == JV_KEYS) return jv_contains(env, item, (jv){.kind = JV_DICT, .n = seq.n, .u.pairs = seq.u.pairs}, out);
		return contains_walk(env, item, seq, out);
	default: break;
	}
	if (!jv_iterable(seq)) return jenv_fail(env, "argument of type '%s' is not iterable", jv_type(seq));
	return contains_walk(env, item, seq, out);
}

bool jv_length(jenv *env, jv v, int64_t *out)
{
	switch ((jv_kind)v.kind) {
	case JV_UNDEF: *out = 0; return true;
	case JV_STR: *out = (int64_t)jtext_count(v.u.s, v.n); return jenv_step(env, v.n / 64);
	case JV_LIST:
	case JV_TUPLE:
	case JV_DICT:
	case JV_VIEW:
	case JV_RANGE: *out = v.n; return true;
	case JV_LOOP: {
		jv n;
		if (!jinja_loop_attr(env, v.u.loop, jv_cstr("length"), &n)) return false;
		*out = n.u.i;
		return true;
	}
	default: return jenv_fail(env, "object of type '%s' has no len()", jv_type(v));
	}
}
