/* SPDX-License-Identifier: Apache-2.0
 * jinja_expr.c: expressions: tokens to the tree's lower half, with Jinja's precedences, from the loosest: if-else, or, and, not,
 * comparison, + -, ~, * / // %, **, unary sign, then attributes, subscripts and calls, then filters and tests. ("-" binds its
 * operand before filters do; "**" is left-associative; both are Jinja's ways, not Python's.) What breaks first: the depth counter.
 */
#include "base/base_mem.h"
#include "chat/jinja.h"

static jnode *unary(jparse *p, bool with_filter);

static bool deeper(jparse *p)
{
	if (++p->expressions <= JINJA_MAX_EXPRESSION) return true;
	return jparse_fail(p, jparse_token(p)->line, "more than %d expressions inside each other", JINJA_MAX_EXPRESSION);
}

static jnode *binary(jparse *p, jnode_kind kind, int op, uint32_t line, jnode *a, jnode *b)
{
	jnode *n = a && b ? jparse_node(p, kind, line) : NULL;
	if (!n) return NULL;
	n->op = (uint8_t)op;
	n->a = a;
	n->b = b;
	return n;
}

/* ---- arguments of calls, filters and tests ---- */

static bool keyword(jparse *p, jkeyword **list, uint32_t *n, uint32_t *cap)
{
	jv name = jparse_token(p)->value;
	uint32_t line = jparse_token(p)->line;
	jparse_next(p);
	jparse_next(p);
	for (uint32_t i = 0; i < *n; i++)
		if (jv_same_str((*list)[i].name, name)) return jparse_fail(p, line, "keyword argument repeated: %.*s", (int)name.n, name.u.s);
	if (*n == *cap) {
		uint32_t grown = *cap ? *cap * 2 : 4;
		jkeyword *more = mem_resize(*list, grown, sizeof **list);
		if (!more) {
			p->failed = true;
			p->status = ERR_NOMEM(p->e);
			return false;
		}
		*list = more;
		*cap = grown;
	}
	jnode *value = jparse_expression(p, true);
	(*list)[(*n)++] = (jkeyword){name, value};
	return value != NULL;
}

static bool call_args(jparse *p, jnode *n)
{
	jnodes pos = {0};
	jkeyword *named = NULL;
	uint32_t nnamed = 0, cap = 0, line = jparse_token(p)->line;
	bool ok = jparse_expect(p, T_LPAREN), comma = false;
	while (ok && !jparse_is(p, T_RPAREN)) {
		if (comma && !(ok = jparse_expect(p, T_COMMA))) break;
		if (comma && jparse_is(p, T_RPAREN)) break;
		comma = true;
		if (jparse_is(p, T_MUL) || jparse_is(p, T_POW)) ok = jparse_fail(p, line, "* and ** arguments are not supported");
		else if (jparse_is(p, T_NAME) && jparse_look(p)->type == T_ASSIGN) ok = keyword(p, &named, &nnamed, &cap);
		else if (nnamed) ok = jparse_fail(p, line, "invalid syntax for function call expression");
		else ok = jnodes_push(p, &pos, jparse_expression(p, true));
	}
	ok = ok && jparse_expect(p, T_RPAREN);
	ok = jnodes_keep(p, &pos, &n->kids, &n->nkids) && ok;
	n->keywords = ok ? jparse_alloc(p, nnamed, sizeof *named) : NULL;
	n->nkeywords = nnamed;
	if (n->keywords && nnamed) memcpy(n->keywords, named, nnamed * sizeof *named);
	mem_free(named);
	return n->keywords != NULL;
}

/* "name" or "a.b" of a filter or test: the dotted form exists in Jinja, but no such filter does. */
static bool plain_name(jparse *p, jnode *n)
{
	n->value = jparse_token(p)->value;
	if (!jparse_expect(p, T_NAME)) return false;
	if (jparse_is(p, T_DOT)) return jparse_fail(p, n->line, "filters and tests with dotted names are not supported");
	return true;
}

static bool known(jparse *p, jnode *n, const char *what, bool in_jinja)
{
	if (n->id >= 0 || p->soft) return true;
	int len = n->value.n < 60 ? (int)n->value.n : 60;
	if (in_jinja) return jparse_fail(p, n->line, "%s '%.*s' is not supported", what, len, n->value.u.s);
	return jparse_fail(p, n->line, "No %s named '%.*s'.", what, len, n->value.u.s);
}

jnode *jparse_filters(jparse *p, jnode *input)
{
	while (jparse_skip(p, T_PIPE)) {
		jnode *n = jparse_node(p, N_FILTER, jparse_token(p)->line);
		if (!n || !plain_name(p, n)) return NULL;
		n->a = input;
		n->id = jinja_filter_id(n->value);
		if (!known(p, n, "filter", jinja_filter_known(n->value))) return NULL;
		if (jparse_is(p, T_LPAREN) && !call_args(p, n)) return NULL;
		input = n;
	}
	return input;
}

static jnode *primary(jparse *p, int how);
static jnode *postfix(jparse *p, jnode *n);

static jnode *test(jparse *p, jnode *input)
{
	uint32_t line = jparse_token(p)->line;
	jparse_next(p); /* is */
	bool negated = jparse_skip_name(p, "not");
	jnode *n = jparse_node(p, N_TEST, line);
	if (!n || !plain_name(p, n)) return NULL;
	n->a = input;
	n->id = jinja_test_id(n->value);
	if (!known(p, n, "test", jinja_test_known(n->value))) return NULL;
	jtok t = jparse_token(p)->type;
	if (t == T_LPAREN) {
		if (!call_args(p, n)) return NULL;
	} else if (t == T_STRING || t == T_INT || t == T_FLOAT || t == T_LBRACKET || t == T_LBRACE ||
	           (t == T_NAME && !jparse_is_name(p, "else") && !jparse_is_name(p, "or") && !jparse_is_name(p, "and"))) {
		if (jparse_is_name(p, "is")) return jparse_fail(p, line, "You cannot chain multiple tests with is");
		jnode *arg = primary(p, 0);
		if (arg) arg = postfix(p, arg);
		if (!arg || !(n->kids = jparse_alloc(p, 1, sizeof *n->kids))) return NULL;
		n->kids[0] = arg;
		n->nkids = 1;
	}
	if (!negated) return n;
	jnode *not = jparse_node(p, N_NOT, line);
	if (not ) not ->a = n;
	return not ;
}

/* ---- primaries ---- */

static jnode *constant(jparse *p, uint32_t line, jv value)
{
	jnode *n = jparse_node(p, N_CONST, line);
	if (n) n->value = value;
	return n;
}

static jnode *name(jparse *p, int how)
{
	const jtoken *t = jparse_token(p);
	jparse_next(p);
	if (jv_is(t->value, "true") || jv_is(t->value, "True")) return constant(p, t->line, jv_bool(true));
	if (jv_is(t->value, "false") || jv_is(t->value, "False")) return constant(p, t->line, jv_bool(false));
	if (jv_is(t->value, "none") || jv_is(t->value, "None")) return constant(p, t->line, jv_of(JV_NONE));
	static const char *const WORDS[] = {"and", "or", "not", "in", "is", "if", "else", "elif", "for"};
	for (size_t i = 0; i < ARRAY_LEN(WORDS); i++)
		if (jv_is(t->value, WORDS[i])) return jparse_fail(p, t->line, "unexpected '%s'", WORDS[i]);
	static const char *const SPECIAL[] = {"caller", "varargs", "kwargs"};
	for (size_t i = 0; p->in_macro && i < ARRAY_LEN(SPECIAL); i++)
		if (jv_is(t->value, SPECIAL[i])) return jparse_fail(p, t->line, "'%s' in a macro is not supported", SPECIAL[i]);
	bool space = (how & JEXPR_NAMESPACE) && jparse_is(p, T_DOT);
	jnode *n = jparse_node(p, space ? N_NSREF : N_NAME, t->line);
	if (!n || !jparse_name_id(p, t->value, &n->name)) return NULL;
	if (space) {
		jparse_next(p);
		n->value = jparse_token(p)->value;
		if (!jparse_expect(p, T_NAME)) return NULL;
	}
	return n;
}

static jnode *strings(jparse *p)
{
	const jtoken *first = jparse_token(p);
	size_t total = 0, from = p->at, at = 0;
	for (; jparse_is(p, T_STRING); jparse_next(p)) total += jparse_token(p)->value.n;
	if (p->at == from + 1) return constant(p, first->line, first->value);
	char *text = jparse_alloc(p, total + 1, 1);
	if (!text) return NULL;
	for (size_t i = from; i < p->at; i++) {
		jv s = p->tokens[i].value;
		memcpy(text + at, s.u.s, s.n);
		at += s.n;
	}
	return constant(p, first->line, jv_str(text, total));
}

/* A list as a key never works, and Jinja, which folds constants, says so even where the dict is never reached. */
static bool key_ok(jparse *p, const jnode *key)
{
	bool ok = key->kind != N_LIST && key->kind != N_DICT;
	for (uint32_t i = 0; ok && key->kind == N_TUPLE && i < key->nkids; i++) ok = key_ok(p, key->kids[i]);
	return ok || jparse_fail(p, key->line, "unhashable type: '%s'", key->kind == N_DICT ? "dict" : "list");
}

static jnode *list_or_dict(jparse *p, jtok close)
{
	bool dict = close == T_RBRACE;
	jnode *n = jparse_node(p, dict ? N_DICT : N_LIST, jparse_token(p)->line);
	jnodes items = {0};
	bool ok = n != NULL;
	jparse_next(p);
	while (ok && !jparse_is(p, close)) {
		if (items.n && !(ok = jparse_expect(p, T_COMMA))) break;
		if (jparse_is(p, close)) break;
		ok = jnodes_push(p, &items, jparse_expression(p, true));
		if (dict)
			ok = ok && key_ok(p, items.items[items.n - 1]) && jparse_expect(p, T_COLON) &&
			     jnodes_push(p, &items, jparse_expression(p, true));
	}
	ok = ok && jparse_expect(p, close);
	jnode **kids = NULL;
	uint32_t count = 0;
	if (!jnodes_keep(p, &items, &kids, &count) || !ok) return NULL;
	n->kids = kids;
	n->nkids = count;
	return n;
}

static jnode *primary(jparse *p, int how)
{
	if (!deeper(p)) return NULL;
	const jtoken *t = jparse_token(p);
	jnode *n = NULL;
	char got[48];
	switch (t->type) {
	case T_NAME: n = name(p, how); break;
	case T_STRING: n = strings(p); break;
	case T_INT:
	case T_FLOAT:
		jparse_next(p);
		n = constant(p, t->line, t->value);
		break;
	case T_LPAREN:
		jparse_next(p);
		n = jparse_tuple(p, JEXPR_PAREN);
		if (n && !jparse_expect(p, T_RPAREN)) n = NULL;
		break;
	case T_LBRACKET: n = list_or_dict(p, T_RBRACKET); break;
	case T_LBRACE: n = list_or_dict(p, T_RBRACE); break;
	default: n = jparse_fail(p, t->line, "unexpected '%s'", jparse_describe(t, got));
	}
	p->expressions--;
	return n;
}

/* ---- after a primary ---- */

static bool slice_part(jparse *p, jnode **out)
{
	*out = NULL;
	if (jparse_is(p, T_COLON) || jparse_is(p, T_RBRACKET) || jparse_is(p, T_COMMA)) return true;
	return (*out = jparse_expression(p, true)) != NULL;
}

static jnode *subscript(jparse *p, jnode *object)
{
	uint32_t line = jparse_token(p)->line;
	if (jparse_skip(p, T_DOT)) {
		const jtoken *t = jparse_token(p);
		jparse_next(p);
		if (t->type == T_INT) return binary(p, N_ITEM, 0, line, object, constant(p, t->line, t->value));
		if (t->type != T_NAME) return jparse_fail(p, t->line, "expected name or number");
		jnode *n = jparse_node(p, N_ATTR, line);
		if (!n) return NULL;
		n->a = object;
		n->value = t->value;
		return n;
	}
	jparse_next(p);
	jnode *part[3] = {0};
	if (!jparse_is(p, T_COLON)) {
		if (!(part[0] = jparse_expression(p, true))) return NULL;
		if (jparse_skip(p, T_RBRACKET)) return binary(p, N_ITEM, 0, line, object, part[0]);
	}
	if (jparse_is(p, T_COMMA)) return jparse_fail(p, line, "subscripts with a comma are not supported");
	if (!jparse_expect(p, T_COLON) || !slice_part(p, &part[1])) return NULL;
	if (jparse_skip(p, T_COLON) && !slice_part(p, &part[2])) return NULL;
	if (jparse_is(p, T_COMMA)) return jparse_fail(p, line, "subscripts with a comma are not supported");
	jnode *n = jparse_expect(p, T_RBRACKET) ? jparse_node(p, N_SLICE, line) : NULL;
	if (!n || !(n->kids = jparse_alloc(p, 3, sizeof *n->kids))) return NULL;
	memcpy(n->kids, part, sizeof part);
	n->nkids = 3;
	n->a = object;
	return n;
}

static jnode *call(jparse *p, jnode *callee)
{
	jnode *n = jparse_node(p, N_CALL, jparse_token(p)->line);
	if (!n) return NULL;
	n->a = callee;
	return call_args(p, n) ? n : NULL;
}

/* A chain nests the tree as brackets do, so it is limited like them. */
static jnode *chain(jparse *p, jnode *n, bool filters)
{
	for (int links = 0; n; links++) {
		jtok t = jparse_token(p)->type;
		bool is_test = filters && jparse_is_name(p, "is");
		if (links > 200) return jparse_fail(p, jparse_token(p)->line, "a chain of more than 200 attributes, calls and filters");
		if (!filters && (t == T_DOT || t == T_LBRACKET)) n = subscript(p, n);
		else if (t == T_LPAREN) n = call(p, n);
		else if (filters && t == T_PIPE) n = jparse_filters(p, n);
		else if (is_test) n = test(p, n);
		else break;
	}
	return n;
}

static jnode *postfix(jparse *p, jnode *n) { return chain(p, n, false); }

static jnode *unary(jparse *p, bool with_filter)
{
	uint32_t line = jparse_token(p)->line;
	jnode *n;
	bool minus = jparse_is(p, T_SUB);
	if (minus || jparse_is(p, T_ADD)) {
		if (!deeper(p)) return NULL;
		jparse_next(p);
		jnode *operand = unary(p, false);
		n = operand ? jparse_node(p, minus ? N_NEG : N_POS, line) : NULL;
		if (n) n->a = operand;
		p->expressions--;
	} else {
		n = primary(p, 0);
	}
	if (n) n = postfix(p, n);
	return n && with_filter ? chain(p, n, true) : n;
}

/* ---- operators ---- */

#define MAX_OPERANDS 200 /* of one chain of comparisons */

static jnode *power(jparse *p)
{
	uint32_t line = jparse_token(p)->line;
	jnode *n = unary(p, true);
	for (int i = 0; n && jparse_skip(p, T_POW); i++)
		n = i < 50 ? binary(p, N_BINARY, T_POW, line, n, unary(p, true)) : jparse_fail(p, line, "too many operators in one expression");
	return n;
}

static jnode *product(jparse *p)
{
	uint32_t line = jparse_token(p)->line;
	jnode *n = power(p);
	for (int i = 0; n; i++) {
		jtok t = jparse_token(p)->type;
		if (t != T_MUL && t != T_DIV && t != T_FLOORDIV && t != T_MOD) return n;
		jparse_next(p);
		n = i < 100 ? binary(p, N_BINARY, t, line, n, power(p)) : jparse_fail(p, line, "too many operators in one expression");
	}
	return n;
}

static jnode *concat(jparse *p)
{
	uint32_t line = jparse_token(p)->line;
	jnode *first = product(p);
	if (!first || !jparse_is(p, T_TILDE)) return first;
	jnode *n = jparse_node(p, N_CONCAT, line);
	jnodes parts = {0};
	bool ok = n && jnodes_push(p, &parts, first);
	while (ok && jparse_skip(p, T_TILDE)) ok = jnodes_push(p, &parts, product(p));
	jnode **kids = NULL;
	uint32_t count = 0;
	if (!jnodes_keep(p, &parts, &kids, &count) || !ok) return NULL;
	n->kids = kids;
	n->nkids = count;
	return n;
}

static jnode *sum(jparse *p)
{
	uint32_t line = jparse_token(p)->line;
	jnode *n = concat(p);
	for (int i = 0; n && (jparse_is(p, T_ADD) || jparse_is(p, T_SUB)); i++) {
		jtok t = jparse_token(p)->type;
		jparse_next(p);
		n = i < 100 ? binary(p, N_BINARY, t, line, n, concat(p)) : jparse_fail(p, line, "too many operators in one expression");
	}
	return n;
}

static int comparison(jparse *p)
{
	jtok t = jparse_token(p)->type;
	if (t >= T_EQ && t <= T_LE) return jparse_next(p), (int)t;
	if (jparse_skip_name(p, "in")) return J_IN;
	if (!jparse_is_name(p, "not") || jparse_look(p)->type != T_NAME || !jv_is(jparse_look(p)->value, "in")) return -1;
	jparse_next(p);
	jparse_next(p);
	return J_NOT_IN;
}

static jnode *compare(jparse *p)
{
	uint32_t line = jparse_token(p)->line;
	jnode *first = sum(p);
	if (!first) return NULL;
	jnodes operands = {0};
	uint8_t ops[MAX_OPERANDS];
	int op;
	bool ok = true;
	while (ok && (op = comparison(p)) >= 0) {
		if (operands.n == MAX_OPERANDS) ok = jparse_fail(p, line, "too many operators in one expression");
		else ops[operands.n] = (uint8_t)op;
		ok = ok && jnodes_push(p, &operands, sum(p));
	}
	uint32_t count = operands.n;
	if (ok && count == 0) return first;
	jnode *n = jparse_node(p, N_COMPARE, line);
	jnode **kids = NULL;
	if (!jnodes_keep(p, &operands, &kids, &count) || !ok || !n) return NULL;
	n->a = first;
	n->kids = kids;
	n->nkids = count;
	n->ops = jparse_alloc(p, count, 1);
	if (n->ops) memcpy(n->ops, ops, count);
	return n->ops ? n : NULL;
}

static jnode *negation(jparse *p)
{
	if (!jparse_is_name(p, "not")) return compare(p);
	uint32_t line = jparse_token(p)->line;
	if (!deeper(p)) return NULL;
	jparse_next(p);
	jnode *operand = negation(p), *n = operand ? jparse_node(p, N_NOT, line) : NULL;
	if (n) n->a = operand;
	p->expressions--;
	return n;
}

static jnode *conjunction(jparse *p)
{
	uint32_t line = jparse_token(p)->line;
	jnode *n = negation(p);
	for (int i = 0; n && jparse_skip_name(p, "and"); i++)
		n = i < 100 ? binary(p, N_AND, 0, line, n, negation(p)) : jparse_fail(p, line, "too many operators in one expression");
	return n;
}

static jnode *disjunction(jparse *p)
{
	uint32_t line = jparse_token(p)->line;
	jnode *n = conjunction(p);
	for (int i = 0; n && jparse_skip_name(p, "or"); i++)
		n = i < 100 ? binary(p, N_OR, 0, line, n, conjunction(p)) : jparse_fail(p, line, "too many operators in one expression");
	return n;
}

/* The parts of "a if b else c" are compiled softly: their unknown filters fail only when they run. */
static bool conditional_ahead(const jparse *p)
{
	int depth = 0;
	for (size_t i = p->at; i < p->ntokens; i++) {
		jtok t = p->tokens[i].type;
		if (t == T_LPAREN || t == T_LBRACKET || t == T_LBRACE) depth++;
		if (t == T_RPAREN || t == T_RBRACKET || t == T_RBRACE) depth--;
		if (depth < 0 || t == T_VAR_END || t == T_BLOCK_END || (depth == 0 && (t == T_COMMA || t == T_ASSIGN || t == T_COLON)))
			return false;
		if (depth == 0 && t == T_NAME && jv_is(p->tokens[i].value, "if") && i > p->at && p->tokens[i - 1].type != T_DOT) return true;
	}
	return false;
}

jnode *jparse_expression(jparse *p, bool condition)
{
	if (!condition) return disjunction(p);
	if (!deeper(p)) return NULL;
	uint32_t line = jparse_token(p)->line;
	bool soft = p->soft;
	p->soft = soft || conditional_ahead(p);
	jnode *then = disjunction(p);
	for (int i = 0; then && jparse_skip_name(p, "if"); i++) {
		if (i == 50) return jparse_fail(p, line, "too many operators in one expression");
		jnode *n = binary(p, N_CONDITION, 0, line, disjunction(p), then);
		if (n && jparse_skip_name(p, "else") && !(n->c = jparse_expression(p, true))) return NULL;
		then = n;
	}
	p->soft = soft;
	p->expressions--;
	return then;
}

static bool tuple_ends(jparse *p, int how)
{
	return jparse_is(p, T_VAR_END) || jparse_is(p, T_BLOCK_END) || jparse_is(p, T_RPAREN) ||
	       ((how & JEXPR_END_AT_IN) && jparse_is_name(p, "in")) || ((how & JEXPR_NO_CONDITION) && jparse_is_name(p, "recursive"));
}

jnode *jparse_tuple(jparse *p, int how)
{
	uint32_t line = jparse_token(p)->line;
	jnodes items = {0};
	bool is_tuple = false, ok = true;
	for (;;) {
		if (items.n && !(ok = jparse_expect(p, T_COMMA))) break;
		if (tuple_ends(p, how)) break;
		jnode *item = how & JEXPR_TARGET ? primary(p, how) : jparse_expression(p, !(how & JEXPR_NO_CONDITION));
		if (!(ok = jnodes_push(p, &items, item))) break;
		if (!jparse_is(p, T_COMMA)) break;
		is_tuple = true;
	}
	jnode **kids = NULL;
	uint32_t count = 0;
	char got[48];
	if (!jnodes_keep(p, &items, &kids, &count) || !ok) return NULL;
	if (!is_tuple && count == 1) return kids[0];
	if (!is_tuple && !(how & JEXPR_PAREN))
		return jparse_fail(p, line, "Expected an expression, got '%s'", jparse_describe(jparse_token(p), got));
	jnode *n = jparse_node(p, N_TUPLE, line);
	if (!n) return NULL;
	n->kids = kids;
	n->nkids = count;
	return n;
}
