/* SPDX-License-Identifier: Apache-2.0
 * verify.c: the command: which golden, which checkpoint, which profile, which instrument. It refuses rather than judge what cannot be compared.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/base_mem.h"
#include "cmd/verify/verify.h"

void verify_say(const verify *v, const char *format, ...)
{
	if (v->json) return;
	char line[1024];
	va_list args;
	va_start(args, format);
	int n = vsnprintf(line, sizeof line, format, args);
	va_end(args);
	if (n > 0) cmd_out(line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

/* The profile whose choices are the golden's; NULL where this program has none. */
static const char *profile_of(const golden *g)
{
	nh_profile p;
	for (size_t i = 0; nh_profile_at(i, &p, sizeof p); i++)
		if (strcmp(p.rounding, g->numerics.rounding) == 0 && strcmp(p.w4a4, g->numerics.w4a4) == 0 &&
		    strcmp(p.fp8_attention, g->numerics.fp8_attention) == 0 && strcmp(p.fp8_sums, g->numerics.fp8_sums) == 0 &&
		    strcmp(p.router_weight, g->numerics.router_weight) == 0)
			return p.name; /* static text */
	/* transformers goldens name the rounding alone */
	return strcmp(g->numerics.rounding, "none") == 0 && !*g->numerics.w4a4 ? "exact" : NULL;
}

/* Which profile to open, or NULL for the arm's default. */
static const char *choose(const cmd_args *a, const golden *g)
{
	const char *asked = cmd_string(a, "numerics", NULL);
	return asked || g->gate == GOLDEN_STRICT ? asked : profile_of(g);
}

static bool gate_names(const golden *g, const char *profile)
{
	const char *name = strcmp(profile, "exact-wo") == 0 ? "exact" : profile; /* a strict golden's "exact" is the weight-only one */
	for (size_t i = 0; i < json_array_size(g->profiles); i++) {
		const char *p = json_string_value(json_array_get(g->profiles, i));
		if (p && strcmp(p, name) == 0) return true;
	}
	return g->profiles == NULL;
}

static bool native(const char *profile)
{
	nh_profile p;
	for (size_t i = 0; nh_profile_at(i, &p, sizeof p); i++)
		if (strcmp(p.name, profile) == 0) return strcmp(p.w4a4, "native") == 0;
	return false;
}

static int refuse(verify *v, const char *format, ...) BASE_PRINTF(2, 3);
static int refuse(verify *v, const char *format, ...)
{
	char why[900];
	va_list args;
	va_start(args, format);
	vsnprintf(why, sizeof why, format, args);
	va_end(args);
	verify_say(v, "REFUSED: %s\n", why);
	json_object_set_new(v->report, "verdict", json_string("REFUSED"));
	json_object_set_new(v->report, "why", json_string(why));
	return VERIFY_REFUSED;
}

/* Combinations that no verdict can be given on. VERIFY_PASS: none of them. */
static int may_judge(verify *v)
{
	const golden *g = v->g;
	const char *profile = v->info.numerics, *wanted = profile_of(g);
	if (v->info.has_w4a4 && strcmp(g->numerics.w4a4, "weight_only") == 0 && native(profile))
		return refuse(v, "the golden was made with weight-only W4A4, profile %s computes W4A4 natively", profile);
	if (g->gate == GOLDEN_STRICT && !gate_names(g, profile))
		return refuse(v, "profile %s is not in the golden's gate; --numerics chooses another", profile);
	if (g->gate == GOLDEN_EXACT && (!wanted || (strcmp(wanted, profile) != 0 && (v->info.has_w4a4 || strncmp(profile, "exact", 5) != 0))))
		return refuse(v, "an exact golden made with %s cannot be judged under profile %s",
		    wanted ? wanted : "numerics that this program does not have", profile);
	return VERIFY_PASS;
}

static void introduce(verify *v)
{
	const golden *g = v->g;
	const char *wanted = profile_of(g);
	verify_say(v,
	    "golden   %s\noracle   %s: rounding %s, w4a4 %s, fp8_attention %s, fp8_sums %s, router_weight %s\nmodel    %s\nours     arm %s, "
	    "profile %s%s, KV %s\n",
	    g->path, g->oracle, g->numerics.rounding, g->numerics.w4a4, g->numerics.fp8_attention, g->numerics.fp8_sums,
	    g->numerics.router_weight, v->info.path, v->info.arm, v->info.numerics,
	    wanted && strcmp(wanted, v->info.numerics) == 0 ? " (the golden's)" : " (NOT the golden's)", v->info.kv_dtype);
	json_object_set_new(v->report, "golden", json_string(g->path));
	json_object_set_new(v->report, "oracle", json_string(g->oracle));
	json_object_set_new(v->report, "golden_profile", wanted ? json_string(wanted) : json_null());
	json_object_set_new(v->report, "model", json_string(v->info.path));
	json_object_set_new(v->report, "arm", json_string(v->info.arm));
	json_object_set_new(v->report, "numerics", json_string(v->info.numerics));
	json_object_set_new(v->report, "disagreements", json_array());
}

static int judge(verify *v, const golden *noise, nh_error *e)
{
	switch (v->g->gate) {
	case GOLDEN_EXACT: return verify_exact(v, e);
	case GOLDEN_STRICT: return verify_strict(v, e);
	default: return verify_distance(v, noise, e);
	}
}

static int with_goldens(const cmd_args *a, const char *model_path, golden *g, golden *noise, nh_error *e)
{
	const char *other = cmd_string(a, "noise", NULL);
	cmd_progress progress;
	cmd_progress_init(&progress, a);
	if (golden_load(g, cmd_operand(a, 1), e) != NH_OK || (other && golden_load(noise, other, e) != NH_OK)) return VERIFY_ERROR;
	verify v = {.a = a, .g = g, .json = cmd_flag(a, "json"), .report = json_object()};
	int status = VERIFY_ERROR;
	if (cmd_open_on(a, model_path, g->gate == GOLDEN_EXACT ? "ref" : NULL, choose(a, g), NULL, &v.model, &v.engine, e) == NH_OK) {
		nh_model_get_info(v.model, &v.info, sizeof v.info);
		introduce(&v);
		nh_error differs = {0};
		nh_status same = golden_same_files(g->path, json_object_get(g->document, "model"), v.model, cmd_progress_show, &progress, &differs);
		if (same == NH_OK && other)
			same =
			    golden_same_files(noise->path, json_object_get(noise->document, "model"), v.model, cmd_progress_show, &progress, &differs);
		cmd_progress_clear(&progress);
		if (same == NH_ERR_CONFIG) status = refuse(&v, "%s", differs.text);
		else if (same != NH_OK) *e = differs;
		else if ((status = may_judge(&v)) == VERIFY_PASS) status = judge(&v, other ? noise : NULL, e);
	}
	if (v.json && status != VERIFY_ERROR) cmd_out_json(v.report, 2);
	else json_decref(v.report);
	verify_let_go(&v);
	nh_engine_close(v.engine);
	nh_model_close(v.model);
	return status;
}

static int run(const cmd_args *a)
{
	nh_error e = {0};
	golden g = {0}, noise = {0};
	char *path = NULL;
	int status = VERIFY_ERROR;
	const char *trace = cmd_string(a, "trace", NULL);
	if (!trace && cmd_operands(a) < 2) return cmd_bad_usage(a, "a golden file is needed, or --trace FILE");
	if (cmd_model_path(a, cmd_operand(a, 0), &path, &e) == NH_OK)
		status = trace ? verify_trace(a, path, trace, &e) : with_goldens(a, path, &g, &noise, &e);
	golden_free(&g);
	golden_free(&noise);
	mem_free(path);
	if (status == VERIFY_ERROR) cmd_fail_error(a, e.code ? (nh_status)e.code : NH_ERR_INTERNAL, &e);
	return status;
}

static const cmd_option options[] = {
    {"noise", 0, CMD_STRING, "OTHER.json", "another run of the golden's engine: judge by distance against it", 0, 0},
    {"trace", 0, CMD_STRING, "FILE", "compare a free run layer by layer with a trace (.safetensors)", 0, 0},
    {"bands", 0, CMD_STRING, "FILE", "bands for --trace (default: the program's own records)", 0, 0},
    {"numerics", 0, CMD_STRING, "PROFILE", "exact, exact-wo, portable or hopper (default: the golden's, else the arm's)", 0, 0},
    CMD_OPTION_ARM,
    CMD_OPTION_KV,
    CMD_OPTION_CHECK,
    CMD_OPTION_JSON,
    CMD_OPTION_CACHE,
    CMD_OPTION_QUIET,
    CMD_OPTION_END,
};

const cmd_def cmd_verify = {
    .name = "verify",
    .summary = "prove a model's tokens against a golden file",
    .usage = "MODEL [GOLDEN.json]",
    .about = "The golden's gate picks the instrument:\n"
             "  exact     every log-probability and arg-max of a float64 oracle, its tokens forced\n"
             "  strict    a free greedy run gives the golden's tokens: STRICT PASS, DIVERGENCE or SHORT\n"
             "  distance  with --noise: no farther from the golden than its engine is from itself: NEAR or FAR\n"
             "An exact golden is judged on the ref arm, which computes in float64, unless --arm says otherwise.\n"
             "A golden of another checkpoint, or one that the profile cannot be judged by, is REFUSED.\n"
             "Exit status: 0 pass, 1 differs, 2 short (or wrong arguments), 3 refused, 4 could not run.",
    .examples = "nemotron verify models/tiny tests/golden/data/tiny-nvfp4.f64-exact.json\n"
                "nemotron verify MODEL vllm.strict.json --numerics hopper\n"
                "nemotron verify MODEL vllm-eager.json --noise vllm-compiled.json\n"
                "nemotron verify MODEL --trace layers.safetensors\n",
    .options = options,
    .min_operands = 1,
    .max_operands = 2,
    .run = run,
};
