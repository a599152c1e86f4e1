/* SPDX-License-Identifier: Apache-2.0
 * test_inspect.c: nemotron inspect on the published shapes gives the published sizes, on files it balances them, and what is missing,
 * wrong or left over is named.
 */
#include "helper_cmd.h"

#include <jansson.h>
#include <math.h>
#include <string.h>
#include <sys/resource.h>

#include "base/base_file.h"
#include "base/base_mem.h"

#define CONFIGS NH_SOURCE_DIR "/tests/data/configs/"

static json_t *inspect_json(int want, const char *arguments)
{
	outcome o = run_program(NULL, want, "$N inspect --json %s", arguments);
	json_error_t e;
	json_t *v = json_loadb(o.out.data, o.out.len, 0, &e);
	if (v == NULL) fail_msg("%s: %s", arguments, e.text);
	outcome_free(&o);
	return v;
}

/* The number at "a.b.c". */
static double number(const json_t *v, const char *path)
{
	char key[64];
	const char *p = path;
	while (*p != '\0') {
		size_t n = strcspn(p, ".");
		snprintf(key, sizeof key, "%.*s", (int)n, p);
		v = json_object_get(v, key);
		p += n + (p[n] == '.');
	}
	if (!json_is_number(v)) fail_msg("%s is no number", path);
	return json_number_value(v);
}

static size_t g_compared;

/* Equal within half a unit of the last digit that the table gives. */
static void near(const char *what, const json_t *v, const char *path, double scale, double table, double unit)
{
	double got = number(v, path) / scale;
	if (table < 0) return;
	/* 0.52: one number of the table (h-56b's bytes) was rounded twice. */
	if (fabs(got - table) > 0.52 * unit) fail_msg("%s: %s is %.6g, the table says %g", what, path, got, table);
	g_compared++;
}

/* Sizes and reads per token of the published models, in units of 1e9, as they were computed from the dimensions by other means; -1: the table
 * says nothing. unit: of the table's last digit. */
static const struct {
	const char *file;
	double params, params_unit, bytes, bytes_unit, read, read_unit, params_read;
} sizes[] = {
    {"h-4b", 4.489, .001, 8.98, .01, 8.17, .01, -1},
    {"h-8b", 8.101, .001, 16.20, .01, 15.13, .01, -1},
    {"h-47b", 46.79, .01, 93.6, .1, 91.4, .1, -1},
    {"h-56b", 56.32, .01, 112.7, .1, 110.5, .1, -1},
    {"nano-9b-v2", 8.888, .001, 17.78, .01, 16.60, .01, -1},
    {"nano-9b-v2-fp8", 8.888, .001, 10.29, .01, 9.11, .01, -1},
    {"nano-12b-v2", 12.31, .01, 24.62, .01, 23.28, .01, -1},
    {"nano-12b-v2-fp8", 12.31, .01, 14.03, .01, 12.69, .01, -1},
    {"nano-4b", 3.974, .001, 7.95, .01, 7.13, .01, -1},
    {"nano-4b-fp8", 3.974, .001, 4.95, .01, 4.13, .01, -1},
    {"nano-30b", 31.58, .01, 63.2, .1, 6.46, .01, 3.23},
    {"nano-30b-fp8", 31.58, .01, 32.7, .1, 3.98, .01, 3.23},
    {"nano-30b-nvfp4", 31.58, .01, 19.3, .1, 2.89, .01, 3.23},
    {"lightning", 31.58, .01, 63.2, .1, 6.46, .01, 3.23},
    {"lightning-nvfp4", 31.58, .01, 18.889, .001, 2.44, .01, 3.23},
    {"super", 120.67, .01, 241.3, .1, 24.5, .1, 12.23},
    {"super-fp8", 120.67, .01, 122.6, .1, 13.6, .1, 12.23},
    {"super-nvfp4", 120.67, .01, 73.3, .1, 11.5, .1, 12.23},
    {"ultra", 549.3, .1, 1098.6, .1, 110, 1, 54.98},
    {"ultra-nvfp4", 549.3, .1, 329.9, .1, 50.3, .1, 54.98},
};

static void sizes_are_the_published_ones(void **state)
{
	(void)state;
	g_compared = 0;
	for (size_t k = 0; k < ARRAY_LEN(sizes); k++) {
		char path[256];
		snprintf(path, sizeof path, CONFIGS "%s.json", sizes[k].file);
		json_t *v = inspect_json(0, path);
		near(sizes[k].file, v, "params", 1e9, sizes[k].params, sizes[k].params_unit);
		near(sizes[k].file, v, "bytes", 1e9, sizes[k].bytes, sizes[k].bytes_unit);
		near(sizes[k].file, v, "token.read_bytes", 1e9, sizes[k].read, sizes[k].read_unit);
		/* The table's count leaves out norms and convolutions: 0.01 of slack. */
		near(sizes[k].file, v, "token.params_read", 1e9, sizes[k].params_read, .02);
		bool lightning = strncmp(sizes[k].file, "lightning", 9) == 0, super = strncmp(sizes[k].file, "super", 5) == 0,
		     ultra = strncmp(sizes[k].file, "ultra", 5) == 0;
		double mtp = lightning ? 1.335 : super ? 2.94 : ultra ? 11.2 : 0, mtp_bytes = lightning ? 2.67 : super ? 5.9 : ultra ? 22.4 : 0;
		near(sizes[k].file, v, "mtp_params", 1e9, mtp, lightning ? .001 : super ? .01 : .1);
		near(sizes[k].file, v, "mtp_bytes", 1e9, mtp_bytes, lightning ? .01 : .1);
		json_decref(v);
	}
	print_message("%zu numbers of %zu checkpoints\n", g_compared, ARRAY_LEN(sizes));
	assert_int_equal(g_compared, ARRAY_LEN(sizes) * 5 + 10);
}

static const struct {
	const char *file;
	double kv_elements, kv_bytes, ssm, conv;
} states[] = {
    {"h-4b", 8192, 16384, 88080384, 1327104},
    {"h-8b", 8192, 16384, 100663296, 1474560},
    {"h-47b", 10240, 20480, 754974720, 5529600},
    {"h-56b", 20480, 40960, 905969664, 6635520},
    {"nano-9b-v2", 8192, 16384, 141557760, 1990656},
    {"nano-12b-v2", 12288, 24576, 146800640, 2064384},
    {"nano-4b", 8192, 16384, 82575360, 1225728},
    {"nano-30b", 3072, 6144, 48234496, 847872},
    {"nano-30b-fp8", 3072, 3072, 48234496, 847872},
    {"lightning-nvfp4", 3072, 3072, 48234496, 847872},
    {"super", 4096, 8192, 167772160, 2457600},
    {"super-nvfp4", 4096, 4096, 167772160, 2457600},
    {"ultra", 6144, 12288, 402653184, 5308416},
    {"ultra-nvfp4", 6144, 6144, 402653184, 5308416},
};

static void caches_are_the_published_ones(void **state)
{
	(void)state;
	g_compared = 0;
	for (size_t k = 0; k < ARRAY_LEN(states); k++) {
		char path[256];
		snprintf(path, sizeof path, CONFIGS "%s.json", states[k].file);
		json_t *v = inspect_json(0, path);
		near(states[k].file, v, "memory.kv_elements_token", 1, states[k].kv_elements, 0);
		near(states[k].file, v, "memory.kv_bytes_token", 1, states[k].kv_bytes, 0);
		near(states[k].file, v, "memory.ssm_state_bytes", 1, states[k].ssm, 0);
		near(states[k].file, v, "memory.conv_state_bytes", 1, states[k].conv, 0);
		json_decref(v);
	}
	assert_int_equal(g_compared, 4 * ARRAY_LEN(states));
}

/* The read split of a token as model.md 10.3 has it, in MB. */
static void a_token_reads_the_chosen_experts_only(void **state)
{
	(void)state;
	json_t *v = inspect_json(0, CONFIGS "lightning-nvfp4.json --memory 24G --context 4096");
	near("lightning", v, "token.read_by_role.routed experts", 1e6, 774.5, .1);
	near("lightning", v, "token.read_by_role.shared experts", 1e6, 258.2, .1);
	near("lightning", v, "token.read_by_role.head", 1e6, 198.2, .1);
	near("lightning", v, "token.read_by_role.mamba projections", 1e6, 890.3, .1);
	near("lightning", v, "token.read_by_role.attention projections", 1e6, 280.8, .1);
	near("lightning", v, "token.read_by_role.router", 1e6, 31.7, .1);
	near("lightning", v, "token.read_by_role.norms, conv, decays", 1e6, 1.9, .1);
	assert_null(json_object_get(json_object_get(json_object_get(v, "token"), "read_by_role"), "embedding"));
	/* Two flops a parameter that is read, and little else. */
	double flops = number(v, "token.decode_flops"), params = number(v, "token.params_read");
	assert_true(flops > 2 * params * 0.999 && flops < 2 * params * 1.03);
	double fit = floor((24.0 * 1073741824 - number(v, "bytes")) / (48234496 + 847872 + 4096.0 * 3072));
	near("lightning", v, "memory.fit.sequences", 1, fit, 0);
	json_decref(v);
}

static double children_seconds(void)
{
	struct rusage r;
	getrusage(RUSAGE_CHILDREN, &r);
	return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) + 1e-6 * (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec);
}

static void the_published_config_is_quick(void **state)
{
	(void)state;
	const char *file = NH_SHARED_DIR "/data/configs/lightning-30b-nvfp4.config.json";
	if (!file_exists(file)) NOT_RUN("%s is not there", file);
	double best = 1e9; /* processor time, so that a busy machine does not count */
	for (int k = 0; k < 5; k++) {
		double before = children_seconds();
		outcome o = run_program(NULL, 0, "$N inspect %s", file);
		best = fmin(best, children_seconds() - before);
		assert_non_null(strstr(o.out.data, "31.58 B"));
		outcome_free(&o);
	}
	print_message("%.3f s\n", best);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	assert_true(best < 0.2);
#endif
	json_t *v = inspect_json(0, file);
	const json_t *formats = json_object_get(v, "formats"), *g;
	size_t k, fp8 = 0, w4a16 = 0;
	json_array_foreach(formats, k, g)
	{
		const char *format = json_string_value(json_object_get(g, "format"));
		if (strcmp(format, "fp8") == 0) fp8 += (size_t)number(g, "modules");
		if (strcmp(format, "nvfp4-w4a16") == 0) w4a16 += (size_t)number(g, "modules");
	}
	assert_int_equal(fp8, 46);
	assert_int_equal(w4a16, 5935);
	json_decref(v);
}

static void files_are_balanced(void **state)
{
	(void)state;
	outcome o = run_program(NULL, 0, "$N mkmodel -f mixed --mtp --shards 2 $D/m && $N inspect $D/m");
	assert_non_null(strstr(o.out.data, "each used once"));
	assert_non_null(strstr(o.out.data, "identity "));
	assert_non_null(strstr(o.out.data, "quantized_layers: exact key"));
	outcome_free(&o);
	/* The same numbers from the files, from config and index, and from the configuration alone. */
	json_t *files = inspect_json(0, "$D/m");
	outcome c = run_program(NULL, 0, "mkdir $D/i && cp $D/m/*.json $D/i && cp $D/m/config.json $D/alone.json");
	outcome_free(&c);
	json_t *index = inspect_json(0, "$D/i"), *alone = inspect_json(0, "$D/alone.json");
	static const char *const same[] = {"params", "mtp_params", "token.params_read", "token.decode_flops", "memory.kv_bytes_token"};
	for (size_t k = 0; k < ARRAY_LEN(same); k++) {
		if (k != 0 && k != 2) assert_true(number(files, same[k]) == number(alone, same[k]));
		assert_true(number(index, same[k]) == number(alone, same[k]));
	}
	/* Of the files' own: scales of keys and values count as parameters too. */
	assert_true(number(files, "params") == number(alone, "params") + 2);
	assert_string_equal(json_string_value(json_object_get(json_object_get(index, "ledger"), "source")), "index");
	assert_true(json_is_true(json_object_get(json_object_get(index, "ledger"), "balanced")));
	assert_true(json_is_null(json_object_get(json_object_get(alone, "ledger"), "balanced")));
	json_decref(files);
	json_decref(index);
	json_decref(alone);
}

static void every_tensor_is_listed(void **state)
{
	(void)state;
	outcome o = run_program(NULL, 0, "$N mkmodel -f nvfp4 --mtp $D/m && $N inspect --tensors $D/m");
	size_t lines = 0;
	for (const char *p = o.out.data; *p != '\0'; p++) lines += *p == '\n';
	assert_non_null(strstr(o.out.data,
	    "backbone.layers.1.mixer.experts.0.up_proj.weight_scale\tmodel.safetensors\te4m3\t[32,4]\t128\trouted experts\tquant_algo"));
	assert_non_null(strstr(
	    o.out.data, "\nbackbone.layers.2.mixer.in_proj.weight\tmodel.safetensors\tbf16\t[328,64]\t41984\tmamba projections\tignore"));
	assert_non_null(strstr(o.out.data, "\nmtp.layers.0.eh_proj.weight\tmodel.safetensors\tbf16\t[64,128]\t16384\tMTP block"));
	assert_non_null(strstr(o.out.data, "k_proj.k_scale\tmodel.safetensors\tf32\t[1]\t4\tnorms"));
	assert_null(strstr(o.out.data, "not understood"));
	outcome_free(&o);
	json_t *v = inspect_json(0, "--tensors $D/m");
	/* mkmodel's line, the head line, and one line a tensor. */
	assert_int_equal(lines, 2 + json_array_size(json_object_get(v, "tensors")));
	assert_int_equal(json_array_size(json_object_get(v, "tensors")), (size_t)number(v, "ledger.tensors"));
	double sum = 0;
	size_t k;
	const json_t *t;
	json_array_foreach(json_object_get(v, "tensors"), k, t) sum += number(t, "bytes");
	assert_true(sum == number(v, "bytes") + number(v, "mtp_bytes"));
	json_decref(v);
	/* Without files: what the configuration asks for, of the same total. */
	outcome c = run_program(NULL, 0, "cp $D/m/config.json $D/c.json");
	outcome_free(&c);
	v = inspect_json(0, "--tensors $D/c.json");
	double alone = 0;
	json_array_foreach(json_object_get(v, "tensors"), k, t) alone += number(t, "bytes");
	assert_true(alone == number(v, "bytes") + number(v, "mtp_bytes"));
	json_decref(v);
}

static void what_does_not_balance_is_named(void **state)
{
	(void)state;
	/* Another configuration over the same files: wrong shapes, missing and unused tensors. */
	outcome o = run_program(NULL, 0,
	    "$N mkmodel $D/m && $N mkmodel -p MEM*EE -c mamba_head_dim=32 $D/n && cp $D/n/config.json $D/m/config.json && sed -i s/x/x/ "
	    "$D/m/config.json");
	outcome_free(&o);
	o = run_program(NULL, 1, "$N inspect $D/m");
	assert_non_null(strstr(o.out.data, "DOES NOT BALANCE"));
	assert_non_null(strstr(o.out.data, "backbone.layers.0.mixer.in_proj.weight: shape [328, 64], config needs [584, 64]"));
	assert_non_null(strstr(o.out.data, "backbone.layers.5.mixer.gate.weight: not in the files"));
	assert_non_null(strstr(o.out.data, "backbone.layers.5.mixer.up_proj.weight: nothing in the configuration asks for it"));
	assert_non_null(strstr(o.err.data, "nemotron inspect: the tensors do not balance"));
	outcome_free(&o);
	/* The same over an index. */
	o = run_program(NULL, 0, "$N mkmodel --shards 2 $D/s && mkdir $D/i && cp $D/s/model.safetensors.index.json $D/n/config.json $D/i");
	outcome_free(&o);
	o = run_program(NULL, 1, "$N inspect $D/i");
	assert_non_null(strstr(o.out.data, "backbone.layers.5.mixer.gate.weight: not in the index"));
	assert_non_null(strstr(o.out.data, "backbone.layers.5.mixer.up_proj.weight: nothing in the configuration asks for it"));
	outcome_free(&o);
}

static void refusals_are_one_line(void **state)
{
	(void)state;
	dir_put("bad.json", "{\"model_type\":\"llama\"}");
	static const struct {
		const char *arguments, *text;
		int status;
	} rows[] = {{"$D/none", "nemotron inspect: ", 1}, {"$D/bad.json", "llama", 1}, {"--memory lots", "--memory: is lots", 2},
	    {"a b", "too many", 2}};
	for (size_t k = 0; k < ARRAY_LEN(rows); k++) {
		outcome o = run_program(NULL, rows[k].status, "$N inspect %s", rows[k].arguments);
		if (strstr(o.err.data, rows[k].text) == NULL) fail_msg("%s: %s", rows[k].arguments, o.err.data);
		assert_int_equal(o.out.len, 0);
		outcome_free(&o);
	}
}

static void the_built_in_model_is_found(void **state)
{
	(void)state;
	outcome o = run_program(NULL, 0, "cd / && $N inspect --layers");
	assert_non_null(strstr(o.out.data, "MEMEM*EMEMEM*E"));
	assert_non_null(strstr(o.out.data, "727 tensors in 2 files: each used once"));
	assert_non_null(strstr(o.out.data, "   1 E"));
	outcome_free(&o);
	/* Installed: bin/nemotron beside share/nemotron. */
	o = run_program(NULL, 0,
	    "mkdir -p $D/usr/bin $D/usr/share/nemotron/models && cp $N $D/usr/bin && cp -r %s/models/tiny $D/usr/share/nemotron/models && "
	    "$D/usr/bin/nemotron inspect --json",
	    NH_SOURCE_DIR);
	assert_non_null(strstr(o.out.data, "usr/share/nemotron/models/tiny"));
	outcome_free(&o);
	o = run_program(NULL, 1, "mkdir $D/lone && cp $N $D/lone && $D/lone/nemotron inspect");
	assert_non_null(strstr(o.err.data, "name a MODEL"));
	outcome_free(&o);
}

int main(void)
{
	if (program_missing()) return 77;
#define ONE(name) cmocka_unit_test_setup_teardown(name, dir_setup, dir_teardown)
	const struct CMUnitTest tests[] = {ONE(sizes_are_the_published_ones), ONE(caches_are_the_published_ones),
	    ONE(a_token_reads_the_chosen_experts_only), ONE(the_published_config_is_quick), ONE(files_are_balanced),
	    ONE(every_tensor_is_listed), ONE(what_does_not_balance_is_named), ONE(refusals_are_one_line), ONE(the_built_in_model_is_found)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
