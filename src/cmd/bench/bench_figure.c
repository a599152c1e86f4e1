/* SPDX-License-Identifier: Apache-2.0
 * bench_figure.c: medians, bounds, lists, and the run that holds them: see bench.h. Knows no op and no model.
 * The invariant that breaks first: what is not finite is told as not measured.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/base_mem.h"
#include "cmd/bench/bench.h"

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

bench_spread bench_spread_of(double *values, int n)
{
	qsort(values, (size_t)n, sizeof *values, ascending);
	return (bench_spread){
	    .median = n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2, .min = values[0], .max = values[n - 1], .n = n};
}

double bench_bound(double bytes, double bytes_s, double flops, double flops_s, const char **limit)
{
	double memory = bytes_s > 0 ? bytes / bytes_s : 0, maths = flops_s > 0 ? flops / flops_s : 0;
	if (limit) *limit = memory >= maths ? "bytes" : "flops";
	return memory >= maths ? memory : maths;
}

json_t *bench_real(double v) { return isfinite(v) ? json_real(v) : json_null(); }

json_t *bench_spread_json(bench_spread s)
{
	json_t *o = json_object();
	json_object_set_new(o, "median", bench_real(s.median));
	json_object_set_new(o, "min", bench_real(s.min));
	json_object_set_new(o, "max", bench_real(s.max));
	json_object_set_new(o, "passes", json_integer(s.n));
	return o;
}

const char *bench_text(double v, int digits)
{
	static char text[4][48];
	static unsigned turn;
	char *t = text[turn++ % 4];
	if (isfinite(v)) snprintf(t, sizeof text[0], "%.*f", digits, v);
	else snprintf(t, sizeof text[0], "UNMEASURED");
	return t;
}

int bench_list(const char *text, int64_t *out, int max)
{
	int n = 0;
	while (n < max) {
		char *end;
		long long v = strtoll(text, &end, 10);
		if (end == text || v < 1 || v > (long long)1 << 40) return -1;
		if (*end == 'k') {
			v *= 1024;
			end++;
		}
		out[n++] = v;
		if (*end == 0) return n;
		if (*end != ',') return -1;
		text = end + 1;
	}
	return -1;
}

bool bench_named(const char *list, const char *word)
{
	size_t len = strlen(word);
	for (const char *at = list; at && *at;) {
		size_t n = strcspn(at, ",");
		if (n == len && memcmp(at, word, n) == 0) return true;
		at += n + (at[n] == ',');
	}
	return list == NULL;
}

void bench_tell_rival(bench *b, json_t *result, bench_spread ours, bench_spread rival, const char *unit)
{
	json_object_set_new(result, "ours", bench_spread_json(ours));
	json_object_set_new(result, "rival", bench_spread_json(rival));
	json_object_set_new(result, "rival_ratio", bench_real(ours.median / rival.median));
	json_object_set_new(result, "rival_command", json_string(cmd_string(b->a, "rival", "")));
	if (cmd_flag(b->a, "json")) return;
	cmd_outf("  rival %.2f %s (%.2f to %.2f), ours %.2f (%.2f to %.2f): %.3f times\n", rival.median, unit, rival.min, rival.max,
	    ours.median, ours.min, ours.max, ours.median / rival.median);
}

/* --- the run --- */

double bench_bandwidth(bench *b)
{
	probe_reading r;
	probe_read(b->probe, &r);
	return r.bytes_s;
}

static void today(char out[16])
{
	time_t now = time(NULL);
	struct tm t;
	gmtime_r(&now, &t);
	strftime(out, 16, "%Y-%m-%d", &t);
}

static json_t *probe_json(const bench *b)
{
	probe_reading r;
	probe_read_all(b->probe, &r);
	json_t *each = json_object(), *o = json_object();
	for (int i = 0; i < r.loops; i++) json_object_set_new(each, r.name[i], json_real(r.each[i]));
	json_object_set_new(o, "threads", json_integer(probe_threads(b->probe)));
	json_object_set_new(o, "buffer_bytes", json_integer((json_int_t)probe_bytes(b->probe)));
	json_object_set_new(o, "clock", json_string(b->thread_time ? "thread" : "wall"));
	json_object_set_new(o, "read_bytes_s", json_real(r.bytes_s));
	json_object_set_new(o, "read_loop", json_string(r.loop));
	json_object_set_new(o, "loops", each);
	json_object_set_new(o, "cache_bytes_s", json_real(b->cache_bytes_s));
	json_object_set_new(o, "f32_flops_s", bench_real(b->peak.f32 > 0 ? b->peak.f32 : NAN));
	json_object_set_new(o, "bf16_flops_s", bench_real(b->peak.bf16 > 0 ? b->peak.bf16 : NAN));
	return o;
}

nh_status bench_begin(bench *b, const cmd_args *a, const char *what, bool with_probe, nh_error *e)
{
	char date[16];
	*b = (bench){.a = a, .what = what, .passes = (int)cmd_int(a, "passes", 5), .thread_time = cmd_flag(a, "thread-time")};
	if (b->thread_time && cmd_int(a, "threads", 0) != 1)
		return ERR(e, NH_ERR_ARG, "--thread-time: the processor time of one thread, so it needs --threads 1");
	cmd_on_interrupt(NULL, NULL);
	today(date);
	b->results = json_array();
	b->head = json_pack("{s:s, s:s, s:s, s:s, s:o}", "tool", "nemotron bench", "commit", bench_commit(), "date", date, "bench", what,
	    "machine", bench_machine());
	if (!b->results || !b->head) return ERR_NOMEM(e);
	if (!with_probe) return NH_OK;
	const probe_options po = {
	    .threads = (int)cmd_int(a, "threads", 0), .bytes = (size_t)cmd_bytes(a, "probe-bytes", 0), .thread_time = b->thread_time};
	TRY(probe_open(&b->probe, &po, e));
	probe_maths(b->probe, &b->peak);
	b->cache_bytes_s = probe_cache(b->probe);
	json_object_set_new(b->head, "probe", probe_json(b));
	return NH_OK;
}

void bench_add(bench *b, json_t *result) { json_array_append_new(b->results, result); }

nh_status bench_finish(bench *b, nh_error *e)
{
	const char *record = cmd_string(b->a, "record", NULL);
	json_object_set(b->head, "results", b->results);
	if (record) TRY(bench_record_write(record, b->head, e));
	if (cmd_flag(b->a, "json")) {
		cmd_out_json(b->head, 2);
		b->head = NULL;
	}
	return NH_OK;
}

void bench_deinit(bench *b)
{
	probe_close(b->probe);
	json_decref(b->head);
	json_decref(b->results);
	*b = (bench){0};
}
