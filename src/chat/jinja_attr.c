/* SPDX-License-Identifier: Apache-2.0
 * jinja_attr.c: obj.name and obj[key] as the sandboxed environment looks them up: a dot prefers Python's attributes (so that
 * `schema.items` is the method even when the dict has such a key), brackets prefer the item. Methods that change a value exist only to be refused
 * when they are called. What breaks first: an attribute that Python has and these tables do not, which would show as undefined.
 */
#include "chat/jinja.h"
#include "chat/jinja_text.h"

static bool in_words(const char *words, jv name)
{
	for (const char *w = words; *w;) {
		size_t n = strcspn(w, " ");
		if (n == name.n && memcmp(w, name.u.s, n) == 0) return true;
		w += n + (w[n] == ' ');
	}
	return false;
}

/* Names that Python's type has: called through jinja_methods.c, or known and refused. */
static const char *methods_of(jv v)
{
	switch ((jv_kind)v.kind) {
	case JV_STR:
		return "capitalize casefold center count encode endswith expandtabs find format format_map index isalnum isalpha isascii isdecimal "
		       "isdigit isidentifier islower isnumeric isprintable isspace istitle isupper join ljust lower lstrip maketrans partition "
		       "removeprefix removesuffix replace rfind rindex rjust rpartition rsplit rstrip split splitlines startswith strip swapcase "
		       "title translate upper zfill";
	case JV_LIST: return "copy count index";
	case JV_TUPLE:
	case JV_RANGE: return "count index";
	case JV_DICT: return "copy fromkeys get items keys values";
	case JV_VIEW: return "isdisjoint";
	case JV_LOOP: return "cycle changed";
	default: return "";
	}
}

static const char *mutators_of(jv v)
{
	if (v.kind == JV_LIST) return "append clear extend insert pop remove reverse sort";
	return v.kind == JV_DICT ? "clear pop popitem setdefault update" : "";
}

/* Attributes that Python has and templates have no use for: refused by name, never taken for undefined. */
static const char *refused_of(jv v)
{
	switch ((jv_kind)v.kind) {
	case JV_STR: return v.flag ? "escape striptags unescape" : "";
	case JV_BOOL:
	case JV_INT: return "as_integer_ratio bit_count bit_length conjugate denominator from_bytes imag is_integer numerator real to_bytes";
	case JV_FLOAT: return "as_integer_ratio conjugate from_number fromhex hex imag is_integer real";
	case JV_RANGE: return "start step stop";
	case JV_VIEW: return "mapping";
	case JV_ITER: return "close gi_code gi_frame gi_running gi_suspended gi_yieldfrom send throw";
	case JV_MACRO: return "arguments caller catch_kwargs catch_varargs explicit_caller name";
	case JV_FUNC: return "fromkeys mro current next reset used sep items pos";
	default: return "";
	}
}

/* Python's getattr(): MISSING when there is no such attribute. */
static bool attribute(jenv *env, jv obj, jv name, jv *out)
{
	*out = jv_of(JV_MISSING);
	bool hidden = name.n > 0 && name.u.s[0] == '_';
	if (obj.kind == JV_UNDEF && !hidden) return jv_undefined_error(env, obj);
	bool dunder = name.n > 4 && memcmp(name.u.s, "__", 2) == 0 && memcmp(name.u.s + name.n - 2, "__", 2) == 0;
	bool internal =
	    hidden && (obj.kind == JV_UNDEF || obj.kind == JV_LOOP || obj.kind == JV_MACRO || obj.kind == JV_FUNC || obj.kind == JV_NAMESPACE);
	if (dunder || internal || in_words(refused_of(obj), name))
		return jenv_fail(env, "attribute '%.*s' of '%s' object is not supported", name.n < 60 ? (int)name.n : 60, name.u.s, jv_type(obj));
	if (obj.kind == JV_LOOP && !in_words(methods_of(obj), name)) return jinja_loop_attr(env, obj.u.loop, name, out);
	if (obj.kind == JV_NAMESPACE) {
		bool ok;
		const jv *v = jv_find(env, obj.u.ns->pairs, obj.u.ns->n, name, &ok);
		if (v) *out = *v;
		return ok;
	}
	if (in_words(mutators_of(obj), name)) {
		if (!jv_undef(env, jv_type(obj), name, out)) return false;
		((struct jundef *)(uintptr_t)out->u.undef)->unsafe = true; /* made just above */
		return true;
	}
	if (!in_words(methods_of(obj), name)) return true;
	struct jmethod *m = jenv_alloc(env, 1, sizeof *m);
	char *text = m ? jenv_alloc(env, (size_t)name.n + 1, 1) : NULL;
	if (!text) return false;
	memcpy(text, name.u.s, name.n);
	m->self = obj;
	m->name = text;
	*out = (jv){.kind = JV_METHOD, .u.method = m};
	return true;
}

bool jinja_getattr(jenv *env, jv obj, jv name, jv *out)
{
	if (!attribute(env, obj, name, out)) return false;
	if (out->kind != JV_MISSING) return true;
	bool ok = true;
	const jv *v = obj.kind == JV_DICT ? jv_find(env, obj.u.pairs, obj.n, name, &ok) : NULL;
	if (v) *out = *v;
	return ok && (v || jv_undef(env, jv_type(obj), name, out));
}

static bool string_at(jenv *env, jv s, int64_t index, jv *out)
{
	if (!jenv_step(env, s.n / 64)) return false;
	size_t at = jtext_offset(s.u.s, s.n, (size_t)index), end = at;
	jtext_next(s.u.s, s.n, &end);
	*out = jv_str(s.u.s + at, end - at);
	out->flag = s.flag;
	return true;
}

bool jinja_getitem(jenv *env, jv obj, jv key, jv *out)
{
	bool ok = true;
	bool sequence = obj.kind == JV_STR || obj.kind == JV_LIST || obj.kind == JV_TUPLE || obj.kind == JV_RANGE;
	if (obj.kind == JV_UNDEF) return jv_undefined_error(env, obj);
	if (sequence && (key.kind == JV_INT || key.kind == JV_BOOL)) {
		int64_t i = jv_integer(key), n = obj.n;
		if (obj.kind == JV_STR && !jv_length(env, obj, &n)) return false;
		if (i < 0) i += n;
		if (i < 0 || i >= n) return jv_undef(env, jv_type(obj), key, out);
		if (obj.kind == JV_STR) return string_at(env, obj, i, out);
		*out = obj.kind == JV_RANGE ? jrange_at(obj, (uint32_t)i) : obj.u.items[i];
		return true;
	}
	if (obj.kind == JV_DICT && key.kind != JV_LIST && key.kind != JV_DICT && key.kind != JV_VIEW) {
		if (key.kind == JV_TUPLE && !jv_hashable(env, key)) return false;
		const jv *v = jv_find(env, obj.u.pairs, obj.n, key, &ok);
		if (v) *out = *v;
		if (v || !ok) return ok;
	}
	if (key.kind == JV_STR) {
		if (!attribute(env, obj, jv_str(key.u.s, key.n), out)) return false;
		if (out->kind != JV_MISSING) return true;
	}
	return jv_undef(env, jv_type(obj), key, out);
}
