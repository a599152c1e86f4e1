/* SPDX-License-Identifier: Apache-2.0
 * bench_text.c: `nemotron bench tokenize FILE` and `nemotron bench load MODEL`: what happens before the first step.
 * The invariant that breaks first: a file is read before the clock starts.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/base_clock.h"
#include "base/base_file.h"
#include "base/base_mem.h"
#include "cmd/bench/bench.h"

static nh_status tokenize(bench *b, const char *path, const char *file, nh_error *e)
{
	double us[BENCH_PASSES_MAX], rate[BENCH_PASSES_MAX], load[BENCH_PASSES_MAX], rival[BENCH_PASSES_MAX];
	file_map map = {0};
	nh_tokenizer *t = NULL;
	size_t count = 0;
	nh_status s = file_map_open(&map, file, e);
	for (int i = 0; s == NH_OK && i < b->passes; i++) {
		int32_t *ids = NULL;
		nh_tokenizer_close(t);
		t = NULL;
		int64_t begin = clock_ns();
		s = nh_tokenizer_open(&t, path, e);
		int64_t opened = clock_ns();
		if (s == NH_OK) s = nh_tokenize(t, (const char *)map.data, map.size, 0, &ids, &count, e);
		int64_t end = clock_ns();
		nh_free(ids);
		if (s == NH_OK && (end <= opened || map.size == 0)) s = ERR(e, NH_ERR_ARG, "%s: %zu bytes took no time", file, map.size);
		if (s == NH_OK && cmd_interrupted()) s = ERR(e, NH_ERR_CANCELLED, "interrupted");
		if (s == NH_OK && cmd_given(b->a, "rival")) s = bench_rival(b->a, &rival[i], e);
		load[i] = (double)(opened - begin) / 1e3;
		us[i] = (double)(end - opened) / 1e3;
		rate[i] = (double)map.size / us[i];
	}
	if (s == NH_OK) {
		bench_spread l = bench_spread_of(load, b->passes), u = bench_spread_of(us, b->passes), r = bench_spread_of(rate, b->passes);
		json_t *o = json_pack("{s:s, s:I, s:I}", "bench", "tokenize", "bytes", (json_int_t)map.size, "tokens", (json_int_t)count);
		json_object_set_new(o, "us", bench_spread_json(u));
		json_object_set_new(o, "mb_s", bench_spread_json(r));
		json_object_set_new(o, "open_us", bench_spread_json(l));
		if (!cmd_flag(b->a, "json"))
			cmd_outf("tokenize: %zu bytes, %zu tokens: %.2f MB/s (%.2f to %.2f), one thread; opened in %.1f ms (%.1f to %.1f)\n", map.size,
			    count, r.median, r.min, r.max, l.median / 1e3, l.min / 1e3, l.max / 1e3);
		if (cmd_given(b->a, "rival")) bench_tell_rival(b, o, r, bench_spread_of(rival, b->passes), "MB/s");
		bench_add(b, o);
	}
	nh_tokenizer_close(t);
	file_map_close(&map);
	return s;
}

int bench_run_tokenize(const cmd_args *a)
{
	nh_error e = {0};
	bench b = {0};
	char *path = NULL;
	if (cmd_operands(a) != 2) return cmd_bad_usage(a, "tokenize: expected one file");
	nh_status s = bench_begin(&b, a, "tokenize", false, &e);
	if (s == NH_OK) s = cmd_model_path(a, cmd_string(a, "tokenizer", NULL), &path, &e);
	if (s == NH_OK) s = tokenize(&b, path, cmd_operand(a, 1), &e);
	if (s == NH_OK) s = bench_finish(&b, &e);
	bench_deinit(&b);
	mem_free(path);
	return s == NH_OK ? CMD_OK : s == NH_ERR_ARG ? cmd_bad_usage(a, "%s", e.text) : cmd_fail_error(a, s, &e);
}

static nh_status load(bench *b, const char *path, nh_error *e)
{
	double us[BENCH_PASSES_MAX];
	nh_model_info info = {0};
	struct rusage use;
	json_t *o = json_object();
	nh_status s = NH_OK;
	int64_t begin = 0;
	for (int i = 0; s == NH_OK && i < b->passes; i++) {
		nh_model *m = NULL;
		nh_engine *g = NULL;
		begin = clock_us();
		s = cmd_open(b->a, path, NULL, NULL, &m, &g, e);
		us[i] = (double)(clock_us() - begin);
		if (s == NH_OK) nh_model_get_info(m, &info, sizeof info);
		if (s == NH_OK && i == 0) {
			json_object_set_new(o, "model", json_string(info.name));
			json_object_set_new(o, "arm", json_string(info.arm));
		}
		nh_engine_close(g);
		nh_model_close(m);
		if (s == NH_OK && cmd_interrupted()) s = ERR(e, NH_ERR_CANCELLED, "interrupted");
	}
	if (s != NH_OK) {
		json_decref(o);
		return s;
	}
	bench_spread u = bench_spread_of(us, b->passes);
	double peak = getrusage(RUSAGE_SELF, &use) == 0 ? (double)use.ru_maxrss * 1024 : NAN,
	       rate = (double)info.weight_bytes / (u.median * 1e-6);
	json_object_set_new(o, "bench", json_string("load"));
	json_object_set_new(o, "us", bench_spread_json(u));
	json_object_set_new(o, "bytes", json_integer((json_int_t)info.weight_bytes));
	json_object_set_new(o, "bytes_s", bench_real(rate));
	json_object_set_new(o, "peak_rss_bytes", bench_real(peak));
	bench_add(b, o);
	if (!cmd_flag(b->a, "json"))
		cmd_outf("load: %.3f s to ready (%.3f to %.3f, %d times), %.3f GB of weights, %.2f GB/s; peak memory %s GB\n", u.median / 1e6,
		    u.min / 1e6, u.max / 1e6, u.n, (double)info.weight_bytes / 1e9, rate / 1e9, bench_text(peak / 1e9, 3));
	return NH_OK;
}

int bench_run_load(const cmd_args *a)
{
	nh_error e = {0};
	bench b = {0};
	char *path = NULL;
	if (cmd_operands(a) > 2) return cmd_bad_usage(a, "load: expected one model");
	nh_status s = bench_begin(&b, a, "load", false, &e);
	if (s == NH_OK && !cmd_given(a, "like")) s = cmd_model_path(a, cmd_operand(a, 1), &path, &e);
	if (s == NH_OK) s = load(&b, path, &e);
	if (s == NH_OK) s = bench_finish(&b, &e);
	bench_deinit(&b);
	mem_free(path);
	return s == NH_OK ? CMD_OK : s == NH_ERR_ARG ? cmd_bad_usage(a, "%s", e.text) : cmd_fail_error(a, s, &e);
}
