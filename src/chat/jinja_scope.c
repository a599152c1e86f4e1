/* SPDX-License-Identifier: Apache-2.0
 * jinja_scope.c: which variable a name means, decided before anything runs, by the rules of Jinja's compiler: a scope is analysed as
 * a whole, a name that a scope sets anywhere is that scope's own (starting as a copy of the outer one, or unset), a name that it only
 * reads is the outer scope's or, failing that, the caller's variable. So "{{ x }}" in a loop before a later "{% set x %}" outside
 * shows nothing even when the caller passed an x; a chain of dictionaries at run time would get that wrong. Slots are numbered per
 * function (the template itself, or a macro). What breaks first: merging the branches of an if.
 */
#include "base/base_mem.h"
#include "chat/jinja.h"

enum { REF = 1, STORE = 2, HOW_SHIFT = 2 };

typedef struct frame {
	struct frame *up;
	uint8_t *state; /* own, per name: REF, STORE, jload.how << HOW_SHIFT */
	uint32_t *slot; /* own, per name with REF */
	bool root;      /* slots are the template's, not a macro's */
} frame;

typedef struct pass {
	jparse *p;
	uint32_t n;        /* names */
	uint32_t *counter; /* slots of the function at hand */
	bool in_root;
} pass;

static bool out_of_memory(pass *x)
{
	x->p->failed = true;
	x->p->status = ERR_NOMEM(x->p->e);
	return false;
}

static frame *find(frame *f, uint16_t name)
{
	while (f && !(f->state[name] & REF)) f = f->up;
	return f;
}

/* ---- analysis of one scope ---- */

static void define(frame *f, uint16_t name, int how) { f->state[name] = (uint8_t)((f->state[name] & STORE) | REF | how << HOW_SHIFT); }

static void load(frame *f, uint16_t name)
{
	if (!find(f, name)) define(f, name, LOAD_RESOLVE);
}

static void store(frame *f, uint16_t name)
{
	bool known = f->state[name] & REF;
	f->state[name] |= STORE;
	if (!known) define(f, name, find(f->up, name) ? LOAD_ALIAS : LOAD_UNSET);
}

static void param(frame *f, uint16_t name)
{
	f->state[name] |= STORE;
	define(f, name, LOAD_PARAM);
}

static void target(frame *f, const jnode *n, void (*how)(frame *, uint16_t))
{
	if (n->kind == N_NAME) how(f, n->name);
	else if (n->kind == N_NSREF) load(f, n->name);
	else
		for (uint32_t i = 0; i < n->nkids; i++) target(f, n->kids[i], how);
}

static bool visit(pass *x, frame *f, const jnode *n);

/* The if's branches are analysed apart, each on a copy, and merged: the later branch's way of loading wins, and what only a branch
 * stores starts from the outer variable or the caller's. */
static bool visit_if(pass *x, frame *f, const jnode *n, bool chain)
{
	if (!visit(x, f, n->a)) return false;
	const jnode *elif = chain && n->c && n->c->kind == N_IF ? n->c : NULL, *other = chain ? n->c : NULL;
	while (other && other->kind == N_IF) other = other->c;
	uint8_t *copies = mem_array(3, x->n ? x->n : 1);
	if (!copies) return out_of_memory(x);
	frame branch[3];
	bool ok = true;
	for (int i = 0; i < 3; i++) {
		branch[i] = (frame){.up = f->up, .state = copies + (size_t)i * x->n, .root = f->root};
		memcpy(branch[i].state, f->state, x->n);
	}
	ok = visit(x, &branch[0], n->b);
	for (; ok && elif && elif->kind == N_IF; elif = elif->c) ok = visit_if(x, &branch[1], elif, false);
	ok = ok && (!other || visit(x, &branch[2], other));
	for (uint32_t i = 0; ok && i < x->n; i++) {
		bool stored = f->state[i] & STORE, fresh = false;
		for (int b = 0; b < 3; b++) {
			if (branch[b].state[i] & REF) f->state[i] = branch[b].state[i] | (f->state[i] & STORE);
			fresh = fresh || (branch[b].state[i] & STORE);
		}
		if (fresh) f->state[i] |= STORE;
		if (fresh && !stored) define(f, (uint16_t)i, find(f->up, (uint16_t)i) ? LOAD_ALIAS : LOAD_RESOLVE);
	}
	mem_free(copies);
	return ok;
}

static bool visit(pass *x, frame *f, const jnode *n)
{
	if (!n) return true;
	bool ok = true;
	switch (n->kind) {
	case N_NAME:
	case N_NSREF: load(f, n->name); return true;
	case N_IF: return visit_if(x, f, n, true);
	case N_FOR: return visit(x, f, n->a);
	case N_SET:
		ok = visit(x, f, n->a);
		target(f, n->d, store);
		return ok;
	case N_SETBLOCK: target(f, n->d, store); return true;
	case N_MACRO: store(f, n->d->name); return true;
	case N_SCOPE: return true;
	case N_WITH:
		for (uint32_t i = 0; ok && i < n->nkeywords; i++) ok = visit(x, f, n->keywords[i].value);
		return ok;
	default: break;
	}
	ok = visit(x, f, n->a) && visit(x, f, n->b) && visit(x, f, n->c);
	for (uint32_t i = 0; ok && i < n->nkids; i++) ok = visit(x, f, n->kids[i]);
	for (uint32_t i = 0; ok && i < n->nkeywords; i++) ok = visit(x, f, n->keywords[i].value);
	return ok;
}

static void close_frame(frame *f)
{
	mem_free(f->state);
	mem_free(f->slot);
	f->state = NULL;
	f->slot = NULL;
}

static bool open_frame(pass *x, frame *f, frame *up)
{
	*f = (frame){.up = up, .root = x->in_root};
	f->state = mem_array(x->n ? x->n : 1, 1);
	f->slot = mem_array(x->n ? x->n : 1, sizeof *f->slot);
	if (f->state && f->slot) return true;
	close_frame(f);
	return out_of_memory(x);
}

/* Gives the analysed names their slots and writes down what entering the scope does. */
static bool seal(pass *x, frame *f, jscope *scope)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < x->n; i++)
		if (f->state[i] & REF) {
			f->slot[i] = (*x->counter)++;
			n += f->state[i] >> HOW_SHIFT != LOAD_PARAM;
		}
	scope->loads = jparse_alloc(x->p, n, sizeof *scope->loads);
	if (!scope->loads) return false;
	for (uint32_t i = 0; i < x->n; i++) {
		int how = f->state[i] >> HOW_SHIFT;
		if (!(f->state[i] & REF) || how == LOAD_PARAM) continue;
		jload *l = &scope->loads[scope->n++];
		*l = (jload){.name = (uint16_t)i, .slot = f->slot[i]};
		l->how = how;
		if (how != LOAD_ALIAS) continue;
		frame *from = find(f->up, (uint16_t)i);
		l->from = from->slot[i];
		l->from_root = from->root && !x->in_root;
	}
	return true;
}

/* ---- giving every name its slot ---- */

static bool reads(const jnode *n, uint16_t name)
{
	if (!n) return false;
	if (n->kind == N_NAME && n->name == name) return true;
	if (reads(n->a, name) || reads(n->b, name) || reads(n->c, name) || reads(n->e, name)) return true;
	for (uint32_t i = 0; i < n->nkids; i++)
		if (reads(n->kids[i], name)) return true;
	for (uint32_t i = 0; i < n->nkeywords; i++)
		if (reads(n->keywords[i].value, name)) return true;
	return false;
}

static jnode *copy_target(jparse *p, const jnode *n)
{
	jnode *c = jparse_node(p, (jnode_kind)n->kind, n->line);
	if (!c) return NULL;
	*c = *n;
	if (n->nkids && !(c->kids = jparse_alloc(p, n->nkids, sizeof *c->kids))) return NULL;
	for (uint32_t i = 0; i < n->nkids; i++)
		if (!(c->kids[i] = copy_target(p, n->kids[i]))) return NULL;
	return c;
}

static bool resolve(pass *x, frame *f, jnode *n);

static bool resolve_for(pass *x, frame *f, jnode *n)
{
	uint16_t loop;
	bool ok = resolve(x, f, n->a) && jparse_name_id(x->p, jv_cstr("loop"), &loop);
	frame body = {0}, other = {0}, test = {0};
	ok = ok && open_frame(x, &body, f);
	if (ok) {
		n->flag = reads(n->b, loop);
		if (n->flag) param(&body, loop);
		target(&body, n->d, param);
		ok = visit(x, &body, n->b) && seal(x, &body, &n->scope);
		n->loop_slot = n->flag ? body.slot[loop] : 0;
	}
	if (ok && n->e) {
		jnode *again = copy_target(x->p, n->d);
		ok = again && (n->kids = jparse_alloc(x->p, 1, sizeof *n->kids)) && open_frame(x, &test, f);
		if (ok) {
			n->kids[0] = again; /* nkids stays 0: no walk over children takes it for an expression */
			target(&test, again, param);
			ok = visit(x, &test, n->e) && seal(x, &test, &n->scope3) && resolve(x, &test, again) && resolve(x, &test, n->e);
		}
	}
	ok = ok && resolve(x, &body, n->d) && resolve(x, &body, n->b);
	if (ok && n->c) ok = open_frame(x, &other, f) && visit(x, &other, n->c) && seal(x, &other, &n->scope2) && resolve(x, &other, n->c);
	close_frame(&body);
	close_frame(&other);
	close_frame(&test);
	return ok;
}

static bool resolve_macro(pass *x, frame *f, jnode *n)
{
	if (!resolve(x, f, n->d)) return false;
	pass inner = {.p = x->p, .n = x->n, .counter = &n->slots};
	frame body;
	bool ok = open_frame(&inner, &body, f);
	for (uint32_t i = 0; ok && i < n->nkids; i++) param(&body, n->kids[i]->name);
	for (uint32_t i = 0; ok && i < n->nkids; i++) ok = visit(&inner, &body, n->keywords[i].value);
	ok = ok && visit(&inner, &body, n->b) && seal(&inner, &body, &n->scope);
	for (uint32_t i = 0; ok && i < n->nkids; i++) ok = resolve(&inner, &body, n->kids[i]) && resolve(&inner, &body, n->keywords[i].value);
	ok = ok && resolve(&inner, &body, n->b);
	close_frame(&body);
	return ok;
}

/* A set block, a generation block or a with: its body is a scope. */
static bool resolve_inner(pass *x, frame *f, jnode *n)
{
	frame body;
	bool ok = true;
	for (uint32_t i = 0; ok && n->kind == N_WITH && i < n->nkeywords; i++) ok = resolve(x, f, n->keywords[i].value);
	if (n->d) ok = ok && resolve(x, f, n->d);
	if (!ok || !open_frame(x, &body, f)) return false;
	for (uint32_t i = 0; n->kind == N_WITH && i < n->nkids; i++) param(&body, n->kids[i]->name);
	ok = visit(x, &body, n->b) && seal(x, &body, &n->scope) && resolve(x, &body, n->b) && resolve(x, &body, n->e);
	for (uint32_t i = 0; ok && n->kind == N_WITH && i < n->nkids; i++) ok = resolve(x, &body, n->kids[i]);
	close_frame(&body);
	return ok;
}

static bool resolve(pass *x, frame *f, jnode *n)
{
	if (!n) return true;
	bool ok = true;
	switch (n->kind) {
	case N_NAME:
	case N_NSREF: {
		frame *in = find(f, n->name);
		if (!in)
			return jparse_fail(x->p, n->line, "variable '%.*s' cannot be used here", (int)x->p->names[n->name].n, x->p->names[n->name].u.s);
		n->slot = in->slot[n->name];
		n->flag = in->root && !x->in_root;
		return true;
	}
	case N_FOR: return resolve_for(x, f, n);
	case N_MACRO: return resolve_macro(x, f, n);
	case N_SETBLOCK:
	case N_SCOPE:
	case N_WITH: return resolve_inner(x, f, n);
	default: break;
	}
	ok = resolve(x, f, n->a) && resolve(x, f, n->b) && resolve(x, f, n->c) && resolve(x, f, n->d);
	for (uint32_t i = 0; ok && i < n->nkids; i++) ok = resolve(x, f, n->kids[i]);
	for (uint32_t i = 0; ok && i < n->nkeywords; i++) ok = resolve(x, f, n->keywords[i].value);
	return ok;
}

bool jinja_scope_all(jparse *p, jnode *root)
{
	uint16_t loop;
	if (!jparse_name_id(p, jv_cstr("loop"), &loop)) return false; /* so that the number of names is final */
	pass x = {.p = p, .n = p->nnames, .counter = &p->t->slots, .in_root = true};
	frame f;
	bool ok = open_frame(&x, &f, NULL) && visit(&x, &f, root) && seal(&x, &f, &p->t->scope) && resolve(&x, &f, root);
	close_frame(&f);
	return ok;
}
