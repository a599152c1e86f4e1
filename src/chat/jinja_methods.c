/* SPDX-License-Identifier: Apache-2.0
 * jinja_methods.c: methods of strings, lists, dicts and the loop variable, as Python's. A method that Python has and this file does
 * not is refused by name. Positions are code points. What breaks first: split without a separator, whose last piece keeps its
 * trailing white space once maxsplit is used up.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/base_mem.h"
#include "chat/jinja.h"
#include "chat/jinja_text.h"

static bool arguments(jenv *env, const char *name, const jargs *a, uint32_t least, uint32_t most)
{
	if (a->nnamed) return jenv_fail(env, "%s() takes no keyword arguments", name);
	if (a->n >= least && a->n <= most) return true;
	return jenv_fail(env, "%s() takes %" PRIu32 " to %" PRIu32 " arguments here (%" PRIu32 " given)", name, least, most, a->n);
}

static bool string_arg(jenv *env, const char *name, jv v)
{
	return v.kind == JV_STR || jenv_fail(env, "%s() argument must be str, not %s", name, jv_type(v));
}

static bool int_arg(jenv *env, jv v, int64_t fallback, int64_t *out)
{
	*out = fallback;
	if (v.kind == JV_MISSING) return true;
	if (v.kind != JV_INT && v.kind != JV_BOOL) return jenv_fail(env, "'%s' object cannot be interpreted as an integer", jv_type(v));
	*out = jv_integer(v);
	return true;
}

static bool push_part(jenv *env, jvec *v, jv s, size_t from, size_t to) { return jvec_push(env, v, jv_str(s.u.s + from, to - from)); }

static bool list_of(jvec v, jv *out)
{
	*out = (jv){.kind = JV_LIST, .n = v.n, .u.items = v.items};
	return true;
}

/* ---- splitting and joining ---- */

static bool split_space(jenv *env, jv s, int64_t max, bool right, jvec *parts)
{
	size_t lo = 0, hi = s.n;
	while (jenv_step(env, 1)) {
		const char *p = s.u.s + lo;
		size_t n = hi - lo;
		jtext_strip(&p, &n, NULL, 0, right ? JTEXT_RIGHT : JTEXT_LEFT);
		lo = (size_t)(p - s.u.s);
		hi = lo + n;
		if (n == 0) return true;
		if (max-- == 0) return push_part(env, parts, s, lo, hi);
		size_t at = right ? hi : lo;
		while (right ? at > lo : at < hi) {
			size_t next = right ? jtext_prev(s.u.s, at) : at, end = next;
			if (jtext_is_space(jtext_next(s.u.s, s.n, &end))) break;
			at = right ? next : end;
		}
		if (!(right ? push_part(env, parts, s, at, hi) : push_part(env, parts, s, lo, at))) return false;
		if (right) hi = at;
		else lo = at;
	}
	return false;
}

static bool split_by(jenv *env, jv s, jv sep, int64_t max, bool right, jvec *parts)
{
	size_t lo = 0, hi = s.n;
	while (jenv_step(env, 1)) {
		size_t at = max-- == 0 ? SIZE_MAX : right ? jtext_rfind(s.u.s, hi, sep.u.s, sep.n) : jtext_find(s.u.s, s.n, sep.u.s, sep.n, lo);
		if (at == SIZE_MAX) return push_part(env, parts, s, lo, hi);
		if (!(right ? push_part(env, parts, s, at + sep.n, hi) : push_part(env, parts, s, lo, at))) return false;
		if (right) hi = at;
		else lo = at + sep.n;
	}
	return false;
}

static bool s_split(jenv *env, jv s, const jargs *args, bool right, jv *out)
{
	jv a[2];
	int64_t max;
	jvec parts = {0};
	if (!jinja_bind(env, right ? "rsplit()" : "split()", args, (const char *const[]){"sep", "maxsplit", NULL}, 0, a)) return false;
	if (!int_arg(env, a[1], -1, &max) || !jenv_step(env, s.n / 16)) return false;
	bool space = a[0].kind == JV_MISSING || a[0].kind == JV_NONE;
	if (!space && a[0].kind != JV_STR) return jenv_fail(env, "must be str or None, not %s", jv_type(a[0]));
	if (!space && a[0].n == 0) return jenv_fail(env, "empty separator");
	if (!(space ? split_space(env, s, max, right, &parts) : split_by(env, s, a[0], max, right, &parts))) return false;
	for (uint32_t i = 0; right && i < parts.n / 2; i++) {
		jv swap = parts.items[i];
		parts.items[i] = parts.items[parts.n - 1 - i];
		parts.items[parts.n - 1 - i] = swap;
	}
	return list_of(parts, out);
}

static bool s_splitlines(jenv *env, jv s, const jargs *args, jv *out)
{
	jv keep;
	bool ends = false;
	jvec parts = {0};
	if (!jinja_bind(env, "splitlines()", args, (const char *const[]){"keepends", NULL}, 0, &keep)) return false;
	if (keep.kind != JV_MISSING && !jv_truth(env, keep, &ends)) return false;
	for (size_t pos = 0; pos < s.n;) {
		size_t start = pos, brk, n = jtext_line(s.u.s, s.n, &pos, &brk);
		if (!brk) pos = s.n;
		if (!jenv_step(env, 1 + n / 64) || !push_part(env, &parts, s, start, start + n + (ends ? brk : 0))) return false;
	}
	return list_of(parts, out);
}

static bool s_join(jenv *env, jv s, const jargs *a, jv *out)
{
	jv items;
	if (!arguments(env, "join", a, 1, 1)) return false;
	if (!jv_iterable(a->pos[0])) return jenv_fail(env, "can only join an iterable");
	if (!jv_list(env, a->pos[0], &items)) return false;
	jv *parts = jenv_alloc(env, items.n ? 2 * (size_t)items.n : 1, sizeof *parts);
	for (uint32_t i = 0; parts && i < items.n; i++) {
		jv item = items.u.items[i];
		if (item.kind != JV_STR) return jenv_fail(env, "sequence item %" PRIu32 ": expected str instance, %s found", i, jv_type(item));
		if (!jenv_step(env, 1)) return false;
		parts[2 * (size_t)i] = item;
		parts[2 * (size_t)i + 1] = s;
	}
	return parts && jenv_join(env, parts, items.n ? 2 * (size_t)items.n - 1 : 0, out);
}

static bool s_partition(jenv *env, jv s, const char *name, const jargs *a, bool right, jv *out)
{
	if (!arguments(env, name, a, 1, 1) || !string_arg(env, name, a->pos[0])) return false;
	jv sep = a->pos[0], empty = jv_str("", 0), *p = jenv_alloc(env, 3, sizeof *p);
	if (sep.n == 0) return jenv_fail(env, "empty separator");
	if (!p || !jenv_step(env, s.n / 16)) return false;
	size_t at = right ? jtext_rfind(s.u.s, s.n, sep.u.s, sep.n) : jtext_find(s.u.s, s.n, sep.u.s, sep.n, 0);
	p[0] = p[1] = p[2] = empty;
	if (at == SIZE_MAX) {
		p[right ? 2 : 0] = s;
	} else {
		p[0] = jv_str(s.u.s, at);
		p[1] = jv_str(sep.u.s, sep.n);
		p[2] = jv_str(s.u.s + at + sep.n, s.n - at - sep.n);
	}
	*out = (jv){.kind = JV_TUPLE, .n = 3, .u.items = p};
	return true;
}

/* ---- searching and replacing ---- */

static bool s_affix(jenv *env, jv s, const char *name, const jargs *a, bool end, jv *out)
{
	if (!arguments(env, name, a, 1, 1)) return false;
	jv one = a->pos[0];
	const jv *list = one.kind == JV_TUPLE ? one.u.items : &one;
	uint32_t n = one.kind == JV_TUPLE ? one.n : 1;
	bool found = false;
	for (uint32_t i = 0; !found && i < n; i++) {
		if (list[i].kind != JV_STR) return jenv_fail(env, "%s first arg must be str or a tuple of str, not %s", name, jv_type(list[i]));
		if (!jenv_step(env, 1 + list[i].n / 64)) return false;
		found = list[i].n <= s.n && memcmp(end ? s.u.s + s.n - list[i].n : s.u.s, list[i].u.s, list[i].n) == 0;
	}
	*out = jv_bool(found);
	return true;
}

static bool s_remove(jenv *env, jv s, const char *name, const jargs *a, bool end, jv *out)
{
	if (!arguments(env, name, a, 1, 1) || !string_arg(env, name, a->pos[0])) return false;
	jv x = a->pos[0];
	bool has = x.n <= s.n && memcmp(end ? s.u.s + s.n - x.n : s.u.s, x.u.s, x.n) == 0;
	*out = jv_str(has && !end ? s.u.s + x.n : s.u.s, has ? s.n - x.n : s.n);
	return true;
}

static bool s_find(jenv *env, jv s, const char *name, const jargs *a, jv *out)
{
	if (!arguments(env, name, a, 1, 1) || !string_arg(env, name, a->pos[0])) return false;
	bool right = name[0] == 'r', must = strstr(name, "index") != NULL;
	jv sub = a->pos[0];
	if (!jenv_step(env, right ? s.n : s.n / 16)) return false;
	size_t at = right ? jtext_rfind(s.u.s, s.n, sub.u.s, sub.n) : jtext_find(s.u.s, s.n, sub.u.s, sub.n, 0);
	if (at == SIZE_MAX && must) return jenv_fail(env, "substring not found");
	*out = jv_int(at == SIZE_MAX ? -1 : (int64_t)jtext_count(s.u.s, at));
	return true;
}

static bool s_count(jenv *env, jv s, const jargs *a, jv *out)
{
	if (!arguments(env, "count", a, 1, 1) || !string_arg(env, "count", a->pos[0])) return false;
	jv sub = a->pos[0];
	int64_t n = 0;
	if (!jenv_step(env, s.n / 16)) return false;
	if (sub.n == 0) n = (int64_t)jtext_count(s.u.s, s.n) + 1;
	for (size_t at = 0; sub.n && (at = jtext_find(s.u.s, s.n, sub.u.s, sub.n, at)) != SIZE_MAX; at += sub.n) n++;
	*out = jv_int(n);
	return true;
}

static bool s_replace(jenv *env, jv s, const jargs *a, jv *out)
{
	int64_t max;
	if (!arguments(env, "replace", a, 2, 3) || !string_arg(env, "replace", a->pos[0]) || !string_arg(env, "replace", a->pos[1]))
		return false;
	if (!int_arg(env, a->n > 2 ? a->pos[2] : jv_of(JV_MISSING), -1, &max) || !jenv_step(env, s.n / 16)) return false;
	jv old = a->pos[0], new = a->pos[1];
	buf b = {.limit = jenv_room(env)};
	size_t from = 0;
	for (size_t at = 0; max != 0 && !b.failed; max--) {
		size_t hit = old.n ? jtext_find(s.u.s, s.n, old.u.s, old.n, at) : at;
		if (hit == SIZE_MAX || hit > s.n) break;
		buf_append(&b, s.u.s + from, hit - from);
		buf_append(&b, new.u.s, new.n);
		from = hit + old.n;
		at = from;
		if (old.n == 0 && at < s.n) jtext_next(s.u.s, s.n, &at); /* an empty text is found before each character and at the end */
		else if (old.n == 0) at++;
	}
	buf_append(&b, s.u.s + from, s.n - from);
	return jenv_take(env, &b, out);
}

/* ---- shape ---- */

static bool s_case(jenv *env, jv s, const char *name, const jargs *a, enum jtext_case how, jv *out)
{
	if (!arguments(env, name, a, 0, 0) || !jenv_step(env, s.n / 16)) return false;
	if (how == JTEXT_TITLE && !jtext_ascii(s.u.s, s.n)) return jenv_fail(env, "str.title on a text that is not ASCII is not supported");
	buf b = {.limit = jenv_room(env)};
	jtext_case(s.u.s, s.n, how, &b);
	return jenv_take(env, &b, out);
}

static bool s_strip(jenv *env, jv s, const char *name, const jargs *a, int sides, jv *out)
{
	if (!arguments(env, name, a, 0, 1) || !jenv_step(env, s.n / 64)) return false;
	bool given = a->n && a->pos[0].kind != JV_NONE;
	if (given && a->pos[0].kind != JV_STR) return jenv_fail(env, "%s arg must be None or str, not %s", name, jv_type(a->pos[0]));
	size_t n = s.n;
	jtext_strip(&s.u.s, &n, given ? a->pos[0].u.s : NULL, given ? a->pos[0].n : 0, sides);
	*out = jv_str(s.u.s, n);
	return true;
}

static bool s_pad(jenv *env, jv s, const char *name, const jargs *a, jv *out)
{
	int64_t width, length;
	bool zeros = name[0] == 'z', center = name[0] == 'c';
	if (!arguments(env, name, a, 1, zeros ? 1 : 2) || !int_arg(env, a->pos[0], 0, &width) || !jv_length(env, s, &length)) return false;
	jv fill = zeros ? jv_str("0", 1) : a->n > 1 ? a->pos[1] : jv_str(" ", 1);
	if (fill.kind != JV_STR || jtext_count(fill.u.s, fill.n) != 1)
		return jenv_fail(env, "The fill character must be exactly one character long");
	int64_t pad = width > length ? width - length : 0;
	if (pad > 1000000) return jenv_limit(env, "padding of more than 1000000 characters");
	int64_t left = center ? pad / 2 + (pad & width & 1) : name[0] == 'l' ? 0 : pad;
	buf b = {.limit = jenv_room(env)};
	size_t sign = zeros && s.n && (s.u.s[0] == '+' || s.u.s[0] == '-');
	buf_append(&b, s.u.s, sign);
	for (int64_t i = 0; i < left; i++) buf_append(&b, fill.u.s, fill.n);
	buf_append(&b, s.u.s + sign, s.n - sign);
	for (int64_t i = left; i < pad; i++) buf_append(&b, fill.u.s, fill.n);
	return jenv_step(env, (uint64_t)pad / 16) ? jenv_take(env, &b, out) : (buf_deinit(&b), false);
}

/* isdigit and its kin: all characters of the kind, and at least one. */
static bool s_is(jenv *env, jv s, const char *name, const jargs *a, jv *out)
{
	if (!arguments(env, name, a, 0, 0) || !jenv_step(env, s.n / 16)) return false;
	if (strcmp(name, "isascii") == 0) return *out = jv_bool(jtext_ascii(s.u.s, s.n)), true;
	bool all = true, some = false, space = strcmp(name, "isspace") == 0, upper = strcmp(name, "isupper") == 0;
	bool alpha = strcmp(name, "isalpha") == 0, alnum = strcmp(name, "isalnum") == 0, lower = strcmp(name, "islower") == 0;
	if (!space && !jtext_ascii(s.u.s, s.n)) return jenv_fail(env, "str.%s on a text that is not ASCII is not supported", name);
	for (size_t i = 0; i < s.n;) {
		unsigned c = jtext_next(s.u.s, s.n, &i);
		bool is_upper = c >= 'A' && c <= 'Z', is_lower = c >= 'a' && c <= 'z', digit = c >= '0' && c <= '9', fits;
		if (space) fits = jtext_is_space(c);
		else if (upper || lower) fits = upper ? !is_lower : !is_upper;
		else if (alpha || alnum) fits = is_upper || is_lower || (alnum && digit);
		else fits = digit;
		all = all && fits;
		some = some || (upper ? is_upper : lower ? is_lower : true);
	}
	*out = jv_bool(all && some);
	return true;
}

static bool call_string(jenv *env, jv s, const char *m, const jargs *a, jv *out)
{
	static const char *const IS[] = {"isascii", "isspace", "isalpha", "isalnum", "isupper", "islower", "isdigit", "isdecimal", "isnumeric"};
	if (s.flag) return jenv_fail(env, "methods of a |safe string are not supported");
	if (strcmp(m, "strip") == 0) return s_strip(env, s, m, a, JTEXT_LEFT | JTEXT_RIGHT, out);
	if (strcmp(m, "lstrip") == 0) return s_strip(env, s, m, a, JTEXT_LEFT, out);
	if (strcmp(m, "rstrip") == 0) return s_strip(env, s, m, a, JTEXT_RIGHT, out);
	if (strcmp(m, "split") == 0 || strcmp(m, "rsplit") == 0) return s_split(env, s, a, m[0] == 'r', out);
	if (strcmp(m, "splitlines") == 0) return s_splitlines(env, s, a, out);
	if (strcmp(m, "startswith") == 0 || strcmp(m, "endswith") == 0) return s_affix(env, s, m, a, m[0] == 'e', out);
	if (strcmp(m, "replace") == 0) return s_replace(env, s, a, out);
	if (strcmp(m, "join") == 0) return s_join(env, s, a, out);
	if (strcmp(m, "upper") == 0) return s_case(env, s, m, a, JTEXT_UPPER, out);
	if (strcmp(m, "lower") == 0) return s_case(env, s, m, a, JTEXT_LOWER, out);
	if (strcmp(m, "title") == 0) return s_case(env, s, m, a, JTEXT_TITLE, out);
	if (strcmp(m, "capitalize") == 0) return s_case(env, s, m, a, JTEXT_CAPITALIZE, out);
	if (strcmp(m, "find") == 0 || strcmp(m, "rfind") == 0 || strcmp(m, "index") == 0 || strcmp(m, "rindex") == 0)
		return s_find(env, s, m, a, out);
	if (strcmp(m, "count") == 0) return s_count(env, s, a, out);
	if (strcmp(m, "removeprefix") == 0 || strcmp(m, "removesuffix") == 0) return s_remove(env, s, m, a, m[6] == 's', out);
	if (strcmp(m, "partition") == 0 || strcmp(m, "rpartition") == 0) return s_partition(env, s, m, a, m[0] == 'r', out);
	if (strcmp(m, "zfill") == 0 || strcmp(m, "center") == 0 || strcmp(m, "ljust") == 0 || strcmp(m, "rjust") == 0)
		return s_pad(env, s, m, a, out);
	for (size_t i = 0; i < ARRAY_LEN(IS); i++)
		if (strcmp(m, IS[i]) == 0) return s_is(env, s, m, a, out);
	return jenv_fail(env, "method 'str.%s' is not supported", m);
}

/* ---- other types ---- */

static bool call_dict(jenv *env, jv d, const char *m, const jargs *a, jv *out)
{
	if (strcmp(m, "get") == 0) {
		bool ok = arguments(env, m, a, 1, 2) && jv_hashable(env, a->pos[0]);
		const jv *v = ok ? jv_find(env, d.u.pairs, d.n, a->pos[0], &ok) : NULL;
		*out = v ? *v : ok && a->n > 1 ? a->pos[1] : jv_of(JV_NONE);
		return ok;
	}
	if (m[0] == 'f') return jenv_fail(env, "method 'dict.%s' is not supported", m);
	if (!arguments(env, m, a, 0, 0)) return false;
	*out = d;
	if (strcmp(m, "copy") == 0) return true;
	out->kind = JV_VIEW;
	out->flag = strcmp(m, "keys") == 0 ? JV_KEYS : strcmp(m, "values") == 0 ? JV_VALUES : JV_ITEMS;
	return true;
}

static bool call_list(jenv *env, jv l, const char *m, const jargs *a, jv *out)
{
	if (strcmp(m, "copy") == 0) return *out = l, arguments(env, m, a, 0, 0);
	if (!arguments(env, m, a, 1, 1)) return false;
	jv items;
	int64_t count = 0;
	if (!jv_list(env, l, &items)) return false;
	for (uint32_t i = 0; i < items.n; i++) {
		bool same;
		if (!jv_equal(env, items.u.items[i], a->pos[0], &same)) return false;
		if (same && m[0] == 'i') return *out = jv_int(i), true;
		count += same;
	}
	if (m[0] == 'i') return jenv_fail(env, "%s.index(x): x not in %s", jv_type(l), jv_type(l));
	*out = jv_int(count);
	return true;
}

static bool call_loop(jenv *env, jloop *l, const char *m, const jargs *a, jv *out)
{
	if (a->nnamed) return jenv_fail(env, "%s() takes no keyword arguments here", m);
	if (m[1] == 'y') {
		if (a->n == 0) return jenv_fail(env, "no items for cycling given");
		*out = a->pos[l->index0 % a->n];
		return true;
	}
	jv now = {.kind = JV_TUPLE, .n = a->n, .u.items = a->pos};
	bool same = false;
	if (l->changed.kind != JV_MISSING && !jv_equal(env, l->changed, now, &same)) return false;
	l->changed = now;
	*out = jv_bool(!same);
	return true;
}

bool jinja_call_method(jenv *env, jv self, const char *name, const jargs *args, jv *out)
{
	switch ((jv_kind)self.kind) {
	case JV_STR: return call_string(env, self, name, args, out);
	case JV_DICT: return call_dict(env, self, name, args, out);
	case JV_LIST:
	case JV_TUPLE:
	case JV_RANGE: return call_list(env, self, name, args, out);
	case JV_LOOP: return call_loop(env, self.u.loop, name, args, out);
	default: return jenv_fail(env, "method '%s.%s' is not supported", jv_type(self), name);
	}
}
