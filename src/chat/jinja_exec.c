/* SPDX-License-Identifier: Apache-2.0
 * jinja_exec.c: statements, loops and macros: what writes to the output. Scopes are entered here as jinja_scope.c laid them down.
 * A loop's else runs unless one pass of the body reached its end (Jinja's rule: a pass cut short by break or continue does not count). What
 * breaks first: the loop's look-ahead, which must pull items no earlier than Jinja does, because a loop's test may read what the body sets.
 */
#include <inttypes.h>

#include "chat/jinja.h"

void jinja_enter_scope(jenv *env, const jscope *scope)
{
	for (uint32_t i = 0; i < scope->n; i++) {
		const jload *l = &scope->loads[i];
		jv *to = &env->local[l->slot];
		if (l->how == LOAD_ALIAS) *to = (l->from_root ? env->root : env->local)[l->from];
		else if (l->how == LOAD_UNSET) *to = jv_of(JV_MISSING);
		else jinja_resolve(env, env->t->names[l->name], to);
	}
}

bool jinja_resolve(jenv *env, jv name, jv *out)
{
	static const struct {
		const char *name;
		uint8_t id;
	} FUNCS[] = {{"range", F_RANGE}, {"namespace", F_NAMESPACE}, {"dict", F_DICT}, {"raise_exception", F_RAISE},
	    {"strftime_now", F_STRFTIME}, {"cycler", F_CYCLER}, {"joiner", F_JOINER}, {"lipsum", F_LIPSUM}};
	*out = jv_of(JV_MISSING);
	for (uint32_t i = 0; i < env->vars.n; i++)
		if (jv_same_str(env->vars.u.pairs[i].k, name)) return *out = env->vars.u.pairs[i].v, true;
	for (size_t i = 0; i < sizeof FUNCS / sizeof *FUNCS; i++)
		if (jv_is(name, FUNCS[i].name)) *out = (jv){.kind = JV_FUNC, .flag = FUNCS[i].id};
	return out->kind != JV_MISSING;
}

/* ---- loops ---- */

/* The next item that passes the loop's test, straight from the iterable. */
static int pull(jenv *env, jloop *l, jv *out)
{
	if (l->rested) {
		if (l->rest_at >= l->rest.n) return 0;
		*out = l->rest.items[l->rest_at++];
		return 1;
	}
	if (l->ended) return 0;
	for (;;) {
		int more = jiter_next(env, l->it, out);
		if (more <= 0) {
			l->ended = true;
			return more;
		}
		if (!l->node->e) return 1;
		jv verdict;
		bool pass;
		if (!jinja_assign(env, l->node->kids[0], *out) || !jinja_eval(env, l->node->e, &verdict) || !jv_truth(env, verdict, &pass))
			return -1;
		if (pass) return 1;
	}
}

static int peek(jenv *env, jloop *l)
{
	if (l->ahead) return 1;
	int more = pull(env, l, &l->after);
	l->ahead = more > 0;
	return more;
}

int jloop_next(jenv *env, jloop *l, jv *out)
{
	int more = 1;
	if (l->ahead) {
		*out = l->after;
		l->ahead = false;
	} else if ((more = pull(env, l, out)) <= 0) {
		return more;
	}
	l->index0++;
	l->has_before = l->index0 > 0;
	l->before = l->current;
	l->current = *out;
	return more;
}

static bool loop_length(jenv *env, jloop *l, int64_t *out)
{
	if (l->length < 0 && !l->node->e && l->it->op == JITER_SEQ) {
		if (!jv_length(env, l->it->src, &l->length)) return false;
	} else if (l->length < 0) {
		jv item;
		int more;
		while ((more = pull(env, l, &item)) > 0)
			if (!jvec_push(env, &l->rest, item)) return false;
		if (more < 0) return false;
		l->rested = true;
		l->length = (int64_t)l->rest.n + l->index0 + 1 + l->ahead;
	}
	*out = l->length;
	return true;
}

bool jinja_loop_attr(jenv *env, jloop *l, jv name, jv *out)
{
	int64_t n = 0;
	int more;
	*out = jv_of(JV_MISSING);
	if (jv_is(name, "index")) *out = jv_int(l->index0 + 1);
	else if (jv_is(name, "index0")) *out = jv_int(l->index0);
	else if (jv_is(name, "first")) *out = jv_bool(l->index0 == 0);
	else if (jv_is(name, "depth")) *out = jv_int(1);
	else if (jv_is(name, "depth0")) *out = jv_int(0);
	else if (jv_is(name, "length") || jv_is(name, "revindex") || jv_is(name, "revindex0")) {
		if (!loop_length(env, l, &n)) return false;
		*out = jv_int(name.n == 6 ? n : n - l->index0 - (name.n == 9));
	} else if (jv_is(name, "last")) {
		if ((more = peek(env, l)) < 0) return false;
		*out = jv_bool(!more);
	} else if (jv_is(name, "nextitem")) {
		if ((more = peek(env, l)) < 0) return false;
		if (!more) return jv_undef_hint(env, "there is no next item", out);
		*out = l->after;
	} else if (jv_is(name, "previtem")) {
		if (!l->has_before) return jv_undef_hint(env, "there is no previous item", out);
		*out = l->before;
	}
	return true;
}

static jflow exec_for(jenv *env, const jnode *n)
{
	jv src, item;
	jloop *l;
	bool passed = false;
	if (!jinja_eval(env, n->a, &src) || !(l = jenv_alloc(env, 1, sizeof *l))) return FLOW_ERROR;
	if (!jv_iter(env, src, &l->it)) return FLOW_ERROR;
	l->node = n;
	l->index0 = l->length = -1;
	jinja_enter_scope(env, &n->scope3);
	int more;
	while ((more = jloop_next(env, l, &item)) > 0) {
		env->line = n->line;
		if (!jinja_assign(env, n->d, item)) return FLOW_ERROR;
		if (n->flag) env->local[n->loop_slot] = (jv){.kind = JV_LOOP, .u.loop = l};
		jinja_enter_scope(env, &n->scope);
		jflow f = jinja_exec(env, n->b);
		if (f == FLOW_ERROR) return f;
		if (f == FLOW_BREAK) break;
		passed = passed || f == FLOW_NEXT;
	}
	if (more < 0) return FLOW_ERROR;
	if (passed || !n->c) return FLOW_NEXT;
	jinja_enter_scope(env, &n->scope2);
	return jinja_exec(env, n->c);
}

/* ---- captured output ---- */

/* Runs a body with its output going into a string. */
static jflow capture(jenv *env, const jnode *body, jv *out)
{
	buf b = {.limit = jenv_room(env)}, *outer = env->out;
	env->out = &b;
	jflow f = jinja_exec(env, body);
	env->out = outer;
	if (f != FLOW_NEXT) {
		buf_deinit(&b);
		return f;
	}
	return jenv_take(env, &b, out) ? FLOW_NEXT : FLOW_ERROR;
}

/* The filters of {% set x | filter %}; the innermost one has no input. */
static bool apply_filters(jenv *env, const jnode *f, jv in, jv *out)
{
	if (!f) return *out = in, true;
	jv inner;
	jargs args;
	if (f->id < 0) return jenv_fail(env, "filter '%.*s' is not supported", f->value.n < 60 ? (int)f->value.n : 60, f->value.u.s);
	if (!jenv_enter(env)) return false;
	bool ok = apply_filters(env, f->a, in, &inner) && jinja_eval_args(env, f, &args) && jinja_filter(env, f->id, inner, &args, out);
	jenv_leave(env);
	return ok;
}

static jflow exec_setblock(jenv *env, const jnode *n)
{
	jv text;
	jinja_enter_scope(env, &n->scope);
	jflow f = capture(env, n->b, &text);
	if (f != FLOW_NEXT) return f;
	return apply_filters(env, n->e, text, &text) && jinja_assign(env, n->d, text) ? FLOW_NEXT : FLOW_ERROR;
}

static bool bind_macro(jenv *env, const jnode *m, const jargs *args)
{
	int len = m->value.n < 60 ? (int)m->value.n : 60;
	uint32_t taken = 0;
	if (args->n > m->nkids) return jenv_fail(env, "macro '%.*s' takes not more than %" PRIu32 " argument(s)", len, m->value.u.s, m->nkids);
	for (uint32_t i = 0; i < m->nkids; i++) {
		jv *to = &env->local[m->kids[i]->slot];
		*to = jv_of(JV_MISSING);
		if (i < args->n) {
			*to = args->pos[i];
			continue;
		}
		jv name = env->t->names[m->kids[i]->name];
		for (uint32_t k = 0; k < args->nnamed; k++)
			if (jv_same_str(args->named[k].name, name)) *to = args->named[k].value, taken++;
	}
	if (taken != args->nnamed)
		return jenv_fail(env, "macro '%.*s' takes no such keyword argument, or was given it twice", len, m->value.u.s);
	return true;
}

static bool default_arguments(jenv *env, const jnode *m)
{
	for (uint32_t i = 0; i < m->nkids; i++) {
		jv *to = &env->local[m->kids[i]->slot], name = env->t->names[m->kids[i]->name];
		if (to->kind != JV_MISSING) continue;
		if (m->keywords[i].value) {
			jv v;
			if (!jinja_eval(env, m->keywords[i].value, &v)) return false;
			*to = v;
			continue;
		}
		buf b = {0};
		jv hint;
		buf_printf(&b, "parameter '%.*s' was not provided", name.n < 60 ? (int)name.n : 60, name.u.s);
		buf_char(&b, 0);
		if (!jenv_take(env, &b, &hint) || !jv_undef_hint(env, hint.u.s, to)) return false;
	}
	return true;
}

bool jinja_call_macro(jenv *env, const jnode *m, const jargs *args, jv *out)
{
	jv *outer = env->local;
	uint32_t line = env->line;
	if (!jenv_enter(env)) return false;
	jv *slots = jenv_alloc(env, m->slots, sizeof *slots);
	bool ok = slots != NULL;
	if (ok) {
		env->local = slots;
		ok = bind_macro(env, m, args);
		if (ok) jinja_enter_scope(env, &m->scope);
		ok = ok && default_arguments(env, m) && capture(env, m->b, out) == FLOW_NEXT;
	}
	env->local = outer;
	env->line = line;
	jenv_leave(env);
	return ok;
}

/* ---- statements ---- */

static bool written(jenv *env)
{
	if (!env->out->failed) return true;
	if (env->out->over) return jenv_limit(env, "the output is over %zu bytes", env->out->limit);
	if (env->status == NH_OK) env->status = ERR_NOMEM(env->e);
	return false;
}

static jflow exec_if(jenv *env, const jnode *n)
{
	for (; n && n->kind == N_IF; n = n->c) {
		jv v;
		bool truth;
		if (!jinja_eval(env, n->a, &v) || !jv_truth(env, v, &truth)) return FLOW_ERROR;
		if (truth) return jinja_exec(env, n->b);
	}
	return n ? jinja_exec(env, n) : FLOW_NEXT;
}

static jflow exec_with(jenv *env, const jnode *n)
{
	jinja_enter_scope(env, &n->scope);
	for (uint32_t i = 0; i < n->nkids; i++) {
		jv v;
		if (!jinja_eval(env, n->keywords[i].value, &v) || !jinja_assign(env, n->kids[i], v)) return FLOW_ERROR;
	}
	return jinja_exec(env, n->b);
}

static jflow exec_one(jenv *env, const jnode *n)
{
	jv v;
	if (!jenv_step(env, 1)) return FLOW_ERROR;
	env->line = n->line;
	switch ((jnode_kind)n->kind) {
	case N_BODY: return jinja_exec(env, n);
	case N_DATA:
		buf_append(env->out, n->value.u.s, n->value.n);
		return jenv_step(env, n->value.n / 64) && written(env) ? FLOW_NEXT : FLOW_ERROR;
	case N_PRINT: return jinja_eval(env, n->a, &v) && jv_write_str(env, v, env->out) && written(env) ? FLOW_NEXT : FLOW_ERROR;
	case N_IF: return exec_if(env, n);
	case N_FOR: return exec_for(env, n);
	case N_SET: return jinja_eval(env, n->a, &v) && (env->line = n->line, jinja_assign(env, n->d, v)) ? FLOW_NEXT : FLOW_ERROR;
	case N_SETBLOCK: return exec_setblock(env, n);
	case N_MACRO: return jinja_assign(env, n->d, (jv){.kind = JV_MACRO, .u.macro = n}) ? FLOW_NEXT : FLOW_ERROR;
	case N_SCOPE: jinja_enter_scope(env, &n->scope); return jinja_exec(env, n->b);
	case N_WITH: return exec_with(env, n);
	case N_BREAK: return FLOW_BREAK;
	case N_CONTINUE: return FLOW_CONTINUE;
	default: return jenv_fail(env, "not a statement"), FLOW_ERROR;
	}
}

jflow jinja_exec(jenv *env, const jnode *body)
{
	jflow f = FLOW_NEXT;
	for (uint32_t i = 0; f == FLOW_NEXT && i < body->nkids; i++) f = exec_one(env, body->kids[i]);
	return f;
}
