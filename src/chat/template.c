/* SPDX-License-Identifier: Apache-2.0
 * template.c: opening and rendering of templates: owns what a template and a render are made of, and their limits. What breaks first:
 * *out, which must be as it was when a render fails.
 */
#include "chat/template.h"

#include "base/base_mem.h"
#include "chat/jinja.h"

nh_status template_open(chat_template **out, const char *text, size_t len, const char *name, nh_error *e)
{
	*out = NULL;
	chat_template *t = mem_alloc(sizeof *t);
	if (!t) return ERR_NOMEM(e);
	arena_init(&t->mem);
	jparse p = {.t = t, .e = e};
	t->name = mem_strdup(name);
	p.names = mem_array(JINJA_MAX_NAMES, sizeof *p.names);
	bool ok = t->name && p.names;
	if (!ok) p.status = ERR_NOMEM(e);
	ok = ok && jinja_lex(&p, text, len) && (t->root = jinja_parse(&p)) && jinja_scope_all(&p, t->root);
	jv *names = ok ? jparse_alloc(&p, p.nnames, sizeof *names) : NULL;
	if (names) {
		memcpy(names, p.names, p.nnames * sizeof *names);
		t->names = names;
		t->nnames = p.nnames;
		*out = t;
	}
	mem_free(p.names);
	mem_free(p.tokens);
	if (names) return NH_OK;
	template_close(t);
	return p.status != NH_OK ? p.status : ERR(e, NH_ERR_INTERNAL, "%s: parsing failed without a reason", name);
}

void template_close(chat_template *t)
{
	if (!t) return;
	arena_deinit(&t->mem);
	mem_free(t->name);
	mem_free(t);
}

bool template_reads(const chat_template *t, const char *variable)
{
	for (uint32_t i = 0; i < t->nnames; i++)
		if (jv_is(t->names[i], variable)) return true;
	return false;
}

/* The name that an iterable goes by, under its filters. */
static bool called(const chat_template *t, const jnode *n, const char *name)
{
	while (n && n->kind == N_FILTER) n = n->a;
	if (!n) return false;
	if (n->kind == N_NAME) return jv_is(t->names[n->name], name);
	if (n->kind == N_ITEM) return n->b->kind == N_CONST && jv_is(n->b->value, name);
	return n->kind == N_ATTR && jv_is(n->value, name);
}

/* Statements nest at most JINJA_MAX_NESTING deep, branches of an if aside, which are walked in a loop. */
static bool walks(const chat_template *t, const jnode *n, const char *name)
{
	for (; n; n = n->c) {
		if (n->kind == N_FOR && called(t, n->a, name)) return true;
		if (n->kind == N_BODY) {
			for (uint32_t i = 0; i < n->nkids; i++)
				if (walks(t, n->kids[i], name)) return true;
			return false;
		}
		bool holds =
		    n->kind == N_IF || n->kind == N_FOR || n->kind == N_SETBLOCK || n->kind == N_MACRO || n->kind == N_SCOPE || n->kind == N_WITH;
		if (!holds) return false;
		if (walks(t, n->b, name)) return true;
	}
	return false;
}

bool template_walks(const chat_template *t, const char *name) { return walks(t, t->root, name); }

nh_status template_render(const chat_template *t, const json_t *vars, const template_limits *limits, buf *out, nh_error *e)
{
	template_limits l = limits ? *limits : (template_limits){0};
	if (!json_is_object(vars)) return ERR(e, NH_ERR_ARG, "%s: the variables must be a JSON object", t->name);
	buf text = {.limit = l.output_bytes ? l.output_bytes : (size_t)64 << 20};
	jenv env = {
	    .t = t,
	    .memory_limit = l.memory_bytes ? l.memory_bytes : (size_t)512 << 20,
	    .step_limit = l.steps ? l.steps : 50000000,
	    .depth_limit = l.depth ? l.depth : 400,
	    .line = 1,
	    .e = e,
	    .now = l.now_seconds,
	    .has_now = l.has_now,
	    .out = &text,
	};
	arena_init(&env.mem);
	env.root = env.local = jenv_alloc(&env, t->slots, sizeof *env.root);
	bool ok = env.root && jv_from_json(&env, vars, &env.vars);
	if (ok) {
		jinja_enter_scope(&env, &t->scope);
		ok = jinja_exec(&env, t->root) == FLOW_NEXT && !text.failed;
	}
	arena_deinit(&env.mem);
	nh_status s = env.status;
	if (!ok && s == NH_OK) s = ERR_NOMEM(e);
	if (s == NH_OK) {
		buf_append(out, text.data ? text.data : "", text.len);
		bool over = out->limit && text.len > out->limit - out->len; /* else what failed is the memory */
		if (out->failed) s = over ? ERR(e, NH_ERR_LIMIT, "%s: the rendered text does not fit its buffer", t->name) : ERR_NOMEM(e);
	}
	buf_deinit(&text);
	return s;
}
