/* SPDX-License-Identifier: Apache-2.0
 * jinja.h: the inside of the template interpreter: tokens, syntax tree, scopes, and the state of one render. Only src/chat/jinja_*.c
 * and template.c include it. Order of work: lex and parse (jinja_lex.c, jinja_parse.c, jinja_expr.c), resolve names to slots
 * (jinja_scope.c), run (jinja_exec.c for statements, jinja_eval.c for expressions). The tree is read-only after template_open.
 */
#ifndef CHAT_JINJA_H
#define CHAT_JINJA_H

#include "chat/jinja_value.h"
#include "chat/template.h"

/* ---- syntax ---- */

#define JINJA_MAX_SOURCE ((size_t)4 << 20) /* bytes of a template */
#define JINJA_MAX_NAMES 1000               /* distinct variable names */
#define JINJA_MAX_NESTING 60               /* statements inside statements */
#define JINJA_MAX_LOOPS 16                 /* for inside for; Python itself stops at 20 nested blocks */
#define JINJA_MAX_EXPRESSION 60            /* expressions inside expressions */
#define JINJA_MAX_NODES 2000000

typedef enum jtok {
	T_EOF,
	T_DATA,
	T_VAR_BEGIN,
	T_VAR_END,
	T_BLOCK_BEGIN,
	T_BLOCK_END,
	T_NAME,
	T_STRING,
	T_INT,
	T_FLOAT,
	T_ADD,
	T_SUB,
	T_MUL,
	T_DIV,
	T_FLOORDIV,
	T_MOD,
	T_POW,
	T_TILDE,
	T_LPAREN,
	T_RPAREN,
	T_LBRACKET,
	T_RBRACKET,
	T_LBRACE,
	T_RBRACE,
	T_EQ,
	T_NE,
	T_GT,
	T_GE,
	T_LT,
	T_LE,
	T_ASSIGN,
	T_DOT,
	T_COLON,
	T_PIPE,
	T_COMMA,
	T_SEMICOLON,
} jtok;

typedef struct jtoken {
	jtok type;
	uint32_t line;
	jv value; /* DATA, NAME, STRING: text; INT, FLOAT: number */
} jtoken;

typedef enum jnode_kind {
	/* statements */
	N_BODY,
	N_DATA,
	N_PRINT,
	N_IF,
	N_FOR,
	N_SET,
	N_SETBLOCK,
	N_MACRO,
	N_BREAK,
	N_CONTINUE,
	N_SCOPE,
	N_WITH,
	/* expressions */
	N_CONST,
	N_NAME,
	N_NSREF,
	N_LIST,
	N_TUPLE,
	N_DICT,
	N_NOT,
	N_NEG,
	N_POS,
	N_AND,
	N_OR,
	N_BINARY,
	N_CONCAT,
	N_COMPARE,
	N_CONDITION,
	N_ATTR,
	N_ITEM,
	N_SLICE,
	N_CALL,
	N_FILTER,
	N_TEST,
} jnode_kind;

typedef struct jkeyword {
	jv name;
	jnode *value;
} jkeyword;

/* What a scope does when it is entered, as Jinja's compiler does it at the start of a body. */
typedef struct jload {
	enum { LOAD_PARAM, LOAD_RESOLVE, LOAD_ALIAS, LOAD_UNSET } how;
	uint16_t name;
	uint32_t slot;  /* of the frame that runs (root or macro) */
	uint32_t from;  /* LOAD_ALIAS: slot of the outer scope */
	bool from_root; /* ... in the root's slots, while this scope is a macro's */
} jload;

typedef struct jscope {
	jload *loads;
	uint32_t n;
} jscope;

/* One node. Which fields mean what:
 * BODY kids; DATA value; PRINT a; IF a test, b body, c else (an IF for elif, or a BODY); FOR a iterable, b body, c else, d target, e test,
 * scope of body, scope2 of else, scope3 of test; SET a value, d target; SETBLOCK b body, d target, e filter chain (its innermost input
 * is NULL), scope; MACRO value name, d its NAME, kids parameter names, keywords[i].value defaults or NULL, b body, scope, slots;
 * SCOPE b body, scope; WITH kids targets, keywords[i].value values, b body, scope;
 * CONST value; NAME name, slot; NSREF name, slot, value attribute; LIST, TUPLE kids; DICT kids key, value, ...; NOT NEG POS a; AND OR a b;
 * BINARY op a b; CONCAT kids; COMPARE a, kids operands, ops; CONDITION a test, b then, c else or NULL; ATTR a, value name;
 * ITEM a, b; SLICE a, kids start stop step (NULL: none); CALL a callee; FILTER a input, value name, id; TEST a, value name, id;
 * the last three: kids positional, keywords named. */
struct jnode {
	uint8_t kind, op;
	bool flag; /* FOR: the body reads `loop`; NAME, NSREF: the slot is the root's while a macro runs */
	uint32_t line;
	int32_t id;
	uint16_t name;
	uint32_t slot, slots, nkids, nkeywords;
	jnode *a, *b, *c, *d, *e;
	jnode **kids;
	uint8_t *ops; /* COMPARE: jtok, or J_IN, J_NOT_IN */
	jkeyword *keywords;
	jv value;
	jscope scope, scope2, scope3;
	uint32_t loop_slot; /* FOR with flag */
};

enum { J_IN = 100, J_NOT_IN };

struct chat_template {
	arena mem;
	char *name; /* own */
	jnode *root;
	jscope scope;
	uint32_t slots;
	const jv *names; /* variable names by id */
	uint32_t nnames;
};

typedef struct jparse {
	chat_template *t;
	nh_error *e;
	jtoken *tokens; /* own */
	size_t ntokens, at, nodes;
	bool failed;
	nh_status status;
	int nesting, loops, expressions; /* depths */
	bool soft;                       /* inside an if: Jinja looks up filters and tests only when they run */
	bool in_loop, toplevel, in_macro;
	jv *names; /* own until handed to the template's arena */
	uint32_t nnames, capnames;
} jparse;

/* Errors: "<name>: line N: text"; returns NULL so that parsers can `return jparse_fail(...)`. */
void *jparse_fail(jparse *p, uint32_t line, const char *format, ...) BASE_PRINTF(3, 4);
void *jparse_alloc(jparse *p, size_t count, size_t size); /* in the template's arena */
bool jinja_lex(jparse *p, const char *text, size_t len);
jnode *jinja_parse(jparse *p); /* the whole template */
bool jinja_scope_all(jparse *p, jnode *root);

/* Between jinja_parse.c and jinja_expr.c. */
static inline const jtoken *jparse_token(const jparse *p) { return &p->tokens[p->at]; }
static inline const jtoken *jparse_look(const jparse *p) { return &p->tokens[p->at + (p->at + 1 < p->ntokens)]; }
static inline void jparse_next(jparse *p) { p->at += p->at + 1 < p->ntokens; }
static inline bool jparse_is(const jparse *p, jtok type) { return jparse_token(p)->type == type; }
static inline bool jparse_is_name(const jparse *p, const char *name) { return jparse_is(p, T_NAME) && jv_is(jparse_token(p)->value, name); }
bool jparse_skip(jparse *p, jtok type); /* takes the token when it is of that type */
bool jparse_skip_name(jparse *p, const char *name);
bool jparse_expect(jparse *p, jtok type);
const char *jparse_describe(const jtoken *t, char out[48]);
jnode *jparse_node(jparse *p, jnode_kind kind, uint32_t line);
bool jparse_name_id(jparse *p, jv name, uint16_t *out);

typedef struct jnodes {
	jnode **items; /* own (mem_free) */
	uint32_t n, cap;
} jnodes;
bool jnodes_push(jparse *p, jnodes *l, jnode *node);                /* NULL node: false */
bool jnodes_keep(jparse *p, jnodes *l, jnode ***kids, uint32_t *n); /* into the arena; frees the list */

enum { JEXPR_NO_CONDITION = 1, JEXPR_END_AT_IN = 2, JEXPR_TARGET = 4, JEXPR_NAMESPACE = 8, JEXPR_PAREN = 16 };
jnode *jparse_expression(jparse *p, bool condition);
jnode *jparse_tuple(jparse *p, int how);
jnode *jparse_filters(jparse *p, jnode *input); /* zero or more |filter */

/* ---- running ---- */

enum jinja_func {
	F_RANGE,
	F_NAMESPACE,
	F_DICT,
	F_RAISE,
	F_STRFTIME,
	F_CYCLER,
	F_JOINER,
	F_LIPSUM, /* the last three only exist to be refused */
};

struct jloop {
	jiter *it;
	const jnode *node; /* its test, if any, filters lazily */
	jv before, current, after;
	int64_t index0, length; /* length < 0: not known yet */
	jvec rest;              /* read ahead by .length */
	uint32_t rest_at;
	bool has_before, ahead, ended, rested;
	jv changed; /* last arguments of .changed */
};

struct jenv {
	const chat_template *t;
	arena mem;
	size_t used, memory_limit;
	uint64_t steps, step_limit;
	int depth, depth_limit;
	uint32_t line;
	nh_status status;
	nh_error *e;
	jv *root, *local; /* slots */
	jv vars;          /* dict */
	int64_t now;
	bool has_now;
	buf *out;
	/* The last joined string, which may grow in place. */
	char *tail;
	size_t tail_len, tail_cap;
};

typedef struct jarg {
	jv name, value;
} jarg;

typedef struct jargs {
	const jv *pos;
	const jarg *named;
	uint32_t n, nnamed;
} jargs;

typedef enum jflow { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE, FLOW_ERROR } jflow;

jflow jinja_exec(jenv *env, const jnode *node);
bool jinja_eval(jenv *env, const jnode *node, jv *out);
bool jinja_eval_args(jenv *env, const jnode *node, jargs *out);
void jinja_enter_scope(jenv *env, const jscope *scope);
bool jinja_resolve(jenv *env, jv name, jv *out); /* variable or global; MISSING when there is none */
bool jinja_assign(jenv *env, const jnode *target, jv value);
bool jinja_call_macro(jenv *env, const jnode *macro, const jargs *args, jv *out);
bool jinja_call(jenv *env, jv callee, const jargs *args, jv *out);
bool jinja_call_method(jenv *env, jv self, const char *name, const jargs *args, jv *out);
bool jinja_binary(jenv *env, int op, jv a, jv b, jv *out);
bool jinja_getattr(jenv *env, jv obj, jv name, jv *out); /* obj.name */
bool jinja_getitem(jenv *env, jv obj, jv key, jv *out);  /* obj[key] */
bool jinja_slice(jenv *env, jv obj, jv start, jv stop, jv step, jv *out);
bool jinja_loop_attr(jenv *env, jloop *l, jv name, jv *out); /* MISSING when it has none of that name */
int jloop_next(jenv *env, jloop *l, jv *out);                /* as jiter_next */

/* Binds args to parameters named in `params` ("a", "b", ..., NULL): values[i] is MISSING where not given. */
bool jinja_bind(jenv *env, const char *what, const jargs *args, const char *const *params, int required, jv *values);

/* Filters and tests: ids by name, -1 when there is none; jinja_filter_known: whether Jinja itself has one of that name. */
int jinja_filter_id(jv name);
bool jinja_filter_known(jv name);
bool jinja_filter(jenv *env, int id, jv in, const jargs *args, jv *out);
int jinja_test_id(jv name);
bool jinja_test_known(jv name);
bool jinja_test(jenv *env, int id, jv in, const jargs *args, bool *out);

/* jinja_seq.c: filters over sequences, and the lazy iterators behind them. */
bool jinja_seq_map(jenv *env, jv in, const jargs *args, jv *out);
bool jinja_seq_select(jenv *env, jv in, const jargs *args, bool attribute, bool negate, jv *out);
bool jinja_seq_unique(jenv *env, jv in, const jv *a, jv *out);
bool jinja_seq_batch(jenv *env, jv in, const jv *a, jv *out);
bool jinja_seq_sort(jenv *env, jv in, const jv *a, jv *out);
bool jinja_seq_dictsort(jenv *env, jv in, const jv *a, jv *out);
bool jinja_seq_extreme(jenv *env, jv in, const jv *a, bool max, jv *out);
bool jinja_seq_sum(jenv *env, jv in, const jv *a, jv *out);
bool jinja_seq_join(jenv *env, jv in, const jv *a, jv *out);
bool jinja_seq_reverse(jenv *env, jv in, jv *out);
bool jinja_seq_last(jenv *env, jv in, jv *out);
int jinja_seq_next(jenv *env, jiter *it, jv *out); /* JITER_ITEMS and later */

bool jinja_tojson(jenv *env, jv in, const jv *a, jv *out);       /* ensure_ascii, indent, separators, sort_keys */
bool jinja_strftime(jenv *env, int64_t now, jv format, jv *out); /* UTC, English names */
bool jv_ignore_case(jenv *env, jv v, jv *out);                   /* strings lower-cased, others as they are */

#endif
