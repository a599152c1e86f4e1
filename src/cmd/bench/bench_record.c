/* SPDX-License-Identifier: Apache-2.0
 * bench_record.c: records on disk, and `nemotron bench compare`: the ratios of two of them. See bench.h.
 * The invariant that breaks first: figures of different silicon are never divided unless the user says so.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base_file.h"
#include "base/base_json.h"
#include "cmd/bench/bench.h"

nh_status bench_record_write(const char *path, const json_t *record, nh_error *e)
{
	file_writer w = {0};
	char *text = json_dumps(record, JSON_INDENT(1) | JSON_REAL_PRECISION(8));
	if (!text) return ERR_NOMEM(e);
	nh_status s = file_writer_open(&w, path, e);
	if (s == NH_OK) {
		file_writer_put(&w, text, strlen(text));
		file_writer_put(&w, "\n", 1);
		s = file_writer_commit(&w, e);
	}
	file_writer_abort(&w);
	free(text);
	return s;
}

nh_status bench_record_read(const char *path, json_t **out, nh_error *e)
{
	json_error_t je;
	*out = json_load_file(path, 0, &je);
	if (!*out) return ERR(e, NH_ERR_FORMAT, "%s: %s (line %d)", path, je.text, je.line);
	const char *tool = json_string_value(json_object_get(*out, "tool"));
	if (tool && strcmp(tool, "nemotron bench") == 0 && json_is_array(json_object_get(*out, "results"))) return NH_OK;
	nh_status s = ERR(e, NH_ERR_FORMAT, "%s: tool: is %.60s, expected a record of nemotron bench", path, tool ? tool : "absent");
	json_decref(*out);
	*out = NULL;
	return s;
}

/* --- compare --- */

static const char *text_at(const json_t *o, const char *key)
{
	const char *v = json_string_value(json_object_get(o, key));
	return v ? v : "";
}

/* NULL where both are of one kind of machine, else the key that differs. */
static const char *differs(const json_t *a, const json_t *b)
{
	static const char *const KEYS[] = {"cpu", "flags"};
	const json_t *m = json_object_get(a, "machine"), *n = json_object_get(b, "machine");
	for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++) {
		const char *x = text_at(m, KEYS[i]), *y = text_at(n, KEYS[i]);
		if (*x == 0 || strcmp(x, y) != 0) return KEYS[i];
	}
	return NULL;
}

/* What a result is of: the values of these keys. */
static void label(const json_t *r, char *out, size_t size)
{
	static const char *const KEYS[] = {"bench", "op", "name", "format", "shape", "form", "rows", "context", "sequences", "prompt"};
	size_t n = 0;
	out[0] = 0;
	for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS && n < size; i++) {
		const json_t *v = json_object_get(r, KEYS[i]);
		int w = 0;
		if (json_is_string(v)) w = snprintf(out + n, size - n, "%s%s", n ? " " : "", json_string_value(v));
		else if (json_is_integer(v) && json_integer_value(v) != 0)
			w = snprintf(out + n, size - n, "%s%s %lld", n ? " " : "", KEYS[i], (long long)json_integer_value(v));
		n += w > 0 ? (size_t)w : 0;
	}
}

static double median_at(const json_t *r, const char *key)
{
	const json_t *v = json_object_get(json_object_get(r, key), "median");
	return json_is_number(v) ? json_number_value(v) : NAN;
}

static const json_t *same_result(const json_t *list, const char *wanted)
{
	size_t i;
	json_t *r;
	char text[256];
	json_array_foreach((json_t *)(uintptr_t)list, i, r)
	{
		label(r, text, sizeof text);
		if (strcmp(text, wanted) == 0) return r;
	}
	return NULL;
}

static int show(const cmd_args *a, const json_t *x, const json_t *y)
{
	size_t i, pairs = 0;
	json_t *r, *list = json_array();
	bool json = cmd_flag(a, "json");
	if (!json) cmd_outf("%-64s %12s %12s %9s %9s %9s\n", "", "us A", "us B", "A / B", "share A", "share B");
	json_array_foreach(json_object_get(x, "results"), i, r)
	{
		char text[256];
		label(r, text, sizeof text);
		const json_t *other = same_result(json_object_get(y, "results"), text);
		if (!other) continue;
		double p = median_at(r, "us"), q = median_at(other, "us"), share = median_at(r, "share_of_bound"),
		       with = median_at(other, "share_of_bound");
		pairs++;
		if (json)
			json_array_append_new(
			    list, json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "of", text, "us_a", bench_real(p), "us_b", bench_real(q), "ratio",
			              bench_real(p / q), "share_a", bench_real(share), "share_b", bench_real(with)));
		else
			cmd_outf("%-64s %12s %12s %9s %9s %9s\n", text, bench_text(p, 2), bench_text(q, 2), bench_text(p / q, 3), bench_text(share, 3),
			    bench_text(with, 3));
	}
	if (json) cmd_out_json(list, 2);
	else json_decref(list);
	return pairs ? CMD_OK : cmd_fail(a, "the records have no figure in common");
}

int bench_run_compare(const cmd_args *a)
{
	nh_error e = {0};
	json_t *x = NULL, *y = NULL;
	if (cmd_operands(a) != 3) return cmd_bad_usage(a, "compare: expected two record files");
	nh_status s = bench_record_read(cmd_operand(a, 1), &x, &e);
	if (s == NH_OK) s = bench_record_read(cmd_operand(a, 2), &y, &e);
	int status = CMD_OK;
	const char *key = s == NH_OK ? differs(x, y) : NULL;
	if (s != NH_OK) status = cmd_fail_error(a, s, &e);
	else if (key && !cmd_flag(a, "any-machine"))
		status =
		    cmd_fail(a, "%s: machine.%s: is \"%.200s\", %s has \"%.200s\": other silicon, --any-machine divides anyway", cmd_operand(a, 1),
		        key, text_at(json_object_get(x, "machine"), key), cmd_operand(a, 2), text_at(json_object_get(y, "machine"), key));
	else status = show(a, x, y);
	json_decref(x);
	json_decref(y);
	return status;
}
