/* SPDX-License-Identifier: Apache-2.0
 * jinja_value.h: the values of the template interpreter, with Python's meaning: equality, order, truth, str() and repr(), iteration.
 * Values are small structs passed by value; what they point to lives in the arena of one render (or of the template, for
 * constants, or in the caller's JSON) and is never changed, namespaces and iterators aside. Knows nothing of syntax trees but their
 * name. Every function that can fail returns false (or -1) after jenv_fail has written the error: one line, prefixed with name and line.
 * Invariant that breaks first: a JV_STR holds valid UTF-8 without surrogates, n is its length in bytes.
 */
#ifndef CHAT_JINJA_VALUE_H
#define CHAT_JINJA_VALUE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/base_arena.h"
#include "base/base_buf.h"
#include "base/base_status.h"

typedef enum jv_kind {
	JV_MISSING, /* no value at all: an unset slot or an argument that was not given */
	JV_UNDEF,
	JV_NONE,
	JV_BOOL,
	JV_INT,
	JV_FLOAT, /* always finite */
	JV_STR,   /* flag 1: went through |safe, whose + and methods would escape HTML and are refused */
	JV_LIST,
	JV_TUPLE,
	JV_DICT,
	JV_VIEW, /* of a dict; flag: jv_view */
	JV_RANGE,
	JV_ITER, /* can be walked once: what generators and reversed() give */
	JV_NAMESPACE,
	JV_LOOP,
	JV_MACRO,
	JV_FUNC,   /* flag: a jinja_func of jinja.h */
	JV_METHOD, /* a method that is not called yet */
} jv_kind;

enum jv_view { JV_KEYS, JV_VALUES, JV_ITEMS };

typedef struct jenv jenv;   /* one render; jinja.h */
typedef struct jnode jnode; /* syntax tree; jinja.h */
typedef struct jiter jiter;
typedef struct jloop jloop;
typedef struct jv jv;
typedef struct jpair jpair;

struct jv {
	uint8_t kind, flag;
	uint32_t n; /* bytes of a string; items of list, tuple, dict, view, range */
	union {
		bool b;
		int64_t i;
		double d;
		const char *s;
		const jv *items;
		const jpair *pairs;
		const struct jrange *range;
		const struct jundef *undef;
		const struct jmethod *method;
		const jnode *macro;
		struct jnamespace *ns;
		jiter *iter;
		jloop *loop;
	} u;
};

struct jpair {
	jv k, v;
};

struct jrange {
	int64_t start, stop, step;
};

/* Why a value is undefined; hint wins over the rest. */
struct jundef {
	const char *hint;
	jv name;
	const char *type; /* of the object that lacks it, NULL for a variable */
	bool unsafe;
};

struct jmethod {
	jv self;
	const char *name;
};

struct jnamespace {
	jpair *pairs;
	uint32_t n, cap;
};

static inline jv jv_of(jv_kind k) { return (jv){.kind = (uint8_t)k}; }
static inline jv jv_bool(bool b) { return (jv){.kind = JV_BOOL, .u.b = b}; }
static inline jv jv_int(int64_t i) { return (jv){.kind = JV_INT, .u.i = i}; }
static inline jv jv_str(const char *s, size_t n) { return (jv){.kind = JV_STR, .n = (uint32_t)n, .u.s = s}; }
static inline jv jv_cstr(const char *s) { return jv_str(s, strlen(s)); }
static inline bool jv_is(jv v, const char *s) { return v.kind == JV_STR && v.n == strlen(s) && memcmp(v.u.s, s, v.n) == 0; }
static inline bool jv_same_str(jv a, jv b) { return a.n == b.n && memcmp(a.u.s, b.u.s, a.n) == 0; }

/* The render's services. */
bool jenv_fail(jenv *env, const char *format, ...) BASE_PRINTF(2, 3);  /* always false */
bool jenv_limit(jenv *env, const char *format, ...) BASE_PRINTF(2, 3); /* the same with NH_ERR_LIMIT */
bool jenv_step(jenv *env, uint64_t cost);                              /* charges work; false when the budget is spent */
bool jenv_enter(jenv *env); /* one level of nesting deeper; false when too deep. Pair with jenv_leave on success. */
void jenv_leave(jenv *env);
void *jenv_alloc(jenv *env, size_t count, size_t size);    /* zeroed; NULL after an error was written */
size_t jenv_room(const jenv *env);                         /* bytes that may still be allocated */
bool jenv_take(jenv *env, buf *b, jv *out);                /* string out of a buf, which is freed in every case */
bool jenv_join(jenv *env, const jv *v, size_t n, jv *out); /* concatenates strings; appending to the last result is cheap */

/* Type name as Python's type(x).__name__. */
const char *jv_type(jv v);
bool jv_truth(jenv *env, jv v, bool *out);
bool jv_number(jv v);     /* bool, int or float */
double jv_double(jv v);   /* of a number */
int64_t jv_integer(jv v); /* of a bool or int */
bool jv_equal(jenv *env, jv a, jv b, bool *out);
bool jv_less(jenv *env, jv a, jv b, const char *op, bool *out); /* a < b; op names the operator in the TypeError */
bool jv_contains(jenv *env, jv item, jv seq, bool *out);
bool jv_length(jenv *env, jv v, int64_t *out);
bool jv_hashable(jenv *env, jv v);
bool jv_undefined_error(jenv *env, jv undef);                 /* always false */
bool jv_undef(jenv *env, const char *type, jv name, jv *out); /* type NULL: a variable */
bool jv_undef_hint(jenv *env, const char *hint, jv *out);     /* hint must outlive the value */
bool jv_float(jenv *env, double d, jv *out);                  /* refuses what is not finite */

/* The value at a key of a dict or namespace; NULL when absent. Charges steps; ok is false on failure. */
const jv *jv_find(jenv *env, const jpair *pairs, uint32_t n, jv key, bool *ok);
const jv *jv_find_str(const jpair *pairs, uint32_t n, const char *key);

/* str() and repr() into a buf whose failure the caller turns into an error through jenv_take. */
bool jv_write_str(jenv *env, jv v, buf *out);
bool jv_write_repr(jenv *env, jv v, buf *out);
bool jv_to_str(jenv *env, jv v, jv *out); /* str(v); strings pass unchanged, |safe mark dropped */

/* Iteration as Python's iter() and next(). jiter_next: 1 an item, 0 the end, -1 an error. */
enum jiter_op { JITER_SEQ, JITER_REVERSED, JITER_ITEMS, JITER_MAP, JITER_SELECT, JITER_UNIQUE, JITER_BATCH };
struct jiter {
	uint8_t op;
	bool started, done, generator;
	jv src;
	jiter *from;  /* of src, once started */
	int64_t pos;  /* next item of SEQ and REVERSED: index, or byte offset in a string */
	void *detail; /* struct of jinja_seq.c */
};
bool jv_iter(jenv *env, jv v, jiter **out);
int jiter_next(jenv *env, jiter *it, jv *out);
bool jv_list(jenv *env, jv v, jv *out); /* list(v) */
bool jv_iterable(jv v);
jv jrange_at(jv range, uint32_t index);

/* Growing array of values in the render's memory. */
typedef struct jvec {
	jv *items;
	uint32_t n, cap;
} jvec;
bool jvec_push(jenv *env, jvec *v, jv item);

/* Sets a key of a dict under construction, or of a namespace; the key must be hashable. */
bool jnamespace_put(jenv *env, struct jnamespace *d, jv key, jv value);

/* A caller's JSON as a value: strings are borrowed, so `json` must outlive the render. */
bool jv_from_json(jenv *env, const json_t *json, jv *out);

#endif
