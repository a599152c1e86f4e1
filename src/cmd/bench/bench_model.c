/* SPDX-License-Identifier: Apache-2.0
 * bench_model.c: `nemotron bench decode|batch|prefill|context`: a model's steps, timed inside this process through the public interface, with
 * the bytes and operations that the ops counted. Decode is timed over a window in which every sequence draws a token in every step.
 * The invariant that breaks first: time and counters are of the same window, and a window without two steps is refused.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/base_clock.h"
#include "base/base_mem.h"
#include "base/base_rng.h"
#include "cmd/bench/bench.h"

#define LIST_MAX 32
#define SEQUENCES_MAX 256

typedef struct runner {
	bench b;
	nh_model *model;
	nh_engine *engine;
	nh_model_info info;
	int64_t tokens, prompt;
	double expert_bytes; /* of one expert of one layer; NAN until a single sequence was counted */
	uint64_t turn;       /* prompts differ from pass to pass */
} runner;

/* One measured window. */
typedef struct window {
	double s, steps;                                                /* seconds and steps in it */
	double weights, experts, state, kv, flops, distinct, reference; /* a step; NAN where not counted */
} window;

/* --- requests --- */

static nh_status submit(runner *r, int64_t prompt, int64_t max_tokens, nh_request **out, nh_error *e)
{
	nh_request_options o;
	int32_t *ids = mem_array((size_t)prompt, sizeof *ids);
	if (!ids) return ERR_NOMEM(e);
	for (int64_t i = 0; i < prompt; i++) ids[i] = (int32_t)(rng_u64(11, r->turn, (uint64_t)i) % (uint64_t)r->info.vocab);
	r->turn++;
	nh_request_options_init(&o, sizeof o);
	o.prompt = ids;
	o.prompt_tokens = (size_t)prompt;
	o.max_tokens = max_tokens;
	o.ignore_end = true;
	o.no_prefix_cache = true;
	nh_status s = nh_engine_submit(r->engine, &o, out, e);
	mem_free(ids);
	return s;
}

/* The next token of a request. *more false: it has ended. */
static nh_status next_token(nh_request *q, bool *more, nh_error *e)
{
	for (;;) {
		nh_event v;
		nh_status s = nh_request_next(q, &v, sizeof v, 200000);
		if (cmd_interrupted()) return ERR(e, NH_ERR_CANCELLED, "interrupted");
		if (s == NH_ERR_TIMEOUT) continue;
		if (s != NH_OK) return ERR(e, s, "the request has ended");
		if (v.type == NH_EVENT_ERROR) {
			if (e) *e = v.error;
			return (nh_status)v.error.code;
		}
		*more = v.type != NH_EVENT_DONE;
		if (v.type == NH_EVENT_TOKEN || v.type == NH_EVENT_DONE) return NH_OK;
	}
}

static void snapshot(runner *r, nh_engine_stats *s) { nh_engine_get_stats(r->engine, s, sizeof *s); }

/* What lies between two snapshots, a step. */
static void terms(runner *r, const nh_engine_stats *a, const nh_engine_stats *b, bool single, window *w)
{
	double n = (double)(b->steps - a->steps);
	w->distinct = (double)(b->experts_read - a->experts_read) / n;
	w->reference = (double)(b->reference_calls - a->reference_calls) / n;
	w->weights = w->experts = w->state = w->kv = w->flops = NAN;
	if (b->cost_flops == 0) return;
	w->weights = (double)(b->cost_weight_bytes - a->cost_weight_bytes) / n;
	w->state = (double)(b->cost_state_bytes - a->cost_state_bytes) / n;
	w->kv = (double)(b->cost_kv_bytes - a->cost_kv_bytes) / n;
	w->flops = (double)(b->cost_flops - a->cost_flops) / n;
	/* Of one row the chosen experts are distinct, so the cost is exact; with more rows the counter says how many were read. */
	double cost = (double)(b->cost_expert_bytes - a->cost_expert_bytes) / n;
	if (single && w->distinct > 0) r->expert_bytes = cost / w->distinct;
	w->experts = w->distinct > 0 ? w->distinct * r->expert_bytes : 0;
}

static nh_status decode_window(runner *r, int sequences, int64_t prompt, window *w, nh_error *e)
{
	nh_request *q[SEQUENCES_MAX] = {0};
	nh_engine_stats a, b;
	nh_status s = NH_OK;
	bool more = true;
	int64_t begin = 0, end = 0, seen = 0;
	for (int i = 0; i < sequences; i++) TRY_GOTO(s, submit(r, prompt, r->tokens + (sequences > 1 ? 8 * sequences : 0), &q[i], e), out);
	/* The last one's first token: from here on all decode. Whoever came first is ahead of it by several steps for each of the
	 * sequences, for prompts may be computed one after another: so many tokens more keep it running. */
	TRY_GOTO(s, next_token(q[sequences - 1], &more, e), out);
	snapshot(r, &a);
	begin = clock_us();
	for (int64_t k = 1; k < r->tokens && more; k++) {
		snapshot(r, &b);
		if (b.running < (uint64_t)sequences && k > 1) break; /* one has ended */
		TRY_GOTO(s, next_token(q[sequences - 1], &more, e), out);
		if (!more) break;
		nh_engine_stats c;
		snapshot(r, &c);
		if (c.running < (uint64_t)sequences && k + 1 < r->tokens) break;
		end = clock_us();
		seen++;
		b = c;
	}
	snapshot(r, &b);
	w->s = (double)(end - begin) * 1e-6;
	w->steps = (double)seen;
	if (seen < 2 || end <= begin || b.steps <= a.steps)
		TRY_GOTO(s,
		    ERR(e, NH_ERR_ARG, "--tokens: is %lld: with %d sequences only %lld steps have all of them, expected at least 2",
		        (long long)r->tokens, sequences, (long long)seen),
		    out);
	terms(r, &a, &b, sequences == 1, w);
out:
	for (int i = 0; i < sequences; i++) nh_request_release(q[i]);
	return s;
}

/* All of a prompt and the first token. */
static nh_status prefill_window(runner *r, int64_t prompt, window *w, nh_error *e)
{
	nh_request *q = NULL;
	nh_engine_stats a, b;
	bool more = true;
	snapshot(r, &a);
	int64_t begin = clock_us();
	TRY(submit(r, prompt, 1, &q, e));
	nh_status s = next_token(q, &more, e);
	int64_t end = clock_us();
	while (s == NH_OK && more) s = next_token(q, &more, e);
	nh_request_release(q);
	TRY(s);
	snapshot(r, &b);
	w->s = (double)(end - begin) * 1e-6;
	w->steps = (double)(b.steps - a.steps);
	if (end <= begin || b.steps <= a.steps) return ERR(e, NH_ERR_STATE, "a prompt of %lld tokens took no time", (long long)prompt);
	terms(r, &a, &b, false, w);
	w->kv = NAN; /* rows of a prompt share keys: what was read from memory is not known */
	return NH_OK;
}

/* --- passes --- */

typedef struct figure {
	int sequences;
	int64_t prompt;
	bool prefill;
} figure;

static void put(json_t *o, const char *key, double v) { json_object_set_new(o, key, bench_real(v)); }

static void tell(runner *r, const figure *f, bench_spread us, bench_spread share, const window *w, double bytes, double before,
    double after, const char *limit, const bench_spread *ours, const bench_spread *rival)
{
	double tokens = f->prefill ? (double)f->prompt : f->sequences, rate = tokens / (us.median * 1e-6);
	json_t *o = json_object();
	json_object_set_new(o, "bench", json_string(r->b.what));
	json_object_set_new(o, "sequences", json_integer(f->sequences));
	json_object_set_new(o, "prompt", json_integer((json_int_t)f->prompt));
	json_object_set_new(o, "us", bench_spread_json(us));
	put(o, "tokens_s", rate);
	put(o, "weight_bytes", w->weights);
	put(o, "expert_bytes", w->experts);
	put(o, "experts", w->distinct);
	put(o, "state_bytes", w->state);
	put(o, "kv_bytes", w->kv);
	put(o, "flops", w->flops);
	put(o, "bandwidth_before", before);
	put(o, "bandwidth_after", after);
	json_object_set_new(o, "bound", isfinite(share.median) ? json_string(limit) : json_null());
	json_object_set_new(o, "share_of_bound", bench_spread_json(share));
	put(o, "reference_calls", w->reference);
	bench_add(&r->b, o);
	if (cmd_flag(r->b.a, "json")) {
		if (rival) bench_tell_rival(&r->b, o, *ours, *rival, "tokens/s");
		return;
	}
	const char *unit = f->prefill ? "prompt" : "step";
	cmd_outf("%s, %d sequence%s, prompt %lld: %.1f us a %s (%.1f to %.1f, %d passes), %.2f tokens/s\n", r->b.what, f->sequences,
	    f->sequences > 1 ? "s" : "", (long long)f->prompt, us.median, unit, us.min, us.max, us.n, rate);
	cmd_outf("  bytes a step: weights %s MB, experts %s MB (%s distinct, all layers), state %s MB,", bench_text(w->weights / 1e6, 2),
	    bench_text(w->experts / 1e6, 2), bench_text(w->distinct, 1), bench_text(w->state / 1e6, 2));
	cmd_outf(" keys and values %s MB; %s GFLOP\n", bench_text(w->kv / 1e6, 3), bench_text(w->flops / 1e9, 3));
	cmd_outf("  read %.2f GB/s before, %.2f after: moved %s GB/s; share of bound (%s) %s, %s to %s%s\n", before / 1e9, after / 1e9,
	    bench_text(bytes / us.median / 1e3, 2), limit, bench_text(share.median, 3), bench_text(share.min, 3), bench_text(share.max, 3),
	    w->reference > 0 ? "; ops run by ref" : "");
	if (rival) bench_tell_rival(&r->b, o, *ours, *rival, "tokens/s");
	cmd_out_flush();
}

static nh_status measure(runner *r, const figure *f, nh_error *e)
{
	double us[BENCH_PASSES_MAX], share[BENCH_PASSES_MAX], ours[BENCH_PASSES_MAX], rival[BENCH_PASSES_MAX], before = 0, after = 0, bytes = 0;
	const bool versus = cmd_given(r->b.a, "rival");
	const char *limit = "bytes";
	window w = {0}, warm;
	if (isnan(r->expert_bytes) || f->prefill) TRY(decode_window(r, 1, 4, &warm, e));
	if (f->prefill) TRY(prefill_window(r, f->prompt, &warm, e));
	for (int i = 0; i < r->b.passes; i++) {
		before = bench_bandwidth(&r->b);
		TRY(f->prefill ? prefill_window(r, f->prompt, &w, e) : decode_window(r, f->sequences, f->prompt, &w, e));
		after = bench_bandwidth(&r->b);
		double steps = f->prefill ? 1 : w.steps, scale = f->prefill ? w.steps : 1;
		w.weights *= scale, w.experts *= scale, w.state *= scale, w.flops *= scale, w.distinct *= scale;
		us[i] = w.s / steps * 1e6;
		bytes = w.weights + w.experts + w.state + (f->prefill ? 0 : w.kv);
		share[i] = bench_bound(bytes, before > after ? before : after, w.flops, r->b.peak.best, &limit) / (w.s / steps);
		if (!isfinite(bytes) || !isfinite(w.flops)) share[i] = NAN;
		ours[i] = (f->prefill ? (double)f->prompt : f->sequences) / (us[i] * 1e-6);
		if (versus) TRY(bench_rival(r->b.a, &rival[i], e));
	}
	bench_spread mine = bench_spread_of(ours, r->b.passes), its = versus ? bench_spread_of(rival, r->b.passes) : mine;
	tell(r, f, bench_spread_of(us, r->b.passes), bench_spread_of(share, r->b.passes), &w, bytes, before, after, limit, &mine,
	    versus ? &its : NULL);
	return NH_OK;
}

static nh_status figures(runner *r, nh_error *e)
{
	const cmd_args *a = r->b.a;
	int64_t list[LIST_MAX];
	if (strcmp(r->b.what, "prefill") == 0) {
		const figure f = {.sequences = 1, .prompt = r->prompt, .prefill = true};
		return measure(r, &f, e);
	}
	bool batch = strcmp(r->b.what, "batch") == 0, context = strcmp(r->b.what, "context") == 0;
	int n =
	    !batch && !context ? 1 : bench_list(batch ? cmd_string(a, "batch", "1,8,32") : cmd_string(a, "context", "1k,4k"), list, LIST_MAX);
	if (n < 1) return ERR(e, NH_ERR_ARG, "--%s: expected numbers such as %s", batch ? "batch" : "context", batch ? "1,8,32" : "1k,32k");
	for (int i = 0; i < n; i++) {
		const figure f = {.sequences = batch ? (int)list[i] : 1, .prompt = context ? list[i] : r->prompt};
		TRY(measure(r, &f, e));
	}
	return NH_OK;
}

/* --- opening --- */

static int64_t largest(const char *text, int64_t at_least)
{
	int64_t list[LIST_MAX];
	int n = bench_list(text, list, LIST_MAX);
	for (int i = 0; i < n; i++) at_least = list[i] > at_least ? list[i] : at_least;
	return at_least;
}

static nh_status open_model(runner *r, nh_error *e)
{
	const cmd_args *a = r->b.a;
	nh_engine_options eo;
	char *path = NULL;
	bool batch = strcmp(r->b.what, "batch") == 0, context = strcmp(r->b.what, "context") == 0;
	int64_t most = batch ? largest(cmd_string(a, "batch", "1,8,32"), 1) : 1;
	int64_t longest = context ? largest(cmd_string(a, "context", "1k,4k"), 1) : r->prompt;
	if (most > SEQUENCES_MAX) return ERR(e, NH_ERR_ARG, "--batch: %lld sequences, at most %d", (long long)most, SEQUENCES_MAX);
	if (!cmd_given(a, "like")) TRY(cmd_model_path(a, cmd_operand(a, 1), &path, e));
	int64_t begin = clock_us();
	nh_status s = cmd_open(a, path, NULL, NULL, &r->model, NULL, e);
	mem_free(path);
	TRY(s);
	double load_s = (double)(clock_us() - begin) * 1e-6;
	nh_model_get_info(r->model, &r->info, sizeof r->info);
	nh_engine_options_init(&eo, sizeof eo);
	eo.max_sequences = (int32_t)most;
	eo.max_context = longest + r->tokens + 8 * most + 8;
	eo.step_tokens = (int32_t)(most * r->prompt > 512 && batch ? most * r->prompt : 512);
	eo.no_prefix_cache = true;
	eo.memory_bytes = cmd_bytes(a, "memory", 0);
	TRY(nh_engine_open(&r->engine, r->model, &eo, e));
	json_t *h = r->b.head;
	json_object_set_new(h, "model", json_string(r->info.name));
	json_object_set_new(h, "pattern", json_string(r->info.pattern));
	json_object_set_new(h, "formats", json_string(r->info.formats));
	json_object_set_new(h, "arm", json_string(r->info.arm));
	json_object_set_new(h, "tier", json_string(r->info.tier ? r->info.tier : ""));
	json_object_set_new(h, "numerics", json_string(r->info.numerics));
	json_object_set_new(h, "kv_dtype", json_string(r->info.kv_dtype));
	json_object_set_new(h, "load_seconds", json_real(load_s));
	json_object_set_new(h, "load_bytes_s", json_real((double)r->info.weight_bytes / load_s));
	json_object_set_new(h, "weight_bytes", json_integer((json_int_t)r->info.weight_bytes));
	json_object_set_new(h, "counted", json_boolean(!cmd_flag(a, "no-count")));
	if (!cmd_flag(a, "json"))
		cmd_outf("model %s, pattern %s, %s; arm %s, tier %s, profile %s, threads %d; loaded in %.2f s (%.2f GB/s)\n", r->info.name,
		    r->info.pattern, r->info.formats, r->info.arm, r->info.tier ? r->info.tier : "", r->info.numerics, probe_threads(r->b.probe),
		    load_s, (double)r->info.weight_bytes / load_s / 1e9);
	return NH_OK;
}

int bench_run_model(const cmd_args *a)
{
	nh_error e = {0};
	runner r = {.tokens = cmd_int(a, "tokens", 64), .expert_bytes = NAN};
	const char *what = cmd_operand(a, 0);
	r.prompt = cmd_int(a, "prompt", strcmp(what, "prefill") == 0 ? 512 : 16);
	if (r.tokens < 3) return cmd_bad_usage(a, "--tokens: is %lld: a window needs at least 3", (long long)r.tokens);
	if (cmd_operands(a) > 2) return cmd_bad_usage(a, "%s: expected one model", what);
	nh_status s = bench_begin(&r.b, a, what, true, &e);
	if (s == NH_OK) s = open_model(&r, &e);
	if (s == NH_OK) s = figures(&r, &e);
	if (s == NH_OK) s = bench_finish(&r.b, &e);
	nh_engine_close(r.engine);
	nh_model_close(r.model);
	bench_deinit(&r.b);
	return s == NH_OK ? CMD_OK : s == NH_ERR_ARG ? cmd_bad_usage(a, "%s", e.text) : cmd_fail_error(a, s, &e);
}
