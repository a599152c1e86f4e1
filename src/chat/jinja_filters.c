/* SPDX-License-Identifier: Apache-2.0
 * jinja_filters.c: the filter table and the filters over single values; those over sequences are in jinja_seq.c. Each binds its
 * arguments by the parameter names that Jinja documents. Filters that Jinja has and this table does not are refused by name. What
 * breaks first: a filter that keeps a |safe mark where Jinja would, or drops it; the mark only ever leads to a refusal.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base_mem.h"
#include "chat/jinja.h"
#include "chat/jinja_text.h"

#define MAX_PARAMS 5

typedef struct filter {
	const char *name;
	bool (*fn)(jenv *env, jv in, const jv *a, jv *out);
	const char *params[MAX_PARAMS];
	int required;
} filter;

static bool truth_of(jenv *env, jv v, bool fallback, bool *out)
{
	*out = fallback;
	return v.kind == JV_MISSING || jv_truth(env, v, out);
}

static bool int_of(jenv *env, jv v, int64_t fallback, int64_t *out)
{
	*out = fallback;
	if (v.kind == JV_MISSING) return true;
	if (v.kind != JV_INT && v.kind != JV_BOOL) return jenv_fail(env, "'%s' object cannot be interpreted as an integer", jv_type(v));
	*out = jv_integer(v);
	return true;
}

/* soft_str: strings keep their |safe mark. */
static bool soft(jenv *env, jv v, jv *out)
{
	uint8_t mark = v.kind == JV_STR ? v.flag : 0;
	if (!jv_to_str(env, v, out)) return false;
	out->flag = mark;
	return true;
}

static bool f_case(jenv *env, jv in, enum jtext_case how, jv *out)
{
	jv s;
	if (!soft(env, in, &s)) return false;
	buf b = {.limit = jenv_room(env)};
	jtext_case(s.u.s, s.n, how, &b);
	if (!jenv_step(env, s.n / 16) || !jenv_take(env, &b, out)) return buf_deinit(&b), false;
	out->flag = s.flag;
	return true;
}

static bool f_upper(jenv *env, jv in, const jv *a, jv *out) { return (void)a, f_case(env, in, JTEXT_UPPER, out); }
static bool f_lower(jenv *env, jv in, const jv *a, jv *out) { return (void)a, f_case(env, in, JTEXT_LOWER, out); }
static bool f_capitalize(jenv *env, jv in, const jv *a, jv *out) { return (void)a, f_case(env, in, JTEXT_CAPITALIZE, out); }

/* Words begin after blanks, "-" and opening brackets: the first character upper case, the rest lower. */
static bool f_title(jenv *env, jv in, const jv *a, jv *out)
{
	(void)a;
	jv s;
	if (!jv_to_str(env, in, &s) || !jenv_step(env, s.n / 16)) return false;
	buf b = {.limit = jenv_room(env)};
	for (size_t i = 0; i < s.n;) {
		size_t start = i, end = i, word;
		for (word = i; end < s.n; word = end) {
			unsigned c = jtext_next(s.u.s, s.n, &end);
			bool separator = jtext_is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
			if (!separator) break;
		}
		/* Separators have no case, so they may pass through as they are. */
		buf_append(&b, s.u.s + start, word - start);
		size_t stop = word;
		while (stop < s.n) {
			size_t next = stop;
			unsigned c = jtext_next(s.u.s, s.n, &next);
			if (jtext_is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<') break;
			stop = next;
		}
		size_t first = word;
		if (first < stop) jtext_next(s.u.s, s.n, &first);
		jtext_case(s.u.s + word, first - word, JTEXT_UPPER, &b);
		jtext_case(s.u.s + first, stop - first, JTEXT_LOWER, &b);
		i = stop > start ? stop : s.n;
	}
	return jenv_take(env, &b, out);
}

static bool f_trim(jenv *env, jv in, const jv *a, jv *out)
{
	if (!soft(env, in, out)) return false;
	bool chars = a[0].kind == JV_STR;
	if (!chars && a[0].kind != JV_MISSING && a[0].kind != JV_NONE)
		return jenv_fail(env, "strip arg must be None or str, not %s", jv_type(a[0]));
	size_t n = out->n;
	if (!jenv_step(env, n / 64)) return false;
	jtext_strip(&out->u.s, &n, chars ? a[0].u.s : NULL, chars ? a[0].n : 0, JTEXT_LEFT | JTEXT_RIGHT);
	out->n = (uint32_t)n;
	return true;
}

static bool f_string(jenv *env, jv in, const jv *a, jv *out) { return (void)a, soft(env, in, out); }

static bool f_safe(jenv *env, jv in, const jv *a, jv *out)
{
	(void)a;
	if (!jv_to_str(env, in, out)) return false;
	out->flag = 1;
	return true;
}

static bool f_length(jenv *env, jv in, const jv *a, jv *out)
{
	(void)a;
	int64_t n;
	if (!jv_length(env, in, &n)) return false;
	*out = jv_int(n);
	return true;
}

static bool f_default(jenv *env, jv in, const jv *a, jv *out)
{
	bool boolean, truth = true;
	if (!truth_of(env, a[1], false, &boolean)) return false;
	if (in.kind != JV_UNDEF && boolean && !jv_truth(env, in, &truth)) return false;
	*out = in;
	if (in.kind == JV_UNDEF || !truth) *out = a[0].kind == JV_MISSING ? jv_str("", 0) : a[0];
	return true;
}

static bool f_first(jenv *env, jv in, const jv *a, jv *out)
{
	(void)a;
	jiter *it;
	if (!jv_iter(env, in, &it)) return false;
	int more = jiter_next(env, it, out);
	if (more == 0) return jv_undef_hint(env, "No first item, sequence was empty.", out);
	return more > 0;
}

static bool f_list(jenv *env, jv in, const jv *a, jv *out) { return (void)a, jv_list(env, in, out); }

static bool f_items(jenv *env, jv in, const jv *a, jv *out)
{
	(void)a;
	jiter *it = jenv_alloc(env, 1, sizeof *it);
	if (!it) return false;
	it->op = JITER_ITEMS;
	it->src = in;
	it->generator = true;
	*out = (jv){.kind = JV_ITER, .u.iter = it};
	return true;
}

static bool f_replace(jenv *env, jv in, const jv *a, jv *out)
{
	jv s, old, new;
	int64_t count = -1;
	if (!jv_to_str(env, in, &s) || !jv_to_str(env, a[0], &old) || !jv_to_str(env, a[1], &new)) return false;
	if (a[2].kind != JV_NONE && !int_of(env, a[2], -1, &count)) return false;
	const jv pos[3] = {old, new, jv_int(count)};
	return jinja_call_method(env, s, "replace", &(jargs){.pos = pos, .n = 3}, out);
}

/* int(): of what cannot be read as one, the default. */
static bool f_int(jenv *env, jv in, const jv *a, jv *out)
{
	int64_t base, v = 0;
	double d = 0;
	bool big = false, odd = false;
	*out = a[0].kind == JV_MISSING ? jv_int(0) : a[0];
	if (!int_of(env, a[1], 10, &base)) return false;
	if (base != 10) return jenv_fail(env, "filter 'int' with a base other than 10 is not supported");
	if (in.kind == JV_UNDEF) return jv_undefined_error(env, in);
	if (in.kind == JV_INT || in.kind == JV_BOOL) return *out = jv_int(jv_integer(in)), true;
	if (in.kind == JV_STR) {
		bool whole = jtext_read_int(in.u.s, in.n, &v, &big, &odd);
		if (odd) return jenv_fail(env, "filter 'int' on a text that is not ASCII is not supported");
		if (big) return jenv_fail(env, "an integer over 64 bits is not supported");
		if (whole) return *out = jv_int(v), true;
		if (!jtext_read_float(in.u.s, in.n, &d, &odd) || !isfinite(d)) return true;
	} else if (in.kind == JV_FLOAT) {
		d = in.u.d;
	} else {
		return true;
	}
	if (d >= 0x1p63 || d < -0x1p63) return jenv_fail(env, "an integer over 64 bits is not supported");
	*out = jv_int((int64_t)d);
	return true;
}

static bool f_float(jenv *env, jv in, const jv *a, jv *out)
{
	double d = 0;
	bool odd = false;
	*out = a[0].kind == JV_MISSING ? (jv){.kind = JV_FLOAT, .u.d = 0} : a[0];
	if (in.kind == JV_UNDEF) return jv_undefined_error(env, in);
	if (jv_number(in)) return jv_float(env, jv_double(in), out);
	if (in.kind != JV_STR) return true;
	bool good = jtext_read_float(in.u.s, in.n, &d, &odd);
	if (odd) return jenv_fail(env, "filter 'float' on a text that is not ASCII is not supported");
	return !good || jv_float(env, d, out);
}

static bool f_abs(jenv *env, jv in, const jv *a, jv *out)
{
	(void)a;
	if (!jv_number(in)) return jenv_fail(env, "bad operand type for abs(): '%s'", jv_type(in));
	if (in.kind == JV_FLOAT) return jv_float(env, fabs(in.u.d), out);
	int64_t v = jv_integer(in);
	return v < 0 ? jinja_binary(env, T_SUB, jv_int(0), jv_int(v), out) : (*out = jv_int(v), true);
}

static bool f_round(jenv *env, jv in, const jv *a, jv *out)
{
	int64_t precision;
	jv method = a[1].kind == JV_MISSING ? jv_cstr("common") : a[1];
	bool common = jv_is(method, "common"), ceiling = jv_is(method, "ceil");
	if (!common && !ceiling && !jv_is(method, "floor")) return jenv_fail(env, "method must be common, ceil or floor");
	if (!jv_number(in)) return jenv_fail(env, "type %s doesn't define __round__ method", jv_type(in));
	if (!int_of(env, a[0], 0, &precision)) return false;
	if (precision < 0 || precision > 300) return jenv_fail(env, "rounding to fewer than 0 or more than 300 places is not supported");
	if (common && in.kind != JV_FLOAT) return *out = jv_int(jv_integer(in)), true;
	if (!common && in.kind != JV_FLOAT && precision == 0) {
		if (llabs(jv_integer(in)) > (int64_t)1 << 53) return jenv_fail(env, "rounding integers over 2**53 is not supported");
		return jv_float(env, jv_double(in), out);
	}
	if (common) {
		/* printf rounds the exact binary value, ties to even, which is what Python's round does. */
		char text[700];
		snprintf(text, sizeof text, "%.*f", (int)precision, in.u.d);
		return jv_float(env, strtod(text, NULL), out);
	}
	if (precision > 22) return jenv_fail(env, "rounding up or down to more than 22 places is not supported");
	double scale = 1; /* exact up to 10**22 */
	for (int64_t i = 0; i < precision; i++) scale *= 10;
	double v = jv_double(in) * scale;
	return jv_float(env, (ceiling ? ceil(v) : floor(v)) / scale, out);
}

static bool f_indent(jenv *env, jv in, const jv *a, jv *out)
{
	bool first, blank;
	int64_t width = 4;
	if (!truth_of(env, a[1], false, &first) || !truth_of(env, a[2], false, &blank)) return false;
	if (a[0].kind != JV_STR && !int_of(env, a[0], 4, &width)) return false;
	if (in.kind == JV_UNDEF) return jv_undefined_error(env, in);
	if (in.kind != JV_STR) return jenv_fail(env, "unsupported operand type(s) for +=: '%s' and 'str'", jv_type(in));
	if (in.flag || (a[0].kind == JV_STR && a[0].flag)) return jenv_fail(env, "filter 'indent' on a |safe string is not supported");
	if (width > 10000) return jenv_limit(env, "an indentation of more than 10000");
	jv indent = a[0];
	char spaces[10001];
	if (indent.kind != JV_STR) {
		size_t n = width > 0 ? (size_t)width : 0;
		memset(spaces, ' ', n);
		indent = jv_str(spaces, n);
	}
	buf b = {.limit = jenv_room(env)};
	bool ok = true, more = true;
	for (size_t pos = 0, line = 0; more && ok; line++) {
		/* The filter appends a newline before it splits lines, so that the last line always counts. */
		size_t start = pos, brk = 0, n = jtext_line(in.u.s, in.n, &pos, &brk);
		more = brk > 0;
		if (!more) pos = in.n;
		if (more && pos == in.n && in.u.s[pos - 1] == '\r') more = false; /* "\r" and the added "\n" are one break */
		if (line) buf_char(&b, '\n');
		if ((line && (blank || n)) || (!line && first)) buf_append(&b, indent.u.s, indent.n);
		buf_append(&b, in.u.s + start, n);
		ok = jenv_step(env, 1 + n / 64);
	}
	return jenv_take(env, &b, out) && ok;
}

/* ---- filters of jinja_seq.c, adapted ---- */

static bool f_reverse(jenv *env, jv in, const jv *a, jv *out) { return (void)a, jinja_seq_reverse(env, in, out); }
static bool f_last(jenv *env, jv in, const jv *a, jv *out) { return (void)a, jinja_seq_last(env, in, out); }
static bool f_min(jenv *env, jv in, const jv *a, jv *out) { return jinja_seq_extreme(env, in, a, false, out); }
static bool f_max(jenv *env, jv in, const jv *a, jv *out) { return jinja_seq_extreme(env, in, a, true, out); }

static const filter FILTERS[] = {
    {"trim", f_trim, {"chars"}, 0},
    {"tojson", jinja_tojson, {"ensure_ascii", "indent", "separators", "sort_keys"}, 0},
    {"length", f_length, {0}, 0},
    {"count", f_length, {0}, 0},
    {"string", f_string, {0}, 0},
    {"safe", f_safe, {0}, 0},
    {"default", f_default, {"default_value", "boolean"}, 0},
    {"d", f_default, {"default_value", "boolean"}, 0},
    {"items", f_items, {0}, 0},
    {"join", jinja_seq_join, {"d", "attribute"}, 0},
    {"list", f_list, {0}, 0},
    {"first", f_first, {0}, 0},
    {"last", f_last, {0}, 0},
    {"upper", f_upper, {0}, 0},
    {"lower", f_lower, {0}, 0},
    {"capitalize", f_capitalize, {0}, 0},
    {"title", f_title, {0}, 0},
    {"replace", f_replace, {"old", "new", "count"}, 2},
    {"int", f_int, {"default", "base"}, 0},
    {"float", f_float, {"default"}, 0},
    {"abs", f_abs, {0}, 0},
    {"round", f_round, {"precision", "method"}, 0},
    {"indent", f_indent, {"width", "first", "blank"}, 0},
    {"reverse", f_reverse, {0}, 0},
    {"sort", jinja_seq_sort, {"reverse", "case_sensitive", "attribute"}, 0},
    {"dictsort", jinja_seq_dictsort, {"case_sensitive", "by", "reverse"}, 0},
    {"unique", jinja_seq_unique, {"case_sensitive", "attribute"}, 0},
    {"min", f_min, {"case_sensitive", "attribute"}, 0},
    {"max", f_max, {"case_sensitive", "attribute"}, 0},
    {"sum", jinja_seq_sum, {"attribute", "start"}, 0},
    {"batch", jinja_seq_batch, {"linecount", "fill_with"}, 1},
};

enum { ID_MAP = ARRAY_LEN(FILTERS), ID_SELECT, ID_REJECT, ID_SELECTATTR, ID_REJECTATTR };
static const char *const OPEN_ENDED[] = {"map", "select", "reject", "selectattr", "rejectattr"}; /* filters with any arguments */

int jinja_filter_id(jv name)
{
	for (size_t i = 0; i < ARRAY_LEN(FILTERS); i++)
		if (jv_is(name, FILTERS[i].name)) return (int)i;
	for (size_t i = 0; i < ARRAY_LEN(OPEN_ENDED); i++)
		if (jv_is(name, OPEN_ENDED[i])) return (int)(ID_MAP + i);
	return -1;
}

bool jinja_filter_known(jv name)
{
	static const char *const OTHERS[] = {"attr", "center", "e", "escape", "filesizeformat", "forceescape", "format", "groupby", "pprint",
	    "random", "slice", "striptags", "truncate", "urlencode", "urlize", "wordcount", "wordwrap", "xmlattr"};
	for (size_t i = 0; i < ARRAY_LEN(OTHERS); i++)
		if (jv_is(name, OTHERS[i])) return true;
	return jinja_filter_id(name) >= 0;
}

bool jinja_filter(jenv *env, int id, jv in, const jargs *args, jv *out)
{
	if (in.kind == JV_LOOP) return jenv_fail(env, "filters on the loop variable are not supported");
	if (id == ID_MAP) return jinja_seq_map(env, in, args, out);
	if (id > ID_MAP) return jinja_seq_select(env, in, args, id >= ID_SELECTATTR, id == ID_REJECT || id == ID_REJECTATTR, out);
	const filter *f = &FILTERS[id];
	const char *params[MAX_PARAMS + 1] = {0};
	jv values[MAX_PARAMS];
	memcpy(params, f->params, sizeof f->params);
	char what[40];
	snprintf(what, sizeof what, "filter '%s'", f->name);
	return jinja_bind(env, what, args, params, f->required, values) && f->fn(env, in, values, out);
}
