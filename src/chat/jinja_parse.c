/* SPDX-License-Identifier: Apache-2.0
 * jinja_parse.c: statements: tokens to the tree's upper half. Refuses by name every tag outside the subset. Loops, nesting and node
 * counts are limited, so that neither this parser nor the runner recurses without bound. What breaks first: the `soft` flag, which
 * must follow Jinja's compiler, because it decides whether an unknown filter fails now or only when it runs.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/base_mem.h"
#include "chat/jinja.h"

/* ---- the parser's services ---- */

void *jparse_fail(jparse *p, uint32_t line, const char *format, ...)
{
	if (p->failed) return NULL;
	char text[700];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	p->failed = true;
	p->status = ERR(p->e, NH_ERR_TEMPLATE, "%s: line %" PRIu32 ": %s", p->t->name, line, text);
	return NULL;
}

void *jparse_alloc(jparse *p, size_t count, size_t size)
{
	void *m = arena_array(&p->t->mem, count ? count : 1, size);
	if (!m && !p->failed) {
		p->failed = true;
		p->status = ERR_NOMEM(p->e);
	}
	return m;
}

jnode *jparse_node(jparse *p, jnode_kind kind, uint32_t line)
{
	if (++p->nodes > JINJA_MAX_NODES) return jparse_fail(p, line, "the template has more than %d parts", JINJA_MAX_NODES);
	jnode *n = jparse_alloc(p, 1, sizeof *n);
	if (!n) return NULL;
	n->kind = (uint8_t)kind;
	n->line = line;
	n->id = -1;
	return n;
}

bool jnodes_push(jparse *p, jnodes *l, jnode *node)
{
	if (!node) return false;
	if (l->n == l->cap) {
		uint32_t cap = l->cap ? l->cap * 2 : 8;
		jnode **grown = mem_resize(l->items, cap, sizeof(jnode *));
		if (!grown) {
			p->failed = true;
			p->status = ERR_NOMEM(p->e);
			return false;
		}
		l->items = grown;
		l->cap = cap;
	}
	l->items[l->n++] = node;
	return true;
}

bool jnodes_keep(jparse *p, jnodes *l, jnode ***kids, uint32_t *n)
{
	*kids = p->failed ? NULL : jparse_alloc(p, l->n, sizeof(jnode *));
	*n = l->n;
	if (*kids && l->n) memcpy(*kids, l->items, l->n * sizeof(jnode *));
	mem_free(l->items);
	*l = (jnodes){0};
	return *kids != NULL;
}

bool jparse_name_id(jparse *p, jv name, uint16_t *out)
{
	for (uint32_t i = 0; i < p->nnames; i++)
		if (jv_same_str(p->names[i], name)) return *out = (uint16_t)i, true;
	if (p->nnames == JINJA_MAX_NAMES)
		return jparse_fail(p, jparse_token(p)->line, "the template has more than %d variables", JINJA_MAX_NAMES);
	*out = (uint16_t)p->nnames;
	p->names[p->nnames++] = name;
	return true;
}

bool jparse_skip(jparse *p, jtok type)
{
	bool is = jparse_is(p, type);
	if (is) jparse_next(p);
	return is;
}

bool jparse_skip_name(jparse *p, const char *name)
{
	bool is = jparse_is_name(p, name);
	if (is) jparse_next(p);
	return is;
}

static const char *const TOKEN_NAMES[] = {"end of template", "template data / text", "begin of print statement", "end of print statement",
    "begin of statement block", "end of statement block", "name", "string", "integer", "float", "+", "-", "*", "/", "//", "%", "**", "~",
    "(", ")", "[", "]", "{", "}", "==", "!=", ">", ">=", "<", "<=", "=", ".", ":", "|", ",", ";"};

const char *jparse_describe(const jtoken *t, char out[48])
{
	if (t->type == T_NAME) snprintf(out, 48, "%.*s", t->value.n < 40 ? (int)t->value.n : 40, t->value.u.s);
	else snprintf(out, 48, "%s", TOKEN_NAMES[t->type]);
	return out;
}

bool jparse_expect(jparse *p, jtok type)
{
	if (jparse_skip(p, type)) return true;
	char got[48];
	return jparse_fail(p, jparse_token(p)->line, "expected token '%s', got '%s'", TOKEN_NAMES[type], jparse_describe(jparse_token(p), got));
}

/* ---- statements ---- */

static jnode *body(jparse *p, const char *const *ends);

/* The rest of a tag, then statements up to one of the tags in `ends`, whose name is then the current token. */
static jnode *statements(jparse *p, const char *const *ends)
{
	jparse_skip(p, T_COLON);
	if (!jparse_expect(p, T_BLOCK_END)) return NULL;
	uint32_t line = jparse_token(p)->line;
	jnode *b = body(p, ends);
	if (b && jparse_is(p, T_EOF)) return jparse_fail(p, line, "unexpected end of template: {%% %s %%} is missing", ends[0]);
	return b;
}

/* The same up to one tag, whose name is taken. */
static jnode *statements_to(jparse *p, const char *end)
{
	jnode *b = statements(p, (const char *const[]){end, NULL});
	if (b) jparse_next(p);
	return b;
}

/* A body that is a function or scope of its own in Jinja's compiler. */
typedef struct saved {
	bool soft, toplevel, in_loop, in_macro;
	int loops;
} saved;

static saved enter(jparse *p)
{
	saved s = {p->soft, p->toplevel, p->in_loop, p->in_macro, p->loops};
	p->soft = p->toplevel = false;
	return s;
}

static void leave(jparse *p, saved s)
{
	p->soft = s.soft;
	p->toplevel = s.toplevel;
	p->in_loop = s.in_loop;
	p->in_macro = s.in_macro;
	p->loops = s.loops;
}

static bool target_ok(jparse *p, jnode *n)
{
	if (n->kind == N_NSREF) return true;
	if (n->kind == N_NAME) {
		jv name = p->names[n->name];
		if (jv_is(name, "loop")) return jparse_fail(p, n->line, "can't assign to the special loop variable");
		return true;
	}
	if (n->kind != N_TUPLE) return jparse_fail(p, n->line, "can't assign to this expression");
	for (uint32_t i = 0; i < n->nkids; i++)
		if (!target_ok(p, n->kids[i])) return false;
	return true;
}

static jnode *assign_target(jparse *p, int how)
{
	jnode *n = jparse_tuple(p, JEXPR_TARGET | how);
	return n && target_ok(p, n) ? n : NULL;
}

static jnode *target_name(jparse *p)
{
	const jtoken *t = jparse_token(p);
	if (!jparse_expect(p, T_NAME)) return NULL;
	static const char *const CONSTS[] = {"true", "false", "none", "True", "False", "None"};
	for (size_t i = 0; i < ARRAY_LEN(CONSTS); i++)
		if (jv_is(t->value, CONSTS[i])) return jparse_fail(p, t->line, "can't assign to '%s'", CONSTS[i]);
	jnode *n = jparse_node(p, N_NAME, t->line);
	return n && jparse_name_id(p, t->value, &n->name) && target_ok(p, n) ? n : NULL;
}

static jnode *parse_set(jparse *p, uint32_t line)
{
	jnode *target = assign_target(p, JEXPR_NAMESPACE);
	if (!target) return NULL;
	bool simple = jparse_skip(p, T_ASSIGN);
	jnode *n = jparse_node(p, simple ? N_SET : N_SETBLOCK, line);
	if (!n) return NULL;
	n->d = target;
	if (simple) return (n->a = jparse_tuple(p, 0)) ? n : NULL;
	saved s = enter(p);
	n->e = jparse_filters(p, NULL);
	n->b = p->failed ? NULL : statements_to(p, "endset");
	leave(p, s);
	return n->b ? n : NULL;
}

static jnode *parse_if(jparse *p, uint32_t line)
{
	static const char *const ENDS[] = {"endif", "elif", "else", NULL};
	jnode *first = NULL, *last = NULL;
	bool soft = p->soft;
	p->soft = true;
	for (int branches = 0;; branches++) {
		if (branches > 200) return jparse_fail(p, line, "more than 200 branches in one if");
		jnode *n = jparse_node(p, N_IF, line);
		if (!n || !(n->a = jparse_tuple(p, JEXPR_NO_CONDITION)) || !(n->b = statements(p, ENDS))) return NULL;
		if (last) last->c = n;
		else first = n;
		last = n;
		line = jparse_token(p)->line;
		bool more = jparse_is_name(p, "elif"), other = jparse_is_name(p, "else");
		jparse_next(p);
		if (more) continue;
		if (other && !(last->c = statements_to(p, "endif"))) return NULL;
		break;
	}
	p->soft = soft;
	return first;
}

static jnode *parse_for(jparse *p, uint32_t line)
{
	static const char *const ENDS[] = {"endfor", "else", NULL};
	jnode *n = jparse_node(p, N_FOR, line);
	if (!n || !(n->d = assign_target(p, JEXPR_END_AT_IN))) return NULL;
	if (!jparse_skip_name(p, "in")) return jparse_fail(p, jparse_token(p)->line, "expected 'in' of a for loop");
	if (!(n->a = jparse_tuple(p, JEXPR_NO_CONDITION))) return NULL;
	saved s = enter(p);
	if (jparse_skip_name(p, "if") && !(n->e = jparse_expression(p, true))) return NULL;
	if (jparse_is_name(p, "recursive")) return jparse_fail(p, line, "recursive for loops are not supported");
	if (++p->loops > JINJA_MAX_LOOPS) return jparse_fail(p, line, "more than %d for loops inside each other", JINJA_MAX_LOOPS);
	p->in_loop = true;
	if (!(n->b = statements(p, ENDS))) return NULL;
	p->in_loop = s.in_loop;
	bool other = jparse_is_name(p, "else");
	jparse_next(p);
	if (other && !(n->c = statements_to(p, "endfor"))) return NULL;
	leave(p, s);
	return n;
}

/* Macro parameters: "(a, b=expr)". */
static bool signature(jparse *p, jnode *n)
{
	jnodes params = {0}, defaults = {0};
	bool ok = jparse_expect(p, T_LPAREN);
	while (ok && !jparse_is(p, T_RPAREN)) {
		if (params.n && !jparse_expect(p, T_COMMA)) ok = false;
		jnode *param = ok ? target_name(p) : NULL;
		ok = ok && jnodes_push(p, &params, param);
		for (uint32_t i = 0; ok && i + 1 < params.n; i++)
			if (params.items[i]->name == param->name) ok = jparse_fail(p, n->line, "a macro has two parameters of one name");
		if (!ok) break;
		if (jparse_skip(p, T_ASSIGN)) ok = jnodes_push(p, &defaults, jparse_expression(p, true));
		else if (defaults.n) ok = jparse_fail(p, n->line, "non-default argument follows default argument");
	}
	ok = ok && jparse_expect(p, T_RPAREN);
	n->nkeywords = params.n;
	uint32_t nd = defaults.n;
	jnode **d = NULL;
	ok = jnodes_keep(p, &params, &n->kids, &n->nkids) && ok;
	ok = jnodes_keep(p, &defaults, &d, &nd) && ok;
	n->keywords = ok ? jparse_alloc(p, n->nkids, sizeof *n->keywords) : NULL;
	for (uint32_t i = 0; n->keywords && i < nd; i++) n->keywords[n->nkids - nd + i].value = d[i];
	return n->keywords != NULL;
}

static jnode *parse_macro(jparse *p, uint32_t line)
{
	if (!p->toplevel) return jparse_fail(p, line, "a macro inside a loop, macro or block is not supported");
	jnode *n = jparse_node(p, N_MACRO, line);
	if (!n || !(n->d = target_name(p))) return NULL;
	n->value = p->names[n->d->name];
	saved s = enter(p);
	p->in_loop = false;
	p->in_macro = true;
	p->loops = 0;
	if (!signature(p, n) || !(n->b = statements_to(p, "endmacro"))) return NULL;
	leave(p, s);
	return n;
}

/* transformers' {% generation %}: marks the assistant's text, renders as its body in a scope of its own. */
static jnode *parse_generation(jparse *p, uint32_t line)
{
	jnode *n = jparse_node(p, N_SCOPE, line);
	saved s = enter(p);
	p->in_loop = false;
	if (!n || !(n->b = statements_to(p, "endgeneration"))) return NULL;
	leave(p, s);
	return n;
}

static jnode *parse_with(jparse *p, uint32_t line)
{
	jnode *n = jparse_node(p, N_WITH, line);
	jnodes targets = {0}, values = {0};
	bool ok = n != NULL;
	while (ok && !jparse_is(p, T_BLOCK_END)) {
		if (targets.n && !jparse_expect(p, T_COMMA)) ok = false;
		ok = ok && jnodes_push(p, &targets, target_name(p)) && jparse_expect(p, T_ASSIGN) &&
		     jnodes_push(p, &values, jparse_expression(p, true));
	}
	uint32_t nv = values.n;
	jnode **v = NULL;
	if (n) {
		ok = jnodes_keep(p, &targets, &n->kids, &n->nkids) && ok;
		ok = jnodes_keep(p, &values, &v, &nv) && ok;
	}
	if (!ok || !(n->keywords = jparse_alloc(p, nv, sizeof *n->keywords))) return NULL;
	n->nkeywords = nv;
	for (uint32_t i = 0; i < nv; i++) n->keywords[i].value = v[i];
	saved s = enter(p);
	n->b = statements_to(p, "endwith");
	leave(p, s);
	return n->b ? n : NULL;
}

static jnode *statement(jparse *p)
{
	const jtoken *t = jparse_token(p);
	if (t->type != T_NAME) return jparse_fail(p, t->line, "tag name expected");
	jparse_next(p);
	if (jv_is(t->value, "set")) return parse_set(p, t->line);
	if (jv_is(t->value, "if")) return parse_if(p, t->line);
	if (jv_is(t->value, "for")) return parse_for(p, t->line);
	if (jv_is(t->value, "macro")) return parse_macro(p, t->line);
	if (jv_is(t->value, "generation")) return parse_generation(p, t->line);
	if (jv_is(t->value, "with")) return parse_with(p, t->line);
	if (jv_is(t->value, "break") || jv_is(t->value, "continue")) {
		if (!p->in_loop) return jparse_fail(p, t->line, "'%.8s' outside a loop", t->value.u.s);
		return jparse_node(p, t->value.n == 5 ? N_BREAK : N_CONTINUE, t->line);
	}
	static const char *const OTHERS[] = {"block", "extends", "include", "import", "from", "call", "filter", "autoescape", "print"};
	for (size_t i = 0; i < ARRAY_LEN(OTHERS); i++)
		if (jv_is(t->value, OTHERS[i])) return jparse_fail(p, t->line, "tag '%s' is not supported", OTHERS[i]);
	char name[48];
	return jparse_fail(p, t->line, "unknown tag '%s', or one without its opening tag", jparse_describe(t, name));
}

static bool ends_here(jparse *p, const char *const *ends)
{
	for (; ends && *ends; ends++)
		if (jparse_is_name(p, *ends)) return true;
	return false;
}

static bool body_part(jparse *p, jnodes *kids)
{
	const jtoken *t = jparse_token(p);
	jparse_next(p);
	if (t->type == T_DATA) {
		jnode *n = jparse_node(p, N_DATA, t->line);
		if (n) n->value = t->value;
		return jnodes_push(p, kids, n);
	}
	if (t->type == T_VAR_BEGIN) {
		jnode *n = jparse_node(p, N_PRINT, t->line);
		return n && (n->a = jparse_tuple(p, 0)) && jparse_expect(p, T_VAR_END) && jnodes_push(p, kids, n);
	}
	return jnodes_push(p, kids, statement(p)) && jparse_expect(p, T_BLOCK_END);
}

static jnode *body(jparse *p, const char *const *ends)
{
	uint32_t line = jparse_token(p)->line;
	if (++p->nesting > JINJA_MAX_NESTING) return jparse_fail(p, line, "more than %d statements inside each other", JINJA_MAX_NESTING);
	jnode *n = jparse_node(p, N_BODY, line);
	jnodes kids = {0};
	while (n && !p->failed && !jparse_is(p, T_EOF)) {
		if (jparse_is(p, T_BLOCK_BEGIN) && ends) {
			jparse_next(p);
			if (ends_here(p, ends)) break;
			if (!jnodes_push(p, &kids, statement(p)) || !jparse_expect(p, T_BLOCK_END)) break;
		} else if (!body_part(p, &kids)) {
			break;
		}
	}
	p->nesting--;
	jnode **items = NULL;
	uint32_t count = 0;
	if (!jnodes_keep(p, &kids, &items, &count) || !n) return NULL;
	n->kids = items;
	n->nkids = count;
	return n;
}

jnode *jinja_parse(jparse *p)
{
	p->toplevel = true;
	jnode *n = body(p, NULL);
	return p->failed ? NULL : n;
}
