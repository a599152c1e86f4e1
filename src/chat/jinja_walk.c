/* SPDX-License-Identifier: Apache-2.0
 * jinja_walk.c: iteration over values, str() and repr(), and values out of JSON. Iterators are lazy where Python's are, so that a
 * generator that is walked twice is empty the second time here too. Knows nothing of syntax. What breaks first: a value whose text in
 * Python would hold an address (a function, a generator): it is refused instead of invented.
 */
#include <inttypes.h>
#include <math.h>

#include "base/base_mem.h"
#include "chat/jinja.h"
#include "chat/jinja_text.h"

bool jv_iterable(jv v)
{
	switch ((jv_kind)v.kind) {
	case JV_UNDEF:
	case JV_STR:
	case JV_LIST:
	case JV_TUPLE:
	case JV_DICT:
	case JV_VIEW:
	case JV_RANGE:
	case JV_ITER:
	case JV_LOOP: return true;
	default: return false;
	}
}

bool jv_iter(jenv *env, jv v, jiter **out)
{
	if (v.kind == JV_ITER) return *out = v.u.iter, true;
	if (v.kind == JV_LOOP) return jenv_fail(env, "iterating over the loop variable is not supported");
	if (!jv_iterable(v)) return jenv_fail(env, "'%s' object is not iterable", jv_type(v));
	jiter *it = jenv_alloc(env, 1, sizeof *it);
	if (!it) return false;
	it->src = v;
	it->started = true;
	*out = it;
	return true;
}

jv jrange_at(jv range, uint32_t index) { return jv_int(range.u.range->start + (int64_t)index * range.u.range->step); }

static bool item_at(jenv *env, jv v, uint32_t i, jv *out)
{
	switch ((jv_kind)v.kind) {
	case JV_LIST:
	case JV_TUPLE: *out = v.u.items[i]; return true;
	case JV_RANGE: *out = jrange_at(v, i); return true;
	case JV_DICT: *out = v.u.pairs[i].k; return true;
	default: break;
	}
	if (v.flag != JV_ITEMS) return *out = v.flag == JV_KEYS ? v.u.pairs[i].k : v.u.pairs[i].v, true;
	jv *pair = jenv_alloc(env, 2, sizeof *pair);
	if (!pair) return false;
	pair[0] = v.u.pairs[i].k;
	pair[1] = v.u.pairs[i].v;
	*out = (jv){.kind = JV_TUPLE, .n = 2, .u.items = pair};
	return true;
}

int jiter_next(jenv *env, jiter *it, jv *out)
{
	if (!jenv_step(env, 1)) return -1;
	if (it->done) return 0;
	int more = 0;
	if (it->op >= JITER_ITEMS) {
		if (!jenv_enter(env)) return -1;
		more = jinja_seq_next(env, it, out);
		jenv_leave(env);
	} else if (it->op == JITER_REVERSED) {
		if (it->pos > 0) more = item_at(env, it->src, (uint32_t)--it->pos, out) ? 1 : -1;
	} else if (it->src.kind == JV_STR) {
		size_t at = (size_t)it->pos, end = at;
		if (at < it->src.n) {
			jtext_next(it->src.u.s, it->src.n, &end);
			*out = jv_str(it->src.u.s + at, end - at);
			it->pos = (int64_t)end;
			more = 1;
		}
	} else if (it->src.kind != JV_UNDEF && it->pos < it->src.n) {
		more = item_at(env, it->src, (uint32_t)it->pos++, out) ? 1 : -1;
	}
	if (more <= 0) it->done = true;
	return more;
}

bool jv_list(jenv *env, jv v, jv *out)
{
	if (v.kind == JV_LIST || v.kind == JV_TUPLE) {
		*out = v;
		out->kind = JV_LIST;
		return true;
	}
	jiter *it;
	if (!jv_iter(env, v, &it)) return false;
	jvec items = {0};
	jv item;
	int more;
	while ((more = jiter_next(env, it, &item)) > 0)
		if (!jvec_push(env, &items, item)) return false;
	*out = (jv){.kind = JV_LIST, .n = items.n, .u.items = items.items};
	return more == 0;
}

/* ---- str and repr ---- */

static bool write_pairs(jenv *env, const jpair *pairs, uint32_t n, buf *out)
{
	buf_char(out, '{');
	for (uint32_t i = 0; i < n; i++) {
		if (i) buf_str(out, ", ");
		if (!jv_write_repr(env, pairs[i].k, out)) return false;
		buf_str(out, ": ");
		if (!jv_write_repr(env, pairs[i].v, out)) return false;
	}
	buf_char(out, '}');
	return true;
}

static bool write_items(jenv *env, jv v, const char *open, const char *close, buf *out)
{
	buf_str(out, open);
	for (uint32_t i = 0; i < v.n; i++) {
		jv item;
		if (i) buf_str(out, ", ");
		if (!item_at(env, v, i, &item) || !jv_write_repr(env, item, out)) return false;
	}
	if (v.kind == JV_TUPLE && v.n == 1) buf_char(out, ',');
	buf_str(out, close);
	return true;
}

static bool write_repr(jenv *env, jv v, buf *out)
{
	static const char *const VIEWS[] = {"dict_keys([", "dict_values([", "dict_items(["};
	switch ((jv_kind)v.kind) {
	case JV_MISSING:
	case JV_UNDEF: buf_str(out, "Undefined"); return true;
	case JV_NONE: buf_str(out, "None"); return true;
	case JV_BOOL: buf_str(out, v.u.b ? "True" : "False"); return true;
	case JV_INT: buf_printf(out, "%" PRId64, v.u.i); return true;
	case JV_FLOAT: jtext_repr_float(v.u.d, out); return true;
	case JV_STR:
		if (v.flag) return jenv_fail(env, "the repr of a |safe string is not supported");
		jtext_repr(v.u.s, v.n, out);
		return jenv_step(env, v.n / 64);
	case JV_LIST: return write_items(env, v, "[", "]", out);
	case JV_TUPLE: return write_items(env, v, "(", ")", out);
	case JV_DICT: return write_pairs(env, v.u.pairs, v.n, out);
	case JV_VIEW: return write_items(env, v, VIEWS[v.flag], "])", out);
	case JV_RANGE: {
		const struct jrange *r = v.u.range;
		buf_printf(out, "range(%" PRId64 ", %" PRId64, r->start, r->stop);
		if (r->step != 1) buf_printf(out, ", %" PRId64, r->step);
		buf_char(out, ')');
		return true;
	}
	case JV_MACRO:
		buf_str(out, "<Macro ");
		jtext_repr(v.u.macro->value.u.s, v.u.macro->value.n, out);
		buf_char(out, '>');
		return true;
	default: return jenv_fail(env, "showing a %s is not supported", jv_type(v));
	}
}

bool jv_write_repr(jenv *env, jv v, buf *out)
{
	if (!jenv_step(env, 1) || !jenv_enter(env)) return false;
	bool ok = write_repr(env, v, out);
	jenv_leave(env);
	return ok;
}

bool jv_write_str(jenv *env, jv v, buf *out)
{
	if (v.kind == JV_UNDEF) return true;
	if (v.kind != JV_STR) return jv_write_repr(env, v, out);
	buf_append(out, v.u.s, v.n);
	return jenv_step(env, v.n / 64);
}

bool jv_to_str(jenv *env, jv v, jv *out)
{
	if (v.kind == JV_STR) return *out = jv_str(v.u.s, v.n), true;
	if (v.kind == JV_UNDEF) return *out = jv_str("", 0), true;
	buf b = {.limit = jenv_room(env)};
	bool ok = jv_write_str(env, v, &b);
	return jenv_take(env, &b, out) && ok;
}

/* ---- JSON ---- */

static bool from_json(jenv *env, const json_t *json, jv *out)
{
	switch (json_typeof(json)) {
	case JSON_NULL: *out = jv_of(JV_NONE); return true;
	case JSON_TRUE:
	case JSON_FALSE: *out = jv_bool(json_is_true(json)); return true;
	case JSON_INTEGER: *out = jv_int(json_integer_value(json)); return true;
	case JSON_REAL: return jv_float(env, json_real_value(json), out);
	case JSON_STRING: {
		size_t n = json_string_length(json);
		if (n > UINT32_MAX) return jenv_limit(env, "a string of the request is over 4 GiB");
		*out = jv_str(json_string_value(json), n);
		return true;
	}
	case JSON_ARRAY: {
		size_t n = json_array_size(json);
		jv *items = n > UINT32_MAX ? NULL : jenv_alloc(env, n, sizeof *items);
		bool ok = items && jenv_step(env, n);
		for (size_t i = 0; ok && i < n; i++) ok = jv_from_json(env, json_array_get(json, i), &items[i]);
		*out = (jv){.kind = JV_LIST, .n = (uint32_t)n, .u.items = items};
		return ok;
	}
	case JSON_OBJECT: break;
	}
	size_t n = json_object_size(json), i = 0;
	jpair *pairs = n > UINT32_MAX ? NULL : jenv_alloc(env, n, sizeof *pairs);
	bool ok = pairs && jenv_step(env, n);
	for (void *at = json_object_iter((json_t *)(uintptr_t)json); ok && at && i < n;
	     at = json_object_iter_next((json_t *)(uintptr_t)json, at), i++) {
		pairs[i].k = jv_str(json_object_iter_key(at), json_object_iter_key_len(at));
		ok = jv_from_json(env, json_object_iter_value(at), &pairs[i].v);
	}
	*out = (jv){.kind = JV_DICT, .n = (uint32_t)n, .u.pairs = pairs};
	return ok;
}

bool jv_from_json(jenv *env, const json_t *json, jv *out)
{
	if (!jenv_enter(env)) return false;
	bool ok = from_json(env, json, out);
	jenv_leave(env);
	return ok;
}
