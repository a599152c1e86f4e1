/* SPDX-License-Identifier: Apache-2.0
 * wrap_lockstep.c: arms side by side, op by op. Their wrappers share one record: the first writes each operand as doubles, before and after; the others
 * read it back. Knows no band: it measures, its user judges. An I64 index is exact in a double as long as it is below 2^53.
 * The invariant that breaks first: an operand is replaced only where its value differs after rounding to its own type, because parameters may lie in
 * memory that cannot be written.
 */
#include <math.h>
#include <string.h>

#include "base/base_mem.h"
#include "exec/wrap_core.h"
#include "num/num_conv.h"

typedef struct operand {
	double *before, *after; /* own; NULL where the operand is absent, or not written */
	int64_t count;
} operand;

typedef struct call {
	op_id op;
	int operands;
	operand operand[OP_DESC_MAX];
} call;

struct lockstep {
	lockstep_mode mode;
	bool f32;
	lockstep_fn fn;
	void *user; /* borrow */
	call *calls;
	size_t count, cap, at; /* at: the other arm's */
};

typedef struct side {
	wrapper w;
	lockstep *l; /* borrow */
} side;

static double load(num_dtype type, const void *p, int64_t i)
{
	switch (type) {
	case NUM_I32: return (double)((const int32_t *)p)[i];
	case NUM_I64: return (double)((const int64_t *)p)[i];
	case NUM_U8: return (double)((const uint8_t *)p)[i];
	default: return num_load(type, p, (size_t)i);
	}
}

static void store(num_dtype type, void *p, int64_t i, double v)
{
	switch (type) {
	case NUM_I32: ((int32_t *)p)[i] = (int32_t)v; break;
	case NUM_I64: ((int64_t *)p)[i] = (int64_t)v; break;
	case NUM_U8: ((uint8_t *)p)[i] = (uint8_t)v; break;
	default: num_store(type, p, (size_t)i, v);
	}
}

static bool is_integer(num_dtype type) { return type == NUM_I32 || type == NUM_I64 || type == NUM_U8; }
static bool same(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

/* Lines of one tensor to or from doubles. */
typedef struct lines {
	const tensor *t;
	double *v;
	int64_t width;
} lines;

static bool read_line(void *user, void *line, size_t bytes, int64_t row)
{
	const lines *s = user;
	(void)bytes;
	for (int64_t i = 0; i < s->width; i++) s->v[row * s->width + i] = load(s->t->dtype, line, i);
	return true;
}

static bool write_line(void *user, void *line, size_t bytes, int64_t row)
{
	const lines *s = user;
	const num_dtype type = s->t->dtype;
	double rounded = 0;
	(void)bytes;
	for (int64_t i = 0; i < s->width; i++) {
		double want = s->v[row * s->width + i];
		store(type, &rounded, 0, want);
		if (!same(load(type, &rounded, 0), load(type, line, i))) store(type, line, i, want);
	}
	return true;
}

static lines lines_of(const tensor *t, double *v) { return (lines){t, v, t->shape[t->rank - 1]}; }

/* The embedding is as large as the rest of a step, and the same on every arm. */
static bool is_table(op_id op, const op_operand *o) { return op == OP_embed_rows && o->in && strcmp(o->field, "table") == 0; }
static bool present(const op_operand *o) { return o->t && o->t->data && o->t->rank > 0 && tensor_count(o->t) > 0; }

static double *copy_of(const tensor *t)
{
	lines s = lines_of(t, mem_array((size_t)tensor_count(t), sizeof(double)));
	if (s.v) wrap_each_line(t, read_line, &s);
	return s.v;
}

static call *new_call(lockstep *l)
{
	if (l->count == l->cap) {
		size_t cap = l->cap ? 2 * l->cap : 256;
		call *p = mem_resize(l->calls, cap, sizeof *p);
		if (!p) return NULL;
		l->calls = p, l->cap = cap;
	}
	memset(&l->calls[l->count], 0, sizeof *l->calls);
	return &l->calls[l->count++];
}

static void record_before(wrapper *w, op_id op, const void *args)
{
	op_desc d;
	lockstep *l = ((side *)w)->l;
	call *c = new_call(l);
	bool ok = c != NULL;
	op_describe(op, args, &d);
	for (int i = 0; ok && i < d.operands; i++) {
		const op_operand *o = &d.operand[i];
		if (!present(o) || is_table(op, o)) continue;
		c->operand[i].count = tensor_count(o->t);
		if (!o->in) continue;
		double *v = c->operand[i].before = copy_of(o->t);
		ok = v != NULL;
		if (!ok || !l->f32 || o->t->dtype != NUM_F64) continue;
		for (int64_t k = 0; k < c->operand[i].count; k++) v[k] = (double)(float)v[k];
		lines s = lines_of(o->t, v);
		wrap_each_line(o->t, write_line, &s);
	}
	if (!ok) {
		exec_fail(&w->x, op, NH_ERR_NOMEM, "lockstep: no memory for what this op reads");
		return;
	}
	c->op = op, c->operands = d.operands;
}

static void record_after(wrapper *w, op_id op, const void *args)
{
	lockstep *l = ((side *)w)->l;
	call *c = &l->calls[l->count - 1];
	op_desc d;
	op_describe(op, args, &d);
	for (int i = 0; w->x.status == NH_OK && i < d.operands; i++) {
		if (!d.operand[i].out || !present(&d.operand[i])) continue;
		c->operand[i].after = copy_of(d.operand[i].t);
		if (!c->operand[i].after) exec_fail(&w->x, op, NH_ERR_NOMEM, "lockstep: no memory for what this op wrote");
	}
}

/* The same op with operands of the same sizes, or the two runs are not one step. */
static const call *expected(wrapper *w, op_id op, const op_desc *d)
{
	const lockstep *l = ((side *)w)->l;
	if (l->at >= l->count) {
		exec_fail(&w->x, op, NH_ERR_STATE, "lockstep: op %zu of this step, the first arm ran %zu", l->at + 1, l->count);
		return NULL;
	}
	const call *c = &l->calls[l->at];
	bool ok = c->op == op && c->operands == d->operands;
	for (int i = 0; ok && i < d->operands; i++)
		ok = c->operand[i].count == (present(&d->operand[i]) && !is_table(op, &d->operand[i]) ? tensor_count(d->operand[i].t) : 0);
	if (ok) return c;
	exec_fail(&w->x, op, NH_ERR_STATE, "lockstep: op %zu of this step is another one than the first arm's %s", l->at + 1, op_name(c->op));
	return NULL;
}

static void seed_before(wrapper *w, op_id op, const void *args)
{
	op_desc d;
	op_describe(op, args, &d);
	const call *c = expected(w, op, &d);
	if (!c || ((side *)w)->l->mode != LOCKSTEP_SEEDED) return;
	for (int i = 0; i < d.operands; i++) {
		if (!c->operand[i].before) continue;
		lines s = lines_of(d.operand[i].t, c->operand[i].before);
		wrap_each_line(d.operand[i].t, write_line, &s);
	}
}

/* errors: [lines] */
static void measure(lockstep_finding *f, const double *a, const double *b, double *errors)
{
	double all = 0;
	for (int64_t i = 0; i < f->lines * f->width; i++)
		if (isfinite(a[i])) all += a[i] * a[i];
	const double quiet = 1e-6 * all / (double)f->lines;
	for (int64_t r = 0; r < f->lines; r++) {
		double far = 0, size = quiet;
		for (int64_t i = r * f->width; i < (r + 1) * f->width; i++) {
			if (isfinite(a[i])) size += a[i] * a[i];
			if (same(a[i], b[i])) continue;
			f->differ++;
			if (f->first < 0) f->first = r;
			double d = f->integers || !isfinite(a[i]) || !isfinite(b[i]) ? INFINITY : fabs(a[i] - b[i]);
			far += d * d;
		}
		errors[r] = far == 0 ? 0 : isinf(far) || size == 0 ? 1 : sqrt(far / size);
		if (errors[r] > f->error) f->error = errors[r], f->line = r;
	}
}

static bool tell(lockstep *l, lockstep_finding *f, const tensor *t, const double *first)
{
	double *mine = copy_of(t), *errors = mem_array((size_t)f->lines, sizeof *errors);
	bool ok = mine && errors;
	if (ok) {
		measure(f, first, mine, errors);
		f->errors = errors;
		l->fn(l->user, f);
	}
	mem_free(mine);
	mem_free(errors);
	return ok;
}

static void compare_after(wrapper *w, op_id op, const void *args)
{
	lockstep *l = ((side *)w)->l;
	if (w->x.status != NH_OK || l->at >= l->count) return;
	const call *c = &l->calls[l->at];
	op_desc d;
	op_describe(op, args, &d);
	for (int i = 0; i < d.operands; i++) {
		const op_operand *o = &d.operand[i];
		if (!c->operand[i].after) continue;
		lockstep_finding f = {.op = op,
		    .layer = w->x.layer,
		    .call = (int)l->at,
		    .field = o->field,
		    .weight = d.w && d.w->name ? d.w->name : "",
		    .integers = is_integer(o->t->dtype),
		    .width = o->t->shape[o->t->rank - 1],
		    .rows = d.rows,
		    .first = -1};
		f.lines = c->operand[i].count / f.width;
		if (tell(l, &f, o->t, c->operand[i].after)) continue;
		exec_fail(&w->x, op, NH_ERR_NOMEM, "lockstep: no memory for what this op wrote");
		return;
	}
	l->at++;
}

lockstep *lockstep_create(lockstep_mode mode, bool f32, lockstep_fn fn, void *user)
{
	lockstep *l = mem_alloc(sizeof *l);
	if (l) l->mode = mode, l->f32 = f32, l->fn = fn, l->user = user;
	return l;
}

static exec *wrapped(lockstep *l, exec *inner, bool first)
{
	side *s = wrap_new(inner, sizeof *s);
	if (!s) return NULL;
	s->l = l;
	s->w.before = first ? record_before : seed_before;
	s->w.after = first ? record_after : compare_after;
	return &s->w.x;
}

exec *lockstep_first(lockstep *l, exec *inner) { return wrapped(l, inner, true); }
exec *lockstep_other(lockstep *l, exec *inner) { return wrapped(l, inner, false); }

bool lockstep_rewind(lockstep *l)
{
	bool all = l->at == l->count;
	l->at = 0;
	return all;
}

void lockstep_forget(lockstep *l)
{
	for (size_t i = 0; i < l->count; i++)
		for (int k = 0; k < OP_DESC_MAX; k++) {
			mem_free(l->calls[i].operand[k].before);
			mem_free(l->calls[i].operand[k].after);
		}
	l->count = l->at = 0;
}

void lockstep_destroy(lockstep *l)
{
	if (!l) return;
	lockstep_forget(l);
	mem_free(l->calls);
	mem_free(l);
}
