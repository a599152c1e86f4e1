/* SPDX-License-Identifier: Apache-2.0
 * jinja_json.c: the tojson filter that transformers installs, which is json.dumps(x, ensure_ascii=False, ...) and escapes no HTML, and
 * strftime_now. What breaks first: separators, which depend on indent: ", " without, "," with.
 */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "chat/jinja.h"
#include "chat/jinja_text.h"

typedef struct dumper {
	jenv *env;
	buf *out;
	bool ascii, sorted, pretty;
	jv indent, item, key; /* one level of indentation; separators */
	int level;
} dumper;

static void dump_string(dumper *d, jv s)
{
	buf_char(d->out, '"');
	for (size_t i = 0; i < s.n && !d->out->failed;) {
		size_t at = i;
		unsigned c = jtext_next(s.u.s, s.n, &i);
		static const char FROM[] = "\"\\\n\r\t\f\b", TO[] = "\"\\nrtfb";
		const char *simple = c && c < 0x80 ? strchr(FROM, (int)c) : NULL;
		if (simple) buf_printf(d->out, "\\%c", TO[simple - FROM]);
		else if (c < 0x20 || (d->ascii && c >= 0x7F && c < 0x10000)) buf_printf(d->out, "\\u%04x", c);
		else if (d->ascii && c >= 0x10000) buf_printf(d->out, "\\u%04x\\u%04x", 0xD800 + ((c - 0x10000) >> 10), 0xDC00 + (c & 0x3FF));
		else buf_append(d->out, s.u.s + at, i - at);
	}
	buf_char(d->out, '"');
}

static void newline(dumper *d)
{
	if (!d->pretty) return;
	buf_char(d->out, '\n');
	for (int i = 0; i < d->level && !d->out->failed; i++) buf_append(d->out, d->indent.u.s, d->indent.n);
}

static bool dump_scalar(dumper *d, jv v)
{
	switch ((jv_kind)v.kind) {
	case JV_NONE: buf_str(d->out, "null"); return true;
	case JV_BOOL: buf_str(d->out, v.u.b ? "true" : "false"); return true;
	case JV_INT: buf_printf(d->out, "%" PRId64, v.u.i); return true;
	case JV_FLOAT: jtext_repr_float(v.u.d, d->out); return true;
	case JV_STR: dump_string(d, v); return jenv_step(d->env, v.n / 16);
	default: return false;
	}
}

static bool dump_key(dumper *d, jv k)
{
	if (k.kind == JV_STR) return dump_string(d, k), true;
	if (k.kind != JV_NONE && !jv_number(k)) return jenv_fail(d->env, "keys must be str, int, float, bool or None, not %s", jv_type(k));
	buf_char(d->out, '"');
	dump_scalar(d, k);
	buf_char(d->out, '"');
	return true;
}

static bool dump(dumper *d, jv v);

static bool dump_list(dumper *d, jv v)
{
	if (v.n == 0) return buf_str(d->out, "[]"), true;
	buf_char(d->out, '[');
	d->level++;
	for (uint32_t i = 0; i < v.n; i++) {
		if (i) buf_append(d->out, d->item.u.s, d->item.n);
		newline(d);
		if (!dump(d, v.u.items[i])) return false;
	}
	d->level--;
	newline(d);
	buf_char(d->out, ']');
	return true;
}

static bool dump_dict(dumper *d, jv v)
{
	jv order = {0};
	if (v.n == 0) return buf_str(d->out, "{}"), true;
	if (d->sorted && !jinja_seq_dictsort(d->env, v, (const jv[]){jv_bool(true), jv_cstr("key"), jv_bool(false)}, &order)) return false;
	buf_char(d->out, '{');
	d->level++;
	for (uint32_t i = 0; i < v.n; i++) {
		jv k = d->sorted ? order.u.items[i].u.items[0] : v.u.pairs[i].k;
		if (i) buf_append(d->out, d->item.u.s, d->item.n);
		newline(d);
		if (!dump_key(d, k)) return false;
		buf_append(d->out, d->key.u.s, d->key.n);
		if (!dump(d, d->sorted ? order.u.items[i].u.items[1] : v.u.pairs[i].v)) return false;
	}
	d->level--;
	newline(d);
	buf_char(d->out, '}');
	return true;
}

static bool dump(dumper *d, jv v)
{
	if (d->out->failed) return true; /* the caller sees it */
	if (!jenv_step(d->env, 1) || !jenv_enter(d->env)) return false;
	bool ok;
	if (v.kind == JV_LIST || v.kind == JV_TUPLE) ok = dump_list(d, v);
	else if (v.kind == JV_DICT) ok = dump_dict(d, v);
	else if (!(ok = dump_scalar(d, v))) jenv_fail(d->env, "Object of type %s is not JSON serializable", jv_type(v));
	jenv_leave(d->env);
	return ok;
}

/* separators=(item, key) */
static bool read_separators(dumper *d, jv v)
{
	if (v.kind == JV_MISSING || v.kind == JV_NONE) return true;
	bool good = (v.kind == JV_TUPLE || v.kind == JV_LIST) && v.n == 2 && v.u.items[0].kind == JV_STR && v.u.items[1].kind == JV_STR;
	if (!good) return jenv_fail(d->env, "tojson: separators must be two strings");
	d->item = v.u.items[0];
	d->key = v.u.items[1];
	return true;
}

bool jinja_tojson(jenv *env, jv in, const jv *a, jv *out)
{
	static const char SPACES[101] = "                                                                                                    ";
	buf b = {.limit = jenv_room(env)};
	dumper d = {.env = env, .out = &b, .key = jv_str(": ", 2)};
	if (a[0].kind != JV_MISSING && !jv_truth(env, a[0], &d.ascii)) return false;
	if (a[3].kind != JV_MISSING && !jv_truth(env, a[3], &d.sorted)) return false;
	d.pretty = a[1].kind != JV_MISSING && a[1].kind != JV_NONE;
	d.item = d.pretty ? jv_str(",", 1) : jv_str(", ", 2);
	if (d.pretty && a[1].kind == JV_STR) {
		d.indent = a[1];
	} else if (d.pretty) {
		if (a[1].kind != JV_INT && a[1].kind != JV_BOOL) return jenv_fail(env, "tojson: indent must be an integer or a string");
		int64_t n = jv_integer(a[1]);
		if (n > 100) return jenv_limit(env, "tojson: an indent of more than 100");
		d.indent = jv_str(SPACES, n > 0 ? (size_t)n : 0);
	}
	if (!read_separators(&d, a[2])) return false;
	bool ok = dump(&d, in);
	return jenv_take(env, &b, out) && ok;
}

/* ---- strftime ---- */

static bool directive(char c, bool bare, const struct tm *t, buf *out)
{
	static const char *const DAYS[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
	static const char *const MONTHS[] = {
	    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"};
	int hour = t->tm_hour % 12 ? t->tm_hour % 12 : 12, value, width = 2;
	switch (c) {
	case 'd': value = t->tm_mday; break;
	case 'm': value = t->tm_mon + 1; break;
	case 'y': value = t->tm_year % 100; break;
	case 'H': value = t->tm_hour; break;
	case 'I': value = hour; break;
	case 'M': value = t->tm_min; break;
	case 'S': value = t->tm_sec; break;
	case 'j': value = t->tm_yday + 1, width = 3; break;
	default:
		if (bare) return false;
		if (c == 'Y') buf_printf(out, "%d", t->tm_year + 1900);
		else if (c == 'a') buf_append(out, DAYS[t->tm_wday], 3);
		else if (c == 'A') buf_str(out, DAYS[t->tm_wday]);
		else if (c == 'b') buf_append(out, MONTHS[t->tm_mon], 3);
		else if (c == 'B') buf_str(out, MONTHS[t->tm_mon]);
		else if (c == 'p') buf_str(out, t->tm_hour < 12 ? "AM" : "PM");
		else if (c == 'e') buf_printf(out, "%2d", t->tm_mday);
		else if (c == 'w') buf_printf(out, "%d", t->tm_wday);
		else if (c == 'F') buf_printf(out, "%d-%02d-%02d", t->tm_year + 1900, t->tm_mon + 1, t->tm_mday);
		else if (c == 'T') buf_printf(out, "%02d:%02d:%02d", t->tm_hour, t->tm_min, t->tm_sec);
		else if (c == '%') buf_char(out, '%');
		else return c == 'z' || c == 'Z'; /* the time is naive: nothing */
		return true;
	}
	buf_printf(out, "%0*d", bare ? 1 : width, value);
	return true;
}

bool jinja_strftime(jenv *env, int64_t now, jv format, jv *out)
{
	struct tm t;
	time_t when = (time_t)now;
	if (now < 0 || now > (int64_t)250000000000 || !gmtime_r(&when, &t)) return jenv_fail(env, "strftime_now: the time is out of range");
	buf b = {.limit = jenv_room(env)};
	for (uint32_t i = 0; i < format.n; i++) {
		if (format.u.s[i] != '%') {
			buf_char(&b, format.u.s[i]);
			continue;
		}
		bool bare = ++i < format.n && format.u.s[i] == '-';
		i += bare;
		if (i < format.n && directive(format.u.s[i], bare, &t, &b)) continue;
		char c = i < format.n ? format.u.s[i] : ' ';
		buf_deinit(&b);
		return jenv_fail(env, "strftime_now: directive %%%s%c is not supported", bare ? "-" : "", c);
	}
	return jenv_take(env, &b, out);
}
