/* SPDX-License-Identifier: Apache-2.0
 * jinja_seq.c: filters over sequences. map, select, reject, their attr forms, unique and batch are generators in Jinja: they run when they are walked,
 * once, and so do these. sort is stable. What breaks first: laziness; an argument is evaluated when the filter is written, an item
 * when it is pulled.
 */
#include "base/base_mem.h"
#include "chat/jinja.h"
#include "chat/jinja_text.h"

/* ---- attribute paths: "a.b.0" ---- */

/* The value at a dotted path of item; attr None or MISSING means the item itself. fallback MISSING: none. */
static bool path_get(jenv *env, jv item, jv attr, jv fallback, jv *out)
{
	*out = item;
	if (attr.kind == JV_MISSING || attr.kind == JV_NONE) return true;
	if (attr.kind != JV_STR) {
		if (!jinja_getitem(env, *out, attr, out)) return false;
		if (out->kind == JV_UNDEF && fallback.kind != JV_MISSING && fallback.kind != JV_NONE) *out = fallback;
		return true;
	}
	for (size_t at = 0;;) {
		size_t end = jtext_find(attr.u.s, attr.n, ".", 1, at);
		if (end == SIZE_MAX) end = attr.n;
		jv part = jv_str(attr.u.s + at, end - at);
		int64_t index = 0;
		bool big = false, odd = false, digits = part.n > 0;
		for (uint32_t i = 0; i < part.n; i++) digits = digits && part.u.s[i] >= '0' && part.u.s[i] <= '9';
		if (!jtext_ascii(part.u.s, part.n)) return jenv_fail(env, "attribute paths that are not ASCII are not supported");
		if (digits && jtext_read_int(part.u.s, part.n, &index, &big, &odd) && !big) part = jv_int(index);
		if (!jinja_getitem(env, *out, part, out)) return false;
		if (out->kind == JV_UNDEF && fallback.kind != JV_MISSING && fallback.kind != JV_NONE) *out = fallback;
		if (end == attr.n) return true;
		at = end + 1;
	}
}

bool jv_ignore_case(jenv *env, jv v, jv *out)
{
	*out = v;
	if (v.kind != JV_STR) return true;
	const jargs none = {0};
	return jinja_call_method(env, jv_str(v.u.s, v.n), "lower", &none, out);
}

static bool truth_of(jenv *env, jv v, bool *out)
{
	*out = false;
	return v.kind == JV_MISSING || jv_truth(env, v, out);
}

static bool key_of(jenv *env, jv item, jv attr, bool case_sensitive, jv *out)
{
	return path_get(env, item, attr, jv_of(JV_MISSING), out) && (case_sensitive || jv_ignore_case(env, *out, out));
}

/* ---- generators ---- */

typedef struct detail {
	jargs args;             /* after the ones below are taken off */
	jv attribute, fallback; /* map(attribute=..., default=...), selectattr's first */
	jv name;                /* of the filter or test; MISSING: none */
	int id;
	bool negate, by_attribute, case_sensitive;
	jvec seen;     /* unique: keys so far */
	int64_t count; /* batch */
} detail;

static bool generator(jenv *env, enum jiter_op op, jv in, detail **d, jv *out)
{
	jiter *it = jenv_alloc(env, 1, sizeof *it);
	if (!it || !(it->detail = jenv_alloc(env, 1, sizeof(detail)))) return false;
	it->op = (uint8_t)op;
	it->src = in;
	it->generator = true;
	*d = it->detail;
	*out = (jv){.kind = JV_ITER, .u.iter = it};
	return true;
}

static jargs rest(const jargs *a, uint32_t from)
{
	jargs r = *a;
	from = from < a->n ? from : a->n;
	r.pos += from;
	r.n -= from;
	return r;
}

bool jinja_seq_map(jenv *env, jv in, const jargs *args, jv *out)
{
	detail *d;
	if (!generator(env, JITER_MAP, in, &d, out)) return false;
	d->args = *args;
	d->id = -1;
	if (args->n == 0) {
		for (uint32_t i = 0; i < args->nnamed; i++) {
			jv name = args->named[i].name;
			if (jv_is(name, "attribute")) d->by_attribute = true, d->attribute = args->named[i].value;
			else if (jv_is(name, "default")) d->fallback = args->named[i].value;
			else return jenv_fail(env, "map got an unexpected keyword argument");
		}
		if (!d->by_attribute) return jenv_fail(env, "map requires a filter argument");
		return true;
	}
	d->name = args->pos[0];
	d->args = rest(args, 1);
	d->id = d->name.kind == JV_STR ? jinja_filter_id(d->name) : -1;
	return true;
}

bool jinja_seq_select(jenv *env, jv in, const jargs *args, bool attribute, bool negate, jv *out)
{
	detail *d;
	if (!generator(env, JITER_SELECT, in, &d, out)) return false;
	d->negate = negate;
	d->id = -1;
	uint32_t at = 0;
	if (attribute) {
		if (args->n == 0) return jenv_fail(env, "Missing parameter for attribute name");
		d->attribute = args->pos[at++];
		d->by_attribute = true;
	}
	if (at < args->n) {
		d->name = args->pos[at++];
		d->id = d->name.kind == JV_STR ? jinja_test_id(d->name) : -1;
	} else if (args->nnamed) {
		return jenv_fail(env, "keyword arguments without a test are not supported");
	}
	d->args = rest(args, at);
	return true;
}

bool jinja_seq_unique(jenv *env, jv in, const jv *a, jv *out)
{
	detail *d;
	if (!generator(env, JITER_UNIQUE, in, &d, out)) return false;
	d->attribute = a[1];
	return truth_of(env, a[0], &d->case_sensitive);
}

bool jinja_seq_batch(jenv *env, jv in, const jv *a, jv *out)
{
	detail *d;
	if (a[0].kind != JV_INT || a[0].u.i < 1 || a[0].u.i > 100000) return jenv_fail(env, "filter 'batch' needs a count from 1 to 100000");
	if (!generator(env, JITER_BATCH, in, &d, out)) return false;
	d->count = a[0].u.i;
	d->fallback = a[1];
	return true;
}

static bool no_such(jenv *env, const char *what, jv name)
{
	if (name.kind != JV_STR) return jenv_fail(env, "the name of a %s must be a string, not %s", what, jv_type(name));
	return jenv_fail(env, "%s '%.*s' is not supported", what, name.n < 60 ? (int)name.n : 60, name.u.s);
}

static int next_map(jenv *env, jiter *it, detail *d, jv *out)
{
	jv item;
	int more = jiter_next(env, it->from, &item);
	if (more <= 0) return more;
	if (d->by_attribute) return path_get(env, item, d->attribute, d->fallback, out) ? 1 : -1;
	if (d->id < 0) return no_such(env, "filter", d->name), -1;
	return jinja_filter(env, d->id, item, &d->args, out) ? 1 : -1;
}

static int next_select(jenv *env, jiter *it, detail *d, jv *out)
{
	for (;;) {
		jv value;
		bool pass;
		int more = jiter_next(env, it->from, out);
		if (more <= 0) return more;
		value = *out;
		if (d->by_attribute && !path_get(env, *out, d->attribute, jv_of(JV_MISSING), &value)) return -1;
		if (d->name.kind == JV_MISSING) {
			if (!jv_truth(env, value, &pass)) return -1;
		} else {
			if (d->id < 0) return no_such(env, "test", d->name), -1;
			if (!jinja_test(env, d->id, value, &d->args, &pass)) return -1;
		}
		if (pass != d->negate) return 1;
	}
}

static int next_unique(jenv *env, jiter *it, detail *d, jv *out)
{
	for (;;) {
		jv key;
		bool seen = false;
		int more = jiter_next(env, it->from, out);
		if (more <= 0) return more;
		if (!key_of(env, *out, d->attribute, d->case_sensitive, &key) || !jv_hashable(env, key)) return -1;
		for (uint32_t i = 0; !seen && i < d->seen.n; i++)
			if (!jv_equal(env, d->seen.items[i], key, &seen)) return -1;
		if (seen) continue;
		return jvec_push(env, &d->seen, key) ? 1 : -1;
	}
}

static int next_batch(jenv *env, jiter *it, detail *d, jv *out)
{
	jvec row = {0};
	jv item;
	int more = 1;
	while (row.n < d->count && (more = jiter_next(env, it->from, &item)) > 0)
		if (!jvec_push(env, &row, item)) return -1;
	if (more < 0) return -1;
	if (row.n == 0) return 0;
	bool fill = d->fallback.kind != JV_MISSING && d->fallback.kind != JV_NONE;
	while (fill && row.n < d->count)
		if (!jenv_step(env, 1) || !jvec_push(env, &row, d->fallback)) return -1;
	*out = (jv){.kind = JV_LIST, .n = row.n, .u.items = row.items};
	return 1;
}

static bool start(jenv *env, jiter *it)
{
	bool truth = true;
	if (it->op == JITER_ITEMS) {
		if (it->src.kind == JV_UNDEF) return jv_iter(env, it->src, &it->from);
		if (it->src.kind != JV_DICT) return jenv_fail(env, "Can only get item pairs from a mapping.");
		return jv_iter(env, (jv){.kind = JV_VIEW, .flag = JV_ITEMS, .n = it->src.n, .u.pairs = it->src.u.pairs}, &it->from);
	}
	/* map and the selects look at the truth of their input first: none|map is empty, not an error. */
	if ((it->op == JITER_MAP || it->op == JITER_SELECT) && !jv_truth(env, it->src, &truth)) return false;
	return jv_iter(env, truth ? it->src : jv_str("", 0), &it->from);
}

int jinja_seq_next(jenv *env, jiter *it, jv *out)
{
	if (!it->started) {
		it->started = true;
		if (!start(env, it)) return -1;
	}
	switch (it->op) {
	case JITER_MAP: return next_map(env, it, it->detail, out);
	case JITER_SELECT: return next_select(env, it, it->detail, out);
	case JITER_UNIQUE: return next_unique(env, it, it->detail, out);
	case JITER_BATCH: return next_batch(env, it, it->detail, out);
	default: return jiter_next(env, it->from, out);
	}
}

/* ---- order ---- */

typedef struct entry {
	jv key, value;
} entry;

/* Stable merge sort of n entries; `spare` has room for as many. */
static bool merge_sort(jenv *env, entry *e, entry *spare, size_t n, bool reverse)
{
	for (size_t width = 1; width < n; width *= 2) {
		for (size_t lo = 0; lo < n; lo += 2 * width) {
			size_t mid = lo + width < n ? lo + width : n, hi = mid + width < n ? mid + width : n, i = lo, j = mid, k = lo;
			while (i < mid && j < hi) {
				bool right;
				if (!(reverse ? jv_less(env, e[i].key, e[j].key, "<", &right) : jv_less(env, e[j].key, e[i].key, "<", &right)))
					return false;
				spare[k++] = right ? e[j++] : e[i++];
			}
			while (i < mid) spare[k++] = e[i++];
			while (j < hi) spare[k++] = e[j++];
		}
		memcpy(e, spare, n * sizeof *e);
		if (!jenv_step(env, n)) return false;
	}
	return true;
}

/* Sorts items by keys[i]. */
static bool sort_by(jenv *env, jv items, const jv *keys, bool reverse, jv *out)
{
	entry *e = jenv_alloc(env, items.n, sizeof *e), *spare = e ? jenv_alloc(env, items.n, sizeof *e) : NULL;
	jv *sorted = spare ? jenv_alloc(env, items.n, sizeof *sorted) : NULL;
	if (!sorted) return false;
	for (uint32_t i = 0; i < items.n; i++) e[i] = (entry){keys[i], items.u.items[i]};
	if (!merge_sort(env, e, spare, items.n, reverse)) return false;
	for (uint32_t i = 0; i < items.n; i++) sorted[i] = e[i].value;
	*out = (jv){.kind = JV_LIST, .n = items.n, .u.items = sorted};
	return true;
}

/* sort's key: a list with one value for each comma-separated attribute. */
static bool multi_key(jenv *env, jv item, jv attr, bool case_sensitive, jv *out)
{
	jvec parts = {0};
	size_t at = 0, end;
	do {
		jv one = attr, key;
		end = attr.kind == JV_STR ? jtext_find(attr.u.s, attr.n, ",", 1, at) : SIZE_MAX;
		if (attr.kind == JV_STR) one = jv_str(attr.u.s + at, (end == SIZE_MAX ? attr.n : end) - at);
		if (!key_of(env, item, one, case_sensitive, &key) || !jvec_push(env, &parts, key)) return false;
		at = end + 1;
	} while (end != SIZE_MAX);
	*out = (jv){.kind = JV_LIST, .n = parts.n, .u.items = parts.items};
	return true;
}

bool jinja_seq_sort(jenv *env, jv in, const jv *a, jv *out)
{
	jv items;
	bool reverse, case_sensitive;
	if (!truth_of(env, a[0], &reverse) || !truth_of(env, a[1], &case_sensitive) || !jv_list(env, in, &items)) return false;
	jv *keys = jenv_alloc(env, items.n, sizeof *keys);
	bool ok = keys != NULL;
	for (uint32_t i = 0; ok && i < items.n; i++) ok = multi_key(env, items.u.items[i], a[2], case_sensitive, &keys[i]);
	return ok && sort_by(env, items, keys, reverse, out);
}

bool jinja_seq_dictsort(jenv *env, jv in, const jv *a, jv *out)
{
	bool reverse, case_sensitive;
	jv by = a[1].kind == JV_MISSING ? jv_cstr("key") : a[1], items;
	if (!truth_of(env, a[0], &case_sensitive) || !truth_of(env, a[2], &reverse)) return false;
	if (!jv_is(by, "key") && !jv_is(by, "value")) return jenv_fail(env, "You can only sort by either \"key\" or \"value\"");
	if (in.kind == JV_UNDEF) return jv_undefined_error(env, in);
	if (in.kind != JV_DICT) return jenv_fail(env, "'%s' object has no attribute 'items'", jv_type(in));
	if (!jv_list(env, (jv){.kind = JV_VIEW, .flag = JV_ITEMS, .n = in.n, .u.pairs = in.u.pairs}, &items)) return false;
	jv *keys = jenv_alloc(env, items.n, sizeof *keys);
	bool ok = keys != NULL;
	for (uint32_t i = 0; ok && i < items.n; i++) {
		keys[i] = jv_is(by, "key") ? in.u.pairs[i].k : in.u.pairs[i].v;
		if (!case_sensitive) ok = jv_ignore_case(env, keys[i], &keys[i]);
	}
	return ok && sort_by(env, items, keys, reverse, out);
}

bool jinja_seq_extreme(jenv *env, jv in, const jv *a, bool max, jv *out)
{
	bool case_sensitive;
	jiter *it;
	jv item, key, best_key = jv_of(JV_MISSING);
	int more;
	if (!truth_of(env, a[0], &case_sensitive) || !jv_iter(env, in, &it)) return false;
	while ((more = jiter_next(env, it, &item)) > 0) {
		bool better = true;
		if (!key_of(env, item, a[1], case_sensitive, &key)) return false;
		if (best_key.kind != JV_MISSING) {
			bool ok = max ? jv_less(env, best_key, key, ">", &better) : jv_less(env, key, best_key, "<", &better);
			if (!ok) return false;
		}
		if (better) *out = item, best_key = key;
	}
	if (more < 0) return false;
	return best_key.kind != JV_MISSING || jv_undef_hint(env, "No aggregated item, sequence was empty.", out);
}

bool jinja_seq_sum(jenv *env, jv in, const jv *a, jv *out)
{
	jiter *it;
	jv item, total = a[1].kind == JV_MISSING ? jv_int(0) : a[1];
	int more;
	if (total.kind == JV_STR) return jenv_fail(env, "sum() can't sum strings [use ''.join(seq) instead]");
	if (!jv_iter(env, in, &it)) return false;
	bool reals = total.kind == JV_FLOAT;
	while ((more = jiter_next(env, it, &item)) > 0) {
		if (!path_get(env, item, a[0], jv_of(JV_MISSING), &item)) return false;
		/* Python 3.12 sums floats with compensation, 3.11 does not: more than one float addition may differ between them. */
		bool real = item.kind == JV_FLOAT;
		if (reals && real && jv_double(total) != 0) return jenv_fail(env, "filter 'sum' over several floats is not supported");
		reals = reals || real;
		if (!jinja_binary(env, T_ADD, total, item, &total)) return false;
	}
	*out = total;
	return more == 0;
}

bool jinja_seq_join(jenv *env, jv in, const jv *a, jv *out)
{
	jv items, glue = jv_str("", 0);
	if (in.kind == JV_UNDEF && a[1].kind == JV_MISSING) return *out = jv_str("", 0), true;
	if (a[0].kind != JV_MISSING && !jv_to_str(env, a[0], &glue)) return false;
	if (!jv_list(env, in, &items)) return false;
	jv *parts = jenv_alloc(env, items.n ? 2 * (size_t)items.n : 1, sizeof *parts);
	bool ok = parts != NULL, by_attribute = a[1].kind != JV_MISSING && a[1].kind != JV_NONE;
	for (uint32_t i = 0; ok && i < items.n; i++) {
		jv item = items.u.items[i];
		if (by_attribute) ok = path_get(env, item, a[1], jv_of(JV_MISSING), &item);
		ok = ok && jenv_step(env, 1) && jv_to_str(env, item, &parts[2 * (size_t)i]);
		parts[2 * (size_t)i + 1] = glue;
	}
	return ok && jenv_join(env, parts, items.n ? 2 * (size_t)items.n - 1 : 0, out);
}

bool jinja_seq_reverse(jenv *env, jv in, jv *out)
{
	if (in.kind == JV_STR) return jinja_slice(env, in, jv_of(JV_NONE), jv_of(JV_NONE), jv_int(-1), out);
	if (!jv_iterable(in)) return jenv_fail(env, "argument must be iterable");
	if (in.kind == JV_ITER) { /* cannot be reversed in Python, so the filter makes a list of it */
		jv list;
		return jv_list(env, in, &list) && jinja_slice(env, list, jv_of(JV_NONE), jv_of(JV_NONE), jv_int(-1), out);
	}
	jiter *it = jenv_alloc(env, 1, sizeof *it);
	if (!it) return false;
	it->op = JITER_REVERSED;
	it->src = in;
	it->started = true;
	it->pos = in.kind == JV_UNDEF ? 0 : in.n;
	*out = (jv){.kind = JV_ITER, .u.iter = it};
	return true;
}

bool jinja_seq_last(jenv *env, jv in, jv *out)
{
	if (in.kind == JV_ITER || !jv_iterable(in)) return jenv_fail(env, "'%s' object is not reversible", jv_type(in));
	int64_t n;
	if (!jv_length(env, in, &n)) return false;
	if (n == 0) return jv_undef_hint(env, "No last item, sequence was empty.", out);
	if (in.kind != JV_DICT && in.kind != JV_VIEW) return jinja_getitem(env, in, jv_int(n - 1), out);
	jv items;
	if (!jv_list(env, in, &items)) return false;
	*out = items.u.items[n - 1];
	return true;
}
