/* SPDX-License-Identifier: Apache-2.0
 * bench_ops.c: `nemotron bench ops`: every op of an arm at the shapes of the 30B model against its bound. Each pass of a case is read between two
 * readings of the bandwidth; the larger one is its denominator, so that a share is never flattered.
 * The invariant that breaks first: a pass lasts long enough for the clock, and ends with the op done.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "backend/registry.h"
#include "base/base_clock.h"
#include "base/base_mem.h"
#include "cmd/bench/bench.h"
#include "cmd/bench/bench_case.h"

#define LIST_MAX 32

typedef struct ops {
	bench b;
	exec *x;
	arena scratch;
	const backend *arm;
	int64_t rows[LIST_MAX], contexts[LIST_MAX];
	int row_count, context_count;
	double pass_s;
	int cases;
} ops;

static double now(const ops *o)
{
	struct timespec t;
	clock_gettime(o->b.thread_time ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Seconds a call, over `turns` calls from *turn on. */
static double pass(const ops *o, op_case *c, uint64_t *turn, uint64_t turns)
{
	double begin = now(o);
	for (uint64_t i = 0; i < turns; i++) c->call(c, (*turn)++);
	return (now(o) - begin) / (double)turns;
}

static void tell_head(const ops *o)
{
	if (cmd_flag(o->b.a, "json")) return;
	cmd_outf("arm %s, tier %s, profile %s, threads %d, %s time; read %.1f GB/s, cache %.1f GB/s, f32 %.1f GFLOP/s, bf16 %s GFLOP/s\n",
	    o->x->arm, o->x->tier, o->x->num->name, probe_threads(o->b.probe), o->b.thread_time ? "thread" : "wall",
	    bench_bandwidth((bench *)(uintptr_t)&o->b) / 1e9, o->b.cache_bytes_s / 1e9, o->b.peak.f32 / 1e9,
	    bench_text(o->b.peak.bf16 > 0 ? o->b.peak.bf16 / 1e9 : NAN, 1));
	cmd_outf("%-11s %-12s %-6s %-18s %-7s %6s %12s %8s %9s %7s %7s %6s %6s %6s  %s\n", "op", "name", "format", "shape", "form", "rows",
	    "us", "GB/s", "GFLOP/s", "before", "after", "share", "min", "max", "bound");
	cmd_out_flush();
}

static void tell(
    ops *o, const op_case *c, bench_spread us, bench_spread share, double before, double after, const char *limit, uint64_t ref)
{
	double moved = c->bytes > 0 ? c->bytes : c->activation_bytes, s = us.median * 1e-6;
	json_t *r = json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:I}", "op", c->op, "name", c->name, "format", c->format, "shape", c->shape,
	    "form", c->decode ? "decode" : "prefill", "rows", (json_int_t)c->rows, "context", (json_int_t)c->context);
	json_object_set_new(r, "us", bench_spread_json(us));
	json_object_set_new(r, "bytes", bench_real(moved));
	json_object_set_new(r, "flops", bench_real(c->flops));
	json_object_set_new(r, "experts", c->experts > 0 ? json_real(c->experts) : json_null());
	json_object_set_new(r, "bytes_s", bench_real(moved / s));
	json_object_set_new(r, "flops_s", bench_real(c->flops / s));
	json_object_set_new(r, "bandwidth_before", bench_real(before));
	json_object_set_new(r, "bandwidth_after", bench_real(after));
	json_object_set_new(r, "bound", json_string(limit));
	json_object_set_new(r, "share_of_bound", bench_spread_json(share));
	json_object_set_new(r, "in_cache", json_boolean(c->in_cache || c->bytes <= 0));
	json_object_set_new(r, "reference_calls", json_integer((json_int_t)ref));
	bench_add(&o->b, r);
	o->cases++;
	if (cmd_flag(o->b.a, "json")) return;
	char rows[24], context[32] = "";
	snprintf(rows, sizeof rows, "%lld", (long long)c->rows);
	if (c->context) snprintf(context, sizeof context, ", context %lld", (long long)c->context);
	cmd_outf("%-11s %-12s %-6s %-18s %-7s %6s %12.2f %8.2f %9.2f %7.1f %7.1f %6.3f %6.3f %6.3f  %s%s%s%s\n", c->op, c->name, c->format,
	    c->shape, c->decode ? "decode" : "prefill", rows, us.median, moved / s / 1e9, c->flops / s / 1e9, before / 1e9, after / 1e9,
	    share.median, share.min, share.max, limit, c->in_cache || c->bytes <= 0 ? " (cache)" : "", context, ref ? ", by ref" : "");
	cmd_out_flush();
}

static nh_status measure(ops *o, op_case *c, nh_error *e)
{
	double us[BENCH_PASSES_MAX], share[BENCH_PASSES_MAX], first = 0, last = 0;
	const char *limit = "bytes";
	uint64_t turn = 0, turns = 1, ref = 0;
	int n = 0;
	bool cached = c->in_cache || c->bytes <= 0;
	exec_reset_counters(o->x);
	pass(o, c, &turn, 1); /* the first call also touches its working memory */
	const double one = pass(o, c, &turn, 1);
	if (one > 0 && one < o->pass_s) turns = (uint64_t)(o->pass_s / one) + 1;
	if (turns > 10000000) turns = 10000000;
	for (; n < o->b.passes && !cmd_interrupted() && o->x->status == NH_OK; n++) {
		double before = bench_bandwidth(&o->b);
		double s = pass(o, c, &turn, turns);
		double after = bench_bandwidth(&o->b), rate = cached ? o->b.cache_bytes_s : before > after ? before : after;
		if (!(s > 0)) return ERR(e, NH_ERR_STATE, "%s %s: a pass took %g s, expected a positive time", c->op, c->name, s);
		if (n == 0) first = before;
		last = after;
		us[n] = s * 1e6;
		share[n] = bench_bound(c->bytes > 0 ? c->bytes : c->activation_bytes, rate, c->flops, o->b.peak.best, &limit) / s;
	}
	for (int i = 0; i < OP_COUNT; i++) ref += o->x->counters.op[i].reference_calls;
	TRY(exec_status(o->x, e));
	if (n == 0) return NH_OK;
	tell(o, c, bench_spread_of(us, n), bench_spread_of(share, n), first, last, limit, ref);
	return NH_OK;
}

static nh_status one_case(ops *o, const case_name *name, const char *format, int64_t rows, int64_t context, bool decode, nh_error *e)
{
	op_case c = {.op = name->op,
	    .name = name->name,
	    .format = format,
	    .rows = rows,
	    .context = context,
	    .decode = decode,
	    .in_cache = cmd_flag(o->b.a, "in-cache"),
	    .rotate_bytes = (size_t)cmd_bytes(o->b.a, "rotate", (uint64_t)1 << 30)};
	made_init(&c.m, o->x);
	bool known = case_matrix(&c) || case_state(&c) || case_rows(&c);
	nh_status s = !known                ? ERR(e, NH_ERR_INTERNAL, "%s %s: no case of that name", name->op, name->name)
	              : c.m.status != NH_OK ? (e ? (void)(*e = c.m.error) : (void)0, c.m.status)
	                                    : measure(o, &c, e);
	exec_clear(o->x);
	made_deinit(&c.m);
	return s;
}

static nh_status all_cases(ops *o, nh_error *e)
{
	static const char *const WEIGHTS[] = {"bf16", "fp8", "nvfp4", "w4a16"}, *const KV[] = {"bf16", "fp8"}, *const PLAIN[] = {"bf16"};
	const char *form = cmd_string(o->b.a, "form", "auto"), *op = cmd_string(o->b.a, "op", NULL),
	           *formats = cmd_string(o->b.a, "format", "bf16,fp8,nvfp4");
	case_name name;
	for (int i = 0; case_at(i, &name); i++) {
		if (!bench_named(op, name.op) && !bench_named(op, name.name)) continue;
		const char *const *format = name.weights ? WEIGHTS : name.context ? KV : PLAIN;
		for (int f = 0; f < (name.weights ? 4 : name.context ? 2 : 1); f++) {
			if ((name.weights || name.context) && !bench_named(formats, format[f])) continue;
			for (int r = 0; r < o->row_count; r++) {
				bool decode = strcmp(form, "auto") == 0 ? o->rows[r] <= 32 : strcmp(form, "decode") == 0;
				if (decode ? !name.decode : !name.prefill) continue;
				for (int k = 0; k < (name.context ? o->context_count : 1); k++) {
					if (cmd_interrupted()) return ERR(e, NH_ERR_CANCELLED, "interrupted");
					TRY(one_case(o, &name, format[f], o->rows[r], name.context ? o->contexts[k] : 0, decode, e));
				}
			}
		}
	}
	if (o->cases == 0) return ERR(e, NH_ERR_ARG, "no case has op %s, a format of %s and these rows", op ? op : "any", formats);
	return NH_OK;
}

static nh_status open_arm(ops *o, nh_error *e)
{
	const cmd_args *a = o->b.a;
	const char *arm = cmd_string(a, "arm", NULL), *numerics = cmd_string(a, "numerics", NULL);
	o->arm = arm ? backend_find(arm) : backend_at(0);
	if (!o->arm) return ERR(e, NH_ERR_NOTFOUND, "--arm: %.40s is not in this build", arm);
	if (!o->arm->host_memory)
		return ERR(e, NH_ERR_UNSUPPORTED, "--arm: %s has a memory of its own, this bench measures host arms", o->arm->name);
	const backend_options bo = {
	    .num = numerics ? num_profile(numerics) : NULL, .threads = (int)cmd_int(a, "threads", 0), .isa = cmd_string(a, "cpu-isa", NULL)};
	if (numerics && !bo.num) return ERR(e, NH_ERR_ARG, "--numerics: is %.40s, no profile has that name", numerics);
	TRY(o->arm->open(&o->x, &bo, e));
	arena_init(&o->scratch);
	o->x->scratch = &o->scratch;
	return NH_OK;
}

static nh_status run_ops(ops *o, nh_error *e)
{
	const cmd_args *a = o->b.a;
	o->row_count = bench_list(cmd_string(a, "rows", "1,8,32,512"), o->rows, LIST_MAX);
	if (o->row_count < 1) return ERR(e, NH_ERR_ARG, "--rows: is %.60s, expected numbers such as 1,8,32", cmd_string(a, "rows", ""));
	o->context_count = bench_list(cmd_string(a, "context", "1k,32k"), o->contexts, LIST_MAX);
	if (o->context_count < 1)
		return ERR(e, NH_ERR_ARG, "--context: is %.60s, expected numbers such as 1k,32k", cmd_string(a, "context", ""));
	o->pass_s = cmd_real(a, "pass-ms", 50) * 1e-3;
	TRY(open_arm(o, e));
	json_object_set_new(o->b.head, "arm", json_string(o->x->arm));
	json_object_set_new(o->b.head, "tier", json_string(o->x->tier));
	json_object_set_new(o->b.head, "numerics", json_string(o->x->num->name));
	tell_head(o);
	TRY(all_cases(o, e));
	return bench_finish(&o->b, e);
}

int bench_run_ops(const cmd_args *a)
{
	nh_error e = {0};
	ops o = {0};
	nh_status s = bench_begin(&o.b, a, "ops", true, &e);
	if (s == NH_OK) s = run_ops(&o, &e);
	if (o.x) {
		o.arm->close(o.x);
		arena_deinit(&o.scratch);
	}
	bench_deinit(&o.b);
	return s == NH_OK ? CMD_OK : s == NH_ERR_ARG ? cmd_bad_usage(a, "%s", e.text) : cmd_fail_error(a, s, &e);
}
